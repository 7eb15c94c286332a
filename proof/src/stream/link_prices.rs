//! Link prices: a Lagrangian of the link capacities, which refutes a period T of a `stream` by one knapsack for each device.
//!
//! Suppose some plan has a period ≤ T. Its ops are partitioned among the devices, each set S_d taking its device at most T.
//! Every tensor that S_d reads and does not make is sent to d once, over at least the cheapest of the routes there; so with
//! weights w of links, the weighted bytes sent are at most what the links carry: Σ_d sent(S_d) ≤ T · Σ_l w_l · bandwidth_l.
//! Give every op a price π in weighted bytes, and let profit_d(S) = π(S) − sent_d(S). Then
//!
//! Σ_d sent(S_d) = π(V) − Σ_d profit_d(S_d) ≥ π(V) − Σ_d max { profit_d(S) : time_d(S) ≤ T },
//!
//! and T is refuted if the right side exceeds what the links carry.
//!
//! The maximum is bounded by a dynamic program over the canonical order, each op in or out. The state is which tensors that
//! are still to be read the device has; a label holds time and profit. Times are kept in 128 slots, and labels of one
//! state and slot are merged to the least time and the largest profit: an upper bound. Memory, split limits and colocation are
//! left out, which only raises profits.
//!
//! Complexity: states · slots, exponential in the number of tensors alive at a time; problems with more than `MOST_STATES`
//! states are refused.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// The most states over all ops.
const MOST_STATES: usize = 1 << 16;
/// Slots of time: labels of one state and slot are merged.
const SLOTS: u64 = 128;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// The transitions at one op, which is in the set or out of it.
#[derive(Clone, Debug)]
struct KnapsackStep {
    op: OpId,
    /// For each state after the op, the transitions that lead there.
    transitions: Vec<Vec<KnapsackTransition>>,
}

/// A state before an op, and whether the op is in the set.
#[derive(Clone, Copy, Debug)]
struct KnapsackTransition {
    state: u32,
    is_in: bool,
    /// The bytes that must be sent for the op.
    bytes: i64,
}

/// The knapsacks of all devices: the states and transitions that they share.
#[derive(Clone, Debug)]
pub struct DeviceKnapsack<'p> {
    problem: &'p Problem,
    steps: Vec<KnapsackStep>,
    /// The initial state of a device that has the network's inputs; that of other devices is 0.
    with_inputs: usize,
    weights: Vec<u64>,
    /// For each device, the least weight of a byte sent to it.
    per_byte: Vec<i64>,
}

/// An upper bound on the knapsack of a device, and a set near it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnapsackSolution {
    /// An upper bound on the profit of any set.
    pub profit: i64,
    /// A set of about that profit; it may take a little too long.
    pub ops: Vec<OpId>,
}

/// A label of a state.
#[derive(Clone, Copy)]
struct PathLabel {
    profit: i64,
    time: u64,
    /// Twice the place of the label before, plus one if the op is in.
    before: u32,
}

/// The labels of all states, one state after the other, each state's by time.
#[derive(Default)]
struct PathLabels {
    list: Vec<PathLabel>,
    ends: Vec<usize>,
}

impl<'p> DeviceKnapsack<'p> {
    /// The sum of all prices, and of all weighted bytes, stays below this, so that sums and differences fit.
    pub const MOST: i64 = 1 << 60;

