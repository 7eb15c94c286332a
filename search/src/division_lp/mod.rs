//! `division-area` and `division-lp`: how the inputs of each op are divided, and how long inputs are on their way.
//!
//! Both are linear programs over the divisions of each op's inputs into supported sizes on classes of devices, solved by
//! HiGHS; their duals are proved in integers by `core/src/makespan/relaxations/divisions.rs`, whose head says why they hold.
//! `division-area` has the load of each class alone. `division-lp` adds, for the mean over all inputs, the start of each op,
//! the time of the batch that an input is part of, and its delays: large batches save work and take long, small ones the
//! other way round, and no division is good at both. Rows about the work of one device between two ops are far more than
//! bind: after every solve the program takes in those that its solution violates most. Where memory is short, what batches hold
//! of it is a row for each class. `memory` (`memory.rs`) is the same program for other objectives.

pub(crate) mod division_shapes;
pub(crate) mod memory_bound;

use std::collections::HashMap;
use std::time::Duration;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_proof::division_lp::Slot;
use divvy_proof::division_lp::units::FastestRoutes;
use divvy_proof::evidence::{Evidence, PricedEdge, WorkWindow};
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::division_lp::division_shapes::{Between, BatchCounts, FEW_OPS, Shapes};
use crate::run::Run;

/// More ways to divide the inputs of an op than this are refused.
const MOST_DIVISIONS: usize = 300;
/// With more columns for what edges carry than this, delays are left out.
const MOST_CARRIED: usize = 120_000;
/// More columns than this are refused.
const MOST_COLUMNS: usize = 400_000;
/// With more ops than this, work between two ops is left out.
const MOST_OPS_WITH_WINDOWS: usize = 400;
/// Windows taken in after a solve, for each op.
const WINDOWS_PER_OP: usize = 3;
/// Where what was proved before is less than this part of what others proved, more windows will not make up for it.
const LEAST_PROMISE: f64 = 0.97;
/// The same before there were any windows.
const LEAST_FIRST_PROMISE: f64 = 0.93;
/// Violations below this part of the end do not count.
const LEAST_VIOLATION: f64 = 1e-6;

/// Dual factors are counted in this many parts.
pub(crate) const PARTS: f64 = (1u64 << 30) as f64;

/// Proves what the loads of devices do, in the name of a bound.
pub(crate) fn prove_loads(run: &mut Run<'_>, name: &str) {
    prove(run, name, Detail::Loads, None);
}

/// Proves what `division-lp` does, in the name of a bound.
pub(crate) fn prove_program(run: &mut Run<'_>, name: &str) {
    let Ok(shapes) = Shapes::new(run.problem) else { return };
    // The last of them goes on to windows.
    let details: &[Detail] =
        if shapes.can_carry() { &[Detail::Paths, Detail::Delays] } else { &[Detail::Paths] };
    let all = run.outcome().certificates.iter().filter(|known| known.bound == name);
    let best = all.max_by_key(|known| known.value_ps).map(|known| &known.evidence);
    if is_behind(run, name, LEAST_PROMISE) {
        return run.exhaust();
    }
    let (mut solved, mut windows) = (0, Vec::new());
    if let Some(Evidence::DivisionLp { flows, windows: known, .. }) = best {
        let carries = flows.iter().any(|flow| !flow.prices.is_empty());
        solved = if carries || !known.is_empty() { details.len() } else { 1 };
        windows = shapes.windows(run.problem, known);
    }
    // The last one is solved again with the windows known so far: there may have been no time for all of them.
    if shapes.has_windows() {
        solved = solved.min(details.len() - 1);
    }
    for &detail in &details[solved.min(details.len())..] {
        if is_behind(run, name, LEAST_FIRST_PROMISE) {
            break;
        }
        let known = (details.last() == Some(&detail)).then(|| std::mem::take(&mut windows));
        if run.budget.is_spent() || prove(run, name, detail, known) != Some(true) {
            return;
        }
    }
    run.exhaust();
}

/// Whether a bound has proved less than a part of what is proved by now.
fn is_behind(run: &Run<'_>, name: &str, part: f64) -> bool {
    let known = run.outcome().certificates.iter().filter(|known| known.bound == name);
    let proven = run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64);
    let value = known.map(|known| known.value_ps.0 as f64).reduce(f64::max);
    run.problem.graph.op_count() > FEW_OPS && value.is_some_and(|value| value < proven * part)
}

