//! `batch` by cases: as `divisions`, but prices within a part of the network may depend on how its ops are divided.
//!
//! Ops are grouped into parts. Some rows of `divisions` are the same in all cases: the work of devices, and what lies between
//! parts. Within a part, cases are told apart by how many inputs the devices of a class take of an op: at least so many, or
//! fewer. They form a binary tree, whose every end has flows and windows of its own between ops of the part.
//!
//! Where a class of one device takes all inputs of an op, they are a single batch: the op is *whole*. Two things are known of
//! such ops. Between two of them, i before j, every batch of the ops in between starts after i has ended for all inputs, and
//! has ended when j starts for all: all their times on a device count for every input, not for those that are part of them
//! alone. And two of one device take turns: cases are told apart by which is the first, and start_j(l) ≥ start_i(l) + time of i.
//!
//! In any plan, exactly one case of each part holds. The rows that are always there and those of the cases that hold add up,
//! as in `divisions`, to C · L · (Σ λ + Σ G) ≥ the cost of every batch, where an op's divisions are those of its case. What an
//! op of a part costs, and how often it counts C (its G), depends on the part's own case only: flows and windows of a case
//! stay within its part, with everything that lies between their ends. So each part costs at least as much as in its cheapest
//! case, and counts C at most as often as in the case that counts it most.

use crate::division_lp::units::too_large;
use crate::division_lp::{BatchPrices, MOST_STEPS, DivisionRows, divisor_of, finish_of, indivisible, reached};
use crate::evidence::{CaseTree, PricedEdge, CaseRegion, WorkWindow};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// What is known in a case.
struct CaseFacts {
    inputs: u32,
    classes: usize,
    /// For each op and class of devices, how many inputs it may take at least and at most.
    ranges: Vec<(u32, u32)>,
    /// For each op and class, the device that it may use of it, if that is but one.
    only: Vec<Option<DeviceId>>,
    /// Ops that take turns, the first one first.
    turns: Vec<(OpId, OpId)>,
}

impl CaseFacts {
    fn new(problem: &Problem, inputs: u32) -> CaseFacts {
        let (ops, classes) = (problem.graph.op_count(), problem.hardware.class_count());
        let mut only: Vec<Option<DeviceId>> = vec![None; ops * classes];
        let mut has_several = vec![false; ops * classes];
        for op in problem.graph.ops() {
            for device in problem.devices_for(op) {
                let place = op.index() * classes + problem.hardware.class_of(device).index();
                has_several[place] |= only[place].replace(device).is_some();
            }
        }
        for (only, _) in only.iter_mut().zip(has_several).filter(|(_, has_several)| *has_several) {
            *only = None;
        }
        CaseFacts { inputs, classes, ranges: vec![(0, inputs); ops * classes], only, turns: Vec::new() }
    }

    /// The device that takes all inputs of an op, if that is known.
    fn whole_on(&self, op: OpId) -> Option<DeviceId> {
        let mut places = op.index() * self.classes..(op.index() + 1) * self.classes;
        let place = places.find(|&place| self.ranges[place].0 >= self.inputs)?;
        self.only[place]
    }

    fn range(&self, op: OpId, class: usize) -> (u32, u32) {
        self.ranges[op.index() * self.classes + class]
    }
}

/// What rows and the cases of parts prove.
pub fn proven(problem: &Problem, rows: &DivisionRows<'_>, parts: &[CaseRegion]) -> Result<Time, String> {
    let Objective::Batch { inputs } = problem.objective else {
        return Err(format!("cases are for `batch`, not for `{}`", problem.objective.name()));
    };
    debug_assert!(rows.memory.is_empty(), "what is given back for memory is not told apart by cases");
    let always = BatchPrices::new(problem, rows)?;
    let ops = problem.graph.op_count();
    let cases: u128 = parts.iter().map(|part| part.walk.len() as u128).sum();
    let links = rows.flows.len() * always.slots().len().pow(2) + rows.windows.len() * ops;
    let each = always.steps(problem) + (links + ops * (ops + problem.hardware.device_count())) as u128;
    if each.saturating_mul(cases + 1) > MOST_STEPS {
        return Err("there are too many cases".to_owned());
    }
    let mut part_of: Vec<Option<usize>> = vec![None; ops];
    for (number, part) in parts.iter().enumerate() {
        for op in &part.ops {
            let Some(place) = part_of.get_mut(op.index()) else {
                return Err("a part names an op that does not exist".to_owned());
            };
            if place.replace(number).is_some() {
                return Err(format!("`{}` is part of two", problem.graph.op_name(*op)));
            }
        }
    }
    let (mut sum, mut counted) = (0i128, always.open());
    for op in problem.graph.ops().filter(|op| part_of[op.index()].is_none()) {
        let least = always.cheapest(problem, op, &|_| (0, inputs))?;
        sum = sum.checked_add(least.ok_or_else(|| indivisible(problem, op))?).ok_or_else(too_large)?;
        counted += always.ends_of(op);
    }
    let mut known = CaseFacts::new(problem, inputs);
    for (number, part) in parts.iter().enumerate() {
        let inside = |op: usize| part_of[op] == Some(number);
        let (least, most_counted) = cheapest_case(problem, rows, part, &inside, &mut known)?;
        sum = sum.checked_add(least).ok_or_else(too_large)?;
        counted += most_counted;
    }
    finish_of(sum, divisor_of(counted, inputs)?)
}

