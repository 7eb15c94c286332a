//! A Lagrangian of bus time and compute time of a cold start, minimised segment by segment.
//!
//! Ops d₀, d₁, …, each an ancestor of the next, cut the network into *segments*: the ops that descend from dᵢ and precede
//! dᵢ₊₁ (with it). They run between the ends of dᵢ and dᵢ₊₁, so the lengths of segments add up. For prices w of links and κ of
//! compute, every schedule of finish C satisfies
//!
//! C · (Σ w + κ) ≥ Σ_segments (Σ w·bus time + κ·length) + κ·(head of d₀ + tail behind the last d) +
//! Σ w·(tail behind the last load).
//!
//! Given the prices, segments depend on each other only by the devices of the dᵢ, so a dynamic program over (i, device of dᵢ)
//! adds up the minimum of each segment for each pair of devices.
//!
//! In a segment every op chooses a device and, for each of its two largest parameters, the device where it lands; or to read in
//! place. A parameter with several readers counts, if at all, for the one that reads most in place. An option costs bus time at its
//! price, and compute time for forwarded parameters. The length
//! is at least the longest path, with copies between devices and the piece that reads each; and for each device its head + all
//! its work, copies to it included, + its tail. A beam search gives an upper bound, depth-first branch and bound the minimum; where it takes too many
//! steps, the least lower bound of an open node stands for it. Ops without a time of their own that read one tensor go along
//! with its producer, and a copy is as large as the smallest tensor on its path. Other parameters, memory, and tensors from
//! elsewhere are left out. Equal segments are searched once.
//!
//! Complexity: exponential in a segment, limited by `MOST_STEPS`; invariant: leaving things out only lowers the minimum.

use std::collections::HashMap;

use crate::cold_start::last_loads::LastLoadArgument;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::problem::{Contention, Objective, Problem};
use divvy_core::units::Time;

/// The most devices for which segments are searched.
pub const MOST_DEVICES: usize = 4;
/// The most ops in a segment.
const MOST_NODES: usize = 80;
/// The most steps of one search.
const MOST_STEPS: u64 = 1_000_000;
/// The most steps of all searches together, so that a check ends.
const MOST_STEPS_IN_ALL: u64 = 100_000_000;
/// The largest price.
const MOST_PRICE: u64 = 1 << 24;

/// The Lagrange multipliers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPrices {
    /// One for each link or bus.
    pub links: Vec<u64>,
    /// The price of compute time along the chain.
    pub kernels: u64,
}

/// A network cut at a chain of ops.
pub struct SegmentArgument<'a> {
    problem: &'a Problem,
    loads: LastLoadArgument<'a>,
    chain: Vec<OpId>,
    /// Whether parameters with several readers count.
    shared: bool,
    segments: Vec<SegmentOps>,
    /// A lower bound from the last load or read in place that counts to the end of the schedule.
    behind_loads: u64,
    /// A lower bound on the end of the first op of the chain.
    head: u64,
}

/// The ops of a segment in topological order; the first node is the op at whose end the segment begins.
struct SegmentOps {
    nodes: Vec<SegmentOp>,
}

/// An op of a segment.
struct SegmentOp {
    op: OpId,
    before: Vec<SegmentEdge>,
    /// The largest parameters that it alone reads.
    params: Vec<ParamId>,
}

/// An edge from an earlier node.
struct SegmentEdge {
    node: usize,
    bytes: u64,
    /// Whether an op without a time of its own is on the path, which may be on a device of its own.
    viewed: bool,
    /// For each pair of devices, the time until the tensor has arrived.
    delays: Vec<u64>,
    /// For each pair of devices, how long the second is busy with the copy.
    copies: Vec<u64>,
}

/// The time of a copy without a route.
const NEVER: u64 = u64::MAX;

