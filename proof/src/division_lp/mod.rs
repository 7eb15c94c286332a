//! `batch` by divisions: what devices must do, and how long inputs are on their way, added up with prices.
//!
//! Let L be the number of inputs, and take any plan of finish C. Three kinds of inequalities hold:
//!
//! * the batches of a device do not overlap: C ≥ Σ of their times (times weight λ_u);
//! * every input l passes an edge i → j: start_j(l) ≥ start_i(l) + time of its batch of i + its delay (times F_e, for
//!   each input);
//! * C ≥ start_i(l) + time of its batch of i + its way out (times G_i, for each input);
//! * between its batch of i and its batch of j, where i leads to j, an input is part of every batch of the ops between them
//!   that it needs; those on one device u do not overlap: start_j(l) ≥ start_i(l) + time of its batch of i + Σ of the
//!   times of its batches on u in between. Without i: since the beginning. Without j: until C (times W, for each input).
//!
//! G_i is what flows into i beyond what flows out, so that no start is left with a factor above 0; what flows out beyond
//! what flows in, H_i, multiplies start_i(l) ≥ the arrival of the network's inputs. The sum over everything is
//! C · L · (Σ λ + Σ G) on the left, and on the right a cost for every batch: L·λ_u·t plus, for each of its inputs,
//! (Σ F out + G)·t + G · way out + H · way in + the delays. A delay belongs to two batches. It is shared between them by prices p
//! of the producer's batches: between a batch of a inputs on u and one of b inputs on another device v at least max(1, a + b − L)
//! inputs move, so with q(v, b) = max over (u, a) of p(u, a) − that delay, the producer pays p(u, a) and the consumer −q(v, b)
//! for each input. What is left is the cheapest division of each op's inputs over devices, one size each: a knapsack,
//! solved exactly. A window counts as a flow from i to j, and every batch on u in between costs W·t for each of its inputs.
//! Prices and delays are by class of devices and size; two batches of one class count as near. Memory may have a price too
//! (`room.rs`). Colocation is left out. All in integers.
//!
//! `latency` is the same with one input. Of a `stream`, only loads and memory hold: C is its period.

pub mod memory_prices;
pub mod units;

use std::collections::HashMap;

use crate::division_lp::memory_prices::MemoryPrices;
use crate::division_lp::units::{FastestRoutes, divisor, too_large};
use crate::evidence::{PricedEdge, DevicePair, WorkWindow};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// Factors are at most this.
const MOST_TIMES: u64 = 1 << 32;

/// Steps of all knapsacks together.
pub(super) const MOST_STEPS: u128 = 1 << 34;

/// Rows in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct DivisionRows<'a> {
    /// One weight per device.
    pub weights: &'a [u64],
    /// The edges that inputs pass.
    pub flows: &'a [PricedEdge],
    /// The work of devices between two ops.
    pub windows: &'a [WorkWindow],
    /// The price of a byte of each device's memory, or nothing at all.
    pub memory: &'a [u64],
}

impl DivisionRows<'_> {
    /// How many inputs there are; an error if such rows do not hold for the objective.
    fn inputs(&self, problem: &Problem) -> Result<u32, String> {
        match problem.objective {
            Objective::Batch { inputs } => Ok(inputs),
            Objective::Latency { .. } => Ok(1),
            Objective::Stream if self.flows.is_empty() && self.windows.is_empty() => Ok(1),
            objective => Err(format!("such rows do not hold for `{}`", objective.name())),
        }
    }
}

/// A size that a class of devices supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which class.
    pub class: usize,
    /// How many inputs.
    pub size: u32,
}

/// The sizes of all classes, by class and size.
pub fn slots(problem: &Problem) -> Vec<Slot> {
    let classes = problem.costs().iter().enumerate();
    classes
        .flat_map(|(class, costs)| costs.batch_sizes.iter().map(move |&size| Slot { class, size }))
        .collect()
}

/// What every batch costs under weights and flows.
pub struct BatchPrices {
    inputs: u32,
    slots: Vec<Slot>,
    weights: Vec<u64>,
    /// For each op and slot, all but what depends on the device.
    own: Vec<Option<i128>>,
    /// For each op and device, how many times its batch is part of a window.
    within: Vec<Within>,
    room: MemoryPrices,
    times: Vec<u64>,
    /// For each op, how often C ≥ the end of an input's batch of it is counted.
    ends: Vec<u128>,
    /// How often C is counted beside that, for each input.
    open: u128,
    divisor: i128,
}

