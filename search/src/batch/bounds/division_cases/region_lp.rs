//! The linear program of a region under the fixed dual.
//!
//! The objective is the region's share of the Lagrangian of `division-lp`: each batch pays the weight of its class
//! for its time; each start and each time is weighted by the multipliers of the rows between regions that enter and
//! leave the op; each input pays the prices of edges between regions. The rows are those of edges and windows within
//! the region.

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_proof::division_lp::class_routes::FastestRoutes;
use divvy_solver::{Column, Program, Terms};

use crate::batch::bounds::division_cases::fixed_dual::FixedDual;
use crate::division_lp::division_program::{DUAL_SCALE, DivisionProgram, merged_terms};
use crate::division_lp::op_divisions::{OpDivisions, time_of};

/// The objective of a region under the fixed dual, as shares of the makespan.
pub(crate) struct RegionPrices {
    /// For each class, the weight of its work.
    weights: Vec<f64>,
    /// For each op of the region, the coefficient of its start.
    starts: Vec<f64>,
    /// For each op of the region, the coefficient of its time: the multipliers of what leaves it.
    outflow: Vec<f64>,
    /// For each op of the region and class, the coefficient of its work in windows.
    in_windows: Vec<Vec<f64>>,
    /// For each op of the region and size, the price of an input for edges to and from other regions, in picoseconds.
    edge_prices: Vec<Vec<f64>>,
}

impl RegionPrices {
    pub(crate) fn new(
        problem: &Problem,
        divisions: &OpDivisions,
        reach: &[Vec<bool>],
        fixed: &FixedDual,
        ops: &[usize],
    ) -> RegionPrices {
        let count = divisions.of_op.len();
        let has = |op: usize| ops.contains(&op);
        // The multipliers that enter and leave an op, all of them and those of rows with an end outside.
        let mut all = vec![[0.0; 2]; count];
        let mut outside = vec![[0.0; 2]; count];
        let mut in_windows = vec![vec![0.0; divisions.devices.len()]; count];
        let mut edge_prices = vec![vec![0.0; divisions.class_sizes.len()]; count];
        let routes = FastestRoutes::new(problem);
        let mut count_row = |from: Option<usize>, to: Option<usize>, times: f64| {
            let inside = from.is_some_and(has) && to.is_some_and(has);
            for (end, side) in [(from, 1), (to, 0)] {
                if let Some(op) = end {
                    all[op][side] += times;
                    outside[op][side] += if inside { 0.0 } else { times };
                }
            }
            inside
        };
        for flow in &fixed.flows {
            let (from, to, times) = (flow.from.index(), flow.to.index(), flow.times as f64 / DUAL_SCALE);
            if count_row(Some(from), Some(to), times) || !(has(from) || has(to)) {
                continue;
            }
            let Some(&(_, _, bytes)) = divisions.edges.iter().find(|edge| (edge.0, edge.1) == (from, to))
            else {
                continue;
            };
            let price = |size: usize| flow.prices.get(size).map_or(0.0, |&price| price as f64);
            for (there, size) in divisions.class_sizes.iter().enumerate() {
                let delay = |here: usize| {
                    let other = divisions.class_sizes[here];
                    let moved = (other.size + size.size).saturating_sub(divisions.inputs).max(1);
                    let delay = routes.delay(other.class, size.class, bytes * u64::from(moved))?;
                    Some(price(here) - delay as f64)
                };
                let most =
                    (0..divisions.class_sizes.len()).filter_map(delay).fold(f64::NEG_INFINITY, f64::max);
                edge_prices[from][there] += times * price(there).max(-1e15);
                edge_prices[to][there] -= times * most.max(-1e15);
            }
        }
        for window in &fixed.windows {
            let (from, to) = (window.from.map(OpId::index), window.to.map(OpId::index));
            let times = window.times as f64 / DUAL_SCALE;
            if !count_row(from, to, times) {
                let class = problem.hardware.class_of(window.device).index();
                for &op in ops {
                    if from.is_none_or(|from| reach[from][op]) && to.is_none_or(|to| reach[op][to]) {
                        in_windows[op][class] += times / divisions.devices[class] as f64;
                    }
                }
            }
        }
        let weights = fixed.class_weights(problem, divisions);
        let outflow = ops.iter().map(|&op| outside[op][1] + (all[op][0] - all[op][1]).max(0.0));
        let outflow: Vec<f64> = outflow.collect();
        let starts = ops.iter().zip(&outflow).map(|(&op, outflow)| outflow - outside[op][0]).collect();
        RegionPrices {
            weights,
            starts,
            outflow,
            in_windows: ops.iter().map(|&op| in_windows[op].clone()).collect(),
            edge_prices: ops.iter().map(|&op| edge_prices[op].clone()).collect(),
        }
    }

