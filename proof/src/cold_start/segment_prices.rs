//! What buses and kernels of a cold start cost together, segment by segment.
//!
//! A chain of ops d₀, d₁, … each of which leads to the next cuts the network: the ops behind dᵢ and before dᵢ₊₁ (with it) run
//! between the ends of the two, so the times of the segments add up. Prices for the links and for the kernels make one sum of
//! what a plan of value C does: no link carries more than C less what is behind the last load that counts, and the chain takes
//! no more than C less what is before and behind it. Given the prices, segments depend on each other only by the devices of
//! the chain, and a dynamic program over those adds up the least that each can cost.
//!
//! In a segment every op chooses a device, and where each of its (up to two largest) parameters lands, or to read in place.
//! That costs bus time at its price, and time of the kernel for what is forwarded. How long the segment then takes is at least
//! the longest path, with copies between devices on it; and for each device all that it does, copies to it included, behind the
//! first thing that could start there and before what must follow. A search over all choices finds the least sum; where it takes
//! too many steps, what could be least of what is left stands for it. Ops without a time of their own that look at one tensor
//! go along with it, and a copy is as large as the smallest tensor on its way. Parameters with several readers, memory and
//! tensors from elsewhere are left out. Segments that look the same are searched once.

use std::collections::HashMap;

use crate::cold_start::last_loads::LastLoadArgument;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::problem::{Contention, Objective, Problem};
use divvy_core::units::Time;

/// The most devices for which segments are searched.
pub const MOST_DEVICES: usize = 4;
/// The most ops in a segment, and steps of a search.
const MOST_NODES: usize = 80;
const MOST_STEPS: u64 = 1_000_000;
/// The most steps of all searches together, so that a check comes to its end.
const MOST_STEPS_IN_ALL: u64 = 100_000_000;
const MOST_PRICE: u64 = 1 << 24;

/// What the links and the kernels cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPrices {
    /// One for each link or bus.
    pub links: Vec<u64>,
    /// For the time of the chain.
    pub kernels: u64,
}

/// A network cut at a chain of ops.
pub struct SegmentArgument<'a> {
    problem: &'a Problem,
    loads: LastLoadArgument<'a>,
    chain: Vec<OpId>,
    parts: Vec<SegmentOps>,
    /// The least time from the last load or read that counts to the end of the plan.
    behind_loads: u64,
    /// The least time until the first op of the chain has run.
    head: u64,
}

/// The ops of a segment; the first node is the op that it begins behind.
struct SegmentOps {
    nodes: Vec<SegmentOp>,
}

struct SegmentOp {
    op: OpId,
    before: Vec<SegmentEdge>,
    /// Parameters that it alone reads, the largest ones.
    params: Vec<ParamId>,
}

/// What a node waits for.
struct SegmentEdge {
    node: usize,
    bytes: u64,
    /// Whether an op without a time of its own is on the way, which may be on a device of its own.
    viewed: bool,
    /// For each pair of devices, the time until it has arrived.
    delays: Vec<u64>,
    /// For each pair of devices, how long the second is busy with it.
    copies: Vec<u64>,
}

/// No way leads there.
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
        if !viewed {
            return SegmentEdge { node, bytes, viewed, delays: copies.clone(), copies };
        }
        // It may come by any devices; the last copy is from one of them.
        let mut delays = copies.clone();
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

/// A way to run an op on a device: time and price.
type OpOption = (u64, u128);