    /// The knapsacks of a problem with a weight for each link; an error for other objectives, and if there are too many states.
    pub fn new(problem: &'p Problem, weights: &[u64]) -> Result<DeviceKnapsack<'p>, String> {
        if problem.objective != Objective::Stream {
            return Err("it is about `stream`".to_owned());
        }
        let links = problem.hardware.links().len();
        if weights.len() != links {
            return Err(format!("it needs one weight for each of {links} links"));
        }
        let devices = problem.hardware.devices();
        let per_byte: Option<Vec<i64>> = devices.map(|device| weight_to(problem, weights, device)).collect();
        let per_byte = per_byte.filter(|all| {
            let sent = problem.graph.tensors().map(|tensor| u128::from(problem.graph.tensor_bytes(tensor)));
            let heaviest = all.iter().copied().max().unwrap_or(0).max(1);
            sent.sum::<u128>().saturating_mul(heaviest as u128) < Self::MOST as u128
        });
        let per_byte = per_byte.ok_or("its weights are too large")?;
        let (steps, with_inputs) = steps(problem)?;
        Ok(DeviceKnapsack { problem, steps, with_inputs, weights: weights.to_vec(), per_byte })
    }

    /// The weighted bytes that all links together carry within a threshold.
    pub fn carried(&self, threshold: Time) -> i64 {
        let sum = carried(self.problem, &self.weights, threshold);
        i64::try_from(sum).unwrap_or(i64::MAX).min(Self::MOST)
    }

    /// The knapsack of a device within a threshold at prices that are [in range](DeviceKnapsack::is_in_range), over the ops
    /// that are open.
    pub fn best(
        &self,
        device: DeviceId,
        threshold: Time,
        prices: &[i64],
        is_open: &[bool],
    ) -> KnapsackSolution {
        let width = threshold.0 / SLOTS + 1;
        let per_byte = self.per_byte[device.index()];
        let has_inputs = self.problem.constraints.input_at == Some(device);
        let mut labels = PathLabels::default();
        for state in 0..=self.with_inputs {
            let is_start = state == if has_inputs { self.with_inputs } else { 0 };
            labels.list.extend(is_start.then_some(PathLabel { profit: 0, time: 0, before: 0 }));
            labels.ends.push(labels.list.len());
        }
        let mut befores: Vec<Vec<u32>> = Vec::with_capacity(self.steps.len());
        let mut arriving: Vec<PathLabel> = Vec::new();
        for step in &self.steps {
            let op = step.op;
            let may_run = is_open[op.index()] && self.problem.may_run(op, device);
            let time = self.problem.time(op, device).filter(|_| may_run);
            let mut next = PathLabels::default();
            for transitions in &step.transitions {
                arriving.clear();
                let mut second = 0;
                for &KnapsackTransition { state, is_in, bytes } in transitions {
                    let (first, of_state) = labels.of(state as usize);
                    let (time, profit) = match time {
                        _ if !is_in => (0, 0),
                        Some(time) if time <= threshold => (time.0, prices[op.index()] - per_byte * bytes),
                        _ => continue,
                    };
                    second = arriving.len();
                    let in_time = of_state.iter().take_while(|label| label.time <= threshold.0 - time);
                    arriving.extend(in_time.enumerate().map(|(i, label)| PathLabel {
                        profit: label.profit + profit,
                        time: label.time + time,
                        before: 2 * (first + i) as u32 + u32::from(is_in),
                    }));
                }
                if transitions.len() > 2 {
                    arriving.sort_by_key(|label| label.time);
                    second = arriving.len();
                }
                next.keep(&arriving[..second], &arriving[second..], width);
            }
            befores.push(labels.list.iter().map(|label| label.before).collect());
            labels = next;
        }
        // The empty set has a label, and of several best labels the first is taken.
        let best = labels.list.iter().rev().max_by_key(|label| label.profit);
        let (profit, mut before) = best.map_or((0, 0), |label| (label.profit, label.before));
        let mut ops = Vec::new();
        for (step, befores) in self.steps.iter().zip(&befores).rev() {
            if before & 1 == 1 {
                ops.push(step.op);
            }
            before = befores[before as usize / 2];
        }
        KnapsackSolution { profit, ops }
    }

    /// Whether the sum of all prices' absolute values fits.
    pub fn is_in_range(prices: &[i64]) -> bool {
        let sum = prices.iter().try_fold(0u64, |sum, price| sum.checked_add(price.unsigned_abs()));
        sum.is_some_and(|sum| sum < Self::MOST as u64)
    }

    /// Whether prices refute a threshold.
    pub fn refutes(&self, threshold: Time, prices: &[i64]) -> bool {
        let all_open = vec![true; prices.len()];
        let devices = self.problem.hardware.devices();
        let profit = devices.map(|device| i128::from(self.best(device, threshold, prices, &all_open).profit));
        let sent = prices.iter().copied().map(i128::from).sum::<i128>() - profit.sum::<i128>();
        sent > i128::from(self.carried(threshold))
    }
}

impl PathLabels {
    /// The place of a state's first label, and all its labels.
    fn of(&self, state: usize) -> (usize, &[PathLabel]) {
        let first = if state == 0 { 0 } else { self.ends[state - 1] };
        (first, &self.list[first..self.ends[state]])
    }

    /// Appends the labels of the next state, from two lists by time: dominated ones are dropped, and those of one slot merged
    /// to the least time and the largest profit.
    fn keep<'w>(&mut self, mut one: &'w [PathLabel], mut other: &'w [PathLabel], width: u64) {
        let first = self.list.len();
        loop {
            let list = match (one.first(), other.first()) {
                (None, None) => break,
                (Some(_), None) => &mut one,
                (None, Some(_)) => &mut other,
                (Some(a), Some(b)) => {
                    if a.time <= b.time {
                        &mut one
                    } else {
                        &mut other
                    }
                }
            };
            let label = list[0];
            *list = &list[1..];
            match self.list[first..].last_mut() {
                Some(last) if label.profit <= last.profit => {}
                Some(last) if label.time / width == last.time / width => {
                    (last.profit, last.before) = (label.profit, label.before);
                }
                _ => self.list.push(label),
            }
        }
        self.ends.push(self.list.len());
    }
}

