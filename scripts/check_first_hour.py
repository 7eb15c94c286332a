#!/usr/bin/env python3
"""What a user does in the first hour, with networks out of Python packages: does every step work?

    check_first_hour.py --divvy target/release/divvy [--folder FOLDER] [--only TEXT] [--jobs N] [--page PAGE.md]

For every model of real_models.py: `inspect` without options, `plan` on two cores of this machine with sizes for open
dimensions of inputs as `inspect` suggests them, `check` with and without `--against`, `report`, `export --format onnx`,
and `run --verify`, which compares every item with the whole model. A step that fails is told with its first line, and
those after it that need its result are left out. `--page` writes a table of it.

Exit status: 1 where a step failed that is not among those known to fail (EXPECTED, with their reasons).
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import measure_runs
import real_models

STEPS = ["inspect", "plan", "check", "against", "report", "export", "run"]
# Steps that cannot work, by model, with the reason.
TEXT = "its inputs are texts, which runs cannot carry"
EXPECTED = {
    "iclabel": {"run": "the model itself fails with batches of 1: ONNX Runtime alone says the same"},
    "iris-regression": {"export": "its results are maps, which no piece can hand on", "run": "likewise"},
    "page-bilinear": {"run": "its input `img_size` holds the size of a picture, which made-up numbers are not"},
    "reading-encoder": {"export": TEXT, "run": TEXT},
}
PATIENCE = 300
# `divvy run` finds ONNX Runtime in the environment of the Python that runs this.
ENVIRONMENT = {"VIRTUAL_ENV": sys.prefix, **os.environ}
OBJECTIVES = ["pipeline", "stream", "latency"]

Row = collections.namedtuple("Row", "name package ops dims objective steps value")


class Failed(Exception):
    pass


def command(*words):
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {PATIENCE} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise Failed(next((line for line in lines if line.startswith("error")), lines[-1]))
    return done.stdout


def first_hour(divvy, model, objective, work):
    """Goes through the steps; for each the word `yes`, the error, or `-` where it was not reached."""
    steps, facts = dict.fromkeys(STEPS, "-"), {}
    hardware, plan = work / "pair.toml", work / "plan.json"
    hardware.write_text(measure_runs.HARDWARE)

    def step(name, *words):
        try:
            facts[name] = command(divvy, *words)
            steps[name] = "yes"
        except Failed as failure:
            steps[name] = str(failure)
        return steps[name] == "yes"

    dims, sizes, ops, value = [], "", "", ""
    if step("inspect", "inspect", model.path, "--json"):
        inspected = json.loads(facts["inspect"])
        ops = inspected["ops"]
        for dim in inspected["open_dimensions"]:
            dims += ["--dim", f"{dim['name']}={dim['suggested']}"]
        sizes = " ".join(dims[1::2])
        question = [model.path, "--on", hardware, *dims]
        planning = ["--objective", objective, "--time", "2s", "--quiet", "-o", plan]
        if step("plan", "plan", *question, *planning):
            step("check", "check", plan)
            step("against", "check", plan, "--against", *question)
            step("report", "report", plan, "-o", work / "report.html")
            step("export", "export", plan, "--format", "onnx", "-o", work / "pieces")
            if step("run", "run", plan, "--verify", "--repeat", "2", "--warm-up", "0", "--json"):
                value = json.loads(facts["run"])["largest_difference"]
    return Row(model.name, f"{model.package} {model.version}", ops, sizes, objective, steps, value)


def table(rows):
    reasons = []
    yield "| model | package | ops | sizes | objective | " + " | ".join(STEPS) + " |"
    yield "|---|---|---:|---|---|" + "---|" * len(STEPS)
    for row in rows:
        cells = []
        for step in STEPS:
            said = row.steps[step]
            if said not in ("yes", "-"):
                why = EXPECTED.get(row.name, {}).get(step)
                # Only the first line of what ONNX Runtime says, and no folder of this machine.
                said = re.sub(r"\S*/(?=[^/\s]+\.(onnx|json))", "", said.split(" Name:")[0])
                reasons.append(f"{row.name}, {step}: {why}" if why else f"{row.name}, {step}: {said}")
                said = f"no ({len(reasons)})"
            cells.append(said)
        yield f"| {row.name} | {row.package} | {row.ops} | {row.dims} | {row.objective} | " + " | ".join(cells) + " |"
    yield ""
    yield from (f"{number}. {reason}" for number, reason in enumerate(reasons, 1))


def page(rows):
    whole = sum(all(said == "yes" for said in row.steps.values()) for row in rows)
    yield "# The first hour with real models"
    yield ""
    yield f"{len(rows)} ONNX models out of Python packages, on two cores of one machine: `inspect` without options, `plan` with sizes"
    yield "for inputs alone, as `inspect` suggests them, `check`, `check --against`, `report`, `export --format onnx`, and"
    yield f"`run --verify`, which compares results with the whole model's. With {whole} of them everything works."
    yield ""
    yield "Made by `scripts/check_first_hour.py --page docs/results/first-hour.md`."
    yield ""
    for step in STEPS:
        reached = [row.steps[step] for row in rows if row.steps[step] != "-"]
        yield f"* `{step}` works with {sum(said == 'yes' for said in reached)} of {len(reached)}"
    yield ""
    yield from table(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", default="target/release/divvy", help="the program to test")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or "target")
    parser.add_argument("--folder", type=pathlib.Path, default=real_models.ROOT / target / "real-models", help="where the models lie, or are put")
    parser.add_argument("--only", metavar="TEXT", help="those with this in their name or package")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time")
    parser.add_argument("--page", type=pathlib.Path, help="write a table of it here")
    options = parser.parse_args()
    divvy = pathlib.Path(options.divvy).resolve()

    def one(numbered):
        number, model = numbered
        with tempfile.TemporaryDirectory() as work:
            row = first_hour(divvy, model, OBJECTIVES[number % len(OBJECTIVES)], pathlib.Path(work))
        failed = {step: said for step, said in row.steps.items() if said not in ("yes", "-")}
        words = "; ".join(f"{step}: {said}" for step, said in failed.items()) or "every step works"
        print(f"{row.name:24} {words}", flush=True)
        return row

    models = real_models.models(options.folder, options.only)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(one, enumerate(models)))
    if options.page:
        options.page.write_text("\n".join(page(rows)).rstrip() + "\n")
    unexpected = [
        (row.name, step)
        for row in rows
        for step, said in row.steps.items()
        if said not in ("yes", "-") and step not in EXPECTED.get(row.name, {})
    ]
    print(f"{len(rows)} models, {len(unexpected)} steps that failed")
    sys.exit(1 if unexpected or not rows else 0)


if __name__ == "__main__":
    main()
