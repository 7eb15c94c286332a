//! The name to which bounds of HiGHS are attested.

/// HiGHS and its version, for the certificates of `milp`, `milp-split` and `lbound`.
pub fn attested_by() -> String {
    format!("HiGHS {}", divvy_solver::version())
}