impl BatchPrices {
    /// Works the prices out; an error if the evidence is none.
    pub fn new(problem: &Problem, rows: &DivisionRows<'_>) -> Result<BatchPrices, String> {
        BatchPrices::in_case(problem, rows, &[], &|_| false)
    }

    /// As [`BatchPrices::new`] where some ops are known to be a single batch, and some of these to take turns on a device: the
    /// caller says so.
    pub(super) fn in_case(
        problem: &Problem,
        rows: &DivisionRows<'_>,
        turns: &[DevicePair],
        is_whole: &dyn Fn(OpId) -> bool,
    ) -> Result<BatchPrices, String> {
        let inputs = rows.inputs(problem)?;
        let &DivisionRows { weights, flows, windows, memory } = rows;
        let (ops, devices) = (problem.graph.op_count(), problem.hardware.device_count());
        if weights.len() != devices || weights.iter().any(|&weight| weight > MOST_TIMES) {
            return Err(format!("it needs one weight up to {MOST_TIMES} for each of {devices} devices"));
        }
        let slots = slots(problem);
        let mut through = vec![(0u128, 0u128); ops];
        for flow in flows {
            if flow.from.index() >= ops || flow.to.index() >= ops || flow.times > MOST_TIMES {
                return Err("a flow names an op that does not exist, or is too large".to_owned());
            }
            if !flow.prices.is_empty() && flow.prices.len() != slots.len() {
                return Err(format!("a flow needs {} prices", slots.len()));
            }
            through[flow.from.index()].1 += u128::from(flow.times);
            through[flow.to.index()].0 += u128::from(flow.times);
        }
        for turn in turns {
            if turn.times > MOST_TIMES {
                return Err("a turn is too large".to_owned());
            }
            through[turn.from.index()].1 += u128::from(turn.times);
            through[turn.to.index()].0 += u128::from(turn.times);
        }
        let within = work_within(problem, windows, is_whole)?;
        let mut open = 0u128;
        for window in windows {
            let times = u128::from(window.times);
            if let Some(from) = window.from {
                through[from.index()].1 += times;
            }
            match window.to {
                Some(to) => through[to.index()].0 += times,
                None => open += times,
            }
        }
        let ends: Vec<u128> =
            through.iter().map(|(entering, leaving)| entering.saturating_sub(*leaving)).collect();
        let open = open + weights.iter().map(|&weight| u128::from(weight)).sum::<u128>();
        let divisor = divisor_of(open + ends.iter().sum::<u128>(), inputs)?;
        let mut prices = BatchPrices {
            inputs,
            own: vec![None; ops * slots.len()],
            within,
            room: MemoryPrices::new(problem, memory)?,
            times: vec![0; ops * slots.len()],
            slots,
            weights: weights.to_vec(),
            ends,
            open,
            divisor,
        };
        for op in problem.graph.ops() {
            let (entering, leaving) = through[op.index()];
            prices.add_op(
                problem,
                op,
                leaving.max(entering),
                entering.saturating_sub(leaving),
                leaving.saturating_sub(entering),
            )?;
        }
        let ways = FastestRoutes::new(problem);
        for flow in flows {
            prices.add_flow(problem, &ways, flow)?;
        }
        Ok(prices)
    }

    fn add_op(
        &mut self,
        problem: &Problem,
        op: OpId,
        passing: u128,
        ending: u128,
        beginning: u128,
    ) -> Result<(), String> {
        for (number, slot) in self.slots.iter().enumerate() {
            let Some(cost) = problem.costs()[slot.class].at(slot.size).and_then(|costs| costs[op.index()])
            else {
                continue;
            };
            let [arriving, leaving] =
                [self.way(problem, op, *slot, true), self.way(problem, op, *slot, false)];
            let (Some(arriving), Some(leaving)) = (arriving, leaving) else { continue };
            let sum = |times: u128, time: u64| times.checked_mul(u128::from(time));
            let each = sum(passing, cost.time.0)
                .and_then(|a| a.checked_add(sum(ending, leaving)?)?.checked_add(sum(beginning, arriving)?))
                .and_then(|each| i128::try_from(each).ok()?.checked_mul(i128::from(slot.size)));
            let place = op.index() * self.slots.len() + number;
            self.own[place] = Some(each.ok_or_else(too_large)?);
            self.times[place] = cost.time.0;
        }
        Ok(())
    }

