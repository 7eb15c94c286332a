//! `area`: the work, divided freely over the devices, keeps the busiest of them busy for at least the average.
//!
//! The evidence is a weight per device (see `core`). The best weights are the dual solution of the linear program that
//! divides every op freely; they are approached by multiplicative updates: a device that draws more than its share of
//! the work under the present weights becomes dearer. Devices of one class weigh the same. Any weights give a valid
//! bound, so nothing depends on how far the updates get. O(rounds × ops × devices).

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

/// Rounds of updates; halved steps leave nothing to gain after these.
const ROUNDS: u32 = 80;

/// The weight of the dearest device.
const SCALE: f64 = (1u64 << 24) as f64;

pub(crate) struct WeightedAverage;

impl Bound for WeightedAverage {
    fn name(&self) -> &'static str {
        "area"
    }

    fn about(&self) -> &'static str {
        "all work divided freely over all devices"
    }

    fn supports(&self, _problem: &Problem) -> Result<(), String> {
        Ok(())
    }

    fn bound(&self, run: &mut Run<'_>) {
        let classes = run.problem.hardware.class_count();
        let mut logs = vec![0.0f64; classes];
        let mut best: Option<(Time, Vec<u64>)> = None;
        for round in 0..ROUNDS {
            let weights = weights(run.problem, &logs);
            let value = run.proven(&Evidence::Area { weights: weights.clone() });
            if let Some(value) = value.filter(|&value| best.as_ref().is_none_or(|(best, _)| value > *best)) {
                best = Some((value, weights.clone()));
            }
            if classes == 1 || run.budget.is_spent() {
                break;
            }
            let step = 1.0 / f64::from(1 + round / 4);
            for (log, surplus) in logs.iter_mut().zip(surplus(run.problem, &weights)) {
                *log += step * surplus;
            }
        }
        if let Some((_, weights)) = best {
            run.prove(self.name(), Evidence::Area { weights });
        }
    }
}

/// One integer weight per device, from a logarithm per class.
fn weights(problem: &Problem, logs: &[f64]) -> Vec<u64> {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight =
        |device| ((logs[problem.hardware.class_of(device).index()] - highest).exp() * SCALE).round() as u64;
    problem.hardware.devices().map(weight).collect()
}

/// For each class, how much more than an even share of the work its devices draw, relative to all of it.
fn surplus(problem: &Problem, weights: &[u64]) -> Vec<f64> {
    let hardware = &problem.hardware;
    let mut drawn = vec![0.0f64; hardware.class_count()];
    let mut devices = vec![0.0f64; hardware.class_count()];
    for device in hardware.devices() {
        devices[hardware.class_of(device).index()] += 1.0;
    }
    for op in problem.graph.ops() {
        let dearness = |device, time: f64| time * weights[divvy_core::ids::DeviceId::index(device)] as f64;
        let cheapest = match problem.objective {
            Objective::Batch { inputs } => (problem.devices_for(op))
                .flat_map(|d| problem.batch_sizes(d).iter().map(move |&size| (d, size)))
                .filter_map(|(d, size)| {
                    let time = problem.cost(op, d, size)?.time.0 as f64;
                    Some((d, time * f64::from(inputs) / f64::from(size)))
                })
                .min_by(|a, b| dearness(a.0, a.1).total_cmp(&dearness(b.0, b.1))),
            _ => (problem.times_of(op).map(|(d, time)| (d, time.0 as f64)))
                .min_by(|a, b| dearness(a.0, a.1).total_cmp(&dearness(b.0, b.1))),
        };
        if let Some((device, time)) = cheapest {
            drawn[hardware.class_of(device).index()] += time;
        }
    }
    for (drawn, devices) in drawn.iter_mut().zip(&devices) {
        *drawn /= devices.max(1.0);
    }
    let total: f64 = drawn.iter().sum();
    let share = 1.0 / hardware.class_count() as f64;
    drawn.into_iter().map(|drawn| if total > 0.0 { drawn / total - share } else { 0.0 }).collect()
}
