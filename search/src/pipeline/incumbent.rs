//! What all searches over stages share: the budget, the best so far, and plans out of slices.

use crate::budget::{Budget, StopReason};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};

use crate::pipeline::slicing::Slicer;
use crate::pipeline::slicing::slices::Slices;
use crate::pipeline::stage_network::StageNetwork;
use crate::run::Run;

/// How far a search has come in its budget. With a limit of nodes the clock has no say but to end it.
#[derive(Clone)]
pub(crate) struct Incumbent {
    budget: Budget,
    started: std::time::Duration,
    nodes: u64,
}

impl Incumbent {
    pub(crate) fn new(budget: &Budget) -> Incumbent {
        Incumbent { started: budget.start.elapsed(), budget: budget.clone(), nodes: 0 }
    }

    /// Counts nodes.
    pub(crate) fn count(&mut self, nodes: u64) {
        self.nodes += nodes;
    }

    /// Whether time, nodes or patience are used up.
    pub(crate) fn is_over(&self) -> bool {
        self.budget.nodes.is_some_and(|most| self.nodes >= most) || self.budget.is_spent()
    }

    /// The share of the budget that is used, from 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        if self.budget.is_spent() {
            return 1.0;
        }
        match self.budget.nodes {
            Some(most) => self.nodes as f64 / most.max(1) as f64,
            None => {
                let whole = self.budget.time.saturating_sub(self.started).as_secs_f64();
                (self.budget.start.elapsed().saturating_sub(self.started)).as_secs_f64() / whole.max(1e-9)
            }
        }
    }

    /// Why the search ends now; `finished` if it had nothing left to do.
    pub(crate) fn stop(&self, finished: bool) -> StopReason {
        match (self.budget.is_cancelled(), finished) {
            (true, _) => StopReason::Cancelled,
            (false, true) => StopReason::Finished,
            (false, false) => StopReason::OutOfBudget,
        }
    }
}

/// The plan that runs slices of an order, on the first devices of each sort.
pub(crate) fn plan_of(net: &StageNetwork<'_>, order: &[u32], slices: &Slices) -> Plan {
    let mut used = vec![0usize; net.sorts];
    let stages = slices.slices.iter().map(|slice| {
        let sort = slice.sort as usize;
        let mut devices = net.dense.sorts()[sort].devices[used[sort]..].iter().map(|&d| DeviceId(d));
        used[sort] += slice.replicas as usize;
        let device = devices.next().expect("slices take no more devices than there are");
        let units = &order[slice.start as usize..slice.end as usize];
        let replicas = devices.take(slice.replicas as usize - 1).collect();
        Stage { device, ops: net.ops_in(units).into_iter().map(OpId).collect(), replicas }
    });
    Plan::Pipeline(PipelinePlan { stages: stages.collect() })
}

/// Slices an order below the best value so far, and offers what comes out. Whether it was better.
pub(crate) fn offer_order(run: &mut Run<'_>, slicer: &mut Slicer<'_>, net: &StageNetwork<'_>, order: &[u32]) -> bool {
    let best = run.outcome().value().map_or(crate::pipeline::tables::NEVER, |value| value.0);
    if best == 0 {
        return false;
    }
    slicer.load(order);
    if !slicer.can_keep(best - 1) {
        return false;
    }
    let Some(slices) = slicer.best_within(best - 1) else { return false };
    run.offer(plan_of(net, order, &slices)).is_ok()
}
