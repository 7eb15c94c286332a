//! `annealing`: the search that `auto` relies on. Units are united where that loses nothing, orders sliced, and stages
//! annealed in rounds on as many threads as there are.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use divvy_core::outcome::StopReason;
use divvy_core::period::dense::{Dense, NEVER};
use divvy_core::problem::Problem;

use crate::period::stages::{Found, Net, Pace, kernel, plan_of, work};
use crate::registry::Planner;
use crate::run::Run;

pub(super) struct Annealing;

impl Planner for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn about(&self) -> &'static str {
        "sliced orders, then rounds of simulated annealing on stage numbers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        Dense::new(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(dense) = Dense::new(run.problem) else { return StopReason::Finished };
        let net = kernel(&dense);
        let pace = Pace::new(run.budget);
        search(run, &net, &pace);
        pace.stop(run.is_solved())
    }
}

/// Runs workers until the budget is spent or the best plan is known to be the best there is.
fn search(run: &mut Run<'_>, net: &Net<'_>, pace: &Pace) {
    let threads = u64::from(run.budget.threads.max(1));
    let best = AtomicU64::new(run.outcome().value().map_or(NEVER, |value| value.0));
    let seed = run.budget.seed;
    if threads == 1 {
        work(net, seed, pace.clone(), &best, &mut |found| offer(run, net, &found));
        return;
    }
    // With a limit of nodes nobody hears of the others, so that the result does not depend on who is faster.
    let alone = run.budget.nodes.is_some();
    let (sender, receiver) = mpsc::channel::<Found>();
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let (sender, pace, best) = (sender.clone(), pace.clone(), &best);
            scope.spawn(move || {
                let own = AtomicU64::new(best.load(std::sync::atomic::Ordering::Relaxed));
                let best = if alone { &own } else { best };
                let seed = seed.wrapping_add(worker.wrapping_mul(0x9e37_79b9));
                // Nobody listens once the search is over.
                work(net, seed, pace, best, &mut |found| drop(sender.send(found)));
            });
        }
        drop(sender);
        for found in receiver {
            offer(run, net, &found);
        }
    });
}

fn offer(run: &mut Run<'_>, net: &Net<'_>, found: &Found) {
    // Where links are uneven a plan may turn out dearer, or not valid at all.
    let _ = run.offer(plan_of(net, &found.order, &found.slices));
}