/// What the walk through a part's cases does next.
enum WalkStep {
    /// Nothing more is known than before.
    Root,
    /// A range is narrowed.
    Narrow(usize, (u32, u32)),
    /// Two ops take turns.
    Turn(OpId, OpId),
    /// The last turn is forgotten.
    Forget,
    /// A range is put back.
    Widen(usize, (u32, u32)),
}

/// What a part costs in its cheapest case, and how often it counts C at most.
fn cheapest_case(
    problem: &Problem,
    rows: &DivisionRows<'_>,
    part: &CaseRegion,
    inside: &dyn Fn(usize) -> bool,
    known: &mut CaseFacts,
) -> Result<(i128, u128), String> {
    let (mut least_cost, mut most_counted): (Option<i128>, u128) = (None, 0);
    let exists = |op: OpId| op.index() < problem.graph.op_count() && inside(op.index());
    let unknown = || "cases are told apart by an op or a class that is not there".to_owned();
    let mut walk = part.walk.iter();
    let mut open = vec![WalkStep::Root];
    while let Some(step) = open.pop() {
        match step {
            WalkStep::Widen(place, range) => {
                known.ranges[place] = range;
                continue;
            }
            WalkStep::Forget => {
                known.turns.pop();
                continue;
            }
            WalkStep::Narrow(place, range) => known.ranges[place] = range,
            WalkStep::Turn(first, second) => known.turns.push((first, second)),
            WalkStep::Root => {}
        }
        match walk.next().ok_or("a part's cases end too early")? {
            CaseTree::Split { op, class, least } => {
                if !exists(*op) || *class >= known.classes {
                    return Err(unknown());
                }
                let place = op.index() * known.classes + class;
                let (from, to) = known.ranges[place];
                if *least <= from || *least > to {
                    return Err(format!("a case of `{}` holds always or never", problem.graph.op_name(*op)));
                }
                open.push(WalkStep::Widen(place, (from, to)));
                open.push(WalkStep::Narrow(place, (from, least - 1)));
                open.push(WalkStep::Narrow(place, (*least, to)));
            }
            CaseTree::Order { first, second } => {
                if !exists(*first) || !exists(*second) || first == second {
                    return Err(unknown());
                }
                let whole = known.whole_on(*first);
                if whole.is_none() || whole != known.whole_on(*second) {
                    let [first, second] = [first, second].map(|op| problem.graph.op_name(*op));
                    return Err(format!("`{first}` and `{second}` need not share a device"));
                }
                open.extend([WalkStep::Forget, WalkStep::Turn(*second, *first)]);
                open.extend([WalkStep::Forget, WalkStep::Turn(*first, *second)]);
            }
            CaseTree::Priced { flows, windows, turns } => {
                stays_inside(problem, flows, windows, inside)?;
                if turns.iter().any(|turn| !known.turns.contains(&(turn.from, turn.to))) {
                    return Err("a case has turns that nothing says".to_owned());
                }
                let flows: Vec<PricedEdge> = rows.flows.iter().chain(flows).cloned().collect();
                let windows: Vec<WorkWindow> = rows.windows.iter().chain(windows).cloned().collect();
                let is_whole = |op: OpId| known.whole_on(op).is_some();
                let rows = DivisionRows { flows: &flows, windows: &windows, ..*rows };
                let prices = BatchPrices::in_case(problem, &rows, turns, &is_whole)?;
                let (mut sum, mut counted) = (Some(0i128), 0);
                for &op in &part.ops {
                    let cost = prices.cheapest(problem, op, &|class| known.range(op, class))?;
                    counted += prices.ends_of(op);
                    // Where an op cannot be divided so, the case does not occur.
                    sum = match sum.zip(cost) {
                        Some((sum, cost)) => Some(sum.checked_add(cost).ok_or_else(too_large)?),
                        None => None,
                    };
                }
                if let Some(sum) = sum {
                    least_cost = Some(least_cost.map_or(sum, |known| known.min(sum)));
                    most_counted = most_counted.max(counted);
                }
            }
        }
    }
    if walk.next().is_some() {
        return Err("a part has more cases than its branchings".to_owned());
    }
    least_cost.map(|least| (least, most_counted)).ok_or_else(|| "a part has no case that occurs".to_owned())
}

/// Whether flows and windows, and all that lies between their ends, are within a part.
fn stays_inside(
    problem: &Problem,
    flows: &[PricedEdge],
    windows: &[WorkWindow],
    inside: &dyn Fn(usize) -> bool,
) -> Result<(), String> {
    let ops = problem.graph.op_count();
    let holds = |op: OpId| op.index() < ops && inside(op.index());
    let outside = || "a case reaches beyond its part".to_owned();
    if flows.iter().any(|flow| !holds(flow.from) || !holds(flow.to)) {
        return Err(outside());
    }
    for window in windows {
        let (Some(from), Some(to)) = (window.from, window.to) else { return Err(outside()) };
        if !holds(from) || !holds(to) {
            return Err(outside());
        }
        let (follows, leads) = (reached(problem, from, true), reached(problem, to, false));
        if (0..ops).any(|op| follows[op] && leads[op] && !inside(op)) {
            return Err(outside());
        }
    }
    Ok(())
}
