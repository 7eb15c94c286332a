//! DiviML's program (1)–(7) for groups of inputs, corrected, for some ops of a network with the others fixed.
//!
//! Columns: x_iug ∈ {0, 1}, group g of unit i runs on device u; b_iuk ∈ {0, 1}, the batch of i on u has k groups;
//! s_iu, the start of op i's batch on u; C. Let T_iu = Σ_k b_iuk t_iuk. Minimise C subject to
//!
//! * (1) Σ_u x_iug = 1. (4), (5) Σ_k k b_iuk = Σ_g x_iug and Σ_k b_iuk ≤ 1, over supported sizes.
//! * (2) C ≥ s_iu + T_iu + the longest path behind i.
//! * (3) For an edge i → j, devices u ≠ v and every group g: s_jv ≥ s_iu + T_iu + latency + rate · (groups that move)
//!   − M (2 − x_iug − x_jvg). The row binds only if the two batches share a group, and only shared groups move. (The
//!   paper's index set reads i ∈ par(i).)
//! * (6) Memory, with parameters once for each device that has a batch of a reader.
//! * (7) Any two batches on a device do not overlap, on a common path or not: batches of a path may have different
//!   inputs. For each pair of ops and device one binary column decides the order, with big-M rows.
//! * M is the horizon plus the time and the delay of the row.
//! * Symmetry: interchangeable devices, and interchangeable nodes, are ordered by groups, by ops or by time
//!   (#batches, #tasks and time in the paper).
//!
//! Ops scheduled before are constants: their ends release their readers, and devices are free after their last batch.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use divvy_proof::latency_tables::NEVER;
use divvy_solver::{Column, Event, Options, Program, Terms, solve_watched};

use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::BatchId;
use crate::batch::tables::{BatchTables, DevicePart, Division};
use crate::run::Run;

/// The most non-zero coefficients.
pub(crate) const MOST_FACTORS: usize = 3_000_000;

/// The criterion that orders interchangeable devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symmetry {
    /// The number of groups of inputs.
    Batches,
    /// The number of batches.
    Tasks,
    /// The time of all batches.
    Time,
}

impl Symmetry {
    /// The criterion with a name.
    pub(crate) fn named(name: &str) -> Option<Symmetry> {
        let all = [("batches", Symmetry::Batches), ("tasks", Symmetry::Tasks), ("time", Symmetry::Time)];
        all.into_iter().find(|(known, _)| *known == name).map(|(_, symmetry)| symmetry)
    }
}

/// The ops of a program, and what is fixed around them.
pub(crate) struct FixedContext<'a> {
    pub(crate) tables: &'a BatchTables,
    pub(crate) ops: &'a [u32],
    /// For each unit scheduled before, its division.
    pub(crate) divisions: &'a [Option<Division>],
    /// The ends of the batches scheduled before, by op and part.
    pub(crate) ends: &'a [Vec<u64>],
    /// When each device is free.
    pub(crate) free: &'a [u64],
    /// The devices that may be used.
    pub(crate) devices: &'a [u32],
    /// For each op, a lower bound on the time behind its end.
    pub(crate) tails: &'a [u64],
    /// Groups of interchangeable nodes, each node a list of devices.
    pub(crate) interchangeable: &'a [Vec<Vec<u32>>],
    pub(crate) symmetry: Option<Symmetry>,
    pub(crate) memory: &'a BatchMemory,
}

/// A solution of a program: the divisions of its units, and its batches by start.
#[derive(Clone, Debug)]
pub(crate) struct MipSolution {
    pub(crate) divisions: Vec<(usize, Division)>,
    pub(crate) batches: Vec<BatchId>,
}

/// The columns of a unit on a device.
struct DeviceColumns {
    device: u32,
    /// x, by group.
    groups: Vec<Column>,
    /// b, each with its number of groups.
    counts: Vec<(u32, Column)>,
}

/// The program, and the meaning of its columns.
struct BatchFormulation {
    program: Program,
    /// For each unit of the program, its number and its columns.
    units: Vec<(usize, Vec<DeviceColumns>)>,
    /// For each op of the program and device of its unit, s.
    starts: Vec<Vec<Column>>,
    end: Column,
    /// The unit of time, in picoseconds.
    unit: f64,
}

