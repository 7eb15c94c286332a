//! The plan of a sliced order, and the offer of an order's optimal slices to a run.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};

use crate::pipeline::slicing::slicer::Slicer;
use crate::pipeline::slicing::slices::Slices;
use crate::pipeline::stage_network::StageNetwork;
use crate::pipeline::tables::NEVER;
use crate::run::Run;

/// The plan of some slices, each on the next devices of its kind.
pub(crate) fn plan_of(network: &StageNetwork<'_>, order: &[u32], slices: &Slices) -> Plan {
    let mut used = vec![0usize; network.kinds];
    let stages = slices.slices.iter().map(|slice| {
        let kind = slice.kind as usize;
        let mut devices = network.tables.kinds()[kind].devices[used[kind]..].iter().map(|&d| DeviceId(d));
        used[kind] += slice.replicas as usize;
        let device = devices.next().expect("slices take no more devices than there are");
        let units = &order[slice.start as usize..slice.end as usize];
        let replicas = devices.take(slice.replicas as usize - 1).collect();
        Stage { device, ops: network.ops_in(units).into_iter().map(OpId).collect(), replicas }
    });
    Plan::Pipeline(PipelinePlan { stages: stages.collect() })
}

/// Slices an order optimally, and offers the plan if its value is below the best. Whether it was accepted.
pub(crate) fn offer_order(
    run: &mut Run<'_>,
    slicer: &mut Slicer<'_>,
    network: &StageNetwork<'_>,
    order: &[u32],
) -> bool {
    let best = run.relaxed_value().map_or(NEVER, |value| value.0);
    if best == 0 {
        return false;
    }
    slicer.load(order);
    if !slicer.is_feasible(best - 1) {
        return false;
    }
    let Some(slices) = slicer.best_within(best - 1) else { return false };
    run.offer(plan_of(network, order, &slices)).is_ok()
}