    /// The least time of a batch's way from the network's inputs, or to its outputs; none if there is no way.
    fn way(&self, problem: &Problem, op: OpId, slot: Slot, inward: bool) -> Option<u64> {
        let constraints = &problem.constraints;
        let Some(end) = (if inward { constraints.input_at } else { constraints.output_at }) else {
            return Some(0);
        };
        let graph = &problem.graph;
        let tensors: Vec<u64> = if inward {
            let outside = graph.inputs(op).iter().filter(|&&t| graph.producer(t).is_none());
            outside.map(|&t| graph.tensor_bytes(t)).collect()
        } else {
            graph
                .outputs(op)
                .iter()
                .filter(|&&t| graph.is_output(t))
                .map(|&t| graph.tensor_bytes(t))
                .collect()
        };
        let Some(&bytes) = tensors.iter().max() else { return Some(0) };
        let devices =
            problem.hardware.devices().filter(|&d| problem.hardware.class_of(d).index() == slot.class);
        let time = |device: DeviceId| {
            if device == end {
                return Some(0);
            }
            let route = if inward {
                problem.hardware.route(end, device)
            } else {
                problem.hardware.route(device, end)
            };
            Some(route?.time(bytes * u64::from(slot.size)).0)
        };
        devices.filter_map(time).min()
    }

    fn add_flow(&mut self, problem: &Problem, ways: &FastestRoutes<'_>, flow: &PricedEdge) -> Result<(), String> {
        let graph = &problem.graph;
        let joining = graph.inputs(flow.to).iter().filter(|&&t| graph.producer(t) == Some(flow.from));
        let Some(bytes) = joining.map(|&t| graph.tensor_bytes(t)).max() else {
            let (from, to) = (graph.op_name(flow.from), graph.op_name(flow.to));
            return Err(format!("`{to}` reads nothing that `{from}` makes"));
        };
        let count = self.slots.len();
        let price = |slot: usize| flow.prices.get(slot).map_or(0, |&price| i128::from(price));
        let times = i128::from(flow.times);
        let (from, to) = (flow.from.index() * count, flow.to.index() * count);
        let mut paid: Vec<Option<i128>> = vec![None; count];
        for (there, paid) in paid.iter_mut().enumerate() {
            for here in (0..count).filter(|here| self.own[from + here].is_some()) {
                let moved =
                    (self.slots[here].size + self.slots[there].size).saturating_sub(self.inputs).max(1);
                let delay =
                    ways.delay(self.slots[here].class, self.slots[there].class, bytes * u64::from(moved));
                if let Some(delay) = delay {
                    *paid = (*paid).max(Some(price(here) - i128::from(delay)));
                }
            }
        }
        for slot in 0..count {
            let size = i128::from(self.slots[slot].size);
            let add = |own: &mut Option<i128>, each: i128| {
                if let Some(own) = own {
                    *own = (each.checked_mul(times * size))
                        .and_then(|more| own.checked_add(more))
                        .ok_or_else(too_large)?;
                }
                Ok::<(), String>(())
            };
            add(&mut self.own[from + slot], price(slot))?;
            match paid[slot] {
                Some(paid) => add(&mut self.own[to + slot], -paid)?,
                // No batch of the producer reaches it.
                None => self.own[to + slot] = None,
            }
        }
        Ok(())
    }

    /// What a batch of an op costs on a device, in units of which [`BatchPrices::divisor`] make a picosecond; none if there
    /// is no such batch.
    pub fn batch(&self, op: usize, device: usize, slot: usize) -> Option<i128> {
        let place = op * self.slots.len() + slot;
        let within = self.within_of(op, device);
        let for_all = i128::from(self.weights[device]) + i128::from(within.for_all);
        let work = for_all * i128::from(self.inputs)
            + i128::from(within.for_own) * i128::from(self.slots[slot].size);
        let held = self.room.of(op, device, self.slots[slot].size)?;
        self.own[place]?.checked_add(work.checked_mul(i128::from(self.times[place]))?)?.checked_add(held)
    }

