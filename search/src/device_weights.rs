//! Weights of the devices by which frontier searches divide work.
//!
//! The best weights for all ops together (see `area`), and the same with each class of devices a little cheaper or
//! dearer, since the ops still to come are rarely the average.

use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

/// Rounds of updates of the weights.
const ROUNDS: u32 = 120;
/// What weights add up to, where times are not too large for that.
const FINEST: u64 = 1 << 12;
/// Past this many classes of devices, weights are not varied.
const MOST_VARIED: usize = 4;

/// Lists of weights, one weight for each device.
pub(crate) fn weights(problem: &Problem, dense: &LatencyTables) -> Vec<Vec<u64>> {
    let class_of: Vec<usize> =
        problem.hardware.devices().map(|device| problem.hardware.class_of(device).index()).collect();
    let classes = problem.hardware.class_count();
    let best = best_logs(dense, &class_of, classes);
    let mut lists = vec![best.clone()];
    if (2..=MOST_VARIED).contains(&classes) {
        for class in 0..classes {
            for factor in [0.7f64, 1.4] {
                let mut logs = best.clone();
                logs[class] += factor.ln();
                lists.push(logs);
            }
        }
    }
    let total = dense.heaviest_weights().min(FINEST) as f64;
    let scaled = |logs: Vec<f64>| {
        let weights: Vec<f64> = class_of.iter().map(|&class| logs[class].exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| (weight / sum * total) as u64).collect::<Vec<u64>>()
    };
    lists.into_iter().map(scaled).filter(|weights| weights.iter().any(|&weight| weight > 0)).collect()
}

/// Logarithms of the best weight for each class: a class that draws more than its share becomes dearer.
fn best_logs(dense: &LatencyTables, class_of: &[usize], classes: usize) -> Vec<f64> {
    let mut members = vec![0.0f64; classes];
    for &class in class_of {
        members[class] += 1.0;
    }
    let mut logs = vec![0.0f64; classes];
    let mut best = (0.0, logs.clone());
    for round in 0..ROUNDS {
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - highest).exp()).collect();
        let mut drawn = vec![0.0f64; classes];
        let mut area = 0.0;
        for op in 0..dense.op_count() {
            let cost = |&device: &u32| {
                let time = dense.time(op, device as usize) as f64;
                (time * weights[class_of[device as usize]], class_of[device as usize], time)
            };
            let cheapest = dense.allowed(op).iter().map(cost).min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((cost, class, time)) = cheapest {
                area += cost;
                drawn[class] += time / members[class];
            }
        }
        area /= weights.iter().zip(&members).map(|(weight, members)| weight * members).sum::<f64>();
        if area > best.0 {
            best = (area, logs.clone());
        }
        let total: f64 = drawn.iter().sum();
        if total > 0.0 {
            for (log, drawn) in logs.iter_mut().zip(&drawn) {
                *log += (drawn / total - 1.0 / classes as f64) / (1.0 + f64::from(round) / 4.0);
            }
        }
    }
    best.1
}
