//! `largest-op`: max over ops of min over devices and batch sizes of the op's time.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

pub(crate) struct LargestOp;

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
        let problem = run.problem;
        let fastest = |op| {
            let batches =
                problem.devices_for(op).flat_map(|d| problem.batch_sizes(d).iter().map(move |&s| (d, s)));
            let times = batches.filter_map(|(d, size)| Some(problem.cost(op, d, size)?.time));
            times.min().unwrap_or(Time::ZERO)
        };
        if let Some(op) = problem.graph.ops().max_by_key(|&op| fastest(op)) {
            let period = problem.objective.is_period();
            run.prove(
                self.name(),
                if period { Evidence::Op { op } } else { Evidence::CriticalPath { ops: vec![op] } },
            );
        }
    }
}
