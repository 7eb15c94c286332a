#!/usr/bin/env python3
"""Plans, cuts and runs models at random, and compares the pieces with the whole in ONNX Runtime.

    random_cuts.py --divvy target/release/divvy --cuts 20

The models are those of cut_models.py. For each of them and each seed, ops are pinned to three devices in random runs;
`divvy plan` and `divvy export` do the rest. Every piece must pass the ONNX checker, the folder must hold the new pieces
and nothing of the cut before, and the pieces, run one after another, must give what the whole gives. Objectives,
granularities and the ways of keeping weights take turns; models with symbolic dimensions are run in turns with the sizes
they were planned for and with others. Each model is exported with annotations too, checked and run. The last line is
`N passed, N failed`, counted in cuts.

Needs the packages onnx, onnxruntime and numpy (scripts/python.sh).
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import onnx

import check_cuts
import cut_models

TURNS = [("stream", "op"), ("latency", "fused"), ("pipeline", "op"), ("stream", "block"), ("latency", "op")]
WEIGHTS = ["inline", "external", "keep"]
DEVICES = 3


class Subject:
    """A model and what is worth keeping of it from cut to cut."""

    def __init__(self, program, whole, folder):
        self.program, self.whole, self.folder = program, whole, folder
        self.dims = [word for name, size in whole.planned.items() for word in ("--dim", f"{name}={size}")]
        self.ops, self.made = {}, {}
        self.plan, self.pieces = folder / "plan.json", folder / "pieces"

    def divvy(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"divvy {arguments[0]}: {done.stderr.strip() or done.returncode}")

    def plan_with(self, objective, granularity, pins):
        question = ["plan", str(self.whole.path), "--on", f"uniform-{DEVICES}", "--objective", objective]
        question += ["--granularity", granularity, "--planner", "one-device", "-o", str(self.plan), "--quiet", *self.dims]
        question += ["--stages", str(DEVICES)] if objective == "pipeline" else []
        self.divvy(*question, *pins)

    def names(self, granularity):
        """The ops of the model in the order of the file."""
        if granularity not in self.ops:
            self.plan_with("latency", granularity, [])
            self.ops[granularity] = json.loads(self.plan.read_text())["problem"]["graph"]["ops"]["name"]
        return self.ops[granularity]

    def values(self, sizes):
        """Inputs of some sizes, and everything that the whole model makes of them."""
        key = tuple(sorted(sizes.items()))
        if key not in self.made:
            inputs = self.whole.feeds(len(self.made), sizes)
            graph = onnx.load(str(self.whole.path), load_external_data=False).graph
            wanted = varying(graph)
            self.made[key] = inputs, check_cuts.run_whole(self.whole.path, wanted, inputs)
        return self.made[key]


def varying(graph):
    """What depends on the inputs: the rest is weights by another name, and may be large."""
    weights = {tensor.name for tensor in graph.initializer}
    found = {value.name for value in graph.input if value.name not in weights}
    made = set()
    for node in graph.node:
        if any(name in found for name in node.input) or node.attribute and check_cuts.has_body(node):
            found.update(name for name in node.output if name)
            made.update(name for name in node.output if name)
    return made


def random_pins(ops, objective, rng):
    """Runs of ops on random devices; a pipeline's devices come one after another."""
    if objective == "pipeline":
        ends = sorted(rng.randint(1, len(ops)) for _ in range(DEVICES - 1)) + [len(ops)]
        places = [sum(at >= end for end in ends) for at in range(len(ops))]
        return [word for op, place in zip(ops, places) for word in ("--pin", f"{op}=d{place + 1}")]
    pins, position = [], 0
    while position < len(ops):
        length = rng.randint(1, max(2, len(ops) // 8))
        device = f"d{rng.randint(1, DEVICES)}"
        for op in ops[position : position + length]:
            pins += ["--pin", f"{op}={device}"]
        position += length
    return pins


def one_cut(subject, seed, number):
    objective, granularity = TURNS[number % len(TURNS)]
    weights = WEIGHTS[number % len(WEIGHTS)]
    ops = subject.names(granularity)
    subject.plan_with(objective, granularity, random_pins(ops, objective, random.Random(seed)))
    subject.divvy("export", str(subject.plan), "--format", "onnx", "-o", str(subject.pieces), "--weights", weights)
    manifest = json.loads((subject.pieces / "manifest.json").read_text())
    beside = {file for piece in manifest["pieces"] for file in piece["weight_files"]}
    for file in beside:
        # References that were kept lead to the files of the whole.
        if not (subject.pieces / file).exists():
            shutil.copy(subject.whole.path.parent / file, subject.pieces / file)
    expected = {"manifest.json", *beside, *(piece["file"] for piece in manifest["pieces"])}
    found = {path.name for path in subject.pieces.iterdir()}
    for file in found - expected:
        # Copied here for an earlier cut.
        if (subject.whole.path.parent / file).exists():
            (subject.pieces / file).unlink()
            found.remove(file)
    if found != expected:
        raise RuntimeError(f"the folder holds {sorted(found)}, the manifest says {sorted(expected)}")
    if manifest.get("dims", {}) != subject.whole.planned:
        raise RuntimeError(f"the manifest says that the plan is for {manifest.get('dims')}")
    for piece in manifest["pieces"]:
        check_cuts.check_piece(subject.pieces, piece)
    sizes = subject.whole.run if number % 2 else subject.whole.planned
    inputs, whole = subject.values(sizes)
    made = check_cuts.run_pieces(subject.pieces, manifest, inputs)
    wrong = [name for name in made if name in whole and not check_cuts.same(whole[name], made[name], 1e-4)]
    wrong += [name for name in manifest["outputs"] if name not in made]
    if wrong:
        raise RuntimeError(f"with sizes {sizes}, these differ from the whole: {wrong}")
    return len(manifest["pieces"])


def annotated(subject):
    """The annotated model is valid, keeps its annotations, and computes the same."""
    subject.plan_with("latency", "op", random_pins(subject.names("op"), "latency", random.Random(0)))
    path = subject.folder / "annotated.onnx"
    subject.divvy("export", str(subject.plan), "--format", "onnx-annotated", "-o", str(path))
    for file in subject.whole.path.parent.iterdir():
        if file.suffix == ".bin":
            shutil.copy(file, path.parent)
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(str(path), load_external_data=False)
    if not all(node.device_configurations for node in model.graph.node):
        raise RuntimeError("a node has no device")
    inputs, whole = subject.values(subject.whole.planned)
    session = check_cuts.open_session(str(path))
    names = [output.name for output in session.get_outputs()]
    for name, value in zip(names, session.run(names, inputs)):
        if name in whole and not check_cuts.same(whole[name], value, 1e-4):
            raise RuntimeError(f"`{name}` of the annotated model differs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divvy", default="target/release/divvy", help="the program to test")
    parser.add_argument("--cuts", type=int, default=20, help="cuts of each model")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models with this text in their name")
    arguments = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for place, whole in enumerate(cut_models.models(pathlib.Path(folder))):
            if arguments.only not in whole.name:
                continue
            work = pathlib.Path(folder) / f"work-{whole.name}"
            work.mkdir()
            subject = Subject(arguments.divvy, whole, work)
            faults, pieces = [], []
            for cut in range(arguments.cuts):
                seed = arguments.seed + cut
                try:
                    # Models begin at different turns, so that a few cuts of each see every turn.
                    pieces.append(one_cut(subject, seed, seed + place))
                    passed += 1
                except Exception as fault:  # noqa: BLE001: whatever goes wrong is a failure of the cut
                    failed += 1
                    faults.append(f"seed {seed}: {str(fault)[:2000]}")
            try:
                annotated(subject)
            except Exception as fault:  # noqa: BLE001
                failed += 1
                faults.append(f"annotated: {str(fault)[:2000]}")
            print(f"{whole.name}: {len(pieces)} cuts agree, into {pieces} pieces", flush=True)
            for fault in faults:
                print(f"FAIL  {whole.name}, {fault}", flush=True)
            shutil.rmtree(work)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