/// What the program knows of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Detail {
    Loads,
    Paths,
    Delays,
}

/// Solves a program and proves its dual: once, or from some windows on again and again as it takes in more. Whether it took in
/// all there are; none if it was not solved at all.
fn prove(run: &mut Run<'_>, name: &str, detail: Detail, windows: Option<Vec<Between>>) -> Option<bool> {
    let shapes = Shapes::new(run.problem).ok()?;
    let mut built = DivisionProgram::new(run.problem, &shapes, detail);
    let options = Options {
        time: run.budget.time.saturating_sub(run.budget.start.elapsed()),
        threads: run.budget.threads,
        seed: run.budget.seed,
        absolute_gap: 0.0,
        nodes: None,
    };
    let program = std::mem::take(&mut built.program);
    let mut solver = Solver::new(&program, &options).ok()?;
    let reach = (windows.is_some() && shapes.has_windows()).then(|| shapes.reach());
    let add = |solver: &mut Solver, built: &mut DivisionProgram, reach: &[Vec<bool>], windows: Vec<Between>| {
        let rows: Vec<_> = windows.iter().map(|&window| built.terms(&shapes, reach, window)).collect();
        built.windows.extend(windows);
        solver.add_rows(rows.iter().map(|terms| (0.0, &terms[..], f64::INFINITY))).is_ok()
    };
    if let Some((reach, windows)) = reach.as_ref().zip(windows)
        && !add(&mut solver, &mut built, reach, windows)
    {
        return None;
    }
    let mut is_solved = None;
    loop {
        let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
        let solution = solver.set_time(left.max(Duration::from_millis(1))).and_then(|()| solver.solve());
        let Some(solution) = solution.ok().filter(|solution| solution.status == Status::Optimal) else {
            return is_solved;
        };
        is_solved = Some(false);
        let evidence = built.evidence(run.problem, &shapes, &solution.row_duals);
        run.prove(name, evidence);
        let Some((reach, (_, values))) = reach.as_ref().zip(solution.best.as_ref()) else {
            return Some(true);
        };
        let violated = built.violated(&shapes, reach, values);
        if violated.is_empty() {
            return Some(true);
        }
        if run.budget.is_spent() || !add(&mut solver, &mut built, reach, violated) {
            return is_solved;
        }
    }
}

/// The time of a batch in picoseconds, 0 where there is none.
pub(crate) fn time_of(problem: &Problem, op: usize, slot: Slot) -> f64 {
    let costs = problem.costs()[slot.class].at(slot.size);
    costs.and_then(|costs| costs[op]).map_or(0.0, |cost| cost.time.0 as f64)
}

fn all_divisions(
    inputs: u32,
    slots: &[Slot],
    most: &[usize],
    allowed: &[usize],
) -> Result<Vec<BatchCounts>, String> {
    let mut found: Vec<BatchCounts> = Vec::new();
    let mut open: Vec<(usize, u32, BatchCounts)> = vec![(0, inputs, Vec::new())];
    let mut steps = 0usize;
    while let Some((slot, left, parts)) = open.pop() {
        steps += 1;
        if left == 0 {
            found.push(parts);
        } else if slot < slots.len() {
            let class = slots[slot].class;
            let taken: u32 = parts.iter().filter(|(s, _)| slots[*s].class == class).map(|(_, n)| n).sum();
            let free = (allowed[class].saturating_sub(taken as usize)).min(most[slot]);
            let fitting = (left / slots[slot].size) as usize;
            for count in 0..=free.min(fitting) as u32 {
                let mut with = parts.clone();
                if count > 0 {
                    with.push((slot, count));
                }
                open.push((slot + 1, left - count * slots[slot].size, with));
            }
        }
        if found.len() > MOST_DIVISIONS || steps > 100 * MOST_DIVISIONS {
            return Err(format!("there are more than {MOST_DIVISIONS} ways to divide {inputs} inputs"));
        }
    }
    Ok(found)
}

fn order(problem: &Problem) -> Vec<usize> {
    problem.graph.order().iter().map(|op| op.index()).collect()
}