/// An estimate of the number of non-zero coefficients of a program for some ops.
pub(crate) fn factor_count(tables: &BatchTables, ops: &[u32], devices: usize) -> usize {
    let (ops_count, groups) = (ops.len(), tables.groups);
    let edges: usize = ops.iter().map(|&op| tables.inputs[op as usize].len()).sum();
    edges * devices * devices * groups * (6 + groups) + ops_count * ops_count * devices * (3 + groups)
}

/// Solves the program of a context within a horizon; `watch` receives every better solution, and bounds in picoseconds.
pub(crate) fn solve(
    run: &Run<'_>,
    context: &FixedContext<'_>,
    horizon: u64,
    time: Duration,
    watch: &mut dyn FnMut(Option<MipSolution>, f64) -> ControlFlow<()>,
) {
    let began = Instant::now();
    let Some(formulation) = BatchFormulation::new(context, horizon) else { return };
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
    let result = solve_watched(&formulation.program, &options, None, &mut |event| match event {
        Event::Solution(_, values) => watch(Some(formulation.read(context, &values)), 0.0),
        Event::Bound(bound) => watch(None, bound * unit),
        Event::Waiting if run.budget.is_spent() => ControlFlow::Break(()),
        Event::Waiting => ControlFlow::Continue(()),
    });
    if let Ok(solution) = result {
        let found = solution.best.as_ref().map(|(_, values)| formulation.read(context, values));
        let _ = watch(found, solution.bound * unit);
    }
}

