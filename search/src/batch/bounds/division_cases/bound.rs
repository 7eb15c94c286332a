//! `division-cases`: `division-lp` with integral divisions, by branch and bound in regions of the network.
//!
//! The linear program of `division-lp` may mix divisions of an op. Here the network is partitioned into regions with
//! few tensors between them. The dual of `division-lp` on loads and on edges and windows between regions is kept
//! fixed. What remains decomposes: each region is a linear program of its own, and the sum of the regions' optima is
//! the bound. In each region branch and bound decides (1) whether a class of devices runs at least so many inputs of
//! an op, and (2) for two ops that are single batches on the same device, which is first. An unfinished tree proves
//! the least value of its open nodes.

use std::time::Duration;

use divvy_core::problem::Problem;
use divvy_proof::evidence::Evidence;

use crate::batch::bounds::division_cases::case_tree::{CaseContext, CaseSearch};
use crate::batch::bounds::division_cases::fixed_dual::FixedDual;
use crate::bound::{Bound, When};
use crate::division_lp::cutting_planes::{DEADLINE_SHARE, prove_program};
use crate::division_lp::op_divisions::OpDivisions;
use crate::run::Run;

/// The least and the most ops of a region.
const REGION_OPS: [usize; 2] = [8, 20];
/// If `division-lp` is below this share of the best bound, branching will not close the gap.
const LEAST_PROMISE: f64 = 0.97;
/// If a planner waits for the time, branching ends once the second half of its time raised the bound by less than
/// this share.
const LEAST_GAIN: f64 = 5e-4;
/// The number of branchings in each region between two proofs.
const BRANCHES_PER_PROOF: usize = 10;

pub(crate) struct DivisionCases;

impl Bound for DivisionCases {
    fn name(&self) -> &'static str {
        "division-cases"
    }

    fn about(&self) -> &'static str {
        "division-lp, with branch and bound on the divisions of ops in regions of the network"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        OpDivisions::of_batches(problem).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn deadline_share(&self) -> Option<f64> {
        Some(DEADLINE_SHARE)
    }

    fn bound(&self, run: &mut Run<'_>) {
        let problem = run.problem;
        let Ok(divisions) = OpDivisions::new(problem) else { return run.exhaust() };
        if !divisions.has_windows() {
            return run.exhaust();
        }
        if !has_division_dual(run) {
            prove_program(run, self.name());
        }
        let Some((value, fixed)) = FixedDual::new(run) else {
            // There was no time, or all duals have prices of memory.
            if has_division_dual(run) {
                run.exhaust();
            }
            return;
        };
        let proven = lower_bound(run);
        if (value.0 as f64) < proven * LEAST_PROMISE {
            return run.exhaust();
        }
        let mut limit = BranchingLimit { nodes: run.budget.nodes, branched: 0 };
        let reach = divisions.reachability();
        let context = CaseContext { problem, divisions: &divisions, reach: &reach };
        let mut forest = CaseForest { context, trees: Vec::new() };
        for ops in regions(&divisions) {
            let Some(tree) = CaseSearch::new(run.budget, context, &fixed, ops) else { return };
            forest.trees.push(tree);
        }
        run.prove(self.name(), evidence(&fixed, &forest.trees));
        let mut is_worth_it = true;
        let mut proven = vec![(run.budget.start.elapsed(), lower_bound(run))];
        while !run.is_solved() && is_worth_it && forest.grow(run, &mut limit) {
            run.prove(self.name(), evidence(&fixed, &forest.trees));
            proven.push((run.budget.start.elapsed(), lower_bound(run)));
            is_worth_it = !run.has_planner_waiting() || limit.nodes.is_some() || rises(&proven);
        }
        run.count(limit.branched);
        if is_worth_it && !limit.is_over(run) {
            run.exhaust();
        }
    }
}

/// Whether a dual of `division-lp`, or of a program like it, is known.
fn has_division_dual(run: &Run<'_>) -> bool {
    run.outcome().certificates.iter().any(|known| matches!(known.evidence, Evidence::DivisionLp { .. }))
}

