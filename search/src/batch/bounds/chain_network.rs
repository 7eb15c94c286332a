//! The chain of a network and the branches beside it, for `chain-dp`.
//!
//! The chain is the longest path with all inputs on the fastest device. An op beside it lies in a window: from the
//! last op of the chain that leads to it to the first one that it leads to. Overlapping windows are merged, and the
//! ops of a window are covered by branches, the longest path of the remaining ops first. Within windows, the work of
//! devices is weighted by their speed, or the work of the fastest device alone counts, for each pair of batches
//! around the window: the latter is slower and proves more.

use std::time::Duration;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{ChainStage, Evidence};

use crate::run::Run;

/// The numbers of labels kept for a division, one after the other.
pub(crate) const WIDTHS: [u32; 7] = [4, 8, 16, 64, 256, 1024, 2048];
/// The index of the first width without weights along the chain. There, fewer labels take longer: merged labels are
/// dropped later.
const UNWEIGHTED_WIDTH: usize = 3;
/// A measure that proves less than this share of the best bound is given up.
const LEAST_PROMISE: f64 = 0.99;
/// The sum of integer weights.
const WEIGHT_SCALE: f64 = (1u64 << 16) as f64;

/// How work is weighted, and the state of the attempts with it.
#[derive(Clone)]
pub(crate) struct WorkMeasure {
    pub(crate) stages: Vec<ChainStage>,
    /// Whether work along the chain is weighted.
    pub(crate) is_weighted: bool,
    /// The index of its width.
    pub(crate) width: usize,
    /// The time of the last complete attempt.
    pub(crate) took: Duration,
    /// The largest value that it proved.
    pub(crate) proved: Option<Time>,
    /// The last limit that was not proved with this width.
    pub(crate) failed_limit: Option<u64>,
}

impl WorkMeasure {
    /// Goes to the next width; false if there is none.
    pub(crate) fn widen(&mut self) -> bool {
        self.failed_limit = None;
        self.width += 1;
        self.width < WIDTHS.len()
    }

    /// Whether it may still prove more than the best bound.
    pub(crate) fn promises(&self, proven: f64) -> bool {
        self.proved.is_some_and(|proved| proved.0 as f64 >= proven * LEAST_PROMISE)
    }
}

/// Weights as integers.
pub(crate) fn integer_weights(shares: &[f64]) -> Vec<u64> {
    let sum = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let whole: Vec<u64> = shares.iter().map(|share| (share / sum * WEIGHT_SCALE) as u64).collect();
    if whole.iter().all(|&share| share == 0) { vec![1; shares.len()] } else { whole }
}

/// The ops between two ops of the chain.
struct ChainWindow {
    /// Positions in the chain.
    from: usize,
    to: usize,
    /// Branches that cover the ops; the first one has the chain's own.
    branches: Vec<Vec<usize>>,
    /// The reciprocal of each device's time for all of them.
    speeds: Vec<f64>,
}

/// The chain, and the branches beside it.
pub(crate) struct ChainNetwork {
    chain: Vec<usize>,
    windows: Vec<ChainWindow>,
    /// The time of all ops one after the other, with all inputs on the fastest device.
    pub(crate) serial_time: u64,
    /// Weights: 1 for the fastest device, 0 for the others.
    fastest: Vec<u64>,
}

impl ChainNetwork {
    /// The chain of a problem; none if there are no ops.
    pub(crate) fn new(problem: &Problem) -> Option<ChainNetwork> {
        let graph = &problem.graph;
        let order: Vec<usize> = graph.order().iter().map(|op| op.index()).collect();
        let before: Vec<Vec<usize>> =
            graph.ops().map(|op| graph.predecessors(op).map(|from| from.index()).collect()).collect();
        let devices: Vec<DeviceId> = problem.hardware.devices().collect();
        let fastest = *devices.iter().min_by_key(|&&device| {
            graph
                .ops()
                .map(|op| u128::from(time_of_all_inputs(problem, op, device).unwrap_or(1 << 50)))
                .sum::<u128>()
        })?;
        let times: Vec<u64> = graph
            .ops()
            .map(|op| {
                let others = devices.iter().filter_map(|&device| time_of_all_inputs(problem, op, device));
                time_of_all_inputs(problem, op, fastest).or(others.min()).unwrap_or(0)
            })
            .collect();
        let chain = longest_path(&order, &before, &times);
        let (mut windows, inside) = windows_beside(&chain, &order, &before);
        for (window, ops) in windows.iter_mut().zip(inside) {
            window.branches.push(chain[window.from + 1..window.to].to_vec());
            let mut left: Vec<usize> = order.iter().copied().filter(|op| ops.contains(op)).collect();
            while !left.is_empty() {
                let branch = longest_path(&left, &before, &times);
                left.retain(|op| !branch.contains(op));
                window.branches.push(branch);
            }
            let time = |device: DeviceId| {
                let ops = window.branches.iter().flatten().map(|&op| OpId::new(op));
                ops.map(|op| time_of_all_inputs(problem, op, device).map(|time| time as f64))
                    .sum::<Option<f64>>()
            };
            window.speeds =
                devices.iter().map(|&device| time(device).map_or(0.0, |t| 1.0 / t.max(1.0))).collect();
        }
        (!chain.is_empty()).then(|| ChainNetwork {
            chain,
            windows,
            serial_time: times.iter().fold(0, |sum, &time| sum.saturating_add(time)),
            fastest: devices.iter().map(|&device| u64::from(device == fastest)).collect(),
        })
    }

