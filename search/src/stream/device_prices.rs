//! Prices of device time: the dual of the fractional assignment problem.
//!
//! minimise T subject to Σ_u t_{u,d} x_{u,d} ≤ T for each device d, Σ_d x_{u,d} = 1 for each unit u, x ≥ 0 (R | | C_max with
//! divisible jobs; links, memory and splits are left out). HiGHS solves it; the duals of the device rows, rounded to integers,
//! are weights for area bounds, which hold with any weights.

use std::time::Duration;

use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::budget::Budget;
use crate::stream::tables::{NEVER, StreamTables};

/// The largest weight.
const SCALE: f64 = (1u64 << 30) as f64;
/// The most time for the solver.
const MOST_TIME: Duration = Duration::from_secs(10);

/// A weight for each device; equal ones if the program is not solved.
pub(crate) fn prices(tables: &StreamTables, budget: &Budget) -> Vec<u64> {
    duals(tables, budget).unwrap_or_else(|| vec![SCALE as u64; tables.devices])
}

fn duals(tables: &StreamTables, budget: &Budget) -> Option<Vec<u64>> {
    let units = tables.units();
    let time = |unit: &[usize], device: usize| {
        unit.iter().try_fold(0.0, |sum, &op| match tables.time(op, device) {
            NEVER => None,
            time => Some(sum + time as f64),
        })
    };
    let times: Vec<Vec<Option<f64>>> =
        units.iter().map(|unit| (0..tables.devices).map(|d| time(unit, d)).collect()).collect();
    let most = times.iter().flatten().flatten().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let mut program = Program::new();
    let period = program.column(0.0, f64::INFINITY, 1.0);
    let mut loads: Vec<Vec<(Column, f64)>> = vec![vec![(period, -1.0)]; tables.devices];
    let mut assignments: Vec<Vec<(Column, f64)>> = Vec::new();
    for times in &times {
        let mut assignment = Vec::new();
        for (device, time) in times.iter().enumerate() {
            let Some(time) = time else { continue };
            let column = program.column(0.0, 1.0, 0.0);
            loads[device].push((column, time / most));
            assignment.push((column, 1.0));
        }
        assignments.push(assignment);
    }
    loads.iter().for_each(|row| program.at_most(row, 0.0));
    assignments.iter().for_each(|row| program.row(1.0, row, 1.0));
    let left = budget.time.saturating_sub(budget.start.elapsed());
    let options = Options { time: left.min(MOST_TIME), ..Options::default() };
    let solution = Solver::new(&program, &options).ok()?.solve().ok()?;
    if solution.status != Status::Optimal {
        return None;
    }
    let duals: Vec<f64> = solution.row_duals[..tables.devices].iter().map(|dual| dual.abs()).collect();
    let largest = duals.iter().copied().fold(0.0, f64::max);
    (largest > 0.0).then(|| duals.iter().map(|dual| (dual / largest * SCALE).round() as u64).collect())
}
