#!/usr/bin/env python3
"""Compares what plans of real networks were predicted to take with what they took by the wall clock, and writes a page.

    cargo build --release
    measure_predictions.py --divvy target/release/divvy --models target/real-models -o docs/results/predictions.md

For each network (those of real_models.py in MODELS) and each of `latency`, `pipeline` and `stream`: profile, plan and run, on two
cores of this machine, in several rounds with a profile of their own. Plain ONNX Runtime takes turns with each run, and the best
plan for one device with those for `latency` that use two. What was found is added to RAW (`--raw`) line by line; started again, the script goes on where it stopped, and a page is made of what RAW
has. `--only TEXT` takes the networks with TEXT in their names.

Needs two quiet cores, the package onnxruntime (scripts/python.sh), and the first time the network for the models.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import onnxruntime

import measure_runs
import real_models

ROOT = pathlib.Path(__file__).resolve().parent.parent
OBJECTIVES = ["latency", "pipeline", "stream"]
# Networks of many kinds that take from a millisecond to a second or so: speech, text in pictures, pages, pictures, text.
MODELS = [
    "smart-turn-int8",
    "basic-pitch",
    "dnsmos",
    "ocr-v4-det",
    "ocr-v4-rec",
    "page-orientation",
    "page-layout",
    "yolov8-nude",
    "open-nsfw",
    "magika",
]
# More splits than that cost more copies between layouts than any balance gains.
STREAM = ["--max-splits", "3"]
# So often a plan and the one for one device take turns.
TURNS = 5
# The targets: what the median of |ratio - 1| is to be at most, and what is to be explained beyond.
MEDIAN, FAR = 0.05, 0.15


class Bench:
    def __init__(self, options, folder):
        self.divvy_path, self.options = str(pathlib.Path(options.divvy).resolve()), options
        self.folder = pathlib.Path(folder)
        self.hardware, self.measured = self.folder / "pair.toml", self.folder / "measured.toml"
        self.hardware.write_text(measure_runs.HARDWARE)
        self.environment = dict(os.environ)
        package = pathlib.Path(onnxruntime.__file__).parent / "capi"
        self.environment.setdefault("ORT_DYLIB_PATH", str(next(package.glob("libonnxruntime.so.*"))))

    def divvy(self, *arguments):
        done = subprocess.run([self.divvy_path, *map(str, arguments)], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"divvy {' '.join(map(str, arguments))}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def dims(self, path):
        """Open dimensions as divvy suggests them."""
        found = json.loads(self.divvy("inspect", path, "--json")).get("open_dimensions", [])
        return [word for dim in found for word in ("--dim", f"{dim['name']}={dim['suggested']}")]

    def profile(self, path, dims):
        """Measures a network, a short one as often as fills a while: a moment says little of a machine."""
        what = ["profile", path, "--on", self.hardware, "--hardware", self.measured, "--quiet", "-o", "times.json", *dims]
        self.divvy(*what, "--repeat", 5)
        whole = json.loads((self.folder / "times.json").read_text())["costs"]["whole_model"][0]["time"]
        items = round(measure_runs.PROFILE_SECONDS * 1e12 / whole)
        self.divvy(*what, "--repeat", max(15, min(items, 1000)))

    def run(self, path, dims, objective):
        limits = STREAM if objective == "stream" else []
        question = ["--on", self.measured, "--profile", "times.json", "--objective", objective, "--time", f"{self.options.plan_seconds}s", "--quiet", *dims, *limits]
        self.divvy("plan", path, *question, "-o", "plan.json", "--force")
        found = json.loads(self.divvy("run", "plan.json", "--json", "--at-most", f"{self.options.seconds}s"))
        if objective == "latency" and len(found["devices"]) > 1:
            self.divvy("plan", path, *question, "--planner", "one-device", "-o", "one.json", "--force")
            found["one_device_us"], found["one_device_ratio"] = self.in_turns("plan.json", "one.json")
        return found

    def in_turns(self, plan, other):
        """What the other plan takes, in microseconds, and its time over the plan's: medians over turns of both."""
        seconds = max(1, round(self.options.seconds / TURNS))
        take = lambda file: json.loads(self.divvy("run", file, "--json", "--no-compare", "--as-is", "--at-most", f"{seconds}s"))["measured_us"]
        turns = [(take(plan), take(other)) for _ in range(TURNS)]
        return statistics.median(there for _, there in turns), statistics.median(there / here for here, there in turns)


def known(raw):
    """Lines of earlier runs, by network, objective and round."""
    lines = raw.read_text().splitlines() if raw.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["model"], row["objective"], row["round"]): row for row in rows}


def measure(bench, options, raw):
    have = {model.name: model for model in real_models.models(options.models) if model.name in MODELS and options.only in model.name}
    rows = known(raw)
    for number in range(options.rounds):
        for name in (name for name in MODELS if name in have):
            wanted = [objective for objective in options.objective or OBJECTIVES if (name, objective, number) not in rows]
            if not wanted:
                continue
            path = have[name].path.resolve()
            try:
                dims = bench.dims(path)
                bench.profile(path, dims)
                for objective in wanted:
                    run = bench.run(path, dims, objective)
                    row = {"model": name, "package": f"{have[name].package} {have[name].version}", "objective": objective, "round": number, "load": os.getloadavg()[0], "time": time.strftime("%Y-%m-%d %H:%M"), "run": run}
                    with raw.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    one = f" one device {run['one_device_ratio']:.3f}" if "one_device_ratio" in run else ""
                    print(name, objective, number, f"{run['predicted_us']:.0f} {run['measured_us']:.0f} {run['ratio']:.3f}", f"alone {run['onnxruntime_ratio']:.2f}{one}", file=sys.stderr, flush=True)
            except RuntimeError as fault:
                print(f"left out: {name}: {fault}", file=sys.stderr, flush=True)


