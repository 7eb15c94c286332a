//! DiviML's mixed-integer program (1)–(7) for groups of inputs, corrected, for some ops of a network.
//!
//! * x_iug: group g of unit i runs on device u; one device each (1). b_iuk: the batch there has k groups; Σ k·b = Σ x (4, 5), at most
//!   one b.
//! * s_iu: the start of op i's batch on u, T_iu = Σ b·t its time; C ≥ s + T + the chain behind it (2).
//! * For an edge i → j (the paper's "i ∈ par(i)"), devices u ≠ v and each group: s_jv ≥ s_iu + T_iu + latency + rate × (groups
//!   that move) − M (2 − x_iug − x_jvg) (3). It binds only where the two batches share a group, and only what is shared moves.
//! * Memory with weights once for each device that has a batch (6).
//! * For any two ops and a device both use, one batch ends before the other starts (7); on a path too, since batches of a path
//!   may hold different inputs.
//! * M is the horizon plus the time and way at hand, never less.
//! * Among devices that can be exchanged, and among such nodes, an order by groups, by ops or by time (the paper's #batches,
//!   #tasks and time).
//!
//! Ops that were scheduled before are fixed: their ends release what reads them, and devices are free when they are.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use divvy_proof::latency_tables::NEVER;
use divvy_solver::{Column, Event, Options, Program, solve_watched};

use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::Item;
use crate::batch::tables::{Division, DevicePart, BatchTables};
use crate::run::Run;

/// More factors in the program than this are refused.
pub(crate) const MOST_FACTORS: usize = 3_000_000;

/// By what devices that can be exchanged are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symmetry {
    Batches,
    Tasks,
    Time,
}

impl Symmetry {
    /// The criterion of that name.
    pub(crate) fn named(name: &str) -> Option<Symmetry> {
        let all = [("batches", Symmetry::Batches), ("tasks", Symmetry::Tasks), ("time", Symmetry::Time)];
        all.into_iter().find(|(known, _)| *known == name).map(|(_, symmetry)| symmetry)
    }
}

/// What is fixed around the ops at hand.
pub(crate) struct FixedContext<'a> {
    pub(crate) tables: &'a BatchTables,
    pub(crate) ops: &'a [u32],
    /// For each unit that is divided already, its pieces.
    pub(crate) pieces: &'a [Option<Division>],
    /// The ends of all batches so far, by op and piece.
    pub(crate) ends: &'a [Vec<u64>],
    pub(crate) free: &'a [u64],
    /// Devices that may be used.
    pub(crate) devices: &'a [u32],
    /// For each op, the least time behind its end.
    pub(crate) behind: &'a [u64],
    /// Groups of devices, each a list of devices taken together, that can be exchanged.
    pub(crate) alike: &'a [Vec<Vec<u32>>],
    pub(crate) symmetry: Option<Symmetry>,
    pub(crate) memory: &'a BatchMemory,
}

/// Divisions of the units of a part, and its batches by start.
#[derive(Clone, Debug)]
pub(crate) struct MipSolution {
    pub(crate) pieces: Vec<(usize, Division)>,
    pub(crate) items: Vec<Item>,
}

type Terms = Vec<(Column, f64)>;

/// A unit's columns on a device.
struct On {
    device: u32,
    groups: Vec<Column>,
    counts: Vec<(u32, Column)>,
}

struct Formulation {
    program: Program,
    units: Vec<(usize, Vec<On>)>,
    /// For each op of the part and each device of its unit, its start.
    starts: Vec<Vec<Column>>,
    end: Column,
    unit: f64,
}

/// About as many factors as the program has.
pub(crate) fn factor_count(part: &FixedContext<'_>) -> usize {
    let (ops, devices, groups) = (part.ops.len(), part.devices.len(), part.tables.groups);
    let edges: usize = part.ops.iter().map(|&op| part.tables.inputs[op as usize].len()).sum();
    edges * devices * devices * groups * (6 + groups) + ops * ops * devices * (3 + groups)
}

