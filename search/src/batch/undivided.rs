//! The problem in which every op runs all inputs in one batch: a `latency` problem.
//!
//! Times are those of batches of all inputs, tensors have the bytes of all inputs together. A plan of it is a plan of
//! the `batch` problem, and a good start, since large batches take the least time per input.

use crate::budget::Budget;
use divvy_core::costs::{ClassCosts, Profile};
use divvy_core::graph::Graph;
use divvy_core::plan::Plan;
use divvy_core::problem::{LinkUse, Objective, Problem};
use smallvec::smallvec;

use crate::batch::schedule::BatchSchedule;
use crate::batch::tables::{BatchTables, DevicePart, Division};
use crate::run::Run;

/// The problem with all inputs in one batch; none if some op has no device that supports the batch size.
pub(crate) fn problem(problem: &Problem) -> Option<Problem> {
    let inputs = problem.objective.inputs();
    let mut spec = problem.to_spec();
    for tensor in &mut spec.graph.tensors {
        tensor.bytes = tensor.bytes.checked_mul(u64::from(inputs))?;
    }
    let one_batch = |class: &ClassCosts| {
        let costs = class.at(inputs)?.to_vec();
        Some(ClassCosts { class: class.class.clone(), batch_sizes: vec![1], costs: vec![costs] })
    };
    let unsupported = |class: &ClassCosts| ClassCosts {
        class: class.class.clone(),
        batch_sizes: vec![1],
        costs: vec![vec![None; problem.graph.op_count()]],
    };
    let classes = problem.costs().iter().map(|class| one_batch(class).unwrap_or_else(|| unsupported(class)));
    let profile = Profile { classes: classes.collect(), ..Profile::default() };
    let mut hardware = problem.hardware.spec().clone();
    hardware.classes.iter_mut().for_each(|class| class.batch_sizes.clear());
    let graph = Graph::new(spec.graph).ok()?;
    let objective = Objective::Latency { links: LinkUse::Delay };
    Problem::new(graph, &profile, hardware, &[], objective, &spec.constraints).ok()
}

/// The best schedule with all inputs in one batch that a run finds within a budget.
pub(crate) fn schedule(
    undivided: &Problem,
    tables: &BatchTables,
    run: &Run<'_>,
    budget: &Budget,
) -> Option<BatchSchedule> {
    let (plan, score) = run.plan_inner(undivided, budget).pop()?;
    let Plan::Latency(plan) = plan else { return None };
    let mut divisions: Vec<Division> = vec![Division::new(); tables.members.len()];
    let mut order: Vec<(u64, u64, u32, u32)> = Vec::new();
    for (device, ops) in plan.order.iter().enumerate() {
        for (turn, op) in ops.iter().enumerate() {
            divisions[tables.unit_of[op.index()] as usize] =
                smallvec![DevicePart { device: device as u32, groups: tables.all_groups() }];
            let start = score.starts[op.index()].0;
            let time = tables.time(op.index(), device, tables.groups);
            order.push((start, start + time, turn as u32, op.0));
        }
    }
    // An op of no duration precedes one that starts when it ends.
    order.sort_unstable();
    let order: Vec<u32> = order.into_iter().map(|(.., op)| op).collect();
    let fits = |unit: usize| tables.is_division(unit, &divisions[unit]);
    (0..divisions.len()).all(fits).then(|| BatchSchedule::new(tables, divisions, &order))
}
