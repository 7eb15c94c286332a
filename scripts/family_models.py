"""Small runnable models of every family of operators, in several operator sets. Seeded: the same every time.

Each function below fills one model; its name is the model's. `cases()` gives names, and what makes the models.
"""

import functools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from network import MICROSOFT, Network
from shape_case import Case

MAKERS = []


def model(opset=21, sizes=None):
    """Marks a function that fills a network."""

    def mark(fill):
        opsets = opset if isinstance(opset, (list, tuple)) else [opset]
        for number in opsets:
            name = fill.__name__ if len(opsets) == 1 else f"{fill.__name__}_opset{number}"
            MAKERS.append((name, number, sizes, fill))
        return fill

    return mark


def cases():
    def made(seed, name, opset, sizes, fill):
        net = Network(name, opset, seed, sizes)
        fill(net)
        read = {source for node in net.nodes for source in node.input}
        read |= {source for node in net.nodes for attribute in node.attribute for source in captured(attribute)}
        net.output(*[name for node in net.nodes for name in node.output if name and name not in read])
        return Case(net.model(), net.feeds, net.sizes)

    for seed, (name, *how) in enumerate(MAKERS):
        yield name, functools.partial(made, seed, name, *how)


def captured(attribute):
    """What the bodies of a node read."""
    graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
    for graph in graphs:
        for node in graph.node:
            yield from node.input
            for inner in node.attribute:
                yield from captured(inner)
        for output in graph.output:
            yield output.name


# Convolutions


@model(opset=[7, 9, 11, 13, 17, 21, 22])
def convolutions_2d(net):
    x = net.input([2, 6, 17, 19])
    y = net.op("Conv", [x, net.weight([8, 6, 3, 3]), net.weight([8])], strides=[2, 1], pads=[1, 0, 1, 2])
    y = net.op("Conv", [y, net.weight([8, 1, 3, 3])], group=8, dilations=[2, 1], pads=[2, 1, 2, 1])
    y = net.op("Conv", [y, net.weight([12, 4, 1, 1])], group=2, kernel_shape=[1, 1])
    y = net.op("Conv", [y, net.weight([5, 12, 4, 2])], auto_pad="SAME_UPPER", strides=[3, 2])
    y = net.op("Conv", [y, net.weight([5, 5, 2, 3])], auto_pad="SAME_LOWER")
    net.op("Conv", [y, net.weight([3, 5, 2, 2])], auto_pad="VALID")


@model(opset=[7, 13, 22])
def convolutions_1d_3d(net):
    line = net.input([2, 4, 31])
    y = net.op("Conv", [line, net.weight([6, 4, 5])], strides=[2], pads=[2, 2])
    net.op("Conv", [y, net.weight([6, 1, 3])], group=6, dilations=[3], auto_pad="VALID")
    space = net.input([1, 2, 9, 8, 7])
    y = net.op("Conv", [space, net.weight([4, 2, 3, 3, 3])], pads=[1, 1, 1, 0, 0, 0], strides=[1, 2, 1])
    net.op("Conv", [y, net.weight([4, 2, 2, 2, 2])], group=2)


@model(opset=[7, 11, 22])
def convolutions_transposed(net):
    x = net.input([1, 6, 7, 5])
    y = net.op("ConvTranspose", [x, net.weight([6, 4, 3, 3])], strides=[2, 3], pads=[1, 0, 1, 0])
    y = net.op("ConvTranspose", [y, net.weight([4, 3, 2, 2])], group=2, strides=[2, 2], output_padding=[1, 0])
    net.op("ConvTranspose", [y, net.weight([6, 2, 3, 3])], dilations=[2, 1])
    net.op("ConvTranspose", [x, net.weight([6, 2, 4, 4])], strides=[2, 2], auto_pad="SAME_UPPER")
    net.op("ConvTranspose", [x, net.weight([6, 2, 4, 4])], strides=[2, 2], output_shape=[15, 11])
    line = net.input([2, 3, 9])
    net.op("ConvTranspose", [line, net.weight([3, 2, 4])], strides=[3])


@model(opset=13)
def convolutions_fused(net):
    x = net.input([1, 4, 10, 10])
    net.op("FusedConv", [x, net.weight([6, 4, 3, 3])], domain=MICROSOFT, activation="Relu", pads=[1, 1, 1, 1])


@model(opset=22)
def convolutions_deformable(net):
    x = net.input([1, 3, 8, 8])
    net.op("DeformConv", [x, net.weight([4, 3, 3, 3]), net.weight([1, 18, 6, 6])], kernel_shape=[3, 3])


# Products


@model(opset=[7, 9, 11, 13, 17, 21])
def products(net):
    a, b = net.input([3, 5, 8]), net.input([8])
    y = net.op("MatMul", [a, net.weight([8, 6])])
    net.op("MatMul", [y, net.weight([3, 6, 2])])
    net.op("MatMul", [a, b])
    net.op("MatMul", [b, b])
    net.op("MatMul", [b, net.weight([4, 8, 3])])
    net.op("MatMul", [net.input([2, 1, 4, 8]), net.weight([3, 8, 5])])
    flat = net.input([4, 6])
    y = net.op("Gemm", [flat, net.weight([9, 6]), net.weight([9])], transB=1, alpha=0.5)
    net.op("Gemm", [y, net.weight([4, 7]), net.weight([9, 1])], transA=1)


