//! Finds the trees that `core` verifies: branch and bound, with a minimum cut at every part.
//!
//! At a part the multiplier that closes it is looked for between a set that costs too much and one that holds too little:
//! both are lines in the multiplier, and where they meet is the next one to try. If the lines meet where nothing is
//! closed, or the set is what is looked for but not convex, the part is divided.

use std::time::Instant;

use crate::budget::Budget;
use divvy_proof::bit_set::Bits;
use divvy_proof::pipeline::branching_tree::{Branching, MOST_MULTIPLIER};
use divvy_proof::pipeline::convex_sets::{BY_PRICE, Chosen, ONE, Sets};
use divvy_proof::pipeline::two_way_cut::{Begun, TwoWayCut, WHOLE};

/// How long and how far to search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchLimit<'a> {
    pub(crate) budget: &'a Budget,
    /// When to stop.
    pub(crate) until: Instant,
    /// The most parts.
    pub(crate) parts: u64,
}

impl SearchLimit<'_> {
    /// Whether it is time to stop.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.is_cancelled() || Instant::now() >= self.until
    }
}

/// What came of a search.
#[derive(Debug)]
pub(crate) enum BranchResult {
    /// There is nothing, and the tree shows it.
    Nothing(Vec<u32>),
    /// Some of what was looked for.
    Sets(Vec<Bits>),
    /// The effort was spent.
    Unknown,
}

/// Multipliers tried at one part.
const MOST_TRIES: usize = 12;

/// What a part comes to.
enum NodeVerdict {
    Closed(u32),
    Set(Bits),
    Branch(usize),
    /// Units that are in or out, and the multiplier that closes the other side.
    Fixed(Vec<(usize, bool, u32)>),
}

/// A part that is still to be looked at.
struct OpenNode<S> {
    state: S,
    multiplier: u32,
    /// Whether the multiplier closes it.
    is_closed: bool,
}

/// Looks for sets, up to so many.
pub(crate) fn find_sets(sets: &mut Sets<'_>, most: usize, effort: SearchLimit<'_>) -> BranchResult {
    let part = |multiplier: u32, is_closed: bool| move |state: Chosen| OpenNode { state, multiplier, is_closed };
    let mut tree = Vec::new();
    let mut open: Vec<OpenNode<Chosen>> = sets.root().map(part(ONE as u32, false)).into_iter().collect();
    let (mut parts, mut is_done, mut all_found) = (0, true, Vec::new());
    'parts: while let Some(OpenNode { mut state, multiplier, is_closed }) = open.pop() {
        if is_closed {
            tree.push(multiplier << 1 | 1);
            continue;
        }
        parts += 1;
        if all_found.len() >= most || parts > effort.parts || (parts % 16 == 0 && effort.is_spent()) {
            is_done = false;
            break;
        }
        let mut last = multiplier;
        let verdict = match judge_set(sets, &state, &mut last) {
            NodeVerdict::Set(set) => {
                // There may be more like it.
                let unit = choose(sets, &state, Some(&set), Some(&state.inside));
                all_found.push(set);
                unit.map_or(NodeVerdict::Closed(BY_PRICE), NodeVerdict::Branch)
            }
            verdict => verdict,
        };
        match verdict {
            NodeVerdict::Set(_) => {}
            NodeVerdict::Closed(multiplier) => tree.push(multiplier << 1 | 1),
            NodeVerdict::Branch(unit) => {
                tree.push((unit as u32) << 1);
                open.extend(sets.decide(&state, unit, false).map(part(last, false)));
                open.extend(sets.decide(&state, unit, true).map(part(last, false)));
            }
            NodeVerdict::Fixed(fixed) => {
                for (unit, inside, closing) in fixed {
                    if state.inside.has(unit) || state.outside.has(unit) {
                        if state.inside.has(unit) != inside {
                            tree.push(closing << 1 | 1);
                            continue 'parts;
                        }
                        continue;
                    }
                    tree.push((unit as u32) << 1);
                    let lost = sets.decide(&state, unit, !inside);
                    if inside {
                        open.extend(lost.map(part(closing, true)));
                    } else if lost.is_some() {
                        tree.push(closing << 1 | 1);
                    }
                    match sets.decide(&state, unit, inside) {
                        Some(left) => state = left,
                        None => continue 'parts,
                    }
                }
                open.push(part(last, false)(state));
            }
        }
    }
    if !all_found.is_empty() {
        BranchResult::Sets(all_found)
    } else if is_done {
        BranchResult::Nothing(tree)
    } else {
        BranchResult::Unknown
    }
}

