//! Which planners and bounds there are: one ordered list of each for every objective, with the reason for each place.

use divvy_core::problem::{Objective, Problem};

use crate::bound::Bound;
use crate::exhaustive::Exhaustive;
use crate::loads::largest_op::LargestOp;
use crate::loads::pinned::Pinned;
use crate::loads::weighted_average::WeightedAverage;
use crate::one_device::planner::OneDevice;
use crate::pieces::priced::Priced;
use crate::planner::Planner;
use crate::{batch, chains, cold_start, division_lp, latency, pipeline, stream};

/// Planners of `latency`, in the order that `auto` runs those it uses.
const LATENCY_PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // Where pieces cost something, before planners that do not see it.
    &Priced,
    // One pass over the list, and good plans.
    &latency::planners::heft::Heft,
    // As fast; sometimes better, sometimes worse.
    &latency::planners::peft::Peft,
    // Where pieces cost something or links are used in turn, which those that follow do not see.
    &latency::planners::blocks::BlockAnnealing,
    // As long as there is time: everything above gives it a start.
    &latency::planners::dominance::Dominance,
    // Where plans are few, after a little time of the others; else not at all.
    &Exhaustive,
    // The rest is there to be compared with, in the order of DiviML V-A.
    &latency::baselines::met::Met,
    &latency::baselines::greedy::Greedy,
    &latency::baselines::annealing::Annealing,
    &latency::baselines::one_plus_one_ea::OnePlusOneEa,
    // What users have today.
    &latency::baselines::memory_greedy::MemoryGreedy,
    // By name, and for small networks with limits that `dominance` does not see: it works towards a proof, and others
    // find good plans sooner.
    &latency::planners::milp::Milp,
    // By name only: as good as its modules are apart.
    &latency::baselines::milp_split::MilpSplit,
];

/// Bounds of `latency`, the cheapest first.
const LATENCY_BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device, and the tensors that they force over a link.
    &Pinned,
    // One pass over the graph for each pair of devices.
    &chains::critical_path::CriticalPath,
    // Some dozens of passes over the ops.
    &WeightedAverage,
    // One pass backward, and the sets of ops that follow each op.
    &latency::bounds::frontier_search::TailBound,
    // A linear program, where memory is short.
    &division_lp::memory_bound::MemoryBound,
    // From here on, by name: searches that take the time they are given.
    &latency::bounds::frontier_search::ModuleTails,
    &latency::bounds::frontier_search::Beam,
    // Dozens of linear programs, one after the other.
    &latency::bounds::interval_lp::IntervalLp,
    &latency::bounds::milp::Milp,
    // A solve for every way into and out of every module.
    &latency::bounds::lbound::LBound,
];

/// Planners of `batch`, in the order that `auto` runs those it uses.
const BATCH_PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // Where pieces cost something, before planners that do not see it.
    &Priced,
    // One pass over the list.
    &batch::planners::heft::BHeft,
    // As long as there is time.
    &batch::planners::divisions::Divisions,
    // Where plans are few, after a little time of the others; else not at all.
    &Exhaustive,
    // The rest is there to be compared with, in the order of DiviML V-A.
    &batch::baselines::list_scheduling::BMet,
    &batch::baselines::list_scheduling::BGreedy,
    &batch::baselines::annealing::Annealing,
    &batch::baselines::one_plus_one_ea::OnePlusOneEa,
    // By name only: they work towards a proof, or from module to module.
    &batch::baselines::milp::Milp,
    &batch::baselines::milp_split::MilpSplit,
];

/// Bounds of `batch`, the cheapest first.
const BATCH_BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device, and the tensors that they force over a link.
    &Pinned,
    // One pass over the graph for each pair of devices.
    &chains::critical_path::CriticalPath,
    // Some dozens of passes over the ops.
    &WeightedAverage,
    // A linear program with one row for each class of devices.
    &batch::bounds::division_lp::DivisionArea,
    // One search wider than the other, in half of the time.
    &batch::bounds::chain_dp::ChainDp,
    // It takes in rows as long as there is time.
    &batch::bounds::division_lp::DivisionLp,
    // A branch and bound for each part of the network, for as long as there is time.
    &batch::bounds::division_cases::DivisionCases,
];

