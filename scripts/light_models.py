"""The nine networks in the package onnx, with weights.

As they come, every weight is the same number, so that results hardly depend on the input and a wrong one looks right. Here
weights are random. The spread of matrices and filters keeps values about as large as they were, and each row sums to
nothing, since what all values have in common would drown what the input makes of them.

    light_models.py FOLDER NAME...    writes some of them, each in one file
"""

import pathlib
import sys

import numpy
import onnx
import onnxruntime

FOLDER = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"


def paths():
    """The networks as they come."""
    return sorted(FOLDER.glob("light_*.onnx"))


def weight(shape, role, rng):
    if len(shape) < 2:
        around = 1 if role in ("scale", "variance") else 0
        return (around + rng.uniform(-0.1, 0.1, shape)).astype(numpy.float32)
    values = rng.standard_normal(shape)
    rest = tuple(range(1, len(shape)))
    terms = max(1, int(numpy.prod(shape[1:])))
    if terms > 1:
        values -= values.mean(axis=rest, keepdims=True)
    return (values * numpy.sqrt(2 / terms)).astype(numpy.float32)


def roles(graph):
    """What vectors are for: those that multiply or divide must not be about 0."""
    names = ["scale", "shift", "mean", "variance"]
    norms = [node for node in graph.node if node.op_type == "BatchNormalization"]
    found = {name: role for node in norms for name, role in zip(node.input[1:], names)}
    factors = {name for node in graph.node if node.op_type == "Mul" for name in node.input}
    spread_out = [node for node in graph.node if node.op_type == "Unsqueeze" and node.output[0] in factors]
    return found | {node.input[0]: "scale" for node in spread_out}


def with_weights(path, folder, seed=1, inline=False):
    """Writes a network with random weights, in a file beside it unless `inline`; returns its path."""
    model, rng = onnx.load(str(path)), numpy.random.default_rng(seed)
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    role = roles(model.graph)
    filled = [node for node in model.graph.node if node.op_type == "ConstantOfShape"]
    for node in filled:
        values = weight(tuple(shapes[node.input[0]]), role.get(node.output[0]), rng)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, node.output[0]))
        model.graph.node.remove(node)
    tame(model)
    written = pathlib.Path(folder) / path.name
    apart = {} if inline else {"save_as_external_data": True, "location": f"{path.stem}.bin"}
    onnx.save(model, str(written), **apart)
    return written


def tame(model):
    """Scales the last layer so that its values scatter by about 1: a softmax of large ones makes much of rounding."""
    maker = {name: node for node in model.graph.node for name in node.output}
    last = maker[model.graph.output[0].name]
    while last.op_type not in ("Gemm", "Conv"):
        last = maker[last.input[0]]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.append(onnx.ValueInfoProto(name=last.output[0]))
    session = onnxruntime.InferenceSession(probe.SerializeToString(), quiet())
    made = session.run([last.output[0]], random_feed(session, numpy.random.default_rng(0)))[0]
    for tensor in model.graph.initializer:
        if tensor.name in last.input[1:]:
            scaled = onnx.numpy_helper.to_array(tensor) / numpy.float32(made.std())
            tensor.CopyFrom(onnx.numpy_helper.from_array(scaled.astype(numpy.float32), tensor.name))


def quiet():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return options


def random_feed(session, rng):
    return {i.name: rng.standard_normal(i.shape).astype(numpy.float32) for i in session.get_inputs()}


def dependence(path):
    """How much results depend on the input: the difference between two, over the largest value."""
    session = onnxruntime.InferenceSession(str(path), quiet())
    rng = numpy.random.default_rng(0)
    made = [session.run(None, random_feed(session, rng))[0] for _ in range(2)]
    return float(numpy.abs(made[0] - made[1]).max() / numpy.abs(made[0]).max())


if __name__ == "__main__":
    for name in sys.argv[2:]:
        with_weights(FOLDER / f"{name}.onnx", sys.argv[1], inline=True)
