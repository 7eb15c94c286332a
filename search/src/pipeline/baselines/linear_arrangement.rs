//! `mla`, `mla-weighted`: a minimum linear arrangement, sliced optimally (Archer et al., appendix C.1).
//!
//! The order is chosen without a look at stages: it makes the sum, over all edges, of the distance between their ends
//! small, each edge counting 1 or the time of its tensor. A biased random-key genetic algorithm of 100 individuals and
//! 100 generations looks for it, as in the paper.

use crate::budget::StopReason;
use crate::pipeline::tables::{PipelineTables, NOBODY};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::pipeline::incumbent::{Incumbent, offer_order};
use crate::pipeline::random_keys::{BrkgaSettings, evolve};
use crate::pipeline::slicing::Slicer;
use crate::pipeline::stage_network::{Kahn, StageNetwork};
use crate::planner::Planner;
use crate::run::Run;

/// Arrangements that are looked at.
const EVALUATIONS: u64 = 10_000;

/// Every edge counts the same.
pub(crate) struct LinearArrangement;
/// An edge counts as much as its tensor's transfer takes.
pub(crate) struct WeightedLinearArrangement;

impl Planner for LinearArrangement {
    fn name(&self) -> &'static str {
        "mla"
    }

    fn about(&self) -> &'static str {
        "an order of short edges (minimum linear arrangement), sliced optimally"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        PipelineTables::with_shared_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // It is there to be compared with.
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
        PipelineTables::with_shared_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // It is there to be compared with.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        arrange(run, true)
    }
}

fn arrange(run: &mut Run<'_>, weighted: bool) -> StopReason {
    let Ok(dense) = PipelineTables::with_shared_stages(run.problem) else { return StopReason::Finished };
    let net = StageNetwork::new(&dense);
    let edges = edges(&net, weighted);
    let mut pace = Incumbent::new(run.budget);
    let mut rng = Rng::new(run.budget.seed);
    let (mut kahn, mut order) = (Kahn::default(), Vec::new());
    let mut place = vec![0u32; net.len()];
    let mut best = (u64::MAX, net.order.clone());
    let mut finished = true;
    let settings = BrkgaSettings::of_evaluations(EVALUATIONS);
    evolve(net.len(), settings, Vec::new(), &mut rng, &mut |keys, _| {
        if pace.is_over() {
            finished = false;
            return None;
        }
        pace.count(1);
        kahn.sort(&net, keys, &mut order);
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
    offer_order(run, &mut Slicer::new(&net), &net, &best.1);
    pace.stop(finished)
}

/// Pairs of units, and what each unit of distance between them costs.
fn edges(net: &StageNetwork<'_>, weighted: bool) -> Vec<(u32, u32, u64)> {
    if !weighted {
        let next = |unit: usize| net.successors.get(unit).iter().map(move |&to| (unit as u32, to, 1));
        return (0..net.len()).flat_map(next).collect();
    }
    // Of several sorts of devices the least time counts; the arrangement knows no devices.
    let time = |tensor: usize| (0..net.sorts).map(|sort| net.enter(tensor, sort)).min().unwrap_or(0);
    let made = (0..net.tensor_count()).filter(|&tensor| net.maker[tensor] != NOBODY);
    made.flat_map(|tensor| {
        let readers = net.readers.get(tensor).iter();
        readers.map(move |&to| (net.maker[tensor], to, time(tensor)))
    })
    .collect()
}
