//! Finds the trees that `core` verifies: branch and bound, with a minimum cut at every part.
//!
//! At a part the multiplier that closes it is looked for between a set that costs too much and one that holds too little:
//! both are lines in the multiplier, and where they meet is the next one to try. If the lines meet where nothing is
//! closed, or the set is what is looked for but not convex, the part is divided.

use std::time::Instant;

use divvy_core::period::relaxations::bits::Bits;
use divvy_core::period::relaxations::halves::{Begun, Halves, WHOLE};
use divvy_core::period::relaxations::sets::{Chosen, ONE, Sets};
use divvy_core::period::relaxations::tree::{Branching, MOST_MULTIPLIER};

/// How long and how far to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// When to stop.
    pub(super) until: Instant,
    /// The most parts.
    pub(super) parts: u64,
}

/// What came of a search.
#[derive(Debug)]
pub(super) enum Found {
    /// There is nothing, and the tree shows it.
    Nothing(Vec<u32>),
    /// A set of what was looked for.
    Set(Bits),
    /// The effort was spent.
    Unknown,
}

/// Multipliers tried at one part.
const MOST_TRIES: usize = 12;

/// What a part comes to.
enum Verdict {
    Closed(u32),
    Set(Bits),
    Branch(usize),
}

/// Looks for a set.
pub(super) fn find_set(sets: &mut Sets<'_>, effort: Effort) -> Found {
    let mut tree = Vec::new();
    let mut open: Vec<(Chosen, u32)> = sets.root().map(|state| (state, ONE as u32)).into_iter().collect();
    let mut parts = 0;
    while let Some((state, multiplier)) = open.pop() {
        parts += 1;
        if parts > effort.parts || (parts % 16 == 0 && Instant::now() >= effort.until) {
            return Found::Unknown;
        }
        let mut last = multiplier;
        match judge_set(sets, &state, &mut last) {
            Verdict::Set(set) => return Found::Set(set),
            Verdict::Closed(multiplier) => tree.push(multiplier << 1 | 1),
            Verdict::Branch(unit) => {
                tree.push((unit as u32) << 1);
                open.extend(sets.decide(&state, unit, false).map(|state| (state, last)));
                open.extend(sets.decide(&state, unit, true).map(|state| (state, last)));
            }
        }
    }
    Found::Nothing(tree)
}

fn judge_set(sets: &mut Sets<'_>, state: &Chosen, last: &mut u32) -> Verdict {
    // Lines in the multiplier: cost, price, set.
    let mut dear: Option<(i64, i64, Bits)> = None;
    let mut cheap: Option<(i64, i64, Bits)> = None;
    let reachable =
        state.outside.missing(sets.relaxed().units()).map(|unit| sets.prices()[unit]).sum::<u64>();
    if reachable <= sets.limit {
        return Verdict::Closed(0);
    }
    let target = sets.limit as i64 + 1;
    let budget = sets.budget() as i64;
    let mut multiplier = (*last).clamp(1, MOST_MULTIPLIER);
    let mut tried = Vec::new();
    for _ in 0..MOST_TRIES {
        let found = sets.cheapest(state, multiplier);
        if sets.is_closed(found.value, multiplier) {
            *last = multiplier;
            return Verdict::Closed(multiplier);
        }
        tried.push(multiplier);
        let cost = sets.cost(&found.set).expect("only units that run are chosen") as i64;
        let price = sets.price(&found.set) as i64;
        if cost <= budget && price >= target {
            if sets.is_convex(&found.set) {
                return Verdict::Set(found.set);
            }
            *last = multiplier;
            return Verdict::Branch(between(sets, &found.set, state));
        }
        if cost > budget {
            dear = Some((cost, price, found.set));
        } else {
            cheap = Some((cost, price, found.set));
        }
        multiplier = match (&dear, &cheap) {
            (Some((c1, p1, _)), Some((c2, p2, _))) => {
                let meet = ONE as f64 * (p1 - p2) as f64 / (c1 - c2) as f64;
                let at = |m: f64| m * (c1 - budget) as f64 - ONE as f64 * (p1 - target) as f64;
                if at(meet) <= 0.0 {
                    *last = (meet.round() as u32).clamp(1, MOST_MULTIPLIER);
                    break;
                }
                meet.round() as u32
            }
            (Some(_), None) => multiplier.saturating_mul(2),
            _ => multiplier / 2,
        };
        multiplier = multiplier.min(MOST_MULTIPLIER);
        if tried.contains(&multiplier) {
            break;
        }
    }
    Verdict::Branch(choose(
        sets,
        state,
        dear.as_ref().map(|line| &line.2),
        cheap.as_ref().map(|line| &line.2),
    ))
}

/// A unit outside a set and between two of it.
fn between(sets: &Sets<'_>, set: &Bits, state: &Chosen) -> usize {
    let relaxed = sets.relaxed();
    let units = relaxed.units();
    let (mut below, mut above) = (Bits::none(units), Bits::none(units));
    for unit in set.iter() {
        below.unite(relaxed.after(unit));
        above.unite(relaxed.before(unit));
    }
    below.intersect(&above);
    let gaps: Vec<usize> = below.both(set, |between, set| between & !set).collect();
    let open = gaps.iter().copied().filter(|&unit| !state.outside.has(unit));
    // A unit that is out already divides the set: one of those before it is next.
    open.max_by_key(|&unit| sets.prices()[unit]).unwrap_or_else(|| {
        let parted = |unit: &usize| {
            let mut beyond = relaxed.before(*unit).clone();
            beyond.unite(relaxed.after(*unit));
            let undecided = beyond.both(set, |b, s| b & s).filter(|&u| !state.inside.has(u));
            undecided.max_by_key(|&u| sets.prices()[u])
        };
        gaps.iter().find_map(parted).expect("two units on both sides of one that is out are not both in")
    })
}

