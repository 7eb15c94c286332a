//! Annealing of blocks: which device runs which stretch of a topological sequence of ops.
//!
//! A state is a topological sequence and a device for every op. Neighbours in the sequence on one device are run as one piece, if
//! pieces cost anything; else every op is one. A value that another device reads is sent when its piece ends; where links are used
//! in turn, transfers queue in the order of the sequence. Evaluated from this definition in one pass, linear in ops and
//! transfers, it is what `core` makes of the plan.
//!
//! A move gives a stretch of the sequence to a device, shifts a stretch to another place, or both; a colocation group changes its
//! device as a whole. Memory limits are kept. A worse state is accepted as in simulated annealing.

use std::collections::HashMap;

use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::plan::Plan;
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::memory_use::MemoryUse;
use crate::latency::placement_units::PlacementUnits;

/// The longest stretch of a move, as a part of all ops, and in any case.
const LONGEST: (usize, usize) = (4, 64);
/// First and last temperature, as parts of the start's value.
const TEMPERATURES: (f64, f64) = (3e-3, 3e-5);
/// After how many moves without a new best state the search returns to the best.
const PATIENCE: u64 = 4_000;

/// A tensor that is made by an op or given.
struct Value {
    producer: Option<u32>,
    readers: Vec<u32>,
    is_output: bool,
}

/// A problem as plain numbers.
pub(crate) struct BlockTables<'a> {
    problem: &'a Problem,
    devices: usize,
    /// By op and device; `u64::MAX` where it may not run.
    times: Vec<u64>,
    calls: Vec<u64>,
    in_turn: bool,
    values: Vec<Value>,
    /// By op, the values that it reads, each once, and those that it makes.
    read: Vec<Vec<u32>>,
    made: Vec<Vec<u32>>,
    /// By op, the ops that it reads from, and those that read from it.
    before: Vec<Vec<u32>>,
    after: Vec<Vec<u32>>,
    /// By value and pair of devices; `u64::MAX` without a route.
    travel: Vec<u64>,
    /// By pair of devices, the links that a transfer holds, where that matters.
    media: Vec<Vec<u32>>,
    links: usize,
    input_at: Option<usize>,
    output_at: Option<usize>,
    units: PlacementUnits,
    memory: MemoryUse,
}

impl<'a> BlockTables<'a> {
    /// The most figures of travel that are kept.
    const MOST_TRAVELS: usize = 20_000_000;

