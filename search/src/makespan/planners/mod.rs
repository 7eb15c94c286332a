//! Planners for objectives whose value is a finish.

mod annealing;
mod deepplan;
mod dominance;
mod ea;
mod exhaustive;
mod greedy;
mod heft;
mod interleave;
mod memory_greedy;
mod met;
mod milp;
mod milp_split;
mod one_gpu;
mod peft;
mod sortinghat;

use crate::registry::Planner;
use crate::shared::one_device::OneDevice;

/// In the order that `auto` tries those it uses.
pub(crate) const PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // One pass over the list, and good plans.
    &heft::Heft,
    // As fast; sometimes better, sometimes worse.
    &peft::Peft,
    // As long as there is time: everything above gives it a start.
    &dominance::Dominance,
    // What one GPU does by itself under cold starts: no time at all.
    &one_gpu::OneGpu { overlapped: true },
    // As fast, and every bus is used.
    &deepplan::DeepPlan,
    // For cold starts, as long as there is time.
    &interleave::Interleave,
    // Tiny networks: whatever the ones above have not proved.
    &exhaustive::Exhaustive,
    // SortingHat's baseline, to be compared with.
    &one_gpu::OneGpu { overlapped: false },
    // By name only: programs that take seconds for each part of the network.
    &sortinghat::SORTINGHAT,
    &sortinghat::EFFICIENT_MIP,
    // SortingHat's ablations.
    &sortinghat::TWELVE_SLOTS,
    &sortinghat::TWO_DOMINATORS,
    &sortinghat::NO_TOPOLOGY,
    &sortinghat::NO_TURNS,
    // The rest is there to be compared with, in the order of DiviML V-A.
    &met::Met,
    &greedy::Greedy,
    &annealing::Annealing,
    &ea::Ea,
    // What users have today.
    &memory_greedy::MemoryGreedy,
    // By name, and for small networks with limits that `dominance` does not see: it works towards a proof, and others
    // find good plans sooner.
    &milp::Milp,
    // By name only: as good as its modules are apart.
    &milp_split::MilpSplit,
];
