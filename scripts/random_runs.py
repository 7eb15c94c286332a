#!/usr/bin/env python3
"""Runs random plans with `divvy run --verify`, which compares every item with the whole model.

    random_runs.py --divvy target/release/divvy --cuts 5

The models are the nine networks in the package onnx and those in models/. For each of them and each seed, ops are pinned to
three devices in random runs, as in random_cuts.py; objectives and granularities take turns. The last line is
`N passed, N failed`, counted in plans.

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

import onnx

import random_cuts


def models():
    light = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
    bundled = pathlib.Path(__file__).resolve().parent.parent / "models"
    return sorted(light.glob("light_*.onnx")) + sorted(bundled.glob("*.onnx"))


def one_run(subject, seed, number):
    """Plans, runs and returns the largest difference."""
    objective, granularity = random_cuts.TURNS[number % len(random_cuts.TURNS)]
    ops = subject.names(granularity)
    subject.plan_with(objective, granularity, random_cuts.random_pins(ops, objective, random.Random(seed)))
    command = [subject.program, "run", str(subject.plan), "--verify", "--repeat", "3", "--warm-up", "0", "--json"]
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
    parser.add_argument("--cuts", type=int, default=5, help="random plans of each model")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="models whose name holds this")
    options = parser.parse_args()
    passed = failed = 0
    for path in models():
        if options.only not in path.name:
            continue
        worst, stages = 0.0, []
        with tempfile.TemporaryDirectory() as folder:
            whole = types.SimpleNamespace(path=path, planned={})
            subject = random_cuts.Subject(options.divvy, whole, pathlib.Path(folder))
            for number in range(options.cuts):
                try:
                    _, count, difference = one_run(subject, options.seed + number, number)
                    worst, passed = max(worst, difference), passed + 1
                    stages.append(count)
                except Exception as error:  # noqa: BLE001: whatever goes wrong is a failure of the plan
                    failed += 1
                    print(f"{path.name}, seed {options.seed + number}: {error}", flush=True)
        print(f"{path.name}: {stages} stages, largest difference {worst:.1e}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
