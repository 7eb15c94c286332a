//! What a device can take for what it must be sent: proofs that no `stream` plan takes so little.
//!
//! Suppose some plan has a period of at most T. Its ops are shared out among the devices, and each share takes its device at
//! most T. Whatever a share needs of tensors made outside it is sent to its device, once, over at least the cheapest of
//! the ways there: with a weight for each link, all weighted bytes that are sent are at most what the links carry within
//! T. Now give every op a price in weighted bytes. A share is worth its prices less what must be sent for it; so what is
//! sent for all of them is at least the prices of all ops less the most that a share of each device can be worth. If that is
//! more than the links carry, there is no such plan.
//!
//! The most that a share can be worth is found op by op in the canonical order, in or out. What matters of the past is which
//! tensors that are still to be read the device has, the time taken and the worth. For each state times
//! are kept in slots, and of what falls into one slot the least time and the most worth: more than any share has, never
//! less. Memory, limits of splits and ops that must stay together are left aside, which only makes shares worth more.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// States that are told apart, over all ops.
const MOST_STATES: usize = 1 << 16;
/// Slots of time in which ways to the same state are told apart.
const SLOTS: u64 = 128;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// One op, in or out of a share.
#[derive(Clone, Debug)]
struct KnapsackStep {
    op: OpId,
    /// For each state after it, what leads there.
    arrivals: Vec<Vec<Arrival>>,
}

/// A state before an op, from which another is reached with the op in or out.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    state: u32,
    is_in: bool,
    /// The bytes that are sent for it.
    bytes: i64,
}

/// What may be in a share.
#[derive(Clone, Debug)]
pub struct DeviceKnapsack<'p> {
    problem: &'p Problem,
    steps: Vec<KnapsackStep>,
    /// The states at the start: for a device that has the network's inputs, and for one that has not.
    with_inputs: usize,
    weights: Vec<u64>,
    /// What a byte that is sent to a device weighs at least.
    per_byte: Vec<i64>,
}

/// The best share of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// At least what any share is worth.
    pub worth: i64,
    /// The ops of one that is worth about as much; it may take a little too long.
    pub ops: Vec<OpId>,
}

/// What a way to a state has come to.
#[derive(Clone, Copy)]
struct PathLabel {
    worth: i64,
    time: u64,
    /// Twice the place of the way before, and one if the op is in.
    before: u32,
}

/// The ways to all states, one state after the other, each by time.
#[derive(Default)]
struct PathLabels {
    list: Vec<PathLabel>,
    ends: Vec<usize>,
}

impl<'p> DeviceKnapsack<'p> {
    /// All prices together, and all weighted bytes, stay below this, so that they can be added and taken off.
    pub const MOST: i64 = 1 << 60;

    /// The shares of a problem, with a weight for each link; else why this proves nothing.
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

    /// The weighted bytes that all links carry within a threshold.
    pub fn carried(&self, threshold: Time) -> i64 {
        let carried = |(link, &weight): (&divvy_core::hardware::Link, &u64)| {
            let bytes = u128::from(link.bandwidth.0) * u128::from(threshold.0) / PS_PER_SECOND;
            bytes.saturating_mul(u128::from(weight))
        };
        let all = self.problem.hardware.links().iter().zip(&self.weights).map(carried);
        let sum = all.fold(0u128, u128::saturating_add);
        i64::try_from(sum).unwrap_or(i64::MAX).min(Self::MOST)
    }

    /// The best share of a device within a threshold at prices that are [in range](Shares::is_in_range), of the ops that
    /// are open.
    pub fn best(&self, device: DeviceId, threshold: Time, prices: &[i64], is_open: &[bool]) -> Share {
        let width = threshold.0 / SLOTS + 1;
        let per_byte = self.per_byte[device.index()];
        let has_inputs = self.problem.constraints.input_at == Some(device);
        let mut ways = PathLabels::default();
        for state in 0..=self.with_inputs {
            let is_start = state == if has_inputs { self.with_inputs } else { 0 };
            ways.list.extend(is_start.then_some(PathLabel { worth: 0, time: 0, before: 0 }));
            ways.ends.push(ways.list.len());
        }
        let mut befores: Vec<Vec<u32>> = Vec::with_capacity(self.steps.len());
        let mut arriving: Vec<PathLabel> = Vec::new();
        for step in &self.steps {
            let op = step.op;
            let may_run = is_open[op.index()] && self.problem.may_run(op, device);
            let time = self.problem.time(op, device).filter(|_| may_run);
            let mut next = PathLabels::default();
            for arrivals in &step.arrivals {
                arriving.clear();
                let mut second = 0;
                for &Arrival { state, is_in, bytes } in arrivals {
                    let (first, ways) = ways.of(state as usize);
                    let (time, worth) = match time {
                        _ if !is_in => (0, 0),
                        Some(time) if time <= threshold => (time.0, prices[op.index()] - per_byte * bytes),
                        _ => continue,
                    };
                    second = arriving.len();
                    let in_time = ways.iter().take_while(|way| way.time <= threshold.0 - time);
                    arriving.extend(in_time.enumerate().map(|(i, way)| PathLabel {
                        worth: way.worth + worth,
                        time: way.time + time,
                        before: 2 * (first + i) as u32 + u32::from(is_in),
                    }));
                }
                if arrivals.len() > 2 {
                    arriving.sort_by_key(|way| way.time);
                    second = arriving.len();
                }
                next.keep(&arriving[..second], &arriving[second..], width);
            }
            befores.push(ways.list.iter().map(|way| way.before).collect());
            ways = next;
        }
        // Staying out of everything is a way, and the first of the best is taken.
        let best = ways.list.iter().rev().max_by_key(|way| way.worth);
        let (worth, mut before) = best.map_or((0, 0), |way| (way.worth, way.before));
        let mut ops = Vec::new();
        for (step, befores) in self.steps.iter().zip(&befores).rev() {
            if before & 1 == 1 {
                ops.push(step.op);
            }
            before = befores[before as usize / 2];
        }
        Share { worth, ops }
    }

