//! A dual solution of the division LP: the price of every batch, and the bound that follows.
//!
//! Let L be the number of inputs, and take any plan of finish C. These rows hold, with multipliers in parentheses:
//!
//! * work (λ_u): the batches of device u do not overlap: C ≥ Σ of their times;
//! * precedence (F_e, for each input l): on an edge e = i → j, start_j(l) ≥ start_i(l) + time of l's batch of i + its delay;
//! * end (G_i, for each input): C ≥ start_i(l) + time of l's batch of i + transfer to `output_at`;
//! * window (W, for each input): with i an ancestor of j, l's batches on device u of the ops between them do not overlap:
//!   start_j(l) ≥ start_i(l) + time of l's batch of i + Σ of the times of these batches. Without i: from 0. Without j: to C;
//! * memory (a price per byte, [`crate::division_lp::memory_prices`]): what batches hold is no more than a device has.
//!
//! G_i is the inflow of i less its outflow where that is positive, so that no start keeps a factor above 0; where it is
//! negative, its absolute value multiplies start_i(l) ≥ arrival from `input_at`. A window counts as a flow from i to j. The
//! sum of all rows reads C·L·(Σ λ + Σ G + Σ W of windows to C) ≥ Σ over batches of a price: L·λ_u·t + size · (Σ F out + G)·t,
//! the ends, the delays, and size · W·t for each window the batch lies in.
//!
//! A delay belongs to two batches. Between a batch of a inputs on u and one of b inputs on another device v at least
//! max(1, a + b − L) inputs move. For any p(u, a) of the producer's batches and q(v, b) = max over (u, a) of p(u, a) − that
//! delay, the producer pays p(u, a) and the consumer −q(v, b) for each input: together no more than the delay.
//!
//! What is left is the cheapest division of each op's inputs over devices, one size each: a knapsack over multiples of the
//! greatest common divisor, solved exactly in O(devices · inputs · sizes). Prices are by class of devices and size; two
//! batches of one class count as having no delay. Colocation is left out. All in integers.
//!
//! `latency` is the same with L = 1. Of a `stream` only work and memory hold, and C is its period.

use std::collections::HashMap;

use crate::division_lp::class_routes::{FastestRoutes, divisor, too_large};
use crate::division_lp::memory_prices::MemoryPrices;
use crate::evidence::{DevicePair, PricedEdge, WorkWindow};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// The largest multiplier.
const MOST_MULTIPLIER: u64 = 1 << 32;

/// The most steps of all knapsacks together.
pub(crate) const MOST_STEPS: u128 = 1 << 34;

/// The multipliers of the rows, all others being 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct DivisionRows<'a> {
    /// One weight per device.
    pub weights: &'a [u64],
    /// Multipliers of precedence rows.
    pub flows: &'a [PricedEdge],
    /// Multipliers of window rows.
    pub windows: &'a [WorkWindow],
    /// The price of a byte of each device's memory; empty: all 0.
    pub memory: &'a [u64],
}

impl DivisionRows<'_> {
    /// The number of inputs; an error if such rows do not hold for the objective.
    fn inputs(&self, problem: &Problem) -> Result<u32, String> {
        match problem.objective {
            Objective::Batch { inputs } => Ok(inputs),
            Objective::Latency { .. } => Ok(1),
            Objective::Stream if self.flows.is_empty() && self.windows.is_empty() => Ok(1),
            objective => Err(format!("such rows do not hold for `{}`", objective.name())),
        }
    }
}

/// A batch size that a class of devices supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSize {
    /// The class, by its place in the costs.
    pub class: usize,
    /// The number of inputs.
    pub size: u32,
}

/// The batch sizes of all classes, by class, then by size.
pub fn class_sizes(problem: &Problem) -> Vec<ClassSize> {
    let classes = problem.costs().iter().enumerate();
    classes
        .flat_map(|(class, costs)| costs.batch_sizes.iter().map(move |&size| ClassSize { class, size }))
        .collect()
}

/// The price of every batch under given multipliers.
pub struct BatchPrices {
    inputs: u32,
    sizes: Vec<ClassSize>,
    weights: Vec<u64>,
    /// For each op and class size, the part of the price that does not depend on the device; none: no such batch.
    own: Vec<Option<i128>>,
    /// For each op and device, the multipliers of the windows that its batch lies in.
    within: Vec<WindowCounts>,
    memory: MemoryPrices,
    times: Vec<u64>,
    /// For each op, the multiplier G of its end row.
    ends: Vec<u128>,
    /// The sum of the multipliers of C in work and window rows, for each input.
    open: u128,
    divisor: i128,
}

