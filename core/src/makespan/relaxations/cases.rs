//! `batch` by cases: as `divisions`, but prices within a part of the network may depend on how its ops are divided.
//!
//! Ops are grouped into parts. Some rows of `divisions` are the same in all cases: the work of devices, and what lies between
//! parts. Within a part, cases are told apart by how many inputs the devices of a class take of an op: at least so many, or
//! fewer. They form a binary tree, whose every end has flows and windows of its own between ops of the part.
//!
//! In any plan, exactly one case of each part holds. The rows that are always there and those of the cases that hold add up,
//! as in `divisions`, to C · L · (Σ λ + Σ G) ≥ the cost of every batch, where an op's divisions are those of its case. What an
//! op of a part costs, and how often it counts C (its G), depends on the part's own case only: flows and windows of a case
//! stay within its part, with everything that lies between their ends. So each part costs at least as much as in its cheapest
//! case, and counts C at most as often as in the case that counts it most.

use serde::{Deserialize, Serialize};

use super::divisions::{
    BatchPrices, Flow, MOST_STEPS, Window, divisor_of, finish_of, indivisible, reached, too_large,
};
use crate::ids::OpId;
use crate::problem::{Objective, Problem};
use crate::units::Time;

/// Ops whose prices depend on how they are divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The ops.
    pub ops: Vec<OpId>,
    /// The tree of cases in the order of a walk: behind a branching first all where it holds, then all where it does not.
    pub walk: Vec<Case>,
}

/// A branching, or the rows of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Case {
    /// Whether the devices of a class take at least so many inputs of an op.
    Split {
        /// The op.
        op: OpId,
        /// The class, by its place in the costs.
        class: usize,
        /// How many inputs.
        least: u32,
    },
    /// What holds beside the rows of all cases.
    Priced {
        /// Edges within the part.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flows: Vec<Flow>,
        /// Windows within the part.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<Window>,
    },
}

/// Rows in force.
pub struct Rows<'a> {
    /// One weight per device.
    pub weights: &'a [u64],
    /// The edges that inputs pass.
    pub flows: &'a [Flow],
    /// The work of devices between two ops.
    pub windows: &'a [Window],
}

/// For each op and class of devices, how many inputs it may take at least and at most.
struct Ranges {
    classes: usize,
    of: Vec<(u32, u32)>,
}

/// What rows and the cases of parts prove.
pub fn proven(problem: &Problem, rows: &Rows<'_>, parts: &[Part]) -> Result<Time, String> {
    let Objective::Batch { inputs } = problem.objective else {
        return Err(format!("divisions are for `batch`, not for `{}`", problem.objective.name()));
    };
    let always = BatchPrices::new(problem, rows.weights, rows.flows, rows.windows)?;
    let (ops, classes) = (problem.graph.op_count(), problem.hardware.class_count());
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
    let mut ranges = Ranges { classes, of: vec![(0, inputs); ops * classes] };
    for (number, part) in parts.iter().enumerate() {
        let inside = |op: usize| part_of[op] == Some(number);
        let (least, most_counted) = cheapest_case(problem, rows, part, &inside, &mut ranges)?;
        sum = sum.checked_add(least).ok_or_else(too_large)?;
        counted += most_counted;
    }
    finish_of(sum, divisor_of(counted, inputs)?)
}

/// What a part costs in its cheapest case, and how often it counts C at most.
fn cheapest_case(
    problem: &Problem,
    rows: &Rows<'_>,
    part: &Part,
    inside: &dyn Fn(usize) -> bool,
    ranges: &mut Ranges,
) -> Result<(i128, u128), String> {
    /// A case that is next, or a range that is to be put back.
    enum Open {
        Case(Option<(usize, (u32, u32))>),
        Back(usize, (u32, u32)),
    }
    let (mut least, mut most_counted): (Option<i128>, u128) = (None, 0);
    let mut walk = part.walk.iter();
    let mut open = vec![Open::Case(None)];
    while let Some(next) = open.pop() {
        let narrowed = match next {
            Open::Back(place, range) => {
                ranges.of[place] = range;
                continue;
            }
            Open::Case(narrowed) => narrowed,
        };
        if let Some((place, range)) = narrowed {
            ranges.of[place] = range;
        }
        match walk.next().ok_or("a part's cases end too early")? {
            Case::Split { op, class, least } => {
                if op.index() >= problem.graph.op_count() || !inside(op.index()) || *class >= ranges.classes {
                    return Err("cases are told apart by an op or a class that is not there".to_owned());
                }
                let place = op.index() * ranges.classes + class;
                let (from, to) = ranges.of[place];
                if *least <= from || *least > to {
                    return Err(format!(
                        "a case of `{}` holds always or never",
                        problem.graph.op_name(*op)
                    ));
                }
                open.push(Open::Back(place, (from, to)));
                open.push(Open::Case(Some((place, (from, least - 1)))));
                open.push(Open::Case(Some((place, (*least, to)))));
            }
            Case::Priced { flows, windows } => {
                stays_inside(problem, flows, windows, inside)?;
                let flows: Vec<Flow> = rows.flows.iter().chain(flows).cloned().collect();
                let windows: Vec<Window> = rows.windows.iter().chain(windows).cloned().collect();
                let prices = BatchPrices::new(problem, rows.weights, &flows, &windows)?;
                let (mut sum, mut counted) = (Some(0i128), 0);
                for &op in &part.ops {
                    let range = |class: usize| ranges.of[op.index() * ranges.classes + class];
                    let cost = prices.cheapest(problem, op, &range)?;
                    counted += prices.ends_of(op);
                    // Where an op cannot be divided so, the case does not occur.
                    sum = match sum.zip(cost) {
                        Some((sum, cost)) => Some(sum.checked_add(cost).ok_or_else(too_large)?),
                        None => None,
                    };
                }
                if let Some(sum) = sum {
                    least = Some(least.map_or(sum, |known| known.min(sum)));
                    most_counted = most_counted.max(counted);
                }
            }
        }
    }
    if walk.next().is_some() {
        return Err("a part has more cases than its branchings".to_owned());
    }
    least.map(|least| (least, most_counted)).ok_or_else(|| "a part has no case that occurs".to_owned())
}

/// Whether flows and windows, and all that lies between their ends, are within a part.
fn stays_inside(
    problem: &Problem,
    flows: &[Flow],
    windows: &[Window],
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
