//! An item of the two-device subproblem of local search: a unit, and its time on each of the two.

/// The unit, with its time on each of the two.
#[derive(Clone, Copy)]
pub(crate) struct SharedUnit {
    pub(crate) unit: usize,
    pub(crate) on_first: u64,
    pub(crate) on_second: u64,
}