impl SegmentEdge {
    fn new(problem: &Problem, node: usize, bytes: u64, viewed: bool) -> SegmentEdge {
        let devices = problem.hardware.device_count();
        let time = |from: usize, to: usize| {
            let time = problem.peer_copy_time(bytes, DeviceId::new(from), DeviceId::new(to));
            if from == to { 0 } else { time.map_or(NEVER, |time| time.0) }
        };
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to)));
        let copies: Vec<u64> = pairs.clone().map(|(from, to)| time(from, to)).collect();
        // What reads from another device is in a piece that starts when the value has arrived.
        let called = |(from, to): (usize, usize)| {
            let call = if from == to { 0 } else { problem.earliest_start(DeviceId::new(to)).0 };
            time(from, to).saturating_add(call)
        };
        let mut delays: Vec<u64> = pairs.clone().map(called).collect();
        if !viewed {
            return SegmentEdge { node, bytes, viewed, delays, copies };
        }
        // It may pass through any devices (Floyd and Warshall's recursion); the last copy is from one of them.
        for by in 0..devices {
            for (from, to) in pairs.clone() {
                let around = delays[from * devices + by].saturating_add(delays[by * devices + to]);
                delays[from * devices + to] = delays[from * devices + to].min(around);
            }
        }
        let last = |to: usize| (0..devices).filter(|&by| by != to).map(|by| copies[by * devices + to]).min();
        let copies = pairs.map(|(from, to)| if from == to { 0 } else { last(to).unwrap_or(NEVER) }).collect();
        SegmentEdge { node, bytes, viewed, delays, copies }
    }
}

/// An option to run an op on a device: time and price.
type OpOption = (u64, u128);

