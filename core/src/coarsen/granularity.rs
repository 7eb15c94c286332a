//! Coarsening of a whole problem to a granularity, and the map back to the original ops.
//!
//! Every plan of the coarse problem keeps, when it is expanded, the load of every device, the load of every link, and the
//! weights on every device. Only the coarse problem assumes that a merged op starts when all its inputs have arrived and that
//! its outputs leave when it ends; so the expanded plan's latency is the same or shorter. Tensors inside a merged op count
//! against no memory. Split points are counted along the coarse order, in which a merged op is one step. Times that are not
//! profiled are estimated for the merged op, with one launch and no traffic for tensors inside.

use std::collections::HashMap;

use super::merge::{Merged, merge};
use super::{group_blocks, group_fused, rename_constraints};
use crate::graph::{Graph, GraphSpec};
use crate::ids::OpId;
use crate::input_error::{Code, InputError, InputErrors};
use crate::problem::ProblemSpec;

/// How much of a network one op contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// One op of the source.
    #[default]
    Op,
    /// What a runtime runs as one kernel.
    Fused,
    /// Everything between two consecutive cuts of at most one tensor.
    Block,
}

impl Granularity {
    /// Every granularity, from fine to coarse.
    pub const ALL: [Granularity; 3] = [Granularity::Op, Granularity::Fused, Granularity::Block];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Granularity::Op => "op",
            Granularity::Fused => "fused",
            Granularity::Block => "block",
        }
    }

    /// The granularity of that name.
    pub fn named(name: &str) -> Result<Granularity, InputErrors> {
        let found = Granularity::ALL.into_iter().find(|choice| choice.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let fix = format!("choose one of {}", Granularity::ALL.map(Granularity::name).join(", "));
            let message = format!("there is no `{name}`");
            InputError::new(Code::UnknownName, "--granularity", message, fix).into()
        })
    }
}

/// The problem with its ops merged to `granularity`. Coarsening twice gives blocks of fused ops, which are often larger.
pub fn coarsen(spec: &ProblemSpec, granularity: Granularity) -> Result<ProblemSpec, InputErrors> {
    if granularity == Granularity::Op {
        return Ok(spec.clone());
    }
    let graph = Graph::new(spec.graph.clone())?;
    let merged = match granularity {
        Granularity::Op | Granularity::Fused => {
            merge(&graph, &spec.profile, &group_fused(&graph, &spec.profile))?
        }
        Granularity::Block => {
            let blocks = group_blocks(&graph);
            let mut merged = merge(&graph, &spec.profile, &blocks.group_of)?;
            blocks.number_modules(&mut merged);
            merged
        }
    };
    let constraints = rename_constraints(&spec.constraints, &graph, &merged)?;
    let Merged { graph, profile, .. } = merged;
    let (hardware, objective) = (spec.hardware.clone(), spec.objective);
    Ok(ProblemSpec { graph, profile, hardware, objective, constraints })
}

/// For each op of the original graph, the coarse op that contains it: the one of its name, else the one that has it as a
/// member. An op in no coarse op, or in several, is an error.
pub fn expand(coarse: &GraphSpec, original: &Graph) -> Result<Vec<OpId>, InputErrors> {
    let named: HashMap<&str, usize> =
        coarse.ops.iter().enumerate().map(|(i, op)| (op.name.as_str(), i)).collect();
    // A name that several ops have as a member belongs to none of them.
    let mut member_of: HashMap<&str, Option<usize>> = HashMap::new();
    for (i, op) in coarse.ops.iter().enumerate() {
        for member in &op.members {
            let owner = member_of.entry(member).or_insert(Some(i));
            *owner = owner.filter(|&first| first == i);
        }
    }
    let mut errors = InputErrors::default();
    let mut op_of = Vec::with_capacity(original.op_count());
    for op in original.ops() {
        let name = original.op_name(op);
        match (named.get(name), member_of.get(name)) {
            (Some(&owner), _) | (None, Some(&Some(owner))) => op_of.push(OpId::new(owner)),
            (None, Some(None)) => errors.add(
                Code::DuplicateName,
                format!("op `{name}`"),
                "several ops of the coarse graph have it as a member",
                "give the nodes of the source names of their own",
            ),
            (None, None) => errors.add(
                Code::Dangling,
                format!("op `{name}`"),
                "no op of the coarse graph has it as a member",
                "compare a graph with what was made from it",
            ),
        }
    }
    errors.into_result(op_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::OpSpec;

    fn spec(ops: &[(&str, &[&str])]) -> GraphSpec {
        let op = |&(name, members): &(&str, &[&str])| OpSpec {
            name: name.into(),
            members: members.iter().map(|&member| member.into()).collect(),
            ..OpSpec::default()
        };
        GraphSpec { ops: ops.iter().map(op).collect(), ..GraphSpec::default() }
    }

    #[test]
    fn names_are_found_in_any_case() {
        for granularity in Granularity::ALL {
            assert_eq!(Granularity::named(granularity.name()).unwrap(), granularity);
        }
        assert_eq!(Granularity::named("Fused").unwrap(), Granularity::Fused);
        let errors = Granularity::named("layer").unwrap_err();
        assert_eq!(errors.kept()[0].code, Code::UnknownName);
        assert_eq!(errors.kept()[0].fix, "choose one of op, fused, block");
    }

    #[test]
    fn an_op_is_found_by_its_name_or_as_a_member() {
        let original = Graph::new(spec(&[("a", &[]), ("b", &[]), ("c", &[])])).unwrap();
        let coarse = spec(&[("c", &["a"]), ("b", &["c", "b"])]);
        assert_eq!(expand(&coarse, &original).unwrap(), [OpId(0), OpId(1), OpId(0)]);
    }

    #[test]
    fn lost_and_contested_names_are_reported() {
        let original = Graph::new(spec(&[("a", &[]), ("b", &[]), ("c", &[])])).unwrap();
        let errors = expand(&spec(&[("c", &["a"]), ("d", &["a"])]), &original).unwrap_err();
        let codes: Vec<Code> = errors.kept().iter().map(|error| error.code).collect();
        assert_eq!(codes, [Code::DuplicateName, Code::Dangling]);
    }
}