/// The unit to divide a part by. Nothing is in yet: one near an end of the network, of which most others are on one
/// side. Then: of those on which the dear and the cheap set differ, the one that shares most with what is in.
fn choose(sets: &Sets<'_>, state: &Chosen, dear: Option<&Bits>, cheap: Option<&Bits>) -> usize {
    let relaxed = sets.relaxed();
    let none = Bits::none(relaxed.units());
    let (dear, cheap) = (dear.unwrap_or(&none), cheap.unwrap_or(&none));
    let open = |unit: &usize| !state.inside.has(*unit) && !state.outside.has(*unit);
    let all_open = || (0..relaxed.units()).filter(open);
    let chosen = if state.inside.is_empty() {
        let priced = all_open().filter(|&unit| sets.prices()[unit] > 0);
        priced.max_by_key(|&unit| relaxed.after(unit).count().abs_diff(relaxed.before(unit).count()))
    } else {
        let shared = |&unit: &usize| {
            let tensors = relaxed.made(unit).iter().chain(relaxed.read(unit));
            let joins = |&&t: &&u32| {
                let tensor = &relaxed.tensors()[t as usize];
                let mut ends = tensor.consumers.iter().chain([&tensor.producer]);
                ends.any(|&end| state.inside.has(end as usize))
            };
            tensors.filter(joins).map(|&t| relaxed.least().out[t as usize]).sum::<u64>()
        };
        dear.both(cheap, |d, c| d ^ c).filter(open).max_by_key(shared)
    };
    chosen
        .or_else(|| all_open().max_by_key(|&unit| sets.prices()[unit]))
        .expect("with all units decided the cut is exact")
}

/// Looks for a beginning.
pub(super) fn find_beginning(halves: &mut Halves<'_>, effort: Effort) -> Found {
    let mut tree = Vec::new();
    let mut open: Vec<(Begun, u32)> = halves.root().map(|state| (state, WHOLE / 2)).into_iter().collect();
    let mut parts = 0;
    while let Some((state, multiplier)) = open.pop() {
        parts += 1;
        if parts > effort.parts || (parts > 1 && Instant::now() >= effort.until) {
            return Found::Unknown;
        }
        let mut last = multiplier;
        match judge_beginning(halves, &state, &mut last, effort) {
            Verdict::Set(set) => return Found::Set(set),
            Verdict::Closed(multiplier) => tree.push(multiplier << 1 | 1),
            Verdict::Branch(unit) if unit < halves.units() => {
                tree.push((unit as u32) << 1);
                open.extend(halves.decide(&state, unit, false).map(|state| (state, last)));
                open.extend(halves.decide(&state, unit, true).map(|state| (state, last)));
            }
            Verdict::Branch(_) => return Found::Unknown,
        }
    }
    Found::Nothing(tree)
}

fn judge_beginning(halves: &mut Halves<'_>, state: &Begun, last: &mut u32, effort: Effort) -> Verdict {
    // Lines in the multiplier: how much the beginning and the rest exceed their budgets.
    let mut long: Option<([i64; 2], Bits)> = None;
    let mut short: Option<([i64; 2], Bits)> = None;
    let mut multiplier = (*last).min(WHOLE);
    let mut tried = Vec::new();
    for _ in 0..MOST_TRIES {
        let found = halves.cheapest(state, multiplier);
        if halves.is_closed(found.value, multiplier) {
            *last = multiplier;
            return Verdict::Closed(multiplier);
        }
        tried.push(multiplier);
        if halves.is_one(&found.set) {
            return Verdict::Set(found.set);
        }
        let excess = halves.excess(&found.set);
        if excess[0] > excess[1] {
            long = Some((excess, found.set));
        } else {
            short = Some((excess, found.set));
        }
        // One cut of a large network may take seconds.
        if Instant::now() >= effort.until {
            break;
        }
        // The rest counts `multiplier` times, the beginning the remaining times.
        multiplier = match (&long, &short) {
            (Some((a, _)), Some((b, _))) => {
                let whole = f64::from(WHOLE);
                // (whole − m)·a0 + m·a1 = (whole − m)·b0 + m·b1
                let (d0, d1) = ((a[0] - b[0]) as f64, (a[1] - b[1]) as f64);
                let meet = whole * d0 / (d0 - d1);
                if !meet.is_finite() {
                    break;
                }
                let meet = meet.clamp(0.0, whole);
                if (whole - meet) * a[0] as f64 + meet * a[1] as f64 <= 0.0 {
                    *last = meet.round() as u32;
                    break;
                }
                meet.round() as u32
            }
            // Make the longer one dearer.
            (Some(_), None) => multiplier / 2,
            _ => multiplier + (WHOLE - multiplier).div_ceil(2),
        };
        if tried.contains(&multiplier) {
            break;
        }
    }
    let none = Bits::none(0);
    let long = long.as_ref().map_or(&none, |line| &line.1);
    let short = short.as_ref().map_or(&none, |line| &line.1);
    Verdict::Branch(halves_choice(halves, state, long, short))
}

/// The unit of most work on which the two differ; past the last unit where nothing is open.
fn halves_choice(halves: &Halves<'_>, state: &Begun, long: &Bits, short: &Bits) -> usize {
    let relaxed = halves.relaxed();
    let open = |unit: &usize| !state.inside.has(*unit) && !state.outside.has(*unit);
    let work = |&unit: &usize| relaxed.least().work[unit];
    let differ = long.both(short, |a, b| a ^ b).filter(open).max_by_key(work);
    differ.or_else(|| (0..relaxed.units()).filter(open).max_by_key(work)).unwrap_or(usize::MAX)
}
