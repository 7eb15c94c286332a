#!/usr/bin/env python3
"""Checks the pieces of a cut model against the whole model with ONNX Runtime.

    check_cuts.py MODEL FOLDER [FOLDER ...]

Each FOLDER holds pieces and their manifest.json. Every piece must pass the ONNX checker, with full type and shape
inference. The pieces are then run in order, each fed with what the earlier
ones made, on seeded random inputs; every value that leaves a piece must equal the same value of the whole model.
Graph optimisations are off on both sides, so that both compute the same. The last line is `N passed, N failed`.

Needs the packages onnx, onnxruntime and numpy.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

ELEMENTS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64,
    "tensor(uint32)": np.uint32,
    "tensor(uint16)": np.uint16,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


def open_session(path_or_bytes):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path_or_bytes, options, providers=["CPUExecutionProvider"])


def random_value(generator, argument, options):
    """A value for an input of the whole model."""
    if argument.type not in ELEMENTS:
        raise ValueError(f"input {argument.name!r} is of type {argument.type}, which this script cannot make up")
    element = ELEMENTS[argument.type]
    shape = [dim if isinstance(dim, int) else options.dims.get(dim, 1) for dim in argument.shape]
    if element == np.bool_:
        return generator.integers(0, 2, shape).astype(element)
    if np.issubdtype(element, np.integer):
        return generator.integers(0, options.int_below, shape).astype(element)
    return generator.standard_normal(shape).astype(element)


def with_inputs_for(missing, model):
    """The model with inputs in place of weights that are not there: the checker wants to see files."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    listed = {value.name for value in copy.graph.input}
    for tensor in [tensor for tensor in copy.graph.initializer if tensor.name in missing]:
        copy.graph.initializer.remove(tensor)
        if tensor.name not in listed:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return copy


def has_body(node):
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def check_piece(folder, piece):
    """Raises where a piece is not a valid model or not what the manifest says."""
    path = folder / piece["file"]
    missing = {weight["tensor"] for weight in piece["missing_weights"]}
    model = onnx.load(str(path), load_external_data=False)
    if missing:
        onnx.checker.check_model(with_inputs_for(missing, model), full_check=True)
    else:
        onnx.checker.check_model(str(path), full_check=True)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in weights]
    for what, found, told in [
        ("inputs", inputs, piece["inputs"]),
        ("outputs", [value.name for value in model.graph.output], piece["outputs"]),
    ]:
        if found != [value["name"] for value in told]:
            raise ValueError(f"its {what} are {found}, the manifest says {told}")


def run_whole(model_path, crossing, inputs):
    """All outputs of the whole model, and every value that crosses from piece to piece."""
    model = onnx.load(str(model_path), load_external_data=False)
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(crossing - known))
    # Beside the model, so that its external weights are found.
    extended = model_path.with_name(f".{model_path.name}.check")
    extended.write_bytes(model.SerializeToString())
    try:
        session = open_session(str(extended))
    finally:
        extended.unlink()
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def run_pieces(folder, manifest, inputs):
    """What the pieces give, run in order."""
    values, made = dict(inputs), {}
    for piece in manifest["pieces"]:
        session = open_session(str(folder / piece["file"]))
        fed = {value["name"]: values[value["name"]] for value in piece["inputs"]}
        names = [value["name"] for value in piece["outputs"]]
        if names:
            made.update(zip(names, session.run(names, fed)))
            values.update(made)
    return made


def same(whole, piece, tolerance):
    """Whether two values are equal: tensors, sequences of them, or nothing."""
    if isinstance(whole, list):
        return len(whole) == len(piece) and all(same(a, b, tolerance) for a, b in zip(whole, piece))
    if whole is None or piece is None:
        return whole is piece
    whole, piece = np.asarray(whole), np.asarray(piece)
    if whole.shape != piece.shape or whole.dtype != piece.dtype:
        return False
    if not np.issubdtype(whole.dtype, np.floating):
        return np.array_equal(whole, piece)
    # Relative to the largest element: sums of terms that cancel have no relative precision of their own.
    finite = np.abs(whole[np.isfinite(whole)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(piece, whole, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def check_folder(model_path, folder, options, report):
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for piece in manifest["pieces"]:
        try:
            check_piece(folder, piece)
            report(True, "")
        except Exception as error:  # noqa: BLE001: whatever goes wrong is a failure of the piece
            report(False, f"{folder}: {piece['file']}: {error}")
    if any(piece["missing_weights"] for piece in manifest["pieces"]):
        print(f"{folder}: weights are missing, so the pieces are not run")
        return
    outputs = {value["name"] for piece in manifest["pieces"] for value in piece["outputs"]}
    for seed in range(options.seed, options.seed + options.seeds):
        try:
            model = open_session(str(model_path))
            generator = np.random.default_rng(seed)
            inputs = {i.name: random_value(generator, i, options) for i in model.get_inputs()}
            del model
            whole = run_whole(model_path, outputs, inputs)
            made = run_pieces(folder, manifest, inputs)
            wrong = [name for name in whole if name not in made or not same(whole[name], made[name], options.tolerance)]
            report(not wrong, f"{folder}: seed {seed}: differ from the whole: {wrong}")
        except Exception as error:  # noqa: BLE001: whatever goes wrong is a failure of the run
            report(False, f"{folder}: seed {seed}: {error}")


def dimension(text):
    name, _, size = text.rpartition("=")
    return name, int(size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL", help="the whole model")
    parser.add_argument("folders", type=pathlib.Path, metavar="FOLDER", nargs="+", help="pieces with manifest.json")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of the random inputs")
    parser.add_argument("--seeds", type=int, default=1, help="how many sets of random inputs to try")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest relative difference")
    parser.add_argument("--int-below", type=int, default=2, help="random whole numbers are below this")
    parser.add_argument(
        "--dim", type=dimension, action="append", default=[], metavar="NAME=SIZE", help="a symbolic dimension; 1 if not set"
    )
    options = parser.parse_args()
    options.dims = dict(options.dim)

    passed = failed = 0

    def report(good, message):
        nonlocal passed, failed
        if good:
            passed += 1
        else:
            failed += 1
            print(message)

    for folder in options.folders:
        check_folder(options.model, folder, options, report)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
