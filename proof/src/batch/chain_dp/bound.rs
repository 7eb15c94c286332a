//! The chain DP: a lower bound on the finish of a group of inputs, from when a chain of ops can process them.
//!
//! All inputs pass the chain o₁, o₂, …. A *division* of an op says how many groups of inputs each device runs. The program goes
//! along the chain and keeps, for each division of the op at hand, a set of labels. A *label* holds a lower bound on the start
//! of the batch on each device: a batch starts when every batch that hands it inputs has ended and the inputs have arrived.
//! Which device runs which of its batches first is relaxed, and so are memory and colocation. The least finish over all
//! divisions and labels of the last op is a lower bound on every plan.
//!
//! * *Dominance*: a label that is no smaller in any component is dropped. If there are more than the width, labels are merged
//!   into their componentwise minimum.
//! * *Branches* between two ops of the chain are followed one by one from the same label; the later op waits for all of them.
//! * *Work*: from the first end of the earlier op to the last start of the later one, a device runs its batches of all
//!   branches one after the other, so that time is at least any weighted mean of the devices' work. This bounds the last start
//!   of the later op, whichever of its batches that is: each is tried as the last. With [`ChainProof::shares`] the mean work
//!   since the beginning is carried along the whole chain, so that the branches of one op cannot gain what those of the next
//!   lose. With [`ChainStage::weights`](crate::evidence::ChainStage::weights) the work is bounded for each pair of batches of
//!   the two ops (`branches`), together with idle times around single batches (`idle_time`).
//! * *Limit*: labels that certainly end at the limit or later are dropped, so no more than the limit is proved. Two estimates,
//!   both computed backward, decide that: the longest path of some input of each batch, and the mean over all inputs of their
//!   paths (`latest_tails`).
//!
//! Invariant: every component of a label is a lower bound for some plan with that division. All in integers, rounded down.
//! Complexity: pairs of divisions · labels for each edge, limited by `MOST_STEPS`.

use crate::batch::chain_dp::branches::TargetDivision;
use crate::batch::chain_dp::latest_tails::{TailEstimate, WorkBounds};
use crate::batch::chain_dp::op_times::{ChainDpInstance, MOST_TIME, NEVER, OpTimes};
use crate::batch::chain_dp::pareto_front::StartLabel;
use crate::batch::chain_dp::stage_links::{MOST_WEIGHT, StageLink, filled};
use crate::batch::chain_dp::step::{ChainStep, Fronts};
use crate::evidence::ChainProof;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The most labels kept for a division.
const MOST_WIDTH: u32 = 1 << 12;

/// What is estimated backward for one link of the chain.
struct StageEstimates {
    /// From the start of the later op.
    tail: TailEstimate,
    /// From the starts of the ops in branches.
    inner: InnerTails,
    works: WorkBounds,
}

/// Estimates within branches.
enum InnerTails {
    /// For each branch.
    ByBranch(Vec<Vec<TailEstimate>>),
    /// For each division of the later op.
    ByDivision(Vec<TargetDivision>),
}

impl ChainDpInstance<'_> {
    /// The bound of a chain; an error if the stages are no chain, or `stop` ends the program.
    pub fn proven(&self, proof: &ChainProof, stop: &mut dyn FnMut() -> bool) -> Result<Time, String> {
        if proof.width == 0 || proof.width > MOST_WIDTH || proof.limit_ps.0 > MOST_TIME {
            return Err(format!("a chain needs a limit, and a width from 1 to {MOST_WIDTH}"));
        }
        if !proof.shares.is_empty() && !self.are_weights(&proof.shares) {
            return Err(format!("a chain needs one weight up to {MOST_WEIGHT} for each device, or none"));
        }
        let weights = filled(&proof.shares);
        let links = self.links(&proof.stages, &weights)?;
        let Some(first) = proof.stages.first() else { return Err("a chain has no stages".to_owned()) };
        let first = self.op_times(first.op, &weights);
        let mut search = ChainStep::new(self, proof.limit_ps.0, proof.width as usize, stop);
        let estimates = self.estimates(&first, &links, &mut search)?;
        let mut fronts: Fronts = vec![Vec::new(); self.transitions.divisions.len()];
        for (division, front) in fronts.iter_mut().enumerate() {
            if first.times[division].is_some() {
                front.push(self.tightened(division, &first, StartLabel::default()));
            }
        }
        let mut node = &first;
        for (link, StageEstimates { tail, inner, works }) in links.iter().zip(&estimates) {
            fronts = match inner {
                InnerTails::ByBranch(inner) => {
                    search.extend_stage(node, &fronts, link, tail, inner, works)?
                }
                InnerTails::ByDivision(targets) => {
                    search.extend_by_division(node, &fronts, link, tail, targets, works)?
                }
            };
            node = &link.node;
        }
        let end = self.tail_of_last(node);
        let least = |(division, front): (usize, &Vec<StartLabel>)| {
            front.iter().map(|label| self.least_finish(division, label, &end)).min()
        };
        let least = fronts.iter().enumerate().filter_map(least).min().unwrap_or(NEVER);
        Ok(Time(least.min(proof.limit_ps.0)))
    }

    /// Backward: for each link, from the starts of its ops to the end.
    fn estimates(
        &self,
        first: &OpTimes,
        links: &[StageLink],
        search: &mut ChainStep<'_, '_>,
    ) -> Result<Vec<StageEstimates>, String> {
        let limit = search.limit;
        let heads = self.heads(first, links);
        let mut tail = self.tail_of_last(links.last().map_or(first, |link| &link.node));
        let mut estimates = Vec::with_capacity(links.len());
        for (number, link) in links.iter().enumerate().rev() {
            let before = if number == 0 { first } else { &links[number - 1].node };
            let earliest_end = self.earliest_end(before, &heads[number]);
            let behind = (tail.rest + self.least_work(&link.node, &tail, earliest_end, limit)).min(NEVER);
            let branches: Vec<Vec<TailEstimate>> =
                link.branches.iter().map(|b| self.branch_tails(b, &tail)).collect();
            let works = WorkBounds {
                branches: (link.branches.iter().zip(&branches))
                    .map(|(branch, inner)| self.work_bounds(branch, inner, earliest_end, limit))
                    .collect(),
                behind,
            };
            let mut earlier: Option<TailEstimate> = None;
            for (branch, inner) in link.branches.iter().zip(&branches) {
                let next = inner.first().unwrap_or(&tail);
                let new = self.tail_before(before, &branch.delays[0], next);
                earlier = Some(earlier.map_or(new.clone(), |known| known.componentwise_max(&new)));
            }
            let Some(mut earlier) = earlier else { return Err("a stage has no branches".to_owned()) };
            if link.branches.len() > 1 {
                for weights in &link.weights {
                    earlier = earlier.componentwise_max(&self.tail_across(before, link, weights, &tail));
                }
            }
            earlier.rest = works.from(0);
            let inner = if link.is_by_division {
                let targets = self.targets(link, &tail);
                search.tighten_tails(&mut earlier, before, &heads[number], link, &targets, &works)?;
                InnerTails::ByDivision(targets)
            } else {
                InnerTails::ByBranch(branches)
            };
            estimates.push(StageEstimates { tail: std::mem::replace(&mut tail, earlier), inner, works });
        }
        estimates.reverse();
        Ok(estimates)
    }
}

/// The bound of a chain.
pub(crate) fn proven(problem: &Problem, proof: &ChainProof) -> Result<Time, String> {
    ChainDpInstance::new(problem)?.proven(proof, &mut || false)
}
