#!/usr/bin/env python3
"""Compares the shapes and element types that divvy works out with ONNX's own shape inference and with ONNX Runtime.

    check_shapes.py --divvy target/release/divvy [--only TEXT]

Three collections, none of them stored here:

* families   small models of every family of operators, made by family_models.py
* light      the nine whole networks that come with the package `onnx`, and those in models/ (without weights, so only
             their declared and inferred shapes are compared)
* operators  the operator tests of the package `onnx`, one node or one expanded function each

For each model every value that a node makes must have a known shape in divvy, and that must be what
`onnx.shape_inference` (strict, with data propagation) finds, where it finds one, and what ONNX Runtime really makes. Of
the families, every op must have its operations counted too.
Values whose shape depends on data are counted apart; behind those ONNX must not know more than divvy. The last line is
`N passed, N failed`, counted in models.

Needs the packages onnx, onnxruntime and numpy (scripts/python.sh).
"""

import argparse
import collections
import functools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime

import family_models
import skipped
from shape_case import Case

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

# Operators whose output shape depends on what the data are, or whose outputs are no tensors.
DATA_DEPENDENT = {"Compress", "NonMaxSuppression", "NonZero", "Unique", "StringNormalizer", "StringSplit", "ImageDecoder"}

# Operators whose number of operations depends on what the data are.
COSTS_DEPEND_ON_DATA = {"MaxRoiPool", "NonMaxSuppression", "Unique"}

# divvy plans inference.
TRAINING = "ai.onnx.preview.training"

# Lengths worked out from constants in bfloat16, which divvy does not follow.
LEFT_OUT = {"test_range_bfloat16_type_positive_delta", "test_range_bfloat16_type_positive_delta_expanded"}

# ONNX infers a two-sided spectrum from a default of one-sided; its own expected outputs are as divvy has them.
WRONG_IN_ONNX = {"test_stft", "test_stft_with_window"}


def element_name(number):
    return onnx.TensorProto.DataType.Name(number).lower()


def undeclared(model):
    """The model without the shapes that it declares of what nodes make: they would only be repeated."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return bare


def known_to_divvy(program, case, folder):
    path = folder / "model.onnx"
    path.write_bytes(undeclared(case.model).SerializeToString())
    dims = [argument for name, size in case.dims.items() for argument in ("--dim", f"{name}={size}")]
    done = subprocess.run([program, "inspect", str(path), "--values", "--json", *dims], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"divvy: {done.stderr.strip()}")
    return {value["name"]: value for value in json.loads(done.stdout)["values"]}


def with_sizes(model, dims):
    """The model with its symbolic dimensions set."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in [*copy.graph.input, *copy.graph.output, *copy.graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    return copy


def known_to_onnx(case, tally):
    """What ONNX's own inference says: name -> (element type, dimensions, None where open)."""
    bare = with_sizes(undeclared(case.model), case.dims)
    strict = {node.domain for node in bare.graph.node} <= {"", "ai.onnx"}
    try:
        inferred = onnx.shape_inference.infer_shapes(bare, check_type=strict, strict_mode=strict, data_prop=True)
    except onnx.shape_inference.InferenceError:
        if case.expected is None:
            raise
        # A few of ONNX's own tests do not pass its own inference.
        tally["that ONNX's inference refuses"] += 1
        return {}
    known = {}
    for value in [*inferred.graph.value_info, *inferred.graph.output]:
        if value.type.HasField("tensor_type"):
            tensor = value.type.tensor_type
            shape = None
            if tensor.HasField("shape"):
                shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
            known[value.name] = (element_name(tensor.elem_type), shape)
    return known


def made_by_runtime(case):
    """What ONNX Runtime makes of every value: name -> (element type, shape); none where it is no tensor."""
    model = with_sizes(case.model, case.dims)
    listed = {value.name for value in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in listed:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    types = {output.name: output.type for output in session.get_outputs()}
    made = {}
    values = session.run_with_ort_values(
        names, {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in case.feeds.items()}
    )
    for name, value in zip(names, values):
        if types[name].startswith("tensor("):
            made[name] = (types[name][len("tensor(") : -1], list(value.shape()))
    return made


def check_costs(program, case, folder):
    """Raises where the operations of an op are not counted that do not depend on data."""
    dims = [argument for name, size in case.dims.items() for argument in ("--dim", f"{name}={size}")]
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    command = [program, "inspect", str(path), "--json", "--granularity", "op", *dims]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"divvy: {done.stderr.strip()}")
    unknown = json.loads(done.stdout)["ops_of_unknown_flops"]
    excused = sum(node.op_type in COSTS_DEPEND_ON_DATA for node in case.model.graph.node)
    if unknown > excused:
        raise RuntimeError(f"the operations of {unknown} ops are not counted: {done.stderr.strip()}")


