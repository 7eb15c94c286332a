//! `simple`: max(largest op, total work / k) on the fastest devices (MTPP, lemma 3.3). O(ops).

use divvy_core::problem::Problem;
use divvy_proof::evidence::Evidence;

use crate::bound::{Bound, When};
use crate::pipeline::bounds::unreplicated_pipeline;
use crate::run::Run;

pub(crate) struct Simple;

impl Bound for Simple {
    fn name(&self) -> &'static str {
        "simple"
    }

    fn about(&self) -> &'static str {
        "the largest op, or all work divided evenly over the stages"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        unreplicated_pipeline(problem)
    }

    /// `area` and `node-cut` prove at least as much.
    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let largest = run.problem.graph.ops().max_by_key(|&op| run.problem.shortest_time(op));
        if let Some(op) = largest {
            run.prove(self.name(), Evidence::Op { op });
        }
        let weights = vec![1; run.problem.hardware.device_count()];
        run.prove(self.name(), Evidence::Area { weights });
    }
}