impl<'a> SegmentArgument<'a> {
    /// Cuts a network at a chain; fails where an op is no ancestor of the next.
    ///
    /// Where `shared`, parameters with several readers count.
    pub fn new(problem: &'a Problem, chain: Vec<OpId>, shared: bool) -> Result<SegmentArgument<'a>, String> {
        let graph = &problem.graph;
        if problem.hardware.device_count() > MOST_DEVICES {
            return Err(format!("segments are searched for up to {MOST_DEVICES} devices"));
        }
        if chain.is_empty() || chain.iter().any(|op| op.index() >= graph.op_count()) {
            return Err("the chain names no op, or one that does not exist".to_owned());
        }
        let loads = LastLoadArgument::new(problem)?;
        let mut segments = Vec::new();
        for pair in chain.windows(2) {
            segments.push(SegmentOps::new(problem, pair[0], pair[1], shared)?);
        }
        let counted =
            segments.iter().flat_map(|segment| &segment.nodes[1..]).filter(|node| !node.params.is_empty());
        let behind_loads = counted.map(|node| loads.least_behind_end(node.op)).min().unwrap_or(0);
        let mut ends = vec![0u64; graph.op_count()];
        for &op in graph.order() {
            let before = graph.predecessors(op).map(|op| ends[op.index()]).max().unwrap_or(0);
            ends[op.index()] = before + problem.shortest_time(op).0;
        }
        let head = ends[chain[0].index()];
        Ok(SegmentArgument { problem, loads, chain, shared, segments, behind_loads, head })
    }

    /// The chain.
    pub fn chain(&self) -> &[OpId] {
        &self.chain
    }

    /// Whether parameters with several readers count.
    pub fn shared(&self) -> bool {
        self.shared
    }

    /// The bound of Lagrange multipliers.
    pub fn proven(&self, prices: &SegmentPrices) -> Result<Time, String> {
        let links = self.problem.hardware.links().len();
        let all = || prices.links.iter().copied().chain([prices.kernels]);
        if prices.links.len() != links || all().any(|price| price > MOST_PRICE) {
            return Err(format!("it needs one price up to {MOST_PRICE} for each of {links} links"));
        }
        let whole: u128 = all().map(u128::from).sum();
        if whole == 0 {
            return Err("all prices are zero".to_owned());
        }
        let kernels = u128::from(prices.kernels);
        let on_links: u128 = prices.links.iter().map(|&price| u128::from(price)).sum();
        let first = self.chain[0];
        let mut costs: Vec<Option<u128>> =
            self.problem.hardware.devices().map(|d| self.problem.may_run(first, d).then_some(0)).collect();
        let mut left = MOST_STEPS_IN_ALL;
        let mut known: HashMap<Vec<u128>, Vec<Option<u128>>> = HashMap::new();
        for segment in &self.segments {
            let options = segment.options(self.problem, prices);
            let table = known
                .entry(segment.signature(&options))
                .or_insert_with(|| segment.minima(&options, kernels, &mut left));
            let devices = costs.len();
            let reached = |to: usize| {
                let from = (0..devices).filter_map(|from| Some(costs[from]? + table[from * devices + to]?));
                from.min()
            };
            costs = (0..devices).map(reached).collect();
        }
        let last = self.chain[self.chain.len() - 1];
        let ends = costs.iter().enumerate().filter_map(|(device, &cost)| {
            let behind = self.loads.behind_end(last, DeviceId::new(device))?;
            Some(cost? + kernels * u128::from(behind))
        });
        let least = ends.min().ok_or("no devices let the chain run to its end")?;
        let sum = least + kernels * u128::from(self.head) + on_links * u128::from(self.behind_loads);
        u64::try_from(sum.div_ceil(whole)).map(Time).map_err(|_| "it proves a time out of range".to_owned())
    }
}

impl SegmentOps {
    /// The ops between two ops of the chain.
    fn new(problem: &Problem, from: OpId, to: OpId, shared: bool) -> Result<SegmentOps, String> {
        let graph = &problem.graph;
        let (first, last) = (graph.position(from), graph.position(to));
        if first >= last {
            return Err("the chain goes backward".to_owned());
        }
        let between = &graph.order()[first..=last];
        let mut behind = vec![false; graph.op_count()];
        behind[from.index()] = true;
        for &op in &between[1..] {
            behind[op.index()] = graph.predecessors(op).any(|before| behind[before.index()]);
        }
        let mut leads = vec![false; graph.op_count()];
        leads[to.index()] = true;
        for &op in between.iter().rev().skip(1) {
            leads[op.index()] = graph.successors(op).any(|next| leads[next.index()]);
        }
        if !behind[to.index()] {
            let names = (graph.op_name(from), graph.op_name(to));
            return Err(format!("`{}` does not lead to `{}`", names.0, names.1));
        }
        // For each op that belongs to a node: the node, and the smallest tensor on the path from there.
        let mut place: HashMap<OpId, (usize, u64)> = HashMap::from([(from, (0, NEVER))]);
        let source = SegmentOp { op: from, before: Vec::new(), params: Vec::new() };
        let mut nodes = vec![source];
        for &op in between.iter().filter(|op| behind[op.index()] && leads[op.index()] && **op != from) {
            let mut before: Vec<(usize, u64, bool)> = Vec::new();
            for &tensor in graph.inputs(op) {
                let Some(&(node, most)) = graph.producer(tensor).and_then(|maker| place.get(&maker)) else {
                    continue;
                };
                let (bytes, viewed) = (graph.tensor_bytes(tensor).min(most), most < NEVER);
                match before.iter_mut().find(|(known, ..)| *known == node) {
                    Some((_, known, was)) => (*known, *was) = (bytes.max(*known), viewed || *was),
                    None => before.push((node, bytes, viewed)),
                }
            }
            let takes_time = problem.times_of(op).any(|(_, time)| time > Time::ZERO);
            let stays = takes_time || op == to || !graph.params_of(op).is_empty();
            if let (&[(node, bytes, _)], false) = (&before[..], stays) {
                place.insert(op, (node, bytes));
                continue;
            }
            let mut params: Vec<ParamId> = graph.params_of(op).to_vec();
            let is_own = |param: ParamId| graph.readers(param).iter().all(|&reader| reader == op);
            params.retain(|&param| is_own(param) || (shared && counted_reader(problem, param) == Some(op)));
            params.sort_by_key(|&param| (std::cmp::Reverse(graph.param_bytes(param)), param));
            params.dedup();
            params.truncate(2);
            place.insert(op, (nodes.len(), NEVER));
            let edge = |(node, bytes, viewed)| SegmentEdge::new(problem, node, bytes, viewed);
            let before = before.into_iter().map(edge).collect();
            nodes.push(SegmentOp { op, before, params });
        }
        if nodes.len() > MOST_NODES {
            return Err(format!("a segment of {} ops is too long, {MOST_NODES} is the most", nodes.len()));
        }
        Ok(SegmentOps { nodes })
    }

    /// For each node and device, the options that no other dominates in time and price.
    fn options(&self, problem: &Problem, prices: &SegmentPrices) -> Vec<Vec<Vec<OpOption>>> {
        let of = |node: &SegmentOp| {
            problem.hardware.devices().map(|d| options(problem, prices, node, d)).collect()
        };
        self.nodes.iter().map(of).collect()
    }