impl BatchPrices {
    /// Computes the prices; an error if some row does not hold or a sum does not fit.
    pub fn new(problem: &Problem, rows: &DivisionRows<'_>) -> Result<BatchPrices, String> {
        BatchPrices::in_case(problem, rows, &[], &|_| false)
    }

    /// As [`BatchPrices::new`] in a case where some ops are known to be a single batch each, and some pairs of these to run in
    /// a given order on one device, as the caller says.
    pub(crate) fn in_case(
        problem: &Problem,
        rows: &DivisionRows<'_>,
        ordered: &[DevicePair],
        is_whole: &dyn Fn(OpId) -> bool,
    ) -> Result<BatchPrices, String> {
        let inputs = rows.inputs(problem)?;
        let &DivisionRows { weights, flows, windows, memory } = rows;
        let (ops, devices) = (problem.graph.op_count(), problem.hardware.device_count());
        if weights.len() != devices || weights.iter().any(|&weight| weight > MOST_MULTIPLIER) {
            return Err(format!("it needs one weight up to {MOST_MULTIPLIER} for each of {devices} devices"));
        }
        let sizes = class_sizes(problem);
        let mut through = vec![(0u128, 0u128); ops];
        for flow in flows {
            if flow.from.index() >= ops || flow.to.index() >= ops || flow.times > MOST_MULTIPLIER {
                return Err("a flow names an op that does not exist, or is too large".to_owned());
            }
            if !flow.prices.is_empty() && flow.prices.len() != sizes.len() {
                return Err(format!("a flow needs {} prices", sizes.len()));
            }
            through[flow.from.index()].1 += u128::from(flow.times);
            through[flow.to.index()].0 += u128::from(flow.times);
        }
        for pair in ordered {
            if pair.times > MOST_MULTIPLIER {
                return Err("a turn is too large".to_owned());
            }
            through[pair.from.index()].1 += u128::from(pair.times);
            through[pair.to.index()].0 += u128::from(pair.times);
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
            own: vec![None; ops * sizes.len()],
            within,
            memory: MemoryPrices::new(problem, memory)?,
            times: vec![0; ops * sizes.len()],
            sizes,
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
        let routes = FastestRoutes::new(problem);
        for flow in flows {
            prices.add_flow(problem, &routes, flow)?;
        }
        Ok(prices)
    }

    /// The times and ends of an op's batches, given the sum of its multipliers, that of its end, and that of its arrival.
    fn add_op(
        &mut self,
        problem: &Problem,
        op: OpId,
        passing: u128,
        ending: u128,
        beginning: u128,
    ) -> Result<(), String> {
        for (number, size) in self.sizes.iter().enumerate() {
            let Some(cost) = problem.costs()[size.class].at(size.size).and_then(|costs| costs[op.index()])
            else {
                continue;
            };
            let [arriving, leaving] =
                [self.end_transfer(problem, op, *size, true), self.end_transfer(problem, op, *size, false)];
            let (Some(arriving), Some(leaving)) = (arriving, leaving) else { continue };
            let sum = |times: u128, time: u64| times.checked_mul(u128::from(time));
            let each = sum(passing, cost.time.0)
                .and_then(|a| a.checked_add(sum(ending, leaving)?)?.checked_add(sum(beginning, arriving)?))
                .and_then(|each| i128::try_from(each).ok()?.checked_mul(i128::from(size.size)));
            let place = op.index() * self.sizes.len() + number;
            self.own[place] = Some(each.ok_or_else(too_large)?);
            self.times[place] = cost.time.0;
        }
        Ok(())
    }

    /// The least time of a batch's transfer from `input_at` or to `output_at`; none without a route.
    fn end_transfer(&self, problem: &Problem, op: OpId, size: ClassSize, inward: bool) -> Option<u64> {
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
            problem.hardware.devices().filter(|&d| problem.hardware.class_of(d).index() == size.class);
        let time = |device: DeviceId| {
            if device == end {
                return Some(0);
            }
            let route = if inward {
                problem.hardware.route(end, device)
            } else {
                problem.hardware.route(device, end)
            };
            Some(route?.time(bytes * u64::from(size.size)).0)
        };
        devices.filter_map(time).min()
    }

    /// The delay of a precedence row, divided between the two batches.
    fn add_flow(
        &mut self,
        problem: &Problem,
        routes: &FastestRoutes<'_>,
        flow: &PricedEdge,
    ) -> Result<(), String> {
        let graph = &problem.graph;
        let joining = graph.inputs(flow.to).iter().filter(|&&t| graph.producer(t) == Some(flow.from));
        let Some(bytes) = joining.map(|&t| graph.tensor_bytes(t)).max() else {
            let (from, to) = (graph.op_name(flow.from), graph.op_name(flow.to));
            return Err(format!("`{to}` reads nothing that `{from}` makes"));
        };
        let count = self.sizes.len();
        let price = |size: usize| flow.prices.get(size).map_or(0, |&price| i128::from(price));
        let times = i128::from(flow.times);
        let (from, to) = (flow.from.index() * count, flow.to.index() * count);
        let mut paid: Vec<Option<i128>> = vec![None; count];
        for (there, paid) in paid.iter_mut().enumerate() {
            for here in (0..count).filter(|here| self.own[from + here].is_some()) {
                let moved =
                    (self.sizes[here].size + self.sizes[there].size).saturating_sub(self.inputs).max(1);
                let delay =
                    routes.delay(self.sizes[here].class, self.sizes[there].class, bytes * u64::from(moved));
                if let Some(delay) = delay {
                    *paid = (*paid).max(Some(price(here) - i128::from(delay)));
                }
            }
        }
        for number in 0..count {
            let size = i128::from(self.sizes[number].size);
            let add = |own: &mut Option<i128>, each: i128| {
                if let Some(own) = own {
                    *own = (each.checked_mul(times * size))
                        .and_then(|more| own.checked_add(more))
                        .ok_or_else(too_large)?;
                }
                Ok::<(), String>(())
            };
            add(&mut self.own[from + number], price(number))?;
            match paid[number] {
                Some(paid) => add(&mut self.own[to + number], -paid)?,
                // No batch of the producer reaches it.
                None => self.own[to + number] = None,
            }
        }
        Ok(())
    }

    /// The price of a batch of an op on a device with a class size, in units of which [`BatchPrices::units_per_ps`] make a
    /// picosecond; none if there is no such batch.
    pub fn batch(&self, op: usize, device: usize, number: usize) -> Option<i128> {
        let place = op * self.sizes.len() + number;
        let within = self.within_of(op, device);
        let for_all = i128::from(self.weights[device]) + i128::from(within.for_all);
        let work = for_all * i128::from(self.inputs)
            + i128::from(within.for_own) * i128::from(self.sizes[number].size);
        let held = self.memory.of(op, device, self.sizes[number].size)?;
        self.own[place]?.checked_add(work.checked_mul(i128::from(self.times[place]))?)?.checked_add(held)
    }

    fn within_of(&self, op: usize, device: usize) -> WindowCounts {
        self.within[op * self.weights.len() + device]
    }

    /// How many units of a price make a picosecond of the bound.
    pub fn units_per_ps(&self) -> i128 {
        self.divisor
    }

    /// The batch sizes of all classes.
    pub fn class_sizes(&self) -> &[ClassSize] {
        &self.sizes
    }

    /// The bound: the cheapest divisions of all ops.
    pub fn proven(&self, problem: &Problem) -> Result<Time, String> {
        if self.steps(problem) > MOST_STEPS {
            return Err("there are too many divisions of the inputs".to_owned());
        }
        let mut sum = -self.memory.capacity_price();
        for op in problem.graph.ops() {
            let least = self.cheapest(problem, op, &|_| (0, self.inputs))?;
            sum = sum.checked_add(least.ok_or_else(|| indivisible(problem, op))?).ok_or_else(too_large)?;
        }
        bound_of(sum, self.divisor)
    }

    /// About how many steps the knapsacks of all ops take.
    pub(crate) fn steps(&self, problem: &Problem) -> u128 {
        let devices =
            problem.hardware.device_count().min(self.most_alike().saturating_mul(self.weights.len()));
        let steps = [problem.graph.op_count(), devices, self.total(), self.sizes.len()];
        steps.iter().map(|&n| n as u128).product()
    }

    /// The multiplier of C for each input, without the end rows.
    pub(crate) fn open(&self) -> u128 {
        self.open
    }

    /// The multiplier G of an op's end row for each input.
    pub(crate) fn ends_of(&self, op: OpId) -> u128 {
        self.ends[op.index()]
    }

    /// The greatest common divisor of all sizes and the number of inputs.
    fn grain(&self) -> u32 {
        self.sizes.iter().fold(self.inputs, |a, size| divisor(a, size.size))
    }

    /// The number of inputs in units of the grain.
    fn total(&self) -> usize {
        (self.inputs / self.grain()) as usize
    }

    /// Of devices with equal prices no division uses more than this.
    fn most_alike(&self) -> usize {
        let smallest = self.sizes.iter().map(|size| size.size).min().unwrap_or(1);
        (self.inputs / smallest.max(1)) as usize
    }

    /// The cheapest division of an op's inputs in which each class of devices takes a number of inputs within its range; none
    /// if there is none.
    pub(crate) fn cheapest(
        &self,
        problem: &Problem,
        op: OpId,
        range: &dyn Fn(usize) -> (u32, u32),
    ) -> Result<Option<i128>, String> {
        let (grain, total, most_alike) = (self.grain(), self.total(), self.most_alike());
        let mut alike: HashMap<(usize, u64, u64, WindowCounts), usize> = HashMap::new();
        let classes = problem.hardware.class_count();
        // For each class and number of inputs, the least price at which the class takes them.
        let mut of_class: Vec<Vec<Option<i128>>> = vec![vec![None; total + 1]; classes];
        of_class.iter_mut().for_each(|costs| costs[0] = Some(0));
        for device in problem.devices_for(op) {
            let class = problem.hardware.class_of(device).index();
            let within = self.within_of(op.index(), device.index());
            let prices = (self.weights[device.index()], self.memory.price(device.index()));
            let seen = alike.entry((class, prices.0, prices.1, within)).or_default();
            *seen += 1;
            if *seen > most_alike {
                continue;
            }
            let mut next = of_class[class].clone();
            for (number, size) in self.sizes.iter().enumerate().filter(|(_, size)| size.class == class) {
                let Some(cost) = self.batch(op.index(), device.index(), number) else { continue };
                let units = (size.size / grain) as usize;
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

/// How many units of a price make a picosecond, if C has this multiplier for each input.
pub(crate) fn divisor_of(counted: u128, inputs: u32) -> Result<i128, String> {
    let divisor = counted.checked_mul(u128::from(inputs)).and_then(|divisor| i128::try_from(divisor).ok());
    match divisor.ok_or_else(too_large)? {
        0 => Err("all weights are zero".to_owned()),
        divisor => Ok(divisor),
    }
}

/// The bound of a sum of prices, rounded up.
pub(crate) fn bound_of(sum: i128, divisor: i128) -> Result<Time, String> {
    let sum = sum.max(0);
    let value = sum / divisor + i128::from(sum % divisor != 0);
    u64::try_from(value).map(Time).map_err(|_| "it proves a time out of range".to_owned())
}

/// The error of an op whose inputs no sizes divide.
pub(crate) fn indivisible(problem: &Problem, op: OpId) -> String {
    format!("no sizes of its devices divide the inputs of `{}`", problem.graph.op_name(op))
}

/// The bound of a dual solution.
pub(crate) fn proven(problem: &Problem, rows: &DivisionRows<'_>) -> Result<Time, String> {
    BatchPrices::new(problem, rows)?.proven(problem)
}

/// The multipliers of the windows that a batch lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct WindowCounts {
    /// Where it counts for each of its own inputs.
    for_own: u64,
    /// Where it counts for every input, its own or not.
    for_all: u64,
}

/// For each op and device, the multipliers of the windows that the op's batch there lies in. Between two single batches no
/// input passes before all batches between them are done, so these count for every input.
fn work_within(
    problem: &Problem,
    windows: &[WorkWindow],
    is_whole: &dyn Fn(OpId) -> bool,
) -> Result<Vec<WindowCounts>, String> {
    let (ops, devices) = (problem.graph.op_count(), problem.hardware.device_count());
    if windows.len() as u128 * ops as u128 > MOST_STEPS {
        return Err(format!("{} windows are too many", windows.len()));
    }
    let mut within = vec![WindowCounts::default(); ops * devices];
    let mut behind: HashMap<OpId, Vec<bool>> = HashMap::new();
    let mut before: HashMap<OpId, Vec<bool>> = HashMap::new();
    for window in windows {
        let exists = |op: Option<OpId>| op.is_none_or(|op| op.index() < ops);
        let known = exists(window.from) && exists(window.to) && window.device.index() < devices;
        if !known || window.times > MOST_MULTIPLIER {
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

/// The descendants of an op, or its ancestors.
pub(crate) fn reached(problem: &Problem, op: OpId, forward: bool) -> Vec<bool> {
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
        let profile = Profile { classes, ..Profile::default() };
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
