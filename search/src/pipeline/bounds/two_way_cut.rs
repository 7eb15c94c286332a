//! `two-stage` and `hierarchy`: the network divided between the first stages and the others.
//!
//! For two stages this is the whole problem (on identical devices without overflow), and branch and bound over beginnings
//! of the network solves it. For more stages the first j together take j times as long as one, and the others likewise;
//! what two groups cannot do, k stages cannot. Even groups come first: they are OPT_k ≥ (2/k)·OPT_2.

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::two_way_cut::TwoWayCut;

use crate::bound::{Bound, When};
use crate::pipeline::bounds::bisection::{Attempt, FIRST_SHARE, BisectionLimits, ratchet};
use crate::pipeline::bounds::branch_and_bound::{SearchLimit, BranchResult, find_beginning};
use crate::pipeline::bounds::only_pipeline;
use crate::run::Run;

/// Past this many units a cut takes too long to take many.
const MOST_UNITS: usize = 200_000;

pub(crate) struct TwoStage;

impl Bound for TwoStage {
    fn name(&self) -> &'static str {
        "two-stage"
    }

    fn about(&self) -> &'static str {
        "two stages solved by branch and bound over beginnings of the network"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        only_pipeline(problem)?;
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
        "the stages in two groups, each as long as its stages together"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        only_pipeline(problem)?;
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
        // From the middle outward, and only a few: what is short on one side is close to an even share of the work.
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
            let share = BisectionLimits { until: all.effort(0.5).until, ..all };
            raise(run, self.name(), &relaxed, first, share);
        }
    }
}

/// Groupings tried.
const MOST_GROUPINGS: usize = 6;

/// Proves what it can with so many stages in the first group.
fn raise(run: &mut Run<'_>, name: &'static str, relaxed: &PipelineRelaxation, first: u32, limits: BisectionLimits<'_>) {
    if relaxed.units() > MOST_UNITS {
        return;
    }
    let groups = [first, relaxed.stages() - first];
    let reached = |costs: [u64; 2]| -> u64 {
        let each = [0, 1].map(|i| relaxed.picoseconds(costs[i]).div_ceil(u64::from(groups[i])));
        each[0].max(each[1])
    };
    let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
    let best = run.outcome().value().map(|value| value.0);
    // All in one group is a way to divide.
    let work: u64 = relaxed.least().work.iter().flatten().sum();
    let high = reached([work, 0]).min(reached([0, work])).min(best.unwrap_or(u64::MAX));
    ratchet(low, high, limits, FIRST_SHARE, &mut |threshold, effort: SearchLimit<'_>| {
        let budgets = groups.map(|stages| relaxed.budget(stages, threshold));
        let mut halves = TwoWayCut::new(relaxed, budgets);
        match find_beginning(&mut halves, effort) {
            BranchResult::Nothing(tree) => {
                run.prove(
                    name,
                    Evidence::TwoWayCut { merged: true, threshold_ps: Time(threshold), first, tree },
                );
                Attempt::Proved
            }
            BranchResult::Sets(sets) => {
                let each = sets.iter().map(|set| reached(halves.costs(set)));
                each.min().map_or(Attempt::Unknown, Attempt::Reached)
            }
            BranchResult::Unknown => Attempt::Unknown,
        }
    });
}
