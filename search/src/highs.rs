//! The name under which bounds of HiGHS are attested.

/// HiGHS and its version: who vouches for the bounds of `milp`, `milp-split` and `lbound`.
pub fn attested_by() -> String {
    format!("HiGHS {}", divvy_solver::version())
}
