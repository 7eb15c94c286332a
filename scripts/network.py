"""A small model under construction, with values to feed it."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ELEMENTS = {
    "float": (TensorProto.FLOAT, np.float32),
    "double": (TensorProto.DOUBLE, np.float64),
    "float16": (TensorProto.FLOAT16, np.float16),
    "int64": (TensorProto.INT64, np.int64),
    "int32": (TensorProto.INT32, np.int32),
    "int8": (TensorProto.INT8, np.int8),
    "uint8": (TensorProto.UINT8, np.uint8),
    "bool": (TensorProto.BOOL, np.bool_),
}

# The IR that came with an operator set; later ones may only use what it has.
IR_OF_OPSET = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}

MICROSOFT = "com.microsoft"


def random_values(generator, shape, element, below=2):
    kind = ELEMENTS[element][1]
    if kind is np.bool_:
        return generator.integers(0, 2, shape).astype(kind)
    if np.issubdtype(kind, np.integer):
        return generator.integers(0, below, shape).astype(kind)
    return generator.standard_normal(shape).astype(kind)


class Network:
    """Nodes are added one after another; names of values are made up."""

    def __init__(self, name, opset=21, seed=0, sizes=None):
        self.name, self.opset = name, opset
        self.random = np.random.default_rng(seed)
        # Sizes of symbolic dimensions, by name.
        self.sizes = dict(sizes or {})
        self.nodes, self.inputs, self.outputs, self.weights = [], [], [], []
        self.feeds, self.functions, self.domains = {}, [], {"": opset}
        # What random inputs are made of: shape, element type, and a bound for whole numbers.
        self.specs = {}
        self.made = 0

    def fresh(self, stem):
        self.made += 1
        return f"{stem}_{self.made}"

    def values(self, shape, element="float", below=2):
        """Random values; whole numbers are below a bound."""
        return random_values(self.random, [self.sizes.get(dim, dim) for dim in shape], element, below)

    def input(self, shape, element="float", name=None, below=2):
        name = name or self.fresh("input")
        self.inputs.append(helper.make_tensor_value_info(name, ELEMENTS[element][0], shape))
        self.feeds[name] = self.values(shape, element, below)
        self.specs[name] = (shape, element, below)
        return name

    def constant(self, values, element=None, name=None):
        """A weight with these values."""
        values = np.array(values, dtype=ELEMENTS[element][1] if element else None)
        name = name or self.fresh("weight")
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, dtype=np.int64))

    def weight(self, shape, element="float", scale=None, below=2, name=None):
        """A random weight, scaled so that sums over it neither vanish nor explode."""
        values = self.values(shape, element, below)
        if element in ("float", "float16", "double"):
            spread = scale if scale is not None else 1 / np.sqrt(max(1, np.prod(shape[1:])))
            values = (values * spread).astype(values.dtype)
        return self.constant(values, name=name)

    def op(self, operator, inputs, outputs=1, domain="", names=None, **attributes):
        """Adds a node; its output, or a list of them."""
        if domain and domain not in self.domains:
            self.domains[domain] = 1
        names = names or [self.fresh(operator.lower()) for _ in range(outputs)]
        node = helper.make_node(operator, inputs, names, name=self.fresh(operator), domain=domain, **attributes)
        self.nodes.append(node)
        return names[0] if len(names) == 1 else names

    def output(self, *names):
        self.outputs += names

    def model(self):
        """The model; outputs declare an element type and no shape."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [], initializer=self.weights)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs)
        sets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        version = IR_OF_OPSET.get(self.opset, 11)
        model = helper.make_model(graph, opset_imports=sets, functions=self.functions, ir_version=version)
        if version < 4:
            # Before IR 4 every weight is an input too.
            for tensor in self.weights:
                model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        return with_output_types(model)

    def model_with_ranks(self):
        """The model with open dimensions for its outputs, as the checker wants them; found by running it."""
        import onnxruntime

        model = self.model()
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [output.name for output in model.graph.output]
        for output, value in zip(model.graph.output, session.run(names, self.feeds)):
            output.type.tensor_type.shape.SetInParent()
            for _ in value.shape:
                output.type.tensor_type.shape.dim.add()
        return model


def with_output_types(model):
    """Element types of outputs as ONNX Runtime finds them: the checker wants them declared."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    types = {output.name: output.type for output in session.get_outputs()}
    for output in model.graph.output:
        text = types[output.name]
        if text.startswith("tensor("):
            number = TensorProto.DataType.Value(text[len("tensor(") : -1].upper())
            output.type.tensor_type.elem_type = number
        else:
            inner = text[len("seq(tensor(") : -2]
            number = TensorProto.DataType.Value(inner.upper())
            output.type.sequence_type.elem_type.tensor_type.elem_type = number
    return model
