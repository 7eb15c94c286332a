//! `mla`, `mla-weighted`: a minimum linear arrangement, sliced optimally (Archer et al., appendix C.1).
//!
//! The order minimises Σ over edges (u, v) of w_uv · (position of v − position of u), whatever the stages; w is 1, or the time
//! of the tensor. It is found by BRKGA with 100 individuals and 100 generations, as in the paper.

use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::budget::StopReason;
use crate::pipeline::budget_progress::BudgetProgress;
use crate::pipeline::random_keys::{BrkgaSettings, evolve};
use crate::pipeline::sliced_plan::offer_order;
use crate::pipeline::slicing::slicer::Slicer;
use crate::pipeline::stage_network::{StageNetwork, TopologicalSorter};
use crate::pipeline::tables::{NETWORK_INPUT, PipelineTables};
use crate::planner::Planner;
use crate::run::Run;

/// Orders evaluated.
const EVALUATIONS: u64 = 10_000;

/// Every edge has weight 1.
pub(crate) struct LinearArrangement;
/// The weight of an edge is the time of its tensor.
pub(crate) struct WeightedLinearArrangement;

impl Planner for LinearArrangement {
    fn name(&self) -> &'static str {
        "mla"
    }

    fn about(&self) -> &'static str {
        "an order of short edges (minimum linear arrangement), sliced optimally"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        PipelineTables::with_replicated_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // A baseline.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        arrange(run, false)
    }
}

impl Planner for WeightedLinearArrangement {
    fn name(&self) -> &'static str {
        "mla-weighted"
    }

    fn about(&self) -> &'static str {
        "as mla, every edge weighed by its transfer"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        PipelineTables::with_replicated_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // A baseline.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        arrange(run, true)
    }
}

fn arrange(run: &mut Run<'_>, weighted: bool) -> StopReason {
    let Ok(tables) = PipelineTables::with_replicated_stages(run.problem) else { return StopReason::Finished };
    let network = StageNetwork::new(&tables);
    let edges = edges(&network, weighted);
    let mut progress = BudgetProgress::new(run.budget);
    let mut rng = Rng::new(run.budget.seed);
    let (mut sorter, mut order) = (TopologicalSorter::default(), Vec::new());
    let mut place = vec![0u32; network.len()];
    let mut best = (u64::MAX, network.order.clone());
    let mut finished = true;
    let settings = BrkgaSettings::of_evaluations(EVALUATIONS);
    evolve(network.len(), settings, Vec::new(), &mut rng, &mut |keys, _| {
        if progress.is_over() {
            finished = false;
            return None;
        }
        progress.count(1);
        sorter.sort(&network, keys, &mut order);
        for (at, &unit) in order.iter().enumerate() {
            place[unit as usize] = at as u32;
        }
        let length = |&(from, to, weight): &(u32, u32, u64)| {
            let distance = place[to as usize] - place[from as usize];
            u64::from(distance).saturating_mul(weight)
        };
        let sum = edges.iter().map(length).fold(0, u64::saturating_add);
        if sum < best.0 {
            best = (sum, order.clone());
        }
        Some(sum)
    });
    offer_order(run, &mut Slicer::new(&network), &network, &best.1);
    progress.stop(finished)
}

/// The edges with their weights.
fn edges(network: &StageNetwork<'_>, weighted: bool) -> Vec<(u32, u32, u64)> {
    if !weighted {
        let next = |unit: usize| network.successors.get(unit).iter().map(move |&to| (unit as u32, to, 1));
        return (0..network.len()).flat_map(next).collect();
    }
    // The least time over the kinds of devices, since the order is chosen before the devices.
    let time = |tensor: usize| (0..network.kinds).map(|kind| network.enter(tensor, kind)).min().unwrap_or(0);
    let made = (0..network.tensor_count()).filter(|&tensor| network.producer[tensor] != NETWORK_INPUT);
    made.flat_map(|tensor| {
        let readers = network.readers.get(tensor).iter();
        readers.map(move |&to| (network.producer[tensor], to, time(tensor)))
    })
    .collect()
}