/// Solves a part from what is known; `hear` is told of every better solution, and of the bound in picoseconds.
pub(crate) fn solve(
    run: &Run<'_>,
    part: &FixedContext<'_>,
    horizon: u64,
    time: Duration,
    hear: &mut dyn FnMut(Option<MipSolution>, f64) -> ControlFlow<()>,
) {
    let began = Instant::now();
    let Some(formulation) = Formulation::new(part, horizon) else { return };
    let time = time.saturating_sub(began.elapsed());
    if time.is_zero() || run.budget.is_spent() {
        return;
    }
    let options = Options {
        time,
        threads: run.budget.threads,
        seed: run.budget.seed,
        absolute_gap: 0.0,
        nodes: run.budget.nodes,
    };
    let unit = formulation.unit;
    let heard = solve_watched(&formulation.program, &options, None, &mut |event| match event {
        Event::Solution(_, values) => hear(Some(formulation.read(part, &values)), 0.0),
        Event::Bound(bound) => hear(None, bound * unit),
        Event::Waiting if run.budget.is_spent() => ControlFlow::Break(()),
        Event::Waiting => ControlFlow::Continue(()),
    });
    if let Ok(solution) = heard {
        let found = solution.best.as_ref().map(|(_, values)| formulation.read(part, values));
        let _ = hear(found, solution.bound * unit);
    }
}

impl Formulation {
    fn new(part: &FixedContext<'_>, horizon: u64) -> Option<Formulation> {
        let tables = part.tables;
        let mut program = Program::new();
        let unit = (horizon as f64 / 1000.0).max(1.0);
        let most = horizon as f64 / unit;
        let end = program.column(0.0, most, 1.0);
        let mut units: Vec<(usize, Vec<On>)> = Vec::new();
        for &op in part.ops {
            let number = tables.unit_of[op as usize] as usize;
            if units.iter().any(|(known, _)| *known == number) {
                continue;
            }
            let fixed = part.pieces[number].as_ref();
            let mut on = Vec::new();
            for choice in tables.choices[number].iter().filter(|choice| part.devices.contains(&choice.device))
            {
                let groups: Vec<Column> = (0..tables.groups).map(|_| program.binary()).collect();
                let counts = choice.counts.iter().map(|&count| (count, program.binary())).collect();
                if let Some(pieces) = fixed {
                    // A unit whose other ops are scheduled already stays as it is.
                    for (group, &column) in groups.iter().enumerate() {
                        let here = |p: &&DevicePart| p.device == choice.device && p.groups >> group & 1 == 1;
                        program.fix(column, f64::from(u8::from(pieces.iter().any(|p| here(&p)))));
                    }
                }
                on.push(On { device: choice.device, groups, counts });
            }
            if on.is_empty() {
                return None;
            }
            units.push((number, on));
        }
        let unit_of = |op: u32| {
            let number = tables.unit_of[op as usize] as usize;
            units.iter().position(|(known, _)| *known == number)
        };
        let mut starts = Vec::with_capacity(part.ops.len());
        for &op in part.ops {
            let (_, on) = &units[unit_of(op)?];
            let start = |on: &On| {
                let free = (part.free[on.device as usize] as f64 / unit).min(most);
                program.column(free, most, 0.0)
            };
            starts.push(on.iter().map(start).collect());
        }
        let mut new = Formulation { program, units, starts, end, unit };
        new.divide(part);
        new.send(part, most);
        new.take_turns(part, most);
        new.fit(part);
        new.tell_apart(part);
        Some(new)
    }

    fn unit_of(&self, part: &FixedContext<'_>, op: u32) -> usize {
        let number = part.tables.unit_of[op as usize] as usize;
        self.units.iter().position(|(known, _)| *known == number).unwrap_or(0)
    }

    /// The time of an op's batch, times a factor.
    fn time(&self, part: &FixedContext<'_>, op: u32, on: &On, factor: f64) -> Terms {
        let time = |count: u32| part.tables.time(op as usize, on.device as usize, count as usize) as f64;
        on.counts.iter().map(|&(count, b)| (b, factor * time(count) / self.unit)).collect()
    }

