//! `last-loads` and `searched-loads`: what the buses must carry before the last τ of a schedule, for every τ.
//!
//! An op with a tail of at least τ starts by C − τ, so its parameters have landed by then, or it reads in place. For weights w of
//! the links, C ≥ τ + Σ_ℓ w_ℓ · (bus time on ℓ of these loads) / Σ_ℓ w_ℓ, each load on the bus that minimises its term (the
//! statement and its check are in `divvy_proof::cold_start::last_loads`). Every tail of some op is tried as τ, with equal
//! weights, weights in proportion to the bandwidths, and each bus alone. O(weights × tails × parameters × devices).
//!
//! `last-loads` takes the longest chain of kernels, with copies, for a tail. `searched-loads` raises tails first, by the bounded
//! searches of `frontier_search` with all weights resident: where branches cannot run at once for free, more than the longest
//! chain follows. It runs for as long as it is given, unless the gap is small.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::cold_start::last_loads::LastLoadArgument as Argument;
use divvy_proof::frontier_search::recipe::FrontierProof;
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::run::Run;
use crate::{cold_start, device_weights};

/// The most values of τ tried; of more, evenly spaced ones.
const MOST_MOMENTS: usize = 2000;

/// Windows (in ops) and beam widths of the searches.
const ROUNDS: [(u32, u32); 3] = [(72, 8), (72, 40), (72, 200)];
/// A smaller gap is not searched.
const SMALL_GAP: f64 = 0.02;
/// The most ops for which tails are searched.
const MOST_OPS: usize = 3000;

pub(crate) struct LastLoads;
pub(crate) struct SearchedLoads;

/// The largest bound over the weights and values of τ tried, with those.
fn best(run: &Run<'_>, argument: &Argument<'_>) -> Option<(Time, Vec<u64>, Time)> {
    let moments = argument.candidate_times_left();
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

/// The weights to try for the links from host memory.
fn bus_weights(problem: &Problem) -> Vec<Vec<u64>> {
    let links = problem.hardware.links();
    let mut narrowest_links: Vec<usize> = Vec::new();
    for route in problem.hardware.devices().filter_map(|d| problem.hardware.host_route(d)) {
        // The last of the narrowest: a shared bus is listed behind its links.
        let narrowest = route.links.iter().rev().min_by_key(|link| links[link.index()].bandwidth);
        narrowest_links.extend(narrowest.map(|link| link.index()));
    }
    narrowest_links.sort_unstable();
    narrowest_links.dedup();
    let widest = narrowest_links.iter().map(|&link| links[link].bandwidth.0).max().unwrap_or(1);
    let scaled = |link: usize| (u128::from(links[link].bandwidth.0) << 20) / u128::from(widest);
    let mut candidates: Vec<Vec<(usize, u64)>> = vec![
        narrowest_links.iter().map(|&link| (link, 1)).collect(),
        narrowest_links.iter().map(|&link| (link, scaled(link) as u64)).collect(),
    ];
    candidates.extend(narrowest_links.iter().map(|&link| vec![(link, 1)]));
    let spread = |pairs: Vec<(usize, u64)>| {
        let mut weights = vec![0; links.len()];
        for (link, weight) in pairs {
            weights[link] = weight;
        }
        weights
    };
    candidates.into_iter().map(spread).collect()
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
        "last-loads, with tails raised by searches in windows"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        match problem.graph.op_count() {
            ops if ops > MOST_OPS => {
                Err(format!("{ops} ops take too long to search, {MOST_OPS} is the most"))
            }
            _ => LatencyTables::with_resident_weights(problem).map(|_| ()),
        }
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(tables) = LatencyTables::with_resident_weights(run.problem) else { return };
        let weights = device_weights::weights(run.problem, &tables);
        let Ok(mut prover) = FrontierProof::with_resident_weights(run.problem, weights) else { return };
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
        "loads that must precede the remaining work"
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
