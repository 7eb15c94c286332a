//! `down-sets`: dynamic programming over all down-sets of the network, if there are few.
//!
//! The fewest stages of cost at most T for each down-set (`divvy_proof::pipeline::down_sets`) decide any T exactly on identical
//! devices without overflow and limits; unlike devices are told apart by kind. If a threshold is feasible, the stages found are
//! sliced again with all costs, which gives a plan. O(down-sets × convex sets between them) for each T.

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::pipeline::down_sets::{DownSets, ThresholdDecision};
use divvy_proof::pipeline::relaxation::PipelineRelaxation;

use crate::bound::{Bound, When};
use crate::pipeline::bounds::bisection::{BisectionLimits, ThresholdResult, bisect};
use crate::pipeline::bounds::unreplicated_pipeline;
use crate::pipeline::sliced_plan::offer_order;
use crate::pipeline::slicing::slicer::Slicer;
use crate::pipeline::stage_network::StageNetwork;
use crate::pipeline::tables::PipelineTables;
use crate::run::Run;

/// The share of the time for an attempt just below the value, which decides it.
const FIRST_SHARE: f64 = 0.9;

pub(crate) struct DownSetBound;

impl Bound for DownSetBound {
    fn name(&self) -> &'static str {
        "down-sets"
    }

    fn about(&self) -> &'static str {
        "dynamic programming over all down-sets of the network, if there are few"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        unreplicated_pipeline(problem)
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(plain) = PipelineRelaxation::new(run.problem) else { return };
        let merged = plain.kinds().is_empty();
        let relaxed = if merged { PipelineRelaxation::merged(run.problem) } else { Ok(plain) };
        let Ok(relaxed) = relaxed else { return };
        let Ok(all) = DownSets::new(&relaxed) else { return };
        // The check of the evidence takes as long as the proof.
        let limits = BisectionLimits::of(run.budget, 0.5);
        let low = run.relaxed_bound().map_or(0, |bound| bound.0);
        let work: u64 = relaxed.least().work.iter().flatten().sum();
        let high = run.relaxed_value().map_or(relaxed.picoseconds(work), |value| value.0);
        bisect(low, high, limits, FIRST_SHARE, &mut |threshold, tree_limits| match all
            .decide_threshold(threshold, &mut || !tree_limits.is_spent())
        {
            Some(ThresholdDecision::Infeasible) => {
                run.prove(self.name(), Evidence::DownSets { merged, threshold_ps: Time(threshold) });
                ThresholdResult::Proved
            }
            Some(ThresholdDecision::Feasible(stages)) => {
                if run.takes_plans() {
                    run.set_planner(self.name());
                    offer(run, &relaxed, &stages);
                }
                let reached = run.relaxed_value().map_or(threshold, |value| value.0);
                ThresholdResult::Reached(reached.min(threshold))
            }
            None => ThresholdResult::Unknown,
        });
    }
}

/// Offers the optimal slices of the order that some stages give.
fn offer(run: &mut Run<'_>, relaxed: &PipelineRelaxation, stages: &[Vec<usize>]) {
    let Ok(tables) = PipelineTables::with_replicated_stages(run.problem) else { return };
    let network = StageNetwork::new(&tables);
    let mut stage_of = vec![0; relaxed.units()];
    for (stage, units) in stages.iter().enumerate() {
        units.iter().for_each(|&unit| stage_of[unit] = stage);
    }
    let graph = &run.problem.graph;
    let mut ops: Vec<OpId> = graph.ops().collect();
    ops.sort_by_key(|&op| (stage_of[relaxed.unit_of(op)], graph.position(op)));
    let mut order: Vec<u32> = Vec::new();
    let mut is_taken = vec![false; network.len()];
    for op in ops {
        let unit = network.unit_of[op.index()];
        if !std::mem::replace(&mut is_taken[unit as usize], true) {
            order.push(unit);
        }
    }
    offer_order(run, &mut Slicer::new(&network), &network, &order);
}
