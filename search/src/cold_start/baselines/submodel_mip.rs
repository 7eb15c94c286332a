//! SortingHat's program (1)–(23) for one submodel, solved by HiGHS.
//!
//! Each device has q slots; a slot with an odd number runs its pieces in place (direct host access), one with an even
//! number with loaded weights. x says which slot a piece runs in, and in which slot's turn its weights are loaded (slot
//! 0: not at all, they are read in place). Slots of a bus load in turn, one of each device after the other; slots of a
//! device run in turn. What was decided before is carried on as in table 1: when each bus and device is free, where
//! earlier pieces are, what memory is used.
//!
//! Nodes are pieces, as TVM fuses ops, and a piece's weights are one node. Against the text: (6)–(8) are left out, since
//! timing implies them; (5) ties weights to the one piece that reads them here; a copy is charged once for each slot, as
//! in (10); the sum of (14) is over weights alone; a read in place has its turn on the bus and holds it, unless contention
//! is the paper's; what is left to load counts a little in the objective, which otherwise knows nothing of the backlog that
//! a submodel leaves on the buses. H is the value of a plain solution plus all work.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::budget::Budget;
use divvy_solver::{Column, Event, Options, Program, Solver, Status, solve_watched};

use crate::cold_start::choices::PieceChoice;
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cpu_time::Stopwatch;

/// What the program looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubmodelSettings {
    /// Slots of each device, a multiple of 2.
    pub(crate) slots: usize,
    /// Dominators in each submodel.
    pub(crate) dominators: usize,
    /// The most processor time for each submodel: what a program gets done must not depend on how busy the machine is.
    pub(crate) time: Duration,
    /// Whether weights may take other ways than the own bus, and be read in place.
    pub(crate) data_parallel: bool,
    /// Whether a submodel knows what came before it.
    pub(crate) carries_on: bool,
    /// Whether devices on one bus load in turn; else as if each had a bus of its own.
    pub(crate) avoids_contention: bool,
    /// Whether times and copies differ between devices; else they are averages.
    pub(crate) knows_topology: bool,
}

/// What is carried on from one submodel to the next.
#[derive(Clone)]
pub(crate) struct Carried {
    /// For each bus, when it is free.
    pub(crate) buses: Vec<f64>,
    pub(crate) devices: Vec<f64>,
    pub(crate) memory: Vec<f64>,
    /// For each piece that was decided, its device.
    pub(crate) placed: Vec<Option<usize>>,
    /// For each bundle, where it has landed.
    pub(crate) landed: Vec<Option<usize>>,
}

/// Which devices are loaded in turn: for each device with a bus, the number of its bus.
pub(crate) fn bus_of(pieces: &Pieces, settings: &SubmodelSettings) -> (Vec<usize>, usize) {
    let mut known: Vec<usize> = Vec::new();
    let mut bus = Vec::with_capacity(pieces.devices);
    for device in 0..pieces.devices {
        let sharing = |link: &usize| pieces.media.iter().filter(|media| media.contains(link)).count();
        let link = pieces.media[device].iter().max_by_key(|&link| sharing(link)).copied();
        let key = link.filter(|_| settings.avoids_contention).unwrap_or(usize::MAX - device);
        bus.push(known.iter().position(|&other| other == key).unwrap_or_else(|| {
            known.push(key);
            known.len() - 1
        }));
    }
    (bus, known.len())
}

/// What is decided for a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) piece: usize,
    pub(crate) choice: PieceChoice,
    /// When its slot starts, and its place in the turns of the bus that its weights come over.
    pub(crate) start: f64,
    pub(crate) turn: usize,
}

/// A submodel as a program.
pub(crate) struct Submodel<'a> {
    pieces: &'a Pieces,
    settings: &'a SubmodelSettings,
    carried: &'a Carried,
    ops: &'a [usize],
    /// Devices that take part.
    devices: Vec<usize>,
    bus: Vec<usize>,
    /// For each op, its weights that have not landed: bytes, and for each device that takes part the time to load them.
    weights: Vec<Option<(f64, Vec<f64>)>>,
    unit: f64,
}

