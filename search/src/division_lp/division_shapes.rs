//! TODO-DOC search/src/division_lp/division_shapes.rs

use crate::division_lp::{
    MOST_CARRIED, MOST_COLUMNS, MOST_OPS_WITH_WINDOWS, all_divisions, edges, order, time_of,
};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_proof::division_lp::memory_prices::{activations_of_ops, is_tight, weights_of_ops};
use divvy_proof::division_lp::{Slot, slots};
use divvy_proof::evidence::WorkWindow;
use divvy_solver::{Column, Program};
use std::collections::HashMap;

/// The share of all time by whose end these programs are through.
pub(crate) const AHEAD: f64 = 0.35;

/// Two ops, or one and an end of the schedule, and a class of devices whose work between them is looked at.
pub(crate) type Between = (Option<usize>, Option<usize>, usize);

/// How many batches of each slot.
pub(crate) type BatchCounts = Vec<(usize, u32)>;

/// The ways to divide the inputs of each op over classes.
pub(crate) struct Shapes {
    pub(crate) inputs: u32,
    pub(crate) slots: Vec<Slot>,
    /// Devices of each class.
    pub(crate) devices: Vec<usize>,
    /// For each op, its divisions: how many batches of each slot.
    pub(crate) divisions: Vec<Vec<BatchCounts>>,
    /// Producer, consumer, bytes of the largest tensor between them.
    pub(crate) edges: Vec<(usize, usize, u64)>,
    /// The ops, each behind those it reads from.
    pub(crate) order: Vec<usize>,
    /// Where memory is short, what there is of it.
    pub(crate) memory: Option<ClassMemory>,
}

impl Shapes {
    /// The divisions of a problem for `batch`.
    pub(crate) fn of_batches(problem: &Problem) -> Result<Shapes, String> {
        match problem.objective {
            Objective::Batch { .. } => Shapes::new(problem),
            objective => Err(format!("it is for `batch`, not for `{}`", objective.name())),
        }
    }

    /// The divisions of a problem; one input for other objectives.
    pub(crate) fn new(problem: &Problem) -> Result<Shapes, String> {
        let inputs = match problem.objective {
            Objective::Batch { inputs } => inputs,
            _ => 1,
        };
        let hardware = &problem.hardware;
        let slots = slots(problem);
        let mut devices = vec![0; hardware.class_count()];
        hardware.devices().for_each(|d| devices[hardware.class_of(d).index()] += 1);
        let mut divisions = Vec::with_capacity(problem.graph.op_count());
        // Ops with the same slots and devices have the same divisions.
        let mut known: HashMap<Vec<usize>, Vec<BatchCounts>> = HashMap::new();
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
        let memory = ClassMemory::new(problem, inputs);
        Ok(Shapes { inputs, slots, devices, divisions, edges: edges(problem), order: order(problem), memory })
    }

    /// The unit of programs, in picoseconds.
    pub(crate) fn unit(&self, problem: &Problem) -> f64 {
        let longest = |op: usize| self.slots.iter().map(|&s| time_of(problem, op, s)).fold(0.0, f64::max);
        ((0..self.divisions.len()).map(longest).sum::<f64>() / 1000.0).max(1.0)
    }

    /// The mean over inputs of the time of the batch of an op that they are part of, if it is of the class, with factors below 0.
    pub(crate) fn means(
        &self,
        problem: &Problem,
        unit: f64,
        op: usize,
        class: usize,
        columns: &[Column],
    ) -> Vec<(Column, f64)> {
        let each = self.divisions[op].iter().zip(columns).map(|(division, &column)| {
            let here = division.iter().filter(|(slot, _)| self.slots[*slot].class == class);
            let times = here.map(|&(slot, n)| {
                f64::from(n * self.slots[slot].size) * time_of(problem, op, self.slots[slot])
            });
            (column, -times.sum::<f64>() / f64::from(self.inputs) / unit)
        });
        each.filter(|&(_, factor)| factor < 0.0).collect()
    }

    /// Whether there are few enough columns for what edges carry.
    pub(crate) fn can_carry(&self) -> bool {
        self.edges.len() * self.slots.len().pow(2) <= MOST_CARRIED
    }

    /// Whether there are few enough ops to look at the work between any two.
    pub(crate) fn has_windows(&self) -> bool {
        self.divisions.len() <= MOST_OPS_WITH_WINDOWS
    }

    /// The windows of evidence.
    pub(crate) fn windows(&self, problem: &Problem, windows: &[WorkWindow]) -> Vec<Between> {
        let index = |op: Option<OpId>| op.map(OpId::index);
        let class = |device: DeviceId| problem.hardware.class_of(device).index();
        let mut all: Vec<Between> =
            windows.iter().map(|w| (index(w.from), index(w.to), class(w.device))).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// For each op, whether it leads to each other.
    pub(crate) fn reach(&self) -> Vec<Vec<bool>> {
        let ops = self.divisions.len();
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

/// The memory of classes, and what batches hold of it, as part of a program.
pub(crate) struct ClassMemory {
    /// Of all devices of each class together; none if one of them has no limit.
    limits: Vec<Option<f64>>,
    /// For each op, weights, and what each input adds.
    held: Vec<(u64, u64)>,
}

impl ClassMemory {
    /// None where there is enough of it everywhere.
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

    /// The unit of a class's bytes in programs.
    pub(crate) fn unit(&self, class: usize) -> f64 {
        self.limits[class].map_or(1.0, |limit| (limit / 1000.0).max(1.0))
    }

    /// Adds a row for the memory of each class that has a limit, and returns these rows.
    pub(crate) fn add(
        &self,
        program: &mut Program,
        shapes: &Shapes,
        divided: &[Vec<Column>],
    ) -> Vec<Option<usize>> {
        let mut add = |(class, limit): (usize, &Option<f64>)| {
            let unit = self.unit(class);
            let mut terms = Vec::new();
            for (op, columns) in divided.iter().enumerate() {
                for (division, &column) in shapes.divisions[op].iter().zip(columns) {
                    let held = self.held_by(op, division, shapes, class);
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

    /// What a division of an op holds on the devices of a class.
    fn held_by(&self, op: usize, division: &BatchCounts, shapes: &Shapes, class: usize) -> f64 {
        let (weights, activations) = self.held[op];
        let here = division.iter().filter(|(slot, _)| shapes.slots[*slot].class == class);
        let each = |size: u32| weights as f64 + activations as f64 * f64::from(size);
        here.map(|&(slot, batches)| f64::from(batches) * each(shapes.slots[slot].size)).sum()
    }
}

/// With so few ops, nothing that could be of use is left out for want of promise.
pub(crate) const FEW_OPS: usize = 8;