/// Planners of `cold-start`, in the order that `auto` runs those it uses.
const COLD_START_PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // Some tenths of a second; what comes next starts from its plan.
    &cold_start::planners::hand_over::HandOver,
    // Where pieces cost something, before planners that do not see it.
    &Priced,
    // As long as there is time.
    &cold_start::planners::interleave::Interleave,
    // Tiny networks: whatever the ones above have not proved.
    &cold_start::planners::exhaustive::Exhaustive,
    // To be compared with: SortingHat's baseline, what one GPU can do at best, and DeepPlan, which uses every bus.
    &cold_start::baselines::one_gpu::OneGpu { overlapped: false },
    &cold_start::baselines::one_gpu::OneGpu { overlapped: true },
    &cold_start::baselines::deepplan::DeepPlan,
    // By name only: programs that take seconds for each part of the network.
    &cold_start::baselines::sortinghat::SORTINGHAT,
    &cold_start::baselines::sortinghat::EFFICIENT_MIP,
    // SortingHat's ablations.
    &cold_start::baselines::sortinghat::TWELVE_SLOTS,
    &cold_start::baselines::sortinghat::TWO_DOMINATORS,
    &cold_start::baselines::sortinghat::NO_TOPOLOGY,
    &cold_start::baselines::sortinghat::NO_TURNS,
];

/// Bounds of `cold-start`, the cheapest first.
const COLD_START_BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device, and the tensors that they force over a link.
    &Pinned,
    // One pass over the graph backward, then one over the parameters for each moment.
    &cold_start::bounds::last_loads::LastLoads,
    // One pass over the graph for each pair of devices.
    &chains::critical_path::CriticalPath,
    // Some dozens of passes over the ops.
    &WeightedAverage,
    // Prices moved again and again, as long as there is time.
    &cold_start::bounds::segment_prices::SegmentBound,
    // Searches behind every op, as long as there is time.
    &cold_start::bounds::last_loads::SearchedLoads,
];

/// Planners of `pipeline`, in the order that `auto` runs those it uses.
const PIPELINE_PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // As long as there is time.
    &pipeline::planners::annealing::Annealing,
    // Where plans are few, after a little time of the others; else not at all.
    &Exhaustive,
    // The rest is there to be compared with, in the order of Archer et al., appendix C.1.
    &pipeline::baselines::random::Random,
    &pipeline::baselines::brkga::BiasedKeys,
    &pipeline::baselines::linear_arrangement::LinearArrangement,
    &pipeline::baselines::linear_arrangement::WeightedLinearArrangement,
    &pipeline::baselines::milp::Milp,
];

/// Bounds of `pipeline`, the cheapest first.
const PIPELINE_BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device, and the tensors that they force over a link.
    &Pinned,
    // Some dozens of passes over the ops.
    &WeightedAverage,
    // One look at every op.
    &pipeline::bounds::simple::Simple,
    // A minimum cut or a few for every op.
    &pipeline::bounds::node_cut::NodeCut,
    // From here on searches that take the time they are given.
    &pipeline::bounds::two_way_cut::TwoStage,
    &pipeline::bounds::two_way_cut::Hierarchy,
    // Every way there is, where there are few.
    &pipeline::bounds::down_sets::DownSetBound,
    // Linear programs and exact searches, again and again.
    &pipeline::bounds::column_generation::ColumnGeneration,
    // From here on, by name: the paper's programs, the smallest first.
    &pipeline::bounds::mip::Bottleneck,
    &pipeline::bounds::mip::BottleneckGuess,
    &pipeline::bounds::mip::Milp,
];

