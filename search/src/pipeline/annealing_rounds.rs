//! Rounds of annealing on stage numbers, and their starts and ends.
//!
//! A round starts from the optimal slices of a random order or from the best assignment, with an exponent and temperatures
//! drawn anew, and ends with the optimal slices of the order that its stages give, which counts all costs. Rounds alternate
//! between the two starts and grow longer. If stages hold few units on average, orders are searched first by BRKGA. If slices
//! and stage numbers do not cost what the definition says (uneven links, overflow, memory), the second half of the budget goes
//! to annealing by the definition. Threads run workers with seeds of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use divvy_core::check;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::pipeline::annealing::{AnnealingSchedule, anneal};
use crate::pipeline::budget_progress::BudgetProgress;
use crate::pipeline::exact_cost_annealing::anneal_by_definition;
use crate::pipeline::random_keys::{BrkgaSettings, NOT_BETTER, evolve};
use crate::pipeline::sliced_plan::plan_of;
use crate::pipeline::slicing::slicer::Slicer;
use crate::pipeline::slicing::slices::{Slice, Slices};
use crate::pipeline::stage_assignment::StageAssignment;
use crate::pipeline::stage_network::{StageNetwork, TopologicalSorter};
use crate::pipeline::tables::NEVER;

/// Moves of the first round, for each unit.
const FIRST_ROUND: u64 = 1500;
/// The fewest moves of a round.
const SHORTEST: u64 = 100_000;
/// A round that would leave less than this share of its length takes the whole remaining budget.
const REST: f64 = 0.6;

/// With fewer units for each stage than this, orders are searched first, for this share of the budget.
const FEW_UNITS: usize = 12;
const ORDERS_SHARE: f64 = 0.3;
/// Orders of the network before kernelisation are searched too if it has at most so many times as many units,
const MOST_UNITS_RATIO: f64 = 1.5;
/// and at least so many for each stage. Below that, starts from the canonical order are better.
const LEAST_UNITS: usize = 4;
/// One run of BRKGA over orders.
const ORDERS: BrkgaSettings = BrkgaSettings { population: 100, generations: 100 };
/// Networks of more units are sliced at the start alone, and in blocks: slicing takes O(units × units of a stage).
const MOST_SLICED: usize = 4000;
/// The share of the budget for stage numbers if their costs are not exact.
const INEXACT_SHARE: f64 = 0.5;

/// What the workers share: the problem, and the best value of all of them.
pub(crate) struct SharedIncumbent<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) network: &'a StageNetwork<'a>,
    pub(crate) best: AtomicU64,
    /// The lower bound.
    pub(crate) floor: u64,
}

impl SharedIncumbent<'_> {
    /// Whether slices and stage numbers cost what the definition says.
    fn costs_are_exact(&self) -> bool {
        self.network.tables.even_links() && !self.network.memory_matters
    }

    fn best(&self) -> u64 {
        self.best.load(Ordering::Relaxed).min(NEVER)
    }

    fn is_solved(&self) -> bool {
        self.best() <= self.floor
    }
}

/// The best plan of a worker. Plans that beat all workers are reported.
struct WorkerPlans<'w, 'a> {
    shared: &'w SharedIncumbent<'a>,
    best: Option<(u64, Plan)>,
    report: &'w mut dyn FnMut(Plan),
}

impl WorkerPlans<'_, '_> {
    fn offer(&mut self, network: &StageNetwork<'_>, order: &[u32], slices: &Slices) {
        let plan = plan_of(network, order, slices);
        let value = if self.shared.costs_are_exact() {
            Some(slices.value)
        } else {
            check::check(self.shared.problem, &plan).ok().map(|score| score.value.0)
        };
        let Some(value) = value else { return };
        if self.best.as_ref().is_none_or(|(known, _)| value < *known) {
            self.best = Some((value, plan.clone()));
        }
        self.report_better(plan, value);
    }

    fn report_better(&mut self, plan: Plan, value: u64) {
        if self.shared.best.fetch_min(value, Ordering::Relaxed) > value {
            (self.report)(plan);
        }
    }
}

