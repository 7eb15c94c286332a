//! `memory`: what does not fit on the devices that are quick runs elsewhere.
//!
//! The program of `division-lp` with one input: ops on classes of devices, what these do, the time along edges and between two
//! ops, and what ops hold of memory. For `stream`, whose value is a period, loads and memory alone.

use divvy_core::makespan::relaxations::room::{activations_of_ops, is_tight, weights_of_ops};
use divvy_core::problem::{Objective, Problem};
use divvy_solver::{Column, Program};

use super::divisions::{AHEAD, Division, Shapes, prove_loads, prove_program};
use crate::registry::{Bound, Runs};
use crate::run::Run;

pub(crate) struct Memory;

impl Bound for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "what does not fit on a device runs elsewhere, by HiGHS, the dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::Latency { .. } | Objective::Stream if is_tight(problem, 1) => {
                Shapes::new(problem).map(|_| ())
            }
            Objective::Latency { .. } | Objective::Stream => {
                Err("every device has memory for the whole network".to_owned())
            }
            Objective::Batch { .. } => Err("`division-lp` counts memory for `batch`".to_owned()),
            objective => Err(format!("it is not for `{}`", objective.name())),
        }
    }

    fn runs(&self) -> Runs {
        Runs::Last
    }

    fn ahead(&self) -> Option<f64> {
        Some(AHEAD)
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.problem.objective.is_period() {
            prove_loads(run, self.name());
            run.exhaust();
        } else {
            prove_program(run, self.name());
        }
    }
}

/// The memory of classes, and what batches hold of it, as part of a program.
pub(super) struct ClassMemory {
    /// Of all devices of each class together; none if one of them has no limit.
    limits: Vec<Option<f64>>,
    /// For each op, weights, and what each input adds.
    held: Vec<(u64, u64)>,
}

impl ClassMemory {
    /// None where there is enough of it everywhere.
    pub(super) fn new(problem: &Problem, inputs: u32) -> Option<ClassMemory> {
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
    pub(super) fn unit(&self, class: usize) -> f64 {
        self.limits[class].map_or(1.0, |limit| (limit / 1000.0).max(1.0))
    }

    /// Adds a row for the memory of each class that has a limit, and returns these rows.
    pub(super) fn add(
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
    fn held_by(&self, op: usize, division: &Division, shapes: &Shapes, class: usize) -> f64 {
        let (weights, activations) = self.held[op];
        let here = division.iter().filter(|(slot, _)| shapes.slots[*slot].class == class);
        let each = |size: u32| weights as f64 + activations as f64 * f64::from(size);
        here.map(|&(slot, batches)| f64::from(batches) * each(shapes.slots[slot].size)).sum()
    }
}
