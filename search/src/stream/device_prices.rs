//! What a picosecond on each device is worth: the dual of dividing all work freely.
//!
//! The linear program: the least T such that every op is divided over the devices that may run it and no device takes longer
//! than T. HiGHS solves it; the duals of the devices, rounded, are weights for area bounds, which hold with any weights.

use std::time::Duration;

use crate::budget::Budget;
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::stream::tables::{NEVER, StreamTables};

/// The weight of the dearest device.
const SCALE: f64 = (1u64 << 30) as f64;
/// The most time for the program.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Weights of the devices; even ones where the program is not solved.
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
    let mut shares: Vec<Vec<(Column, f64)>> = Vec::new();
    for times in &times {
        let mut share = Vec::new();
        for (device, time) in times.iter().enumerate() {
            let Some(time) = time else { continue };
            let column = program.column(0.0, 1.0, 0.0);
            loads[device].push((column, time / most));
            share.push((column, 1.0));
        }
        shares.push(share);
    }
    loads.iter().for_each(|row| program.at_most(row, 0.0));
    shares.iter().for_each(|row| program.row(1.0, row, 1.0));
    let left = budget.time.saturating_sub(budget.start.elapsed());
    let options = Options { time: left.min(MOST_TIME), ..Options::default() };
    let solution = Solver::new(&program, &options).ok()?.solve().ok()?;
    if solution.status != Status::Optimal {
        return None;
    }
    let duals: Vec<f64> = solution.row_duals[..tables.devices].iter().map(|dual| dual.abs()).collect();
    let dearest = duals.iter().copied().fold(0.0, f64::max);
    (dearest > 0.0).then(|| duals.iter().map(|dual| (dual / dearest * SCALE).round() as u64).collect())
}
