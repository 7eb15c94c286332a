//! `colocation`: at a threshold T, ops that every plan of period at most T puts on one device are merged; T is refuted if the
//! clusters do not fit.
//!
//! See [`ColocatedUnits`] for the argument. The evidence is the list of pairs, each of which the check derives again, and
//! device weights. The largest threshold that can be refuted is searched: just below the best plan first, which would prove it
//! optimal, then by bisection. O(thresholds × rounds × edges × minimum cut).

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

use crate::bound::{Bound, When};
use crate::run::Run;
use crate::stream::colocation::ColocatedUnits;
use crate::stream::device_prices::prices;
use crate::stream::tables::StreamTables;

/// The most thresholds tried, and the relative width of the interval at which bisection ends.
const MOST_TRIES: u32 = 32;
const FINE: u64 = 10_000;

pub(crate) struct Colocation;

impl Bound for Colocation {
    fn name(&self) -> &'static str {
        "colocation"
    }

    fn about(&self) -> &'static str {
        "ops that must share a device because of links, merged, against the capacity of the devices"
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
        let prices =
            StreamTables::supports(run.problem).map(|()| prices(&StreamTables::new(run.problem), run.budget));
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
    /// Tries to prove that no plan is within a threshold.
    fn refute(&self, run: &mut Run<'_>, threshold: Time, prices: &[u64]) -> bool {
        let (problem, budget) = (run.problem, run.budget);
        let colocated = ColocatedUnits::new(problem, threshold, &mut || budget.is_spent());
        let Some(evidence) = colocated.and_then(|colocated| colocated.proof(prices)) else { return false };
        run.prove(self.name(), evidence);
        true
    }
}