    /// None where the tables would be too large, or the objective is another.
    pub(crate) fn new(problem: &'a Problem) -> Option<BlockTables<'a>> {
        let Objective::Latency { links } = problem.objective else { return None };
        let graph = &problem.graph;
        let devices = problem.hardware.device_count();
        if graph.tensor_count() * devices * devices > Self::MOST_TRAVELS {
            return None;
        }
        let tables = LatencyTables::new(problem).ok()?;
        let units = PlacementUnits::new(problem, &tables);
        let memory = MemoryUse::new(problem, &units);
        let mut times = vec![u64::MAX; graph.op_count() * devices];
        for op in graph.ops() {
            for &device in units.choices(units.of(op.index())) {
                times[op.index() * devices + device as usize] = problem.time(op, DeviceId(device))?.0;
            }
        }
        let distinct = |ids: &mut Vec<u32>| {
            ids.sort_unstable();
            ids.dedup();
        };
        let of_ops = |list: &dyn Fn(OpId) -> Vec<u32>| -> Vec<Vec<u32>> {
            let one = |op| {
                let mut ids = list(op);
                distinct(&mut ids);
                ids
            };
            graph.ops().map(one).collect()
        };
        let value = |tensor: TensorId| Value {
            producer: graph.producer(tensor).map(|op| op.0),
            readers: graph.consumers(tensor).iter().map(|op| op.0).collect(),
            is_output: graph.is_output(tensor),
        };
        let mut travel = Vec::with_capacity(graph.tensor_count() * devices * devices);
        for tensor in graph.tensors() {
            for from in problem.hardware.devices() {
                for to in problem.hardware.devices() {
                    let route = problem.hardware.route(from, to);
                    let time = route.map(|route| route.time(graph.tensor_bytes(tensor)).0);
                    travel.push(if from == to { 0 } else { time.unwrap_or(u64::MAX) });
                }
            }
        }
        let media = |from, to| -> Vec<u32> {
            let route = problem.hardware.route(from, to).filter(|_| from != to && links == LinkUse::InTurn);
            route.map_or(Vec::new(), |route| route.media().map(|link| link.0).collect())
        };
        let pairs =
            || problem.hardware.devices().flat_map(|a| problem.hardware.devices().map(move |b| (a, b)));
        Some(BlockTables {
            problem,
            devices,
            times,
            calls: problem.hardware.devices().map(|device| problem.piece_cost(device).0).collect(),
            in_turn: links == LinkUse::InTurn,
            values: graph.tensors().map(value).collect(),
            read: of_ops(&|op| graph.inputs(op).iter().map(|t| t.0).collect()),
            made: of_ops(&|op| graph.outputs(op).iter().map(|t| t.0).collect()),
            before: of_ops(&|op| graph.predecessors(op).map(|op| op.0).collect()),
            after: of_ops(&|op| graph.successors(op).map(|op| op.0).collect()),
            travel,
            media: pairs().map(|(from, to)| media(from, to)).collect(),
            links: problem.hardware.links().len(),
            input_at: problem.constraints.input_at.map(|device| device.index()),
            output_at: problem.constraints.output_at.map(|device| device.index()),
            units,
            memory,
        })
    }

    fn travel(&self, value: u32, from: usize, to: usize) -> u64 {
        self.travel[(value as usize * self.devices + from) * self.devices + to]
    }
}

/// A state under annealing, and the best so far.
pub(crate) struct Blocks<'t, 'a> {
    tables: &'t BlockTables<'a>,
    sequence: Vec<u32>,
    device_of: Vec<u32>,
    place: Vec<u32>,
    memory: MemoryUse,
    value: u64,
    pub(crate) best: u64,
    best_state: (Vec<u32>, Vec<u32>),
    rng: Rng,
    /// Scratch of the evaluation: when values are where, and when links and devices are free.
    there: Vec<u64>,
    free: Vec<u64>,
    link_free: Vec<u64>,
    targets: Vec<u32>,
}

/// What undoes a move.
struct Undo {
    sequence: Vec<u32>,
    from: usize,
    devices: Vec<(usize, u32)>,
}

impl<'t, 'a> Blocks<'t, 'a> {
    /// Starts at a plan that has passed the check; `starts` are those of its ops. None if it breaks a limit of the tables.
    pub(crate) fn new(
        tables: &'t BlockTables<'a>,
        device_of: &[DeviceId],
        starts: &[u64],
        seed: u64,
    ) -> Option<Blocks<'t, 'a>> {
        let graph = &tables.problem.graph;
        let mut sequence: Vec<u32> = graph.order().iter().map(|op| op.0).collect();
        sequence.sort_by_key(|&op| (starts[op as usize], graph.position(OpId(op))));
        // Ops of no time may start with those that they read from.
        let sequence = topological(tables, &sequence);
        let device_of: Vec<u32> = device_of.iter().map(|device| device.0).collect();
        let mut memory = tables.memory.clone();
        for unit in 0..tables.units.len() {
            memory.put(unit, device_of[tables.units.members(unit)[0] as usize]);
        }
        let mut blocks = Blocks {
            tables,
            place: vec![0; sequence.len()],
            best_state: (sequence.clone(), device_of.clone()),
            sequence,
            device_of,
            memory,
            value: 0,
            best: 0,
            rng: Rng::new(seed),
            there: vec![0; tables.values.len() * tables.devices],
            free: vec![0; tables.devices],
            link_free: vec![0; tables.links],
            targets: Vec::new(),
        };
        blocks.number(0, blocks.sequence.len());
        blocks.value = blocks.evaluate()?;
        blocks.best = blocks.value;
        Some(blocks)
    }

    fn number(&mut self, from: usize, to: usize) {
        for i in from..to {
            self.place[self.sequence[i] as usize] = i as u32;
        }
    }

    /// When the plan ends; none if something cannot be sent.
    fn evaluate(&mut self) -> Option<u64> {
        let tables = self.tables;
        let has_calls = tables.calls.iter().any(|&call| call > 0);
        self.free.fill(0);
        self.link_free.fill(0);
        let mut end = 0;
        if let Some(from) = tables.input_at {
            for value in 0..tables.values.len() as u32 {
                if tables.values[value as usize].producer.is_none() {
                    end = end.max(self.send(value, from, 0)?);
                }
            }
        }
        let mut i = 0;
        while i < self.sequence.len() {
            let device = self.device_of[self.sequence[i] as usize] as usize;
            let mut last = i + 1;
            while has_calls
                && last < self.sequence.len()
                && self.device_of[self.sequence[last] as usize] as usize == device
            {
                last += 1;
            }
            let mut start = self.free[device];
            let mut work = tables.calls[device];
            for at in i..last {
                let op = self.sequence[at] as usize;
                work += tables.times[op * tables.devices + device];
                for &value in &tables.read[op] {
                    let there = match tables.values[value as usize].producer {
                        Some(maker) if self.place[maker as usize] as usize >= i => continue,
                        None if tables.input_at.is_none() => continue,
                        _ => self.there[value as usize * tables.devices + device],
                    };
                    start = start.max(there);
                }
            }
            let over = start + work;
            self.free[device] = over;
            end = end.max(over);
            for at in i..last {
                let op = self.sequence[at] as usize;
                for k in 0..tables.made[op].len() {
                    let value = tables.made[op][k];
                    end = end.max(self.send(value, device, over)?);
                }
            }
            i = last;
        }
        Some(end)
    }

