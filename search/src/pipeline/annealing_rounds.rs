//! Rounds of annealing: from slices of an order, from the best so far, ever longer, as long as the budget lasts.
//!
//! Each round starts from fresh slices or from the best stages known, with one of several exponents, and ends by slicing
//! the order that its stages give, exactly and with everything that annealing leaves out. Workers on several threads
//! run rounds of their own from seeds of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pipeline::tables::NEVER;
use divvy_core::check;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::pipeline::annealing::{AnnealingSchedule, anneal};
use crate::pipeline::exact_cost_annealing::anneal_by_definition;
use crate::pipeline::incumbent::{Incumbent, plan_of};
use crate::pipeline::random_keys::{NOT_BETTER, BrkgaSettings, evolve};
use crate::pipeline::slicing::Slicer;
use crate::pipeline::slicing::slices::{Slice, Slices};
use crate::pipeline::stage_assignment::Labels;
use crate::pipeline::stage_network::{Kahn, StageNetwork};

/// Moves of the first round, per unit.
const FIRST_ROUND: u64 = 1500;
/// The fewest moves of a round.
const SHORTEST: u64 = 100_000;
/// A round that would leave less than this share of its length takes the whole rest of the budget.
const REST: f64 = 0.6;

/// With fewer units than this in a stage on average, orders are searched too, for that share of the budget.
const FEW_UNITS: usize = 12;
const ORDERS_SHARE: f64 = 0.3;
/// The network is searched as it is, ops apart, where that makes no more units than this times as many.
const FEW_UNITED: f64 = 1.5;
/// With fewer units than this in a stage all the time goes to orders that start from the canonical one too: so it was found
/// on one network (stochastic blocks, 183 ops in 64 stages).
const FEWEST_UNITS: usize = 4;
/// Orders that are kept in mind where orders are evolved, and for how long, before it begins anew.
const ORDERS: BrkgaSettings = BrkgaSettings { population: 100, generations: 100 };
/// More units than this are sliced in blocks, and only at the start: slicing all of them takes seconds.
const MOST_SLICED: usize = 4000;
/// Where the quick annealing does not see all costs, the share of the budget after which it gives way to the slow one.
const QUICK_SHARE: f64 = 0.5;

/// What workers share: the problem, and the best value so far of all of them.
pub(crate) struct SharedIncumbent<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) net: &'a StageNetwork<'a>,
    pub(crate) best: AtomicU64,
    /// No plan is worth less than this.
    pub(crate) floor: u64,
}

impl SharedIncumbent<'_> {
    /// Whether slices and stage numbers cost what `core` says they do.
    fn costs_are_whole(&self) -> bool {
        self.net.dense.even_links() && !self.net.memory_matters
    }

    fn best(&self) -> u64 {
        self.best.load(Ordering::Relaxed).min(NEVER)
    }

    /// Whether nothing better can be found.
    fn is_solved(&self) -> bool {
        self.best() <= self.floor
    }
}

/// Anneals until the budget is spent; tells of every plan that beats the best value so far of all workers.
pub(crate) fn work(shared: &SharedIncumbent<'_>, seed: u64, mut pace: Incumbent, tell: &mut dyn FnMut(Plan)) {
    let net = shared.net;
    let mut rng = Rng::new(seed);
    let mut slicer = Slicer::new(net);
    let mut kahn = Kahn::default();
    let mut order = net.order.clone();
    let mut own: Option<(u64, Labels<'_>)> = None;
    let mut best_plan: Option<(u64, Plan)> = None;
    let mut offer = |net: &StageNetwork<'_>, order: &[u32], slices: &Slices| {
        let plan = plan_of(net, order, slices);
        let value = if shared.costs_are_whole() {
            Some(slices.value)
        } else {
            check::check(shared.problem, &plan).ok().map(|score| score.value.0)
        };
        let Some(value) = value else { return };
        if best_plan.as_ref().is_none_or(|(known, _)| value < *known) {
            best_plan = Some((value, plan.clone()));
        }
        if shared.best.fetch_min(value, Ordering::Relaxed) > value {
            tell(plan);
        }
    };
    if net.dense.replicate() {
        // Stage numbers know no shared stages, so only orders are searched.
        search_orders(shared, 1.0, seed, &mut pace, &mut offer);
        return;
    }
    if net.len() < FEW_UNITS * net.dense.stages() {
        // In stages of a few units each, orders find what moves of single units do not.
        let best = search_orders(shared, ORDERS_SHARE, seed, &mut pace, &mut offer);
        own = best.map(|(order, slices)| (slices.value, labels_of(net, &order, &slices, &mut rng)));
    }
    let mut length = (FIRST_ROUND * net.len() as u64).max(SHORTEST);
    for round in 0u64.. {
        let enough = if shared.costs_are_whole() { 1.0 } else { QUICK_SHARE };
        if pace.is_over() || pace.progress() >= enough || shared.is_solved() {
            break;
        }
        let fresh = own.is_none() || round % 2 == 0;
        let start = if fresh {
            if round > 0 {
                let keys: Vec<f64> = (0..net.len()).map(|_| rng.unit()).collect();
                kahn.sort(net, &keys, &mut order);
            }
            let Some(slices) = first_slices(net, &mut slicer, &order) else {
                pace.count(1);
                continue;
            };
            offer(net, &order, &slices);
            if net.len() < 2 || net.dense.stages() < 2 {
                // There is nothing to move.
                return;
            }
            labels_of(net, &order, &slices, &mut rng)
        } else {
            own.as_ref().map(|(_, labels)| labels.clone()).expect("there is one")
        };
        let schedule = schedule(start.stages(), net.len(), fresh, &mut rng);
        let labels = one_round(net, start, schedule, length, enough, &mut rng, &mut pace);
        let order = labels.order();
        offer(net, &order, &slices_of(&labels, &order));
        if net.len() <= MOST_SLICED || net.memory_matters {
            slicer.load(&order);
            let limit = shared.best();
            if limit > 0
                && slicer.can_keep(limit - 1)
                && let Some(slices) = slicer.best_within(limit - 1)
            {
                offer(net, &order, &slices);
            }
        }
        let value = labels.value() as u64;
        if own.as_ref().is_none_or(|(known, _)| value <= *known) {
            own = Some((value, labels));
        }
        if round % 2 == 1 {
            length = length.saturating_add(length / 2);
        }
    }
    let Some((_, Plan::Pipeline(plan))) = best_plan.filter(|_| !shared.costs_are_whole()) else { return };
    anneal_by_definition(
        shared.problem,
        net,
        &plan,
        &mut rng,
        &mut || {
            pace.count(1);
            if pace.is_over() || shared.is_solved() { 1.0 } else { pace.progress() }
        },
        &mut |plan, value| {
            if shared.best.fetch_min(value, Ordering::Relaxed) > value {
                tell(plan);
            }
        },
    );
}