def middle(rows):
    """The row whose ratio is the middle one."""
    ordered = sorted(rows, key=lambda row: row["run"]["ratio"])
    return ordered[(len(ordered) - 1) // 2]


def milliseconds(us):
    return f"{us / 1e3:.2f} ms"


def error(objective, chosen):
    """How far predictions are off, in a sentence."""
    runs = [row["run"] for row, _ in chosen if row["objective"] == objective]
    off = 100 * statistics.median(abs(run["ratio"] - 1) for run in runs)
    undisturbed = 100 * statistics.median(abs(run["undisturbed_us"] / run["predicted_us"] - 1) for run in runs)
    return f"`{objective}`: the median of |ratio − 1| is {off:.1f} % by the wall clock (target {100 * MEDIAN:.0f} %), {undisturbed:.1f} % undisturbed.\n"


def page(rows):
    of = {}
    for (model, objective, _), row in rows.items():
        of.setdefault((MODELS.index(model), OBJECTIVES.index(objective)), []).append(row)
    chosen = [(middle(found), found) for _, found in sorted(of.items())]
    loads = [row["load"] for row in rows.values()]
    gains = [row["run"]["onnxruntime_ratio"] for row, _ in chosen]
    slow = [row["run"]["slowness"] for row, _ in chosen]
    rounds = max(len(found) for _, found in chosen)
    lines = [
        "# Predictions against the wall clock",
        "",
        f"Made by `scripts/measure_predictions.py` with ONNX Runtime {onnxruntime.__version__} on two cores of {measure_runs.machine()}. The load of the machine was between {min(loads):.1f} and"
        f" {max(loads):.1f}: above 2, others were using the same cores.",
        "",
        "Networks from Python packages (`scripts/real_models.py`), with the dimensions that `divvy inspect` suggests. Each was profiled, planned and run"
        f" on two devices of a core each; a row is the middle one of {rounds} rounds by its ratio, each with a profile of its own. *Measured* is the median by the"
        " wall clock; *ratio* is measured over predicted. *ONNX Runtime* is the whole network without divvy, in turns with the plan on the same cores: the quicker of one session"
        " of two threads and two sessions of a core each (for `latency` one of two threads); *gain* is its time over the plan's, above 1 where the plan is quicker."
        f" *One device* is the time of the best plan for one device over that of a `latency` plan for two, in {TURNS} turns of both.",
        "",
        *[error(objective, chosen) for objective in OBJECTIVES if any(row["objective"] == objective for row, _ in chosen)],
        f"The median gain is {statistics.median(gains):.2f}.",
        "",
        f"How quiet the machine was: the whole network on plain ONNX Runtime, in turns with the plan, took {min(slow):.2f} to {max(slow):.2f} times as long as minutes before, when it was profiled. A prediction by that"
        " profile cannot be nearer to the wall clock than that.",
        "",
        "| network | plan | pieces | predicted | measured | ratio | of all rounds | undisturbed | ONNX Runtime | gain | one device |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row, found in chosen:
        run = row["run"]
        ratios = sorted(other["run"]["ratio"] for other in found)
        figures = [milliseconds(run["predicted_us"]), milliseconds(run["measured_us"]), f"{run['ratio']:.3f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}", milliseconds(run["undisturbed_us"])]
        ones = sorted(other["run"]["one_device_ratio"] for other in found if "one_device_ratio" in other["run"])
        one = "the same plan" if row["objective"] == "latency" and not ones else f"{statistics.median(ones):.2f}" if ones else ""
        figures += [milliseconds(run["onnxruntime_us"]), f"{run['onnxruntime_ratio']:.2f}", one]
        lines.append(f"| {row['model']} | {row['objective']} | {len(run['stages'])} | {' | '.join(figures)} |")
    far = [row for row, _ in chosen if abs(row["run"]["ratio"] - 1) > FAR]
    lines += ["", f"## Off by more than {100 * FAR:.0f} %", ""]
    lines += [f"* {row['model']}, {row['objective']}, ratio {row['run']['ratio']:.2f}: {'; '.join(row['run']['reasons'])}." for row in far] or ["None."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", required=True, help="the program")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "target/real-models", help="folder of real_models.py")
    parser.add_argument("--raw", type=pathlib.Path, default=ROOT / "target/predictions.jsonl", help="what was measured, a line each")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the page; else standard output")
    parser.add_argument("--only", default="", metavar="TEXT", help="networks with TEXT in their names")
    parser.add_argument("--objective", action="append", choices=OBJECTIVES, help="measure only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30, help="each run goes on no longer")
    parser.add_argument("--plan-seconds", type=int, default=5, help="how long each plan is searched for")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) != 2:
        raise SystemExit("two cores are needed, no more: taskset -c 0,1 on a larger machine")
    options.raw.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        measure(Bench(options, folder), options, options.raw)
    rows = known(options.raw)
    if not rows:
        raise SystemExit("nothing was measured")
    text = page(rows)
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
