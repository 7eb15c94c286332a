//! `area`: the work, divided freely over the devices.
//!
//! For weights λ_u ≥ 0 with Σ λ_u = 1, the busiest device is busy for at least Σ_i min_u λ_u t_iu. The best weights
//! are the duals of the linear program that divides every op freely. They are approached by multiplicative updates,
//! one weight for each class of devices: the weight of a class that receives more than its share of the work grows.
//! Any weights are valid, so the bound does not depend on convergence. O(rounds × ops × devices).

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

/// The number of updates; step lengths fall as 4 / round.
const ROUNDS: u32 = 80;

/// The largest integer weight.
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

/// Integer weights of the devices from logarithms of the classes.
fn weights(problem: &Problem, logs: &[f64]) -> Vec<u64> {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight =
        |device| ((logs[problem.hardware.class_of(device).index()] - highest).exp() * SCALE).round() as u64;
    problem.hardware.devices().map(weight).collect()
}

/// For each class, the share of the work that its devices receive under some weights, above an even share.
fn surplus(problem: &Problem, weights: &[u64]) -> Vec<f64> {
    let hardware = &problem.hardware;
    let mut received = vec![0.0f64; hardware.class_count()];
    let mut devices = vec![0.0f64; hardware.class_count()];
    for device in hardware.devices() {
        devices[hardware.class_of(device).index()] += 1.0;
    }
    for op in problem.graph.ops() {
        let cost = |device, time: f64| time * weights[divvy_core::ids::DeviceId::index(device)] as f64;
        let cheapest = match problem.objective {
            Objective::Batch { inputs } => (problem.devices_for(op))
                .flat_map(|d| problem.batch_sizes(d).iter().map(move |&size| (d, size)))
                .filter_map(|(d, size)| {
                    let time = problem.cost(op, d, size)?.time.0 as f64;
                    Some((d, time * f64::from(inputs) / f64::from(size)))
                })
                .min_by(|a, b| cost(a.0, a.1).total_cmp(&cost(b.0, b.1))),
            _ => (problem.times_of(op).map(|(d, time)| (d, time.0 as f64)))
                .min_by(|a, b| cost(a.0, a.1).total_cmp(&cost(b.0, b.1))),
        };
        if let Some((device, time)) = cheapest {
            received[hardware.class_of(device).index()] += time;
        }
    }
    for (received, devices) in received.iter_mut().zip(&devices) {
        *received /= devices.max(1.0);
    }
    let total: f64 = received.iter().sum();
    let share = 1.0 / hardware.class_count() as f64;
    received.into_iter().map(|received| if total > 0.0 { received / total - share } else { 0.0 }).collect()
}