def compare(name_of_case, case, program, folder, tally):
    """Every disagreement, in words."""
    wrong = []
    mine = known_to_divvy(program, case, folder)
    theirs = known_to_onnx(case, tally)
    real = None
    if case.feeds is not None:
        try:
            real = made_by_runtime(case)
            tally["run"] += 1
        except Exception:  # noqa: BLE001: the runtime raises its own kinds
            if case.expected is None:
                raise
            real = case.expected
            tally["compared with expected outputs, as ONNX Runtime cannot run them"] += 1
    excused = set()
    for node in case.model.graph.node:
        for name in node.output:
            if not name:
                continue
            if node.op_type in DATA_DEPENDENT or any(source in excused for source in node.input):
                excused.add(name)
            if real is not None and name not in real and real is not case.expected:
                tally["values that are no tensors"] += 1
                continue
            value = mine.get(name)
            if value is None:
                wrong.append(f"`{name}` is not listed")
                continue
            element, shape = value["element"], value["shape"]
            if name in theirs and theirs[name][0] != element:
                wrong.append(f"`{name}` ({node.op_type}) holds {element}, ONNX says {theirs[name][0]}")
            dims = theirs.get(name, (None, None))[1]
            if shape is None:
                if name not in excused:
                    wrong.append(f"`{name}` ({node.op_type}) has no shape: {value.get('reason')}")
                elif dims is not None and None not in dims and node.op_type not in DATA_DEPENDENT:
                    wrong.append(f"`{name}` ({node.op_type}) has no shape, ONNX says {dims}")
                else:
                    tally["values whose shape depends on data"] += 1
                continue
            tally["values"] += 1
            if dims is not None:
                tally["values that ONNX knows too"] += 1
                differs = len(dims) != len(shape) or any(d not in (None, s) for d, s in zip(dims, shape))
                if differs and name_of_case not in WRONG_IN_ONNX:
                    wrong.append(f"`{name}` ({node.op_type}) is {shape}, ONNX says {dims}")
            if real is not None and name in real:
                tally["values that ONNX Runtime made"] += 1
                if real[name] != (element, shape):
                    wrong.append(f"`{name}` ({node.op_type}) is {element} {shape}, ONNX Runtime made {real[name]}")
    return wrong


def light_cases():
    networks = sorted(LIGHT.glob("*.onnx"))
    if not networks:
        skipped.skip("check_shapes.py light", f"the package onnx brings no networks in {LIGHT}")
    for path in networks:
        yield path.stem, functools.partial(light_case, path)
    for path in sorted((ROOT / "models").glob("*.onnx")):
        yield path.stem, lambda path=path: Case(onnx.load(path, load_external_data=False))


def light_case(path):
    model = onnx.load(path)
    generator = np.random.default_rng(0)
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in weights:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            feeds[value.name] = generator.standard_normal(shape).astype(np.float32)
    return Case(model, feeds)


def operator_cases():
    """The operator tests of ONNX, with inputs that shapes may depend on made constants."""
    from onnx.backend.test.case.node import collect_testcases

    for test in collect_testcases():
        if test.name in LEFT_OUT or any(node.domain == TRAINING for node in test.model.graph.node):
            continue
        model = onnx.ModelProto()
        model.CopyFrom(test.model)
        inputs, outputs = test.data_sets[0]
        plain = all(isinstance(value, np.ndarray) for value in [*inputs, *outputs])
        if not plain or len(inputs) != len(model.graph.input):
            continue
        feeds = {}
        for declared, value in zip(list(model.graph.input), inputs):
            number = declared.type.tensor_type.elem_type
            if number == 0:
                plain = False
                break
            if value.ndim <= 1 and value.size <= 64 and np.dtype(value.dtype).kind in "iubf":
                tensor = onnx.helper.make_tensor(declared.name, number, value.shape, value.tobytes(), raw=True)
                if len(onnx.numpy_helper.to_array(tensor).tobytes()) == len(value.tobytes()):
                    model.graph.input.remove(declared)
                    model.graph.initializer.append(tensor)
                    continue
            feeds[declared.name] = value
        if not plain:
            continue
        expected = {}
        for declared, value in zip(model.graph.output, outputs):
            expected[declared.name] = (element_name(declared.type.tensor_type.elem_type), list(value.shape))
        yield test.name, functools.partial(Case, model, feeds, expected=expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divvy", default="target/release/divvy", help="the program to test")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models with this text in their name")
    parser.add_argument(
        "--collections", nargs="+", default=["families", "light", "operators"], choices=["families", "light", "operators"]
    )
    arguments = parser.parse_args()
    makers = {"families": family_models.cases, "light": light_cases, "operators": operator_cases}
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for collection in arguments.collections:
            tally = collections.Counter()
            good = 0
            for name, make in makers[collection]():
                if arguments.only not in name:
                    continue
                try:
                    case = make()
                    wrong = compare(name, case, arguments.divvy, pathlib.Path(folder), tally)
                    if collection == "families":
                        check_costs(arguments.divvy, case, pathlib.Path(folder))
                except Exception as error:  # noqa: BLE001: whatever goes wrong is a failure of the model
                    wrong = [f"{type(error).__name__}: {str(error)[:600]}"]
                if wrong:
                    failed += 1
                    for line in wrong:
                        print(f"FAIL  {collection}/{name}: {line}", flush=True)
                else:
                    good += 1
            passed += good
            counts = "".join(f", {count} {what}" for what, count in sorted(tally.items()))
            print(f"{collection}: {good} models agree{counts}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
