//! SortingHat's mixed-integer program (1)–(23) for one submodel, on HiGHS.
//!
//! Each device has q slots: odd ones run their pieces in place (direct host access), even ones with loaded weights. Binary x
//! says in which slot a piece runs, and in which slot its weights are loaded (slot 0: not at all, they are read in place). The
//! slots of a device run in turn; the slots of a bus load in turn, round-robin over its devices. The state carried on is that of
//! the paper's table 1: when each bus and device is free, where earlier pieces and weights are, and the memory in use.
//!
//! Nodes are pieces, as TVM fuses ops, and the weights of a piece are one node. Deviations from the text: (6)–(8) are left out,
//! since the timing rows imply them; (5) ties weights to their one reader, which is a piece here; a copy is charged once for
//! each slot, as in (10); the sum of (14) ranges over weights alone; an in-place read holds the bus in its slot's turn, unless
//! contention is the paper's; the ends of loads have a small coefficient in the objective, which otherwise ignores the backlog
//! that a submodel leaves on the buses. The big-M constant is four times the value of the single-device solution plus its
//! work and loads.

use std::ops::ControlFlow;
use std::time::Duration;

use divvy_solver::{Column, Event, Options, Program, Solver, Status, solve_watched};

use crate::budget::Budget;
use crate::cold_start::choices::PieceChoice;
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cpu_time::Stopwatch;

/// What the program models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubmodelSettings {
    /// Slots of each device, a multiple of 2.
    pub(crate) slots: usize,
    /// Dominators in each submodel.
    pub(crate) dominators: usize,
    /// The most processor time for each submodel. Not wall-clock time, so that results do not depend on other load.
    pub(crate) time: Duration,
    /// Whether weights may land on other devices and be forwarded, or be read in place.
    pub(crate) data_parallel: bool,
    /// Whether a submodel starts from the state that those before it leave.
    pub(crate) carries_state: bool,
    /// Whether devices share their buses; else each has a bus of its own.
    pub(crate) shares_buses: bool,
    /// Whether times and copies differ between devices; else they are averages.
    pub(crate) knows_topology: bool,
}

/// The state carried on from one submodel to the next.
#[derive(Clone)]
pub(crate) struct CarriedState {
    /// By bus, when it is free.
    pub(crate) buses: Vec<f64>,
    /// By device, when it is free.
    pub(crate) devices: Vec<f64>,
    /// By device, bytes held.
    pub(crate) memory: Vec<f64>,
    /// By piece, its device once it is decided.
    pub(crate) placed: Vec<Option<usize>>,
    /// By bundle, the device it was loaded to.
    pub(crate) landed: Vec<Option<usize>>,
}

/// The bus of each device, and the number of buses.
pub(crate) fn bus_of(pieces: &Pieces, settings: &SubmodelSettings) -> (Vec<usize>, usize) {
    let mut known: Vec<usize> = Vec::new();
    let mut bus = Vec::with_capacity(pieces.devices);
    for device in 0..pieces.devices {
        let sharing = |link: &usize| pieces.load_links.iter().filter(|media| media.contains(link)).count();
        let link = pieces.load_links[device].iter().max_by_key(|&link| sharing(link)).copied();
        let key = link.filter(|_| settings.shares_buses).unwrap_or(usize::MAX - device);
        bus.push(known.iter().position(|&other| other == key).unwrap_or_else(|| {
            known.push(key);
            known.len() - 1
        }));
    }
    (bus, known.len())
}

/// The decisions for a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceDecision {
    pub(crate) piece: usize,
    pub(crate) choice: PieceChoice,
    /// The start of its slot.
    pub(crate) start: f64,
    /// The position of its loading slot in the order of the bus.
    pub(crate) turn: usize,
}

/// The program of one submodel, before it is written.
pub(crate) struct SubmodelProgram<'a> {
    pieces: &'a Pieces,
    settings: &'a SubmodelSettings,
    carried: &'a CarriedState,
    /// The pieces of the submodel.
    ops: &'a [usize],
    /// The devices that take part: those with a bus.
    devices: Vec<usize>,
    bus: Vec<usize>,
    /// By op, its weights that have not landed: bytes, and the load time to each device that takes part.
    weights: Vec<Option<(f64, Vec<f64>)>>,
    /// Picoseconds for each unit of time in the program.
    unit: f64,
}