    fn within_of(&self, op: usize, device: usize) -> Within {
        self.within[op * self.weights.len() + device]
    }

    /// How many units make a picosecond of the finish.
    pub fn divisor(&self) -> i128 {
        self.divisor
    }

    /// The sizes of all classes.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// What is proved: the cheapest divisions of all ops.
    pub fn proven(&self, problem: &Problem) -> Result<Time, String> {
        if self.steps(problem) > MOST_STEPS {
            return Err("there are too many ways to divide the inputs".to_owned());
        }
        let mut sum = -self.room.given_back();
        for op in problem.graph.ops() {
            let least = self.cheapest(problem, op, &|_| (0, self.inputs))?;
            sum = sum.checked_add(least.ok_or_else(|| indivisible(problem, op))?).ok_or_else(too_large)?;
        }
        finish_of(sum, self.divisor)
    }

    /// About how many steps it takes to find the cheapest divisions of all ops.
    pub(super) fn steps(&self, problem: &Problem) -> u128 {
        let devices =
            problem.hardware.device_count().min(self.most_alike().saturating_mul(self.weights.len()));
        let steps = [problem.graph.op_count(), devices, self.total(), self.slots.len()];
        steps.iter().map(|&n| n as u128).product()
    }

    /// How often C is counted for each input, beside the ends of ops.
    pub(super) fn open(&self) -> u128 {
        self.open
    }

    /// How often C ≥ the end of an op's batch is counted for each input.
    pub(super) fn ends_of(&self, op: OpId) -> u128 {
        self.ends[op.index()]
    }

    /// What all sizes and the number of inputs are multiples of.
    fn grain(&self) -> u32 {
        self.slots.iter().fold(self.inputs, |a, slot| divisor(a, slot.size))
    }

    fn total(&self) -> usize {
        (self.inputs / self.grain()) as usize
    }

    /// Of devices that cost the same, no division uses more than this.
    fn most_alike(&self) -> usize {
        let smallest = self.slots.iter().map(|slot| slot.size).min().unwrap_or(1);
        (self.inputs / smallest.max(1)) as usize
    }

    /// The cheapest division of an op's inputs that gives each class of devices as many as a range says; none if there is none.
    pub(super) fn cheapest(
        &self,
        problem: &Problem,
        op: OpId,
        range: &dyn Fn(usize) -> (u32, u32),
    ) -> Result<Option<i128>, String> {
        let (grain, total, most_alike) = (self.grain(), self.total(), self.most_alike());
        let mut alike: HashMap<(usize, u64, u64, Within), usize> = HashMap::new();
        let classes = problem.hardware.class_count();
        // For each class, the cheapest way to give it so many inputs.
        let mut of_class: Vec<Vec<Option<i128>>> = vec![vec![None; total + 1]; classes];
        of_class.iter_mut().for_each(|costs| costs[0] = Some(0));
        for device in problem.devices_for(op) {
            let class = problem.hardware.class_of(device).index();
            let within = self.within_of(op.index(), device.index());
            let prices = (self.weights[device.index()], self.room.price(device.index()));
            let seen = alike.entry((class, prices.0, prices.1, within)).or_default();
            *seen += 1;
            if *seen > most_alike {
                continue;
            }
            let mut next = of_class[class].clone();
            for (number, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.class == class) {
                let Some(cost) = self.batch(op.index(), device.index(), number) else { continue };
                let units = (slot.size / grain) as usize;
                for before in 0..=total.saturating_sub(units) {
                    let Some(sum) = of_class[class][before] else { continue };
                    lower(&mut next[before + units], sum.checked_add(cost).ok_or_else(too_large)?);
                }
            }
            of_class[class] = next;
        }
        let mut cheapest: Vec<Option<i128>> = vec![None; total + 1];
        cheapest[0] = Some(0);
        for (class, costs) in of_class.iter().enumerate() {
            let (least, most) = range(class);
            let mut next = vec![None; total + 1];
            for (units, cost) in costs.iter().enumerate() {
                let inputs = units as u32 * grain;
                let Some(cost) = cost.filter(|_| (least..=most).contains(&inputs)) else { continue };
                for before in 0..=total - units {
                    let Some(sum) = cheapest[before] else { continue };
                    lower(&mut next[before + units], sum.checked_add(cost).ok_or_else(too_large)?);
                }
            }
            cheapest = next;
        }
        Ok(cheapest[total])
    }
}

