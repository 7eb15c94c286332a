//! `bus-capacity`: the linear program of what the buses carry, solved by HiGHS, its dual proved in integers.
//!
//! For a moment before the end (see `last-loads` in `core`): each parameter that must have landed is loaded in parts over
//! any bus, whether its reader is there or it is forwarded, or its reader reads in place and holds the bus of its device; no
//! link carries more than the time before the moment. The duals of the links, rounded, are weights that `core` checks. Where
//! all buses are alike, `last-loads` guesses the best weights; where widths, pins or routes differ, this finds them. One
//! program for each moment tried, of O(parameters × devices) columns.

use divvy_core::hardware::Route;
use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::cold_start::last_loads::{Demand, LastLoadArgument};
use divvy_proof::verify::Proven;
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::bound::Bound;
use crate::cold_start;
use crate::cold_start::bounds::last_loads;
use crate::run::Run;

/// Moments tried beside the best of `last-loads`, evenly over all of them.
const MOMENTS: usize = 4;
/// Duals become integers in this many parts of their sum.
const PARTS: f64 = (1u64 << 24) as f64;
/// Past this many ways to load something there is no program, since that must not take long.
const MOST_WAYS: usize = 20_000;

pub(crate) struct BusCapacity;

impl Bound for BusCapacity {
    fn name(&self) -> &'static str {
        "bus-capacity"
    }

    fn about(&self) -> &'static str {
        "a linear program of loads, forwarded or not, and reads in place on the buses, its dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let ways = problem.graph.params().count() * problem.hardware.device_count();
        if ways > MOST_WAYS {
            return Err(format!("{ways} ways to load something are too many, {MOST_WAYS} is the most"));
        }
        Ok(())
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(argument) = LastLoadArgument::new(run.problem) else { return };
        let Some((_, _, left)) = last_loads::best(run, &argument) else { return };
        let all = argument.moments();
        let evenly = all.iter().copied().step_by(all.len().div_ceil(MOMENTS).max(1));
        let mut reached = Time::ZERO;
        for left in [left].into_iter().chain(evenly) {
            if run.budget.is_spent() {
                return;
            }
            let Some(weights) = weights(run, &argument.demands(left)) else { continue };
            let proven = Proven::by_last_loads(self.name(), &argument, weights, left);
            if let Some(proven) = proven.filter(|proven| proven.value() > reached) {
                reached = proven.value();
                run.take(proven);
            }
        }
    }
}

/// The duals of the links, as integers.
fn weights(run: &Run<'_>, demands: &[Demand]) -> Option<Vec<u64>> {
    let hardware = &run.problem.hardware;
    let longest =
        demands.iter().flat_map(|demand| demand.loads.iter().flatten()).map(|(_, time)| time.0).max()?;
    let unit = longest.max(1) as f64;
    let mut program = Program::new();
    let finish = program.column(0.0, f64::INFINITY, 1.0);
    let mut carried: Vec<Vec<(Column, f64)>> = vec![vec![(finish, -1.0)]; hardware.links().len()];
    let mut way = |program: &mut Program, device: DeviceId, time: Time| {
        let column = program.column(0.0, 1.0, 0.0);
        let media = hardware.host_route(device).into_iter().flat_map(Route::media);
        media.for_each(|link| carried[link.index()].push((column, time.0 as f64 / unit)));
        (column, 1.0)
    };
    let mut met: Vec<Vec<(Column, f64)>> = Vec::new();
    for demand in demands {
        let reads: Vec<_> = demand.reads.iter().map(|&(d, time)| way(&mut program, d, time)).collect();
        for loads in &demand.loads {
            let mut terms: Vec<_> = loads.iter().map(|&(d, time)| way(&mut program, d, time)).collect();
            terms.extend(&reads);
            met.push(terms);
        }
    }
    carried.iter().for_each(|terms| program.at_most(terms, 0.0));
    met.iter().for_each(|terms| program.at_least(1.0, terms));
    let time = run.budget.time.saturating_sub(run.budget.start.elapsed());
    let options = Options { time, threads: 1, seed: run.budget.seed, ..Options::default() };
    let solution = Solver::new(&program, &options).ok()?.solve().ok()?;
    if solution.status != Status::Optimal {
        return None;
    }
    let duals = &solution.row_duals[..carried.len()];
    let sum: f64 = duals.iter().map(|dual| dual.abs()).sum();
    (sum > 0.0).then(|| duals.iter().map(|dual| (dual.abs() / sum * PARTS).round() as u64).collect())
}
