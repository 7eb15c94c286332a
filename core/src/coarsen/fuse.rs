//! Fusing: which ops runtimes run as one kernel.
//!
//! * A convolution or product, then in any order one normalisation and one addition of a bias, then one activation.
//! * An addition of two tensors, then one activation.
//! * A chain of element-wise ops of one operand.
//! * With any of these, and with any other op: quantisation directly after it, and dequantisation directly before it.
//!
//! Every op but the last of a group is read by its successor in the group only, and makes no output of the network. So only the
//! last op's tensors leave a group, and merging keeps the graph acyclic. Ops are fused only if the same classes can run them at
//! the same batch sizes: a kernel that one device fuses must not exclude another device from part of it.

use super::kinds::Role;
use crate::costs::Profile;
use crate::graph::Graph;
use crate::ids::{OpId, TensorId};

/// What may still be fused to a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FusionTail {
    /// A product, and whether it has its normalisation and its bias.
    Product { normalised: bool, biased: bool },
    /// A sum of two tensors.
    Sum,
    /// A chain of element-wise ops.
    Chain,
    /// Nothing but quantising.
    Closed,
}

/// For each op the number of its group, which is the id of the group's last op.
pub fn group_fused(graph: &Graph, profile: &Profile) -> Vec<u32> {
    let roles: Vec<Role> = graph.ops().map(|op| Role::of(&graph.op(op).kind)).collect();
    let fusing = Fusing { graph, profile, roles };
    // A group is an in-tree with its last op as root: every other op stores its successor.
    let mut next: Vec<Option<OpId>> = vec![None; graph.op_count()];
    let mut tails = vec![FusionTail::Closed; graph.op_count()];
    for &op in graph.order() {
        tails[op.index()] = fusing.alone(op);
        if let Some(before) = fusing.sole_operand(op)
            && let Some(tail) = fusing.extended(tails[before.index()], op)
            && fusing.leads_only_to(before, op)
        {
            next[before.index()] = Some(op);
            tails[op.index()] = tail;
        }
        for before in graph.predecessors(op).filter(|before| fusing.roles[before.index()] == Role::Dequantize)
        {
            if fusing.leads_only_to(before, op) {
                next[before.index()] = Some(op);
            }
        }
    }
    let mut group_of: Vec<u32> = graph.ops().map(|op| op.0).collect();
    for &op in graph.order().iter().rev() {
        if let Some(next) = next[op.index()] {
            group_of[op.index()] = group_of[next.index()];
        }
    }
    group_of
}

/// A network and the roles of its ops.
struct Fusing<'a> {
    graph: &'a Graph,
    profile: &'a Profile,
    roles: Vec<Role>,
}

impl Fusing<'_> {
    /// Whether a tensor is a dequantised parameter.
    fn is_constant(&self, tensor: TensorId) -> bool {
        let producer = self.graph.producer(tensor);
        producer
            .is_some_and(|op| self.roles[op.index()] == Role::Dequantize && self.graph.inputs(op).is_empty())
    }

    /// The tensors that an op reads, constants apart.
    fn operands(&self, op: OpId) -> impl Iterator<Item = TensorId> {
        self.graph.inputs(op).iter().copied().filter(|&tensor| !self.is_constant(tensor))
    }

    fn has_one_operand(&self, op: OpId) -> bool {
        self.operands(op).count() == 1
    }

    /// The op that makes the only tensor that `op` reads.
    fn sole_operand(&self, op: OpId) -> Option<OpId> {
        let mut operands = self.operands(op);
        let first = operands.next()?;
        operands.next().is_none().then(|| self.graph.producer(first)).flatten()
    }

    /// What may be fused to a group of `op` alone.
    fn alone(&self, op: OpId) -> FusionTail {
        match self.roles[op.index()] {
            Role::Product => FusionTail::Product { normalised: false, biased: false },
            Role::Add if !self.has_one_operand(op) => FusionTail::Sum,
            role if is_elementwise(role) && self.has_one_operand(op) => FusionTail::Chain,
            _ => FusionTail::Closed,
        }
    }

    /// What may be fused to a group after `op`, which has one operand; none if `op` itself may not be fused to it.
    fn extended(&self, tail: FusionTail, op: OpId) -> Option<FusionTail> {
        let bias = || !self.graph.params_of(op).is_empty() || self.graph.inputs(op).len() > 1;
        match (tail, self.roles[op.index()]) {
            (_, Role::Quantize) => Some(FusionTail::Closed),
            (FusionTail::Product { normalised: false, biased }, Role::Normalise) => {
                Some(FusionTail::Product { normalised: true, biased })
            }
            (FusionTail::Product { normalised, biased: false }, Role::Add) if bias() => {
                Some(FusionTail::Product { normalised, biased: true })
            }
            (FusionTail::Product { .. } | FusionTail::Sum, Role::Activation) => Some(FusionTail::Closed),
            (FusionTail::Chain, role) if is_elementwise(role) => Some(FusionTail::Chain),
            _ => None,
        }
    }

    /// Whether all that `op` makes is read by `next` alone, and both run on the same classes.
    fn leads_only_to(&self, op: OpId, next: OpId) -> bool {
        let inside = |&tensor: &TensorId| {
            !self.graph.is_output(tensor) && self.graph.consumers(tensor).iter().all(|&reader| reader == next)
        };
        let runs = |list: &[Option<_>], op: OpId| list.get(op.index()).is_some_and(Option::is_some);
        let mut lists = self.profile.classes.iter().flat_map(|class| &class.costs);
        self.graph.outputs(op).iter().all(inside) && lists.all(|list| runs(list, op) == runs(list, next))
    }
}