/// Searches until the budget is spent; reports every plan that beats the best value of all workers.
pub(crate) fn work(
    shared: &SharedIncumbent<'_>,
    seed: u64,
    mut progress: BudgetProgress,
    report: &mut dyn FnMut(Plan),
) {
    let network = shared.network;
    let mut rng = Rng::new(seed);
    let mut plans = WorkerPlans { shared, best: None, report };
    if network.tables.replicate() {
        // Stage numbers know no replicated stages, so only orders are searched.
        search_orders(shared, 1.0, seed, &mut progress, &mut plans);
        return;
    }
    let mut start = None;
    if network.len() < FEW_UNITS * network.tables.stages() {
        let best = search_orders(shared, ORDERS_SHARE, seed, &mut progress, &mut plans);
        start = best.map(|(order, slices)| (slices.value, assignment_of(network, &order, &slices, &mut rng)));
    }
    if !anneal_in_rounds(shared, start, &mut rng, &mut progress, &mut plans) || shared.costs_are_exact() {
        return;
    }
    let Some((_, Plan::Pipeline(plan))) = plans.best.take() else { return };
    anneal_by_definition(
        shared.problem,
        network,
        &plan,
        &mut rng,
        &mut || {
            progress.count(1);
            if progress.is_over() || shared.is_solved() { 1.0 } else { progress.spent_share() }
        },
        &mut |plan, value| plans.report_better(plan, value),
    );
}

/// Rounds of annealing on stage numbers, until the budget for them is spent; `best` is the first start, if there is one. False
/// if there is nothing to move.
fn anneal_in_rounds<'a>(
    shared: &SharedIncumbent<'a>,
    mut best: Option<(u64, StageAssignment<'a>)>,
    rng: &mut Rng,
    progress: &mut BudgetProgress,
    plans: &mut WorkerPlans<'_, '_>,
) -> bool {
    let network = shared.network;
    let mut slicer = Slicer::new(network);
    let mut sorter = TopologicalSorter::default();
    let mut order = network.order.clone();
    let mut length = (FIRST_ROUND * network.len() as u64).max(SHORTEST);
    for round in 0u64.. {
        let share = if shared.costs_are_exact() { 1.0 } else { INEXACT_SHARE };
        if progress.is_over() || progress.spent_share() >= share || shared.is_solved() {
            break;
        }
        let restart = if round % 2 == 0 { None } else { best.as_ref() };
        let is_fresh = restart.is_none();
        let start = if let Some((_, assignment)) = restart {
            assignment.clone()
        } else {
            if round > 0 {
                let keys: Vec<f64> = (0..network.len()).map(|_| rng.unit()).collect();
                sorter.sort(network, &keys, &mut order);
            }
            let Some(slices) = first_slices(network, &mut slicer, &order) else {
                progress.count(1);
                continue;
            };
            plans.offer(network, &order, &slices);
            if network.len() < 2 || network.tables.stages() < 2 {
                return false;
            }
            assignment_of(network, &order, &slices, rng)
        };
        let schedule = schedule(start.stages(), network.len(), is_fresh, rng);
        let assignment = one_round(network, start, schedule, length, share, rng, progress);
        let order = assignment.order();
        plans.offer(network, &order, &slices_of(&assignment, &order));
        if network.len() <= MOST_SLICED || network.memory_matters {
            slicer.load(&order);
            let limit = shared.best();
            if limit > 0
                && slicer.is_feasible(limit - 1)
                && let Some(slices) = slicer.best_within(limit - 1)
            {
                plans.offer(network, &order, &slices);
            }
        }
        let value = assignment.value() as u64;
        if best.as_ref().is_none_or(|(known, _)| value <= *known) {
            best = Some((value, assignment));
        }
        if round % 2 == 1 {
            length = length.saturating_add(length / 2);
        }
    }
    true
}