fn lower(known: &mut Option<i128>, new: i128) {
    *known = Some(known.map_or(new, |known| known.min(new)));
}

/// How many units make a picosecond, if C is counted so often for each input.
pub(super) fn divisor_of(counted: u128, inputs: u32) -> Result<i128, String> {
    let divisor = counted.checked_mul(u128::from(inputs)).and_then(|divisor| i128::try_from(divisor).ok());
    match divisor.ok_or_else(too_large)? {
        0 => Err("all weights are zero".to_owned()),
        divisor => Ok(divisor),
    }
}

/// The finish that a sum of prices proves.
pub(super) fn finish_of(sum: i128, divisor: i128) -> Result<Time, String> {
    let sum = sum.max(0);
    let value = sum / divisor + i128::from(sum % divisor != 0);
    u64::try_from(value).map(Time).map_err(|_| "it proves a time out of range".to_owned())
}

pub(super) fn indivisible(problem: &Problem, op: OpId) -> String {
    format!("no sizes of its devices divide the inputs of `{}`", problem.graph.op_name(op))
}

/// What rows prove.
pub(crate) fn proven(problem: &Problem, rows: &DivisionRows<'_>) -> Result<Time, String> {
    BatchPrices::new(problem, rows)?.proven(problem)
}

/// How many times a batch is part of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Within {
    /// Where it counts for each of its own inputs.
    for_own: u64,
    /// Where it counts for every input.
    for_all: u64,
}

/// For each op and device, how many times the op's batch there is part of a window. Between two single batches nobody passes
/// before all that lies between them is done.
fn work_within(
    problem: &Problem,
    windows: &[WorkWindow],
    is_whole: &dyn Fn(OpId) -> bool,
) -> Result<Vec<Within>, String> {
    let (ops, devices) = (problem.graph.op_count(), problem.hardware.device_count());
    if windows.len() as u128 * ops as u128 > MOST_STEPS {
        return Err(format!("{} windows are too many", windows.len()));
    }
    let mut within = vec![Within::default(); ops * devices];
    let mut behind: HashMap<OpId, Vec<bool>> = HashMap::new();
    let mut before: HashMap<OpId, Vec<bool>> = HashMap::new();
    for window in windows {
        let exists = |op: Option<OpId>| op.is_none_or(|op| op.index() < ops);
        let known = exists(window.from) && exists(window.to) && window.device.index() < devices;
        if !known || window.times > MOST_TIMES {
            return Err("a window names an op or a device that does not exist, or is too large".to_owned());
        }
        let follows =
            window.from.map(|from| &*behind.entry(from).or_insert_with(|| reached(problem, from, true)));
        let leads = window.to.map(|to| &*before.entry(to).or_insert_with(|| reached(problem, to, false)));
        if let (Some(from), Some(to), Some(follows)) = (window.from, window.to, follows)
            && !follows[to.index()]
        {
            let (from, to) = (problem.graph.op_name(from), problem.graph.op_name(to));
            return Err(format!("`{from}` does not lead to `{to}`"));
        }
        let is_for_all = [window.from, window.to].into_iter().all(|end| end.is_some_and(is_whole));
        for op in 0..ops {
            if follows.is_none_or(|follows| follows[op]) && leads.is_none_or(|leads| leads[op]) {
                let place = &mut within[op * devices + window.device.index()];
                let place = if is_for_all { &mut place.for_all } else { &mut place.for_own };
                *place = place.checked_add(window.times).ok_or_else(too_large)?;
            }
        }
    }
    Ok(within)
}

