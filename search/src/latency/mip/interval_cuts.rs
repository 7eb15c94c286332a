//! Valid inequalities on the work between two ops, separated from the relaxation of the program.
//!
//! For ops a and b with a path from a to b, and every device u, all ops between them that run on u do so one after
//! the other: s_b − end_a ≥ Σ t_iu x_iu over the ops i between a and b. The same holds from time 0 to b, from a to C,
//! and from 0 to C. These O(ops² · devices) rows are separated: the relaxation without (7) is solved, the most
//! violated rows are added, and so on. Rows with a zero dual in the last solution are left out of the mixed-integer
//! program.

use std::time::Instant;

use divvy_proof::latency_tables::NEVER;
use divvy_solver::{Options, Solver, Status, Terms};

use crate::latency::mip::formulation::{MipFormulation, OpSet, descendants};
use crate::latency::mip::limits::MipLimits;
use crate::latency::mip::scale::Scale;
use crate::latency::subproblem::Subproblem;

/// The most rounds of separation.
const MOST_ROUNDS: usize = 40;

/// The most rows added in a round.
const MOST_ROWS: usize = 400;

/// The least violation, in the program's unit of time, for a row to be added.
const SMALLEST: f64 = 1e-4;

/// Adds rows to the program, and returns the value of the relaxation, a lower bound; minus infinity if no solve ended.
pub(crate) fn strengthen(
    part: &Subproblem<'_>,
    formulation: &mut MipFormulation,
    scale: &Scale,
    limits: &MipLimits<'_>,
) -> f64 {
    let mut bound = f64::NEG_INFINITY;
    let options = Options { time: limits.left(), seed: limits.budget.seed, ..Options::default() };
    let Ok(mut solver) = Solver::new(&formulation.program.relaxed(), &options) else { return bound };
    let after = descendants(part);
    let rows_before = formulation.program.row_count();
    let mut rows: Vec<Terms> = Vec::new();
    let mut is_binding: Vec<bool> = Vec::new();
    for _ in 0..MOST_ROUNDS {
        if limits.are_spent() || solver.set_time(limits.left()).is_err() {
            break;
        }
        let Ok(solution) = solver.solve() else { break };
        let (Status::Optimal, Some((objective, values))) = (solution.status, &solution.best) else { break };
        bound = bound.max(*objective);
        is_binding = solution.row_duals[rows_before..].iter().map(|dual| dual.abs() > 1e-9).collect();
        let violated = violated_rows(part, formulation, scale, &after, values, limits);
        if violated.is_empty() {
            break;
        }
        let added = violated.iter().map(|row| (0.0, row.as_slice(), f64::INFINITY));
        if solver.add_rows(added).is_err() {
            break;
        }
        rows.extend(violated);
    }
    // Rows added after the last solve have no dual yet and are kept.
    for (number, row) in rows.iter().enumerate() {
        if is_binding.get(number).copied().unwrap_or(true) {
            formulation.program.at_least(0.0, row);
        }
    }
    bound
}

/// The rows that a solution violates most.
fn violated_rows(
    part: &Subproblem<'_>,
    formulation: &MipFormulation,
    scale: &Scale,
    after: &[OpSet],
    values: &[f64],
    limits: &MipLimits<'_>,
) -> Vec<Terms> {
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
            let available = to.map_or(last, start) - begins;
            load.fill(0.0);
            for i in between(after, from, to, ops) {
                load.iter_mut().zip(&table[i]).for_each(|(sum, work)| *sum += work);
            }
            for (&d, &load) in devices.iter().zip(&load) {
                if load - available > SMALLEST {
                    found.push((load - available, from, to, d));
                }
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.truncate(MOST_ROWS);
    let row = |&(_, from, to, d): &(f64, Option<usize>, Option<usize>, u32)| {
        let mut row: Terms = match from {
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

/// The ops strictly between two ops, or before, or behind one.
fn between(
    after: &[OpSet],
    from: Option<usize>,
    to: Option<usize>,
    ops: usize,
) -> impl Iterator<Item = usize> + '_ {
    let range = from.map_or(0, |a| a + 1)..to.unwrap_or(ops);
    range.filter(move |&i| from.is_none_or(|a| after[a].has(i)) && to.is_none_or(|b| after[i].has(b)))
}