impl BatchFormulation {
    /// The program; none if some unit has no device.
    fn new(context: &FixedContext<'_>, horizon: u64) -> Option<BatchFormulation> {
        let tables = context.tables;
        let mut program = Program::new();
        let unit = (horizon as f64 / 1000.0).max(1.0);
        let most = horizon as f64 / unit;
        let end = program.column(0.0, most, 1.0);
        let mut units: Vec<(usize, Vec<DeviceColumns>)> = Vec::new();
        for &op in context.ops {
            let number = tables.unit_of[op as usize] as usize;
            if units.iter().any(|(known, _)| *known == number) {
                continue;
            }
            let fixed = context.divisions[number].as_ref();
            let mut on = Vec::new();
            for choice in
                tables.choices[number].iter().filter(|choice| context.devices.contains(&choice.device))
            {
                let groups: Vec<Column> = (0..tables.groups).map(|_| program.binary()).collect();
                let counts = choice.counts.iter().map(|&count| (count, program.binary())).collect();
                if let Some(division) = fixed {
                    // Other ops of a colocation group were scheduled before.
                    for (group, &column) in groups.iter().enumerate() {
                        let here = |p: &&DevicePart| p.device == choice.device && p.groups >> group & 1 == 1;
                        program.fix(column, f64::from(u8::from(division.iter().any(|p| here(&p)))));
                    }
                }
                on.push(DeviceColumns { device: choice.device, groups, counts });
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
        let mut starts = Vec::with_capacity(context.ops.len());
        for &op in context.ops {
            let (_, on) = &units[unit_of(op)?];
            let start = |on: &DeviceColumns| {
                let free = (context.free[on.device as usize] as f64 / unit).min(most);
                program.column(free, most, 0.0)
            };
            starts.push(on.iter().map(start).collect());
        }
        let mut new = BatchFormulation { program, units, starts, end, unit };
        new.assign_groups(context);
        new.add_transfers(context, most);
        new.order_batches(context, most);
        new.limit_memory(context);
        new.break_symmetry(context);
        Some(new)
    }

    /// The index of an op's unit in the program.
    fn unit_of(&self, context: &FixedContext<'_>, op: u32) -> usize {
        let number = context.tables.unit_of[op as usize] as usize;
        self.units.iter().position(|(known, _)| *known == number).unwrap_or(0)
    }

    /// The time of an op's batch, times a factor.
    fn time(&self, context: &FixedContext<'_>, op: u32, on: &DeviceColumns, factor: f64) -> Terms {
        let time = |count: u32| context.tables.time(op as usize, on.device as usize, count as usize) as f64;
        on.counts.iter().map(|&(count, b)| (b, factor * time(count) / self.unit)).collect()
    }

    /// Rows (1), (2), (4) and (5).
    fn assign_groups(&mut self, context: &FixedContext<'_>) {
        for (_, on) in &self.units {
            for group in 0..context.tables.groups {
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
        for (place, &op) in context.ops.iter().enumerate() {
            let (_, on) = &self.units[self.unit_of(context, op)];
            for (on, &start) in on.iter().zip(&self.starts[place]) {
                let device = on.device as usize;
                let mut terms: Terms = vec![(self.end, 1.0), (start, -1.0)];
                for &(count, b) in &on.counts {
                    let out = context.tables.delivery(op as usize, device, count as usize);
                    let time = context.tables.time(op as usize, device, count as usize);
                    let whole = time + out.max(context.tails[op as usize]);
                    terms.push((b, -(whole as f64) / self.unit));
                    let release = context.tables.release(op as usize, device, count as usize);
                    if release > 0 {
                        self.program.at_least(0.0, &[(start, 1.0), (b, -(release as f64) / self.unit)]);
                    }
                }
                self.program.at_least(0.0, &terms);
            }
        }
    }

    /// Rows (3).
    fn add_transfers(&mut self, context: &FixedContext<'_>, most: f64) {
        let tables = context.tables;
        let groups = tables.groups;
        for (place, &to) in context.ops.iter().enumerate() {
            let receiver = self.unit_of(context, to);
            for edge in &tables.inputs[to as usize] {
                let sender = context.ops.iter().position(|&op| op == edge.op);
                for v in 0..self.units[receiver].1.len() {
                    let target = self.units[receiver].1[v].device as usize;
                    let start = self.starts[place][v];
                    let delay = |from: usize, count: usize| tables.delay(edge.size, from, target, count);
                    let Some(sender) = sender else {
                        self.add_releases(context, edge.op, [receiver, v], start, most, &delay);
                        continue;
                    };
                    let from_unit = self.unit_of(context, edge.op);
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
                        row.extend(self.time(context, edge.op, &self.units[from_unit].1[u], -1.0));
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

    /// Rows (3) of an edge from an op scheduled before.
    fn add_releases(
        &mut self,
        context: &FixedContext<'_>,
        producer: u32,
        [receiver, v]: [usize; 2],
        start: Column,
        most: f64,
        delay: &dyn Fn(usize, usize) -> u64,
    ) {
        let Some(division) = &context.divisions[context.tables.unit_of[producer as usize] as usize] else {
            return;
        };
        let groups = context.tables.groups;
        for (part, &end) in division.iter().zip(&context.ends[producer as usize]) {
            let ys = self.units[receiver].1[v].groups.clone();
            let there = (0..groups).filter(|group| part.groups >> group & 1 == 1);
            if delay(part.device as usize, 1) >= NEVER {
                there.for_each(|group| self.program.fix(ys[group], 0.0));
                continue;
            }
            let [first, last] =
                [1, groups].map(|count| delay(part.device as usize, count) as f64 / self.unit);
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
    fn order_batches(&mut self, context: &FixedContext<'_>, most: f64) {
        for one in 0..context.ops.len() {
            for other in one + 1..context.ops.len() {
                let (a, b) = (context.ops[one], context.ops[other]);
                let (unit_a, unit_b) = (self.unit_of(context, a), self.unit_of(context, b));
                for u in 0..self.units[unit_a].1.len() {
                    let device = self.units[unit_a].1[u].device;
                    let Some(v) = self.units[unit_b].1.iter().position(|on| on.device == device) else {
                        continue;
                    };
                    let before = self.program.binary();
                    let is_used =
                        |on: &DeviceColumns| -> Terms { on.counts.iter().map(|&(_, b)| (b, 1.0)).collect() };
                    let both =
                        [is_used(&self.units[unit_a].1[u]), is_used(&self.units[unit_b].1[v])].concat();
                    for (first, second, (op, unit, place), sign) in [
                        (self.starts[one][u], self.starts[other][v], (a, unit_a, u), 1.0),
                        (self.starts[other][v], self.starts[one][u], (b, unit_b, v), -1.0),
                    ] {
                        let on = &self.units[unit].1[place];
                        let longest = on.counts.last().map_or(0, |&(count, _)| {
                            context.tables.time(op as usize, device as usize, count as usize)
                        });
                        let big = most + longest as f64 / self.unit;
                        // second ≥ first + time − big (3 − used − used − [this one goes first])
                        let mut row: Terms = vec![(second, 1.0), (first, -1.0)];
                        row.extend(self.time(context, op, on, -1.0));
                        row.extend(scaled(&both, -big));
                        row.push((before, -sign * big));
                        let constant = if sign > 0.0 { 3.0 } else { 2.0 };
                        self.program.at_least(-constant * big, &merged(row));
                    }
                }
            }
        }
    }

    /// Rows (6).
    fn limit_memory(&mut self, context: &FixedContext<'_>) {
        for &device in context.devices {
            let Some(left) = context.memory.left(device) else { continue };
            let scale = (left as f64 / 1e6).max(1.0);
            let mut row: Terms = Vec::new();
            let mut readers: std::collections::BTreeMap<u32, Vec<&DeviceColumns>> =
                std::collections::BTreeMap::new();
            for (number, on) in &self.units {
                if context.divisions[*number].is_some() {
                    continue;
                }
                let Some(on) = on.iter().find(|on| on.device == device) else { continue };
                for &(count, b) in &on.counts {
                    row.push((b, context.memory.own_bytes(*number, count) as f64 / scale));
                }
                for param in context.memory.shared_params(*number) {
                    readers.entry(param).or_default().push(on);
                }
            }
            let mut reads = Vec::new();
            for (param, on) in readers {
                let bytes = context.memory.bytes_if_new(param, device);
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

    /// Of interchangeable nodes, one has at least as much as the next of what the criterion counts.
    fn break_symmetry(&mut self, context: &FixedContext<'_>) {
        let Some(symmetry) = context.symmetry else { return };
        for group in context.interchangeable {
            for pair in group.windows(2) {
                let mut row: Terms = Vec::new();
                for (devices, sign) in [(&pair[0], 1.0), (&pair[1], -1.0)] {
                    for &op in context.ops {
                        let (_, on) = &self.units[self.unit_of(context, op)];
                        for on in on.iter().filter(|on| devices.contains(&on.device)) {
                            match symmetry {
                                Symmetry::Batches => row.extend(on.groups.iter().map(|&x| (x, sign))),
                                Symmetry::Tasks => row.extend(on.counts.iter().map(|&(_, b)| (b, sign))),
                                Symmetry::Time => row.extend(self.time(context, op, on, sign)),
                            }
                        }
                    }
                }
                self.program.at_least(0.0, &merged(row));
            }
        }
    }

    /// The divisions and the order of batches of a solution.
    fn read(&self, context: &FixedContext<'_>, values: &[f64]) -> MipSolution {
        let mut divisions = Vec::new();
        for (number, on) in &self.units {
            let mut division: Division =
                on.iter().map(|on| DevicePart { device: on.device, groups: 0 }).collect();
            for group in 0..context.tables.groups {
                let most = |&place: &usize| (values[on[place].groups[group].index()] * 1e6) as i64;
                if let Some(place) = (0..on.len()).max_by_key(most) {
                    division[place].groups |= 1 << group;
                }
            }
            division.retain(|part| part.groups != 0);
            divisions.push((*number, division));
        }
        let mut batches: Vec<(f64, usize, BatchId)> = Vec::new();
        for (place, &op) in context.ops.iter().enumerate() {
            let unit = self.unit_of(context, op);
            for (number, part) in divisions[unit].1.iter().enumerate() {
                let on = self.units[unit].1.iter().position(|on| on.device == part.device).unwrap_or(0);
                let time =
                    context.tables.time(op as usize, part.device as usize, part.count()) as f64 / self.unit;
                // By the middle of their intervals, which is robust to the tolerance.
                let middle = values[self.starts[place][on].index()] + time / 2.0;
                batches.push((middle, place, BatchId { op, part: number as u32 }));
            }
        }
        batches.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        MipSolution { divisions, batches: batches.into_iter().map(|(.., batch)| batch).collect() }
    }
}

/// Terms times a factor.
fn scaled(terms: &[(Column, f64)], factor: f64) -> Terms {
    terms.iter().map(|&(column, value)| (column, value * factor)).collect()
}

/// Terms with every column once.
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
