//! `division-area` and `division-lp`: how the inputs of each op are divided, and how long inputs are on their way.
//!
//! Both are linear programs over the divisions of each op's inputs into supported sizes on classes of devices, solved by
//! HiGHS; their duals are proved in integers by `core/src/makespan/relaxations/divisions.rs`, whose head says why they hold.
//! `division-area` has the load of each class alone. `division-lp` adds, for the mean over all inputs, the start of each op,
//! the time of the batch that an input is part of, and its delays: large batches save work and take long, small ones the
//! other way round, and no division is good at both.

use std::collections::HashMap;

use divvy_core::certificate::Evidence;
use divvy_core::ids::OpId;
use divvy_core::makespan::relaxations::divisions::{Flow, Slot, Ways, slots};
use divvy_core::problem::{Objective, Problem};
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::registry::{Bound, Runs};
use crate::run::Run;

/// More ways to divide the inputs of an op than this are refused.
const MOST_DIVISIONS: usize = 300;
/// With more columns for what edges carry than this, delays are left out.
const MOST_CARRIED: usize = 120_000;
/// More columns than this are refused.
const MOST_COLUMNS: usize = 400_000;
/// Dual factors are counted in this many parts.
const PARTS: f64 = (1u64 << 30) as f64;

pub(super) struct DivisionArea;

impl Bound for DivisionArea {
    fn name(&self) -> &'static str {
        "division-area"
    }

    fn about(&self) -> &'static str {
        "all work in the best divisions of the inputs, shared freely by all devices"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        Shapes::new(problem).map(|_| ())
    }

    fn bound(&self, run: &mut Run<'_>) {
        prove(run, self.name(), Detail::Loads);
    }
}

pub(super) struct DivisionLp;

impl Bound for DivisionLp {
    fn name(&self) -> &'static str {
        "division-lp"
    }

    fn about(&self) -> &'static str {
        "divisions that keep devices busy and inputs on their way, by HiGHS, the dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        Shapes::new(problem).map(|_| ())
    }

    fn runs(&self) -> Runs {
        Runs::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let known = |run: &Run<'_>, detail: Detail| {
            let all = run.outcome().certificates.iter();
            let mut certificates = all.filter(|known| known.bound == self.name());
            certificates.any(|known| match &known.evidence {
                Evidence::Divisions { flows, .. } => {
                    detail == Detail::Paths || flows.iter().any(|flow| !flow.prices.is_empty())
                }
                _ => false,
            })
        };
        for detail in [Detail::Paths, Detail::Delays] {
            if !known(run, detail) && !run.budget.is_spent() && !prove(run, self.name(), detail) {
                break;
            }
        }
    }
}

/// What the program knows of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Detail {
    Loads,
    Paths,
    Delays,
}

/// Solves a program and proves its dual; false if it was not solved to the end.
fn prove(run: &mut Run<'_>, name: &str, detail: Detail) -> bool {
    let Ok(shapes) = Shapes::new(run.problem) else { return false };
    let carried = shapes.edges.len() * shapes.slots.len().pow(2);
    if detail == Detail::Delays && carried > MOST_CARRIED {
        return false;
    }
    let mut built = Built::new(run.problem, &shapes, detail);
    let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
    let options = Options {
        time: left,
        threads: run.budget.threads,
        seed: run.budget.seed,
        absolute_gap: 0.0,
        nodes: None,
    };
    let program = std::mem::take(&mut built.program);
    let solution = Solver::new(&program, &options).and_then(|mut solver| solver.solve());
    let Some(solution) = solution.ok().filter(|solution| solution.status == Status::Optimal) else {
        return false;
    };
    let evidence = built.evidence(run.problem, &shapes, &solution.row_duals);
    run.prove(name, evidence);
    true
}

/// How many batches of each slot.
type Division = Vec<(usize, u32)>;

/// The ways to divide the inputs of each op over classes.
struct Shapes {
    inputs: u32,
    slots: Vec<Slot>,
    /// Devices of each class.
    devices: Vec<usize>,
    /// For each op, its divisions: how many batches of each slot.
    divisions: Vec<Vec<Division>>,
    /// Producer, consumer, bytes of the largest tensor between them.
    edges: Vec<(usize, usize, u64)>,
}

