//! The stages of a chain: for each op behind the first, the branches that lead to it from the op before.
//!
//! Between two ops of the chain there may be several *branches*, paths of ops that begin behind the one and end before the
//! other. Invariants: no op occurs twice; every branch op descends from the earlier op and precedes the later one; ops that
//! follow each other in a branch are joined by a tensor.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::idle_time::StageIdleTimes;
use crate::batch::chain_dp::op_times::{ChainDpInstance, Delays, MOST_TIME, NEVER, OpTimes, WorkWeights};
use crate::division_lp::{class_routes::too_large, reached};
use crate::evidence::ChainStage;
use divvy_core::ids::OpId;

/// The largest device weight.
pub(super) const MOST_WEIGHT: u64 = 1 << 16;
/// The most lists of weights of a stage.
pub(super) const MOST_LISTS: usize = 2;

/// A path of ops between two ops of the chain.
pub(super) struct Branch {
    pub(super) nodes: Vec<OpTimes>,
    /// One more than nodes: the last leads to the op of the stage.
    pub(super) delays: Vec<Delays>,
}

/// The branches between the op of a stage and the next one, and that one.
pub(super) struct StageLink {
    pub(super) branches: Vec<Branch>,
    /// The lists of device weights of the stage, at least one.
    pub(super) weights: Vec<WorkWeights>,
    /// The device weights of the whole chain.
    pub(super) chain_weights: WorkWeights,
    /// Whether work is bounded for each pair of batches of the two ops.
    pub(super) is_by_division: bool,
    pub(super) idle_times: StageIdleTimes,
    pub(super) node: OpTimes,
}

impl ChainDpInstance<'_> {
    /// The links behind the first op of a chain; an error if the stages are no chain, or their times do not fit.
    pub(super) fn links(
        &self,
        stages: &[ChainStage],
        weights: &WorkWeights,
    ) -> Result<Vec<StageLink>, String> {
        let graph = &self.problem.graph;
        let mut used = vec![false; graph.op_count()];
        for &op in stages.iter().flat_map(|stage| stage.branches.iter().flatten().chain([&stage.op])) {
            if op.index() >= used.len() || std::mem::replace(&mut used[op.index()], true) {
                return Err(format!("op {} does not exist, or is there twice", op.0));
            }
        }
        if stages.first().is_some_and(|stage| !stage.branches.is_empty()) {
            return Err("nothing lies before the first stage".to_owned());
        }
        let links: Vec<StageLink> = stages
            .windows(2)
            .map(|pair| self.link(pair[0].op, &pair[1], weights))
            .collect::<Result<_, _>>()?;
        let nodes =
            links.iter().flat_map(|link| link.branches.iter().flat_map(|b| &b.nodes).chain([&link.node]));
        let longest =
            nodes.flat_map(|node| node.times.iter().flatten().flatten()).copied().max().unwrap_or(0);
        let delays = links.iter().flat_map(|link| link.branches.iter().flat_map(|branch| &branch.delays));
        let farthest = delays.flat_map(Delays::all).filter(|&delay| delay < NEVER).max().unwrap_or(0);
        let first = stages.first().map_or(0, |stage| self.op_times(stage.op, weights).longest());
        let each = longest.max(first).checked_add(farthest).ok_or_else(too_large)?;
        let all = each.checked_mul(used.len() as u64 + 1).and_then(|all| all.checked_mul(self.inputs));
        all.filter(|&all| all < MOST_TIME).ok_or_else(too_large)?;
        Ok(links)
    }

    fn link(
        &self,
        before: OpId,
        stage: &ChainStage,
        chain_weights: &WorkWeights,
    ) -> Result<StageLink, String> {
        let graph = &self.problem.graph;
        let one_empty = [Vec::new()];
        let branches = if stage.branches.is_empty() { &one_empty[..] } else { &stage.branches };
        let has_ops = branches.iter().any(|branch| !branch.is_empty());
        if has_ops {
            self.check_branches(before, stage, branches)?;
        }
        let mut built = Vec::new();
        for branch in branches {
            let ops: Vec<OpId> = [before].iter().chain(branch).chain([&stage.op]).copied().collect();
            for (place, pair) in ops.windows(2).enumerate() {
                let inside = place > 0 && place < branch.len();
                if (inside || branch.is_empty()) && self.joining(pair[0], pair[1]).is_none() {
                    let [from, to] = [graph.op_name(pair[0]), graph.op_name(pair[1])];
                    return Err(format!("`{to}` reads nothing that `{from}` makes"));
                }
            }
            built.push(Branch {
                nodes: branch.iter().map(|&op| self.op_times(op, chain_weights)).collect(),
                delays: ops.windows(2).map(|pair| self.delays(pair[0], pair[1])).collect(),
            });
        }
        let weights: Vec<WorkWeights> = if has_ops {
            stage.weight_lists().iter().map(|list| filled(list)).collect()
        } else {
            vec![[0; MOST_DEVICES]]
        };
        Ok(StageLink {
            branches: built,
            weights,
            chain_weights: *chain_weights,
            is_by_division: has_ops && !stage.weights.is_empty(),
            idle_times: self.idle_times_around(before, &branches.concat(), stage.op),
            node: self.op_times(stage.op, chain_weights),
        })
    }

    /// Whether branch ops lie between the two ops, and the stage has as many weights as it needs.
    fn check_branches(&self, before: OpId, stage: &ChainStage, branches: &[Vec<OpId>]) -> Result<(), String> {
        let [behind, ahead] = [reached(self.problem, before, true), reached(self.problem, stage.op, false)];
        let is_between = |op: &OpId| behind[op.index()] && ahead[op.index()];
        if let Some(op) = branches.iter().flatten().find(|op| !is_between(op)) {
            let name = self.problem.graph.op_name(*op);
            return Err(format!("`{name}` is not between the ops of two stages"));
        }
        let lists = stage.weight_lists();
        if !lists.iter().all(|list| self.are_weights(list)) || lists.len() > MOST_LISTS {
            let devices = self.problem.hardware.device_count();
            return Err(format!(
                "branches need one weight up to {MOST_WEIGHT} for each of {devices} devices, {MOST_LISTS} lists at most"
            ));
        }
        Ok(())
    }

    /// Whether there is one weight for each device, not all of them 0.
    pub(super) fn are_weights(&self, weights: &[u64]) -> bool {
        let is_weight = |&weight: &u64| weight <= MOST_WEIGHT;
        let is_some = weights.iter().any(|&weight| weight > 0);
        weights.len() == self.problem.hardware.device_count() && weights.iter().all(is_weight) && is_some
    }
}

/// Weights of all devices, 0 where none is given.
pub(super) fn filled(given: &[u64]) -> WorkWeights {
    let mut weights = [0; MOST_DEVICES];
    weights.iter_mut().zip(given).for_each(|(weight, &given)| *weight = given);
    weights
}
