//! Who solves a module: the seam between splitting a network and solving its parts.

use std::ops::ControlFlow;

use super::milp::{self, Limits, Solved};
use super::part::Part;

/// Solves parts exactly, given time.
pub(crate) trait ModuleSolver: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// Who vouches for its bounds.
    fn attested_by(&self) -> String;
    /// The best schedule and the best bound for a part within the limits. Schedules longer than `cutoff` are of no
    /// interest: a bound that reaches it is as good as any.
    fn solve(&self, part: &Part<'_>, cutoff: Option<u64>, limits: &Limits<'_>) -> Solved;
}

/// All there are; the first is the default.
pub(crate) const INNER: &[&dyn ModuleSolver] = &[&Highs];

/// The solver of a name; the default for none.
pub(crate) fn inner(name: Option<&str>) -> Option<&'static dyn ModuleSolver> {
    INNER.iter().copied().find(|solver| name.is_none_or(|name| name == solver.name()))
}

struct Highs;

impl ModuleSolver for Highs {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn attested_by(&self) -> String {
        milp::attested_by()
    }

    fn solve(&self, part: &Part<'_>, cutoff: Option<u64>, limits: &Limits<'_>) -> Solved {
        milp::solve(part, None, cutoff, limits, &mut |_| ControlFlow::Continue(()))
    }
}