/// The limits of branching.
struct BranchingLimit {
    nodes: Option<u64>,
    branched: u64,
}

impl BranchingLimit {
    fn is_over(&self, run: &Run<'_>) -> bool {
        let spent = self.nodes.is_some_and(|nodes| self.branched >= nodes);
        spent || run.budget.is_spent()
    }
}

/// The best lower bound so far.
fn lower_bound(run: &Run<'_>) -> f64 {
    run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64)
}

/// Whether the bound, of which the history is given, rose enough in the second half of the time.
fn rises(proven: &[(Duration, f64)]) -> bool {
    let [(began, _), .., (now, last)] = proven else { return true };
    let half = (*began + *now) / 2;
    let before = proven.iter().rfind(|(moment, _)| *moment <= half);
    before.is_none_or(|(_, before)| last - before >= last * LEAST_GAIN)
}

/// The trees of all regions.
struct CaseForest<'a> {
    context: CaseContext<'a>,
    trees: Vec<CaseSearch>,
}

impl CaseForest<'_> {
    /// Branches some times in each region; false if no region can be branched in, or the limits are reached.
    fn grow(&mut self, run: &Run<'_>, limit: &mut BranchingLimit) -> bool {
        let before = limit.branched;
        for _ in 0..BRANCHES_PER_PROOF {
            for tree in &mut self.trees {
                if !limit.is_over(run) {
                    let branched = tree.branch(self.context, run.budget.left());
                    limit.branched += u64::from(branched.is_some());
                }
            }
        }
        limit.branched > before
    }
}

/// The evidence of the fixed dual and the trees of all regions.
fn evidence(fixed: &FixedDual, trees: &[CaseSearch]) -> Evidence {
    let is_outside = |from: usize, to: usize| !trees.iter().any(|tree| tree.has(from) && tree.has(to));
    let flows = fixed.flows.iter().filter(|flow| is_outside(flow.from.index(), flow.to.index()));
    let windows = fixed.windows.iter().filter(|window| match (window.from, window.to) {
        (Some(from), Some(to)) => is_outside(from.index(), to.index()),
        _ => true,
    });
    Evidence::DivisionCases {
        weights: fixed.weights.clone(),
        flows: flows.cloned().collect(),
        windows: windows.cloned().collect(),
        parts: trees.iter().map(CaseSearch::region).collect(),
    }
}

/// A partition of the canonical order into runs of ops, with the fewest tensors across their boundaries: a dynamic
/// program.
fn regions(divisions: &OpDivisions) -> Vec<Vec<usize>> {
    let count = divisions.order.len();
    let mut place = vec![0; count];
    divisions.order.iter().enumerate().for_each(|(at, &op)| place[op] = at);
    // For each position, the number of ops before it with readers behind it.
    let mut passing = vec![0usize; count + 1];
    for op in 0..count {
        let last = divisions.edges.iter().filter(|edge| edge.0 == op).map(|edge| place[edge.1]).max();
        (place[op] + 1..=last.unwrap_or(place[op])).for_each(|at| passing[at] += 1);
    }
    let [least, most] = REGION_OPS;
    // For each position, the least sum up to it, and the beginning of the last region.
    let mut best: Vec<Option<(usize, usize)>> = vec![None; count + 1];
    best[0] = Some((0, 0));
    for end in 1..=count {
        let shortest = if end == count { 1 } else { least };
        for begin in end.saturating_sub(most)..=end.saturating_sub(shortest) {
            let Some((sum, _)) = best[begin] else { continue };
            let sum = sum + passing[end];
            if best[end].is_none_or(|known| sum < known.0) {
                best[end] = Some((sum, begin));
            }
        }
    }
    let mut regions = Vec::new();
    let mut end = count;
    while let Some((_, begin)) = best[end].filter(|_| end > 0) {
        regions.push(divisions.order[begin..end].to_vec());
        end = begin;
    }
    regions.reverse();
    regions
}