@model(opset=[12, 17])
def products_by_letters(net):
    a, b = net.input([2, 3, 4]), net.input([2, 4, 5])
    net.op("Einsum", [a, b], equation="bij,bjk->bik")
    net.op("Einsum", [a, b], equation="bij,bjk->ki")
    net.op("Einsum", [a], equation="...ij->...ji")
    net.op("Einsum", [a, a], equation="bij,bij->b")
    net.op("Det", [net.input([3, 4, 4])])


@model(opset=13)
def products_fused(net):
    a = net.input([2, 6, 8])
    net.op("FusedMatMul", [a, net.weight([2, 5, 8])], domain=MICROSOFT, transB=1, alpha=0.25)
    net.op("Inverse", [net.input([2, 3, 3])], domain=MICROSOFT)
    net.op("FusedGemm", [net.input([4, 8]), net.weight([8, 3]), net.weight([3])], domain=MICROSOFT, activation="Relu")


# Attention


@model(opset=23)
def attention(net):
    q, k, v = net.input([2, 4, 5, 8]), net.input([2, 2, 7, 8]), net.input([2, 2, 7, 6])
    net.op("Attention", [q, k, v])
    net.op("Attention", [q, k, v, net.input([5, 7], "bool")], is_causal=0)
    q, k, v = net.input([2, 5, 32]), net.input([2, 7, 16]), net.input([2, 7, 12])
    net.op("Attention", [q, k, v], q_num_heads=4, kv_num_heads=2)
    past_keys, past_values = net.input([2, 2, 3, 8]), net.input([2, 2, 3, 6])
    net.op("Attention", [q, k, v, "", past_keys, past_values], outputs=3, q_num_heads=4, kv_num_heads=2)


@model(opset=23)
def attention_rotary(net):
    x = net.input([2, 3, 4, 8])
    net.op("RotaryEmbedding", [x, net.weight([2, 4, 4]), net.weight([2, 4, 4])])


@model(opset=17, sizes={"batch": 2, "tokens": 6})
def attention_contributed(net):
    x = net.input(["batch", "tokens", 16])
    y = net.op("Attention", [x, net.weight([16, 48]), net.weight([48])], domain=MICROSOFT, num_heads=4)
    sides = [net.op("MatMul", [y, net.weight([16, 16])]) for _ in range(3)]
    y = net.op("MultiHeadAttention", sides, domain=MICROSOFT, num_heads=2)
    net.op("MultiHeadAttention", [y, net.input(["batch", 9, 16]), net.input(["batch", 9, 24])], domain=MICROSOFT, num_heads=4)


@model(opset=17)
def attention_contributed_caches(net):
    x = net.input([2, 3, 16])
    past = net.input([2, 2, 4, 5, 4])
    net.op("Attention", [x, net.weight([16, 48]), net.weight([48]), "", past], outputs=2, domain=MICROSOFT, num_heads=4)
    q, k, v = net.input([2, 3, 16]), net.input([2, 3, 16]), net.input([2, 3, 16])
    key, value = net.input([2, 4, 5, 4]), net.input([2, 4, 5, 4])
    net.op("MultiHeadAttention", [q, k, v, "", "", "", key, value], outputs=3, domain=MICROSOFT, num_heads=4)


@model(opset=17)
def attention_in_groups(net):
    """The first prompt, a step with a past that grows, and a step in a buffer of fixed length."""
    heads, shared, size = 4, 2, 8
    groups = {"domain": MICROSOFT, "num_heads": heads, "kv_num_heads": shared}
    q, k, v = net.input([1, 6, heads * size]), net.input([1, 6, shared * size]), net.input([1, 6, shared * size])
    none = [net.constant(np.zeros([1, shared, 0, size], np.float32)) for _ in range(2)]
    length = [net.constant(np.array([5], np.int32)), net.constant(np.array(6, np.int32))]
    net.op("GroupQueryAttention", [q, k, v, *none, *length], outputs=3, **groups)
    packed = net.input([1, 1, (heads + 2 * shared) * size])
    past = [net.input([1, shared, 7, size]) for _ in range(2)]
    length = [net.constant(np.array([7], np.int32)), net.constant(np.array(8, np.int32))]
    net.op("GroupQueryAttention", [packed, "", "", *past, *length], outputs=3, **groups)