    /// Rows (1), (2), (4) and (5).
    fn divide(&mut self, part: &FixedContext<'_>) {
        for (_, on) in &self.units {
            for group in 0..part.tables.groups {
                let terms: Terms = on.iter().map(|on| (on.groups[group], 1.0)).collect();
                self.program.row(1.0, &terms, 1.0);
            }
            for on in on {
                let mut terms: Terms = on.groups.iter().map(|&x| (x, -1.0)).collect();
                terms.extend(on.counts.iter().map(|&(count, b)| (b, f64::from(count))));
                self.program.row(0.0, &terms, 0.0);
                let one: Terms = on.counts.iter().map(|&(_, b)| (b, 1.0)).collect();
                self.program.at_most(&one, 1.0);
            }
        }
        for (place, &op) in part.ops.iter().enumerate() {
            let (_, on) = &self.units[self.unit_of(part, op)];
            for (on, &start) in on.iter().zip(&self.starts[place]) {
                let device = on.device as usize;
                let mut terms: Terms = vec![(self.end, 1.0), (start, -1.0)];
                for &(count, b) in &on.counts {
                    let out = part.tables.way_out(op as usize, device, count as usize);
                    let time = part.tables.time(op as usize, device, count as usize);
                    let whole = time + out.max(part.behind[op as usize]);
                    terms.push((b, -(whole as f64) / self.unit));
                    let release = part.tables.release(op as usize, device, count as usize);
                    if release > 0 {
                        self.program.at_least(0.0, &[(start, 1.0), (b, -(release as f64) / self.unit)]);
                    }
                }
                self.program.at_least(0.0, &terms);
            }
        }
    }

    /// Rows (3).
    fn send(&mut self, part: &FixedContext<'_>, most: f64) {
        let tables = part.tables;
        let groups = tables.groups;
        for (place, &to) in part.ops.iter().enumerate() {
            let receiver = self.unit_of(part, to);
            for edge in &tables.inputs[to as usize] {
                let sender = part.ops.iter().position(|&op| op == edge.op);
                for v in 0..self.units[receiver].1.len() {
                    let target = self.units[receiver].1[v].device as usize;
                    let start = self.starts[place][v];
                    let delay = |from: usize, count: usize| tables.delay(edge.size, from, target, count);
                    let Some(sender) = sender else {
                        self.release(part, edge.op, [receiver, v], start, most, &delay);
                        continue;
                    };
                    let from_unit = self.unit_of(part, edge.op);
                    for u in 0..self.units[from_unit].1.len() {
                        let source = self.units[from_unit].1[u].device as usize;
                        let xs = self.units[from_unit].1[u].groups.clone();
                        let ys = self.units[receiver].1[v].groups.clone();
                        if delay(source, 1) >= NEVER {
                            for (&x, &y) in xs.iter().zip(&ys) {
                                self.program.at_most(&[(x, 1.0), (y, 1.0)], 1.0);
                            }
                            continue;
                        }
                        let (first, last) = (delay(source, 1) as f64, delay(source, groups) as f64);
                        let rate =
                            if groups > 1 { (last - first) / (groups - 1) as f64 / self.unit } else { 0.0 };
                        let fixed = first / self.unit - rate;
                        let mut row: Terms = vec![(start, 1.0), (self.starts[sender][u], -1.0)];
                        row.extend(self.time(part, edge.op, &self.units[from_unit].1[u], -1.0));
                        let longest = self.units[from_unit].1[u]
                            .counts
                            .last()
                            .map_or(0, |&(count, _)| tables.time(edge.op as usize, source, count as usize));
                        let big = most + longest as f64 / self.unit + last / self.unit;
                        if rate > 0.0 {
                            for (&x, &y) in xs.iter().zip(&ys) {
                                let both = self.program.column(0.0, 1.0, 0.0);
                                self.program.at_least(-1.0, &[(both, 1.0), (x, -1.0), (y, -1.0)]);
                                row.push((both, -rate));
                            }
                        }
                        for (&x, &y) in xs.iter().zip(&ys) {
                            let mut row = row.clone();
                            row.extend([(x, -big), (y, -big)]);
                            self.program.at_least(fixed - 2.0 * big, &row);
                        }
                    }
                }
            }
        }
    }

