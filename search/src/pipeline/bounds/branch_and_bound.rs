//! Branch and bound for convex sets and for two-way cuts, with a minimum cut at every node.
//!
//! A *set* problem asks for a convex set whose cost is within a budget and whose price exceeds a limit; a *cut* problem asks
//! for a down-set that is within one budget and whose complement is within another. At a node the Lagrangian relaxation, with a
//! multiplier that trades cost for price (or one side for the other), is a minimum cut; a multiplier whose value proves that
//! the node has no solution closes it. Multipliers are searched like the vertices of a piecewise linear function: one solution
//! violates each constraint, both are lines in the multiplier, and their intersection is tried next. Units whose reduced cost
//! exceeds the gap are fixed. If the lines meet where the node is not closed, or the solution is not convex, the node is
//! branched on a unit: in or out.
//!
//! The tree of a problem without a solution is the evidence. The branching rules and the check of trees are in `divvy_proof::pipeline::{branching_tree, convex_sets, two_way_cut}`.

use std::time::Instant;

use divvy_proof::bit_set::Bits;
use divvy_proof::pipeline::branching_tree::{Branching, MOST_MULTIPLIER};
use divvy_proof::pipeline::convex_sets::{BY_PRICE, COST_FACTOR, ConvexSets, SetBranch};
use divvy_proof::pipeline::two_way_cut::{CutBranch, FACTOR_SUM, TwoWayCut};

use crate::budget::Budget;

/// The limits of one tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeLimits<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) until: Instant,
    /// The most nodes.
    pub(crate) nodes: u64,
}

impl TreeLimits<'_> {
    /// Whether the time is over or the run cancelled.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.is_cancelled() || Instant::now() >= self.until
    }
}

/// The result of a search.
#[derive(Debug)]
pub(crate) enum BranchResult {
    /// There is no solution; the tree proves it.
    NoneExists(Vec<u32>),
    /// Some solutions.
    Sets(Vec<Bits>),
    /// The limits were reached.
    Unknown,
}

/// The most multipliers tried at a node.
const MOST_TRIES: usize = 12;

/// The result of a node.
enum NodeOutcome {
    /// It has no solution, by this multiplier.
    Closed(u32),
    /// A solution.
    Set(Bits),
    /// The unit to branch on.
    Branch(usize),
    /// Units fixed in or out by reduced cost, each with the multiplier that closes the other branch.
    Fixed(Vec<(usize, bool, u32)>),
}

/// A node to be processed, with the multiplier to start from.
struct OpenNode<S> {
    state: S,
    multiplier: u32,
    /// Whether the multiplier is known to close it.
    is_closed: bool,
}

/// Searches for up to `most` solutions of a set problem.
pub(crate) fn find_sets(sets: &mut ConvexSets<'_>, most: usize, limits: TreeLimits<'_>) -> BranchResult {
    let open_node =
        |multiplier: u32, is_closed: bool| move |state: SetBranch| OpenNode { state, multiplier, is_closed };
    let mut tree = Vec::new();
    let mut open: Vec<OpenNode<SetBranch>> =
        sets.root().map(open_node(COST_FACTOR as u32, false)).into_iter().collect();
    let (mut nodes, mut is_done, mut all_found) = (0, true, Vec::new());
    'nodes: while let Some(OpenNode { mut state, multiplier, is_closed }) = open.pop() {
        if is_closed {
            tree.push(multiplier << 1 | 1);
            continue;
        }
        nodes += 1;
        if all_found.len() >= most || nodes > limits.nodes || (nodes % 16 == 0 && limits.is_spent()) {
            is_done = false;
            break;
        }
        let mut last = multiplier;
        let outcome = match evaluate_set_node(sets, &state, &mut last) {
            NodeOutcome::Set(set) => {
                // Branch on, for more solutions.
                let unit = choose_set_unit(sets, &state, Some(&set), Some(&state.inside));
                all_found.push(set);
                unit.map_or(NodeOutcome::Closed(BY_PRICE), NodeOutcome::Branch)
            }
            outcome => outcome,
        };
        match outcome {
            NodeOutcome::Set(_) => {}
            NodeOutcome::Closed(multiplier) => tree.push(multiplier << 1 | 1),
            NodeOutcome::Branch(unit) => {
                tree.push((unit as u32) << 1);
                open.extend(sets.decide(&state, unit, false).map(open_node(last, false)));
                open.extend(sets.decide(&state, unit, true).map(open_node(last, false)));
            }
            NodeOutcome::Fixed(fixed) => {
                for (unit, inside, closing) in fixed {
                    if state.inside.has(unit) || state.outside.has(unit) {
                        if state.inside.has(unit) != inside {
                            tree.push(closing << 1 | 1);
                            continue 'nodes;
                        }
                        continue;
                    }
                    tree.push((unit as u32) << 1);
                    let lost = sets.decide(&state, unit, !inside);
                    if inside {
                        open.extend(lost.map(open_node(closing, true)));
                    } else if lost.is_some() {
                        tree.push(closing << 1 | 1);
                    }
                    match sets.decide(&state, unit, inside) {
                        Some(left) => state = left,
                        None => continue 'nodes,
                    }
                }
                open.push(open_node(last, false)(state));
            }
        }
    }
    if !all_found.is_empty() {
        BranchResult::Sets(all_found)
    } else if is_done {
        BranchResult::NoneExists(tree)
    } else {
        BranchResult::Unknown
    }
}