/// Runs BRKGA over sliced orders again and again, until that share of the budget is spent. The best order of `shared.network`.
///
/// Unless stages hold very few units, the first run is that of the planner `brkga` from the same seed, so that its result is
/// reached given the time; later runs have the canonical order in their first generation.
fn search_orders(
    shared: &SharedIncumbent<'_>,
    share: f64,
    seed: u64,
    progress: &mut BudgetProgress,
    plans: &mut WorkerPlans<'_, '_>,
) -> Option<(Vec<u32>, Slices)> {
    let network = shared.network;
    let mut rng = Rng::new(seed);
    let unmerged = StageNetwork::new(network.tables);
    let is_few = unmerged.len() < LEAST_UNITS * network.tables.stages();
    if !is_few && (unmerged.len() as f64) < MOST_UNITS_RATIO * network.len() as f64 {
        evolve_orders(shared, &unmerged, Vec::new(), share, &mut rng, progress, plans);
    }
    let mut canonical = vec![0.0; network.len()];
    for (position, &unit) in network.order.iter().enumerate() {
        canonical[unit as usize] = 1.0 - position as f64 / network.len() as f64;
    }
    let mut best: Option<(Vec<u32>, Slices)> = None;
    while !(progress.is_over() || progress.spent_share() >= share || shared.is_solved()) {
        let found = evolve_orders(shared, network, vec![canonical.clone()], share, &mut rng, progress, plans);
        let value =
            |best: &Option<(Vec<u32>, Slices)>| best.as_ref().map_or(NEVER, |(_, slices)| slices.value);
        if value(&found) < value(&best) {
            best = found;
        }
    }
    best
}

/// One run of BRKGA over sliced orders, or less if the share of the budget is spent.
fn evolve_orders(
    shared: &SharedIncumbent<'_>,
    network: &StageNetwork<'_>,
    starts: Vec<Vec<f64>>,
    share: f64,
    rng: &mut Rng,
    progress: &mut BudgetProgress,
    plans: &mut WorkerPlans<'_, '_>,
) -> Option<(Vec<u32>, Slices)> {
    let mut slicer = Slicer::new(network);
    let (mut sorter, mut order) = (TopologicalSorter::default(), Vec::new());
    let mut best: Option<(Vec<u32>, Slices)> = None;
    evolve(network.len(), ORDERS, starts, rng, &mut |keys, worst| {
        if progress.is_over() || progress.spent_share() >= share || shared.is_solved() {
            return None;
        }
        progress.count(1);
        sorter.sort(network, keys, &mut order);
        slicer.load(&order);
        let Some(slices) = slicer.best_within(worst.min(NEVER).saturating_sub(1)) else {
            return Some(NOT_BETTER);
        };
        plans.offer(network, &order, &slices);
        let value = slices.value;
        if best.as_ref().is_none_or(|(_, known)| value < known.value) {
            best = Some((order.clone(), slices));
        }
        Some(value)
    });
    best
}

/// Draws an exponent and temperatures, since the best ones differ between networks. Lower temperatures for the best assignment.
fn schedule(stages: usize, units: usize, is_fresh: bool, rng: &mut Rng) -> AnnealingSchedule {
    // One move changes the cost of a stage by about one part in (units per stage).
    let step = (8.0 * stages as f64 / units as f64).min(1.0);
    let between = |low: f64, high: f64, rng: &mut Rng| low * step * (high / low).powf(rng.unit());
    let power = *rng.pick(if stages <= 8 { &[4, 6, 8] } else { &[6, 8, 12, 16] });
    let hot = between(0.15, 2.0, rng) * if is_fresh { 1.0 } else { 0.2 };
    AnnealingSchedule { power, hot, cold: between(0.002, 0.02, rng).min(hot / 2.0) }
}

