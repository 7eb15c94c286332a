//! Device weights for the area bounds of dominance search.
//!
//! For weights λ_u ≥ 0 with Σ λ_u = 1, the makespan is at least Σ_i min_u λ_u t_iu. The weights that maximise this
//! for all ops are approached by multiplicative updates, one weight for each class of devices. Since the ops that a
//! state has left are rarely an average of all, variants in which one class weighs 0.7 or 1.4 times as much are
//! added. Any weights are valid. O(rounds × ops × devices).

use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

/// The number of updates.
const ROUNDS: u32 = 120;
/// The sum of integer weights, unless times are too large for it.
const FINEST: u64 = 1 << 12;
/// The most classes of devices for variants.
const MOST_VARIED: usize = 4;

/// Lists of integer weights, each with one weight for each device.
pub(crate) fn weights(problem: &Problem, tables: &LatencyTables) -> Vec<Vec<u64>> {
    let class_of: Vec<usize> =
        problem.hardware.devices().map(|device| problem.hardware.class_of(device).index()).collect();
    let classes = problem.hardware.class_count();
    let best = best_logs(tables, &class_of, classes);
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
    let total = tables.heaviest_weights().min(FINEST) as f64;
    let scaled = |logs: Vec<f64>| {
        let weights: Vec<f64> = class_of.iter().map(|&class| logs[class].exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| (weight / sum * total) as u64).collect::<Vec<u64>>()
    };
    lists.into_iter().map(scaled).filter(|weights| weights.iter().any(|&weight| weight > 0)).collect()
}

/// The logarithm of the best weight of each class found: the weight of a class that receives more than its share of
/// the work grows.
fn best_logs(tables: &LatencyTables, class_of: &[usize], classes: usize) -> Vec<f64> {
    let mut members = vec![0.0f64; classes];
    for &class in class_of {
        members[class] += 1.0;
    }
    let mut logs = vec![0.0f64; classes];
    let mut best = (0.0, logs.clone());
    for round in 0..ROUNDS {
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - highest).exp()).collect();
        let mut received = vec![0.0f64; classes];
        let mut area = 0.0;
        for op in 0..tables.op_count() {
            let cost = |&device: &u32| {
                let time = tables.time(op, device as usize) as f64;
                (time * weights[class_of[device as usize]], class_of[device as usize], time)
            };
            let cheapest = tables.allowed(op).iter().map(cost).min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((cost, class, time)) = cheapest {
                area += cost;
                received[class] += time / members[class];
            }
        }
        area /= weights.iter().zip(&members).map(|(weight, members)| weight * members).sum::<f64>();
        if area > best.0 {
            best = (area, logs.clone());
        }
        let total: f64 = received.iter().sum();
        if total > 0.0 {
            for (log, received) in logs.iter_mut().zip(&received) {
                *log += (received / total - 1.0 / classes as f64) / (1.0 + f64::from(round) / 4.0);
            }
        }
    }
    best.1
}