/// Searches for a multiplier that closes a node of a set problem.
fn evaluate_set_node(sets: &mut ConvexSets<'_>, state: &SetBranch, last: &mut u32) -> NodeOutcome {
    // The lines of a solution over budget and of one below the limit: cost, price, set.
    let mut costly: Option<(i64, i64, Bits)> = None;
    let mut cheap: Option<(i64, i64, Bits)> = None;
    if sets.reachable(state) <= sets.limit {
        return NodeOutcome::Closed(BY_PRICE);
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
            return NodeOutcome::Closed(multiplier);
        }
        tried.push(multiplier);
        let most = sets.most(multiplier);
        for unit in state.inside.both(&state.outside, |i, o| !(i | o)).take_while(|&unit| unit < units) {
            if found.value + sets.reduced_cost(unit) > most {
                fixed.push((unit, found.set.has(unit), multiplier));
            }
        }
        let cost = sets.cost(&found.set).expect("only units that run are chosen") as i64;
        let price = sets.price(&found.set) as i64;
        if cost <= budget && price >= target {
            if sets.is_convex(&found.set) {
                return NodeOutcome::Set(found.set);
            }
            *last = multiplier;
            if !fixed.is_empty() {
                return NodeOutcome::Fixed(fixed);
            }
            return NodeOutcome::Branch(unit_between(sets, &found.set, state));
        }
        if cost > budget {
            costly = Some((cost, price, found.set));
        } else {
            cheap = Some((cost, price, found.set));
        }
        multiplier = match (&costly, &cheap) {
            (Some((c1, p1, _)), Some((c2, p2, _))) => {
                let meet = COST_FACTOR as f64 * (c1 - c2) as f64 / (p1 - p2) as f64;
                let at = |m: f64| COST_FACTOR as f64 * (c1 - budget) as f64 - m * (p1 - target) as f64;
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
        return NodeOutcome::Fixed(fixed);
    }
    let set = |line: &Option<(i64, i64, Bits)>| line.as_ref().map(|line| line.2.clone());
    let unit = choose_set_unit(sets, state, set(&costly).as_ref(), set(&cheap).as_ref());
    NodeOutcome::Branch(unit.expect("with all units decided the cut is exact"))
}

/// A unit to branch on that keeps a set from being convex: one outside it that lies between two of its units.
fn unit_between(sets: &ConvexSets<'_>, set: &Bits, state: &SetBranch) -> usize {
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
    // If that unit is out already, a unit of the set on one side of it.
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

/// The unit to branch on; none if all are decided. If no unit is in yet, one near the end of the network; otherwise, of those
/// on which the two solutions differ, the one with the largest product of the prices that its two branches decide.
fn choose_set_unit(
    sets: &ConvexSets<'_>,
    state: &SetBranch,
    costly: Option<&Bits>,
    cheap: Option<&Bits>,
) -> Option<usize> {
    let relaxed = sets.relaxed();
    let none = Bits::none(relaxed.units());
    let (costly, cheap) = (costly.unwrap_or(&none), cheap.unwrap_or(&none));
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
        costly.both(cheap, |d, c| d ^ c).filter(open).max_by_key(decides)
    };
    chosen.or_else(|| all_open().max_by_key(|&unit| price(unit)))
}

/// Searches for a solution of a cut problem.
pub(crate) fn find_down_set(cut: &mut TwoWayCut<'_>, limits: TreeLimits<'_>) -> BranchResult {
    let mut tree = Vec::new();
    let mut open: Vec<(CutBranch, u32)> =
        cut.root().map(|state| (state, FACTOR_SUM / 2)).into_iter().collect();
    let mut nodes = 0;
    while let Some((state, multiplier)) = open.pop() {
        nodes += 1;
        if nodes > limits.nodes || (nodes > 1 && limits.is_spent()) {
            return BranchResult::Unknown;
        }
        let mut last = multiplier;
        match evaluate_cut_node(cut, &state, &mut last, limits) {
            NodeOutcome::Set(set) => return BranchResult::Sets(vec![set]),
            NodeOutcome::Closed(multiplier) => tree.push(multiplier << 1 | 1),
            NodeOutcome::Branch(unit) if unit < cut.units() => {
                tree.push((unit as u32) << 1);
                open.extend(cut.decide(&state, unit, false).map(|state| (state, last)));
                open.extend(cut.decide(&state, unit, true).map(|state| (state, last)));
            }
            NodeOutcome::Branch(_) | NodeOutcome::Fixed(_) => return BranchResult::Unknown,
        }
    }
    BranchResult::NoneExists(tree)
}

/// Searches for a multiplier that closes a node of a cut problem.
fn evaluate_cut_node(
    cut: &mut TwoWayCut<'_>,
    state: &CutBranch,
    last: &mut u32,
    limits: TreeLimits<'_>,
) -> NodeOutcome {
    // The lines of a solution whose down-set is too long and of one whose complement is: the excess of either side.
    let mut long: Option<([i64; 2], Bits)> = None;
    let mut short: Option<([i64; 2], Bits)> = None;
    let mut multiplier = (*last).min(FACTOR_SUM);
    let mut tried = Vec::new();
    for _ in 0..MOST_TRIES {
        let found = cut.cheapest(state, multiplier);
        if cut.is_closed(found.value, multiplier) {
            *last = multiplier;
            return NodeOutcome::Closed(multiplier);
        }
        tried.push(multiplier);
        if cut.is_solution(&found.set) {
            return NodeOutcome::Set(found.set);
        }
        let excess = cut.excess(&found.set);
        if excess[0] > excess[1] {
            long = Some((excess, found.set));
        } else {
            short = Some((excess, found.set));
        }
        // A cut of a large network may take seconds.
        if limits.is_spent() {
            break;
        }
        // The complement has the factor `multiplier`, the down-set the rest of FACTOR_SUM.
        multiplier = match (&long, &short) {
            (Some((a, _)), Some((b, _))) => {
                let sum = f64::from(FACTOR_SUM);
                // (sum − m)·a0 + m·a1 = (sum − m)·b0 + m·b1
                let (d0, d1) = ((a[0] - b[0]) as f64, (a[1] - b[1]) as f64);
                let meet = sum * d0 / (d0 - d1);
                if !meet.is_finite() {
                    break;
                }
                let meet = meet.clamp(0.0, sum);
                if (sum - meet) * a[0] as f64 + meet * a[1] as f64 <= 0.0 {
                    *last = meet.round() as u32;
                    break;
                }
                meet.round() as u32
            }
            // A larger factor for the side that is too long.
            (Some(_), None) => multiplier / 2,
            _ => multiplier + (FACTOR_SUM - multiplier).div_ceil(2),
        };
        if tried.contains(&multiplier) {
            break;
        }
    }
    let none = Bits::none(0);
    let long = long.as_ref().map_or(&none, |line| &line.1);
    let short = short.as_ref().map_or(&none, |line| &line.1);
    NodeOutcome::Branch(choose_cut_unit(cut, state, long, short))
}

/// The undecided unit of most work on which the two solutions differ; a number past all units if none is left.
fn choose_cut_unit(cut: &TwoWayCut<'_>, state: &CutBranch, long: &Bits, short: &Bits) -> usize {
    let relaxed = cut.relaxed();
    let open = |unit: &usize| !state.inside.has(*unit) && !state.outside.has(*unit);
    let work = |&unit: &usize| relaxed.least().work[unit];
    let differ = long.both(short, |a, b| a ^ b).filter(open).max_by_key(work);
    differ.or_else(|| (0..relaxed.units()).filter(open).max_by_key(work)).unwrap_or(usize::MAX)
}
