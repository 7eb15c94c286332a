//! `link-prices`: what devices must be sent for what they take is more than the medium carries that they share.
//!
//! The evidence is a price for each op, at which `core` finds the best share of each device once more. Prices are moved
//! and the threshold raised as long as that refutes it. O(steps × devices × ops × what is told apart in between).

use divvy_core::problem::Problem;
use divvy_core::units::Time;

use crate::bound::{Bound, When};
use crate::run::Run;
use crate::stream::device_prices::prices;
use crate::stream::lagrangian::LagrangianSplit;
use crate::stream::tables::StreamTables;

/// The most steps in one go, and the most goes in a row that lead to nothing.
const STEPS: u64 = 500;
const MOST_IN_VAIN: u32 = 2;

pub(crate) struct LinkPrices;

impl Bound for LinkPrices {
    fn name(&self) -> &'static str {
        "link-prices"
    }

    fn about(&self) -> &'static str {
        "what devices must be sent for the ops they take, over the medium that all share"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::support(problem)?;
        let tables = StreamTables::new(problem);
        let even = vec![1; tables.devices];
        LagrangianSplit::new(problem, &tables, &even).map(|_| ()).ok_or_else(|| {
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
        let Some(mut carving) = LagrangianSplit::new(problem, &tables, &weights) else { return };
        let mut in_vain = 0;
        while in_vain < MOST_IN_VAIN && !budget.is_spent() && !run.is_solved() {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let most = run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0.saturating_sub(1));
            let climbed = carving.climb(low, most, STEPS, &mut || budget.is_spent());
            run.count(climbed.steps);
            in_vain = if climbed.evidence.is_some() { 0 } else { in_vain + 1 };
            climbed.evidence.into_iter().for_each(|evidence| run.prove(self.name(), evidence));
        }
    }
}