impl Shapes {
    fn new(problem: &Problem) -> Result<Shapes, String> {
        let Objective::Batch { inputs } = problem.objective else {
            return Err(format!("it is for `batch`, not for `{}`", problem.objective.name()));
        };
        let hardware = &problem.hardware;
        let slots = slots(problem);
        let mut devices = vec![0; hardware.class_count()];
        hardware.devices().for_each(|d| devices[hardware.class_of(d).index()] += 1);
        let mut divisions = Vec::with_capacity(problem.graph.op_count());
        // Ops with the same slots and devices have the same divisions.
        let mut known: HashMap<Vec<usize>, Vec<Division>> = HashMap::new();
        let mut columns = 0;
        for op in problem.graph.ops() {
            let mut allowed = vec![0; hardware.class_count()];
            problem.devices_for(op).for_each(|d| allowed[hardware.class_of(d).index()] += 1);
            let has = |slot: &Slot| {
                let costs = problem.costs()[slot.class].at(slot.size);
                if costs.is_some_and(|costs| costs[op.index()].is_some()) { allowed[slot.class] } else { 0 }
            };
            let most: Vec<usize> = slots.iter().map(has).collect();
            if !known.contains_key(&most) {
                let all = all_divisions(inputs, &slots, &most, &allowed)?;
                if all.is_empty() {
                    return Err(format!("no sizes divide the inputs of `{}`", problem.graph.op_name(op)));
                }
                known.insert(most.clone(), all);
            }
            let all = &known[&most];
            columns += all.len();
            divisions.push(all.clone());
        }
        if columns > MOST_COLUMNS {
            return Err(format!("the program has {columns} columns, {MOST_COLUMNS} is the most"));
        }
        Ok(Shapes { inputs, slots, devices, divisions, edges: edges(problem) })
    }
}

fn all_divisions(
    inputs: u32,
    slots: &[Slot],
    most: &[usize],
    allowed: &[usize],
) -> Result<Vec<Division>, String> {
    let mut found: Vec<Division> = Vec::new();
    let mut open: Vec<(usize, u32, Division)> = vec![(0, inputs, Vec::new())];
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
struct Built {
    program: Program,
    /// Picoseconds of the program's unit.
    unit: f64,
    loads: Vec<usize>,
    /// For each edge its row, and the first row of its producer's margins.
    edges: Vec<(usize, Option<usize>)>,
}

impl Built {
    fn new(problem: &Problem, shapes: &Shapes, detail: Detail) -> Built {
        let inputs = f64::from(shapes.inputs);
        let time = |op: usize, slot: Slot| {
            let costs = problem.costs()[slot.class].at(slot.size);
            costs.and_then(|costs| costs[op]).map_or(0.0, |cost| cost.time.0 as f64)
        };
        let ops = shapes.divisions.len();
        let longest: f64 =
            (0..ops).map(|op| shapes.slots.iter().map(|&s| time(op, s)).fold(0.0, f64::max)).sum();
        let unit = (longest / 1000.0).max(1.0);
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
                    let load: f64 = here.map(|&(slot, n)| f64::from(n) * time(op, shapes.slots[slot])).sum();
                    if load > 0.0 {
                        terms.push((column, -load / unit));
                    }
                }
            }
            loads.push(program.row_count());
            program.at_least(0.0, &terms);
        }
        let mut built = Built { program, unit, loads, edges: Vec::new() };
        if detail >= Detail::Paths {
            let starts: Vec<Column> =
                (0..ops).map(|_| built.program.column(0.0, f64::INFINITY, 0.0)).collect();
            // The mean over inputs of the time of the batch that they are part of.
            let mean = |op: usize| -> Vec<(Column, f64)> {
                let each = shapes.divisions[op].iter().zip(&divided[op]);
                each.map(|(division, &column)| {
                    let sum: f64 = division
                        .iter()
                        .map(|&(slot, n)| {
                            f64::from(n * shapes.slots[slot].size) * time(op, shapes.slots[slot])
                        })
                        .sum();
                    (column, -sum / inputs / unit)
                })
                .collect()
            };
            for (op, &start) in starts.iter().enumerate() {
                let mut terms = mean(op);
                terms.extend([(end, 1.0), (start, -1.0)]);
                built.program.at_least(0.0, &terms);
            }
            let ways = Ways::new(problem);
            for &(from, to, bytes) in &shapes.edges {
                let mut terms = mean(from);
                terms.extend([(starts[to], 1.0), (starts[from], -1.0)]);
                let margins = (detail == Detail::Delays)
                    .then(|| built.carry(shapes, &ways, [from, to], bytes, &divided, &mut terms));
                built.edges.push((built.program.row_count(), margins));
                built.program.at_least(0.0, &terms);
            }
        }
        built
    }

    /// Columns for the share of inputs that go from a slot of the producer to one of the consumer; returns the first of the
    /// producer's margin rows.
    fn carry(
        &mut self,
        shapes: &Shapes,
        ways: &Ways<'_>,
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

    /// The duals as weights and flows in whole numbers.
    fn evidence(&self, problem: &Problem, shapes: &Shapes, duals: &[f64]) -> Evidence {
        let parts = |dual: f64| (dual.max(0.0) * PARTS).round() as u64;
        let weight = |device| parts(duals[self.loads[problem.hardware.class_of(device).index()]]);
        let weights = problem.hardware.devices().map(weight).collect();
        let mut flows = Vec::new();
        for (&(from, to, _), &(row, margins)) in shapes.edges.iter().zip(&self.edges) {
            let times = parts(duals[row]);
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
            flows.push(Flow { from: OpId::new(from), to: OpId::new(to), times, prices });
        }
        Evidence::Divisions { weights, flows }
    }
}
