//! TODO-DOC search/src/budget.rs

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long and how hard to try.
#[derive(Clone, Debug)]
pub struct Budget {
    /// When the run began.
    pub start: Instant,
    /// How long it may take.
    pub time: Duration,
    /// The most search nodes, where a run must not depend on the clock.
    pub nodes: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// The most threads.
    pub threads: u32,
    /// Set from outside to end the run early.
    pub cancelled: Arc<AtomicBool>,
}

impl Budget {
    /// A budget that starts now.
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

    /// Whether somebody asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether the time is up or somebody asked to stop.
    pub fn is_spent(&self) -> bool {
        self.is_cancelled() || self.start.elapsed() >= self.time
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopReason {
    /// There was nothing left to do.
    #[default]
    Finished,
    /// The time or the nodes were used up.
    OutOfBudget,
    /// Somebody asked to stop.
    Cancelled,
}
