//! Bounds for objectives whose value is a period.

mod beginnings;
mod climb;
mod columns;
mod halves;
pub(super) mod mip;
mod node_cut;
mod pricing;
mod prover;
mod ratchet;
mod shares;
mod simple;
mod transfers;
mod united;

use divvy_core::problem::{Objective, Problem};

use crate::makespan::Memory;
use crate::registry::Bound;
use crate::shared::area::Area;
use crate::shared::largest_op::LargestOp;
use crate::shared::pinned::Pinned;

/// The cheapest first.
pub(crate) const BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device.
    &Pinned,
    // One pass over the tensors that pins force over a link.
    &transfers::Transfers,
    // Some dozens of passes over the ops.
    &Area,
    // One look at every op.
    &simple::Simple,
    // A minimum cut or a few for every op.
    &node_cut::NodeCut,
    // A linear program, where memory is short (`stream`).
    &Memory,
    // From here on searches that take the time they are given.
    &halves::TwoStage,
    &halves::Hierarchy,
    // Every way there is, where there are few.
    &beginnings::AllBeginnings,
    // Minimum cuts at one threshold after the other (`stream`).
    &united::Inseparable,
    // Prices, moved again and again (`stream`).
    &shares::Shares,
    // Linear programs and exact searches, again and again.
    &columns::Columns,
    // From here on, by name: the paper's programs, the smallest first.
    &mip::Bottleneck,
    &mip::BottleneckGuess,
    &mip::Milp,
];

/// For bounds that know stages only.
fn only_pipeline(problem: &Problem) -> Result<(), String> {
    match problem.objective {
        Objective::Pipeline { .. } if problem.constraints.replicate => {
            Err("it does not hold where devices may share a stage".to_owned())
        }
        Objective::Pipeline { .. } => Ok(()),
        _ => Err("it is about pipeline stages".to_owned()),
    }
}