    /// Whether prices are few and small enough for sums of them.
    pub fn is_in_range(prices: &[i64]) -> bool {
        let sum = prices.iter().try_fold(0u64, |sum, price| sum.checked_add(price.unsigned_abs()));
        sum.is_some_and(|sum| sum < Self::MOST as u64)
    }

    /// Whether prices prove that no plan takes the threshold or less.
    pub fn prove(&self, threshold: Time, prices: &[i64]) -> bool {
        let all_open = vec![true; prices.len()];
        let devices = self.problem.hardware.devices();
        let worth = devices.map(|device| i128::from(self.best(device, threshold, prices, &all_open).worth));
        let sent = prices.iter().copied().map(i128::from).sum::<i128>() - worth.sum::<i128>();
        sent > i128::from(self.carried(threshold))
    }
}

impl PathLabels {
    /// The place of a state's first way, and all of them.
    fn of(&self, state: usize) -> (usize, &[PathLabel]) {
        let first = if state == 0 { 0 } else { self.ends[state - 1] };
        (first, &self.list[first..self.ends[state]])
    }

    /// The ways to the next state, of those that arrive there, in two lists by time. What takes longer and is worth no more
    /// is of no use, and of what falls into one slot the least time and the most worth are kept.
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
            let way = list[0];
            *list = &list[1..];
            match self.list[first..].last_mut() {
                Some(last) if way.worth <= last.worth => {}
                Some(last) if way.time / width == last.time / width => {
                    (last.worth, last.before) = (way.worth, way.before);
                }
                _ => self.list.push(way),
            }
        }
        self.ends.push(self.list.len());
    }
}

/// What a byte that is sent to a device weighs at least; none if that is too much.
fn weight_to(problem: &Problem, weights: &[u64], to: DeviceId) -> Option<i64> {
    let hardware = &problem.hardware;
    let way = |from: DeviceId| {
        let route = hardware.route(from, to)?;
        let passed = route.links.iter().filter(|_| route.bandwidth.is_some());
        passed.map(|link| weights[link.index()]).try_fold(0u64, u64::checked_add)
    };
    let least = hardware.devices().filter(|&from| from != to).filter_map(way).min().unwrap_or(0);
    i64::try_from(least).ok().filter(|&least| least < DeviceKnapsack::MOST)
}

/// All steps, and the state at the start where the inputs are at hand.
fn steps(problem: &Problem) -> Result<(Vec<KnapsackStep>, usize), String> {
    let graph = &problem.graph;
    let mut place = vec![0; graph.op_count()];
    graph.order().iter().enumerate().for_each(|(i, op)| place[op.index()] = i);
    let is_read_after =
        |tensor: TensorId, step: usize| graph.consumers(tensor).iter().any(|op| place[op.index()] > step);
    // Tensors that are still to be read, and states: which of them the device has.
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
        let mut arrivals: Vec<Vec<Arrival>> = Vec::new();
        for (number, state) in states.iter().enumerate() {
            let missing = read.iter().filter(|&&t| !state[t]);
            let sent = missing.map(|&t| graph.tensor_bytes(alive[t]) as i64).sum();
            for (is_in, bytes) in [(false, 0), (true, sent)] {
                let has = |&t: &usize| state[t] || (is_in && read.contains(&t));
                let after = kept.iter().map(has).chain(made.iter().map(|_| is_in)).collect();
                let known = numbers.len();
                let after = *numbers.entry(after).or_insert(known);
                if after == arrivals.len() {
                    arrivals.push(Vec::new());
                }
                arrivals[after].push(Arrival { state: number as u32, is_in, bytes });
            }
        }
        count += arrivals.len();
        if count > MOST_STATES {
            return Err("too many tensors are alive at a time".to_owned());
        }
        states = vec![Vec::new(); numbers.len()];
        numbers.into_iter().for_each(|(state, number)| states[number] = state);
        steps.push(KnapsackStep { op, arrivals });
        alive = kept.into_iter().map(|t| alive[t]).chain(made).collect();
    }
    Ok((steps, with_inputs))
}

/// What weights and prices prove: that no plan takes the threshold or less.
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
    if !DeviceKnapsack::new(problem, weights)?.prove(threshold, prices) {
        return Err("the links carry what must be sent".to_owned());
    }
    Ok(Time(threshold.0 + 1))
}