    /// The first weights along the chain: the dual of `division-area`, else equal ones.
    pub(crate) fn chain_weights(&self, run: &Run<'_>) -> Vec<f64> {
        let area = run.outcome().certificates.iter().find_map(|certificate| match &certificate.evidence {
            Evidence::DivisionLp { weights, flows, windows, .. }
                if flows.is_empty() && windows.is_empty() =>
            {
                Some(weights.iter().map(|&weight| weight as f64).collect())
            }
            _ => None,
        });
        area.unwrap_or_else(|| vec![1.0; self.fastest.len()])
    }

    /// The measures of work within windows, the faster one first.
    pub(crate) fn measures(&self, is_weighted: bool) -> Vec<WorkMeasure> {
        let measures =
            [false, true].into_iter().filter(|is_by_batches| !is_by_batches || !self.windows.is_empty());
        let measure = |is_by_batches: bool| WorkMeasure {
            stages: if is_by_batches { self.stages_by_batches() } else { self.stages() },
            is_weighted,
            width: if is_weighted { 0 } else { UNWEIGHTED_WIDTH },
            took: Duration::ZERO,
            proved: None,
            failed_limit: None,
        };
        measures.map(measure).collect()
    }

    /// The stages with the work of the fastest device within windows, for each pair of batches of the two ops.
    fn stages_by_batches(&self) -> Vec<ChainStage> {
        let mut stages = self.stages();
        for stage in stages.iter_mut().filter(|stage| !stage.branches.is_empty()) {
            stage.shares.clear();
            stage.weights.push(self.fastest.clone());
        }
        stages
    }

    /// The stages with devices weighted by their speed within windows.
    fn stages(&self) -> Vec<ChainStage> {
        let mut stages = Vec::new();
        let mut place = 0;
        while place < self.chain.len() {
            let window = self.windows.iter().find(|window| window.to == place && place > 0);
            let op = OpId::new(self.chain[place]);
            let mut stage = ChainStage { op, branches: Vec::new(), shares: Vec::new(), weights: Vec::new() };
            if let Some(window) = window {
                let ids = |branch: &Vec<usize>| branch.iter().map(|&op| OpId::new(op)).collect();
                stage.branches = window.branches.iter().map(ids).collect();
                stage.shares = integer_weights(&window.speeds);
            }
            stages.push(stage);
            let next = self.windows.iter().find(|window| window.from == place);
            place = next.map_or(place + 1, |window| window.to);
        }
        stages
    }
}

/// The windows beside a chain, and the ops of each that are not in the chain.
fn windows_beside(
    chain: &[usize],
    order: &[usize],
    before: &[Vec<usize>],
) -> (Vec<ChainWindow>, Vec<Vec<usize>>) {
    // For each op, whether another leads to it.
    let mut reach = vec![vec![false; before.len()]; before.len()];
    for &op in order {
        for &from in &before[op] {
            let further = reach[from].clone();
            reach[op].iter_mut().zip(further).for_each(|(known, new)| *known |= new);
            reach[op][from] = true;
        }
    }
    // For each op beside the chain, the positions that it lies between.
    let mut beside: Vec<(usize, usize, usize)> = Vec::new();
    for &op in order.iter().filter(|op| !chain.contains(op)) {
        let from = chain.iter().rposition(|&passed| reach[op][passed]);
        let to = chain.iter().position(|&passed| reach[passed][op]);
        beside.extend(from.zip(to).map(|(from, to)| (from, to, op)));
    }
    beside.sort_unstable();
    let mut windows: Vec<ChainWindow> = Vec::new();
    let mut inside: Vec<Vec<usize>> = Vec::new();
    for (from, to, op) in beside {
        match windows.last_mut().zip(inside.last_mut()) {
            Some((window, ops)) if from < window.to => {
                window.to = window.to.max(to);
                ops.push(op);
            }
            _ => {
                windows.push(ChainWindow { from, to, branches: Vec::new(), speeds: Vec::new() });
                inside.push(vec![op]);
            }
        }
    }
    (windows, inside)
}

/// The time of an op for all inputs on a device, in batches of the largest size.
fn time_of_all_inputs(problem: &Problem, op: OpId, device: DeviceId) -> Option<u64> {
    let inputs = problem.objective.inputs();
    let size = problem.batch_sizes_of(op, device).into_iter().rfind(|&size| size <= inputs)?;
    let cost = problem.cost(op, device, size).filter(|_| problem.may_run(op, device))?;
    Some(cost.time.0.saturating_mul(u64::from(inputs)) / u64::from(size))
}

/// The longest path among some ops, which are in topological order.
fn longest_path(ops: &[usize], before: &[Vec<usize>], weights: &[u64]) -> Vec<usize> {
    let mut best: Vec<Option<(u64, Option<usize>)>> = vec![None; before.len()];
    let mut end: Option<(u64, usize)> = None;
    for &op in ops {
        let longest = before[op].iter().filter_map(|&from| Some((best[from]?.0, from))).max();
        let length = longest.map_or(0, |longest| longest.0).saturating_add(weights[op]);
        best[op] = Some((length, longest.map(|longest| longest.1)));
        end = end.max(Some((length, op)));
    }
    let mut path = Vec::new();
    let mut at = end.map(|end| end.1);
    while let Some(op) = at {
        path.push(op);
        at = best[op].and_then(|known| known.1);
    }
    path.reverse();
    path
}
