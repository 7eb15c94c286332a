//! `colocation`: what cannot be apart within a period is one, and is then too much for the devices.
//!
//! The evidence is a list of pairs, each of which `core` finds inseparable once more, and weights for the devices. The
//! largest threshold that can be refuted is searched: just below the best plan first, which is a proof of optimality,
//! then by halving. O(rounds × tensors × minimum cut).

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

use crate::bound::{Bound, When};
use crate::run::Run;
use crate::stream::colocation::ColocatedUnits;
use crate::stream::device_prices::prices;
use crate::stream::tables::StreamTables;

/// Thresholds that are tried, and the share of the bound below which more is not worth the time.
const MOST_TRIES: u32 = 32;
const FINE: u64 = 10_000;

pub(crate) struct Colocation;

impl Bound for Colocation {
    fn name(&self) -> &'static str {
        "colocation"
    }

    fn about(&self) -> &'static str {
        "ops that links cannot keep apart, as one, on all devices"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::Stream => Ok(()),
            _ => Err("it is about the links of `stream`".to_owned()),
        }
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let mut refuted = run.outcome().lower_bound().map_or(0, |bound| bound.0.saturating_sub(1));
        let mut open = run.outcome().value().map(|value| value.0);
        if open.is_some_and(|open| open <= refuted + 1) {
            return;
        }
        let mut next = open.map_or(2 * refuted + 1, |open| open - 1);
        let prices = StreamTables::support(run.problem).map(|()| prices(&StreamTables::new(run.problem), run.budget));
        let prices = prices.unwrap_or_else(|_| vec![1; run.problem.hardware.device_count()]);
        for _ in 0..MOST_TRIES {
            if run.budget.is_spent() {
                return;
            }
            if self.refute(run, Time(next), &prices) {
                refuted = next;
            } else {
                open = Some(next);
            }
            next = match open {
                None => refuted.saturating_mul(2).min(Time::LONGEST_INPUT.0),
                Some(open) if open - refuted <= 1 + refuted / FINE => return,
                Some(open) => u64::midpoint(refuted, open),
            };
        }
    }
}

impl Colocation {
    /// Proves, if it can, that no plan is within a threshold.
    fn refute(&self, run: &mut Run<'_>, threshold: Time, prices: &[u64]) -> bool {
        let (problem, budget) = (run.problem, run.budget);
        let united = ColocatedUnits::new(problem, threshold, &mut || budget.is_spent());
        let Some(evidence) = united.and_then(|united| united.proof(prices)) else { return false };
        run.prove(self.name(), evidence);
        true
    }
}
