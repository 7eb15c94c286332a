//! What a part of the network costs, given what lies between it and the others: its linear program.

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_proof::division_lp::units::FastestRoutes;
use divvy_solver::{Column, Program};

use crate::batch::bounds::division_cases::Always;
use crate::division_lp::division_shapes::Shapes;
use crate::division_lp::{DivisionProgram, PARTS, time_of, united};

/// What the rows of all cases ask of a part, in parts of the finish.
pub(crate) struct Outer {
    /// For each class, the weight of its work.
    weights: Vec<f64>,
    /// For each op of the part, how often its starts and its times count.
    starts: Vec<f64>,
    passing: Vec<f64>,
    /// For each op of the part and class, how often its work counts in windows.
    within: Vec<Vec<f64>>,
    /// For each op of the part and slot, what an input pays for edges to and from other parts, in picoseconds.
    paid: Vec<Vec<f64>>,
}

impl Outer {
    pub(crate) fn new(
        problem: &Problem,
        shapes: &Shapes,
        reach: &[Vec<bool>],
        always: &Always,
        ops: &[usize],
    ) -> Outer {
        let count = shapes.divisions.len();
        let has = |op: usize| ops.contains(&op);
        // All that enters and leaves an op, and what does so from and to other parts.
        let mut all = vec![[0.0; 2]; count];
        let mut outside = vec![[0.0; 2]; count];
        let mut within = vec![vec![0.0; shapes.devices.len()]; count];
        let mut paid = vec![vec![0.0; shapes.slots.len()]; count];
        let ways = FastestRoutes::new(problem);
        let mut pass = |from: Option<usize>, to: Option<usize>, times: f64| {
            let inside = from.is_some_and(has) && to.is_some_and(has);
            for (end, way) in [(from, 1), (to, 0)] {
                if let Some(op) = end {
                    all[op][way] += times;
                    outside[op][way] += if inside { 0.0 } else { times };
                }
            }
            inside
        };
        for flow in &always.flows {
            let (from, to, times) = (flow.from.index(), flow.to.index(), flow.times as f64 / PARTS);
            if pass(Some(from), Some(to), times) || !(has(from) || has(to)) {
                continue;
            }
            let Some(&(_, _, bytes)) = shapes.edges.iter().find(|edge| (edge.0, edge.1) == (from, to)) else {
                continue;
            };
            let price = |slot: usize| flow.prices.get(slot).map_or(0.0, |&price| price as f64);
            for (there, slot) in shapes.slots.iter().enumerate() {
                let delay = |here: usize| {
                    let other = shapes.slots[here];
                    let moved = (other.size + slot.size).saturating_sub(shapes.inputs).max(1);
                    let delay = ways.delay(other.class, slot.class, bytes * u64::from(moved))?;
                    Some(price(here) - delay as f64)
                };
                let most = (0..shapes.slots.len()).filter_map(delay).fold(f64::NEG_INFINITY, f64::max);
                paid[from][there] += times * price(there).max(-1e15);
                paid[to][there] -= times * most.max(-1e15);
            }
        }
        for window in &always.windows {
            let (from, to) = (window.from.map(OpId::index), window.to.map(OpId::index));
            let times = window.times as f64 / PARTS;
            if !pass(from, to, times) {
                let class = problem.hardware.class_of(window.device).index();
                for &op in ops {
                    if from.is_none_or(|from| reach[from][op]) && to.is_none_or(|to| reach[op][to]) {
                        within[op][class] += times / shapes.devices[class] as f64;
                    }
                }
            }
        }
        let weights = always.class_weights(problem, shapes);
        let passing = ops.iter().map(|&op| outside[op][1] + (all[op][0] - all[op][1]).max(0.0));
        let passing: Vec<f64> = passing.collect();
        let starts = ops.iter().zip(&passing).map(|(&op, passing)| passing - outside[op][0]).collect();
        Outer {
            weights,
            starts,
            passing,
            within: ops.iter().map(|&op| within[op].clone()).collect(),
            paid: ops.iter().map(|&op| paid[op].clone()).collect(),
        }
    }

    /// What each division of an op costs, in picoseconds.
    fn costs(&self, problem: &Problem, shapes: &Shapes, place: usize, op: usize) -> Vec<f64> {
        let cost = |&(number, n): &(usize, u32)| {
            let slot = shapes.slots[number];
            let time = time_of(problem, op, slot);
            let each =
                (self.passing[place] + self.within[place][slot.class]) * time + self.paid[place][number];
            let share = f64::from(slot.size) / f64::from(shapes.inputs);
            f64::from(n) * (self.weights[slot.class] * time + share * each)
        };
        shapes.divisions[op].iter().map(|division| division.iter().map(cost).sum()).collect()
    }

    /// The part's program: what it costs, given edges within it. Windows are not there yet.
    pub(crate) fn program(
        &self,
        problem: &Problem,
        shapes: &Shapes,
        ops: &[usize],
    ) -> (DivisionProgram, Vec<Vec<Column>>) {
        let unit = shapes.unit(problem);
        let classes = shapes.devices.len();
        let mut program = Program::new();
        let none = program.column(0.0, 0.0, 0.0);
        let count = shapes.divisions.len();
        let (mut divided, mut starts) = (vec![Vec::new(); count], vec![none; count]);
        for (place, &op) in ops.iter().enumerate() {
            for cost in self.costs(problem, shapes, place, op) {
                divided[op].push(program.column(0.0, f64::INFINITY, cost / unit));
            }
            let terms: Vec<(Column, f64)> = divided[op].iter().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &terms, 1.0);
            starts[op] = program.column(0.0, f64::INFINITY, self.starts[place]);
        }
        let means = |place: usize| {
            let (op, class) = (place / classes, place % classes);
            if divided[op].is_empty() {
                Vec::new()
            } else {
                shapes.means(problem, unit, op, class, &divided[op])
            }
        };
        let means: Vec<_> = (0..count * classes).map(means).collect();
        let mut built = DivisionProgram {
            program,
            unit,
            loads: Vec::new(),
            memory: Vec::new(),
            edges: Vec::new(),
            end: none,
            starts,
            means,
            windows: Vec::new(),
            first_window: 0,
        };
        let ways = FastestRoutes::new(problem);
        for (edge, &(from, to, bytes)) in shapes.edges.iter().enumerate() {
            if divided[from].is_empty() || divided[to].is_empty() {
                continue;
            }
            let mut terms = united(&built.means[from * classes..][..classes]);
            terms.extend([(built.starts[to], 1.0), (built.starts[from], -1.0)]);
            let margins = shapes
                .can_carry()
                .then(|| built.carry(shapes, &ways, [from, to], bytes, &divided, &mut terms));
            built.edges.push((edge, built.program.row_count(), margins));
            built.program.at_least(0.0, &terms);
        }
        built.first_window = built.program.row_count();
        let divided = ops.iter().map(|&op| std::mem::take(&mut divided[op])).collect();
        (built, divided)
    }
}
