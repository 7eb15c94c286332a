//! `single-split`: the first ops on one device, the others on another (after Neurosurgeon, Kang et al., ASPLOS 2017).
//!
//! Every split of the canonical order is tried with every ordered pair of devices, and every device alone. Neurosurgeon splits
//! between a phone and a cloud for latency or energy; here the objective is the period. O(ops² × devices²).

use divvy_core::problem::Problem;

use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::StreamTables;

pub(crate) struct SingleSplit;

impl Planner for SingleSplit {
    fn name(&self) -> &'static str {
        "single-split"
    }

    fn about(&self) -> &'static str {
        "the best single split of the order over two devices (Neurosurgeon)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let tables = StreamTables::new(run.problem);
        let Some(empty) = PartialPlacement::empty(&tables) else { return StopReason::Finished };
        for first in 0..tables.devices {
            let mut prefix = empty.clone();
            for _ in 0..tables.ops {
                if run.budget.is_spent() {
                    let is_cancelled = run.budget.is_cancelled();
                    return if is_cancelled { StopReason::Cancelled } else { StopReason::OutOfBudget };
                }
                if !prefix.place(&tables, first) {
                    break;
                }
                for second in 0..tables.devices {
                    offer_padded(run, &tables, &prefix, second);
                }
            }
        }
        StopReason::Finished
    }
}

/// Offers the completion of a prefix with all other ops on one device, if it is valid and the best so far.
pub(crate) fn offer_padded(
    run: &mut Run<'_>,
    tables: &StreamTables,
    prefix: &PartialPlacement,
    device: usize,
) {
    let Some(complete) = prefix.padded(tables, device).filter(|complete| complete.is_plan(tables)) else {
        return;
    };
    let value = complete.value(tables);
    if run.outcome().value().is_none_or(|best| value < best.0) {
        let offered = run.offer(tables.plan(&complete.device_of));
        debug_assert!(offered.is_ok(), "it was placed by the rules");
    }
}