    /// Everything but the hardware that a search of the segment depends on.
    fn signature(&self, options: &[Vec<Vec<OpOption>>]) -> Vec<u128> {
        let mut signature = Vec::new();
        for (node, options) in self.nodes.iter().zip(options) {
            signature.push(node.before.len() as u128);
            signature.extend(node.before.iter().flat_map(|edge| {
                [edge.node as u128, u128::from(edge.bytes), u128::from(u8::from(edge.viewed))]
            }));
            for list in options {
                signature.push(list.len() as u128);
                signature.extend(list.iter().flat_map(|&(time, price)| [u128::from(time), price]));
            }
        }
        signature
    }

    /// The minimum for each device of the op before the segment and each device of its last op.
    fn minima(&self, options: &[Vec<Vec<OpOption>>], kernels: u128, left: &mut u64) -> Vec<Option<u128>> {
        let devices = options[0].len();
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to)));
        let least = |pair| {
            let mut search = SegmentSearch::new(self, options, kernels, pair, MOST_STEPS.min(*left));
            let least = search.least();
            *left = left.saturating_sub(search.steps);
            least
        };
        pairs.map(least).collect()
    }
}

/// The reader that a parameter counts for: the one that reads most in place.
fn counted_reader(problem: &Problem, param: ParamId) -> Option<OpId> {
    let graph = &problem.graph;
    let bytes = |op: OpId| graph.op(op).in_place_bytes.unwrap_or_else(|| graph.weight_bytes(op));
    graph.readers(param).iter().copied().max_by_key(|&op| (bytes(op), op))
}

/// The options of one node on a device.
fn options(problem: &Problem, prices: &SegmentPrices, node: &SegmentOp, device: DeviceId) -> Vec<OpOption> {
    let Some(time) = problem.time(node.op, device).filter(|_| problem.may_run(node.op, device)) else {
        return Vec::new();
    };
    let price_to = |to: DeviceId| -> Option<u128> {
        let route = problem.hardware.host_route(to).filter(|route| route.bandwidth.is_some())?;
        Some(route.media().map(|link| u128::from(prices.links[link.index()])).sum())
    };
    let in_host = problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_none());
    if node.params.is_empty() || in_host {
        return vec![(time.0, 0)];
    }
    let mut all: Vec<OpOption> = vec![(time.0, 0)];
    for &param in &node.params {
        // Another reader on the device may have had it forwarded before.
        let is_own = problem.graph.readers(param).iter().all(|&reader| reader == node.op);
        let landings = problem.hardware.devices().filter_map(|via| {
            let (load, _) = problem.load_time(param, via)?;
            let forward =
                if via == device { Time::ZERO } else { problem.forward_time(param, via, device)? };
            let forward = if is_own { forward } else { Time::ZERO };
            Some((forward.0, u128::from(load.0) * price_to(via)?))
        });
        let landings: Vec<OpOption> = landings.collect();
        let with = |&(time, price): &OpOption| {
            landings.iter().map(move |&(forward, cost)| (time + forward, price + cost)).collect::<Vec<_>>()
        };
        all = undominated(all.iter().flat_map(with).collect());
    }
    if let (Some((whole, _)), Some(price)) = (problem.in_place_time(node.op, device), price_to(device)) {
        let free = matches!(problem.objective, Objective::ColdStart { contention: Contention::Paper, .. });
        all.push((whole.0, if free { 0 } else { u128::from(whole.0) * price }));
    }
    undominated(all)
}

/// The options on the Pareto front of time and price.
fn undominated(mut options: Vec<OpOption>) -> Vec<OpOption> {
    options.sort_unstable();
    let mut kept: Vec<OpOption> = Vec::new();
    for option in options {
        if kept.last().is_none_or(|last| option.1 < last.1) {
            kept.push(option);
        }
    }
    kept
}

/// Width of the beam search that gives the first upper bound.
const BEAM: usize = 24;

