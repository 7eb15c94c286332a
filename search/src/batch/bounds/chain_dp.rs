//! `chain-dp`: a dynamic program over the divisions of the ops along a chain.
//!
//! All inputs pass the ops of a chain. The verifier runs a dynamic program over them whose labels are the earliest
//! starts of an op's batches, with branches between two ops and device weights on the work along the chain
//! (`divvy_proof::batch::chain_dp`); it drops labels that end no earlier than a limit, and proves at most that limit.
//! Here the chain, the branches, the weights, the limit and the number of labels are chosen.
//!
//! The chain and its branches are in [`ChainNetwork`]. Work along the chain is weighted by the dual of
//! `division-area`, improved by coordinate search, or not at all; a short probe of both decides which comes first.
//! With a low limit labels are dropped early and the program is fast, so the limit rises from the best bound to the
//! best value: in growing steps while it is proved, then in shorter ones. Then more labels are kept.

use std::cmp::Reverse;
use std::time::Duration;

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::batch::chain_dp::ChainDpInstance;
use divvy_proof::evidence::ChainProof;
use divvy_proof::verify::Proven;

use crate::batch::bounds::chain_network::{ChainNetwork, WIDTHS, WorkMeasure, integer_weights};
use crate::bound::{Bound, When};
use crate::division_lp::op_divisions::FEW_OPS;
use crate::run::Run;

/// The share of the time left that the bound may take; the rest is for later bounds.
const TIME_SHARE: f64 = 0.85;
/// The share of the run's time by whose end it is to be done. A better plan only lowers its largest limit.
const DEADLINE_SHARE: f64 = 0.5;
/// The share of its time for the probe of a measure.
const PROBE_SHARE: f64 = 0.03;
/// The share of the time left that an attempt may take.
const ATTEMPT_SHARE: f64 = 0.4;
/// Weights are improved until this share of its time, if there is time for at least so many attempts.
const WEIGHTS_UNTIL: f64 = 0.12;
const LEAST_ATTEMPTS: u32 = 10;
/// With a plan below this share of the fastest device's time for all ops, devices work in parallel throughout, and
/// the bound of a chain is weak.
const LEAST_SERIAL_SHARE: f64 = 0.75;
/// A smaller gap is not worth a search.
const SMALL_GAP: f64 = 1e-4;
/// The first step of the limit is the gap divided by this; the least is the first one divided by that.
const STEPS: u64 = 16;
const LEAST_STEP_DIVISOR: u64 = 8;
/// If two limits are far from proved, limits at these shares of the way to the higher one are tried.
const INTERMEDIATE: [f64; 3] = [0.75, 0.55, 0.9];
/// The least factor of time for the next width: several attempts are needed, each longer than the last one.
const WIDENING_FACTOR: u32 = 12;
/// The factors of coordinate search on the weights.
const FACTORS: [f64; 3] = [1.5, 1.2, 1.08];
/// The largest limit, so that sums stay in range.
const MOST_TIME: u64 = 1 << 56;
/// The most ops: reachability is a table.
const MOST_OPS: usize = 3000;

pub(crate) struct ChainDp;

impl Bound for ChainDp {
    fn name(&self) -> &'static str {
        "chain-dp"
    }

    fn about(&self) -> &'static str {
        "a dynamic program over the divisions of the ops along a chain"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        if problem.graph.op_count() > MOST_OPS {
            return Err(format!("{} ops are too many, {MOST_OPS} is the most", problem.graph.op_count()));
        }
        ChainDpInstance::new(problem).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn deadline_share(&self) -> Option<f64> {
        Some(DEADLINE_SHARE)
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(argument) = ChainDpInstance::new(run.problem) else { return run.exhaust() };
        let Some(network) = ChainNetwork::new(run.problem) else { return run.exhaust() };
        let is_parallel = (run.outcome().value())
            .is_some_and(|value| (value.0 as f64) < network.serial_time as f64 * LEAST_SERIAL_SHARE);
        // If there is no other bound, a weak one is better than none.
        let has_others = run.outcome().certificates.iter().any(|known| known.bound != self.name());
        if is_parallel && has_others && run.problem.graph.op_count() > FEW_OPS {
            return run.exhaust();
        }
        let used = run.budget.start.elapsed();
        let left = run.budget.time.saturating_sub(used);
        let mut attempts = Attempts {
            argument: &argument,
            chain_weights: network.chain_weights(run),
            began: used,
            time: left.mul_f64(TIME_SHARE),
            count: 0,
            at_most: Time(network.serial_time),
        };
        let mut groups = [true, false].map(|is_weighted| network.measures(is_weighted));
        for measure in groups.iter_mut().filter_map(|measures| measures.first_mut()) {
            let until = run.budget.start.elapsed() + attempts.time.mul_f64(PROBE_SHARE);
            self.raise_limit(run, &mut attempts, measure, until, true);
        }
        groups.sort_by_key(|measures| Reverse(measures[0].proved));
        for (place, measures) in groups.iter_mut().enumerate() {
            let proven = run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64);
            if place == 0 || measures[0].promises(proven) {
                self.run_measures(run, &mut attempts, measures);
            }
        }
    }
}

impl ChainDp {
    /// Runs the measures with the same weights along the chain, the fast one first, as long as there is time.
    fn run_measures(&self, run: &mut Run<'_>, attempts: &mut Attempts<'_>, measures: &mut [WorkMeasure]) {
        let until = attempts.end();
        self.raise_limit(run, attempts, &mut measures[0], until, true);
        if measures[0].is_weighted {
            self.improve_weights(run, attempts, &measures[0]);
        }
        let Some(last) = measures.last_mut() else { return };
        loop {
            self.raise_limit(run, attempts, last, until, false);
            let left = until.saturating_sub(run.budget.start.elapsed());
            let is_spent = run.budget.nodes.is_none() && last.took * WIDENING_FACTOR > left;
            if is_spent || attempts.is_spent(run, until) || run.is_solved() || !last.widen() {
                break;
            }
        }
    }