/// The weighted bytes that all links together carry within a threshold.
pub(super) fn carried(problem: &Problem, weights: &[u64], threshold: Time) -> u128 {
    let carried = |(link, &weight): (&divvy_core::hardware::Link, &u64)| {
        let bytes = u128::from(link.bandwidth.0) * u128::from(threshold.0) / PS_PER_SECOND;
        bytes.saturating_mul(u128::from(weight))
    };
    problem.hardware.links().iter().zip(weights).map(carried).fold(0u128, u128::saturating_add)
}

/// The least weight of a byte sent to a device, over all routes to it; none if that does not fit.
fn weight_to(problem: &Problem, weights: &[u64], to: DeviceId) -> Option<i64> {
    let hardware = &problem.hardware;
    let route_weight = |from: DeviceId| {
        let route = hardware.route(from, to)?;
        let passed = route.links.iter().filter(|_| route.bandwidth.is_some());
        passed.map(|link| weights[link.index()]).try_fold(0u64, u64::checked_add)
    };
    let least = hardware.devices().filter(|&from| from != to).filter_map(route_weight).min().unwrap_or(0);
    i64::try_from(least).ok().filter(|&least| least < DeviceKnapsack::MOST)
}

/// The transitions at all ops, and the initial state of a device that has the network's inputs.
fn steps(problem: &Problem) -> Result<(Vec<KnapsackStep>, usize), String> {
    let graph = &problem.graph;
    let mut place = vec![0; graph.op_count()];
    graph.order().iter().enumerate().for_each(|(i, op)| place[op.index()] = i);
    let is_read_after =
        |tensor: TensorId, step: usize| graph.consumers(tensor).iter().any(|op| place[op.index()] > step);
    // The tensors still to be read, and the states: which of them the device has.
    let starts_somewhere = problem.constraints.input_at.is_some();
    let inputs = graph.tensors().filter(|&t| starts_somewhere && graph.producer(t).is_none());
    let mut alive: Vec<TensorId> = inputs.filter(|&t| !graph.consumers(t).is_empty()).collect();
    let mut states = vec![vec![false; alive.len()]];
    let with_inputs = usize::from(!alive.is_empty());
    if with_inputs > 0 {
        states.push(vec![true; alive.len()]);
    }
    let (mut steps, mut count) = (Vec::with_capacity(graph.op_count()), 0);
    for (i, &op) in graph.order().iter().enumerate() {
        let kept: Vec<usize> = (0..alive.len()).filter(|&t| is_read_after(alive[t], i)).collect();
        let made: Vec<TensorId> =
            graph.outputs(op).iter().copied().filter(|&t| is_read_after(t, i)).collect();
        let read: Vec<usize> = (0..alive.len()).filter(|&t| graph.inputs(op).contains(&alive[t])).collect();
        let mut numbers: HashMap<Vec<bool>, usize> = HashMap::new();
        let mut transitions: Vec<Vec<KnapsackTransition>> = Vec::new();
        for (number, state) in states.iter().enumerate() {
            let missing = read.iter().filter(|&&t| !state[t]);
            let sent = missing.map(|&t| graph.tensor_bytes(alive[t]) as i64).sum();
            for (is_in, bytes) in [(false, 0), (true, sent)] {
                let has = |&t: &usize| state[t] || (is_in && read.contains(&t));
                let after = kept.iter().map(has).chain(made.iter().map(|_| is_in)).collect();
                let known = numbers.len();
                let after = *numbers.entry(after).or_insert(known);
                if after == transitions.len() {
                    transitions.push(Vec::new());
                }
                transitions[after].push(KnapsackTransition { state: number as u32, is_in, bytes });
            }
        }
        count += transitions.len();
        if count > MOST_STATES {
            return Err("too many tensors are alive at a time".to_owned());
        }
        states = vec![Vec::new(); numbers.len()];
        numbers.into_iter().for_each(|(state, number)| states[number] = state);
        steps.push(KnapsackStep { op, transitions });
        alive = kept.into_iter().map(|t| alive[t]).chain(made).collect();
    }
    Ok((steps, with_inputs))
}

/// The bound T + 1, if weights and prices refute T.
pub(crate) fn proven(
    problem: &Problem,
    threshold: Time,
    weights: &[u64],
    prices: &[i64],
) -> Result<Time, String> {
    if threshold > Time::LONGEST_INPUT {
        return Err("its threshold is out of range".to_owned());
    }
    if prices.len() != problem.graph.op_count() || !DeviceKnapsack::is_in_range(prices) {
        return Err("it needs one price for each op, and all of them together below 2^60".to_owned());
    }
    if !DeviceKnapsack::new(problem, weights)?.refutes(threshold, prices) {
        return Err("the links carry what must be sent".to_owned());
    }
    Ok(Time(threshold.0 + 1))
}
