//! The divisions of each op's inputs over classes of devices, and what a linear program over them needs.
//!
//! Devices of one class are not told apart. A *division* of an op says how many batches of each size each class runs,
//! so that the sizes sum to the number of inputs L and no class has more batches than devices. A program has one
//! column for each op and division. All divisions are enumerated, up to [`MOST_DIVISIONS`] for an op; problems with
//! more are refused.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_proof::division_lp::memory_prices::{activations_of_ops, is_tight, weights_of_ops};
use divvy_proof::division_lp::{ClassSize, class_sizes};
use divvy_proof::evidence::WorkWindow;
use divvy_solver::{Column, Program, Terms};

/// The most divisions of an op.
const MOST_DIVISIONS: usize = 300;
/// The most columns for transfers; beyond, delays are left out.
const MOST_CARRIED: usize = 120_000;
/// The most columns for divisions.
const MOST_COLUMNS: usize = 400_000;
/// The most ops for windows.
const MOST_OPS_WITH_WINDOWS: usize = 400;
/// With at most so many ops no bound is given up for want of promise.
pub(crate) const FEW_OPS: usize = 8;

/// A window: the work of a class of devices between two ops; none stands for the beginning or the end of the schedule.
pub(crate) type ClassWindow = (Option<usize>, Option<usize>, usize);

/// A division: numbers of batches by index in [`OpDivisions::class_sizes`].
pub(crate) type BatchCounts = Vec<(usize, u32)>;

/// The divisions of every op, and the graph between the ops.
pub(crate) struct OpDivisions {
    pub(crate) inputs: u32,
    /// The batch sizes that each class supports.
    pub(crate) class_sizes: Vec<ClassSize>,
    /// The number of devices of each class.
    pub(crate) devices: Vec<usize>,
    /// For each op, its divisions.
    pub(crate) of_op: Vec<Vec<BatchCounts>>,
    /// Producer, consumer, and bytes of the largest tensor between them.
    pub(crate) edges: Vec<(usize, usize, u64)>,
    /// The ops in topological order.
    pub(crate) order: Vec<usize>,
    /// The memory of the classes, if a limit may bind.
    pub(crate) memory: Option<ClassMemory>,
}

impl OpDivisions {
    /// The divisions of a `batch` problem.
    pub(crate) fn of_batches(problem: &Problem) -> Result<OpDivisions, String> {
        match problem.objective {
            Objective::Batch { .. } => OpDivisions::new(problem),
            objective => Err(format!("it is for `batch`, not for `{}`", objective.name())),
        }
    }

