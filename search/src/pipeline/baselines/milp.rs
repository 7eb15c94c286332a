//! `milp`: the paper's exact mixed-integer program, solved by HiGHS from the best plan known (see [`mip`]).
//!
//! The program knows neither memory nor overflow nor unlike devices; its plans are checked like all others, and its bound is
//! kept as the bound `milp`. Blocks take the devices in their order.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::Problem;
use divvy_solver::Status;

use crate::budget::StopReason;
use crate::pipeline::bounds::mip;
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Milp;

impl Planner for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn about(&self) -> &'static str {
        "the paper's exact mixed-integer program, from the best plan known"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        mip::supports_exact(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let order: Vec<OpId> = run.problem.graph.order().to_vec();
        let status = mip::exact(run, &mut mip::attest_exact, &mut |run, block_of| {
            let blocks = order.iter().map(|&op| block_of(op)).max().map_or(0, |last| last + 1);
            let mut stages: Vec<Stage> = Vec::new();
            for block in 0..blocks {
                let ops: Vec<OpId> = order.iter().copied().filter(|&op| block_of(op) == block).collect();
                if !ops.is_empty() {
                    stages.push(Stage::new(DeviceId::new(stages.len()), ops));
                }
            }
            // Refused if it breaks a rule that the program does not know.
            let _ = run.offer(Plan::Pipeline(PipelinePlan { stages }));
        });
        match status {
            Some(Status::Optimal | Status::Infeasible) => StopReason::Finished,
            _ => StopReason::OutOfBudget,
        }
    }
}
