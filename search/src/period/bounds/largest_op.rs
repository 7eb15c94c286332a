//! `largest-op`: some device runs the op that takes longest even where it is fastest.

use divvy_core::certificate::Evidence;
use divvy_core::problem::Problem;

use crate::registry::Bound;
use crate::run::Run;

pub(super) struct LargestOp;

impl Bound for LargestOp {
    fn name(&self) -> &'static str {
        "largest-op"
    }

    fn about(&self) -> &'static str {
        "the op that takes longest on its fastest device"
    }

    fn supports(&self, _problem: &Problem) -> Result<(), String> {
        Ok(())
    }

    fn bound(&self, run: &mut Run<'_>) {
        if let Some(op) = run.problem.graph.ops().max_by_key(|&op| run.problem.shortest_time(op)) {
            run.prove(self.name(), Evidence::Op { op });
        }
    }
}
