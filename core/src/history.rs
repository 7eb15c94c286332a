//! Value and bound over the time of a run.

use crate::units::Time;

/// Value and bound at one time of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPoint {
    /// Seconds since the start.
    pub seconds: f64,
    /// The best value so far.
    pub value: Option<Time>,
    /// The best lower bound so far.
    pub lower_bound: Option<Time>,
    /// The planner that found the value, or the bound that was raised; none where a file does not say.
    pub by: Option<String>,
}