/// Which ops an op leads to, or is led to by.
pub(super) fn reached(problem: &Problem, op: OpId, forward: bool) -> Vec<bool> {
    let graph = &problem.graph;
    let mut reached = vec![false; graph.op_count()];
    let mut open = vec![op];
    while let Some(op) = open.pop() {
        let next: Vec<OpId> =
            if forward { graph.successors(op).collect() } else { graph.predecessors(op).collect() };
        for op in next {
            if !std::mem::replace(&mut reached[op.index()], true) {
                open.push(op);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
    use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
    use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
    use divvy_core::problem::ConstraintsSpec;

    /// Two inputs through a → b, c → d and a → e. Times are powers of two on the first device and ten times that on the next,
    /// so that a sum tells which batches it counts. Devices take batches of one size only.
    fn diamond(devices: usize, size: u32) -> Problem {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4];
        let op = |name: &str| OpSpec { name: name.into(), ..OpSpec::default() };
        let made = |(producer, consumers): (u32, Vec<u32>)| TensorSpec {
            name: format!("t{producer}"),
            bytes: 1,
            producer: Some(producer),
            output: consumers.is_empty(),
            consumers,
        };
        let tensors = vec![(a, vec![b, c, e]), (b, vec![d]), (c, vec![d]), (d, vec![]), (e, vec![])];
        let graph = GraphSpec {
            name: "diamond".into(),
            ops: ["a", "b", "c", "d", "e"].map(op).into(),
            tensors: tensors.into_iter().map(made).collect(),
            ..GraphSpec::default()
        };
        let names: Vec<String> = (0..devices).map(|device| format!("device{device}")).collect();
        let costs = |(device, name): (usize, &String)| {
            let time = |op: u32| Time(2u64.pow(op) * 10u64.pow(device as u32));
            let cost = |op: u32| Some(Cost { time: time(op), origin: Origin::Measured });
            let costs = vec![(0..5).map(cost).collect()];
            ClassCosts { class: name.clone(), batch_sizes: vec![size], costs }
        };
        let classes = names.iter().enumerate().map(costs).collect();
        let link = |pair: &[String]| LinkSpec {
            between: [pair[0].clone(), pair[1].clone()],
            bandwidth: 1_000_000_000,
            ..LinkSpec::default()
        };
        let hardware = HardwareSpec {
            name: "unlike devices".into(),
            classes: names.iter().map(|n| ClassSpec { name: n.clone(), ..ClassSpec::default() }).collect(),
            devices: (names.iter())
                .map(|n| DeviceSpec { name: n.clone(), class: n.clone(), ..DeviceSpec::default() })
                .collect(),
            links: names.windows(2).map(link).collect(),
            ..HardwareSpec::default()
        };
        let profile = Profile { classes, whole_model: Vec::new() };
        let objective = Objective::Batch { inputs: 2 };
        let graph = Graph::new(graph).unwrap();
        Problem::new(graph, &profile, hardware, &[], objective, &ConstraintsSpec::default()).unwrap()
    }

    fn window(problem: &Problem, from: Option<u32>, to: Option<u32>) -> Result<Time, String> {
        let window = WorkWindow { from: from.map(OpId), to: to.map(OpId), device: DeviceId(0), times: 1 };
        let weights = vec![0; problem.hardware.device_count()];
        proven(problem, &DivisionRows { weights: &weights, windows: &[window], ..DivisionRows::default() })
    }

    /// On one device a plan ends after 31. Counting an end of the window twice, or what only follows, would prove more.
    #[test]
    fn a_window_counts_what_lies_between_its_ends() {
        let problem = diamond(1, 2);
        assert_eq!(window(&problem, Some(0), Some(3)), Ok(Time(1 + 2 + 4 + 8)));
        assert_eq!(window(&problem, None, Some(3)), Ok(Time(1 + 2 + 4 + 8)));
        assert_eq!(window(&problem, Some(0), None), Ok(Time(31)));
        assert_eq!(window(&problem, Some(1), None), Ok(Time(2 + 8)));
        assert_eq!(window(&problem, None, None), Ok(Time(31)));
    }

    /// Half of the inputs are elsewhere, and wait for none of the device's work.
    #[test]
    fn a_window_counts_work_for_the_inputs_that_it_is_about() {
        let problem = diamond(2, 1);
        let between_a_and_d = (1 + 10 + 2 + 4 + 8 + 80u64).div_ceil(2);
        assert_eq!(window(&problem, Some(0), Some(3)), Ok(Time(between_a_and_d)));
        assert_eq!(window(&problem, None, None), Ok(Time(31u64.div_ceil(2))));
    }

    #[test]
    fn a_window_between_ops_that_do_not_follow_each_other_is_refused() {
        let problem = diamond(1, 2);
        for (from, to) in [(3, 0), (1, 2), (4, 3), (0, 0)] {
            assert!(window(&problem, Some(from), Some(to)).is_err_and(|why| why.contains("does not lead")));
        }
    }
}
