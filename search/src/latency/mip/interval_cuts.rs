//! Rows that every schedule satisfies and the bare relaxation does not: between two ops on a path, each device has to do
//! all of its ops that lie between them.
//!
//! For ops a and b with a path from a to b, and every device u: s_b − end_a ≥ Σ over ops i between of t_iu x_iu; likewise
//! from the very start to b, from a to the very end, and from start to end. There are O(ops² devices) of them, so they
//! are found by need: solve the relaxation without (7), add those that its solution breaks most, and again. Rows that
//! the last solution does not lean on are left out of the program that is solved in whole numbers.

use std::time::Instant;

use divvy_proof::latency_tables::NEVER;
use divvy_solver::{Column, Options, Solver, Status};

use crate::latency::mip::MipLimits;
use crate::latency::mip::formulation::{Formulation, OpSet, descendants};
use crate::latency::mip::scale::Scale;
use crate::latency::subproblem::Subproblem;

/// Rounds of solving and adding.
const MOST_ROUNDS: usize = 40;

/// Rows added in one round.
const MOST_ROWS: usize = 400;

/// A break smaller than this, in the program's units, is not worth a row.
const SMALLEST: f64 = 1e-4;

/// A row `terms ≥ 0`.
type CutRow = Vec<(Column, f64)>;

/// Adds rows to the program, and returns the value of the relaxation, a lower bound; minus infinity if there is none.
pub(crate) fn strengthen(
    part: &Subproblem<'_>,
    formulation: &mut Formulation,
    scale: &Scale,
    limits: &MipLimits<'_>,
) -> f64 {
    let mut bound = f64::NEG_INFINITY;
    let options = Options { time: limits.left(), seed: limits.budget.seed, ..Options::default() };
    let Ok(mut solver) = Solver::new(&formulation.program.relaxed(), &options) else { return bound };
    let after = descendants(part);
    let rows_before = formulation.program.row_count();
    let mut rows: Vec<CutRow> = Vec::new();
    let mut leaned_on: Vec<bool> = Vec::new();
    for _ in 0..MOST_ROUNDS {
        if limits.are_spent() || solver.set_time(limits.left()).is_err() {
            break;
        }
        let Ok(solution) = solver.solve() else { break };
        let (Status::Optimal, Some((objective, values))) = (solution.status, &solution.best) else { break };
        bound = bound.max(*objective);
        leaned_on = solution.row_duals[rows_before..].iter().map(|dual| dual.abs() > 1e-9).collect();
        let broken = broken(part, formulation, scale, &after, values, limits);
        if broken.is_empty() {
            break;
        }
        let added = broken.iter().map(|row| (0.0, row.as_slice(), f64::INFINITY));
        if solver.add_rows(added).is_err() {
            break;
        }
        rows.extend(broken);
    }
    // Rows added after the last solve are kept: nobody has seen whether they matter.
    for (number, row) in rows.iter().enumerate() {
        if leaned_on.get(number).copied().unwrap_or(true) {
            formulation.program.at_least(0.0, row);
        }
    }
    bound
}

/// The rows that a solution breaks most.
fn broken(
    part: &Subproblem<'_>,
    formulation: &Formulation,
    scale: &Scale,
    after: &[OpSet],
    values: &[f64],
    limits: &MipLimits<'_>,
) -> Vec<CutRow> {
    let ops = part.op_count();
    let start = |op: usize| values[formulation.start[op].index()];
    let work = |op: usize, d: u32| {
        let columns = formulation.x[op].iter().filter(|x| x.0 == d);
        columns.map(|&(d, x)| scale.units(part.time(op, d)) * values[x.index()]).sum::<f64>()
    };
    let devices: Vec<u32> = (0..part.device_count() as u32).collect();
    let table: Vec<Vec<f64>> = (0..ops).map(|op| devices.iter().map(|&d| work(op, d)).collect()).collect();
    let end = |op: usize| start(op) + table[op].iter().sum::<f64>();
    let last = values[formulation.end.index()];
    let mut found: Vec<(f64, Option<usize>, Option<usize>, u32)> = Vec::new();
    let mut load = vec![0.0; devices.len()];
    let mut deadline_checked = Instant::now();
    for from in (0..ops).map(Some).chain([None]) {
        if deadline_checked.elapsed().as_millis() > 50 {
            deadline_checked = Instant::now();
            if limits.are_spent() {
                break;
            }
        }
        let begins = from.map_or(0.0, end);
        for to in (0..ops).map(Some).chain([None]) {
            if let (Some(a), Some(b)) = (from, to)
                && !after[a].has(b)
            {
                continue;
            }
            let room = to.map_or(last, start) - begins;
            load.fill(0.0);
            for i in between(after, from, to, ops) {
                load.iter_mut().zip(&table[i]).for_each(|(sum, work)| *sum += work);
            }
            for (&d, &load) in devices.iter().zip(&load) {
                if load - room > SMALLEST {
                    found.push((load - room, from, to, d));
                }
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.truncate(MOST_ROWS);
    let row = |&(_, from, to, d): &(f64, Option<usize>, Option<usize>, u32)| {
        let mut row: CutRow = match from {
            Some(from) => formulation.end_of(part, scale, from, -1.0),
            None => Vec::new(),
        };
        row.push((to.map_or(formulation.end, |to| formulation.start[to]), 1.0));
        for i in between(after, from, to, ops) {
            let time = part.time(i, d);
            let column = formulation.x[i].iter().find(|x| x.0 == d && time < NEVER);
            row.extend(column.map(|x| (x.1, -scale.units(time))));
        }
        row
    };
    found.iter().map(row).collect()
}

/// Ops on some path between two, or from the start, or to the end.
fn between(
    after: &[OpSet],
    from: Option<usize>,
    to: Option<usize>,
    ops: usize,
) -> impl Iterator<Item = usize> + '_ {
    let range = from.map_or(0, |a| a + 1)..to.unwrap_or(ops);
    range.filter(move |&i| from.is_none_or(|a| after[a].has(i)) && to.is_none_or(|b| after[i].has(b)))
}