/// The minimisation over all choices of a segment: a beam search, then depth-first branch and bound.
struct SegmentSearch<'s> {
    nodes: &'s [SegmentOp],
    options: &'s [Vec<Vec<OpOption>>],
    kernels: u128,
    from: usize,
    to: usize,
    /// The least price of the nodes from each one on.
    rest: Vec<u128>,
    /// For each node and device, a lower bound from its end there to the end of the segment.
    tails: Vec<u64>,
    /// The cost of the best choice so far.
    best: Option<u128>,
    /// The least lower bound of a node that was not explored for want of steps.
    abandoned: Option<u128>,
    steps: u64,
    most_steps: u64,
}

/// Choices for the first nodes.
#[derive(Clone)]
struct PartialChoice {
    device: Vec<usize>,
    finish: Vec<u64>,
    /// For each node and device, the longest copy of it there so far.
    copied: Vec<u64>,
    loads: Vec<DeviceLoad>,
    price: u128,
    /// A lower bound on the length of the segment.
    length: u64,
}

/// What a device runs so far: its work, the earliest start and the shortest tail of any of it.
#[derive(Clone, Copy)]
struct DeviceLoad {
    work: u64,
    head: u64,
    tail: u64,
}

/// One more choice, and what it comes to.
#[derive(Clone, Copy)]
struct ChoiceCost {
    device: usize,
    load: DeviceLoad,
    finish: u64,
    price: u128,
    length: u64,
    /// A lower bound on the cost of every completion.
    least: u128,
}

