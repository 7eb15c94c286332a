//! HiGHS through its C interface: the only unsafe code of divvy besides device drivers.
//!
//! A [`Solver`] owns one HiGHS instance and stays on its thread: HiGHS keeps workers in thread-local state, so the
//! type is neither `Send` nor `Sync`. Invariants of all calls: an array that is passed has the length that HiGHS is
//! told and lives until the call returns; the data of a callback outlives the run that it is registered for.

#![allow(unsafe_code, reason = "a C interface")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;

use highs_sys as c;

use crate::program::Rows;
use crate::{Column, Options, Program, Solution, SolverError, Status};

/// The version of HiGHS: `1.15.0`.
pub fn version() -> String {
    // SAFETY: HiGHS returns a constant string that ends in a zero.
    let text = unsafe { CStr::from_ptr(c::Highs_version()) };
    text.to_string_lossy().trim_start_matches('v').to_owned()
}

/// The status of a column or row in the basis of a solved linear program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasisStatus {
    /// At its lower bound.
    Lower,
    /// Basic.
    Basic,
    /// At its upper bound.
    Upper,
    /// Free and non-basic, at zero.
    Zero,
    /// Non-basic, at a bound that HiGHS does not name.
    Nonbasic,
}

/// The most non-zero coefficients for HiGHS's feasibility jump, which does not read the clock.
const MOST_FOR_FEASIBILITY_JUMP: usize = 300_000;

/// A report of HiGHS during a solve.
pub(crate) enum Report<'a> {
    /// An improving solution: its objective and its values.
    Solution(f64, &'a [f64]),
    /// The present dual bound of a mixed-integer program.
    Bound(f64),
    /// An opportunity to stop.
    Pause,
}

