//! Cutting planes for the linear program over divisions, and the proof of its duals.
//!
//! The program is solved in stages: with paths, then with delays, then with windows, which are separated. After every
//! solve the rounded dual becomes evidence, so a bound stands whenever the time is up. Work on a bound that stays
//! behind others is given up.

use std::time::Duration;

use divvy_proof::evidence::Evidence;
use divvy_solver::{Options, Solver, Status};

use crate::division_lp::division_program::{DivisionProgram, ProgramDetail};
use crate::division_lp::op_divisions::{ClassWindow, FEW_OPS, OpDivisions};
use crate::run::Run;

/// The share of a run's time by whose end bounds by these programs are to be done.
pub(crate) const DEADLINE_SHARE: f64 = 0.35;
/// A bound below this share of the best one is given up: more windows will not close the gap.
const LEAST_PROMISE: f64 = 0.97;
/// The same before there are windows.
const LEAST_FIRST_PROMISE: f64 = 0.93;

/// Proves the dual of the program with loads and memory alone, as a certificate of the bound `name`.
pub(crate) fn prove_loads(run: &mut Run<'_>, name: &str) {
    prove(run, name, ProgramDetail::Loads, None);
}

/// Proves the duals of the whole program, as certificates of the bound `name`. It continues from the best one so far.
pub(crate) fn prove_program(run: &mut Run<'_>, name: &str) {
    let Ok(divisions) = OpDivisions::new(run.problem) else { return };
    // Windows are added to the last one.
    let details: &[ProgramDetail] = if divisions.has_transfers() {
        &[ProgramDetail::Paths, ProgramDetail::Delays]
    } else {
        &[ProgramDetail::Paths]
    };
    let all = run.outcome().certificates.iter().filter(|known| known.bound == name);
    let best = all.max_by_key(|known| known.value_ps).map(|known| &known.evidence);
    if is_behind(run, name, LEAST_PROMISE) {
        return run.exhaust();
    }
    let (mut solved, mut windows) = (0, Vec::new());
    if let Some(Evidence::DivisionLp { flows, windows: known, .. }) = best {
        let has_delays = flows.iter().any(|flow| !flow.prices.is_empty());
        solved = if has_delays || !known.is_empty() { details.len() } else { 1 };
        windows = divisions.windows(run.problem, known);
    }
    // The last one is solved again from its known windows: separation may not have ended.
    if divisions.has_windows() {
        solved = solved.min(details.len() - 1);
    }
    for &detail in &details[solved.min(details.len())..] {
        if is_behind(run, name, LEAST_FIRST_PROMISE) {
            break;
        }
        let known = (details.last() == Some(&detail)).then(|| std::mem::take(&mut windows));
        if run.budget.is_spent() || prove(run, name, detail, known) != Some(true) {
            return;
        }
    }
    run.exhaust();
}

/// Whether the bound `name` is below a share of the best bound so far.
fn is_behind(run: &Run<'_>, name: &str, share: f64) -> bool {
    let known = run.outcome().certificates.iter().filter(|known| known.bound == name);
    let proven = run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64);
    let value = known.map(|known| known.value_ps.0 as f64).reduce(f64::max);
    run.problem.graph.op_count() > FEW_OPS && value.is_some_and(|value| value < proven * share)
}

/// Solves a program and proves its dual: once, or with windows, repeatedly as violated ones are added. True if no
/// violated window is left, none if the program was not solved.
fn prove(
    run: &mut Run<'_>,
    name: &str,
    detail: ProgramDetail,
    windows: Option<Vec<ClassWindow>>,
) -> Option<bool> {
    let divisions = OpDivisions::new(run.problem).ok()?;
    let mut built = DivisionProgram::new(run.problem, &divisions, detail);
    let options = Options {
        time: run.budget.time.saturating_sub(run.budget.start.elapsed()),
        threads: run.budget.threads,
        seed: run.budget.seed,
        absolute_gap: 0.0,
        nodes: None,
    };
    let program = std::mem::take(&mut built.program);
    let mut solver = Solver::new(&program, &options).ok()?;
    let reach = (windows.is_some() && divisions.has_windows()).then(|| divisions.reachability());
    let add_windows =
        |solver: &mut Solver, built: &mut DivisionProgram, reach: &[Vec<bool>], windows: Vec<ClassWindow>| {
            let rows: Vec<_> =
                windows.iter().map(|&window| built.window_terms(&divisions, reach, window)).collect();
            built.windows.extend(windows);
            solver.add_rows(rows.iter().map(|terms| (0.0, &terms[..], f64::INFINITY))).is_ok()
        };
    if let Some((reach, windows)) = reach.as_ref().zip(windows)
        && !add_windows(&mut solver, &mut built, reach, windows)
    {
        return None;
    }
    let mut is_solved = None;
    loop {
        let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
        let solution = solver.set_time(left.max(Duration::from_millis(1))).and_then(|()| solver.solve());
        let Some(solution) = solution.ok().filter(|solution| solution.status == Status::Optimal) else {
            return is_solved;
        };
        is_solved = Some(false);
        let evidence = built.evidence(run.problem, &divisions, &solution.row_duals);
        run.prove(name, evidence);
        let Some((reach, (_, values))) = reach.as_ref().zip(solution.best.as_ref()) else {
            return Some(true);
        };
        let violated = built.violated_windows(&divisions, reach, values);
        if violated.is_empty() {
            return Some(true);
        }
        if run.budget.is_spent() || !add_windows(&mut solver, &mut built, reach, violated) {
            return is_solved;
        }
    }
}
