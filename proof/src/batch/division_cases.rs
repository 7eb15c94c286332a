//! Case distinction over the division LP: rows within a region of the graph may depend on how its ops are divided.
//!
//! Ops are grouped into disjoint *regions*. The rows outside and between regions are the same in all cases
//! ([`crate::division_lp`]). Within a region a binary tree distinguishes cases by whether the devices of a class take at least
//! n inputs of an op; every leaf has rows of its own, with both ends and everything between them inside the region.
//!
//! Where a class of one device takes all inputs of an op, they are a single batch: the op is *whole*. Between two whole ops i
//! and j, i an ancestor of j, every batch of the ops between them starts after i has ended for all inputs and ends before j
//! starts for any; so in a window from i to j their times count for every input. Two whole ops of one device are ordered: the
//! tree branches on which is first, and start_j(l) ≥ end of i holds for all inputs.
//!
//! In any plan exactly one case of each region holds. The sum of the rows in force bounds C · L · (multipliers of C) from below
//! by the price of every batch. What a region costs, and its multiplier of C, depend on its own case only. So the bound is
//! (Σ over regions of the cheapest case + the ops outside) / (L · (Σ over regions of the largest multiplier + …)).
//!
//! Complexity: the knapsacks of a region's ops once for each leaf.

use crate::division_lp::class_routes::too_large;
use crate::division_lp::{BatchPrices, DivisionRows, MOST_STEPS, bound_of, divisor_of, indivisible, reached};
use crate::evidence::{CaseRegion, CaseTree, DevicePair, PricedEdge, WorkWindow};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// What is known in a case.
struct CaseDomains {
    inputs: u32,
    classes: usize,
    /// For each op and class of devices, the least and the largest number of inputs that the class takes.
    ranges: Vec<(u32, u32)>,
    /// For each op and class, the only device of the class that may run the op; none if there are several or none.
    only: Vec<Option<DeviceId>>,
    /// Pairs of whole ops of one device, in their order.
    ordered: Vec<(OpId, OpId)>,
}

impl CaseDomains {
    fn new(problem: &Problem, inputs: u32) -> CaseDomains {
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
        CaseDomains { inputs, classes, ranges: vec![(0, inputs); ops * classes], only, ordered: Vec::new() }
    }

    /// The device that takes all inputs of an op, if the case says so.
    fn whole_on(&self, op: OpId) -> Option<DeviceId> {
        let mut places = op.index() * self.classes..(op.index() + 1) * self.classes;
        let place = places.find(|&place| self.ranges[place].0 >= self.inputs)?;
        self.only[place]
    }

    fn range(&self, op: OpId, class: usize) -> (u32, u32) {
        self.ranges[op.index() * self.classes + class]
    }
}

/// The bound of the rows of all cases and the case trees of the regions.
pub fn proven(problem: &Problem, rows: &DivisionRows<'_>, regions: &[CaseRegion]) -> Result<Time, String> {
    let Objective::Batch { inputs } = problem.objective else {
        return Err(format!("cases are for `batch`, not for `{}`", problem.objective.name()));
    };
    debug_assert!(rows.memory.is_empty(), "memory rows are not part of case trees");
    let always = BatchPrices::new(problem, rows)?;
    let ops = problem.graph.op_count();
    let cases: u128 = regions.iter().map(|region| region.walk.len() as u128).sum();
    let links = rows.flows.len() * always.class_sizes().len().pow(2) + rows.windows.len() * ops;
    let each = always.steps(problem) + (links + ops * (ops + problem.hardware.device_count())) as u128;
    if each.saturating_mul(cases + 1) > MOST_STEPS {
        return Err("there are too many cases".to_owned());
    }
    let mut region_of: Vec<Option<usize>> = vec![None; ops];
    for (number, region) in regions.iter().enumerate() {
        for op in &region.ops {
            let Some(place) = region_of.get_mut(op.index()) else {
                return Err("a region names an op that does not exist".to_owned());
            };
            if place.replace(number).is_some() {
                return Err(format!("`{}` is region of two", problem.graph.op_name(*op)));
            }
        }
    }
    let (mut sum, mut counted) = (0i128, always.open());
    for op in problem.graph.ops().filter(|op| region_of[op.index()].is_none()) {
        let least = always.cheapest(problem, op, &|_| (0, inputs))?;
        sum = sum.checked_add(least.ok_or_else(|| indivisible(problem, op))?).ok_or_else(too_large)?;
        counted += always.ends_of(op);
    }
    let mut known = CaseDomains::new(problem, inputs);
    for (number, region) in regions.iter().enumerate() {
        let inside = |op: usize| region_of[op] == Some(number);
        let (least, most_counted) = cheapest_case(problem, rows, region, &inside, &mut known)?;
        sum = sum.checked_add(least).ok_or_else(too_large)?;
        counted += most_counted;
    }
    bound_of(sum, divisor_of(counted, inputs)?)
}

