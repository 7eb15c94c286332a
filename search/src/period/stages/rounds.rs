//! Rounds of annealing: from slices of an order, from the best so far, ever longer, as long as the budget lasts.
//!
//! Each round starts from fresh slices or from the best stages known, with one of several exponents, and ends by slicing
//! the order that its stages give, exactly and with everything that annealing leaves out. Workers on several threads
//! run rounds of their own from seeds of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use divvy_core::period::dense::NEVER;
use divvy_core::rng::Rng;

use super::annealing::{Schedule, anneal};
use super::labels::Labels;
use super::net::{Kahn, Net};
use super::pace::Pace;
use super::slicing::{Slicer, Slices};

/// Moves of the first round, per unit.
const FIRST_ROUND: u64 = 1500;
/// The fewest moves of a round.
const SHORTEST: u64 = 100_000;
/// A round that would leave less than this share of its length takes the whole rest of the budget.
const REST: f64 = 0.6;

/// A sliced order that a worker found.
pub(crate) struct Found {
    pub(crate) order: Vec<u32>,
    pub(crate) slices: Slices,
}

/// Anneals until the budget is spent; tells of every order that beats the best value so far of all workers.
pub(crate) fn work(
    net: &Net<'_>,
    seed: u64,
    mut pace: Pace,
    best: &AtomicU64,
    tell: &mut dyn FnMut(Found),
) {
    let mut rng = Rng::new(seed);
    let mut slicer = Slicer::new(net);
    let mut kahn = Kahn::default();
    let mut order = net.order.clone();
    let mut own: Option<(u64, Labels<'_>)> = None;
    let mut length = (FIRST_ROUND * net.len() as u64).max(SHORTEST);
    for round in 0u64.. {
        if pace.is_over() {
            return;
        }
        let fresh = own.is_none() || round % 2 == 0;
        let start = if fresh {
            if round > 0 {
                let keys: Vec<f64> = (0..net.len()).map(|_| rng.unit()).collect();
                kahn.sort(net, &keys, &mut order);
            }
            match start(net, &mut slicer, &order, &mut rng, best, tell) {
                Some(labels) => labels,
                None => {
                    pace.count(1);
                    continue;
                }
            }
        } else {
            own.as_ref().map(|(_, labels)| labels.clone()).expect("there is one")
        };
        let schedule = schedule(net, start.stages(), round, fresh);
        let labels = one_round(net, start, schedule, length, &mut rng, &mut pace);
        let order = labels.order();
        slicer.load(&order);
        let limit = best.load(Ordering::Relaxed).min(NEVER);
        let value = labels.value() as u64;
        if limit > 0 && slicer.can_keep(limit - 1)
            && let Some(slices) = slicer.best_within(limit - 1)
        {
            best.fetch_min(slices.value, Ordering::Relaxed);
            tell(Found { order, slices });
        }
        if own.as_ref().is_none_or(|(known, _)| value <= *known) {
            own = Some((value, labels));
        }
        if round % 2 == 1 {
            length = length.saturating_mul(2);
        }
    }
}

/// The exponent by the number of stages, higher and lower in turn; cooler where a good start is to be kept.
fn schedule(_net: &Net<'_>, stages: usize, round: u64, fresh: bool) -> Schedule {
    let env = |name: &str, default: f64| {
        std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(default)
    };
    let power = if stages <= 8 { env("P1", 4.0) } else { env("P2", 8.0) } as i32;
    let power = if round % 4 >= 2 { power * 2 } else { power };
    let hot = env("HOT", 0.3) * if fresh { 1.0 } else { env("WARM", 0.2) };
    Schedule { power, hot, cold: env("COLD", 0.002) }
}

/// Stages out of the best slices of an order.
fn start<'n>(
    net: &'n Net<'n>,
    slicer: &mut Slicer<'n>,
    order: &[u32],
    rng: &mut Rng,
    best: &AtomicU64,
    tell: &mut dyn FnMut(Found),
) -> Option<Labels<'n>> {
    slicer.load(order);
    let slices = slicer.best()?;
    let labels = labels_of(net, order, &slices, rng);
    if best.fetch_min(slices.value, Ordering::Relaxed) > slices.value {
        tell(Found { order: order.to_vec(), slices });
    }
    Some(labels)
}

/// Stages out of slices; what slices leave unused of the devices becomes empty stages at random places.
fn labels_of<'n>(net: &'n Net<'n>, order: &[u32], slices: &Slices, rng: &mut Rng) -> Labels<'n> {
    let mut left: Vec<u32> =
        net.dense.sorts().iter().map(|sort| sort.devices.len() as u32).collect();
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
    net: &'n Net<'n>,
    start: Labels<'n>,
    schedule: Schedule,
    length: u64,
    rng: &mut Rng,
    pace: &mut Pace,
) -> Labels<'n> {
    let begun = pace.progress();
    let mut counted = 0;
    let mut by_budget = false;
    let mut ahead = 0.0f64;
    anneal(net, start, schedule, rng, &mut |moves| {
        pace.count(moves - counted);
        counted = moves;
        let whole = pace.progress();
        if whole >= 1.0 || pace.is_over() {
            return 1.0;
        }
        let of_length = moves as f64 / length as f64;
        let of_budget = (whole - begun) / (1.0 - begun);
        // Once the pace is known: a round that the budget would cut short is cooled by the budget instead.
        if !by_budget && of_length > 0.05 && of_budget / of_length * (1.0 + REST) > 1.0 {
            by_budget = true;
        }
        ahead = ahead.max(if by_budget { of_budget } else { of_length });
        ahead
    })
}
