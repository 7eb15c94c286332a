//! `down-sets`: every way to slice the network into stages, where it has few beginnings.
//!
//! See `core`'s module of that name. On identical devices without overflow and limits it decides any threshold, so a
//! best plan is proved to be one; unlike devices are told apart by kind. Stages that do reach the end are sliced again with
//! all that was left out, which gives a plan.

use crate::pipeline::tables::PipelineTables;
use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::pipeline::down_sets::{DownSets, Reach};
use divvy_proof::pipeline::relaxation::PipelineRelaxation;

use crate::bound::{Bound, When};
use crate::pipeline::bounds::bisection::{Attempt, BisectionLimits, ratchet};
use crate::pipeline::bounds::only_pipeline;
use crate::pipeline::incumbent::offer_order;
use crate::pipeline::slicing::Slicer;
use crate::pipeline::stage_network::StageNetwork;
use crate::run::Run;

/// The first attempt decides, if there is time for it.
const FIRST_SHARE: f64 = 0.9;

pub(crate) struct DownSetBound;

impl Bound for DownSetBound {
    fn name(&self) -> &'static str {
        "down-sets"
    }

    fn about(&self) -> &'static str {
        "every way to slice the network into stages, where it has few beginnings"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        only_pipeline(problem)
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
        // What is proved is checked again, which takes as long.
        let limits = BisectionLimits::of(run.budget, 0.5);
        let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let work: u64 = relaxed.least().work.iter().flatten().sum();
        let high = run.outcome().value().map_or(relaxed.picoseconds(work), |value| value.0);
        ratchet(low, high, limits, FIRST_SHARE, &mut |threshold, effort| match all
            .reach(threshold, &mut || !effort.is_spent())
        {
            Some(Reach::Short) => {
                run.prove(self.name(), Evidence::DownSets { merged, threshold_ps: Time(threshold) });
                Attempt::Proved
            }
            Some(Reach::End(stages)) => {
                if run.takes_plans() {
                    run.set_planner(self.name());
                    offer(run, &relaxed, &stages);
                }
                let reached = run.outcome().value().map_or(threshold, |value| value.0);
                Attempt::Reached(reached.min(threshold))
            }
            None => Attempt::Unknown,
        });
    }
}

/// Offers what slicing makes of stages.
fn offer(run: &mut Run<'_>, relaxed: &PipelineRelaxation, stages: &[Vec<usize>]) {
    let Ok(dense) = PipelineTables::with_shared_stages(run.problem) else { return };
    let net = StageNetwork::new(&dense);
    let mut stage_of = vec![0; relaxed.units()];
    for (stage, units) in stages.iter().enumerate() {
        units.iter().for_each(|&unit| stage_of[unit] = stage);
    }
    let graph = &run.problem.graph;
    let mut ops: Vec<OpId> = graph.ops().collect();
    ops.sort_by_key(|&op| (stage_of[relaxed.unit_of(op)], graph.position(op)));
    let mut order: Vec<u32> = Vec::new();
    let mut has = vec![false; net.len()];
    for op in ops {
        let unit = net.unit_of[op.index()];
        if !std::mem::replace(&mut has[unit as usize], true) {
            order.push(unit);
        }
    }
    offer_order(run, &mut Slicer::new(&net), &net, &order);
}