/// A step of the preorder walk through a case tree.
enum WalkStep {
    /// Visit the root.
    Root,
    /// Narrow a range, and visit the subtree.
    Narrow(usize, (u32, u32)),
    /// Order two ops, and visit the subtree.
    Order(OpId, OpId),
    /// Undo the last order.
    Unorder,
    /// Restore a range.
    Restore(usize, (u32, u32)),
}

/// The price of a region in its cheapest case, and the largest multiplier of C over its cases.
fn cheapest_case(
    problem: &Problem,
    rows: &DivisionRows<'_>,
    region: &CaseRegion,
    inside: &dyn Fn(usize) -> bool,
    known: &mut CaseDomains,
) -> Result<(i128, u128), String> {
    let (mut least_cost, mut most_counted): (Option<i128>, u128) = (None, 0);
    let exists = |op: OpId| op.index() < problem.graph.op_count() && inside(op.index());
    let unknown = || "cases are told apart by an op or a class that is not there".to_owned();
    let mut walk = region.walk.iter();
    let mut open = vec![WalkStep::Root];
    while let Some(step) = open.pop() {
        match step {
            WalkStep::Restore(place, range) => {
                known.ranges[place] = range;
                continue;
            }
            WalkStep::Unorder => {
                known.ordered.pop();
                continue;
            }
            WalkStep::Narrow(place, range) => known.ranges[place] = range,
            WalkStep::Order(first, second) => known.ordered.push((first, second)),
            WalkStep::Root => {}
        }
        match walk.next().ok_or("a region's cases end too early")? {
            CaseTree::Split { op, class, least } => {
                if !exists(*op) || *class >= known.classes {
                    return Err(unknown());
                }
                let place = op.index() * known.classes + class;
                let (from, to) = known.ranges[place];
                if *least <= from || *least > to {
                    return Err(format!("a case of `{}` holds always or never", problem.graph.op_name(*op)));
                }
                open.push(WalkStep::Restore(place, (from, to)));
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
                open.extend([WalkStep::Unorder, WalkStep::Order(*second, *first)]);
                open.extend([WalkStep::Unorder, WalkStep::Order(*first, *second)]);
            }
            CaseTree::Priced { flows, windows, turns } => {
                stays_inside(problem, flows, windows, inside)?;
                if turns.iter().any(|pair| !known.ordered.contains(&(pair.from, pair.to))) {
                    return Err("a case has turns that nothing says".to_owned());
                }
                let flows: Vec<PricedEdge> = rows.flows.iter().chain(flows).cloned().collect();
                let windows: Vec<WorkWindow> = rows.windows.iter().chain(windows).cloned().collect();
                let rows = DivisionRows { flows: &flows, windows: &windows, ..*rows };
                if let Some((cost, counted)) = price_of_case(problem, &rows, turns, region, known)? {
                    least_cost = Some(least_cost.map_or(cost, |known| known.min(cost)));
                    most_counted = most_counted.max(counted);
                }
            }
        }
    }
    if walk.next().is_some() {
        return Err("a region has more cases than its branchings".to_owned());
    }
    least_cost.map(|least| (least, most_counted)).ok_or_else(|| "a region has no case that occurs".to_owned())
}

/// The price of a region in one case, and its multiplier of C; none if the case does not occur.
fn price_of_case(
    problem: &Problem,
    rows: &DivisionRows<'_>,
    turns: &[DevicePair],
    region: &CaseRegion,
    known: &CaseDomains,
) -> Result<Option<(i128, u128)>, String> {
    let is_whole = |op: OpId| known.whole_on(op).is_some();
    let prices = BatchPrices::in_case(problem, rows, turns, &is_whole)?;
    let (mut sum, mut counted) = (Some(0i128), 0);
    for &op in &region.ops {
        let cost = prices.cheapest(problem, op, &|class| known.range(op, class))?;
        counted += prices.ends_of(op);
        // If an op cannot be divided within its ranges, the case does not occur.
        sum = match sum.zip(cost) {
            Some((sum, cost)) => Some(sum.checked_add(cost).ok_or_else(too_large)?),
            None => None,
        };
    }
    Ok(sum.map(|sum| (sum, counted)))
}

/// Whether flows and windows, and all ops between their ends, are within a region.
fn stays_inside(
    problem: &Problem,
    flows: &[PricedEdge],
    windows: &[WorkWindow],
    inside: &dyn Fn(usize) -> bool,
) -> Result<(), String> {
    let ops = problem.graph.op_count();
    let holds = |op: OpId| op.index() < ops && inside(op.index());
    let outside = || "a case reaches beyond its region".to_owned();
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
