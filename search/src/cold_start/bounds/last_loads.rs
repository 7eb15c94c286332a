//! `last-loads`: by the time when so much is still to do, the weights for it have crossed the buses.
//!
//! The evidence is a moment before the end and a weight for each link (see `core`). Every moment at which some op must
//! have started is tried with the weights that `transfers` tries for the whole network. O(ops × parameters × devices).
//!
//! `searched-loads` first searches what follows each op with all weights resident, as `module-tails` does for `latency`:
//! where branches would have to run at once, copies between devices leave more to do than the longest chain says. It
//! runs only where the gap is worth it, and takes the time it is given.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::cold_start::last_loads::LastLoadArgument as Argument;
use divvy_proof::frontier_search::recipe::FrontierProof;
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::chains::transfers::bus_weights;
use crate::run::Run;
use crate::{cold_start, device_weights};

/// Moments tried: with more, every so manieth.
const MOST_MOMENTS: usize = 2000;

/// Windows and widths of the searches.
const ROUNDS: [(u32, u32); 3] = [(72, 8), (72, 40), (72, 200)];
/// A gap below this is not worth a search.
const SMALL_GAP: f64 = 0.02;
/// Past this many ops nothing is searched.
const MOST_OPS: usize = 3000;

pub(crate) struct LastLoads;
pub(crate) struct SearchedLoads;

/// The most that some moment and some weights prove.
pub(crate) fn best(run: &Run<'_>, argument: &Argument<'_>) -> Option<(Time, Vec<u64>, Time)> {
    let moments = argument.moments();
    let every = moments.len().div_ceil(MOST_MOMENTS);
    let mut best: Option<(Time, Vec<u64>, Time)> = None;
    for weights in bus_weights(run.problem) {
        for &left in moments.iter().step_by(every) {
            if run.budget.is_cancelled() {
                break;
            }
            let Ok(value) = argument.proven(&weights, left) else { continue };
            if best.as_ref().is_none_or(|(best, ..)| value > *best) {
                best = Some((value, weights.clone(), left));
            }
        }
    }
    best
}

fn take(run: &mut Run<'_>, name: &str, argument: &Argument<'_>, weights: Vec<u64>, left: Time) {
    if let Some(proven) = Proven::by_last_loads(name, argument, weights, left) {
        run.take(proven);
    }
}

impl Bound for SearchedLoads {
    fn name(&self) -> &'static str {
        "searched-loads"
    }

    fn about(&self) -> &'static str {
        "last-loads, with what follows each op searched in windows"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        match problem.graph.op_count() {
            ops if ops > MOST_OPS => {
                Err(format!("{ops} ops take too long to search, {MOST_OPS} is the most"))
            }
            _ => LatencyTables::of_kernels(problem).map(|_| ()),
        }
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(dense) = LatencyTables::of_kernels(run.problem) else { return };
        let shares = device_weights::weights(run.problem, &dense);
        let Ok(mut prover) = FrontierProof::of_kernels(run.problem, shares) else { return };
        let mut reached = Time::ZERO;
        for (window, width) in ROUNDS {
            let limit = run.outcome().value().unwrap_or(Time(NEVER));
            prover.raise_tails(window, width, limit, &mut || run.budget.is_spent());
            let Ok(argument) = Argument::with_searches(run.problem, Some(&prover)) else { return };
            let Some((value, weights, left_ps)) = best(run, &argument) else { return };
            if value > reached && !prover.steps().is_empty() {
                reached = value;
                take(run, self.name(), &argument, weights, left_ps);
            }
            if run.budget.is_spent() || run.is_solved() {
                break;
            }
        }
    }
}

impl Bound for LastLoads {
    fn name(&self) -> &'static str {
        "last-loads"
    }

    fn about(&self) -> &'static str {
        "weights that must have crossed the buses before what is still to do"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(argument) = Argument::new(run.problem) else { return };
        if let Some((_, weights, left_ps)) = best(run, &argument) {
            take(run, self.name(), &argument, weights, left_ps);
        }
    }
}