/// The program and its columns.
struct Columns {
    total: Column,
    /// By op and slot, from slot 1 on: whether it runs there.
    runs: Vec<Vec<Option<Column>>>,
    /// By op with weights and slot, from slot 0 on: whether they are loaded there.
    loads: Vec<Vec<Option<Column>>>,
    /// By slot.
    starts: Vec<Column>,
    ends: Vec<Column>,
    load_ends: Vec<Column>,
    program: Program,
}

impl<'a> SubmodelProgram<'a> {
    pub(crate) fn new(
        pieces: &'a Pieces,
        settings: &'a SubmodelSettings,
        carried: &'a CarriedState,
        ops: &'a [usize],
    ) -> SubmodelProgram<'a> {
        let devices: Vec<usize> = (0..pieces.devices).filter(|&d| pieces.has_bus[d]).collect();
        let weights = ops.iter().map(|&op| {
            let piece = &pieces.pieces[op];
            let own = piece.first_bundles.iter().chain(&piece.other_bundles);
            let own: Vec<usize> = own.copied().filter(|&bundle| carried.landed[bundle].is_none()).collect();
            let bytes = own.iter().map(|&bundle| pieces.bundles[bundle].bytes).sum();
            let load = |&device: &usize| own.iter().map(|&bundle| pieces.bundles[bundle].loads[device]).sum();
            (!own.is_empty()).then(|| (bytes, devices.iter().map(load).collect()))
        });
        let weights: Vec<_> = weights.collect();
        let longest = (weights.iter().flatten()).flat_map(|(_, loads): &(f64, Vec<f64>)| loads.clone());
        let unit = longest.fold(1e6, f64::max) / 10.0;
        let (bus, _) = bus_of(pieces, settings);
        SubmodelProgram { pieces, settings, carried, ops, devices, bus, weights, unit }
    }

    fn slot_count(&self) -> usize {
        self.devices.len() * self.settings.slots
    }

    /// The device of a slot, as an index into `devices`.
    fn device_of(&self, slot: usize) -> usize {
        (slot - 1) / self.settings.slots
    }

    fn reads_in_place(slot: usize) -> bool {
        slot % 2 == 1
    }

    /// The time of an op in a slot; none if it must not run there.
    fn time(&self, op: usize, slot: usize) -> Option<f64> {
        let piece = &self.pieces.pieces[self.ops[op]];
        let on = |device: usize| {
            let in_place = Self::reads_in_place(slot);
            let longer = match piece.in_place[device].filter(|_| in_place) {
                Some((longer, _)) => longer,
                None if in_place => return None,
                None => 0.0,
            };
            piece.devices.contains(&device).then(|| (piece.times[device] + longer) / self.unit)
        };
        let own = on(self.devices[self.device_of(slot)])?;
        if self.settings.knows_topology {
            return Some(own);
        }
        let all: Vec<f64> = self.devices.iter().filter_map(|&device| on(device)).collect();
        Some(all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The time of a copy between devices that take part.
    fn copy(&self, bytes: f64, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let time = |a: usize, b: usize| self.pieces.copy(bytes, self.devices[a], self.devices[b]) / self.unit;
        if self.settings.knows_topology {
            return time(from, to);
        }
        let count = self.devices.len();
        let pairs = (0..count).flat_map(|a| (0..count).filter(move |&b| b != a).map(move |b| (a, b)));
        let times: Vec<f64> = pairs.map(|(a, b)| time(a, b)).filter(|&time| time < NEVER).collect();
        times.iter().sum::<f64>() / times.len().max(1) as f64
    }

    /// By slot, the slot that loads before it on the same bus.
    fn turns(&self) -> Vec<Option<usize>> {
        let mut before = vec![None; self.slot_count() + 1];
        let mut last: Vec<Option<usize>> = vec![None; self.pieces.devices];
        for round in 0..self.settings.slots {
            for device in 0..self.devices.len() {
                let slot = device * self.settings.slots + round + 1;
                let bus = self.bus[self.devices[device]];
                before[slot] = last[bus].replace(slot);
            }
        }
        before
    }

    /// The best single device for all pieces with loaded weights, and its value.
    fn best_single_device(&self) -> Option<(usize, f64)> {
        let finish = |device: usize| {
            let slot = device * self.settings.slots + 2;
            let mut work = 0.0;
            let mut load = 0.0;
            for op in 0..self.ops.len() {
                work += self.time(op, slot)?;
                load += self.weights[op].as_ref().map_or(0.0, |(_, loads)| loads[device]) / self.unit;
            }
            let real = self.devices[device];
            let free = (self.carried.buses[self.bus[real]] / self.unit + load)
                .max(self.carried.devices[real] / self.unit);
            Some((device, free + work))
        };
        (0..self.devices.len()).filter_map(finish).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The best decisions within the processor time of the settings and `clock` of wall-clock time, starting from those of the
    /// best single device; none if no device may run all pieces.
    pub(crate) fn solve(&self, budget: &Budget, clock: Duration) -> Option<Vec<PieceDecision>> {
        let (start_device, start_value) = self.best_single_device()?;
        let work: f64 =
            (0..self.ops.len()).filter_map(|op| self.time(op, start_device * self.settings.slots + 2)).sum();
        let load: f64 = self.weights.iter().flatten().map(|(_, loads)| loads[start_device]).sum();
        let carried = self.carried.buses.iter().chain(&self.carried.devices).copied().fold(0.0, f64::max);
        let horizon = 4.0 * (start_value + work + (load + carried) / self.unit) + 100.0;
        let columns = self.formulate(horizon);
        let options =
            Options { time: clock, threads: 1, seed: budget.seed, nodes: budget.nodes, ..Options::default() };
        // The starting solution has everything in the first even slot; a linear program completes the continuous columns.
        let slot = start_device * self.settings.slots + 2;
        let mut fixed: Vec<(Column, f64)> = Vec::new();
        for op in 0..self.ops.len() {
            let pairs = columns.runs[op].iter().enumerate().chain(columns.loads[op].iter().enumerate());
            fixed
                .extend(pairs.filter_map(|(at, column)| Some(((*column)?, f64::from(u8::from(at == slot))))));
        }
        let start = self.complete(&columns, &fixed, &options);
        let stopwatch = Stopwatch::start();
        let mut watch = |_: Event| {
            let over = stopwatch.elapsed() >= self.settings.time || budget.is_cancelled();
            if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let solved = solve_watched(&columns.program, &options, start.as_deref(), &mut watch);
        let solution = solved.ok().filter(|solution| solution.status != Status::Infeasible);
        // If the starting solution could not be completed, the solver's may be worse.
        let most = if start.is_some() { f64::INFINITY } else { start_value };
        let values = solution.and_then(|solution| solution.best).map(|(_, values)| values).or(start);
        match values.filter(|values| values[columns.total.index()] <= most) {
            Some(values) => self.decisions(&columns, &values),
            None => Some(self.single_device_decisions(start_device)),
        }
    }

    /// All pieces on one device, weights over its own bus in the order of the network.
    fn single_device_decisions(&self, device: usize) -> Vec<PieceDecision> {
        let real = self.devices[device];
        let decide = |&piece: &usize| {
            let bundles = &self.pieces.pieces[piece].first_bundles;
            let landed = bundles.iter().find_map(|&bundle| self.carried.landed[bundle]);
            let via = landed.unwrap_or(real);
            let choice = PieceChoice { device: real as u16, via: via as u16, in_place: false };
            PieceDecision { piece, choice, start: 0.0, turn: 0 }
        };
        self.ops.iter().map(decide).collect()
    }

    /// Values of all columns with some of them fixed, by the linear relaxation.
    fn complete(&self, columns: &Columns, fixed: &[(Column, f64)], options: &Options) -> Option<Vec<f64>> {
        let mut program = columns.program.clone();
        fixed.iter().for_each(|&(column, value)| program.fix(column, value));
        let mut solver = Solver::new(&program.relaxed(), options).ok()?;
        let solution = solver.solve().ok().filter(|solution| solution.status == Status::Optimal)?;
        solution.best.map(|(_, values)| values)
    }

    fn formulate(&self, horizon: f64) -> Columns {
        let slots = self.slot_count();
        let mut program = Program::new();
        let total = program.column(0.0, f64::INFINITY, 1.0);
        let mut column = |cost: f64| program.column(0.0, horizon, cost);
        let starts: Vec<Column> = (0..=slots).map(|_| column(0.0)).collect();
        let ends: Vec<Column> = (0..=slots).map(|_| column(0.0)).collect();
        let backlog = 1e-2 / slots as f64;
        let load_ends: Vec<Column> = (0..=slots).map(|_| column(backlog)).collect();
        let mut runs = Vec::new();
        let mut loads = Vec::new();
        for op in 0..self.ops.len() {
            let may = |slot: usize| {
                let in_place = Self::reads_in_place(slot);
                let reads = self.settings.data_parallel && self.weights[op].is_some();
                self.time(op, slot).is_some() && (!in_place || reads)
            };
            runs.push(
                (0..=slots).map(|slot| (slot > 0 && may(slot)).then(|| program.binary())).collect::<Vec<_>>(),
            );
            let has_weights = self.weights[op].is_some();
            loads.push((0..=slots).map(|_| has_weights.then(|| program.binary())).collect::<Vec<_>>());
        }
        let mut columns = Columns { total, runs, loads, starts, ends, load_ends, program };
        self.assign(&mut columns);
        self.load_in_turn(&mut columns, horizon);
        self.run_in_turn(&mut columns, horizon);
        columns
    }

    /// Rows (2)–(5), and (11).
    fn assign(&self, columns: &mut Columns) {
        let Columns { program, runs, loads, .. } = columns;
        for op in 0..self.ops.len() {
            let all: Vec<_> = runs[op].iter().flatten().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &all, 1.0);
            if self.weights[op].is_none() {
                continue;
            }
            let all: Vec<_> = loads[op].iter().flatten().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &all, 1.0);
            let unloaded = loads[op][0].map(|column| (column, 1.0));
            let in_place = runs[op].iter().enumerate().filter(|(slot, _)| Self::reads_in_place(*slot));
            let in_place = in_place.filter_map(|(_, column)| column.map(|column| (column, -1.0)));
            program.row(0.0, &unloaded.into_iter().chain(in_place).collect::<Vec<_>>(), 0.0);
            if !self.settings.data_parallel {
                // Weights are loaded in the slot of their op.
                for (run, load) in runs[op].iter().zip(&loads[op]).skip(1) {
                    let terms: Vec<_> =
                        load.map(|c| (c, 1.0)).into_iter().chain(run.map(|c| (c, -1.0))).collect();
                    program.row(0.0, &terms, 0.0);
                }
            }
        }
        for (number, &device) in self.devices.iter().enumerate() {
            if self.pieces.memory_limits[device] == NEVER {
                continue;
            }
            let mut terms = Vec::new();
            for op in 0..self.ops.len() {
                for slot in (1..=self.slot_count()).filter(|&slot| self.device_of(slot) == number) {
                    let made = self.pieces.pieces[self.ops[op]].produced;
                    terms.extend(runs[op][slot].map(|column| (column, made / 1e9)));
                    let bytes = self.weights[op].as_ref().map_or(0.0, |(bytes, _)| *bytes);
                    terms.extend(loads[op][slot].map(|column| (column, bytes / 1e9)));
                }
            }
            let free = (self.pieces.memory_limits[device] - self.carried.memory[device]).max(0.0);
            program.at_most(&terms, free / 1e9);
        }
    }

    /// Rows (12)–(14).
    fn load_in_turn(&self, columns: &mut Columns, horizon: f64) {
        let before = self.turns();
        for slot in 1..=self.slot_count() {
            let device = self.device_of(slot);
            let mut terms = vec![(columns.load_ends[slot], 1.0)];
            for op in 0..self.ops.len() {
                let time = self.weights[op].as_ref().map_or(0.0, |(_, loads)| loads[device] / self.unit);
                terms.extend(columns.loads[op][slot].map(|column| (column, -time)));
            }
            let reads: Vec<(Column, f64)> = (0..self.ops.len())
                .filter_map(|op| Some((columns.runs[op][slot]?, self.held(op, slot)?)))
                .collect();
            terms.extend(reads.iter().map(|&(run, held)| (run, -held)));
            let mut free = 0.0;
            match before[slot] {
                Some(before) => terms.push((columns.load_ends[before], -1.0)),
                None => free = self.carried.buses[self.bus[self.devices[device]]] / self.unit,
            }
            columns.program.row(free, &terms, free);
            for (run, _) in reads {
                // An in-place read waits for the loads before it on the bus.
                let mut terms = vec![(columns.starts[slot], 1.0), (run, -horizon)];
                terms.extend(before[slot].map(|before| (columns.load_ends[before], -1.0)));
                columns.program.at_least(free - horizon, &terms);
            }
        }
    }

    /// The time for which an op that reads in place in a slot holds the bus; none if it does not.
    fn held(&self, op: usize, slot: usize) -> Option<f64> {
        let device = self.devices[self.device_of(slot)];
        let reads = self.pieces.reads_hold_bus && Self::reads_in_place(slot);
        let (_, held) = self.pieces.pieces[self.ops[op]].in_place[device].filter(|_| reads)?;
        Some(held / self.unit)
    }

    /// Rows (9), (10) and (15)–(23).
    fn run_in_turn(&self, columns: &mut Columns, horizon: f64) {
        let slots = self.slot_count();
        let mut durations: Vec<Vec<(Column, f64)>> = vec![Vec::new(); slots + 1];
        for op in 0..self.ops.len() {
            let loaded = self.weights[op].as_ref().map(|_| columns.program.column(0.0, horizon, 0.0));
            for slot in 1..=slots {
                if let (Some(loaded), Some(load)) = (loaded, columns.loads[op][slot]) {
                    // (16)
                    let terms = [(loaded, 1.0), (columns.load_ends[slot], -1.0), (load, -horizon)];
                    columns.program.at_least(-horizon, &terms);
                }
            }
            for slot in 1..=slots {
                let Some(run) = columns.runs[op][slot] else { continue };
                durations[slot].extend(self.time(op, slot).map(|time| (run, time)));
                if let Some(loaded) = loaded.filter(|_| !Self::reads_in_place(slot)) {
                    // (19), (20)
                    let terms = [(columns.starts[slot], 1.0), (loaded, -1.0), (run, -horizon)];
                    columns.program.at_least(-horizon, &terms);
                    self.forward(columns, op, slot, run, &mut durations);
                }
            }
        }
        self.add_data_edges(columns, horizon, &mut durations);
        for (slot, taken) in durations.iter().enumerate().skip(1) {
            let first = (slot - 1) % self.settings.slots == 0;
            let real = self.devices[self.device_of(slot)];
            if first {
                let free = self.carried.devices[real] / self.unit;
                columns.program.at_least(free, &[(columns.starts[slot], 1.0)]);
            } else {
                columns.program.at_least(0.0, &[(columns.starts[slot], 1.0), (columns.ends[slot - 1], -1.0)]);
            }
            let mut terms = vec![(columns.ends[slot], 1.0), (columns.starts[slot], -1.0)];
            terms.extend(taken.iter().map(|&(column, time)| (column, -time)));
            columns.program.row(0.0, &terms, 0.0);
            columns.program.at_least(0.0, &[(columns.total, 1.0), (columns.ends[slot], -1.0)]);
        }
    }

    /// (10) for weights: those that landed on another device are forwarded as part of the slot.
    fn forward(
        &self,
        columns: &mut Columns,
        op: usize,
        slot: usize,
        run: Column,
        durations: &mut [Vec<(Column, f64)>],
    ) {
        let Some((bytes, _)) = self.weights[op].as_ref().filter(|_| self.settings.data_parallel) else {
            return;
        };
        for from in (0..self.devices.len()).filter(|&from| from != self.device_of(slot)) {
            let time = self.copy(*bytes, from, self.device_of(slot));
            let there = (1..=self.slot_count()).filter(|&other| self.device_of(other) == from);
            let there: Vec<Column> = there.filter_map(|other| columns.loads[op][other]).collect();
            if time == NEVER {
                let mut terms: Vec<_> = there.iter().map(|&column| (column, 1.0)).collect();
                terms.push((run, 1.0));
                columns.program.at_most(&terms, 1.0);
                continue;
            }
            let copied = columns.program.column(0.0, 1.0, 0.0);
            let mut terms: Vec<_> = there.iter().map(|&column| (column, -1.0)).collect();
            terms.extend([(copied, 1.0), (run, -1.0)]);
            columns.program.at_least(-1.0, &terms);
            durations[slot].push((copied, time));
        }
    }

    /// (9), (10), (15) and (19) for data between pieces, those of earlier submodels included.
    fn add_data_edges(&self, columns: &mut Columns, horizon: f64, durations: &mut [Vec<(Column, f64)>]) {
        let slots = self.slot_count();
        // None for pieces of earlier submodels.
        let local_index = |piece: usize| self.ops.iter().position(|&op| op == piece);
        let mut producers: Vec<usize> = Vec::new();
        for &op in self.ops {
            producers.extend(
                self.pieces.pieces[op].inputs.iter().filter_map(|&edge| self.pieces.edges[edge].producer),
            );
        }
        producers.sort_unstable();
        producers.dedup();
        for producer in producers {
            let readers = |edge: usize| {
                let reads = move |&op: &usize| self.pieces.pieces[self.ops[op]].inputs.contains(&edge);
                (0..self.ops.len()).filter(reads).collect::<Vec<_>>()
            };
            let edges: Vec<usize> = (0..self.pieces.edges.len())
                .filter(|&edge| self.pieces.edges[edge].producer == Some(producer))
                .collect();
            let local = local_index(producer);
            let finish = local.map(|_| columns.program.column(0.0, horizon, 0.0));
            if let (Some(local), Some(finish)) = (local, finish) {
                for slot in 1..=slots {
                    let Some(run) = columns.runs[local][slot] else { continue };
                    let terms = [(finish, 1.0), (columns.ends[slot], -1.0), (run, -horizon)];
                    columns.program.at_least(-horizon, &terms);
                }
            }
            for edge in edges {
                let readers = readers(edge);
                for slot in 1..=slots {
                    let runs: Vec<Column> = readers.iter().filter_map(|&op| columns.runs[op][slot]).collect();
                    if runs.is_empty() {
                        continue;
                    }
                    // (9)
                    let enters = columns.program.column(0.0, 1.0, 0.0);
                    for run in runs {
                        let own = local.and_then(|local| columns.runs[local][slot]);
                        let mut terms = vec![(enters, 1.0), (run, -1.0)];
                        terms.extend(own.map(|own| (own, 1.0)));
                        columns.program.at_least(0.0, &terms);
                    }
                    if let Some(finish) = finish {
                        let terms = [(columns.starts[slot], 1.0), (finish, -1.0), (enters, -horizon)];
                        columns.program.at_least(-horizon, &terms);
                    }
                    self.copy_in(columns, (edge, producer), local, slot, enters, durations);
                }
            }
        }
    }

    /// (10) for data: a tensor that enters a slot from another device is copied as part of the slot.
    fn copy_in(
        &self,
        columns: &mut Columns,
        (edge, producer): (usize, usize),
        local: Option<usize>,
        slot: usize,
        enters: Column,
        durations: &mut [Vec<(Column, f64)>],
    ) {
        let bytes = self.pieces.edges[edge].bytes;
        let to = self.device_of(slot);
        for from in (0..self.devices.len()).filter(|&from| from != to) {
            let time = self.copy(bytes, from, to).min(1e9);
            let Some(local) = local else {
                if self.carried.placed[producer] == Some(self.devices[from]) {
                    durations[slot].push((enters, time));
                }
                continue;
            };
            let there = (1..=self.slot_count()).filter(|&other| self.device_of(other) == from);
            let there: Vec<Column> = there.filter_map(|other| columns.runs[local][other]).collect();
            let copied = columns.program.column(0.0, 1.0, 0.0);
            let mut terms: Vec<_> = there.iter().map(|&column| (column, -1.0)).collect();
            terms.extend([(copied, 1.0), (enters, -1.0)]);
            columns.program.at_least(-1.0, &terms);
            durations[slot].push((copied, time));
        }
    }

    /// The decisions of a solution.
    fn decisions(&self, columns: &Columns, values: &[f64]) -> Option<Vec<PieceDecision>> {
        let chosen = |list: &[Option<Column>]| {
            list.iter().position(|column| column.is_some_and(|column| values[column.index()] > 0.5))
        };
        let turn = |slot: usize| (slot - 1) % self.settings.slots * self.devices.len() + self.device_of(slot);
        let mut decided = Vec::new();
        for (op, &piece) in self.ops.iter().enumerate() {
            let slot = chosen(&columns.runs[op])?;
            let device = self.devices[self.device_of(slot)];
            let load = chosen(&columns.loads[op]).filter(|&load| load > 0);
            let landed = self.pieces.pieces[piece].first_bundles.iter().find_map(|&b| self.carried.landed[b]);
            let via = load.map(|load| self.devices[self.device_of(load)]).or(landed).unwrap_or(device);
            let in_place = Self::reads_in_place(slot);
            decided.push(PieceDecision {
                piece,
                choice: PieceChoice { device: device as u16, via: via as u16, in_place },
                start: values[columns.starts[slot].index()],
                // Reads come behind the loads of a submodel: none may precede a load that an op before it waits for.
                turn: load.map_or(usize::MAX, turn),
            });
        }
        Some(decided)
    }
}
