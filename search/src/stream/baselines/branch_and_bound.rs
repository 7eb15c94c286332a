//! `branch-and-bound`: Algorithm 1 of "DNN Partitioning for Inference Throughput Acceleration at the Edge" (IEEE Access
//! 2023).
//!
//! Breadth-first branch and bound over lists of devices for the first layers. Each child of a list is pruned if its transmission
//! exceeds the best period; otherwise it is queued if it has fewer than S splits, and its completion with the last device
//! (*padding*) is offered. A list with S splits has no other completion, so it need not be queued.
//!
//! The paper prunes by the transmission of the padded list. That is a bound only if every tensor is read by the next layer
//! alone; a tensor that skips layers may be padded over a link that other completions avoid, and the optimum is lost
//! ([`padding_refusal`]). Here the bound is the transfers already decided, and the water-filling bound for the rest; the
//! paper's is an option. The paper starts from all layers on the first device; here the incumbent is the best plan known. At
//! most Σ_k C(L−1, k)·N·(N−1)^k placements for L layers and N devices (its equation 8).

use divvy_core::problem::Problem;

use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use crate::stream::baselines::single_split::offer_padded;
use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// The most lists, for the sake of memory.
const MOST_LISTS: usize = 1 << 26;

pub(crate) struct BranchAndBound;

/// A list of devices: another one with a device appended.
#[derive(Clone, Copy)]
struct PrefixList {
    shorter: u32,
    device: u8,
}

impl Planner for BranchAndBound {
    fn name(&self) -> &'static str {
        "branch-and-bound"
    }

    fn about(&self) -> &'static str {
        "the edge paper's search over lists of devices, up to --max-splits"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let paper = run.paper_bound();
        search(run, paper)
    }
}

/// The search; with the paper's bound if `paper`.
fn search(run: &mut Run<'_>, paper: bool) -> StopReason {
    let tables = StreamTables::new(run.problem);
    let water = WaterFilling::new(&tables);
    let Some(empty) = PartialPlacement::empty(&tables) else { return StopReason::Finished };
    let mut lists: Vec<PrefixList> = vec![PrefixList { shorter: u32::MAX, device: 0 }];
    let mut next = 0;
    while let Some(&list) = lists.get(next) {
        let over = run.budget.nodes.is_some_and(|most| next as u64 >= most);
        if run.budget.is_cancelled() {
            return StopReason::Cancelled;
        }
        if over || run.budget.is_spent() || lists.len() + tables.devices > MOST_LISTS {
            return StopReason::OutOfBudget;
        }
        run.count(1);
        let Some(partial) = placement_of(&tables, &empty, &lists, list) else { return StopReason::Finished };
        let devices = if partial.placed < tables.ops { tables.devices } else { 0 };
        for device in 0..devices {
            let mut child = partial.clone();
            if !child.place(&tables, device) {
                continue;
            }
            let best = run.outcome().value().map_or(u64::MAX, |best| best.0);
            if !may_be_better(&tables, &water, &child, device, best, paper) {
                continue;
            }
            if child.splits < tables.max_splits {
                lists.push(PrefixList { shorter: next as u32, device: device as u8 });
            }
            offer_padded(run, &tables, &child, device);
        }
        next += 1;
    }
    if let Some(best) = run.outcome().value() {
        run.attest(BranchAndBound.name(), best, "divvy branch and bound".to_owned());
    }
    StopReason::Finished
}

/// Whether the bound of a list is below the best value.
fn may_be_better(
    tables: &StreamTables,
    water: &WaterFilling,
    child: &PartialPlacement,
    device: usize,
    best: u64,
    paper: bool,
) -> bool {
    if paper {
        return child.padded(tables, device).is_none_or(|padded| padded.busiest_link(tables) <= best);
    }
    best > 0 && child.busiest_link(tables) < best && water.fits(tables, child, best - 1)
}

/// The partial placement of a list.
fn placement_of(
    tables: &StreamTables,
    empty: &PartialPlacement,
    lists: &[PrefixList],
    mut list: PrefixList,
) -> Option<PartialPlacement> {
    let mut devices = Vec::new();
    while list.shorter != u32::MAX {
        devices.push(list.device);
        list = lists[list.shorter as usize];
    }
    let mut partial = empty.clone();
    devices.iter().rev().all(|&device| partial.place(tables, usize::from(device))).then_some(partial)
}