/// Evolves orders and slices each, until that share of the budget is spent. Returns the best.
///
/// Unless stages hold very few units, it begins as `brkga` does from the same seed, so that given time it finds what that finds;
/// from then on the canonical order is among those that it starts from.
fn search_orders(
    shared: &SharedIncumbent<'_>,
    share: f64,
    seed: u64,
    pace: &mut Incumbent,
    offer: &mut dyn FnMut(&StageNetwork<'_>, &[u32], &Slices),
) -> Option<(Vec<u32>, Slices)> {
    let net = shared.net;
    let mut rng = Rng::new(seed);
    let whole = StageNetwork::new(net.dense);
    let is_few = whole.len() < FEWEST_UNITS * net.dense.stages();
    if !is_few && (whole.len() as f64) < FEW_UNITED * net.len() as f64 {
        evolve_orders(shared, &whole, Vec::new(), share, &mut rng, pace, offer);
    }
    let mut canonical = vec![0.0; net.len()];
    for (place, &unit) in net.order.iter().enumerate() {
        canonical[unit as usize] = 1.0 - place as f64 / net.len() as f64;
    }
    let mut best: Option<(Vec<u32>, Slices)> = None;
    while !(pace.is_over() || pace.progress() >= share || shared.is_solved()) {
        let found = evolve_orders(shared, net, vec![canonical.clone()], share, &mut rng, pace, offer);
        let value =
            |best: &Option<(Vec<u32>, Slices)>| best.as_ref().map_or(NEVER, |(_, slices)| slices.value);
        if value(&found) < value(&best) {
            best = found;
        }
    }
    best
}

/// Evolves orders once, or until the share is spent.
fn evolve_orders(
    shared: &SharedIncumbent<'_>,
    net: &StageNetwork<'_>,
    starts: Vec<Vec<f64>>,
    share: f64,
    rng: &mut Rng,
    pace: &mut Incumbent,
    offer: &mut dyn FnMut(&StageNetwork<'_>, &[u32], &Slices),
) -> Option<(Vec<u32>, Slices)> {
    let mut slicer = Slicer::new(net);
    let (mut kahn, mut order) = (Kahn::default(), Vec::new());
    let mut best: Option<(Vec<u32>, Slices)> = None;
    evolve(net.len(), ORDERS, starts, rng, &mut |keys, worst| {
        if pace.is_over() || pace.progress() >= share || shared.is_solved() {
            return None;
        }
        pace.count(1);
        kahn.sort(net, keys, &mut order);
        slicer.load(&order);
        let Some(slices) = slicer.best_within(worst.min(NEVER).saturating_sub(1)) else {
            return Some(NOT_BETTER);
        };
        offer(net, &order, &slices);
        let value = slices.value;
        if best.as_ref().is_none_or(|(_, known)| value < known.value) {
            best = Some((order.clone(), slices));
        }
        Some(value)
    });
    best
}

/// Exponent and temperatures are drawn anew for every round: what is best differs from network to network, and from
/// one number of stages to another. A start that is good already is warmed up only a little.
fn schedule(stages: usize, units: usize, fresh: bool, rng: &mut Rng) -> AnnealingSchedule {
    // One move changes a stage's cost by about one part in (units per stage), and the temperature must fit that.
    let step = (8.0 * stages as f64 / units as f64).min(1.0);
    let between = |low: f64, high: f64, rng: &mut Rng| low * step * (high / low).powf(rng.unit());
    let power = *rng.pick(if stages <= 8 { &[4, 6, 8] } else { &[6, 8, 12, 16] });
    let hot = between(0.15, 2.0, rng) * if fresh { 1.0 } else { 0.2 };
    AnnealingSchedule { power, hot, cold: between(0.002, 0.02, rng).min(hot / 2.0) }
}

/// The best slices of an order; of a long one, those between blocks of it.
fn first_slices<'n>(net: &'n StageNetwork<'n>, slicer: &mut Slicer<'n>, order: &[u32]) -> Option<Slices> {
    if net.len() <= MOST_SLICED {
        slicer.load(order);
        return slicer.best();
    }
    let size = net.len().div_ceil(MOST_SLICED / 2);
    let mut block_of = vec![0u32; net.dense.op_count()];
    for (place, &unit) in order.iter().enumerate() {
        for &op in net.ops.get(unit as usize) {
            block_of[op as usize] = (place / size) as u32;
        }
    }
    let blocks = StageNetwork::united(net.dense, &block_of);
    // Blocks are numbered in the canonical order of their ops; here they must come in the order they were cut from.
    let mut in_order: Vec<u32> =
        order.iter().map(|&unit| blocks.unit_of[net.ops.get(unit as usize)[0] as usize]).collect();
    in_order.dedup();
    let mut slicer = Slicer::new(&blocks);
    slicer.load(&in_order);
    let mut slices = slicer.best()?;
    for slice in &mut slices.slices {
        slice.start *= size as u32;
        slice.end = (slice.end * size as u32).min(net.len() as u32);
    }
    Some(slices)
}

/// Stages as slices of the order that they give.
fn slices_of(labels: &Labels<'_>, order: &[u32]) -> Slices {
    let mut slices: Vec<Slice> = Vec::new();
    for (place, &unit) in order.iter().enumerate() {
        let stage = labels.stage_of(unit as usize) as usize;
        let (start, end) = (place as u32, place as u32 + 1);
        match slices.last_mut() {
            Some(slice) if labels.stage_of(order[place - 1] as usize) as usize == stage => slice.end = end,
            _ => slices.push(Slice { start, end, sort: labels.sorts()[stage], replicas: 1 }),
        }
    }
    Slices { value: labels.value() as u64, slices }
}

/// Stages out of slices; what slices leave unused of the devices becomes empty stages at random places.
fn labels_of<'n>(net: &'n StageNetwork<'n>, order: &[u32], slices: &Slices, rng: &mut Rng) -> Labels<'n> {
    let mut left: Vec<u32> = net.dense.sorts().iter().map(|sort| sort.devices.len() as u32).collect();
    for slice in &slices.slices {
        left[slice.sort as usize] -= slice.replicas;
    }
    let mut spare: Vec<u32> = (left.iter().enumerate())
        .flat_map(|(sort, &count)| std::iter::repeat_n(sort as u32, count as usize))
        .collect();
    rng.shuffle(&mut spare);
    spare.truncate(net.dense.stages().saturating_sub(slices.slices.len()));
    let mut sorts: Vec<(u32, Option<usize>)> =
        slices.slices.iter().enumerate().map(|(i, slice)| (slice.sort, Some(i))).collect();
    for sort in spare {
        sorts.insert(rng.below(sorts.len() + 1), (sort, None));
    }
    let mut stage_of = vec![0; net.len()];
    for (stage, slice) in sorts.iter().enumerate() {
        let Some(slice) = slice.1.map(|i| slices.slices[i]) else { continue };
        for &unit in &order[slice.start as usize..slice.end as usize] {
            stage_of[unit as usize] = stage as u32;
        }
    }
    Labels::new(net, stage_of, sorts.iter().map(|&(sort, _)| sort).collect())
}

/// One round of that many moves, or of all that is left of the budget if that is little more.
fn one_round<'n>(
    net: &'n StageNetwork<'n>,
    start: Labels<'n>,
    schedule: AnnealingSchedule,
    length: u64,
    enough: f64,
    rng: &mut Rng,
    pace: &mut Incumbent,
) -> Labels<'n> {
    let begun = pace.progress() / enough;
    let mut counted = 0;
    let mut by_budget = false;
    let mut ahead = 0.0f64;
    anneal(net, start, schedule, rng, &mut |moves| {
        pace.count(moves - counted);
        counted = moves;
        let whole = pace.progress() / enough;
        if whole >= 1.0 || pace.is_over() {
            return 1.0;
        }
        let of_length = moves as f64 / length as f64;
        let of_budget = (whole - begun) / (1.0 - begun).max(1e-9);
        // Once the pace is known: a round that the budget would cut short is cooled by the budget instead.
        if !by_budget && of_length > 0.05 && of_budget / of_length * (1.0 + REST) > 1.0 {
            by_budget = true;
        }
        ahead = ahead.max(if by_budget { of_budget } else { of_length });
        ahead
    })
}