impl<'s> SegmentSearch<'s> {
    fn new(
        segment: &'s SegmentOps,
        options: &'s [Vec<Vec<OpOption>>],
        kernels: u128,
        (from, to): (usize, usize),
        most_steps: u64,
    ) -> SegmentSearch<'s> {
        let devices = options[0].len();
        let count = segment.nodes.len();
        let mut rest = vec![0u128; count + 1];
        // Raised by the nodes behind.
        let mut tails = vec![0u64; count * devices];
        for device in (0..devices).filter(|&device| device != to) {
            tails[(count - 1) * devices + device] = NEVER;
        }
        for node in (1..count).rev() {
            let least = options[node].iter().flatten().map(|&(_, price)| price).min().unwrap_or(0);
            rest[node] = rest[node + 1] + least;
            let through: Vec<u64> = (0..devices)
                .map(|d| {
                    let shortest = options[node][d].iter().map(|&(time, _)| time).min();
                    shortest.map_or(NEVER, |time| time.saturating_add(tails[node * devices + d]))
                })
                .collect();
            for edge in &segment.nodes[node].before {
                for d in 0..devices {
                    let ends = (0..devices).map(|e| edge.delays[d * devices + e].saturating_add(through[e]));
                    let tail = &mut tails[edge.node * devices + d];
                    *tail = ends.min().unwrap_or(NEVER).max(*tail);
                }
            }
        }
        let nodes = &segment.nodes;
        let (best, abandoned) = (None, None);
        SegmentSearch {
            nodes,
            options,
            kernels,
            from,
            to,
            rest,
            tails,
            best,
            abandoned,
            steps: 0,
            most_steps,
        }
    }

    /// The minimum, or a lower bound on it where the steps do not suffice; none if no choice is possible.
    fn least(&mut self) -> Option<u128> {
        let (devices, count) = (self.options[0].len(), self.nodes.len());
        let path = self.tails[self.from];
        if path == NEVER {
            return None;
        }
        let mut state = PartialChoice {
            device: vec![self.from; count],
            finish: vec![0; count],
            copied: vec![0; count * devices],
            loads: vec![DeviceLoad { work: 0, head: NEVER, tail: NEVER }; devices],
            price: 0,
            length: path,
        };
        self.best = self.beam_search(state.clone());
        self.branch(1, &mut state);
        self.best.into_iter().chain(self.abandoned).min()
    }

    /// The cost of a good choice, from a beam search.
    fn beam_search(&mut self, first: PartialChoice) -> Option<u128> {
        let mut states = vec![first];
        for node in 1..self.nodes.len() {
            let mut steps: Vec<(usize, ChoiceCost)> = Vec::new();
            for (number, state) in states.iter().enumerate() {
                steps.extend(self.choices(node, state).into_iter().map(|step| (number, step)));
            }
            self.steps += steps.len() as u64;
            steps.sort_by_key(|(_, step)| (step.least, step.finish));
            steps.truncate(BEAM);
            let next = |(number, step): (usize, ChoiceCost)| {
                let mut state = states[number].clone();
                self.apply(node, &mut state, step);
                state
            };
            states = steps.into_iter().map(next).collect();
        }
        states.iter().map(|state| self.kernels * u128::from(state.length) + state.price).min()
    }

    /// All choices for a node whose lower bound is below the best cost.
    fn choices(&self, node: usize, state: &PartialChoice) -> Vec<ChoiceCost> {
        let is_last = node + 1 == self.nodes.len();
        let mut steps = Vec::new();
        for device in (0..self.options[0].len()).filter(|&device| !is_last || device == self.to) {
            for &option in &self.options[node][device] {
                steps.extend(self.evaluate(node, state, device, option));
            }
        }
        steps.retain(|step| self.best.is_none_or(|best| step.least < best));
        steps
    }

    /// What a choice comes to; none if a copy has no route, or the segment could not end.
    fn evaluate(
        &self,
        node: usize,
        state: &PartialChoice,
        device: usize,
        (work, cost): OpOption,
    ) -> Option<ChoiceCost> {
        let devices = self.options[0].len();
        let mut load = state.loads[device];
        let mut head = 0;
        for edge in &self.nodes[node].before {
            let pair = state.device[edge.node] * devices + device;
            if edge.delays[pair] == NEVER {
                return None;
            }
            head = head.max(state.finish[edge.node] + edge.delays[pair]);
            let known = state.copied[edge.node * devices + device];
            if edge.copies[pair] > known {
                load.work += edge.copies[pair] - known;
                load.head = load.head.min(state.finish[edge.node]);
            }
        }
        let tail = self.tails[node * devices + device];
        if tail == NEVER {
            return None;
        }
        load.work += work;
        load.head = load.head.min(head);
        load.tail = load.tail.min(tail);
        let finish = head + work;
        let length = state.length.max(finish + tail).max(load.head + load.work + load.tail);
        let price = state.price + cost;
        let least = self.kernels * u128::from(length) + price + self.rest[node + 1];
        Some(ChoiceCost { device, load, finish, price, length, least })
    }

    /// Makes a choice.
    fn apply(&self, node: usize, state: &mut PartialChoice, step: ChoiceCost) {
        let devices = self.options[0].len();
        for edge in &self.nodes[node].before {
            let copy = edge.copies[state.device[edge.node] * devices + step.device];
            let known = &mut state.copied[edge.node * devices + step.device];
            *known = copy.max(*known);
        }
        state.loads[step.device] = step.load;
        state.device[node] = step.device;
        state.finish[node] = step.finish;
        state.price = step.price;
        state.length = step.length;
    }

    /// Depth-first branch and bound from a node on.
    fn branch(&mut self, node: usize, state: &mut PartialChoice) {
        self.steps += 1;
        if node == self.nodes.len() {
            let cost = self.kernels * u128::from(state.length) + state.price;
            self.best = Some(self.best.map_or(cost, |best| best.min(cost)));
            return;
        }
        let devices = self.options[0].len();
        let mut steps = self.choices(node, state);
        steps.sort_by_key(|step| (step.least, step.finish));
        for step in steps {
            if self.best.is_some_and(|best| step.least >= best) {
                break;
            }
            if self.steps >= self.most_steps {
                // Sorted by lower bound: the others cost no less.
                self.abandoned = Some(self.abandoned.map_or(step.least, |least| least.min(step.least)));
                break;
            }
            let (load, price, length) = (state.loads[step.device], state.price, state.length);
            let slots = || self.nodes[node].before.iter().map(|edge| edge.node * devices + step.device);
            let copied: Vec<u64> = slots().map(|slot| state.copied[slot]).collect();
            let slots: Vec<usize> = slots().collect();
            self.apply(node, state, step);
            self.branch(node + 1, state);
            (state.loads[step.device], state.price, state.length) = (load, price, length);
            for (slot, copy) in slots.into_iter().zip(copied) {
                state.copied[slot] = copy;
            }
        }
    }
}

/// The bound of Lagrange multipliers over the segments of a chain.
pub(crate) fn proven(
    problem: &Problem,
    chain: &[OpId],
    shared: bool,
    prices: &SegmentPrices,
) -> Result<Time, String> {
    SegmentArgument::new(problem, chain.to_vec(), shared)?.proven(prices)
}
