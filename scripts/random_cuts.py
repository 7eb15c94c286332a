#!/usr/bin/env python3
"""Plans, cuts and runs ONNX models at random, and compares the pieces with the whole.

    random_cuts.py --divvy target/release/divvy --cuts 20 MODEL [MODEL ...]

For each model and each seed: ops are pinned to three devices in random runs, `divvy plan` and `divvy export` do the
rest, and check_cuts.py runs the pieces in ONNX Runtime. Objective and granularity take turns. The last line is
`N passed, N failed`, counted in cuts.

Needs the packages onnx, onnxruntime and numpy.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).with_name("check_cuts.py")
TURNS = [("stream", "op"), ("latency", "fused"), ("stream", "block"), ("latency", "op")]


def divvy(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return done.stdout


def random_pins(ops, rng):
    pins, position = [], 0
    while position < len(ops):
        length = rng.randint(1, max(2, len(ops) // 8))
        device = f"d{rng.randint(1, 3)}"
        for op in ops[position : position + length]:
            pins += ["--pin", f"{op}={device}"]
        position += length
    return pins


def one_cut(program, model, seed, folder):
    objective, granularity = TURNS[seed % len(TURNS)]
    plan, pieces = folder / "plan.json", folder / "pieces"
    question = ["plan", model, "--on", "uniform-3", "--objective", objective, "--granularity", granularity]
    question += ["-o", str(plan), "--quiet"]
    divvy(program, *question)
    ops = json.loads(plan.read_text())["problem"]["graph"]["ops"]["name"]
    divvy(program, *question, *random_pins(ops, random.Random(seed)))
    divvy(program, "export", str(plan), "--format", "onnx", "-o", str(pieces))
    done = subprocess.run([sys.executable, str(CHECK), model, str(pieces)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr).strip()[-2000:])
    return len(json.loads((pieces / "manifest.json").read_text())["pieces"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divvy", default="target/release/divvy", help="the program to test")
    parser.add_argument("--cuts", type=int, default=20, help="cuts of each model")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    passed = failed = 0
    for model in arguments.models:
        for seed in range(arguments.seed, arguments.seed + arguments.cuts):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    pieces = one_cut(arguments.divvy, model, seed, pathlib.Path(folder))
                    passed += 1
                    print(f"ok    {pathlib.Path(model).name}, seed {seed}: {pieces} pieces", flush=True)
                except RuntimeError as fault:
                    failed += 1
                    print(f"FAIL  {pathlib.Path(model).name}, seed {seed}: {fault}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
