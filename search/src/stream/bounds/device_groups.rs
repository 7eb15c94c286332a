//! `device-groups`: thresholds refuted by programs over which of a few groups of devices runs each op ([`GroupSolver`]).

use divvy_core::problem::Problem;
use divvy_core::units::Time;

use crate::bound::{Bound, When};
use crate::run::Run;
use crate::stream::device_prices::prices;
use crate::stream::group_solver::GroupSolver;
use crate::stream::tables::StreamTables;

pub(crate) struct DeviceGroups;

impl Bound for DeviceGroups {
    fn name(&self) -> &'static str {
        "device-groups"
    }

    fn about(&self) -> &'static str {
        "a program over which of a few groups of devices runs each op, loads and transfers together"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::supports(problem)?;
        let even = vec![1; problem.hardware.device_count()];
        match GroupSolver::new(problem, &even) {
            Some(_) => Ok(()),
            None => Err("it takes two devices or more, and few tensors alive at a time".to_owned()),
        }
    }

    fn runs(&self) -> When {
        When::Alone
    }

    fn bound(&self, run: &mut Run<'_>) {
        let (problem, budget) = (run.problem, run.budget);
        let weights = prices(&StreamTables::new(problem), budget);
        let Some(mut solver) = GroupSolver::new(problem, &weights) else { return };
        while !budget.is_spent() && !run.is_solved() && !solver.is_through() {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let high = run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0.saturating_sub(1));
            let proven = solver.raise(low, high, &mut || budget.is_spent());
            run.count(solver.take_programs());
            proven.into_iter().for_each(|proven| run.take(proven));
        }
        if solver.is_through() {
            run.exhaust();
        }
    }
}
