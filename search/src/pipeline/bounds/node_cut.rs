//! `node-cut`: every op is in some stage; what is the cheapest that one can be?
//!
//! For each unit the cheapest convex set that contains it, by minimum cuts and branching. The dearest of these is a
//! bound, and it decides where many stages share few large ops. The evidence is a price of 1 on that unit alone.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::bit_set::Bits;
use divvy_proof::evidence::{Evidence, StageGroup};
use divvy_proof::pipeline::convex_sets::Sets;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;

use crate::bound::Bound;
use crate::pipeline::bounds::bisection::{Attempt, FIRST_SHARE, BisectionLimits, ratchet};
use crate::pipeline::bounds::branch_and_bound::{SearchLimit, BranchResult, find_sets};
use crate::pipeline::bounds::only_pipeline;
use crate::run::Run;

/// Parts of one look at one unit; most are decided at once.
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
        only_pipeline(problem)
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

/// Proves what it can of the sets around one unit.
fn raise(
    run: &mut Run<'_>,
    name: &'static str,
    relaxed: &PipelineRelaxation,
    unit: usize,
    alone: u64,
    limits: BisectionLimits<'_>,
) {
    let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
    let high = run.outcome().value().map_or(alone, |value| value.0.min(alone));
    let mut prices = vec![0; relaxed.units()];
    prices[unit] = 1;
    let look = |threshold: u64, effort: SearchLimit<'_>| {
        let budget = relaxed.budget(1, threshold);
        let mut sets = Sets::new(relaxed, relaxed.least(), budget, &prices, 0);
        let found = find_sets(&mut sets, 1, effort);
        let cost = |set: &Bits| relaxed.picoseconds(sets.cost(set).expect("all of it can run"));
        let least = if let BranchResult::Sets(sets) = &found { sets.iter().map(cost).min() } else { None };
        (found, least.unwrap_or(0))
    };
    let quick = SearchLimit { parts: QUICK.min(limits.parts), ..limits.effort(0.1) };
    // Most units are in some stage that is cheaper than what is proved already.
    if high <= low || !matches!(look(low, quick).0, BranchResult::Nothing(_)) {
        return;
    }
    ratchet(low, high, limits, FIRST_SHARE, &mut |threshold, effort| match look(threshold, effort) {
        (BranchResult::Nothing(tree), _) => {
            let group = StageGroup { stages: 1, count: relaxed.stages(), limit: 0, tree };
            let evidence = Evidence::SetCover {
                merged: true,
                threshold_ps: Time(threshold),
                prices: prices.clone(),
                groups: vec![group],
            };
            run.prove(name, evidence);
            Attempt::Proved
        }
        (BranchResult::Sets(_), cost) => Attempt::Reached(cost),
        (BranchResult::Unknown, _) => Attempt::Unknown,
    });
}
