//! `blocks`: annealing of blocks ([`crate::latency::blocks`]), for what the other planners of `latency` do not see.
//!
//! Where pieces cost something, or links are used in turn, the value of a plan is more than what they count. From the best plan so
//! far, and where there is none from everything on one device, blocks are annealed for a part of the time that is left.

use std::time::Duration;

use divvy_core::ids::DeviceId;
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::units::Time;

use crate::budget::StopReason;
use crate::latency::blocks::{BlockTables, Blocks};
use crate::latency::planners::heft::Heft;
use crate::planner::Planner;
use crate::run::Run;

/// The share of the time left, or of the nodes.
const SHARE: f64 = 0.4;
/// States evaluated for a node of the budget.
const STATES_PER_NODE: u64 = 100;
/// States between two looks at the clock.
const STATES_PER_LOOK: u64 = 16;

pub(crate) struct BlockAnnealing;

impl Planner for BlockAnnealing {
    fn name(&self) -> &'static str {
        "blocks"
    }

    fn about(&self) -> &'static str {
        "annealing of stretches of ops, with what pieces cost and links used in turn"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        if BlockTables::new(problem).is_some() {
            Ok(())
        } else {
            Err("the network is too large for it".to_owned())
        }
    }

    fn helps_auto(&self, problem: &Problem) -> bool {
        problem.has_piece_costs()
            || matches!(problem.objective, Objective::Latency { links: LinkUse::InTurn })
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        if run.outcome().best.is_none() {
            Heft.plan(run);
        }
        let Some(tables) = BlockTables::new(run.real()) else { return StopReason::Finished };
        let Some((plan, score)) = &run.outcome().best else { return StopReason::Finished };
        let mut device_of = vec![DeviceId(0); run.problem.graph.op_count()];
        plan.placements().iter().for_each(|&(op, device, _)| device_of[op.index()] = device);
        let starts: Vec<u64> = score.starts.iter().map(|start| start.0).collect();
        let Some(mut blocks) = Blocks::new(&tables, &device_of, &starts, run.budget.seed) else {
            return StopReason::Finished;
        };
        let budget = run.budget;
        let began = budget.start.elapsed();
        let time = budget.left().mul_f64(SHARE).max(Duration::from_millis(1));
        let most = budget.nodes.map(|nodes| nodes.saturating_mul(STATES_PER_NODE));
        let mut progress = 0.0;
        let mut is_over = |count: u64| {
            if let Some(most) = most {
                return (count < most && !budget.is_spent()).then(|| count as f64 / most as f64);
            }
            if count.is_multiple_of(STATES_PER_LOOK) {
                let used = budget.start.elapsed().saturating_sub(began);
                progress = used.as_secs_f64() / time.as_secs_f64();
                if progress >= 1.0 || budget.is_cancelled() {
                    return None;
                }
            }
            Some(progress)
        };
        let lower = run.outcome().lower_bound();
        let mut better = |blocks: &Blocks<'_, '_>| {
            if run.outcome().value().is_none_or(|value| Time(blocks.best) < value)
                && let Some(plan) = blocks.plan()
            {
                let offered = run.offer(plan);
                debug_assert!(offered.is_ok(), "memory, colocation and routes are kept: {offered:?}");
                debug_assert!(
                    run.outcome().value().is_some_and(|value| value <= Time(blocks.best)),
                    "the check agrees"
                );
            }
            !run.is_solved() && lower.is_none_or(|lower| Time(blocks.best) > lower)
        };
        blocks.anneal(&mut is_over, &mut better);
        if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
    }
}