    /// What an op that is scheduled already lets start.
    fn release(
        &mut self,
        part: &FixedContext<'_>,
        producer: u32,
        [receiver, v]: [usize; 2],
        start: Column,
        most: f64,
        delay: &dyn Fn(usize, usize) -> u64,
    ) {
        let Some(pieces) = &part.pieces[part.tables.unit_of[producer as usize] as usize] else { return };
        let groups = part.tables.groups;
        for (piece, &end) in pieces.iter().zip(&part.ends[producer as usize]) {
            let ys = self.units[receiver].1[v].groups.clone();
            let there = (0..groups).filter(|group| piece.groups >> group & 1 == 1);
            if delay(piece.device as usize, 1) >= NEVER {
                there.for_each(|group| self.program.fix(ys[group], 0.0));
                continue;
            }
            let [first, last] =
                [1, groups].map(|count| delay(piece.device as usize, count) as f64 / self.unit);
            let rate = if groups > 1 { (last - first) / (groups - 1) as f64 } else { 0.0 };
            let end = end as f64 / self.unit;
            let big = (end + last).max(most);
            let moved: Terms = there.clone().map(|group| (ys[group], -rate)).collect();
            for group in there {
                let mut row = moved.clone();
                row.extend([(start, 1.0), (ys[group], -big)]);
                self.program.at_least(end + first - rate - big, &merged(row));
            }
        }
    }

    /// Rows (7).
    fn take_turns(&mut self, part: &FixedContext<'_>, most: f64) {
        for one in 0..part.ops.len() {
            for other in one + 1..part.ops.len() {
                let (a, b) = (part.ops[one], part.ops[other]);
                let (unit_a, unit_b) = (self.unit_of(part, a), self.unit_of(part, b));
                for u in 0..self.units[unit_a].1.len() {
                    let device = self.units[unit_a].1[u].device;
                    let Some(v) = self.units[unit_b].1.iter().position(|on| on.device == device) else {
                        continue;
                    };
                    let before = self.program.binary();
                    let idle = |on: &On| -> Terms { on.counts.iter().map(|&(_, b)| (b, 1.0)).collect() };
                    let both = [idle(&self.units[unit_a].1[u]), idle(&self.units[unit_b].1[v])].concat();
                    for (first, second, (op, unit, place), sign) in [
                        (self.starts[one][u], self.starts[other][v], (a, unit_a, u), 1.0),
                        (self.starts[other][v], self.starts[one][u], (b, unit_b, v), -1.0),
                    ] {
                        let on = &self.units[unit].1[place];
                        let longest = on.counts.last().map_or(0, |&(count, _)| {
                            part.tables.time(op as usize, device as usize, count as usize)
                        });
                        let big = most + longest as f64 / self.unit;
                        // second ≥ first + time − big (3 − used − used − [this one goes first])
                        let mut row: Terms = vec![(second, 1.0), (first, -1.0)];
                        row.extend(self.time(part, op, on, -1.0));
                        row.extend(scaled(&both, -big));
                        row.push((before, -sign * big));
                        let constant = if sign > 0.0 { 3.0 } else { 2.0 };
                        self.program.at_least(-constant * big, &merged(row));
                    }
                }
            }
        }
    }