/// Why the transmission of the padded list is not a lower bound for a problem, if it is not.
pub(crate) fn padding_refusal(problem: &Problem) -> Result<(), String> {
    let graph = &problem.graph;
    if problem.constraints.output_at.is_some() {
        return Err(
            "the paper's bound pads with the last device, and outputs need not leave from it".to_owned()
        );
    }
    for tensor in graph.tensors() {
        let next = match graph.producer(tensor) {
            Some(op) => graph.position(op) + 1,
            None if problem.constraints.input_at.is_some() => 0,
            None => continue,
        };
        if let Some(&reader) = graph.consumers(tensor).iter().find(|&&op| graph.position(op) != next) {
            return Err(format!(
                "`{}` skips ops on its way to `{}`: padded with the last device it may cross a link that it need not, \
                 and the paper's bound would lose the best plan",
                graph.tensor_name(tensor),
                graph.op_name(reader)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::budget::Budget;
    use crate::outcome::Outcome;
    use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
    use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
    use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
    use divvy_core::problem::{ConstraintsSpec, Objective};
    use divvy_core::units::Time;

    use super::*;

    /// Ops of 4, 8 and 4 ps in a row on two equal devices, one byte a picosecond between them. The first op also makes a
    /// tensor of `skipping` bytes for the last.
    fn with_skip(skipping: Option<u64>) -> Problem {
        let op = |name: &str| OpSpec { name: name.into(), ..OpSpec::default() };
        let tensor = |name: &str, bytes, producer, reader| TensorSpec {
            name: name.into(),
            bytes,
            producer: Some(producer),
            consumers: vec![reader],
            ..TensorSpec::default()
        };
        let mut tensors = vec![tensor("ab", 1, 0, 1), tensor("bc", 1, 1, 2)];
        tensors.extend(skipping.map(|bytes| tensor("ac", bytes, 0, 2)));
        let graph = GraphSpec {
            name: "g".into(),
            ops: ["a", "b", "c"].map(op).into(),
            tensors,
            ..GraphSpec::default()
        };
        let cost = |ps| Some(Cost { time: Time(ps), origin: Origin::Measured });
        let costs = vec![[4, 8, 4].map(cost).into()];
        let class = ClassCosts { class: "c".into(), batch_sizes: vec![1], costs };
        let device =
            |name: &str| DeviceSpec { name: name.into(), class: "c".into(), ..DeviceSpec::default() };
        let hardware = HardwareSpec {
            name: "h".into(),
            classes: vec![ClassSpec { name: "c".into(), ..ClassSpec::default() }],
            devices: ["one", "two"].map(device).into(),
            links: vec![LinkSpec {
                between: ["one".into(), "two".into()],
                bandwidth: 1_000_000_000_000,
                ..LinkSpec::default()
            }],
            ..HardwareSpec::default()
        };
        let profile = Profile { classes: vec![class], ..Profile::default() };
        let graph = Graph::new(graph).unwrap();
        Problem::new(graph, &profile, hardware, &[], Objective::Stream, &ConstraintsSpec::default()).unwrap()
    }

    fn best(problem: &Problem, paper: bool) -> Option<Time> {
        let (budget, mut outcome) = (Budget::new(Duration::from_secs(60)), Outcome::default());
        let stop = search(&mut Run::new(problem, &budget, &mut outcome, &mut |_| {}), paper);
        assert_eq!(stop, StopReason::Finished);
        outcome.value()
    }

    #[test]
    fn the_papers_bound_loses_the_optimum_where_a_tensor_skips() {
        // The middle op goes to the other device and back; what skips it stays.
        let problem = with_skip(Some(100));
        assert_eq!(best(&problem, false), Some(Time(8)));
        assert_eq!(best(&problem, true), Some(Time(16)));
        assert!(padding_refusal(&problem).unwrap_err().contains("`ac` skips"));
    }

    #[test]
    fn both_bounds_agree_where_nothing_skips() {
        let problem = with_skip(None);
        assert_eq!(padding_refusal(&problem), Ok(()));
        assert_eq!(best(&problem, false), Some(Time(8)));
        assert_eq!(best(&problem, true), Some(Time(8)));
    }
}