/// A program in HiGHS, which can be changed and solved again.
pub struct Solver {
    highs: *mut c_void,
    columns: usize,
    rows: usize,
    is_mixed: bool,
}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Highs_create` and is not used again.
        unsafe { c::Highs_destroy(self.highs) }
    }
}

impl Solver {
    /// Passes a program to HiGHS.
    pub fn new(program: &Program, options: &Options) -> Result<Solver, SolverError> {
        let is_mixed = program.integer.contains(&true);
        let (columns, rows) = (program.column_count(), program.row_count());
        // SAFETY: it has no preconditions.
        let highs = unsafe { c::Highs_create() };
        let mut solver = Solver { highs, columns, rows, is_mixed };
        solver.set_options(options)?;
        if program.factor_count() > MOST_FOR_FEASIBILITY_JUMP {
            solver.set_flag(c"mip_heuristic_run_feasibility_jump", false)?;
        }
        let integrality: Vec<c::HighsInt> = program.integer.iter().map(|&i| i.into()).collect();
        let body = &program.rows;
        // SAFETY: column arrays have `columns` entries, row arrays `rows`, matrix arrays as many as there are factors.
        let status = unsafe {
            c::Highs_passMip(
                highs,
                columns as c::HighsInt,
                rows as c::HighsInt,
                body.factors.len() as c::HighsInt,
                c::MATRIX_FORMAT_ROW_WISE,
                c::OBJECTIVE_SENSE_MINIMIZE,
                0.0,
                program.costs.as_ptr(),
                program.lower.as_ptr(),
                program.upper.as_ptr(),
                body.lower.as_ptr(),
                body.upper.as_ptr(),
                body.starts.as_ptr(),
                body.columns.as_ptr(),
                body.factors.as_ptr(),
                if is_mixed { integrality.as_ptr() } else { ptr::null() },
            )
        };
        checked("Highs_passMip", status)?;
        Ok(solver)
    }

    fn set_options(&mut self, options: &Options) -> Result<(), SolverError> {
        self.set_integer(c"threads", options.threads.clamp(1, 1 << 10) as c::HighsInt)?;
        self.set_integer(c"random_seed", (options.seed & 0x7fff_ffff) as c::HighsInt)?;
        if let Some(nodes) = options.nodes {
            self.set_integer(c"mip_max_nodes", nodes.min(i32::MAX as u64) as c::HighsInt)?;
        }
        self.set_real(c"time_limit", options.time.as_secs_f64())?;
        self.set_real(c"mip_rel_gap", 0.0)?;
        self.set_real(c"mip_abs_gap", options.absolute_gap)?;
        self.set_flag(c"output_flag", false)
    }

    fn set_flag(&mut self, name: &CStr, value: bool) -> Result<(), SolverError> {
        // SAFETY: a live instance, and a string that ends in a zero.
        checked("Highs_setBoolOptionValue", unsafe {
            c::Highs_setBoolOptionValue(self.highs, name.as_ptr(), value.into())
        })
    }

    fn set_integer(&mut self, name: &CStr, value: c::HighsInt) -> Result<(), SolverError> {
        // SAFETY: a live instance, and a string that ends in a zero.
        checked("Highs_setIntOptionValue", unsafe {
            c::Highs_setIntOptionValue(self.highs, name.as_ptr(), value)
        })
    }

    fn set_real(&mut self, name: &CStr, value: f64) -> Result<(), SolverError> {
        // SAFETY: a live instance, and a string that ends in a zero.
        checked("Highs_setDoubleOptionValue", unsafe {
            c::Highs_setDoubleOptionValue(self.highs, name.as_ptr(), value)
        })
    }

    /// Sets a starting solution: a value for every column.
    pub fn start_from(&mut self, values: &[f64]) -> Result<(), SolverError> {
        assert_eq!(values.len(), self.columns, "a start has a value for every column");
        // SAFETY: `values` has one entry per column; absent arrays are null.
        let status = unsafe {
            c::Highs_setSolution(self.highs, values.as_ptr(), ptr::null(), ptr::null(), ptr::null())
        };
        checked("Highs_setSolution", status)
    }

    /// Adds rows, each a lower bound, terms and an upper bound. The next solve of a linear program starts from the
    /// last basis.
    pub fn add_rows<'a>(
        &mut self,
        rows: impl IntoIterator<Item = (f64, &'a [(Column, f64)], f64)>,
    ) -> Result<(), SolverError> {
        let mut added = Rows::default();
        for (lower, terms, upper) in rows {
            assert!(terms.iter().all(|(column, _)| column.index() < self.columns), "rows use known columns");
            added.push(lower, terms, upper);
        }
        // SAFETY: row arrays have one entry per added row, matrix arrays one per factor.
        let status = unsafe {
            c::Highs_addRows(
                self.highs,
                added.lower.len() as c::HighsInt,
                added.lower.as_ptr(),
                added.upper.as_ptr(),
                added.factors.len() as c::HighsInt,
                added.starts.as_ptr(),
                added.columns.as_ptr(),
                added.factors.as_ptr(),
            )
        };
        self.rows += added.lower.len();
        checked("Highs_addRows", status)
    }

    /// Sets the bounds of a column.
    pub fn set_range(&mut self, column: Column, lower: f64, upper: f64) -> Result<(), SolverError> {
        assert!(column.index() < self.columns, "a range is for a known column");
        // SAFETY: the column exists.
        let status = unsafe { c::Highs_changeColBounds(self.highs, column.0 as c::HighsInt, lower, upper) };
        checked("Highs_changeColBounds", status)
    }

    /// Sets the bounds of a row.
    pub fn set_row_range(&mut self, row: usize, lower: f64, upper: f64) -> Result<(), SolverError> {
        assert!(row < self.rows, "a range is for a known row");
        // SAFETY: the row exists.
        let status = unsafe { c::Highs_changeRowBounds(self.highs, row as c::HighsInt, lower, upper) };
        checked("Highs_changeRowBounds", status)
    }

    /// Sets the time limit of the next solve.
    pub fn set_time(&mut self, time: std::time::Duration) -> Result<(), SolverError> {
        self.set_real(c"time_limit", time.as_secs_f64())
    }

    /// Solves the program as it stands.
    pub fn solve(&mut self) -> Result<Solution, SolverError> {
        // SAFETY: a live instance. Its clock counts every solve, its limit is for one.
        checked("Highs_zeroAllClocks", unsafe { c::Highs_zeroAllClocks(self.highs) })?;
        // SAFETY: a live instance with a program.
        checked("Highs_run", unsafe { c::Highs_run(self.highs) })?;
        self.solution()
    }

    /// As [`Solver::solve`], with reports to `on_report`, which ends the solve by `Break`.
    pub(crate) fn solve_reporting(
        &mut self,
        on_report: &mut dyn FnMut(Report<'_>) -> ControlFlow<()>,
    ) -> Result<Solution, SolverError> {
        let mut state = CallbackState { on_report, is_interrupted: false, columns: self.columns };
        let data: *mut c_void = ptr::from_mut(&mut state).cast();
        // SAFETY: `state` outlives the run; the callbacks are taken away below, before it goes.
        unsafe {
            checked("Highs_setCallback", c::Highs_setCallback(self.highs, Some(report), data))?;
            for kind in CALLBACKS {
                checked("Highs_startCallback", c::Highs_startCallback(self.highs, kind))?;
            }
        }
        let solved = self.solve();
        for kind in CALLBACKS {
            // SAFETY: a live instance.
            unsafe { c::Highs_stopCallback(self.highs, kind) };
        }
        solved
    }

    fn solution(&self) -> Result<Solution, SolverError> {
        // SAFETY: a live instance.
        let status = match unsafe { c::Highs_getModelStatus(self.highs) } {
            c::MODEL_STATUS_OPTIMAL | c::MODEL_STATUS_MODEL_EMPTY => Status::Optimal,
            c::MODEL_STATUS_INFEASIBLE => Status::Infeasible,
            c::MODEL_STATUS_UNBOUNDED | c::MODEL_STATUS_UNBOUNDED_OR_INFEASIBLE => Status::Unbounded,
            c::MODEL_STATUS_OBJECTIVE_BOUND
            | c::MODEL_STATUS_OBJECTIVE_TARGET
            | c::MODEL_STATUS_REACHED_TIME_LIMIT
            | c::MODEL_STATUS_REACHED_ITERATION_LIMIT
            | c::MODEL_STATUS_REACHED_SOLUTION_LIMIT
            | c::MODEL_STATUS_REACHED_INTERRUPT
            | c::MODEL_STATUS_UNKNOWN => Status::Stopped,
            _ => return Err(SolverError { call: "Highs_getModelStatus" }),
        };
        let (mut values, mut reduced_costs) = (vec![0.0; self.columns], vec![0.0; self.columns]);
        let (mut row_values, mut row_duals) = (vec![0.0; self.rows], vec![0.0; self.rows]);
        // SAFETY: arrays are as long as there are columns and rows.
        checked("Highs_getSolution", unsafe {
            c::Highs_getSolution(
                self.highs,
                values.as_mut_ptr(),
                reduced_costs.as_mut_ptr(),
                row_values.as_mut_ptr(),
                row_duals.as_mut_ptr(),
            )
        })?;
        let feasible = self.integer_info(c"primal_solution_status") == c::SOLUTION_STATUS_FEASIBLE;
        let objective = self.real_info(c"objective_function_value");
        let bound = match status {
            Status::Infeasible => f64::INFINITY,
            _ if self.is_mixed => self.real_info(c"mip_dual_bound"),
            Status::Optimal => objective,
            _ => f64::NEG_INFINITY,
        };
        let keeps_duals = !self.is_mixed && status == Status::Optimal;
        Ok(Solution {
            status,
            best: feasible.then_some((objective, values)),
            bound,
            row_duals: if keeps_duals { row_duals } else { Vec::new() },
            reduced_costs: if keeps_duals { reduced_costs } else { Vec::new() },
        })
    }

    /// The basis of the last solve of a linear program: of columns, and of rows.
    pub fn basis(&self) -> Result<(Vec<BasisStatus>, Vec<BasisStatus>), SolverError> {
        let (mut columns, mut rows) = (vec![0; self.columns], vec![0; self.rows]);
        // SAFETY: arrays are as long as there are columns and rows.
        let status = unsafe { c::Highs_getBasis(self.highs, columns.as_mut_ptr(), rows.as_mut_ptr()) };
        checked("Highs_getBasis", status)?;
        let read = |list: Vec<c::HighsInt>| list.into_iter().map(basis_status).collect();
        Ok((read(columns), read(rows)))
    }

    fn integer_info(&self, name: &CStr) -> c::HighsInt {
        let mut value = 0;
        // SAFETY: a live instance, a string that ends in a zero, and a place for the answer.
        unsafe { c::Highs_getIntInfoValue(self.highs, name.as_ptr(), &raw mut value) };
        value
    }

    fn real_info(&self, name: &CStr) -> f64 {
        let mut value = f64::NAN;
        // SAFETY: a live instance, a string that ends in a zero, and a place for the answer.
        unsafe { c::Highs_getDoubleInfoValue(self.highs, name.as_ptr(), &raw mut value) };
        value
    }
}

fn basis_status(code: c::HighsInt) -> BasisStatus {
    match code {
        0 => BasisStatus::Lower,
        1 => BasisStatus::Basic,
        2 => BasisStatus::Upper,
        3 => BasisStatus::Zero,
        _ => BasisStatus::Nonbasic,
    }
}

/// An error if HiGHS reports one.
fn checked(call: &'static str, status: c::HighsInt) -> Result<(), SolverError> {
    if status == c::STATUS_ERROR { Err(SolverError { call }) } else { Ok(()) }
}

/// The callbacks of HiGHS that are used, by its numbers: interrupt of the simplex method, improving solution, log
/// line and interrupt of branch and bound.
const CALLBACKS: [c_int; 4] = [1, 4, 5, 6];

/// The data of a callback.
struct CallbackState<'a> {
    on_report: &'a mut dyn FnMut(Report<'_>) -> ControlFlow<()>,
    is_interrupted: bool,
    columns: usize,
}

unsafe extern "C" fn report(
    kind: c_int,
    _message: *const c_char,
    out: *const c::HighsCallbackDataOut,
    answer: *mut c::HighsCallbackDataIn,
    data: *mut c_void,
) {
    // SAFETY: HiGHS hands back the pointer to the `CallbackState` of the run in progress, calls from one thread at a
    // time, and its data is valid for the time of the call; the answer may be null where none is taken.
    let (state, out, answer) =
        unsafe { (&mut *data.cast::<CallbackState<'_>>(), out.as_ref(), answer.as_mut()) };
    let Some(out) = out else { return };
    let flow = match kind {
        4 if !out.mip_solution.is_null() => {
            // SAFETY: an improving solution has a value for every column.
            let values = unsafe { std::slice::from_raw_parts(out.mip_solution, state.columns) };
            (state.on_report)(Report::Solution(out.objective_function_value, values))
        }
        5 | 6 => (state.on_report)(Report::Bound(out.mip_dual_bound)),
        _ => (state.on_report)(Report::Pause),
    };
    state.is_interrupted |= flow.is_break();
    if let Some(answer) = answer {
        answer.user_interrupt = state.is_interrupted.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: f64 = f64::INFINITY;

    /// Minimise −x − 2y, x + y ≤ 4, x + 3y ≤ 6, x, y ≥ 0: −5 at (3, 1).
    fn linear() -> (Program, Column, Column) {
        let mut program = Program::new();
        let x = program.column(0.0, FREE, -1.0);
        let y = program.column(0.0, FREE, -2.0);
        program.at_most(&[(x, 1.0), (y, 1.0)], 4.0);
        program.at_most(&[(x, 1.0), (y, 3.0)], 6.0);
        (program, x, y)
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_linear_program_has_values_duals_and_a_basis() {
        let (program, x, y) = linear();
        let mut solver = Solver::new(&program, &Options::default()).unwrap();
        let solution = solver.solve().unwrap();
        assert_eq!(solution.status, Status::Optimal);
        let (objective, values) = solution.best.unwrap();
        assert!(
            is_near(objective, -5.0) && is_near(values[x.index()], 3.0) && is_near(values[y.index()], 1.0)
        );
        assert!(is_near(solution.bound, -5.0));
        // Strong duality, with the sign that a minimum has.
        assert!(is_near(4.0 * solution.row_duals[0] + 6.0 * solution.row_duals[1], -5.0));
        assert!(is_near(solution.row_duals[0], -0.5) && is_near(solution.row_duals[1], -0.5));
        assert!(solution.reduced_costs.iter().all(|&cost| is_near(cost, 0.0)));
        let (columns, rows) = solver.basis().unwrap();
        assert_eq!(columns, [BasisStatus::Basic; 2]);
        assert_eq!(rows, [BasisStatus::Upper; 2]);
    }

    #[test]
    fn rows_can_be_added_between_solves() {
        let (program, x, y) = linear();
        let mut solver = Solver::new(&program, &Options::default()).unwrap();
        solver.solve().unwrap();
        let cut = [(x, 1.0)];
        solver.add_rows([(f64::NEG_INFINITY, &cut[..], 2.0)]).unwrap();
        let solution = solver.solve().unwrap();
        assert!(is_near(solution.bound, -2.0 - 8.0 / 3.0));
        assert_eq!(solution.row_duals.len(), 3);
        solver.set_range(y, 0.0, 1.0).unwrap();
        assert!(is_near(solver.solve().unwrap().bound, -4.0));
        solver.set_row_range(2, f64::NEG_INFINITY, FREE).unwrap();
        assert!(is_near(solver.solve().unwrap().bound, -5.0));
        solver.set_row_range(2, f64::NEG_INFINITY, 2.0).unwrap();
        let too_much = [(x, 1.0), (y, 1.0)];
        solver.add_rows([(10.0, &too_much[..], FREE)]).unwrap();
        let solution = solver.solve().unwrap();
        assert_eq!(solution.status, Status::Infeasible);
        assert!(solution.bound.is_infinite() && solution.best.is_none());
    }

    #[test]
    fn whole_columns_are_whole_and_repeated_terms_add_up() {
        let mut program = Program::new();
        let x = program.binary();
        let z = program.column(0.0, 10.0, 1.0);
        // 2x + z ≥ 1, written in three terms; x costs nothing.
        program.at_least(1.0, &[(x, 1.0), (z, 1.0), (x, 1.0)]);
        let solution = Solver::new(&program, &Options::default()).unwrap().solve().unwrap();
        let (objective, values) = solution.best.unwrap();
        assert!(is_near(objective, 0.0) && is_near(values[x.index()], 1.0));
        assert!(solution.row_duals.is_empty());
        let relaxed = Solver::new(&program.relaxed(), &Options::default()).unwrap().solve().unwrap();
        assert_eq!(relaxed.row_duals.len(), 1);
        program.fix(x, 0.0);
        let solution = Solver::new(&program, &Options::default()).unwrap().solve().unwrap();
        assert!(is_near(solution.best.unwrap().0, 1.0));
    }

    #[test]
    fn an_unbounded_objective_is_reported() {
        let mut program = Program::new();
        let x = program.column(0.0, FREE, -1.0);
        program.at_least(0.0, &[(x, 1.0)]);
        let solution = Solver::new(&program, &Options::default()).unwrap().solve().unwrap();
        assert_eq!(solution.status, Status::Unbounded);
        assert_eq!(solution.bound, f64::NEG_INFINITY);
    }

    #[test]
    fn the_version_is_a_number() {
        assert!(version().split('.').all(|part| part.parse::<u32>().is_ok()), "{}", version());
    }
}
