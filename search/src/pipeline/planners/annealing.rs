//! `annealing`: simulated annealing on stage numbers, in rounds, on as many threads as the budget allows. The best planner of
//! `pipeline`.
//!
//! The network is kernelised first: ops that share a stage in some optimal plan are contracted. Each thread runs a worker
//! ([`work`]) with a seed of its own; they share the best value, unless nodes are limited, so that results do not depend on
//! timing.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;

use crate::budget::StopReason;
use crate::pipeline::annealing_rounds::{SharedIncumbent, work};
use crate::pipeline::budget_progress::BudgetProgress;
use crate::pipeline::stage_network::StageNetwork;
use crate::pipeline::tables::{NEVER, PipelineTables};
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Annealing;

impl Planner for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn about(&self) -> &'static str {
        "sliced orders, then rounds of simulated annealing on stage numbers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        PipelineTables::with_replicated_stages(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = PipelineTables::with_replicated_stages(run.problem) else {
            return StopReason::Finished;
        };
        let network = kernelised(run.problem, &tables);
        let progress = BudgetProgress::new(run.budget);
        search(run, &network, &progress);
        progress.stop(run.is_solved())
    }
}

/// The kernelised network; the plain one where kernelisation is not exact.
fn kernelised<'a>(problem: &Problem, tables: &'a PipelineTables) -> StageNetwork<'a> {
    let is_exact = tables.is_plain() && tables.input_at().is_none() && tables.output_at().is_none();
    match PipelineRelaxation::merged(problem) {
        Ok(relaxed) if is_exact => {
            let unit_of: Vec<u32> = problem.graph.ops().map(|op| relaxed.unit_of(op) as u32).collect();
            StageNetwork::with_units(tables, &unit_of)
        }
        _ => StageNetwork::new(tables),
    }
}

/// Runs the workers until the budget is spent.
fn search(run: &mut Run<'_>, network: &StageNetwork<'_>, progress: &BudgetProgress) {
    let threads = u64::from(run.budget.threads.max(1));
    let best = run.relaxed_value().map_or(NEVER, |value| value.0);
    let (problem, seed) = (run.problem, run.budget.seed);
    let floor = run.relaxed_bound().map_or(0, |bound| bound.0);
    let shared = || SharedIncumbent { problem, network, best: AtomicU64::new(best), floor };
    if threads == 1 {
        work(&shared(), seed, progress.clone(), &mut |plan| offer(run, plan));
        return;
    }
    let together = shared();
    // With a limit of nodes workers do not share the best value, so that the result does not depend on their speed.
    let alone = run.budget.nodes.is_some();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let (sender, progress, together) = (sender.clone(), progress.clone(), &together);
            scope.spawn(move || {
                let seed = seed.wrapping_add(worker.wrapping_mul(0x9e37_79b9));
                // The receiver is gone once the search is over.
                let report = &mut |plan| drop(sender.send(plan));
                if alone {
                    work(&shared(), seed, progress, report);
                } else {
                    work(together, seed, progress, report);
                }
            });
        }
        drop(sender);
        receiver.into_iter().for_each(|plan| offer(run, plan));
    });
}

fn offer(run: &mut Run<'_>, plan: Plan) {
    let offered = run.offer(plan);
    debug_assert!(offered.is_ok(), "workers offer what passed the check, or what slicing makes");
}
