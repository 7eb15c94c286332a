//! `bus-capacity`: the best link weights for the argument of `last-loads`, from a linear program on HiGHS.
//!
//! For a threshold τ, with y_{p,d} the fraction of parameter p loaded to device d and r_{o,d} that of op o reading in place on d:
//!
//! minimise F subject to Σ over items on ℓ of time · fraction ≤ F for each link ℓ, and
//! Σ_d y_{p,d} + Σ_d r_{o,d} ≥ 1 for each parameter p of an op o with a tail of at least τ.
//!
//! Any non-negative link weights give a bound τ + F'; the duals of the link rows give F' = F. They are rounded to integers and
//! the bound is proved with these. With equal buses `last-loads` guesses them; where widths, pins or routes differ, this finds
//! them. One program of O(parameters × devices) columns for each τ tried: the best of `last-loads`, and a few others.

use divvy_core::hardware::Route;
use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::cold_start::last_loads::{LastLoadArgument, LoadDemand};
use divvy_proof::verify::Proven;
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::bound::Bound;
use crate::cold_start;
use crate::cold_start::bounds::last_loads;
use crate::run::Run;

/// Values of τ tried beside the best of `last-loads`, evenly spaced among all tails.
const MOMENTS: usize = 4;
/// The sum of the integer weights.
const PARTS: f64 = (1u64 << 24) as f64;
/// The most columns; larger programs take too long.
const MOST_COLUMNS: usize = 20_000;

pub(crate) struct BusCapacity;

impl Bound for BusCapacity {
    fn name(&self) -> &'static str {
        "bus-capacity"
    }

    fn about(&self) -> &'static str {
        "the best link weights for last-loads, from the dual of a linear program"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let columns = problem.graph.params().count() * problem.hardware.device_count();
        if columns > MOST_COLUMNS {
            return Err(format!("{columns} ways to load something are too many, {MOST_COLUMNS} is the most"));
        }
        Ok(())
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(argument) = LastLoadArgument::new(run.problem) else { return };
        let Some((_, _, left)) = last_loads::best(run, &argument) else { return };
        let all = argument.candidate_times_left();
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

/// The duals of the link rows as integers; none if the program is not solved to optimality.
fn weights(run: &Run<'_>, demands: &[LoadDemand]) -> Option<Vec<u64>> {
    let hardware = &run.problem.hardware;
    let longest =
        demands.iter().flat_map(|demand| demand.loads.iter().flatten()).map(|(_, time)| time.0).max()?;
    let unit = longest.max(1) as f64;
    let mut program = Program::new();
    let finish = program.column(0.0, f64::INFINITY, 1.0);
    let mut carried: Vec<Vec<(Column, f64)>> = vec![vec![(finish, -1.0)]; hardware.links().len()];
    let mut fraction = |program: &mut Program, device: DeviceId, time: Time| {
        let column = program.column(0.0, 1.0, 0.0);
        let media = hardware.host_route(device).into_iter().flat_map(Route::media);
        media.for_each(|link| carried[link.index()].push((column, time.0 as f64 / unit)));
        (column, 1.0)
    };
    let mut covered: Vec<Vec<(Column, f64)>> = Vec::new();
    for demand in demands {
        let reads: Vec<_> = demand.reads.iter().map(|&(d, time)| fraction(&mut program, d, time)).collect();
        for loads in &demand.loads {
            let mut terms: Vec<_> = loads.iter().map(|&(d, time)| fraction(&mut program, d, time)).collect();
            terms.extend(&reads);
            covered.push(terms);
        }
    }
    carried.iter().for_each(|terms| program.at_most(terms, 0.0));
    covered.iter().for_each(|terms| program.at_least(1.0, terms));
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
