#!/usr/bin/env python3
"""Runs random plans with `divvy run --verify`, which compares every item with the whole model.

    random_runs.py --divvy target/release/divvy --cuts 6

The models are the nine networks in the package onnx, with random weights (light_models.py), and those in models/, whose
weights divvy makes up. For each of them and each seed, ops are pinned to three devices in random runs, as in
random_cuts.py; objectives and granularities take turns. For `batch`, inputs are divided anew at nearly every op, by random
times for every number of them. Networks whose results hardly depend on the input are failures:
nothing wrong would show. The last line is `N passed, N failed`, counted in plans.

Needs the packages onnx and onnxruntime (scripts/python.sh).
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import types

import light_models
import random_cuts


# What `divvy run --verify` lets pass is a twentieth of this.
LEAST_DEPENDENCE = 2e-3


def models(folder, only):
    bundled = pathlib.Path(__file__).resolve().parent.parent / "models"
    for path in light_models.paths():
        if only in path.name:
            written = light_models.with_weights(path, folder)
            depends = light_models.dependence(written)
            if depends < LEAST_DEPENDENCE:
                raise SystemExit(f"{path.name}: results of unlike inputs differ by {depends:.1e} alone")
            yield written
            for file in pathlib.Path(folder).glob(f"{path.stem}.*"):
                file.unlink()
    yield from (path for path in sorted(bundled.glob("*.onnx")) if only in path.name)


TURNS = [*random_cuts.TURNS, ("batch", "fused")]
INPUTS = 4


def batch_plan(subject, granularity, rng):
    """A plan for several inputs, made from random times."""
    subject.plan_with("latency", granularity, [])
    problem = json.loads(subject.plan.read_text())["problem"]
    ops = len(problem["graph"]["ops"]["name"])
    sizes = list(range(1, INPUTS + 1))
    times = [[rng.randint(500, 1500) for _ in range(ops)] for _ in sizes]
    names = {device["class"] for device in problem["hardware"]["device"]}
    classes = {name: {"batch_sizes": sizes, "times": times} for name in names}
    profile = {key: problem[key] for key in ("divvy", "version", "name", "graph")}
    profile["costs"] = {"time_unit": "us", "classes": classes}
    written = subject.folder / "times.json"
    written.write_text(json.dumps(profile))
    question = ["plan", str(subject.whole.path), "--on", f"uniform-{random_cuts.DEVICES}", "--objective", "batch"]
    question += ["--granularity", granularity, "--planner", "b-met", "--inputs", str(INPUTS), "--quiet"]
    subject.divvy(*question, "--profile", str(written), "-o", str(subject.plan))


def one_run(subject, seed, number):
    """Plans, runs and returns the largest difference."""
    objective, granularity = TURNS[number % len(TURNS)]
    rng = random.Random(seed)
    if objective == "batch":
        batch_plan(subject, granularity, rng)
    else:
        ops = subject.names(granularity)
        subject.plan_with(objective, granularity, random_cuts.random_pins(ops, objective, rng))
    command = [subject.program, "run", str(subject.plan), "--verify", "--repeat", "3", "--warm-up", "0", "--json"]
    # Whatever devices were planned for, they are cores here.
    command += [word for number in range(1, random_cuts.DEVICES + 1) for word in ("--device", f"d{number}=cores")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"divvy run: {done.stderr.strip() or done.returncode}")
    report = json.loads(done.stdout)
    if report["items"] != 3 or report["largest_difference"] is None:
        raise RuntimeError(f"divvy run says {report}")
    return objective, len(report["stages"]), report["largest_difference"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divvy", required=True, help="the program")
    parser.add_argument("--cuts", type=int, default=6, help="random plans of each model")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="models whose name holds this")
    options = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for place, path in enumerate(models(folder, options.only)):
            worst, stages = 0.0, []
            whole = types.SimpleNamespace(path=path, planned={})
            subject = random_cuts.Subject(options.divvy, whole, pathlib.Path(folder))
            for number in range(options.seed, options.seed + options.cuts):
                try:
                    # Models begin at different turns, so that one plan of each sees every turn.
                    _, count, difference = one_run(subject, number, number + place)
                    worst, passed = max(worst, difference), passed + 1
                    stages.append(count)
                except Exception as error:  # noqa: BLE001: whatever goes wrong is a failure of the plan
                    failed += 1
                    print(f"{path.name}, seed {number}: {error}", flush=True)
            print(f"{path.name}: {stages} stages, largest difference {worst:.1e}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