    /// The cost of each division of an op, in picoseconds.
    fn costs(&self, problem: &Problem, divisions: &OpDivisions, place: usize, op: usize) -> Vec<f64> {
        let cost = |&(number, n): &(usize, u32)| {
            let size = divisions.class_sizes[number];
            let time = time_of(problem, op, size);
            let each = (self.outflow[place] + self.in_windows[place][size.class]) * time
                + self.edge_prices[place][number];
            let share = f64::from(size.size) / f64::from(divisions.inputs);
            f64::from(n) * (self.weights[size.class] * time + share * each)
        };
        divisions.of_op[op].iter().map(|division| division.iter().map(cost).sum()).collect()
    }

    /// The program of the region, with the rows of its own edges and without windows; and the columns of each op.
    pub(crate) fn program(
        &self,
        problem: &Problem,
        divisions: &OpDivisions,
        ops: &[usize],
    ) -> (DivisionProgram, Vec<Vec<Column>>) {
        let unit = divisions.unit(problem);
        let classes = divisions.devices.len();
        let mut program = Program::new();
        let none = program.column(0.0, 0.0, 0.0);
        let count = divisions.of_op.len();
        let (mut divided, mut starts) = (vec![Vec::new(); count], vec![none; count]);
        for (place, &op) in ops.iter().enumerate() {
            for cost in self.costs(problem, divisions, place, op) {
                divided[op].push(program.column(0.0, f64::INFINITY, cost / unit));
            }
            let terms: Terms = divided[op].iter().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &terms, 1.0);
            starts[op] = program.column(0.0, f64::INFINITY, self.starts[place]);
        }
        let mean_times = |place: usize| {
            let (op, class) = (place / classes, place % classes);
            if divided[op].is_empty() {
                Vec::new()
            } else {
                divisions.mean_times(problem, unit, op, class, &divided[op])
            }
        };
        let mean_times: Vec<_> = (0..count * classes).map(mean_times).collect();
        let mut built = DivisionProgram {
            program,
            unit,
            loads: Vec::new(),
            memory: Vec::new(),
            edges: Vec::new(),
            end: none,
            starts,
            mean_times,
            windows: Vec::new(),
            first_window: 0,
        };
        let routes = FastestRoutes::new(problem);
        for (edge, &(from, to, bytes)) in divisions.edges.iter().enumerate() {
            if divided[from].is_empty() || divided[to].is_empty() {
                continue;
            }
            let mut terms = merged_terms(&built.mean_times[from * classes..][..classes]);
            terms.extend([(built.starts[to], 1.0), (built.starts[from], -1.0)]);
            let margins = divisions
                .has_transfers()
                .then(|| built.add_transfers(divisions, &routes, [from, to], bytes, &divided, &mut terms));
            built.edges.push((edge, built.program.row_count(), margins));
            built.program.at_least(0.0, &terms);
        }
        built.first_window = built.program.row_count();
        let divided = ops.iter().map(|&op| std::mem::take(&mut divided[op])).collect();
        (built, divided)
    }
}
