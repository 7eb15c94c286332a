//! Floating-point operations of torch nodes, from shapes alone. A multiply-add counts as two.

/// The shapes around a node. Parameters inside a module are known by their number of elements only.
pub(super) struct Shapes<'a> {
    pub(super) output: &'a [u64],
    pub(super) inputs: &'a [&'a [u64]],
    pub(super) params: &'a [&'a [u64]],
    pub(super) param_elements: u64,
}

impl Shapes<'_> {
    fn output_elements(&self) -> Option<u64> {
        elements(self.output)
    }

    fn largest_input(&self) -> Option<u64> {
        self.inputs.iter().filter_map(|shape| elements(shape)).max()
    }
}

fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

/// Operations of one node, or none if its kind is not known.
pub(super) fn flops(op: &str, shapes: &Shapes<'_>) -> Option<u64> {
    let name = op.split('.').next().unwrap_or(op);
    let outputs = shapes.output_elements()?;
    let per_output = |count: u64| outputs.checked_mul(count);
    match name {
        // Parameters per output channel are the multiply-adds per output element.
        "Conv2d" | "Conv1d" | "Conv3d" => {
            per_output(shapes.param_elements.checked_div(*shapes.output.get(1)?)?.checked_mul(2)?)
        }
        "Linear" => per_output(shapes.param_elements.checked_div(*shapes.output.last()?)?.checked_mul(2)?),
        "linear" | "addmm" | "mm" => {
            let weight = shapes.params.iter().find(|shape| shape.len() == 2)?;
            per_output(elements(weight)?.checked_div(*shapes.output.last()?)?.checked_mul(2)?)
        }
        "matmul" | "bmm" => per_output(shapes.inputs.first()?.last()?.checked_mul(2)?),
        "scaled_dot_product_attention" => {
            let keys = shapes.inputs.get(1)?.iter().rev().nth(1).copied()?;
            per_output(keys.checked_mul(4)?)
        }
        "embedding"
        | "Dropout"
        | "dropout"
        | "Flatten"
        | "flatten"
        | "view"
        | "reshape"
        | "transpose"
        | "permute"
        | "contiguous"
        | "cat"
        | "slice"
        | "unsqueeze"
        | "squeeze"
        | "expand"
        | "split"
        | "chunk"
        | "getitem"
        | "to"
        | "alias"
        | "clone"
        | "index"
        | "index_select"
        | "arange"
        | "stack"
        | "ones"
        | "zeros"
        | "new_ones"
        | "detach_"
        | "lift_fresh_copy"
        | "_assert_tensor_metadata"
        | "GuardsFn"
        | "Identity" => Some(0),
        "BatchNorm2d" | "BatchNorm1d" => per_output(2),
        "layer_norm" | "LayerNorm" | "rms_norm" | "group_norm" => per_output(8),
        "softmax" | "_softmax" | "Softmax" => per_output(5),
        "gelu" | "GELU" | "silu" | "SiLU" | "tanh" | "sigmoid" | "exp" | "cos" | "sin" => per_output(4),
        // A pool or reduction touches each input element about once.
        "MaxPool2d"
        | "AvgPool2d"
        | "AdaptiveAvgPool2d"
        | "max_pool2d"
        | "avg_pool2d"
        | "adaptive_avg_pool2d"
        | "mean"
        | "sum"
        | "cumsum"
        | "diff" => shapes.largest_input().or(Some(outputs)),
        "ReLU" | "relu" | "ReLU6" | "relu6" | "relu_" | "hardtanh" | "hardtanh_" | "add" | "add_"
        | "iadd" | "sub" | "mul" | "imul" | "div" | "truediv" | "neg" | "pow" | "rsqrt" | "sqrt" | "eq"
        | "ne" | "le" | "lt" | "gt" | "ge" | "__and__" | "where" | "abs" | "clamp" => per_output(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_convolution_of_resnet50_has_its_published_count() {
        let shapes = Shapes {
            output: &[1, 64, 112, 112],
            inputs: &[&[1, 3, 224, 224]],
            params: &[],
            param_elements: 64 * 3 * 7 * 7,
        };
        assert_eq!(flops("Conv2d", &shapes), Some(2 * 118_013_952));
        assert_eq!(flops("SomethingNew", &shapes), None);
    }
}
