//! The problem in which every op takes all inputs at once: a `latency` problem, with all that is known about those.
//!
//! Times are those of the whole batch, tensors are as large as all inputs together. A plan for it is a plan for the
//! `batch` problem, and the one to start from: batches are most efficient when they are large.

use crate::budget::Budget;
use divvy_core::costs::{ClassCosts, Profile};
use divvy_core::graph::Graph;
use divvy_core::plan::Plan;
use divvy_core::problem::{LinkUse, Objective, Problem};
use smallvec::smallvec;

use crate::batch::schedule::BatchSchedule;
use crate::batch::tables::{Division, DevicePart, BatchTables};
use crate::run::Run;

/// The problem with all inputs in one batch; none if no device can take them all, or some op has no such device.
pub(crate) fn problem(problem: &Problem) -> Option<Problem> {
    let inputs = problem.objective.inputs();
    let mut spec = problem.to_spec();
    for tensor in &mut spec.graph.tensors {
        tensor.bytes = tensor.bytes.checked_mul(u64::from(inputs))?;
    }
    let whole = |class: &ClassCosts| {
        let costs = class.at(inputs)?.to_vec();
        Some(ClassCosts { class: class.class.clone(), batch_sizes: vec![1], costs: vec![costs] })
    };
    let nowhere = |class: &ClassCosts| ClassCosts {
        class: class.class.clone(),
        batch_sizes: vec![1],
        costs: vec![vec![None; problem.graph.op_count()]],
    };
    let classes = problem.costs().iter().map(|class| whole(class).unwrap_or_else(|| nowhere(class)));
    let profile = Profile { classes: classes.collect(), whole_model: Vec::new() };
    let mut hardware = problem.hardware.spec().clone();
    hardware.classes.iter_mut().for_each(|class| class.batch_sizes.clear());
    let graph = Graph::new(spec.graph).ok()?;
    let objective = Objective::Latency { links: LinkUse::Delay };
    Problem::new(graph, &profile, hardware, &[], objective, &spec.constraints).ok()
}

/// The best schedule found with all inputs in one batch within a budget.
pub(crate) fn schedule(whole: &Problem, tables: &BatchTables, run: &Run<'_>, budget: &Budget) -> Option<BatchSchedule> {
    let (plan, score) = run.plan_latency(whole, budget)?;
    let Plan::Latency(plan) = plan else { return None };
    let mut pieces: Vec<Division> = vec![Division::new(); tables.members.len()];
    let mut order: Vec<(u64, u64, u32, u32)> = Vec::new();
    for (device, ops) in plan.order.iter().enumerate() {
        for (turn, op) in ops.iter().enumerate() {
            pieces[tables.unit_of[op.index()] as usize] =
                smallvec![DevicePart { device: device as u32, groups: tables.all_groups() }];
            let start = score.starts[op.index()].0;
            let time = tables.time(op.index(), device, tables.groups);
            order.push((start, start + time, turn as u32, op.0));
        }
    }
    // An op that takes no time comes before the one that starts when it ends.
    order.sort_unstable();
    let order: Vec<u32> = order.into_iter().map(|(.., op)| op).collect();
    let fits = |unit: usize| tables.is_division(unit, &pieces[unit]);
    (0..pieces.len()).all(fits).then(|| BatchSchedule::new(tables, pieces, &order))
}