    /// Row (6).
    fn fit(&mut self, part: &FixedContext<'_>) {
        for &device in part.devices {
            let Some(left) = part.memory.left(device) else { continue };
            let scale = (left as f64 / 1e6).max(1.0);
            let mut row: Terms = Vec::new();
            let mut readers: std::collections::BTreeMap<u32, Vec<&On>> = std::collections::BTreeMap::new();
            for (number, on) in &self.units {
                if part.pieces[*number].is_some() {
                    continue;
                }
                let Some(on) = on.iter().find(|on| on.device == device) else { continue };
                for &(count, b) in &on.counts {
                    row.push((b, part.memory.own_bytes(*number, count) as f64 / scale));
                }
                for param in part.memory.shared_params(*number) {
                    readers.entry(param).or_default().push(on);
                }
            }
            let mut reads = Vec::new();
            for (param, on) in readers {
                let bytes = part.memory.bytes_if_new(param, device);
                if bytes > 0 {
                    let uses: Vec<Column> =
                        on.iter().flat_map(|on| on.counts.iter().map(|&(_, b)| b)).collect();
                    reads.push((bytes, uses));
                }
            }
            for (bytes, uses) in reads {
                let read = self.program.column(0.0, 1.0, 0.0);
                uses.iter().for_each(|&b| self.program.at_least(0.0, &[(read, 1.0), (b, -1.0)]));
                row.push((read, bytes as f64 / scale));
            }
            self.program.at_most(&row, left as f64 / scale);
        }
    }

    /// Of groups of devices that can be exchanged, one before another has no less of what the criterion counts.
    fn tell_apart(&mut self, part: &FixedContext<'_>) {
        let Some(symmetry) = part.symmetry else { return };
        for group in part.alike {
            for pair in group.windows(2) {
                let mut row: Terms = Vec::new();
                for (devices, sign) in [(&pair[0], 1.0), (&pair[1], -1.0)] {
                    for &op in part.ops {
                        let (_, on) = &self.units[self.unit_of(part, op)];
                        for on in on.iter().filter(|on| devices.contains(&on.device)) {
                            match symmetry {
                                Symmetry::Batches => row.extend(on.groups.iter().map(|&x| (x, sign))),
                                Symmetry::Tasks => row.extend(on.counts.iter().map(|&(_, b)| (b, sign))),
                                Symmetry::Time => row.extend(self.time(part, op, on, sign)),
                            }
                        }
                    }
                }
                self.program.at_least(0.0, &merged(row));
            }
        }
    }

    /// Divisions and the order of batches in a solution.
    fn read(&self, part: &FixedContext<'_>, values: &[f64]) -> MipSolution {
        let mut pieces = Vec::new();
        for (number, on) in &self.units {
            let mut division: Division = on.iter().map(|on| DevicePart { device: on.device, groups: 0 }).collect();
            for group in 0..part.tables.groups {
                let most = |&place: &usize| (values[on[place].groups[group].index()] * 1e6) as i64;
                if let Some(place) = (0..on.len()).max_by_key(most) {
                    division[place].groups |= 1 << group;
                }
            }
            division.retain(|piece| piece.groups != 0);
            pieces.push((*number, division));
        }
        let mut items: Vec<(f64, usize, Item)> = Vec::new();
        for (place, &op) in part.ops.iter().enumerate() {
            let unit = self.unit_of(part, op);
            for (number, piece) in pieces[unit].1.iter().enumerate() {
                let on = self.units[unit].1.iter().position(|on| on.device == piece.device).unwrap_or(0);
                let time =
                    part.tables.time(op as usize, piece.device as usize, piece.count()) as f64 / self.unit;
                // By the middle of their time, whatever the tolerance does to starts.
                let middle = values[self.starts[place][on].index()] + time / 2.0;
                items.push((middle, place, Item { op, piece: number as u32 }));
            }
        }
        items.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        MipSolution { pieces, items: items.into_iter().map(|(.., item)| item).collect() }
    }
}

fn scaled(terms: &[(Column, f64)], factor: f64) -> Terms {
    terms.iter().map(|&(column, value)| (column, value * factor)).collect()
}

/// The same terms with every column once.
fn merged(mut terms: Terms) -> Terms {
    terms.sort_by_key(|(column, _)| column.index());
    let mut once: Terms = Vec::with_capacity(terms.len());
    for (column, value) in terms {
        match once.last_mut() {
            Some(last) if last.0.index() == column.index() => last.1 += value,
            _ => once.push((column, value)),
        }
    }
    once
}
