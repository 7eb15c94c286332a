"""Models to cut at random: real topologies with random weights, made here, and the nine that come with `onnx`.

Seeded: the same every time. `models(folder)` writes them and gives one `Whole` for each.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

import family_models
from network import MICROSOFT, Network, random_values

LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


class Whole:
    """A model on disk, what to feed it, and the sizes of its symbolic dimensions to plan for and to run with."""

    def __init__(self, path, specs, planned=None, run=None):
        self.path, self.specs = path, specs
        self.planned, self.run = planned or {}, run or {}

    @property
    def name(self):
        return self.path.stem

    def feeds(self, seed, sizes):
        generator = np.random.default_rng(seed)
        feeds = {}
        for name, (shape, element, below) in self.specs.items():
            feeds[name] = random_values(generator, [sizes.get(dim, dim) for dim in shape], element, below)
        return feeds


def models(folder):
    for seed, (make, planned, run, external) in enumerate(MAKERS):
        net = Network(make.__name__, 21 if planned is None else 17, seed, planned)
        make(net)
        path = folder / make.__name__ / f"{make.__name__}.onnx"
        path.parent.mkdir()
        model = net.model_with_ranks()
        onnx.checker.check_model(model, full_check=True)
        if external:
            onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=256)
        else:
            onnx.save(model, path)
        yield Whole(path, net.specs, planned, run)
    for path in sorted(LIGHT.glob("*.onnx")):
        graph = onnx.load(path).graph
        weights = {tensor.name for tensor in graph.initializer}
        specs = {}
        for value in graph.input:
            if value.name not in weights:
                specs[value.name] = ([dim.dim_value for dim in value.type.tensor_type.shape.dim], "float", 2)
        yield Whole(path, specs)


MAKERS = []


def cut_model(planned=None, run=None, external=False):
    def mark(make):
        MAKERS.append((make, planned, run, external))
        return make

    return mark


def layer_norm(net, x, width):
    return net.op("LayerNormalization", [x, net.constant(np.ones(width, np.float32)), net.weight([width], scale=0.1)])


def linear(net, x, inner, outer, bias=True):
    y = net.op("MatMul", [x, net.weight([inner, outer], scale=inner**-0.5)])
    return net.op("Add", [y, net.weight([outer], scale=0.1)]) if bias else y


def heads(net, x, width, count, order):
    """Heads split by a shape that the graph works out from its input."""
    shape = net.op("Shape", [x], start=0, end=2)
    split = net.op("Concat", [shape, net.ints(count, width // count)], axis=0)
    return net.op("Transpose", [net.op("Reshape", [x, split])], perm=order)


def self_attention(net, x, width, count, mask=None):
    sides = [linear(net, x, width, width) for _ in range(3)]
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    query, key, value = (heads(net, side, width, count, order) for side, order in zip(sides, orders))
    scores = net.op("Mul", [net.op("MatMul", [query, key]), net.constant(np.float32((width // count) ** -0.5))])
    if mask is not None:
        scores = net.op("Add", [scores, mask])
    mixed = net.op("MatMul", [net.op("Softmax", [scores], axis=-1), value])
    joined = net.op("Concat", [net.op("Shape", [x], start=0, end=2), net.ints(width)], axis=0)
    mixed = net.op("Reshape", [net.op("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])
    return linear(net, mixed, width, width)


@cut_model(planned={"batch": 2, "tokens": 8}, run={"batch": 3, "tokens": 5})
def encoder(net):
    """A transformer encoder; batch and length are symbolic."""
    width = 32
    ids = net.input(["batch", "tokens"], "int64", name="ids", below=50)
    allowed = net.input(["batch", "tokens"], "int64", name="mask", below=2)
    x = net.op("Gather", [net.weight([50, width], name="table"), ids])
    length = net.op("Gather", [net.op("Shape", [ids]), net.constant(np.array(1, np.int64))], axis=0)
    zero, one = net.constant(np.array(0, np.int64)), net.constant(np.array(1, np.int64))
    places = net.op("Range", [zero, length, one])
    x = net.op("Add", [x, net.op("Gather", [net.weight([64, width]), places])])
    mask = net.op("Unsqueeze", [net.op("Cast", [allowed], to=TensorProto.FLOAT), net.ints(1, 2)])
    mask = net.op("Mul", [net.op("Sub", [net.constant(np.float32(1)), mask]), net.constant(np.float32(-100))])
    for _ in range(3):
        x = layer_norm(net, net.op("Add", [x, self_attention(net, x, width, 4, mask)]), width)
        inner = net.op("Relu", [linear(net, x, width, 64)])
        x = layer_norm(net, net.op("Add", [x, linear(net, inner, 64, width)]), width)
    first = net.op("Gather", [x, net.constant(np.array(0, np.int64))], axis=1)
    net.output(x, net.op("Softmax", [linear(net, first, width, 5)], axis=-1))


@cut_model(planned={"batch": 1, "side": 32}, run={"batch": 2, "side": 48})
def unet(net):
    """Down and up again, with skips; the side of the image is symbolic."""
    x = net.input(["batch", 3, "side", "side"], name="image")

    def convolve(x, inputs, outputs, **attributes):
        y = net.op("Conv", [x, net.weight([outputs, inputs, 3, 3]), net.weight([outputs], scale=0.1)], pads=[1] * 4, **attributes)
        return net.op("Relu", [y])

    skips, width, channels = [], 8, 3
    for _ in range(3):
        x = convolve(convolve(x, channels, width), width, width)
        skips.append((x, width))
        x, channels, width = net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), width, width * 2
    x, channels = convolve(x, channels, width), width
    for number, (skip, width) in enumerate(reversed(skips)):
        if number % 2:
            x = net.op("ConvTranspose", [x, net.weight([channels, width, 2, 2])], strides=[2, 2])
        else:
            x = net.op("Resize", [x, "", net.constant(np.array([1, 1, 2, 2], np.float32))], mode="nearest")
            x = convolve(x, channels, width)
        x, channels = convolve(net.op("Concat", [x, skip], axis=1), 2 * width, width), width
    net.output(net.op("Sigmoid", [net.op("Conv", [x, net.weight([1, channels, 1, 1])])]))


@cut_model(planned={"steps": 6, "batch": 2}, run={"steps": 9, "batch": 1})
def speech(net):
    """Recurrent layers, with states given and taken."""
    x = net.input(["steps", "batch", 10], name="frames")
    state = net.input([2, "batch", 8], name="state")
    weights = [net.weight([2, 32, 10]), net.weight([2, 32, 8]), net.weight([2, 64], scale=0.1)]
    y, hidden, cell = net.op("LSTM", [x, *weights, "", state, state], outputs=3, hidden_size=8, direction="bidirectional")
    y = net.op("Transpose", [y], perm=[0, 2, 1, 3])
    shape = net.op("Concat", [net.op("Shape", [y], start=0, end=2), net.ints(16)], axis=0)
    y = net.op("Reshape", [y, shape])
    y, last = net.op("GRU", [y, net.weight([1, 18, 16]), net.weight([1, 18, 6])], outputs=2, hidden_size=6)
    y = net.op("Squeeze", [y, net.ints(1)])
    y = net.op("LogSoftmax", [linear(net, y, 6, 12)], axis=-1)
    net.output(y, net.op("Add", [hidden, cell]), last)


@cut_model()
def quantised(net):
    """A convolutional network with quantised weights and activations."""
    x = net.input([1, 3, 24, 24], name="image")

    def pair(x, scale=0.05, zero=128):
        ends = [net.constant(np.float32(scale)), net.constant(np.array(zero, np.uint8))]
        return net.op("DequantizeLinear", [net.op("QuantizeLinear", [x, *ends]), *ends])

    def convolve(x, inputs, outputs, **attributes):
        weight = net.weight([outputs, inputs, 3, 3], "int8", below=120)
        scales = net.constant(np.full(outputs, 0.002, np.float32)), net.constant(np.zeros(outputs, np.int8))
        weight = net.op("DequantizeLinear", [weight, *scales], axis=0)
        return pair(net.op("Relu", [net.op("Conv", [pair(x), weight], pads=[1] * 4, **attributes)]), zero=0)

    x = convolve(x, 3, 8, strides=[2, 2])
    for _ in range(3):
        x = pair(net.op("Add", [x, convolve(convolve(x, 8, 8), 8, 8)]), zero=0)
    x = net.op("Flatten", [net.op("GlobalAveragePool", [x])])
    y, scale, zero = net.op("DynamicQuantizeLinear", [x], outputs=3)
    whole = net.op("MatMulInteger", [y, net.weight([8, 10], "int8", below=100), zero])
    net.output(net.op("Mul", [net.op("Cast", [whole], to=TensorProto.FLOAT), scale]))


@cut_model(planned={"batch": 2}, run={"batch": 5})
def tied(net):
    """One table embeds and predicts; two layers share their weights."""
    table = net.weight([40, 16], name="table", scale=0.3)
    ids = net.input(["batch", 7], "int64", name="ids", below=40)
    x = net.op("Gather", [table, ids])
    weights = [net.weight([16, 32]), net.weight([32, 16])]
    for _ in range(4):
        inner = net.op("Tanh", [net.op("MatMul", [x, weights[0]])])
        x = layer_norm(net, net.op("Add", [x, net.op("MatMul", [inner, weights[1]])]), 16)
    net.output(net.op("MatMul", [x, net.op("Transpose", [table], perm=[1, 0])]), x)


@cut_model(planned={"batch": 4}, run={"batch": 2}, external=True)
def external(net):
    """Weights in a file of their own; the second input is an output too."""
    x, side = net.input(["batch", 24], name="x"), net.input(["batch", 24], name="side")
    parts = []
    for number in range(4):
        x = net.op("Relu", [net.op("Gemm", [x, net.weight([24, 24]), net.weight([24])])])
        parts.append(net.op("Mul", [x, side]) if number % 2 else x)
    both = net.op("Concat", parts, axis=1)
    left, right = net.op("Split", [both], outputs=2, axis=1)
    net.output(net.op("Sub", [left, right]), "side")


@cut_model(planned={"batch": 2}, run={"batch": 3})
def flow(net):
    """Branches, loops and scans, whose bodies take weights and values from around them."""
    body = family_models.body
    x = net.input(["batch", 8], name="x")
    condition = net.input([], "bool", name="condition")
    weight, other = net.weight([8, 8]), net.weight([8, 8])
    x = net.op("Relu", [net.op("MatMul", [x, weight])])
    taken = body("taken", [helper.make_node("MatMul", [x, other], ["branch_a"])], [], ["branch_a"])
    left = body("left", [helper.make_node("Neg", [x], ["branch_b"])], [], ["branch_b"])
    y = net.op("If", [condition], then_branch=taken, else_branch=left)
    nodes = [
        helper.make_node("MatMul", ["held_in", weight], ["product"]),
        helper.make_node("Add", ["product", y], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["held_out"]),
        helper.make_node("Identity", ["held_out"], ["row"]),
        helper.make_node("Identity", ["go_in"], ["go_out"]),
    ]
    inputs = [("round", TensorProto.INT64, []), ("go_in", TensorProto.BOOL, []), "held_in"]
    inside = body("rounds", nodes, inputs, [("go_out", TensorProto.BOOL, []), "held_out", "row"])
    last, rows = net.op("Loop", [net.constant(np.array(3, np.int64)), "", x], outputs=2, body=inside)
    nodes = [helper.make_node("Add", ["sum_in", "slice"], ["sum_out"]), helper.make_node("Mul", ["sum_out", x], ["kept"])]
    # The runtime wants the shapes of what a scan makes declared.
    outputs = [(name, TensorProto.FLOAT, ["batch", 8]) for name in ("sum_out", "kept")]
    inside = body("steps", nodes, ["sum_in", "slice"], outputs)
    total, all_kept = net.op("Scan", [last, rows], outputs=2, body=inside, num_scan_inputs=1)
    net.output(net.op("Add", [total, last]), net.op("ReduceSum", [all_kept, net.ints(0)], keepdims=0))


@cut_model()
def functions(net):
    """Blocks that are calls of local functions, which call others."""
    sets = [helper.make_opsetid("", net.opset)]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    net.functions.append(helper.make_function("local", "Dense", ["x", "w"], ["y"], nodes, sets))
    nodes = [
        helper.make_node("Dense", ["x", "a"], ["inner"], domain="local"),
        helper.make_node("Dense", ["inner", "b"], ["outer"], domain="local"),
        helper.make_node("Add", ["x", "outer"], ["y"]),
    ]
    net.functions.append(
        helper.make_function("local", "Block", ["x", "a", "b"], ["y"], nodes, [*sets, helper.make_opsetid("local", 1)])
    )
    x = net.input([3, 12], name="x")
    for _ in range(4):
        x = net.op("Block", [x, net.weight([12, 20]), net.weight([20, 12])], domain="local")
    net.output(net.op("Dense", [x, net.weight([12, 4])], domain="local"))


@cut_model(planned={"batch": 1, "past": 4}, run={"batch": 1, "past": 9})
def decoder(net):
    """One step of a language model with ONNX Runtime's operators: caches grow, weights have four bits."""
    count, shared, size = 4, 2, 8
    width = count * size
    ids = net.input(["batch", 1], "int64", name="ids", below=30)
    caches = [[net.input(["batch", shared, "past", size], name=f"{kind}{n}") for kind in ("key", "value")] for n in range(2)]
    x = net.op("Gather", [net.weight([30, width]), ids])
    past = net.op("Gather", [net.op("Shape", [caches[0][0]]), net.constant(np.array(2, np.int64))], axis=0)
    past = net.op("Cast", [past], to=TensorProto.INT32)
    last = net.op("Unsqueeze", [past, net.ints(0)])
    total = net.op("Add", [past, net.constant(np.array(1, np.int32))])

    def narrow(x, inner, outer):
        packed = net.constant(net.random.integers(0, 255, [outer, inner // 16, 8]).astype(np.uint8))
        scales = net.constant(np.full([outer, inner // 16], 0.02, np.float32))
        return net.op("MatMulNBits", [x, packed, scales], domain=MICROSOFT, K=inner, N=outer, bits=4, block_size=16)

    for n in range(2):
        normal = layer_norm(net, x, width)
        sides = [narrow(normal, width, width), narrow(normal, width, shared * size), narrow(normal, width, shared * size)]
        names = [net.fresh("mixed"), f"key{n}_out", f"value{n}_out"]
        net.op(
            "GroupQueryAttention",
            [*sides, *caches[n], last, total],
            names=names,
            domain=MICROSOFT,
            num_heads=count,
            kv_num_heads=shared,
        )
        inputs = [narrow(names[0], width, width), x, net.constant(np.ones(width, np.float32))]
        normal, x = net.op(
            "SkipSimplifiedLayerNormalization", inputs, names=[net.fresh("normal"), "", "", net.fresh("sum")], domain=MICROSOFT
        )[::3]
        gate = net.op("Mul", [net.op("Sigmoid", [narrow(normal, width, 64)]), narrow(normal, width, 64)])
        x = net.op("Add", [x, narrow(gate, 64, width)])
        net.output(*names[1:])
    net.output(linear(net, x, width, 30, bias=False))


@cut_model(planned={"n": 6}, run={"n": 11})
def tangle(net):
    """Many small ops with many readers each, some of them worked out from weights and shapes alone."""
    row = net.input([1, 5], name="row")
    values = [net.input(["n", 5], name="a"), net.input(["n", 5], name="b"), net.weight([5]), net.weight([1, 5])]
    for _ in range(40):
        left, right = (values[net.random.integers(0, len(values))] for _ in range(2))
        operator = ["Add", "Sub", "Mul", "Max"][net.random.integers(0, 4)]
        value = net.op(operator, [left, right])
        if net.random.integers(0, 4) == 0:
            value = net.op("Tanh", [value])
        if net.random.integers(0, 8) == 0:
            value = net.op("Dropout", [value])
        if net.random.integers(0, 6) == 0:
            # The shape of one value decides that of another, made from something earlier.
            value = net.op("Add", [value, net.op("Expand", [net.weight([1, 5]), net.op("Shape", [value])])])
            value = net.op("Max", [value, net.op("Expand", [row, net.op("Shape", [value])])])
        values.append(value)
    read = {name for node in net.nodes for name in node.input}
    rows = net.op("Gather", [net.op("Shape", ["a"]), net.constant(np.array(0, np.int64))], axis=0)
    net.output(*[name for name in values[4:] if name not in read], rows)


@cut_model(planned={"batch": 1}, run={"batch": 2})
def detector(net):
    """Boxes found in an image: how many there are depends on the data."""
    x = net.input(["batch", 3, 16, 16], name="image")
    for inputs, outputs in ((3, 8), (8, 8)):
        weights = [net.weight([outputs, inputs, 3, 3]), net.weight([outputs], scale=0.1)]
        x = net.op("Relu", [net.op("Conv", [x, *weights], strides=[2, 2], pads=[1] * 4)])
    boxes = net.op("Conv", [x, net.weight([4, 8, 1, 1])])
    scores = net.op("Sigmoid", [net.op("Conv", [x, net.weight([3, 8, 1, 1])])])
    boxes = net.op("Transpose", [net.op("Reshape", [boxes, net.ints(0, 4, 16)])], perm=[0, 2, 1])
    scores = net.op("Reshape", [scores, net.ints(0, 3, 16)])
    limits = [net.ints(5), net.constant(np.array([0.5], np.float32)), net.constant(np.array([0.3], np.float32))]
    kept = net.op("NonMaxSuppression", [boxes, scores, *limits])
    where = net.op("Gather", [kept, net.ints(0, 2)], axis=1)
    found = net.op("GatherND", [boxes, where])
    corners = net.op("Split", [found], outputs=2, axis=1)
    areas = net.op("ReduceProd", [net.op("Sub", [corners[1], corners[0]])], axes=[1], keepdims=0)
    bright = net.op("Transpose", [net.op("NonZero", [net.op("Greater", [scores, net.constant(np.float32(0.6))])])])
    net.output(found, areas, net.op("Cast", [bright], to=TensorProto.INT32))


@cut_model(planned={"batch": 6}, run={"batch": 9})
def sequences(net):
    """Tensors in sequences, which cross from piece to piece as they are."""
    x = net.input(["batch", 4], name="x")
    parts = net.op("SplitToSequence", [net.op("Relu", [x]), net.constant(np.array(2, np.int64))], axis=1)
    first, second = (net.op("SequenceAt", [parts, net.constant(np.array(n, np.int64))]) for n in (0, 1))
    more = net.op("SequenceInsert", [parts, net.op("Mul", [first, second])])
    both = net.op("SequenceConstruct", [net.op("Neg", [first]), net.op("Abs", [second])])
    joined = [net.op("ConcatFromSequence", [each], axis=1) for each in (more, both)]
    net.output(net.op("Concat", joined, axis=1), net.op("SequenceLength", [more]))
