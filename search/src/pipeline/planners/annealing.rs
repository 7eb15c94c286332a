//! `annealing`: the search that `auto` relies on. Units are united where that loses nothing, orders sliced, and stages
//! annealed in rounds on as many threads as there are.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use crate::budget::StopReason;
use crate::pipeline::tables::{PipelineTables, NEVER};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;

use crate::pipeline::annealing_rounds::{SharedIncumbent, work};
use crate::pipeline::incumbent::Incumbent;
use crate::pipeline::stage_network::StageNetwork;
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
        PipelineTables::with_shared_stages(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(dense) = PipelineTables::with_shared_stages(run.problem) else { return StopReason::Finished };
        let net = united(run.problem, &dense);
        let pace = Incumbent::new(run.budget);
        search(run, &net, &pace);
        pace.stop(run.is_solved())
    }
}

/// The network, with ops united that share a stage in some best plan; as it is where that is not known.
fn united<'a>(problem: &Problem, dense: &'a PipelineTables) -> StageNetwork<'a> {
    let is_exact = dense.is_plain() && dense.input_at().is_none() && dense.output_at().is_none();
    match PipelineRelaxation::merged(problem) {
        Ok(relaxed) if is_exact => {
            let unit_of: Vec<u32> = problem.graph.ops().map(|op| relaxed.unit_of(op) as u32).collect();
            StageNetwork::united(dense, &unit_of)
        }
        _ => StageNetwork::new(dense),
    }
}

/// Runs workers until the budget is spent.
fn search(run: &mut Run<'_>, net: &StageNetwork<'_>, pace: &Incumbent) {
    let threads = u64::from(run.budget.threads.max(1));
    let best = run.outcome().value().map_or(NEVER, |value| value.0);
    let (problem, seed) = (run.problem, run.budget.seed);
    let floor = run.outcome().lower_bound().map_or(0, |bound| bound.0);
    let shared = || SharedIncumbent { problem, net, best: AtomicU64::new(best), floor };
    if threads == 1 {
        work(&shared(), seed, pace.clone(), &mut |plan| offer(run, plan));
        return;
    }
    let together = shared();
    // With a limit of nodes nobody hears of the others, so that the result does not depend on who is faster.
    let alone = run.budget.nodes.is_some();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let (sender, pace, together) = (sender.clone(), pace.clone(), &together);
            scope.spawn(move || {
                let seed = seed.wrapping_add(worker.wrapping_mul(0x9e37_79b9));
                // Nobody listens once the search is over.
                let tell = &mut |plan| drop(sender.send(plan));
                if alone { work(&shared(), seed, pace, tell) } else { work(together, seed, pace, tell) }
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
