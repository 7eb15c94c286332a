//! Bounds for objectives whose value is a finish.

mod bus_capacity;
mod cases;
mod critical_path;
mod divisions;
mod frontier;
mod interval_lp;
mod last_loads;
mod lbound;
mod memory;
mod milp;
mod passages;
mod segments;
mod transfers;

pub(super) use frontier::bound_name;
pub(crate) use memory::Memory;

use crate::registry::Bound;
use crate::shared::area::Area;
use crate::shared::largest_op::LargestOp;
use crate::shared::pinned::Pinned;

/// With so few ops, nothing that could be of use is left out for want of promise.
const FEW_OPS: usize = 8;

/// The cheapest first.
pub(crate) const BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device.
    &Pinned,
    // One pass over parameters and tensors.
    &transfers::Transfers,
    // One pass over the graph backward, then one over the parameters for each moment.
    &last_loads::LastLoads,
    // A linear program for each of a few moments.
    &bus_capacity::BusCapacity,
    // One pass over the graph for each pair of devices.
    &critical_path::CriticalPath,
    // Some dozens of passes over the ops.
    &Area,
    // A linear program with one row for each class of devices: `batch`.
    &divisions::DivisionArea,
    // One pass backward, and the sets of ops that follow each op.
    &frontier::Tails,
    // One search wider than the other, in half of the time: `batch`.
    &passages::Passages,
    // It takes in rows as long as there is time: `batch`.
    &divisions::DivisionLp,
    // A branch and bound for each part of the network, for as long as there is time: `batch`.
    &cases::DivisionCases,
    // The same with one input, where memory is short: `latency`.
    &Memory,
    // From here on, by name: searches that take the time they are given.
    &segments::Segments,
    &last_loads::SearchedLoads,
    &frontier::ModuleTails,
    &frontier::Beam,
    // Dozens of linear programs, one after the other.
    &interval_lp::IntervalLp,
    &milp::Milp,
    // A solve for every way into and out of every module.
    &lbound::LBound,
];
