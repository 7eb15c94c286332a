//! `node-cut`: max over units v of the least cost of a convex set that contains v.
//!
//! Every op is in some stage, and stages are convex. The least cost is found by minimum cuts and branching ([`find_sets`]), at
//! thresholds from the value downwards for the units whose own cost exceeds what is proved, the largest first. The evidence is
//! a price of 1 on that unit alone. It is tight where the number of stages is large compared with that of large ops.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::bit_set::Bits;
use divvy_proof::evidence::{Evidence, StageGroup};
use divvy_proof::pipeline::convex_sets::ConvexSets;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;

use crate::bound::Bound;
use crate::pipeline::bounds::bisection::{BisectionLimits, FIRST_SHARE, ThresholdResult, bisect};
use crate::pipeline::bounds::branch_and_bound::{BranchResult, TreeLimits, find_sets};
use crate::pipeline::bounds::unreplicated_pipeline;
use crate::run::Run;

/// Nodes of the first attempt at a unit, which decides most of them.
const QUICK: u64 = 300;

pub(crate) struct NodeCut;

impl Bound for NodeCut {
    fn name(&self) -> &'static str {
        "node-cut"
    }

    fn about(&self) -> &'static str {
        "the cheapest stage around each op, by minimum cuts"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        unreplicated_pipeline(problem)
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(relaxed) = PipelineRelaxation::merged(run.problem) else { return };
        if !relaxed.knows_order() {
            return;
        }
        let limits = BisectionLimits::of(run.budget, 0.15);
        let alone = |unit: usize| {
            let mut set = Bits::none(relaxed.units());
            set.add(unit);
            relaxed.cost(relaxed.least(), &set).unwrap_or(0)
        };
        let mut units: Vec<(u64, usize)> = (0..relaxed.units()).map(|unit| (alone(unit), unit)).collect();
        units.sort_unstable_by(|a, b| b.cmp(a));
        for (alone, unit) in units {
            if run.is_solved() || limits.left().is_zero() {
                return;
            }
            raise(run, self.name(), &relaxed, unit, relaxed.picoseconds(alone), limits);
        }
    }
}

/// Raises the bound by the sets around one unit, if they allow it.
fn raise(
    run: &mut Run<'_>,
    name: &'static str,
    relaxed: &PipelineRelaxation,
    unit: usize,
    alone: u64,
    limits: BisectionLimits<'_>,
) {
    let low = run.relaxed_bound().map_or(0, |bound| bound.0);
    let high = run.relaxed_value().map_or(alone, |value| value.0.min(alone));
    let mut prices = vec![0; relaxed.units()];
    prices[unit] = 1;
    let attempt = |threshold: u64, tree_limits: TreeLimits<'_>| {
        let budget = relaxed.budget(1, threshold);
        let mut sets = ConvexSets::new(relaxed, relaxed.least(), budget, &prices, 0);
        let found = find_sets(&mut sets, 1, tree_limits);
        let cost = |set: &Bits| relaxed.picoseconds(sets.cost(set).expect("all of it can run"));
        let least = if let BranchResult::Sets(sets) = &found { sets.iter().map(cost).min() } else { None };
        (found, least.unwrap_or(0))
    };
    let quick = TreeLimits { nodes: QUICK.min(limits.nodes), ..limits.for_attempt(0.1) };
    // For most units there is a set that costs no more than the bound proved already.
    if high <= low || !matches!(attempt(low, quick).0, BranchResult::NoneExists(_)) {
        return;
    }
    bisect(
        low,
        high,
        limits,
        FIRST_SHARE,
        &mut |threshold, tree_limits| match attempt(threshold, tree_limits) {
            (BranchResult::NoneExists(tree), _) => {
                let group = StageGroup { stages: 1, count: relaxed.stages(), limit: 0, tree };
                let evidence = Evidence::SetCover {
                    merged: true,
                    threshold_ps: Time(threshold),
                    prices: prices.clone(),
                    groups: vec![group],
                };
                run.prove(name, evidence);
                ThresholdResult::Proved
            }
            (BranchResult::Sets(_), cost) => ThresholdResult::Reached(cost),
            (BranchResult::Unknown, _) => ThresholdResult::Unknown,
        },
    );
}