    /// The divisions of a problem; with one input for objectives other than `batch`.
    pub(crate) fn new(problem: &Problem) -> Result<OpDivisions, String> {
        let inputs = match problem.objective {
            Objective::Batch { inputs } => inputs,
            _ => 1,
        };
        let hardware = &problem.hardware;
        let class_sizes = class_sizes(problem);
        let mut devices = vec![0; hardware.class_count()];
        hardware.devices().for_each(|d| devices[hardware.class_of(d).index()] += 1);
        let mut divisions = Vec::with_capacity(problem.graph.op_count());
        // Ops with the same sizes and devices have the same divisions.
        let mut known: HashMap<Vec<usize>, Vec<BatchCounts>> = HashMap::new();
        let mut columns = 0;
        for op in problem.graph.ops() {
            let mut allowed = vec![0; hardware.class_count()];
            problem.devices_for(op).for_each(|d| allowed[hardware.class_of(d).index()] += 1);
            let has = |size: &ClassSize| {
                let costs = problem.costs()[size.class].at(size.size);
                if costs.is_some_and(|costs| costs[op.index()].is_some()) { allowed[size.class] } else { 0 }
            };
            let most: Vec<usize> = class_sizes.iter().map(has).collect();
            if !known.contains_key(&most) {
                let all = all_divisions(inputs, &class_sizes, &most, &allowed)?;
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
        let memory = ClassMemory::new(problem, inputs);
        Ok(OpDivisions {
            inputs,
            class_sizes,
            devices,
            of_op: divisions,
            edges: edges(problem),
            order: order(problem),
            memory,
        })
    }

    /// The unit of time of programs, in picoseconds.
    pub(crate) fn unit(&self, problem: &Problem) -> f64 {
        let longest =
            |op: usize| self.class_sizes.iter().map(|&s| time_of(problem, op, s)).fold(0.0, f64::max);
        ((0..self.of_op.len()).map(longest).sum::<f64>() / 1000.0).max(1.0)
    }

    /// Minus the mean over inputs of the time of their batch of an op, counting batches on a class only.
    pub(crate) fn mean_times(
        &self,
        problem: &Problem,
        unit: f64,
        op: usize,
        class: usize,
        columns: &[Column],
    ) -> Terms {
        let each = self.of_op[op].iter().zip(columns).map(|(division, &column)| {
            let here = division.iter().filter(|(size, _)| self.class_sizes[*size].class == class);
            let times = here.map(|&(size, n)| {
                f64::from(n * self.class_sizes[size].size) * time_of(problem, op, self.class_sizes[size])
            });
            (column, -times.sum::<f64>() / f64::from(self.inputs) / unit)
        });
        each.filter(|&(_, factor)| factor < 0.0).collect()
    }

    /// Whether columns for transfers are few enough.
    pub(crate) fn has_transfers(&self) -> bool {
        self.edges.len() * self.class_sizes.len().pow(2) <= MOST_CARRIED
    }

    /// Whether ops are few enough for windows.
    pub(crate) fn has_windows(&self) -> bool {
        self.of_op.len() <= MOST_OPS_WITH_WINDOWS
    }

    /// The windows of some evidence.
    pub(crate) fn windows(&self, problem: &Problem, windows: &[WorkWindow]) -> Vec<ClassWindow> {
        let index = |op: Option<OpId>| op.map(OpId::index);
        let class = |device: DeviceId| problem.hardware.class_of(device).index();
        let mut all: Vec<ClassWindow> =
            windows.iter().map(|w| (index(w.from), index(w.to), class(w.device))).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// For each pair of ops, whether a path leads from the first to the second.
    pub(crate) fn reachability(&self) -> Vec<Vec<bool>> {
        let ops = self.of_op.len();
        let mut reach = vec![vec![false; ops]; ops];
        for &op in self.order.iter().rev() {
            for &(_, to, _) in self.edges.iter().filter(|(from, ..)| *from == op) {
                let further = reach[to].clone();
                reach[op].iter_mut().zip(further).for_each(|(known, new)| *known |= new);
                reach[op][to] = true;
            }
        }
        reach
    }
}

/// The memory of the classes, and what batches hold of it.
pub(crate) struct ClassMemory {
    /// The limits of each class summed over its devices; none if one of them has no limit.
    limits: Vec<Option<f64>>,
    /// For each op, bytes of parameters, and bytes of activations for each input.
    held: Vec<(u64, u64)>,
}

impl ClassMemory {
    /// None if no limit can bind.
    pub(crate) fn new(problem: &Problem, inputs: u32) -> Option<ClassMemory> {
        if !is_tight(problem, inputs) {
            return None;
        }
        let mut limits = vec![Some(0.0); problem.hardware.class_count()];
        for device in problem.hardware.devices() {
            let limit = &mut limits[problem.hardware.class_of(device).index()];
            *limit = limit.zip(problem.memory_limit(device)).map(|(sum, more)| sum + more as f64);
        }
        let held = weights_of_ops(problem).into_iter().zip(activations_of_ops(problem)).collect();
        Some(ClassMemory { limits, held })
    }

    /// The unit of bytes of a class in programs.
    pub(crate) fn unit(&self, class: usize) -> f64 {
        self.limits[class].map_or(1.0, |limit| (limit / 1000.0).max(1.0))
    }

    /// Adds a row for each class that has a limit, and returns the rows.
    pub(crate) fn add_rows(
        &self,
        program: &mut Program,
        divisions: &OpDivisions,
        divided: &[Vec<Column>],
    ) -> Vec<Option<usize>> {
        let mut add = |(class, limit): (usize, &Option<f64>)| {
            let unit = self.unit(class);
            let mut terms = Vec::new();
            for (op, columns) in divided.iter().enumerate() {
                for (division, &column) in divisions.of_op[op].iter().zip(columns) {
                    let held = self.held_by(op, division, divisions, class);
                    if held > 0.0 {
                        terms.push((column, -held / unit));
                    }
                }
            }
            let row = program.row_count();
            program.at_least(-(*limit)? / unit, &terms);
            Some(row)
        };
        self.limits.iter().enumerate().map(&mut add).collect()
    }

    /// The bytes that a division of an op holds on the devices of a class.
    fn held_by(&self, op: usize, division: &BatchCounts, divisions: &OpDivisions, class: usize) -> f64 {
        let (weights, activations) = self.held[op];
        let here = division.iter().filter(|(size, _)| divisions.class_sizes[*size].class == class);
        let each = |inputs: u32| weights as f64 + activations as f64 * f64::from(inputs);
        here.map(|&(size, batches)| f64::from(batches) * each(divisions.class_sizes[size].size)).sum()
    }
}

/// The time of a batch in picoseconds; 0 where the op has no such batch.
pub(crate) fn time_of(problem: &Problem, op: usize, size: ClassSize) -> f64 {
    let costs = problem.costs()[size.class].at(size.size);
    costs.and_then(|costs| costs[op]).map_or(0.0, |cost| cost.time.0 as f64)
}

/// All divisions of `inputs`, with at most `most` batches of each size and `allowed` batches on each class.
fn all_divisions(
    inputs: u32,
    class_sizes: &[ClassSize],
    most: &[usize],
    allowed: &[usize],
) -> Result<Vec<BatchCounts>, String> {
    let mut found: Vec<BatchCounts> = Vec::new();
    let mut open: Vec<(usize, u32, BatchCounts)> = vec![(0, inputs, Vec::new())];
    let mut steps = 0usize;
    while let Some((size, left, division)) = open.pop() {
        steps += 1;
        if left == 0 {
            found.push(division);
        } else if size < class_sizes.len() {
            let class = class_sizes[size].class;
            let taken: u32 =
                division.iter().filter(|(s, _)| class_sizes[*s].class == class).map(|(_, n)| n).sum();
            let free = (allowed[class].saturating_sub(taken as usize)).min(most[size]);
            let fitting = (left / class_sizes[size].size) as usize;
            for count in 0..=free.min(fitting) as u32 {
                let mut with = division.clone();
                if count > 0 {
                    with.push((size, count));
                }
                open.push((size + 1, left - count * class_sizes[size].size, with));
            }
        }
        if found.len() > MOST_DIVISIONS || steps > 100 * MOST_DIVISIONS {
            return Err(format!("there are more than {MOST_DIVISIONS} ways to divide {inputs} inputs"));
        }
    }
    Ok(found)
}

/// The canonical order of the ops.
fn order(problem: &Problem) -> Vec<usize> {
    problem.graph.order().iter().map(|op| op.index()).collect()
}

/// The edges between ops, each with the largest tensor.
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
