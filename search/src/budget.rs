//! The budget of a run, and the reasons for its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The limits of a run, or of one turn of it.
///
/// A run ends when its time is up, when its nodes are used, or when somebody cancels it. With `nodes` set, planners
/// and bounds count the steps of their searches and do not depend on the clock, as long as the time suffices: the
/// same problem, seed and nodes then give the same result on every machine. What a node is, each of them says.
#[derive(Clone, Debug)]
pub struct Budget {
    /// When the run began; `time` counts from here.
    pub start: Instant,
    /// The most time.
    pub time: Duration,
    /// The most search nodes of each planner and bound, for results that do not depend on the clock.
    pub nodes: Option<u64>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The most threads.
    pub threads: u32,
    /// Set from outside, by another thread or a signal handler, to end the run early.
    pub cancelled: Arc<AtomicBool>,
}

impl Budget {
    /// A budget of time that starts now, without a limit of nodes, on one thread.
    pub fn new(time: Duration) -> Budget {
        Budget {
            start: Instant::now(),
            time,
            nodes: None,
            seed: 1,
            threads: 1,
            cancelled: Arc::new(AtomicBool::new(false)),
        }
    }

    /// The time left.
    pub fn left(&self) -> Duration {
        self.time.saturating_sub(self.start.elapsed())
    }

    /// Whether the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether the time is up or the run was cancelled. Nodes are counted by each planner and bound itself.
    pub fn is_spent(&self) -> bool {
        self.is_cancelled() || self.start.elapsed() >= self.time
    }
}

/// Why a planner, or a run, ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopReason {
    /// Nothing was left to do: more time would not change the result.
    #[default]
    Finished,
    /// The time or the nodes were used.
    OutOfBudget,
    /// The run was cancelled.
    Cancelled,
}