/// The columns of a program.
struct Columns {
    total: Column,
    /// For each op and slot (from 1 on).
    runs: Vec<Vec<Option<Column>>>,
    /// For each op with weights and slot (from 0 on).
    loads: Vec<Vec<Option<Column>>>,
    starts: Vec<Column>,
    ends: Vec<Column>,
    load_ends: Vec<Column>,
    program: Program,
}

impl<'a> Submodel<'a> {
    pub(crate) fn new(
        pieces: &'a Pieces,
        settings: &'a SubmodelSettings,
        carried: &'a Carried,
        ops: &'a [usize],
    ) -> Submodel<'a> {
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
        Submodel { pieces, settings, carried, ops, devices, bus, weights, unit }
    }

    fn slot_count(&self) -> usize {
        self.devices.len() * self.settings.slots
    }

    /// The device of a slot, by its number among those that take part.
    fn device_of(&self, slot: usize) -> usize {
        (slot - 1) / self.settings.slots
    }

    fn reads_in_place(slot: usize) -> bool {
        slot % 2 == 1
    }

    /// The time of an op in a slot; none if it may not run there.
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

    /// The slot whose turn comes before, on the same bus.
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

    /// Everything on one device with loaded weights, the best such device: what the solver starts from.
    fn plain(&self) -> Option<(usize, f64)> {
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

    /// Solves it within its processor time and within some time on the clock, or takes the plain solution where nothing
    /// better was found; none if no device may run all of it.
    pub(crate) fn solve(&self, budget: &Budget, clock: Duration) -> Option<Vec<Decided>> {
        let (plain_device, plain_value) = self.plain()?;
        let work: f64 =
            (0..self.ops.len()).filter_map(|op| self.time(op, plain_device * self.settings.slots + 2)).sum();
        let load: f64 = self.weights.iter().flatten().map(|(_, loads)| loads[plain_device]).sum();
        let carried = self.carried.buses.iter().chain(&self.carried.devices).copied().fold(0.0, f64::max);
        let horizon = 4.0 * (plain_value + work + (load + carried) / self.unit) + 100.0;
        let columns = self.write(horizon);
        let options =
            Options { time: clock, threads: 1, seed: budget.seed, nodes: budget.nodes, ..Options::default() };
        // The plain solution, with everything in the first slot for loaded weights; HiGHS completes the rest.
        let slot = plain_device * self.settings.slots + 2;
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
        // Without time to complete the plain solution, what is found may be worse than that.
        let most = if start.is_some() { f64::INFINITY } else { plain_value };
        let values = solution.and_then(|solution| solution.best).map(|(_, values)| values).or(start);
        match values.filter(|values| values[columns.total.index()] <= most) {
            Some(values) => self.read(&columns, &values),
            None => Some(self.plain_decisions(plain_device)),
        }
    }

    /// Everything on one device, its weights over its own bus in the order of the network.
    fn plain_decisions(&self, device: usize) -> Vec<Decided> {
        let real = self.devices[device];
        let decide = |&piece: &usize| {
            let bundles = &self.pieces.pieces[piece].first_bundles;
            let landed = bundles.iter().find_map(|&bundle| self.carried.landed[bundle]);
            let via = landed.unwrap_or(real);
            let choice = PieceChoice { device: real as u16, via: via as u16, in_place: false };
            Decided { piece, choice, start: 0.0, turn: 0 }
        };
        self.ops.iter().map(decide).collect()
    }

    /// All columns, where some are given: a linear program.
    fn complete(&self, columns: &Columns, fixed: &[(Column, f64)], options: &Options) -> Option<Vec<f64>> {
        let mut program = columns.program.clone();
        fixed.iter().for_each(|&(column, value)| program.fix(column, value));
        let mut solver = Solver::new(&program.relaxed(), options).ok()?;
        let solution = solver.solve().ok().filter(|solution| solution.status == Status::Optimal)?;
        solution.best.map(|(_, values)| values)
    }

    fn write(&self, horizon: f64) -> Columns {
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

    /// (2)–(5), and (11).
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
                // Weights go with their op.
                for (run, load) in runs[op].iter().zip(&loads[op]).skip(1) {
                    let terms: Vec<_> =
                        load.map(|c| (c, 1.0)).into_iter().chain(run.map(|c| (c, -1.0))).collect();
                    program.row(0.0, &terms, 0.0);
                }
            }
        }
        for (number, &device) in self.devices.iter().enumerate() {
            if self.pieces.limits[device] == NEVER {
                continue;
            }
            let mut terms = Vec::new();
            for op in 0..self.ops.len() {
                for slot in (1..=self.slot_count()).filter(|&slot| self.device_of(slot) == number) {
                    let made = self.pieces.pieces[self.ops[op]].made;
                    terms.extend(runs[op][slot].map(|column| (column, made / 1e9)));
                    let bytes = self.weights[op].as_ref().map_or(0.0, |(bytes, _)| *bytes);
                    terms.extend(loads[op][slot].map(|column| (column, bytes / 1e9)));
                }
            }
            let room = (self.pieces.limits[device] - self.carried.memory[device]).max(0.0);
            program.at_most(&terms, room / 1e9);
        }
    }

    /// (12)–(14).
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
                // A read has its turn on the bus as a load has.
                let mut terms = vec![(columns.starts[slot], 1.0), (run, -horizon)];
                terms.extend(before[slot].map(|before| (columns.load_ends[before], -1.0)));
                columns.program.at_least(free - horizon, &terms);
            }
        }
    }

    /// How long an op that reads in place in a slot holds the bus; none where it does not.
    fn held(&self, op: usize, slot: usize) -> Option<f64> {
        let device = self.devices[self.device_of(slot)];
        let reads = self.pieces.reads_hold_bus && Self::reads_in_place(slot);
        let (_, held) = self.pieces.pieces[self.ops[op]].in_place[device].filter(|_| reads)?;
        Some(held / self.unit)
    }

    /// (9), (10) and (15)–(23).
    fn run_in_turn(&self, columns: &mut Columns, horizon: f64) {
        let slots = self.slot_count();
        let mut durations: Vec<Vec<(Column, f64)>> = vec![Vec::new(); slots + 1];
        for op in 0..self.ops.len() {
            let loaded = self.weights[op].as_ref().map(|_| columns.program.column(0.0, horizon, 0.0));
            for slot in 1..=slots {
                if let (Some(loaded), Some(load)) = (loaded, columns.loads[op][slot]) {
                    // (16): loaded once that slot's turn has ended.
                    let terms = [(loaded, 1.0), (columns.load_ends[slot], -1.0), (load, -horizon)];
                    columns.program.at_least(-horizon, &terms);
                }
            }
            for slot in 1..=slots {
                let Some(run) = columns.runs[op][slot] else { continue };
                durations[slot].extend(self.time(op, slot).map(|time| (run, time)));
                if let Some(loaded) = loaded.filter(|_| !Self::reads_in_place(slot)) {
                    // (19), (20).
                    let terms = [(columns.starts[slot], 1.0), (loaded, -1.0), (run, -horizon)];
                    columns.program.at_least(-horizon, &terms);
                    self.forward(columns, op, slot, run, &mut durations);
                }
            }
        }
        self.follow(columns, horizon, &mut durations);
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

    /// Weights that landed elsewhere are forwarded as part of the slot: (10) for weights.
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

    /// Data between pieces: (9), (10), (15), (19); from pieces of earlier submodels too.
    fn follow(&self, columns: &mut Columns, horizon: f64, durations: &mut [Vec<(Column, f64)>]) {
        let slots = self.slot_count();
        let inside = |piece: usize| self.ops.iter().position(|&op| op == piece);
        let mut makers: Vec<usize> = Vec::new();
        for &op in self.ops {
            makers.extend(
                self.pieces.pieces[op].inputs.iter().filter_map(|&flow| self.pieces.flows[flow].maker),
            );
        }
        makers.sort_unstable();
        makers.dedup();
        for maker in makers {
            let readers = |flow: usize| {
                let reads = move |&op: &usize| self.pieces.pieces[self.ops[op]].inputs.contains(&flow);
                (0..self.ops.len()).filter(reads).collect::<Vec<_>>()
            };
            let flows: Vec<usize> = (0..self.pieces.flows.len())
                .filter(|&flow| self.pieces.flows[flow].maker == Some(maker))
                .collect();
            let made = inside(maker);
            let finish = made.map(|_| columns.program.column(0.0, horizon, 0.0));
            if let (Some(made), Some(finish)) = (made, finish) {
                for slot in 1..=slots {
                    let Some(run) = columns.runs[made][slot] else { continue };
                    let terms = [(finish, 1.0), (columns.ends[slot], -1.0), (run, -horizon)];
                    columns.program.at_least(-horizon, &terms);
                }
            }
            for flow in flows {
                let readers = readers(flow);
                for slot in 1..=slots {
                    let runs: Vec<Column> = readers.iter().filter_map(|&op| columns.runs[op][slot]).collect();
                    if runs.is_empty() {
                        continue;
                    }
                    // (9): the slot reads it, and does not make it.
                    let enters = columns.program.column(0.0, 1.0, 0.0);
                    for run in runs {
                        let own = made.and_then(|made| columns.runs[made][slot]);
                        let mut terms = vec![(enters, 1.0), (run, -1.0)];
                        terms.extend(own.map(|own| (own, 1.0)));
                        columns.program.at_least(0.0, &terms);
                    }
                    if let Some(finish) = finish {
                        let terms = [(columns.starts[slot], 1.0), (finish, -1.0), (enters, -horizon)];
                        columns.program.at_least(-horizon, &terms);
                    }
                    self.copy_in(columns, (flow, maker), made, slot, enters, durations);
                }
            }
        }
    }

    /// (10): where a tensor that enters a slot was made on another device, it is copied.
    fn copy_in(
        &self,
        columns: &mut Columns,
        (flow, maker): (usize, usize),
        made: Option<usize>,
        slot: usize,
        enters: Column,
        durations: &mut [Vec<(Column, f64)>],
    ) {
        let bytes = self.pieces.flows[flow].bytes;
        let to = self.device_of(slot);
        for from in (0..self.devices.len()).filter(|&from| from != to) {
            let time = self.copy(bytes, from, to).min(1e9);
            let Some(made) = made else {
                if self.carried.placed[maker] == Some(self.devices[from]) {
                    durations[slot].push((enters, time));
                }
                continue;
            };
            let there = (1..=self.slot_count()).filter(|&other| self.device_of(other) == from);
            let there: Vec<Column> = there.filter_map(|other| columns.runs[made][other]).collect();
            let copied = columns.program.column(0.0, 1.0, 0.0);
            let mut terms: Vec<_> = there.iter().map(|&column| (column, -1.0)).collect();
            terms.extend([(copied, 1.0), (enters, -1.0)]);
            columns.program.at_least(-1.0, &terms);
            durations[slot].push((copied, time));
        }
    }

    fn read(&self, columns: &Columns, values: &[f64]) -> Option<Vec<Decided>> {
        let chosen = |list: &[Option<Column>]| {
            list.iter().position(|column| column.is_some_and(|column| values[column.index()] > 0.5))
        };
        // Its place in the turns of a bus: round by round, device by device.
        let turn = |slot: usize| (slot - 1) % self.settings.slots * self.devices.len() + self.device_of(slot);
        let mut decided = Vec::new();
        for (op, &piece) in self.ops.iter().enumerate() {
            let slot = chosen(&columns.runs[op])?;
            let device = self.devices[self.device_of(slot)];
            let load = chosen(&columns.loads[op]).filter(|&load| load > 0);
            let landed = self.pieces.pieces[piece].first_bundles.iter().find_map(|&b| self.carried.landed[b]);
            let via = load.map(|load| self.devices[self.device_of(load)]).or(landed).unwrap_or(device);
            let in_place = Self::reads_in_place(slot);
            decided.push(Decided {
                piece,
                choice: PieceChoice { device: device as u16, via: via as u16, in_place },
                start: values[columns.starts[slot].index()],
                // Reads come behind the loads of a submodel, so that none waits for an op that waits for it.
                turn: load.map_or(usize::MAX, turn),
            });
        }
        Some(decided)
    }
}