fn edges(problem: &Problem) -> Vec<(usize, usize, u64)> {
    let graph = &problem.graph;
    let mut edges: HashMap<(usize, usize), u64> = HashMap::new();
    for op in graph.ops() {
        for &tensor in graph.inputs(op) {
            if let Some(producer) = graph.producer(tensor) {
                let bytes = edges.entry((producer.index(), op.index())).or_default();
                *bytes = (*bytes).max(graph.tensor_bytes(tensor));
            }
        }
    }
    let mut edges: Vec<(usize, usize, u64)> =
        edges.into_iter().map(|((from, to), b)| (from, to, b)).collect();
    edges.sort_unstable();
    edges
}

/// A program, and where its rows are.
pub(crate) struct DivisionProgram {
    pub(crate) program: Program,
    /// Picoseconds of the program's unit.
    pub(crate) unit: f64,
    pub(crate) loads: Vec<usize>,
    /// For each class whose memory is a row, that row.
    pub(crate) memory: Vec<Option<usize>>,
    /// For each edge that it knows of its place, its row, and the first row of its producer's margins.
    pub(crate) edges: Vec<(usize, usize, Option<usize>)>,
    pub(crate) end: Column,
    pub(crate) starts: Vec<Column>,
    /// For each op and class, the mean over inputs of the time of the batch that they are part of, if it is of the class.
    pub(crate) means: Vec<Vec<(Column, f64)>>,
    /// The windows so far. Their rows are the last ones.
    pub(crate) windows: Vec<Between>,
    pub(crate) first_window: usize,
}