@model(opset=[13, 17], sizes={"batch": 2, "tokens": 5})
def attention_by_hand(net):
    """As exporters write it: heads split by Reshape and Transpose, with shapes worked out in the graph."""
    x = net.input(["batch", "tokens", 24])
    shape = net.op("Shape", [x])
    batch = net.op("Gather", [shape, net.constant(np.array(0, np.int64))], axis=0)
    tokens = net.op("Gather", [shape, net.constant(np.array(1, np.int64))], axis=0)
    ends = [net.op("Unsqueeze", [part, net.ints(0)]) for part in (batch, tokens)]
    split = net.op("Concat", [*ends, net.ints(4, 6)], axis=0)
    joined = net.op("Concat", [*ends, net.ints(24)], axis=0)
    sides = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        side = net.op("Add", [net.op("MatMul", [x, net.weight([24, 24])]), net.weight([24])])
        sides.append(net.op("Transpose", [net.op("Reshape", [side, split])], perm=order))
    scores = net.op("Div", [net.op("MatMul", sides[:2]), net.constant(np.float32(6**0.5))])
    mixed = net.op("MatMul", [net.op("Softmax", [scores], axis=-1), sides[2]])
    net.op("Reshape", [net.op("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])


# Normalisation


@model(opset=[7, 9, 13, 15, 21])
def normalisation(net):
    x = net.input([2, 6, 5, 4])
    channels = [net.constant(np.ones(6, np.float32)) for _ in range(4)]
    y = net.op("BatchNormalization", [x, *channels])
    y = net.op("InstanceNormalization", [y, *channels[:2]])
    y = net.op("LRN", [y], size=3)
    net.op("LpNormalization", [y], axis=1, p=2)
    net.op("Softmax", [x], axis=1)
    net.op("LogSoftmax", [x], axis=2)


@model(opset=[17, 21])
def normalisation_of_layers(net):
    x = net.input([2, 7, 12])
    net.op("LayerNormalization", [x, net.weight([12]), net.weight([12])], outputs=3, axis=-1)
    net.op("LayerNormalization", [x, net.weight([7, 12])], axis=1)
    net.op("MeanVarianceNormalization", [net.input([2, 3, 4, 5])], axes=[0, 2, 3])


@model(opset=21)
def normalisation_of_groups(net):
    x = net.input([2, 6, 5, 4])
    net.op("GroupNormalization", [x, net.weight([6]), net.weight([6])], num_groups=3)


@model(opset=23)
def normalisation_by_root(net):
    net.op("RMSNormalization", [net.input([2, 7, 12]), net.weight([12])])


@model(opset=17)
def normalisation_contributed(net):
    x, skip = net.input([2, 7, 16]), net.input([2, 7, 16])
    one = [net.weight([16]) for _ in range(3)]
    net.op("SkipLayerNormalization", [x, skip, *one], domain=MICROSOFT, names=["normal", "", "", "sum"])
    net.op("SkipSimplifiedLayerNormalization", [x, skip, one[0]], domain=MICROSOFT)
    net.op("SimplifiedLayerNormalization", [x, one[0]], axis=-1)
    ids = net.input([2, 5], "int32", below=9)
    tables = [net.weight([10, 16]), net.weight([8, 16]), "", net.weight([16]), net.weight([16])]
    net.op("EmbedLayerNormalization", [ids, "", *tables], outputs=2, domain=MICROSOFT)


# Pooling


@model(opset=[7, 10, 11, 13, 19, 22])
def pooling(net):
    x = net.input([2, 3, 15, 13])
    net.op("MaxPool", [x], outputs=2 if net.opset >= 8 else 1, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    y = net.op("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 1], auto_pad="SAME_UPPER")
    net.op("AveragePool", [y], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
    net.op("LpPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    for operator in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        if (operator, net.opset) != ("GlobalLpPool", 22):  # ONNX Runtime has no kernel for it
            net.op(operator, [x])
    if net.opset >= 10:
        net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], dilations=[2, 3], ceil_mode=1)
        net.op("AveragePool", [x], kernel_shape=[4, 4], strides=[3, 3], ceil_mode=1)
    if net.opset >= 11:
        kept, places = net.op("MaxPool", [net.input([2, 3, 14, 12])], outputs=2, kernel_shape=[2, 2], strides=[2, 2])
        net.op("MaxUnpool", [kept, places], kernel_shape=[2, 2], strides=[2, 2])
    net.op("MaxPool", [net.input([1, 2, 9])], kernel_shape=[3], strides=[2])
    net.op("AveragePool", [net.input([1, 2, 6, 7, 8])], kernel_shape=[2, 3, 2])


@model(opset=16)
def pooling_of_regions(net):
    x = net.input([1, 2, 12, 12])
    boxes = net.constant(np.array([[0, 0, 5, 5], [2, 2, 9, 9], [1, 3, 4, 11]], np.float32))
    net.op("RoiAlign", [x, boxes, net.ints(0, 0, 0)], output_height=4, output_width=3, sampling_ratio=2)
    boxes = net.constant(np.array([[0, 0, 0, 5, 5], [0, 2, 2, 9, 9]], np.float32))
    net.op("MaxRoiPool", [x, boxes], pooled_shape=[3, 2])


# Element by element


@model(opset=[7, 9, 13, 14, 21], sizes={"n": 3})
def arithmetic(net):
    a, b, c = net.input(["n", 4, 1]), net.input([1, 5]), net.input([])
    for operator in ("Add", "Sub", "Mul", "Div", "Pow"):
        net.op(operator, [a, b])
    net.op("Mul", [net.op("Add", [a, c]), b])
    for operator in ("Max", "Min", "Sum", "Mean"):
        net.op(operator, [a, b, c] if net.opset >= 8 else [a, a])
    for operator in ("Abs", "Neg", "Exp", "Floor", "Ceil", "Reciprocal", "Sin", "Cos", "Tan", "Atan", "Asin", "Acos"):
        net.op(operator, [a])
    net.op("Sqrt", [net.op("Abs", [a])])
    net.op("Log", [net.op("Exp", [a])])
    net.op("Clip", [a], min=-1.0, max=1.0) if net.opset < 11 else net.op("Clip", [a, net.constant(np.float32(-1))])
    net.op("Cast", [a], to=TensorProto.INT64)
    net.op("Identity", [b])
    if net.opset >= 9:
        for operator in ("Erf", "Sign", "Sinh", "Cosh", "Asinh", "Atanh", "IsNaN"):
            net.op(operator, [a])
        net.op("Where", [net.op("Greater", [a, b]), a, b])
    if net.opset >= 10:
        net.op("Mod", [net.input([4, 1], "int64", below=9), net.constant(np.array([2, 3], np.int64))])
    if net.opset >= 11:
        net.op("Round", [a])
        net.op("CumSum", [a, net.constant(np.array(1, np.int64))])
        net.op("BitShift", [net.input([4], "uint8", below=9), net.constant(np.array([1], np.uint8))], direction="LEFT")
    if net.opset >= 18:
        left, right = net.input([3, 1], "int32", below=9), net.input([4], "int32", below=9)
        for operator in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            net.op(operator, [left, right])
        net.op("BitwiseNot", [left])
        net.op("CastLike", [a, left])


@model(opset=[7, 11, 16])
def comparisons(net):
    a, b = net.input([3, 1, 4]), net.input([2, 1])
    less, more = net.op("Less", [a, b]), net.op("Greater", [a, b])
    for operator in ("And", "Or", "Xor"):
        net.op(operator, [less, more])
    net.op("Not", [less])
    net.op("Equal", [net.input([3], "int64"), net.input([2, 1], "int64")])
    if net.opset >= 12:
        net.op("GreaterOrEqual", [a, b])
        net.op("LessOrEqual", [a, b])
    if net.opset >= 10:
        net.op("IsInf", [a])


@model(opset=[7, 10, 16, 22])
def activations(net):
    x = net.input([2, 6, 4])
    for operator in ("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "Tanh", "Softplus", "Softsign"):
        net.op(operator, [x])
    net.op("PRelu", [x, net.weight([6, 1])])
    net.op("Hardmax", [x], axis=1)
    if net.opset >= 10:
        net.op("ThresholdedRelu", [x])
        net.op("Shrink", [x])
    if net.opset >= 12:
        net.op("Celu", [x])
    if net.opset >= 14:
        net.op("HardSwish", [x])
    if net.opset >= 20:
        net.op("Gelu", [x], approximate="tanh")
        net.op("Mish", [x])


@model(opset=17)
def activations_contributed(net):
    x = net.input([2, 5, 8])
    for operator in ("Gelu", "FastGelu", "QuickGelu"):
        net.op(operator, [x], domain=MICROSOFT)
    net.op("BiasGelu", [x, net.weight([8])], domain=MICROSOFT)


# Reductions

REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@model(opset=[7, 11, 13, 18, 21])
def reductions(net):
    x = net.input([2, 3, 4, 5])
    x = net.op("Abs", [x])
    for number, kind in enumerate(REDUCTIONS):
        axes, keep = [[1], [-1, 0], [2, 3], []][number % 4 if net.opset >= 11 else 3 * (number % 2)], number % 2
        as_input = net.opset >= (13 if kind == "Sum" else 18)
        if not axes:
            net.op(f"Reduce{kind}", [x], keepdims=keep)
        elif as_input:
            net.op(f"Reduce{kind}", [x, net.ints(*axes)], keepdims=keep)
        else:
            net.op(f"Reduce{kind}", [x], axes=axes, keepdims=keep)
    net.op("ArgMax", [x], axis=1)
    net.op("ArgMin", [x], axis=3, keepdims=0)
    if net.opset >= 10:
        net.op("TopK", [x, net.ints(2)], outputs=2, axis=2)
    else:
        net.op("TopK", [x], outputs=2, axis=2, k=2)


# Data movement


@model(opset=[7, 9, 11, 13, 21], sizes={"batch": 4})
def movement(net):
    x = net.input(["batch", 6, 4])
    net.op("Reshape", [x, net.ints(0, -1)])
    net.op("Reshape", [x, net.ints(-1, 3, 2)])
    net.op("Flatten", [x], axis=2)
    net.op("Transpose", [x], perm=[2, 0, 1])
    net.op("Transpose", [x])
    net.op("Concat", [x, net.op("Neg", [x]), x], axis=1)
    axes = net.opset >= 13
    y = net.op("Unsqueeze", [x, net.ints(0, 3)]) if axes else net.op("Unsqueeze", [x], axes=[0, 3])
    net.op("Squeeze", [y, net.ints(3)]) if axes else net.op("Squeeze", [y], axes=[3])
    net.op("Split", [x, net.ints(1, 5)], outputs=2, axis=1) if axes else net.op("Split", [x], outputs=2, axis=1, split=[1, 5])
    more = {"num_outputs": 3} if net.opset >= 18 else {}
    net.op("Split", [x], outputs=3, axis=1, **more)
    net.op("Tile", [x, net.ints(1, 2, 3)])
    if net.opset >= 8:
        net.op("Expand", [net.input([3, 1]), net.ints(2, 1, 5)])
        net.op("Expand", [x, net.ints(2, 1, 1, 1)])
    if net.opset >= 11:
        net.op("Pad", [x, net.ints(0, 1, 0, 2, 0, 3)], mode="constant")
        net.op("Pad", [x, net.ints(0, 2, 1, 0, 1, 1)], mode="reflect")
    else:
        net.op("Pad", [x], pads=[0, 1, 0, 2, 0, 3])
    image = net.input([1, 8, 4, 6])
    net.op("DepthToSpace", [image], blocksize=2)
    net.op("SpaceToDepth", [image], blocksize=2)
    if net.opset >= 9:
        net.op("OneHot", [net.input([3], "int64"), net.constant(np.array(5, np.int64)), net.constant(np.array([0, 1], np.float32))])
    if net.opset >= 14:
        net.op("Trilu", [x], upper=0)
    if net.opset >= 10:
        net.op("ReverseSequence", [x, net.constant(np.array([1, 2, 3, 4, 1, 2], np.int64))], batch_axis=1, time_axis=0)
    if net.opset >= 18:
        net.op("CenterCropPad", [image, net.ints(3, 9)], axes=[2, 3])
        net.op("Pad", [x, net.ints(1, 2), "", net.ints(-1)])
    if net.opset >= 15:
        net.op("Shape", [x], start=1)
    net.op("Size", [x])


@model(opset=[7, 10, 13])
def slices(net):
    x = net.input([5, 6, 7])
    if net.opset >= 10:
        net.op("Slice", [x, net.ints(1, -3), net.ints(4, 2**62), net.ints(0, 2)])
        net.op("Slice", [x, net.ints(-1), net.ints(-(2**62)), net.ints(1), net.ints(-2)])
        net.op("Slice", [x, net.ints(2), net.ints(100), net.ints(2), net.ints(3)])
    else:
        net.op("Slice", [x], starts=[1, -3], ends=[4, 2**62], axes=[0, 2])
        net.op("Slice", [x], starts=[2], ends=[100])


@model(opset=[7, 11, 13, 16, 18])
def gathers(net):
    x = net.input([5, 6, 4])
    net.op("Gather", [x, net.constant(np.array([[0, 2], [1, 3]], np.int64))], axis=1)
    net.op("Gather", [x, net.constant(np.array(2, np.int64))], axis=0)
    if net.opset >= 11:
        net.op("GatherElements", [x, net.input([2, 6, 4], "int64")], axis=0)
        net.op("GatherND", [x, net.constant(np.array([[0, 1], [2, 3], [4, 5]], np.int64))])
        net.op("ScatterElements", [x, net.input([1, 6, 4], "int64"), net.input([1, 6, 4])], axis=0)
        net.op("ScatterND", [x, net.constant(np.array([[1], [3]], np.int64)), net.input([2, 6, 4])])
    if net.opset >= 12:
        net.op("GatherND", [x, net.input([5, 3, 1], "int64")], batch_dims=1)


@model(opset=[7, 9])
def upsampling(net):
    x = net.input([1, 2, 5, 6])
    if net.opset >= 9:
        net.op("Upsample", [x, net.constant(np.array([1, 1, 2, 3], np.float32))], mode="nearest")
    else:
        net.op("Upsample", [x], scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")


@model(opset=[10, 11, 13, 18, 19])
def resizing(net):
    x = net.input([1, 2, 7, 9])
    scales = net.constant(np.array([1, 1, 1.7, 0.6], np.float32))
    if net.opset == 10:
        net.op("Resize", [x, scales], mode="nearest")
        return
    roi = net.constant(np.array([], np.float32)) if net.opset < 13 else ""
    net.op("Resize", [x, roi, scales], mode="nearest")
    net.op("Resize", [x, roi, scales], mode="linear", coordinate_transformation_mode="align_corners")
    none = net.constant(np.array([], np.float32)) if net.opset < 13 else ""
    net.op("Resize", [x, roi, none, net.ints(1, 2, 11, 4)], mode="cubic")
    if net.opset >= 18:
        net.op("Resize", [x, "", "", net.ints(12, 5)], axes=[2, 3], mode="nearest")
        net.op("Resize", [x, "", "", net.ints(12, 5)], axes=[2, 3], keep_aspect_ratio_policy="not_larger")
        net.op("Resize", [x, "", net.constant(np.array([0.5, 0.5], np.float32))], axes=[3, 2], mode="linear", antialias=1)


@model(opset=20)
def sampling(net):
    x = net.input([1, 2, 6, 7])
    grid = net.op("AffineGrid", [net.input([1, 2, 3]), net.ints(1, 2, 4, 5)])
    net.op("GridSample", [x, grid])
    net.op("Col2Im", [net.input([1, 8, 12]), net.ints(4, 5), net.ints(2, 2)])


@model(opset=17)
def signals(net):
    x = net.input([1, 16, 1])
    net.op("DFT", [x], axis=1, onesided=1)
    window = net.op("HannWindow", [net.constant(np.array(8, np.int64))])
    steps = net.constant(np.array(4, np.int64))
    net.op("STFT", [net.input([1, 32, 1]), steps, window], onesided=1)


@model(opset=[11, 21])
def generation(net):
    x = net.input([2, 3])
    net.op("ConstantOfShape", [net.op("Shape", [x])], value=helper.make_tensor("v", TensorProto.INT64, [1], [7]))
    number = [net.constant(np.array(n, np.int64)) for n in (2, 17, 4)]
    net.op("Range", number)
    net.op("Range", [net.constant(np.float32(n)) for n in (1, 2.5, 0.4)])
    net.op("EyeLike", [x])
    net.op("RandomNormalLike", [x])
    net.op("RandomUniform", [], shape=[2, 4])
    net.op("Dropout", [x], outputs=2)
    net.op("Constant", [], value=numpy_helper.from_array(np.zeros([2, 2], np.float32)))


@model(opset=13)
def dependent_on_data(net):
    """Shapes that nobody can know beforehand."""
    x = net.input([4, 5])
    places = net.op("NonZero", [x])
    net.op("Transpose", [places])
    net.op("Compress", [x, net.input([4], "bool")], axis=0)
    net.op("Unique", [x], outputs=4)
    net.op("NonMaxSuppression", [net.input([1, 6, 4]), net.input([1, 2, 6]), net.ints(3)])


# Quantised


def scale(net, value=0.05):
    return net.constant(np.float32(value))


def zero(net, value=0, element="uint8"):
    return net.constant(np.array(value), element)


@model(opset=[10, 13, 19, 21])
def quantised_pairs(net):
    x = net.input([1, 4, 6, 6])
    pair = [scale(net), zero(net, 128)]
    y = net.op("DequantizeLinear", [net.op("QuantizeLinear", [x, *pair]), *pair])
    weight = net.weight([8, 4, 3, 3], "int8", below=100)
    if net.opset >= 13:
        per_channel = [net.constant(np.full(8, 0.01, np.float32)), net.constant(np.zeros(8, np.int8))]
        weight = net.op("DequantizeLinear", [weight, *per_channel], axis=0)
    else:
        weight = net.op("DequantizeLinear", [weight, scale(net), zero(net, 0, "int8")])
    y = net.op("Conv", [y, weight])
    y = net.op("Relu", [y])
    net.op("QuantizeLinear", [y, *pair])


@model(opset=[10, 13])
def quantised_whole(net):
    x = net.input([2, 4, 7, 7], "uint8", below=200)
    ends = [scale(net), zero(net, 100)]
    weight = net.weight([6, 4, 3, 3], "int8", below=100)
    y = net.op("QLinearConv", [x, *ends, weight, scale(net), zero(net, 0, "int8"), *ends], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.op("Reshape", [y, net.ints(2, -1)])
    net.op("QLinearMatMul", [y, *ends, net.weight([96, 5], "uint8", below=200), *ends, *ends])
    net.op("ConvInteger", [x, net.weight([3, 4, 2, 2], "uint8", below=200), zero(net, 3)])
    left = net.input([4, 6], "uint8", below=200)
    net.op("MatMulInteger", [left, net.weight([6, 3], "int8", below=100), zero(net, 1), zero(net, 1, "int8")])


@model(opset=13)
def quantised_as_it_runs(net):
    x = net.input([3, 8])
    y, size, point = net.op("DynamicQuantizeLinear", [x], outputs=3)
    whole = net.op("MatMulInteger", [y, net.weight([8, 4], "int8", below=100), point, zero(net, 0, "int8")])
    net.op("Mul", [net.op("Cast", [whole], to=TensorProto.FLOAT), size])
    weight = net.weight([8, 4], "int8", below=100)
    net.op("DynamicQuantizeMatMul", [x, weight, scale(net), zero(net, 0, "int8")], domain=MICROSOFT)
    net.op("MatMulIntegerToFloat", [y, weight, size, scale(net), point, zero(net, 0, "int8")], domain=MICROSOFT)


@model(opset=13)
def quantised_contributed(net):
    a, b = net.input([1, 4, 8, 8], "uint8", below=200), net.input([4, 1, 1], "uint8", below=200)
    ends = [scale(net), zero(net, 90)]
    y = net.op("QLinearAdd", [a, *ends, b, *ends, *ends], domain=MICROSOFT)
    y = net.op("QLinearMul", [y, *ends, b, *ends, *ends], domain=MICROSOFT)
    y = net.op("QLinearLeakyRelu", [y, *ends, *ends], domain=MICROSOFT, alpha=0.1)
    y = net.op("QLinearSigmoid", [y, *ends, *ends], domain=MICROSOFT)
    net.op("QLinearSoftmax", [net.op("Flatten", [y]), *ends, scale(net, 1 / 256), zero(net)], domain=MICROSOFT, opset=13)
    y = net.op("QLinearConcat", [*ends, a, *ends, y, *ends], domain=MICROSOFT, axis=1)
    y = net.op("QLinearAveragePool", [y, *ends, *ends], domain=MICROSOFT, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    net.op("QLinearGlobalAveragePool", [y, *ends, *ends], domain=MICROSOFT)
    net.op("QGemm", [net.op("Flatten", [b]), *ends, net.weight([1, 5], "uint8", below=9), *ends, "", *ends], domain=MICROSOFT)
    net.op("QLinearWhere", [net.input([1, 4, 8, 8], "bool"), a, *ends, b, *ends, *ends], domain=MICROSOFT)


@model(opset=17)
def quantised_attention(net):
    x = net.input([2, 5, 16], "uint8", below=200)
    weight = net.weight([16, 48], "int8", below=100)
    inputs = [x, weight, net.weight([48]), scale(net), scale(net), "", zero(net, 100), zero(net, 0, "int8")]
    net.op("QAttention", inputs, domain=MICROSOFT, num_heads=4)


@model(opset=17)
def quantised_to_four_bits(net):
    x = net.input([2, 5, 64])
    blocks, block = 2, 32
    packed = net.constant(net.random.integers(0, 255, [24, blocks, block // 2]).astype(np.uint8))
    scales = net.constant(np.full([24, blocks], 0.01, np.float32))
    attributes = {"K": 64, "N": 24, "bits": 4, "block_size": block}
    net.op("MatMulNBits", [x, packed, scales], domain=MICROSOFT, **attributes)
    table = net.constant(net.random.integers(0, 255, [32, 32]).astype(np.uint8))
    rows = net.constant(np.full([32, 2], 0.01, np.float32))
    net.op("GatherBlockQuantized", [table, net.input([3], "int64"), rows], domain=MICROSOFT, block_size=32, bits=4)


@model(opset=21)
def quantised_to_four_bits_in_blocks(net):
    weight = helper.make_tensor("four", TensorProto.INT4, [8, 4], net.random.integers(-8, 7, 32).tolist())
    net.weights.append(weight)
    scales = net.constant(np.full([2, 4], 0.1, np.float32))
    y = net.op("DequantizeLinear", ["four", scales], axis=0, block_size=4)
    net.op("MatMul", [net.input([3, 8]), y])


# Control flow


def body(name, nodes, inputs, outputs, weights=()):
    """A graph inside a node; names only, types are found by inference."""
    graph = helper.make_graph(nodes, name, [], [], initializer=list(weights))
    for names, kind in ((inputs, graph.input), (outputs, graph.output)):
        for value in names:
            if isinstance(value, tuple):
                kind.append(helper.make_tensor_value_info(value[0], value[1], value[2]))
            else:
                kind.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, None))
    return graph


@model(opset=[7, 11, 13, 21], sizes={"batch": 3})
def branches(net):
    x = net.input(["batch", 8])
    weight = net.weight([8, 8])
    then_branch = body("then", [helper.make_node("MatMul", [x, weight], ["product"])], [], ["product"])
    else_branch = body("else", [helper.make_node("Relu", [x], ["positive"])], [], ["positive"])
    y = net.op("If", [net.input([], "bool")], then_branch=then_branch, else_branch=else_branch)
    net.op("Neg", [y])
    if net.opset < 11:
        return  # Branches had to give the same shapes.
    # A condition that is known: only the branch taken counts, and the other may give another shape.
    then_branch = body("then", [helper.make_node("Transpose", [x], ["turned"])], [], ["turned"])
    else_branch = body("else", [helper.make_node("Identity", [x], ["same"])], [], ["same"])
    net.op("If", [net.constant(np.array(True))], then_branch=then_branch, else_branch=else_branch)


@model(opset=[11, 13, 21], sizes={"batch": 2})
def loops(net):
    x = net.input(["batch", 4])
    weight = net.weight([4, 4])
    nodes = [
        helper.make_node("MatMul", ["state_in", weight], ["product"]),
        helper.make_node("Tanh", ["product"], ["state_out"]),
        helper.make_node("Neg", ["state_out"], ["row"]),
        helper.make_node("Identity", ["go_in"], ["go_out"]),
    ]
    inside = body(
        "rounds",
        nodes,
        [("round", TensorProto.INT64, []), ("go_in", TensorProto.BOOL, []), "state_in"],
        [("go_out", TensorProto.BOOL, []), "state_out", "row"],
    )
    state, rows = net.op("Loop", [net.constant(np.array(5, np.int64)), "", x], outputs=2, body=inside)
    net.op("Add", [state, x])
    net.op("ReduceMean", [rows], keepdims=0)


@model(opset=[9, 11, 16])
def scans(net):
    x, state = net.input([6, 2, 3]), net.input([2, 3])
    nodes = [
        helper.make_node("Add", ["sum_in", "slice"], ["sum_out"]),
        helper.make_node("Mul", ["sum_out", "slice"], ["row"]),
    ]
    inside = body("steps", nodes, ["sum_in", "slice"], ["sum_out", "row"])
    net.op("Scan", [state, x], outputs=2, body=inside, num_scan_inputs=1)
    turned = net.input([2, 6, 3])
    nodes = [helper.make_node("Relu", ["part"], ["kept"])]
    inside = body("columns", nodes, ["part"], ["kept"])
    net.op("Scan", [turned], body=inside, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1])


@model(opset=13)
def bodies_in_bodies(net):
    x = net.input([2, 4])
    weight = net.weight([4, 4])
    then_branch = body("then", [helper.make_node("MatMul", ["held_in", weight], ["a"])], [], ["a"])
    else_branch = body("else", [helper.make_node("Relu", ["held_in"], ["b"])], [], ["b"])
    nodes = [
        helper.make_node("If", ["go_in"], ["held_out"], then_branch=then_branch, else_branch=else_branch),
        helper.make_node("Identity", ["go_in"], ["go_out"]),
    ]
    inside = body(
        "rounds",
        nodes,
        [("round", TensorProto.INT64, []), ("go_in", TensorProto.BOOL, []), "held_in"],
        [("go_out", TensorProto.BOOL, []), "held_out"],
    )
    net.op("Loop", [net.constant(np.array(3, np.int64)), net.constant(np.array(True)), x], body=inside)


@model(opset=17)
def sequences(net):
    """Sequences are no tensors; what is taken out of them is, where all their members are alike."""
    x = net.input([4, 6])
    parts = net.op("SplitToSequence", [x, net.constant(np.array(2, np.int64))], axis=0)
    net.op("SequenceAt", [parts, net.constant(np.array(1, np.int64))])
    net.op("ConcatFromSequence", [parts], axis=1)
    net.op("SequenceLength", [parts])
    both = net.op("SequenceConstruct", [x, net.op("Neg", [x])])
    net.op("SequenceAt", [both, net.constant(np.array(0, np.int64))])
    net.op("ConcatFromSequence", [both], axis=0, new_axis=1)


# Recurrent


@model(opset=[7, 11, 14, 22], sizes={"steps": 5, "batch": 2})
def recurrent(net):
    x = net.input(["steps", "batch", 6])
    for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for way, directions in (("forward", 1), ("bidirectional", 2)):
            weights = [net.weight([directions, gates * 4, 6]), net.weight([directions, gates * 4, 4])]
            outputs = 3 if operator == "LSTM" else 2
            net.op(operator, [x, *weights], outputs=outputs, hidden_size=4, direction=way)
    weights = [net.weight([1, 16, 6]), net.weight([1, 16, 4])]
    net.op("LSTM", [x, *weights], names=["", "last", ""], hidden_size=4)


# Local functions


@model(opset=[17, 21])
def functions(net):
    sets = [helper.make_opsetid("", net.opset)]
    net.functions.append(
        helper.make_function(
            "local",
            "Bent",
            ["x", "w"],
            ["y"],
            [
                helper.make_node("MatMul", ["x", "w"], ["t"]),
                helper.make_node("LeakyRelu", ["t"], ["y"]),
            ],
            sets,
            ["alpha"],
        )
    )
    attribute = net.functions[0].node[1].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "alpha", 1
    inner = [helper.make_node("Bent", ["x", "w"], ["t"], domain="local", alpha=0.1), helper.make_node("Add", ["t", "x"], ["y"])]
    net.functions.append(helper.make_function("local", "Twice", ["x", "w"], ["y"], inner, [*sets, helper.make_opsetid("local", 1)]))
    x = net.input([2, 5, 8])
    y = net.op("Twice", [x, net.weight([8, 8])], domain="local")
    y = net.op("Bent", [y, net.weight([8, 3])], domain="local", alpha=0.3)
    then_branch = body("then", [helper.make_node("Bent", [y, net.weight([3, 4])], ["a"], domain="local", alpha=0.5)], [], ["a"])
    else_branch = body("else", [helper.make_node("Bent", [y, net.weight([3, 4])], ["b"], domain="local", alpha=0.7)], [], ["b"])
    net.op("If", [net.input([], "bool")], then_branch=then_branch, else_branch=else_branch)


# The newest operator set that ONNX Runtime runs


@model(opset=24)
def latest(net):
    x = net.input([2, 6, 8])
    y = net.op("RMSNormalization", [x, net.weight([8])])
    y = net.op("Add", [net.op("MatMul", [y, net.weight([8, 8])]), x])
    y = net.op("Reshape", [y, net.ints(2, 6, 2, 4)])
    net.op("Transpose", [y], perm=[0, 2, 1, 3])
    net.op("TopK", [x, net.ints(3)], outputs=2)
    net.op("Cast", [x], to=TensorProto.FLOAT16)
