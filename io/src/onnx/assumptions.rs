//! What is assumed of a model where it does not tell: shapes that depend on data, rounds of loops, costs of operators
//! that divvy does not know. Each assumption is said, one warning for each kind.

use std::collections::{BTreeMap, BTreeSet};

use divvy_core::input_error::{Code, InputErrors};
use divvy_core::units::show_count;

use super::facts::{Fact, Facts};
use super::flops::{Scope, node_flops};
use super::infer::infer_assumed;
use super::proto::{Graph, Model};
use super::trips::{EVERY_LOOP, Trips, loop_name, loops};

/// Most ops of one kind that a warning names.
const MOST_NAMED: usize = 4;

/// The facts with the shapes and bodies of a walk that assumes what depends on data; none where nothing does. What is
/// known beforehand stays as it is.
pub(super) fn sized(
    model: &Model,
    dims: &BTreeMap<String, u64>,
    trips: &Trips,
    facts: &Facts,
) -> Option<Facts> {
    if facts.unknown.is_empty() && facts.bodies.is_empty() {
        return None;
    }
    let mut assumed = infer_assumed(model, dims, trips);
    for (name, fact) in &facts.values {
        let known = fact.shape.is_some().then(|| fact.clone());
        let taken = assumed.values.remove(name).map(|assumed| Fact { content: None, ..assumed });
        assumed.values.insert(name.clone(), known.or(taken).unwrap_or_else(|| fact.clone()));
    }
    for (name, sequence) in facts.sequences.iter().filter(|(_, sequence)| sequence.bytes().is_some()) {
        assumed.sequences.insert(name.clone(), sequence.clone());
    }
    Some(assumed)
}

/// The loops whose rounds depend on data and are not said.
pub(super) fn open_loops(graph: &Graph, facts: &Facts, trips: &Trips) -> Vec<String> {
    if trips.contains_key(EVERY_LOOP) {
        return Vec::new();
    }
    let mut open = Vec::new();
    for &position in facts.bodies.keys().collect::<BTreeSet<_>>() {
        let scope = Scope { facts, around: None };
        open.extend(graph.node.get(position).map(|node| node_flops(position, node, &scope).open_loops));
    }
    let mut open: Vec<String> = open.into_iter().flatten().collect();
    open.retain(|name| !trips.contains_key(name));
    open
}

/// Rounds said of loops that the model does not have, or that run a known number of times.
pub(super) fn trip_faults(graph: &Graph, facts: &Facts, trips: &Trips, errors: &mut InputErrors) {
    if trips.is_empty() {
        return;
    }
    let known = loops(graph);
    for name in trips.keys() {
        let fix = match known.as_slice() {
            [] => "the model has no loops".to_owned(),
            known => format!("its loops are {}", listed(known.iter().map(|name| format!("`{name}`")))),
        };
        if known.is_empty() || (name != EVERY_LOOP && !known.contains(&name.as_str())) {
            let what = if name == EVERY_LOOP { "loop".to_owned() } else { format!("loop `{name}`") };
            errors.add(Code::Dangling, "--trips", format!("the model has no {what}"), fix);
        }
    }
    for (&position, bodies) in &facts.bodies {
        let Some(node) = graph.node.get(position).filter(|node| node.op_type() == "Loop") else { continue };
        if let (Some(Some(runs)), true) =
            (bodies.first().map(|body| body.runs), trips.contains_key(loop_name(node)))
        {
            let message = format!("`{}` always runs {runs} times", loop_name(node));
            errors.add(Code::Contradiction, "--trips", message, "leave it out");
        }
    }
}

/// Names one after the other; of many, the first.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let named = names.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// What is not certain about a model, by kind: one warning for each, however many ops there are.
#[derive(Default)]
pub(super) struct Doubts {
    /// Ops with graphs inside.
    pub(super) holders: Vec<String>,
    /// Nodes inside those that are not counted.
    pub(super) left_out: usize,
    /// Ops whose cost is not known.
    pub(super) opaque: Vec<String>,
    /// Values whose size is not known.
    pub(super) unsized_values: Vec<String>,
}

impl Doubts {
    pub(super) fn warnings(&self, facts: &Facts, open_loops: &[String]) -> Vec<String> {
        let names = |names: &[String]| listed(names.iter().cloned());
        let counted = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{} {many}", show_count(count as u128)),
        };
        let mut warnings = Vec::new();
        if !self.holders.is_empty() {
            let what =
                counted(self.holders.len(), "op holds a subgraph and is", "ops hold subgraphs and are");
            let left_out = match self.left_out {
                0 => String::new(),
                left_out => {
                    format!("; {} cannot be counted", counted(left_out, "node inside", "nodes inside"))
                }
            };
            warnings.push(format!("{what} kept whole: {}{left_out}", names(&self.holders)));
        }
        if !open_loops.is_empty() {
            let quoted: Vec<String> = open_loops.iter().map(|name| format!("`{name}`")).collect();
            let what = counted(
                quoted.len(),
                "loop runs as often as the data say, and counts",
                "loops run as often as the data say, and count",
            );
            warnings.push(format!(
                "{what} once: {}; --trips N counts each N times, --trips NAME=N one of them",
                names(&quoted)
            ));
        }
        if !self.opaque.is_empty() {
            let what = counted(self.opaque.len(), "op is", "ops are");
            warnings.push(format!(
                "{what} of an operator or of a size that divvy cannot cost: {}; one operation for each element read or \
                 made is assumed",
                names(&self.opaque)
            ));
        }
        let unknown = facts.values.values().filter(|fact| fact.shape.is_none()).count();
        if let Some((_, reason)) = facts.unknown.first().filter(|_| unknown > 0) {
            let what = counted(unknown, "value has a shape that depends", "values have shapes that depend");
            warnings.push(format!("{what} on data ({reason}); counts that are not known are taken as 1"));
        }
        if !self.unsized_values.is_empty() {
            let what = counted(self.unsized_values.len(), "value is", "values are");
            let quoted: Vec<String> = self.unsized_values.iter().map(|name| format!("`{name}`")).collect();
            warnings.push(format!(
                "{what} of a size that is not known, and as large as the largest input of what makes it: {}",
                names(&quoted)
            ));
        }
        warnings
    }
}
