//! `link-prices`: a Lagrangian bound for problems in which all transfers share one link.
//!
//! Multipliers of "each op on exactly one device" give a lower bound on the bytes that all devices receive; a threshold is
//! refuted if that exceeds what the link carries (see [`LagrangianSolver`]). The evidence is a price for each op, with which the
//! check solves the knapsack of each device again. Subgradient ascent, with the threshold raised after each refutation, until
//! it stalls. O(steps × devices × ops × knapsack states).

use divvy_core::problem::Problem;
use divvy_core::units::Time;

use crate::bound::{Bound, When};
use crate::run::Run;
use crate::stream::device_prices::prices;
use crate::stream::lagrangian::LagrangianSolver;
use crate::stream::tables::StreamTables;

/// The most steps of one ascent.
const STEPS: u64 = 500;
/// The number of ascents without a refutation after which it ends.
const MOST_IN_VAIN: u32 = 2;

pub(crate) struct LinkPrices;

impl Bound for LinkPrices {
    fn name(&self) -> &'static str {
        "link-prices"
    }

    fn about(&self) -> &'static str {
        "a Lagrangian bound on the bytes that devices must receive, over the link that all share"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::supports(problem)?;
        let tables = StreamTables::new(problem);
        let even = vec![1; tables.devices];
        LagrangianSolver::new(problem, &tables, &even).map(|_| ()).ok_or_else(|| {
            "it takes a link or medium that all transfers share, and few tensors alive at a time".to_owned()
        })
    }

    fn runs(&self) -> When {
        When::Alone
    }

    fn bound(&self, run: &mut Run<'_>) {
        let (problem, budget) = (run.problem, run.budget);
        let tables = StreamTables::new(problem);
        let weights = prices(&tables, budget);
        let Some(mut lagrangian) = LagrangianSolver::new(problem, &tables, &weights) else { return };
        let mut in_vain = 0;
        while in_vain < MOST_IN_VAIN && !budget.is_spent() && !run.is_solved() {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let most = run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0.saturating_sub(1));
            let ascent = lagrangian.raise_threshold(low, most, STEPS, &mut || budget.is_spent());
            run.count(ascent.steps);
            in_vain = if ascent.evidence.is_some() { 0 } else { in_vain + 1 };
            ascent.evidence.into_iter().for_each(|evidence| run.prove(self.name(), evidence));
        }
    }
}