impl<'a> SegmentArgument<'a> {
    /// Cuts a network; fails where the ops are no chain.
    pub fn new(problem: &'a Problem, chain: Vec<OpId>) -> Result<SegmentArgument<'a>, String> {
        let graph = &problem.graph;
        if problem.hardware.device_count() > MOST_DEVICES {
            return Err(format!("segments are searched for up to {MOST_DEVICES} devices"));
        }
        if chain.is_empty() || chain.iter().any(|op| op.index() >= graph.op_count()) {
            return Err("the chain names no op, or one that does not exist".to_owned());
        }
        let loads = LastLoadArgument::new(problem)?;
        let mut parts = Vec::new();
        for pair in chain.windows(2) {
            parts.push(SegmentOps::new(problem, pair[0], pair[1])?);
        }
        let counted = parts.iter().flat_map(|part| &part.nodes[1..]).filter(|node| !node.params.is_empty());
        let behind_loads = counted.map(|node| loads.least_behind_end(node.op)).min().unwrap_or(0);
        let mut ends = vec![0u64; graph.op_count()];
        for &op in graph.order() {
            let before = graph.predecessors(op).map(|op| ends[op.index()]).max().unwrap_or(0);
            ends[op.index()] = before + problem.shortest_time(op).0;
        }
        let head = ends[chain[0].index()];
        Ok(SegmentArgument { problem, loads, chain, parts, behind_loads, head })
    }

    /// The chain.
    pub fn chain(&self) -> &[OpId] {
        &self.chain
    }

    /// What prices prove.
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
        for part in &self.parts {
            let ways = part.ways(self.problem, prices);
            let table =
                known.entry(part.looks(&ways)).or_insert_with(|| part.table(&ways, kernels, &mut left));
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
    fn new(problem: &Problem, from: OpId, to: OpId) -> Result<SegmentOps, String> {
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
        // For each op that belongs to a node: the node, and the smallest tensor on the way from there.
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
            params.retain(|&param| graph.readers(param).iter().all(|&reader| reader == op));
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

    /// For each node and device, the ways to run it that no other beats in time and price.
    fn ways(&self, problem: &Problem, prices: &SegmentPrices) -> Vec<Vec<Vec<OpOption>>> {
        let of = |node: &SegmentOp| problem.hardware.devices().map(|d| ways(problem, prices, node, d)).collect();
        self.nodes.iter().map(of).collect()
    }

    /// Everything that a search of it depends on but the hardware.
    fn looks(&self, ways: &[Vec<Vec<OpOption>>]) -> Vec<u128> {
        let mut looks = Vec::new();
        for (node, ways) in self.nodes.iter().zip(ways) {
            looks.push(node.before.len() as u128);
            looks.extend(node.before.iter().flat_map(|edge| {
                [edge.node as u128, u128::from(edge.bytes), u128::from(u8::from(edge.viewed))]
            }));
            for list in ways {
                looks.push(list.len() as u128);
                looks.extend(list.iter().flat_map(|&(time, price)| [u128::from(time), price]));
            }
        }
        looks
    }

    /// The least cost for each device before and each device at the end.
    fn table(&self, ways: &[Vec<Vec<OpOption>>], kernels: u128, left: &mut u64) -> Vec<Option<u128>> {
        let devices = ways[0].len();
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to)));
        let least = |pair| {
            let mut search = SegmentSearch::new(self, ways, kernels, pair, MOST_STEPS.min(*left));
            let least = search.least();
            *left = left.saturating_sub(search.steps);
            least
        };
        pairs.map(least).collect()
    }
}

