//! `two-stage` and `hierarchy`: the stages in two groups, the network cut into a down-set and its complement.
//!
//! If k stages take at most T each, the ops of the first j form a down-set of cost at most j·T, and the others cost at most (k
//! − j)·T. If branch and bound over down-sets ([`find_down_set`]) finds no such cut, T is refuted; with j = k / 2 that is OPT_k
//! ≥ (2/k)·OPT_2. For two stages on identical devices without overflow it is the problem itself.

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::two_way_cut::TwoWayCut;

use crate::bound::{Bound, When};
use crate::pipeline::bounds::bisection::{BisectionLimits, FIRST_SHARE, ThresholdResult, bisect};
use crate::pipeline::bounds::branch_and_bound::{BranchResult, TreeLimits, find_down_set};
use crate::pipeline::bounds::unreplicated_pipeline;
use crate::run::Run;

/// The most units for which cuts are fast enough.
const MOST_UNITS: usize = 200_000;

pub(crate) struct TwoStage;

impl Bound for TwoStage {
    fn name(&self) -> &'static str {
        "two-stage"
    }

    fn about(&self) -> &'static str {
        "two stages, by branch and bound over down-sets"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        unreplicated_pipeline(problem)?;
        match problem.objective {
            Objective::Pipeline { stages: 2 } => Ok(()),
            _ => Err("it is for two stages; hierarchy makes use of it for more".to_owned()),
        }
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(relaxed) = PipelineRelaxation::merged(run.problem) else { return };
        let limits = BisectionLimits::of(run.budget, 0.9);
        raise(run, self.name(), &relaxed, 1, limits);
    }
}

pub(crate) struct Hierarchy;

impl Bound for Hierarchy {
    fn name(&self) -> &'static str {
        "hierarchy"
    }

    fn about(&self) -> &'static str {
        "the stages in two groups, by branch and bound over down-sets"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        unreplicated_pipeline(problem)?;
        match problem.objective {
            Objective::Pipeline { stages: 0..=2 } => Err("there are no stages to group".to_owned()),
            _ => Ok(()),
        }
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(relaxed) = PipelineRelaxation::merged(run.problem) else { return };
        let stages = relaxed.stages();
        // From the middle outward, and only a few: groups of few stages give little more than an even share of the work.
        let half = stages / 2;
        let mut firsts = vec![half];
        firsts.extend(
            (1..=half).rev().flat_map(|away| [half - away, half + away]).filter(|&j| j > 0 && j < stages),
        );
        firsts.sort_by_key(|&j| j.abs_diff(half));
        firsts.truncate(MOST_GROUPINGS);
        let all = BisectionLimits::of(run.budget, 0.2);
        for first in firsts {
            if run.is_solved() || all.left().is_zero() {
                return;
            }
            let share = BisectionLimits { until: all.for_attempt(0.5).until, ..all };
            raise(run, self.name(), &relaxed, first, share);
        }
    }
}

/// The most values of j tried.
const MOST_GROUPINGS: usize = 6;

/// Raises the bound with `first` stages in the first group.
fn raise(
    run: &mut Run<'_>,
    name: &'static str,
    relaxed: &PipelineRelaxation,
    first: u32,
    limits: BisectionLimits<'_>,
) {
    if relaxed.units() > MOST_UNITS {
        return;
    }
    let groups = [first, relaxed.stages() - first];
    let reached = |costs: [u64; 2]| -> u64 {
        let each = [0, 1].map(|i| relaxed.picoseconds(costs[i]).div_ceil(u64::from(groups[i])));
        each[0].max(each[1])
    };
    let low = run.relaxed_bound().map_or(0, |bound| bound.0);
    let best = run.relaxed_value().map(|value| value.0);
    // All ops in one group is a valid cut.
    let work: u64 = relaxed.least().work.iter().flatten().sum();
    let high = reached([work, 0]).min(reached([0, work])).min(best.unwrap_or(u64::MAX));
    bisect(low, high, limits, FIRST_SHARE, &mut |threshold, tree_limits: TreeLimits<'_>| {
        let budgets = groups.map(|stages| relaxed.budget(stages, threshold));
        let mut cut = TwoWayCut::new(relaxed, budgets);
        match find_down_set(&mut cut, tree_limits) {
            BranchResult::NoneExists(tree) => {
                run.prove(
                    name,
                    Evidence::TwoWayCut { merged: true, threshold_ps: Time(threshold), first, tree },
                );
                ThresholdResult::Proved
            }
            BranchResult::Sets(sets) => {
                let each = sets.iter().map(|set| reached(cut.costs(set)));
                each.min().map_or(ThresholdResult::Unknown, ThresholdResult::Reached)
            }
            BranchResult::Unknown => ThresholdResult::Unknown,
        }
    });
}
