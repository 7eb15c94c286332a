//! The report: a plan, what it costs and how good that is, as one HTML file that needs nothing else.
//!
//! [`Report`] holds core's types alone; [`Report::html`] turns them into data (`data`), adds the critical path
//! and what moving each op alone would cost (`moves`), and puts all of it into the page (`page`), whose
//! style and scripts lie beside it. Names of ops, devices and bounds are anybody's: they reach the page as data and are
//! only ever shown as text.

mod data;
mod losses;
mod moves;
mod page;
mod words;

use divvy_core::history::HistoryPoint;
use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::{Score, Trace};
use divvy_core::units::Time;
use divvy_proof::certificate::Certificate;

/// Everything that a report shows.
pub struct Report<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The plan.
    pub plan: &'a Plan,
    /// What the check says it costs.
    pub score: &'a Score,
    /// Lower bounds. Those that are not attested must have been verified.
    pub certificates: &'a [Certificate],
    /// Value and bound over the time of the search; empty where nobody kept it.
    pub history: &'a [HistoryPoint],
    /// The whole network on the best single device.
    pub one_device: OneDevice,
    /// The planner that found the plan.
    pub found_by: &'a str,
    /// What values and proofs are about, where that is not simply the model on the hardware.
    pub notes: Vec<String>,
    /// Commands that would bring measured times and plan with them; empty where all are.
    pub to_measure: Vec<String>,
    /// Where the problem came from: a role and a path or name.
    pub sources: Vec<(String, String)>,
    /// A run that was measured, to be laid over the timeline.
    pub measured: Option<&'a Trace>,
    /// What could be tried next, each with commands that do it.
    pub next: Vec<Advice>,
    /// What to do when a device is lost, for each that the plan uses.
    pub if_lost: Vec<(DeviceId, Advice)>,
    /// Whether to work out what moving every op would cost, however long that takes; else those that matter most.
    pub every_move: bool,
}

/// Something to try, and the commands for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// What it is good for, as a sentence.
    pub what: String,
    /// Lines for a shell, in order; what must be done by hand between them is in `what`.
    pub commands: Vec<String>,
}

/// The baseline that a plan is shown against.
#[derive(Clone, Debug)]
pub enum OneDevice {
    /// One device can do it all.
    Best {
        /// Which.
        device: DeviceId,
        /// The objective's value there.
        value: Time,
    },
    /// None can.
    Impossible {
        /// Why not.
        reason: String,
    },
}

impl Report<'_> {
    /// The file.
    pub fn html(&self) -> String {
        let title = format!("{} on {}", self.problem.graph.name(), self.problem.hardware.name());
        page::html(&title, &data::of(self).to_string())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report without anything that a search would tell.
    pub(crate) fn bare<'a>(problem: &'a Problem, plan: &'a Plan, score: &'a Score) -> Report<'a> {
        Report {
            problem,
            plan,
            score,
            certificates: &[],
            history: &[],
            one_device: OneDevice::Impossible { reason: "not asked".to_owned() },
            found_by: "a test",
            notes: Vec::new(),
            to_measure: Vec::new(),
            sources: Vec::new(),
            measured: None,
            next: Vec::new(),
            if_lost: Vec::new(),
            every_move: true,
        }
    }
}