impl DivisionProgram {
    fn new(problem: &Problem, shapes: &Shapes, detail: Detail) -> DivisionProgram {
        let ops = shapes.divisions.len();
        let unit = shapes.unit(problem);
        let mut program = Program::new();
        let end = program.column(0.0, f64::INFINITY, 1.0);
        let mut divided: Vec<Vec<Column>> = Vec::with_capacity(ops);
        for all in &shapes.divisions {
            divided.push(all.iter().map(|_| program.column(0.0, f64::INFINITY, 0.0)).collect());
            let terms: Vec<(Column, f64)> =
                divided[divided.len() - 1].iter().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &terms, 1.0);
        }
        let mut loads = Vec::new();
        for (class, &devices) in shapes.devices.iter().enumerate() {
            let mut terms = vec![(end, devices as f64)];
            for (op, columns) in divided.iter().enumerate() {
                for (division, &column) in shapes.divisions[op].iter().zip(columns) {
                    let here = division.iter().filter(|(slot, _)| shapes.slots[*slot].class == class);
                    let load: f64 =
                        here.map(|&(slot, n)| f64::from(n) * time_of(problem, op, shapes.slots[slot])).sum();
                    if load > 0.0 {
                        terms.push((column, -load / unit));
                    }
                }
            }
            loads.push(program.row_count());
            program.at_least(0.0, &terms);
        }
        let memory =
            shapes.memory.as_ref().map_or_else(Vec::new, |memory| memory.add(&mut program, shapes, &divided));
        let mut built = DivisionProgram {
            program,
            unit,
            loads,
            memory,
            edges: Vec::new(),
            end,
            starts: Vec::new(),
            means: Vec::new(),
            windows: Vec::new(),
            first_window: 0,
        };
        if detail >= Detail::Paths {
            let starts: Vec<Column> =
                (0..ops).map(|_| built.program.column(0.0, f64::INFINITY, 0.0)).collect();
            let classes = shapes.devices.len();
            let mean = |place: usize| {
                let (op, class) = (place / classes, place % classes);
                shapes.means(problem, unit, op, class, &divided[op])
            };
            built.means = (0..ops * classes).map(mean).collect();
            built.starts.clone_from(&starts);
            let means = built.means.clone();
            let mean = |op: usize| united(&means[op * classes..][..classes]);
            for (op, &start) in starts.iter().enumerate() {
                let mut terms = mean(op);
                terms.extend([(end, 1.0), (start, -1.0)]);
                built.program.at_least(0.0, &terms);
            }
            let ways = FastestRoutes::new(problem);
            for (edge, &(from, to, bytes)) in shapes.edges.iter().enumerate() {
                let mut terms = mean(from);
                terms.extend([(starts[to], 1.0), (starts[from], -1.0)]);
                let margins = (detail == Detail::Delays)
                    .then(|| built.carry(shapes, &ways, [from, to], bytes, &divided, &mut terms));
                built.edges.push((edge, built.program.row_count(), margins));
                built.program.at_least(0.0, &terms);
            }
        }
        built.first_window = built.program.row_count();
        built
    }

    /// The windows that a solution violates most.
    fn violated(&self, shapes: &Shapes, reach: &[Vec<bool>], values: &[f64]) -> Vec<Between> {
        let (ops, classes) = (shapes.divisions.len(), shapes.devices.len());
        let value = |column: Column| values[column.index()];
        let mean = |place: usize| -> f64 {
            self.means[place].iter().map(|&(column, factor)| -factor * value(column)).sum()
        };
        let means: Vec<f64> = (0..ops * classes).map(mean).collect();
        let start = |op: usize| value(self.starts[op]);
        let ended = |op: usize| start(op) + means[op * classes..][..classes].iter().sum::<f64>();
        let least = value(self.end) * LEAST_VIOLATION;
        let mut found: Vec<(f64, Between)> = Vec::new();
        let mut loads = vec![0.0; ops * classes];
        for from in std::iter::once(None).chain((0..ops).map(Some)) {
            let follows: Vec<usize> = (shapes.order.iter().copied())
                .filter(|&op| from.is_none_or(|from: usize| reach[from][op]))
                .collect();
            // For each op, the work of each class that leads to it; and all of it.
            loads.fill(0.0);
            let mut all = vec![0.0; classes];
            for &op in &follows {
                let own = &means[op * classes..][..classes];
                all.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                for &to in follows.iter().filter(|&&to| reach[op][to]) {
                    loads[to * classes..][..classes].iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                }
            }
            let begin = from.map_or(0.0, ended);
            for class in 0..classes {
                let devices = shapes.devices[class].max(1) as f64;
                let mut look = |to: Option<usize>, load: f64, room: f64| {
                    if load / devices - room > least {
                        found.push((load / devices - room, (from, to, class)));
                    }
                };
                look(None, all[class], value(self.end) - begin);
                follows.iter().for_each(|&to| look(Some(to), loads[to * classes + class], start(to) - begin));
            }
        }
        found.retain(|(_, window)| !self.windows.contains(window));
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.truncate(WINDOWS_PER_OP * ops.max(30));
        found.into_iter().map(|(_, window)| window).collect()
    }

    /// The row of a window.
    pub(crate) fn terms(&self, shapes: &Shapes, reach: &[Vec<bool>], window: Between) -> Vec<(Column, f64)> {
        let (from, to, class) = window;
        let classes = shapes.devices.len();
        let devices = shapes.devices[class].max(1) as f64;
        let mut terms = vec![(to.map_or(self.end, |to| self.starts[to]), 1.0)];
        if let Some(from) = from {
            terms.push((self.starts[from], -1.0));
            terms.extend(united(&self.means[from * classes..][..classes]));
        }
        for (op, leads) in reach.iter().enumerate() {
            let follows = from.is_none_or(|from| reach[from][op]);
            if follows && to.is_none_or(|to| leads[to]) {
                let work = self.means[op * classes + class].iter();
                terms.extend(work.map(|&(column, factor)| (column, factor / devices)));
            }
        }
        terms
    }

    /// Columns for the share of inputs that go from a slot of the producer to one of the consumer; returns the first of the
    /// producer's margin rows.
    pub(crate) fn carry(
        &mut self,
        shapes: &Shapes,
        ways: &FastestRoutes<'_>,
        [from, to]: [usize; 2],
        bytes: u64,
        divided: &[Vec<Column>],
        terms: &mut Vec<(Column, f64)>,
    ) -> usize {
        let count = shapes.slots.len();
        let margin = |op: usize, slot: usize| -> Vec<(Column, f64)> {
            let share = f64::from(shapes.slots[slot].size) / f64::from(shapes.inputs);
            let each = shapes.divisions[op].iter().zip(&divided[op]);
            let with = each.filter_map(|(division, &column)| {
                let n = division.iter().find(|(s, _)| *s == slot)?.1;
                Some((column, -share * f64::from(n)))
            });
            with.collect()
        };
        let mut sent: Vec<Vec<(Column, f64)>> = (0..count).map(|slot| margin(from, slot)).collect();
        let mut received: Vec<Vec<(Column, f64)>> = (0..count).map(|slot| margin(to, slot)).collect();
        let used =
            |rows: &[Vec<(Column, f64)>]| -> Vec<bool> { rows.iter().map(|row| !row.is_empty()).collect() };
        let (sends, receives) = (used(&sent), used(&received));
        for here in (0..count).filter(|&slot| sends[slot]) {
            for there in (0..count).filter(|&slot| receives[slot]) {
                let [a, b] = [shapes.slots[here], shapes.slots[there]];
                let moved = (a.size + b.size).saturating_sub(shapes.inputs).max(1);
                let Some(delay) = ways.delay(a.class, b.class, bytes * u64::from(moved)) else { continue };
                let column = self.program.column(0.0, f64::INFINITY, 0.0);
                sent[here].push((column, 1.0));
                received[there].push((column, 1.0));
                if delay > 0 {
                    terms.push((column, -(delay as f64) / self.unit));
                }
            }
        }
        let first = self.program.row_count();
        sent.iter().chain(&received).for_each(|row| self.program.row(0.0, row, 0.0));
        first
    }

    /// The duals as weights, flows and windows in whole numbers.
    fn evidence(&self, problem: &Problem, shapes: &Shapes, duals: &[f64]) -> Evidence {
        let weight = |device| whole_times(duals[self.loads[problem.hardware.class_of(device).index()]]);
        let weights = problem.hardware.devices().map(weight).collect();
        let (flows, windows) = self.links(problem, shapes, duals);
        let memory = self.memory_prices(problem, shapes, duals);
        Evidence::DivisionLp { weights, flows, windows, memory }
    }

    /// The duals of memory in whole numbers; nothing if all are 0.
    fn memory_prices(&self, problem: &Problem, shapes: &Shapes, duals: &[f64]) -> Vec<u64> {
        let price = |device: DeviceId| {
            let class = problem.hardware.class_of(device).index();
            let (row, memory) = self.memory.get(class).copied().flatten().zip(shapes.memory.as_ref())?;
            let price = duals[row].max(0.0) * self.unit / memory.unit(class) * f64::from(shapes.inputs);
            Some((price * PARTS).round() as u64)
        };
        let prices: Vec<u64> = problem.hardware.devices().map(|device| price(device).unwrap_or(0)).collect();
        if prices.iter().all(|&price| price == 0) { Vec::new() } else { prices }
    }

    /// The duals of edges and windows as flows and windows in whole numbers.
    pub(crate) fn links(
        &self,
        problem: &Problem,
        shapes: &Shapes,
        duals: &[f64],
    ) -> (Vec<PricedEdge>, Vec<WorkWindow>) {
        let mut flows = Vec::new();
        for &(edge, row, margins) in &self.edges {
            let (from, to, _) = shapes.edges[edge];
            let times = whole_times(duals[row]);
            if times == 0 {
                continue;
            }
            // For each input that the edge carries once. What is part of no division must not set the price of what is.
            let price = |first: usize, slot: usize| {
                let is_used = shapes.divisions[from].iter().flatten().any(|&(used, _)| used == slot);
                let price = duals[first + slot] / duals[row] * self.unit;
                if is_used { price.round().clamp(-1e17, 1e17) as i64 } else { -(1 << 60) }
            };
            let prices = match margins {
                Some(first) => (0..shapes.slots.len()).map(|slot| price(first, slot)).collect(),
                None => Vec::new(),
            };
            flows.push(PricedEdge { from: OpId::new(from), to: OpId::new(to), times, prices });
        }
        let mut windows = Vec::new();
        for (&(from, to, class), &dual) in self.windows.iter().zip(&duals[self.first_window..]) {
            let times = whole_times(dual / shapes.devices[class].max(1) as f64);
            let of_class = |&device: &DeviceId| problem.hardware.class_of(device).index() == class;
            for device in problem.hardware.devices().filter(of_class).filter(|_| times > 0) {
                windows.push(WorkWindow { from: from.map(OpId::new), to: to.map(OpId::new), device, times });
            }
        }
        (flows, windows)
    }
}

/// A dual factor in whole numbers.
pub(crate) fn whole_times(dual: f64) -> u64 {
    (dual.max(0.0) * PARTS).round() as u64
}

/// Terms of one op by class, with one factor for each column.
pub(crate) fn united(means: &[Vec<(Column, f64)>]) -> Vec<(Column, f64)> {
    let mut terms: Vec<(Column, f64)> = means.iter().flatten().copied().collect();
    terms.sort_by_key(|(column, _)| column.index());
    terms.dedup_by(|next, kept| {
        let same = next.0.index() == kept.0.index();
        if same {
            kept.1 += next.1;
        }
        same
    });
    terms
}