/// Planners of `stream`, in the order that `auto` runs those it uses.
const STREAM_PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // Where pieces cost something, which those that follow do not see.
    &stream::planners::stretches::Stretches,
    // Until it is a proof, or as long as there is time (without a limit of splits).
    &stream::planners::conflict_driven::ConflictDriven,
    // The same with a limit.
    &stream::planners::dominance::Dominance,
    // Where plans are few, after a little time of the others; else not at all.
    &Exhaustive,
    // What others do, the simpler first, to be compared with.
    &stream::baselines::single_split::SingleSplit,
    &stream::baselines::branch_and_bound::BranchAndBound,
];

/// Bounds of `stream`, the cheapest first.
const STREAM_BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device, and the tensors that they force over a link.
    &Pinned,
    // Some dozens of passes over the ops.
    &WeightedAverage,
    // A linear program, where memory is short.
    &division_lp::memory_bound::MemoryBound,
    // Minimum cuts at one threshold after the other.
    &stream::bounds::colocation::Colocation,
    // Prices, moved again and again.
    &stream::bounds::link_prices::LinkPrices,
    // A program at one threshold after the other, finer and finer.
    &stream::bounds::device_groups::DeviceGroups,
];

/// The planners for a problem's objective, in the order that `auto` tries those it uses.
pub fn planners(problem: &Problem) -> &'static [&'static dyn Planner] {
    match problem.objective {
        Objective::Latency { .. } => LATENCY_PLANNERS,
        Objective::Batch { .. } => BATCH_PLANNERS,
        Objective::ColdStart { .. } => COLD_START_PLANNERS,
        Objective::Pipeline { .. } => PIPELINE_PLANNERS,
        Objective::Stream => STREAM_PLANNERS,
    }
}

/// The bounds for a problem's objective, the cheapest first.
pub fn bounds(problem: &Problem) -> &'static [&'static dyn Bound] {
    match problem.objective {
        Objective::Latency { .. } => LATENCY_BOUNDS,
        Objective::Batch { .. } => BATCH_BOUNDS,
        Objective::ColdStart { .. } => COLD_START_BOUNDS,
        Objective::Pipeline { .. } => PIPELINE_BOUNDS,
        Objective::Stream => STREAM_BOUNDS,
    }
}

/// The planners of all objectives; those that share a name and do different things are all there.
pub fn every_planner() -> Vec<&'static dyn Planner> {
    let lists = [LATENCY_PLANNERS, BATCH_PLANNERS, COLD_START_PLANNERS, PIPELINE_PLANNERS, STREAM_PLANNERS];
    let mut all: Vec<&'static dyn Planner> = Vec::new();
    for &planner in lists.into_iter().flatten() {
        if all.iter().all(|known| (known.name(), known.about()) != (planner.name(), planner.about())) {
            all.push(planner);
        }
    }
    all
}

/// The bounds of all objectives; those that share a name and argue differently are all there.
pub fn every_bound() -> Vec<&'static dyn Bound> {
    let lists = [LATENCY_BOUNDS, BATCH_BOUNDS, COLD_START_BOUNDS, PIPELINE_BOUNDS, STREAM_BOUNDS];
    let mut all: Vec<&'static dyn Bound> = Vec::new();
    for &bound in lists.into_iter().flatten() {
        if all.iter().all(|known| (known.name(), known.about()) != (bound.name(), bound.about())) {
            all.push(bound);
        }
    }
    all
}

/// The planner of that name, and the number in it where there is one.
pub(crate) fn planner_named(
    all: &[&'static dyn Planner],
    name: &str,
) -> Option<(&'static dyn Planner, Option<u64>)> {
    if let Some(&planner) = all.iter().find(|planner| planner.name() == name) {
        return Some((planner, None));
    }
    all.iter().find_map(|&planner| {
        let number = name.strip_prefix(planner.numbered_prefix()?)?.parse().ok();
        Some((planner, Some(number.filter(|&number| number > 0)?)))
    })
}