/// The ways of one node on a device.
fn ways(problem: &Problem, prices: &SegmentPrices, node: &SegmentOp, device: DeviceId) -> Vec<OpOption> {
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
        let landings = problem.hardware.devices().filter_map(|via| {
            let (load, _) = problem.load_time(param, via)?;
            let forward =
                if via == device { Time::ZERO } else { problem.forward_time(param, via, device)? };
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

fn undominated(mut ways: Vec<OpOption>) -> Vec<OpOption> {
    ways.sort_unstable();
    let mut kept: Vec<OpOption> = Vec::new();
    for way in ways {
        if kept.last().is_none_or(|last| way.1 < last.1) {
            kept.push(way);
        }
    }
    kept
}

/// How many choices a first pass keeps; the better they are, the more the search can pass over.
const BEAM: usize = 24;

/// A search over all choices of a segment: a narrow pass for a good one, then all that could be better, depth first.
struct SegmentSearch<'s> {
    nodes: &'s [SegmentOp],
    ways: &'s [Vec<Vec<OpOption>>],
    kernels: u128,
    from: usize,
    to: usize,
    /// The least price of the nodes from each one on.
    rest: Vec<u128>,
    /// For each node and device, the least time from its end there to the end of the segment.
    tails: Vec<u64>,
    best: Option<u128>,
    /// The least that anything could cost that was not looked at for want of steps.
    abandoned: Option<u128>,
    steps: u64,
    most_steps: u64,
}

/// Choices for the first nodes.
#[derive(Clone)]
struct PartialChoice {
    device: Vec<usize>,
    finish: Vec<u64>,
    /// For each node and device, the time of its copy there so far.
    copied: Vec<u64>,
    busy: Vec<Busy>,
    price: u128,
    takes: u64,
}

/// What a device does so far.
#[derive(Clone, Copy)]
struct Busy {
    work: u64,
    head: u64,
    tail: u64,
}

/// What one more choice comes to.
#[derive(Clone, Copy)]
struct ChoiceCost {
    device: usize,
    busy: Busy,
    finish: u64,
    price: u128,
    takes: u64,
    /// What the whole costs at least.
    least: u128,
}

impl<'s> SegmentSearch<'s> {
    fn new(
        part: &'s SegmentOps,
        ways: &'s [Vec<Vec<OpOption>>],
        kernels: u128,
        (from, to): (usize, usize),
        most_steps: u64,
    ) -> SegmentSearch<'s> {
        let devices = ways[0].len();
        let count = part.nodes.len();
        let mut rest = vec![0u128; count + 1];
        // Until a node behind says more.
        let mut tails = vec![0u64; count * devices];
        for device in (0..devices).filter(|&device| device != to) {
            tails[(count - 1) * devices + device] = NEVER;
        }
        for node in (1..count).rev() {
            let least = ways[node].iter().flatten().map(|&(_, price)| price).min().unwrap_or(0);
            rest[node] = rest[node + 1] + least;
            let through: Vec<u64> = (0..devices)
                .map(|d| {
                    let shortest = ways[node][d].iter().map(|&(time, _)| time).min();
                    shortest.map_or(NEVER, |time| time.saturating_add(tails[node * devices + d]))
                })
                .collect();
            for edge in &part.nodes[node].before {
                for d in 0..devices {
                    let ends = (0..devices).map(|e| edge.delays[d * devices + e].saturating_add(through[e]));
                    let tail = &mut tails[edge.node * devices + d];
                    *tail = ends.min().unwrap_or(NEVER).max(*tail);
                }
            }
        }
        let nodes = &part.nodes;
        let (best, abandoned) = (None, None);
        SegmentSearch { nodes, ways, kernels, from, to, rest, tails, best, abandoned, steps: 0, most_steps }
    }

    /// The least cost; what certainly is no more than it, where that takes too long.
    fn least(&mut self) -> Option<u128> {
        let (devices, count) = (self.ways[0].len(), self.nodes.len());
        let path = self.tails[self.from];
        if path == NEVER {
            return None;
        }
        let mut state = PartialChoice {
            device: vec![self.from; count],
            finish: vec![0; count],
            copied: vec![0; count * devices],
            busy: vec![Busy { work: 0, head: NEVER, tail: NEVER }; devices],
            price: 0,
            takes: path,
        };
        self.best = self.narrow(state.clone());
        self.go_on(1, &mut state);
        self.best.into_iter().chain(self.abandoned).min()
    }

    /// A good choice, keeping a few at each node.
    fn narrow(&mut self, first: PartialChoice) -> Option<u128> {
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
        states.iter().map(|state| self.kernels * u128::from(state.takes) + state.price).min()
    }

    /// Everything that can be chosen for a node, but for what is no better than the best.
    fn choices(&self, node: usize, state: &PartialChoice) -> Vec<ChoiceCost> {
        let is_last = node + 1 == self.nodes.len();
        let mut steps = Vec::new();
        for device in (0..self.ways[0].len()).filter(|&device| !is_last || device == self.to) {
            for &way in &self.ways[node][device] {
                steps.extend(self.look(node, state, device, way));
            }
        }
        steps.retain(|step| self.best.is_none_or(|best| step.least < best));
        steps
    }

    fn look(&self, node: usize, state: &PartialChoice, device: usize, (work, cost): OpOption) -> Option<ChoiceCost> {
        let devices = self.ways[0].len();
        let mut busy = state.busy[device];
        let mut head = 0;
        for edge in &self.nodes[node].before {
            let pair = state.device[edge.node] * devices + device;
            if edge.delays[pair] == NEVER {
                return None;
            }
            head = head.max(state.finish[edge.node] + edge.delays[pair]);
            let known = state.copied[edge.node * devices + device];
            if edge.copies[pair] > known {
                busy.work += edge.copies[pair] - known;
                busy.head = busy.head.min(state.finish[edge.node]);
            }
        }
        let tail = self.tails[node * devices + device];
        if tail == NEVER {
            return None;
        }
        busy.work += work;
        busy.head = busy.head.min(head);
        busy.tail = busy.tail.min(tail);
        let finish = head + work;
        let takes = state.takes.max(finish + tail).max(busy.head + busy.work + busy.tail);
        let price = state.price + cost;
        let least = self.kernels * u128::from(takes) + price + self.rest[node + 1];
        Some(ChoiceCost { device, busy, finish, price, takes, least })
    }

    fn apply(&self, node: usize, state: &mut PartialChoice, step: ChoiceCost) {
        let devices = self.ways[0].len();
        for edge in &self.nodes[node].before {
            let copy = edge.copies[state.device[edge.node] * devices + step.device];
            let known = &mut state.copied[edge.node * devices + step.device];
            *known = copy.max(*known);
        }
        state.busy[step.device] = step.busy;
        state.device[node] = step.device;
        state.finish[node] = step.finish;
        state.price = step.price;
        state.takes = step.takes;
    }

    fn go_on(&mut self, node: usize, state: &mut PartialChoice) {
        self.steps += 1;
        if node == self.nodes.len() {
            let cost = self.kernels * u128::from(state.takes) + state.price;
            self.best = Some(self.best.map_or(cost, |best| best.min(cost)));
            return;
        }
        let devices = self.ways[0].len();
        let mut steps = self.choices(node, state);
        steps.sort_by_key(|step| (step.least, step.finish));
        for step in steps {
            if self.best.is_some_and(|best| step.least >= best) {
                break;
            }
            if self.steps >= self.most_steps {
                // The others cost no less.
                self.abandoned = Some(self.abandoned.map_or(step.least, |least| least.min(step.least)));
                break;
            }
            let (busy, price, takes) = (state.busy[step.device], state.price, state.takes);
            let slots = || self.nodes[node].before.iter().map(|edge| edge.node * devices + step.device);
            let copied: Vec<u64> = slots().map(|slot| state.copied[slot]).collect();
            let slots: Vec<usize> = slots().collect();
            self.apply(node, state, step);
            self.go_on(node + 1, state);
            (state.busy[step.device], state.price, state.takes) = (busy, price, takes);
            for (slot, copy) in slots.into_iter().zip(copied) {
                state.copied[slot] = copy;
            }
        }
    }
}

/// What prices prove of a chain.
pub(crate) fn proven(problem: &Problem, chain: &[OpId], prices: &SegmentPrices) -> Result<Time, String> {
    SegmentArgument::new(problem, chain.to_vec())?.proven(prices)
}