    /// Coordinate search on the weights along the chain, while that proves more.
    fn improve_weights(&self, run: &mut Run<'_>, attempts: &mut Attempts<'_>, measure: &WorkMeasure) {
        let until = attempts.began + attempts.time.mul_f64(WEIGHTS_UNTIL);
        let left = until.saturating_sub(run.budget.start.elapsed());
        if measure.took * LEAST_ATTEMPTS > left {
            return;
        }
        let mut proved = measure.proved;
        for factor in FACTORS {
            loop {
                let before = proved;
                for (device, up) in
                    (0..attempts.chain_weights.len()).flat_map(|device| [(device, true), (device, false)])
                {
                    let known = attempts.chain_weights.clone();
                    attempts.chain_weights[device] *= if up { factor } else { 1.0 / factor };
                    let mut moved = WorkMeasure { failed_limit: None, proved: None, ..measure.clone() };
                    self.raise_limit(run, attempts, &mut moved, until, true);
                    if moved.proved > proved {
                        proved = moved.proved;
                    } else {
                        attempts.chain_weights = known;
                    }
                }
                if proved == before || attempts.is_spent(run, until) {
                    break;
                }
            }
        }
    }

    /// Raises the limit in steps that grow until one is not proved, then in shorter ones; or up to the first failure
    /// only.
    fn raise_limit(
        &self,
        run: &mut Run<'_>,
        attempts: &mut Attempts<'_>,
        measure: &mut WorkMeasure,
        until: Duration,
        to_first_failure: bool,
    ) {
        let most = run.outcome().value().unwrap_or(attempts.at_most).0.min(MOST_TIME);
        let mut refuted = run.outcome().lower_bound().map_or(0, |bound| bound.0).min(most);
        let first = ((most - refuted) / STEPS).max(1);
        let (mut step, mut has_failed) = (first, false);
        let (mut highest, mut intermediate) = (0, INTERMEDIATE.iter());
        while refuted < most && !attempts.is_spent(run, until) && !run.is_solved() {
            // A limit that failed once is approached by halving.
            let half =
                measure.failed_limit.map_or(most, |failed_limit| failed_limit.saturating_sub(refuted) / 2);
            let limit = (refuted + step.min(half)).min(most);
            if limit <= refuted + first / LEAST_STEP_DIVISOR
                || (to_first_failure && (has_failed || measure.failed_limit.is_some()))
            {
                break;
            }
            // An attempt with a higher limit takes at least as long.
            let began = run.budget.start.elapsed();
            let share = attempts.end().saturating_sub(began).mul_f64(ATTEMPT_SHARE);
            if measure.took > share && run.budget.nodes.is_none() {
                break;
            }
            let value = self.attempt(run, attempts, measure, Time(limit), until.min(began + share));
            let took = run.budget.start.elapsed() - began;
            measure.took = value.map_or(measure.took, |_| took);
            measure.proved = measure.proved.max(value);
            refuted = refuted.max(value.map_or(0, |value| value.0));
            let is_far = value.is_some_and(|value| value.0 < limit.saturating_sub(step / 2));
            if refuted >= limit {
                step = if has_failed { step } else { step.saturating_mul(2) };
            } else if is_far && !to_first_failure && limit < most {
                // Which labels are kept depends on the limit, so another one sometimes proves more.
                highest = limit.max(highest);
                step = if has_failed {
                    let Some(part) = intermediate.next() else { break };
                    ((highest - refuted) as f64 * part) as u64
                } else {
                    (limit - refuted) + step / 2
                };
            } else {
                step = (limit - refuted) / 2;
                // Without a value there was no time, and the limit has not failed.
                measure.failed_limit = value.map(|_| limit).or(measure.failed_limit);
            }
            has_failed |= refuted < limit;
        }
    }

    /// Runs the dynamic program with a limit; the value that it proves, or none if there was no time.
    fn attempt(
        &self,
        run: &mut Run<'_>,
        attempts: &mut Attempts<'_>,
        measure: &WorkMeasure,
        limit: Time,
        until: Duration,
    ) -> Option<Time> {
        attempts.count += 1;
        let weights = if measure.is_weighted { integer_weights(&attempts.chain_weights) } else { Vec::new() };
        let mut stages = measure.stages.clone();
        // The weights along the chain are used between its ops too.
        for stage in stages.iter_mut().filter(|stage| measure.is_weighted && !stage.weights.is_empty()) {
            stage.weights.push(weights.clone());
        }
        let proof = ChainProof { stages, limit_ps: limit, width: WIDTHS[measure.width], shares: weights };
        let mut stop = || attempts.is_spent(run, until);
        let proven = Proven::by_chain_dp(self.name(), attempts.argument, &proof, &mut stop)?;
        let value = proven.value();
        run.take(proven);
        Some(value)
    }
}

/// What all attempts share.
struct Attempts<'a> {
    argument: &'a ChainDpInstance<'a>,
    /// The device weights of the work along the chain.
    chain_weights: Vec<f64>,
    /// When they began, and how long they may take.
    began: Duration,
    time: Duration,
    count: u64,
    /// The largest limit if no plan is known.
    at_most: Time,
}

impl Attempts<'_> {
    fn end(&self) -> Duration {
        self.began + self.time
    }

    fn is_spent(&self, run: &Run<'_>, until: Duration) -> bool {
        let spent = run.budget.nodes.is_some_and(|nodes| self.count > nodes);
        spent || run.budget.is_spent() || run.budget.start.elapsed() >= until
    }
}