    /// Sends a value from where it is made to every device that needs it; the last arrival.
    fn send(&mut self, value: u32, from: usize, made: u64) -> Option<u64> {
        let tables = self.tables;
        let Value { readers, is_output, .. } = &tables.values[value as usize];
        self.there[value as usize * tables.devices + from] = made;
        self.targets.clear();
        for &reader in readers {
            let to = self.device_of[reader as usize];
            if to as usize != from && !self.targets.contains(&to) {
                self.targets.push(to);
            }
        }
        let out = tables.output_at.filter(|&to| *is_output && to != from).map(|to| to as u32);
        self.targets.extend(out.filter(|to| !self.targets.contains(to)));
        if tables.in_turn {
            self.targets.sort_unstable();
        }
        let mut last = made;
        for i in 0..self.targets.len() {
            let to = self.targets[i] as usize;
            let time = tables.travel(value, from, to);
            if time == u64::MAX {
                return None;
            }
            let media = &tables.media[from * tables.devices + to];
            let start = media.iter().map(|&link| self.link_free[link as usize]).fold(made, u64::max);
            media.iter().for_each(|&link| self.link_free[link as usize] = start + time);
            self.there[value as usize * tables.devices + to] = start + time;
            last = last.max(start + time);
        }
        Some(last)
    }

    /// Anneals until `is_over`, which is told how many states were evaluated and gives the share of the time that is used, or none
    /// at the end. `better` hears of every new best state.
    pub(crate) fn anneal(
        &mut self,
        is_over: &mut dyn FnMut(u64) -> Option<f64>,
        better: &mut dyn FnMut(&Blocks<'_, '_>) -> bool,
    ) {
        let scale = self.value as f64;
        let (hot, cold) = TEMPERATURES;
        let (mut count, mut since) = (0u64, 0u64);
        while let Some(progress) = is_over(count) {
            count += 1;
            let temperature = scale * hot * (cold / hot).powf(progress);
            let Some(undo) = self.random_move() else { continue };
            let limit = self.value + (-temperature * (1.0 - self.rng.unit()).ln()) as u64;
            match self.evaluate().filter(|&value| value <= limit) {
                None => self.undo(&undo),
                Some(value) => {
                    self.value = value;
                    if value < self.best {
                        self.best = value;
                        self.best_state = (self.sequence.clone(), self.device_of.clone());
                        since = 0;
                        if !better(self) {
                            return;
                        }
                    }
                }
            }
            since += 1;
            if since > PATIENCE.max(20 * self.sequence.len() as u64) {
                since = 0;
                self.return_to_best();
            }
        }
    }

    fn return_to_best(&mut self) {
        let (sequence, device_of) = self.best_state.clone();
        for unit in 0..self.tables.units.len() {
            let op = self.tables.units.members(unit)[0] as usize;
            self.memory.take(unit, self.device_of[op]);
            self.memory.put(unit, device_of[op]);
        }
        (self.sequence, self.device_of, self.value) = (sequence, device_of, self.best);
        self.number(0, self.sequence.len());
    }

    /// A stretch of the sequence: mostly short.
    fn stretch(&mut self) -> (usize, usize) {
        let ops = self.sequence.len();
        let longest = (ops / LONGEST.0).max(LONGEST.1).min(ops);
        let mut length = 1;
        while length < longest && self.rng.chance(0.6) {
            length = (length * 2).min(longest);
        }
        let length = 1 + self.rng.below(length);
        let from = self.rng.below(ops - length + 1);
        (from, from + length)
    }

    /// Makes a move; none if it came to nothing.
    fn random_move(&mut self) -> Option<Undo> {
        let (from, to) = self.stretch();
        let mut undo = Undo { sequence: Vec::new(), from: 0, devices: Vec::new() };
        let kind = self.rng.below(10);
        if kind < 7 {
            let first = self.sequence[from] as usize;
            let choices = self.tables.units.choices(self.tables.units.of(first));
            let device = *self.rng.pick(choices);
            self.give(from, to, device, &mut undo);
        }
        if kind >= 5 {
            self.shift(from, to, &mut undo);
        }
        let over = |undo: &Undo| {
            undo.devices.iter().any(|&(unit, _)| {
                let op = self.tables.units.members(unit)[0] as usize;
                self.memory.excess(self.device_of[op]) > 0
            })
        };
        if undo.devices.is_empty() && undo.sequence.is_empty() || over(&undo) {
            self.undo(&undo);
            return None;
        }
        Some(undo)
    }