/// The optimal slices of an order; of a long one, those with ends between blocks of equal size.
fn first_slices<'n>(network: &'n StageNetwork<'n>, slicer: &mut Slicer<'n>, order: &[u32]) -> Option<Slices> {
    if network.len() <= MOST_SLICED {
        slicer.load(order);
        return slicer.best();
    }
    let size = network.len().div_ceil(MOST_SLICED / 2);
    let mut block_of = vec![0u32; network.tables.op_count()];
    for (position, &unit) in order.iter().enumerate() {
        for &op in network.ops.get(unit as usize) {
            block_of[op as usize] = (position / size) as u32;
        }
    }
    let blocks = StageNetwork::with_units(network.tables, &block_of);
    // Units are numbered in the canonical order of their ops, not in this one.
    let mut in_order: Vec<u32> =
        order.iter().map(|&unit| blocks.unit_of[network.ops.get(unit as usize)[0] as usize]).collect();
    in_order.dedup();
    let mut slicer = Slicer::new(&blocks);
    slicer.load(&in_order);
    let mut slices = slicer.best()?;
    for slice in &mut slices.slices {
        slice.start *= size as u32;
        slice.end = (slice.end * size as u32).min(network.len() as u32);
    }
    Some(slices)
}

/// The stages of an assignment as slices of its order.
fn slices_of(assignment: &StageAssignment<'_>, order: &[u32]) -> Slices {
    let mut slices: Vec<Slice> = Vec::new();
    for (position, &unit) in order.iter().enumerate() {
        let stage = assignment.stage_of(unit as usize) as usize;
        let (start, end) = (position as u32, position as u32 + 1);
        let before = position.checked_sub(1).map(|before| assignment.stage_of(order[before] as usize));
        match slices.last_mut() {
            Some(slice) if before == Some(stage as u32) => slice.end = end,
            _ => slices.push(Slice { start, end, kind: assignment.kinds()[stage], replicas: 1 }),
        }
    }
    Slices { value: assignment.value() as u64, slices }
}

/// The assignment of some slices, with unused devices as empty stages at random positions.
fn assignment_of<'n>(
    network: &'n StageNetwork<'n>,
    order: &[u32],
    slices: &Slices,
    rng: &mut Rng,
) -> StageAssignment<'n> {
    let mut left: Vec<u32> = network.tables.kinds().iter().map(|kind| kind.devices.len() as u32).collect();
    for slice in &slices.slices {
        left[slice.kind as usize] -= slice.replicas;
    }
    let mut spare: Vec<u32> = (left.iter().enumerate())
        .flat_map(|(kind, &count)| std::iter::repeat_n(kind as u32, count as usize))
        .collect();
    rng.shuffle(&mut spare);
    spare.truncate(network.tables.stages().saturating_sub(slices.slices.len()));
    let mut kinds: Vec<(u32, Option<usize>)> =
        slices.slices.iter().enumerate().map(|(i, slice)| (slice.kind, Some(i))).collect();
    for kind in spare {
        kinds.insert(rng.below(kinds.len() + 1), (kind, None));
    }
    let mut stage_of = vec![0; network.len()];
    for (stage, slice) in kinds.iter().enumerate() {
        let Some(slice) = slice.1.map(|i| slices.slices[i]) else { continue };
        for &unit in &order[slice.start as usize..slice.end as usize] {
            stage_of[unit as usize] = stage as u32;
        }
    }
    StageAssignment::new(network, stage_of, kinds.iter().map(|&(kind, _)| kind).collect())
}

/// One round of `length` moves, or of the rest of the budget's share if that is little more.
fn one_round<'n>(
    network: &'n StageNetwork<'n>,
    start: StageAssignment<'n>,
    schedule: AnnealingSchedule,
    length: u64,
    share: f64,
    rng: &mut Rng,
    progress: &mut BudgetProgress,
) -> StageAssignment<'n> {
    let begun = progress.spent_share() / share;
    let mut counted = 0;
    let mut by_budget = false;
    let mut done = 0.0f64;
    anneal(network, start, schedule, rng, &mut |moves| {
        progress.count(moves - counted);
        counted = moves;
        let spent = progress.spent_share() / share;
        if spent >= 1.0 || progress.is_over() {
            return 1.0;
        }
        let of_length = moves as f64 / length as f64;
        let of_budget = (spent - begun) / (1.0 - begun).max(1e-9);
        // A round that the budget would cut short is cooled by the budget, once its speed can be told.
        if !by_budget && of_length > 0.05 && of_budget / of_length * (1.0 + REST) > 1.0 {
            by_budget = true;
        }
        done = done.max(if by_budget { of_budget } else { of_length });
        done
    })
}