/// Whether ops of this role are element by element when they have one operand.
fn is_elementwise(role: Role) -> bool {
    matches!(role, Role::Activation | Role::Unary | Role::Binary | Role::Add | Role::Normalise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{ClassCosts, Cost, Origin};
    use crate::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
    use crate::units::Time;

    /// Ops given by kind and operands: earlier ops by number, `x` an input of the network, `w` a parameter.
    fn graph(ops: &[(&str, &[&str])]) -> Graph {
        let mut spec = GraphSpec::default();
        spec.tensors.push(TensorSpec { name: "x".into(), bytes: 1, ..TensorSpec::default() });
        for (i, (kind, operands)) in (0u32..).zip(ops) {
            spec.ops.push(OpSpec { name: format!("op{i}"), kind: (*kind).into(), ..OpSpec::default() });
            for &operand in *operands {
                match operand {
                    "x" => spec.tensors[0].consumers.push(i),
                    "w" => spec.params.push(ParamSpec {
                        name: format!("w{i}-{}", spec.params.len()),
                        bytes: 1,
                        readers: vec![i],
                    }),
                    earlier => spec.tensors[1 + earlier.parse::<usize>().unwrap()].consumers.push(i),
                }
            }
            let name = format!("t{i}");
            spec.tensors.push(TensorSpec { name, bytes: 1, producer: Some(i), ..TensorSpec::default() });
        }
        Graph::new(spec).unwrap()
    }

    fn groups(ops: &[(&str, &[&str])]) -> Vec<u32> {
        group_fused(&graph(ops), &Profile::default())
    }

    #[test]
    fn a_product_takes_normalisation_bias_and_one_activation() {
        let ops: &[(&str, &[&str])] = &[
            ("Conv2d", &["x", "w"]),
            ("BatchNorm2d", &["0", "w"]),
            ("ReLU", &["1"]),
            ("relu", &["2"]),
            ("MatMul", &["3", "w"]),
            ("Add", &["4", "w"]),
            ("Gelu", &["5"]),
            ("linear.default", &["6", "w"]),
            ("silu.default", &["7"]),
        ];
        assert_eq!(groups(ops), [2, 2, 2, 3, 6, 6, 6, 8, 8]);
    }

    #[test]
    fn a_second_bias_and_an_addition_without_parameter_stay_out() {
        let ops: &[(&str, &[&str])] = &[
            ("Gemm", &["x", "w"]),
            ("Add", &["0", "w"]),
            ("Add", &["1", "w"]),
            ("Conv", &["2"]),
            ("Add", &["3"]),
        ];
        assert_eq!(groups(ops), [1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_residual_addition_takes_the_activation_and_leaves_the_products() {
        let ops: &[(&str, &[&str])] = &[
            ("Conv", &["x", "w"]),
            ("Relu", &["0"]),
            ("Conv", &["1", "w"]),
            ("BatchNormalization", &["2", "w"]),
            ("Add", &["1", "3"]),
            ("Relu", &["4"]),
        ];
        assert_eq!(groups(ops), [1, 1, 3, 3, 5, 5]);
    }

    #[test]
    fn what_two_ops_read_ends_a_group() {
        let ops: &[(&str, &[&str])] =
            &[("Conv", &["x", "w"]), ("Sigmoid", &["0"]), ("Mul", &["0", "1"]), ("Sqrt", &["2"])];
        assert_eq!(groups(ops), [0, 1, 2, 3]);
    }

    #[test]
    fn an_output_of_the_network_ends_a_group() {
        let mut spec = graph(&[("Conv", &["x", "w"]), ("Relu", &["0"])]).spec().clone();
        spec.tensors[1].output = true;
        assert_eq!(group_fused(&Graph::new(spec).unwrap(), &Profile::default()), [0, 1]);
    }

    #[test]
    fn elementwise_ops_of_one_operand_make_chains() {
        let ops: &[(&str, &[&str])] = &[
            ("Softmax", &["x"]),
            ("mul.Tensor", &["0", "w"]),
            ("pow.Tensor_Scalar", &["1"]),
            ("tanh.default", &["2"]),
            ("add.Tensor", &["3"]),
            ("mul.Tensor", &["4", "x"]),
        ];
        assert_eq!(groups(ops), [0, 4, 4, 4, 4, 5]);
    }

    #[test]
    fn quantising_goes_with_the_producer_and_dequantising_with_the_consumer() {
        let ops: &[(&str, &[&str])] = &[
            ("QuantizeLinear", &["x", "w"]),
            ("DequantizeLinear", &["0", "w"]),
            ("DequantizeLinear", &["w"]),
            ("Conv", &["1", "2"]),
            ("DequantizeLinear", &["w"]),
            ("Add", &["3", "4"]),
            ("Relu", &["5"]),
            ("QuantizeLinear", &["6", "w"]),
            ("DequantizeLinear", &["7", "w"]),
            ("MaxPool", &["8"]),
            ("QuantizeLinear", &["9", "w"]),
        ];
        assert_eq!(groups(ops), [0, 7, 7, 7, 7, 7, 7, 7, 10, 10, 10]);
    }

    #[test]
    fn ops_that_different_classes_run_stay_apart() {
        let graph = graph(&[("Conv", &["x", "w"]), ("Relu", &["0"]), ("Sqrt", &["1"])]);
        let time = Some(Cost { time: Time(1), origin: Origin::Measured });
        let class = |name: &str, costs: [Option<Cost>; 3]| ClassCosts {
            class: name.into(),
            batch_sizes: vec![1],
            costs: vec![costs.to_vec()],
        };
        let both = vec![class("cpu", [time; 3]), class("npu", [time, None, None])];
        let profile = Profile { classes: both, ..Profile::default() };
        assert_eq!(group_fused(&graph, &profile), [0, 2, 2]);
    }
}