fn judge_set(sets: &mut Sets<'_>, state: &Chosen, last: &mut u32) -> NodeVerdict {
    // Lines in the multiplier: cost, price, set.
    let mut dear: Option<(i64, i64, Bits)> = None;
    let mut cheap: Option<(i64, i64, Bits)> = None;
    if sets.reachable(state) <= sets.limit {
        return NodeVerdict::Closed(BY_PRICE);
    }
    let target = sets.limit as i64 + 1;
    let budget = sets.budget() as i64;
    let mut multiplier = (*last).clamp(1, MOST_MULTIPLIER);
    let mut tried = Vec::new();
    let mut fixed = Vec::new();
    let units = sets.relaxed().units();
    for _ in 0..MOST_TRIES {
        let found = sets.cheapest(state, multiplier);
        if sets.is_closed(found.value, multiplier) {
            *last = multiplier;
            return NodeVerdict::Closed(multiplier);
        }
        tried.push(multiplier);
        let most = sets.most(multiplier);
        for unit in state.inside.both(&state.outside, |i, o| !(i | o)).take_while(|&unit| unit < units) {
            if found.value + sets.price_of_change(unit) > most {
                fixed.push((unit, found.set.has(unit), multiplier));
            }
        }
        let cost = sets.cost(&found.set).expect("only units that run are chosen") as i64;
        let price = sets.price(&found.set) as i64;
        if cost <= budget && price >= target {
            if sets.is_convex(&found.set) {
                return NodeVerdict::Set(found.set);
            }
            *last = multiplier;
            if !fixed.is_empty() {
                return NodeVerdict::Fixed(fixed);
            }
            return NodeVerdict::Branch(between(sets, &found.set, state));
        }
        if cost > budget {
            dear = Some((cost, price, found.set));
        } else {
            cheap = Some((cost, price, found.set));
        }
        multiplier = match (&dear, &cheap) {
            (Some((c1, p1, _)), Some((c2, p2, _))) => {
                let meet = ONE as f64 * (c1 - c2) as f64 / (p1 - p2) as f64;
                let at = |m: f64| ONE as f64 * (c1 - budget) as f64 - m * (p1 - target) as f64;
                if !meet.is_finite() {
                    break;
                }
                if at(meet) <= 0.0 {
                    *last = (meet.round() as u32).clamp(1, MOST_MULTIPLIER);
                    break;
                }
                meet.round() as u32
            }
            (Some(_), None) => multiplier / 2,
            _ => multiplier.saturating_mul(2),
        };
        multiplier = multiplier.min(MOST_MULTIPLIER);
        if tried.contains(&multiplier) {
            break;
        }
    }
    if !fixed.is_empty() {
        return NodeVerdict::Fixed(fixed);
    }
    let set = |line: &Option<(i64, i64, Bits)>| line.as_ref().map(|line| line.2.clone());
    let unit = choose(sets, state, set(&dear).as_ref(), set(&cheap).as_ref());
    NodeVerdict::Branch(unit.expect("with all units decided the cut is exact"))
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

/// The unit to divide a part by. Nothing is in yet: one near the end of the network. Then: of those on which the dear and
/// the cheap set differ, the one that decides most others, whether it is in or out. None if all are decided.
fn choose(sets: &Sets<'_>, state: &Chosen, dear: Option<&Bits>, cheap: Option<&Bits>) -> Option<usize> {
    let relaxed = sets.relaxed();
    let none = Bits::none(relaxed.units());
    let (dear, cheap) = (dear.unwrap_or(&none), cheap.unwrap_or(&none));
    let price = |unit: usize| sets.prices()[unit];
    let open = |unit: &usize| !state.inside.has(*unit) && !state.outside.has(*unit);
    let all_open = || (0..relaxed.units()).filter(open);
    let follows = |of: &Bits, side: &Bits| of.both(side, |a, b| a & b).filter(open).map(price).sum::<u64>();
    let decides = |&unit: &usize| {
        let (mut with, mut without) = (price(unit), price(unit));
        let (before, after) = (relaxed.before(unit), relaxed.after(unit));
        if state.below.has(unit) {
            with += follows(before, &state.below);
            without += follows(after, after);
        }
        if state.above.has(unit) {
            with += follows(after, &state.above);
            without += follows(before, before);
        }
        u128::from(with) * u128::from(without)
    };
    let chosen = if state.inside.is_empty() {
        all_open().filter(|&unit| price(unit) > 0).max_by_key(|&unit| relaxed.before(unit).count())
    } else {
        dear.both(cheap, |d, c| d ^ c).filter(open).max_by_key(decides)
    };
    chosen.or_else(|| all_open().max_by_key(|&unit| price(unit)))
}

/// Looks for a beginning.
pub(crate) fn find_beginning(halves: &mut TwoWayCut<'_>, effort: SearchLimit<'_>) -> BranchResult {
    let mut tree = Vec::new();
    let mut open: Vec<(Begun, u32)> = halves.root().map(|state| (state, WHOLE / 2)).into_iter().collect();
    let mut parts = 0;
    while let Some((state, multiplier)) = open.pop() {
        parts += 1;
        if parts > effort.parts || (parts > 1 && effort.is_spent()) {
            return BranchResult::Unknown;
        }
        let mut last = multiplier;
        match judge_beginning(halves, &state, &mut last, effort) {
            NodeVerdict::Set(set) => return BranchResult::Sets(vec![set]),
            NodeVerdict::Closed(multiplier) => tree.push(multiplier << 1 | 1),
            NodeVerdict::Branch(unit) if unit < halves.units() => {
                tree.push((unit as u32) << 1);
                open.extend(halves.decide(&state, unit, false).map(|state| (state, last)));
                open.extend(halves.decide(&state, unit, true).map(|state| (state, last)));
            }
            NodeVerdict::Branch(_) | NodeVerdict::Fixed(_) => return BranchResult::Unknown,
        }
    }
    BranchResult::Nothing(tree)
}

fn judge_beginning(halves: &mut TwoWayCut<'_>, state: &Begun, last: &mut u32, effort: SearchLimit<'_>) -> NodeVerdict {
    // Lines in the multiplier: how much the beginning and the rest exceed their budgets.
    let mut long: Option<([i64; 2], Bits)> = None;
    let mut short: Option<([i64; 2], Bits)> = None;
    let mut multiplier = (*last).min(WHOLE);
    let mut tried = Vec::new();
    for _ in 0..MOST_TRIES {
        let found = halves.cheapest(state, multiplier);
        if halves.is_closed(found.value, multiplier) {
            *last = multiplier;
            return NodeVerdict::Closed(multiplier);
        }
        tried.push(multiplier);
        if halves.is_one(&found.set) {
            return NodeVerdict::Set(found.set);
        }
        let excess = halves.excess(&found.set);
        if excess[0] > excess[1] {
            long = Some((excess, found.set));
        } else {
            short = Some((excess, found.set));
        }
        // One cut of a large network may take seconds.
        if effort.is_spent() {
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
    NodeVerdict::Branch(halves_choice(halves, state, long, short))
}

/// The unit of most work on which the two differ; past the last unit where nothing is open.
fn halves_choice(halves: &TwoWayCut<'_>, state: &Begun, long: &Bits, short: &Bits) -> usize {
    let relaxed = halves.relaxed();
    let open = |unit: &usize| !state.inside.has(*unit) && !state.outside.has(*unit);
    let work = |&unit: &usize| relaxed.least().work[unit];
    let differ = long.both(short, |a, b| a ^ b).filter(open).max_by_key(work);
    differ.or_else(|| (0..relaxed.units()).filter(open).max_by_key(work)).unwrap_or(usize::MAX)
}