    /// Gives all units with an op in a stretch to a device that may run them.
    fn give(&mut self, from: usize, to: usize, device: u32, undo: &mut Undo) {
        let units = &self.tables.units;
        for at in from..to {
            let op = self.sequence[at] as usize;
            let unit = units.of(op);
            let before = self.device_of[op];
            if before == device || !units.choices(unit).contains(&device) {
                continue;
            }
            undo.devices.push((unit, before));
            self.memory.take(unit, before);
            self.memory.put(unit, device);
            units.members(unit).iter().for_each(|&op| self.device_of[op as usize] = device);
        }
    }

    /// Shifts a stretch to some place where it may be.
    fn shift(&mut self, from: usize, to: usize, undo: &mut Undo) {
        let tables = self.tables;
        let ops = &self.sequence[from..to];
        // Behind the last op that the stretch reads from, before the first that reads from it.
        let inside = |op: &u32| (from..to).contains(&(self.place[*op as usize] as usize));
        let places = |lists: &[Vec<u32>]| -> Vec<usize> {
            let others = ops.iter().flat_map(|&op| &lists[op as usize]).filter(|op| !inside(op));
            others.map(|&op| self.place[op as usize] as usize).collect()
        };
        let least = places(&tables.before).into_iter().max().map_or(0, |place| place + 1);
        let most = places(&tables.after).into_iter().min().unwrap_or(self.sequence.len());
        if least > from || most < to || most - least == to - from {
            return;
        }
        let length = to - from;
        let target = least + self.rng.below(most - least - length + 1);
        if target == from {
            return;
        }
        let (first, last) = (target.min(from), (target + length).max(to));
        undo.sequence = self.sequence[first..last].to_vec();
        undo.from = first;
        if target < from {
            self.sequence[target..to].rotate_right(length);
        } else {
            self.sequence[from..target + length].rotate_left(length);
        }
        self.number(first, last);
    }

    fn undo(&mut self, undo: &Undo) {
        let units = &self.tables.units;
        for &(unit, device) in undo.devices.iter().rev() {
            let members = units.members(unit);
            self.memory.take(unit, self.device_of[members[0] as usize]);
            self.memory.put(unit, device);
            members.iter().for_each(|&op| self.device_of[op as usize] = device);
        }
        let last = undo.from + undo.sequence.len();
        self.sequence[undo.from..last].copy_from_slice(&undo.sequence);
        self.number(undo.from, last);
    }

    /// The plan of the present state.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let problem = self.tables.problem;
        let device_of: Vec<DeviceId> = self.device_of.iter().map(|&device| DeviceId(device)).collect();
        let sequence: Vec<OpId> = self.sequence.iter().map(|&op| OpId(op)).collect();
        let mut plan = default_plan::plan_in_order(problem, &device_of, &sequence).ok()?;
        if let (Plan::Latency(plan), true) = (&mut plan, problem.has_piece_costs()) {
            let mut cuts = vec![Vec::new(); self.tables.devices];
            let mut listed = vec![0; self.tables.devices];
            for (i, op) in sequence.iter().enumerate() {
                let device = device_of[op.index()].index();
                let follows = i > 0 && device_of[sequence[i - 1].index()].index() == device;
                if listed[device] > 0 && !follows {
                    cuts[device].push(listed[device]);
                }
                listed[device] += 1;
            }
            plan.cuts = Some(cuts);
        }
        Some(plan)
    }
}

/// The same ops, none before one that it reads from, else in this order.
fn topological(tables: &BlockTables<'_>, sequence: &[u32]) -> Vec<u32> {
    let rank: HashMap<u32, usize> = sequence.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    let mut waiting: Vec<usize> = tables.before.iter().map(Vec::len).collect();
    let mut ready: std::collections::BTreeSet<(usize, u32)> =
        sequence.iter().filter(|&&op| waiting[op as usize] == 0).map(|&op| (rank[&op], op)).collect();
    let mut order = Vec::with_capacity(sequence.len());
    while let Some((_, op)) = ready.pop_first() {
        order.push(op);
        for &next in &tables.after[op as usize] {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                ready.insert((rank[&next], next));
            }
        }
    }
    order
}
