//! Constraints with names resolved: pins, bans, colocation, memory and split limits, the devices of inputs and outputs.
//!
//! Invariant: colocation groups are disjoint and have at least two ops.

use crate::did_you_mean::closest;
use crate::graph::Graph;
use crate::hardware::Hardware;
use crate::ids::{DeviceId, OpId};
use crate::input_error::{Code, InputErrors};

use super::{ConstraintsSpec, MemoryRule, Objective};

/// What a plan must respect.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// Ops that must run on one given device.
    pub pins: Vec<(OpId, DeviceId)>,
    /// Ops that must not run on a given device.
    pub forbids: Vec<(OpId, DeviceId)>,
    /// Disjoint groups of two or more ops that must share a device.
    pub colocate: Vec<Vec<OpId>>,
    /// Bytes that may be used of a device.
    pub memory_limits: Vec<(DeviceId, u64)>,
    /// The fewest device changes along the canonical order.
    pub min_splits: Option<u32>,
    /// The most device changes along the canonical order.
    pub max_splits: Option<u32>,
    /// Where the network's inputs are; none: everywhere.
    pub input_at: Option<DeviceId>,
    /// Where the network's outputs must arrive; none: anywhere.
    pub output_at: Option<DeviceId>,
    /// What counts against memory.
    pub memory_rule: MemoryRule,
    /// Whether several identical devices may share a pipeline stage.
    pub replicate: bool,
    spec: ConstraintsSpec,
}

impl Constraints {
    /// The description they were resolved from.
    pub fn spec(&self) -> &ConstraintsSpec {
        &self.spec
    }

    /// Resolves names; every fault is reported.
    pub(super) fn resolve(
        spec: &ConstraintsSpec,
        graph: &Graph,
        hardware: &Hardware,
        objective: Objective,
        errors: &mut InputErrors,
    ) -> Constraints {
        let mut names = NameResolver { graph, hardware, errors };
        let mut pins = Vec::new();
        for (op, device) in &spec.pin {
            pins.extend(Option::zip(names.op("pin", op), names.device("pin", device)));
        }
        let mut forbids = Vec::new();
        for (op, devices) in &spec.forbid {
            for device in devices {
                forbids.extend(Option::zip(names.op("forbid", op), names.device("forbid", device)));
            }
        }
        let groups: Vec<Vec<OpId>> = (spec.colocate.iter())
            .map(|group| group.iter().filter_map(|op| names.op("colocate", op)).collect())
            .collect();
        let mut memory_limits = Vec::new();
        for (device, &bytes) in &spec.memory_limit {
            memory_limits.extend(names.device("memory_limit", device).map(|device| (device, bytes)));
        }
        let input_at = spec.input_at.as_ref().and_then(|device| names.device("input_at", device));
        let output_at = spec.output_at.as_ref().and_then(|device| names.device("output_at", device));
        check_splits(spec, objective, errors);
        check_replicate(spec, objective, errors);
        Constraints {
            pins,
            forbids,
            colocate: disjoint(graph.op_count(), &groups),
            memory_limits,
            min_splits: spec.min_splits,
            max_splits: spec.max_splits,
            input_at,
            output_at,
            memory_rule: spec.memory_rule,
            replicate: spec.replicate,
            spec: spec.clone(),
        }
    }

    /// Removes from `may_run` (one bit set of `words` words per op) what the constraints rule out.
    pub(super) fn restrict(
        &self,
        may_run: &mut [u64],
        words: usize,
        graph: &Graph,
        errors: &mut InputErrors,
    ) {
        let clear =
            |set: &mut [u64], device: DeviceId| set[device.index() / 64] &= !(1 << (device.index() % 64));
        for &(op, device) in &self.forbids {
            clear(&mut may_run[op.index() * words..][..words], device);
        }
        for &(op, device) in &self.pins {
            let set = &mut may_run[op.index() * words..][..words];
            for (i, word) in set.iter_mut().enumerate() {
                *word &= if i == device.index() / 64 { 1 << (device.index() % 64) } else { 0 };
            }
        }
        for group in &self.colocate {
            for word in 0..words {
                let common = group.iter().fold(u64::MAX, |all, op| all & may_run[op.index() * words + word]);
                for op in group {
                    may_run[op.index() * words + word] = common;
                }
            }
        }
        for op in graph.ops() {
            if may_run[op.index() * words..][..words].iter().all(|&word| word == 0) {
                errors.add(
                    Code::Contradiction,
                    format!("op `{}`", graph.op_name(op)),
                    "pins, bans and colocation together leave it no device",
                    "drop one of the constraints on it or on the ops it must stay with",
                );
            }
        }
    }
}

/// Looks names up and reports those that do not exist.
struct NameResolver<'a> {
    graph: &'a Graph,
    hardware: &'a Hardware,
    errors: &'a mut InputErrors,
}

impl NameResolver<'_> {
    fn op(&mut self, place: &str, name: &str) -> Option<OpId> {
        let found = self.graph.op_named(name);
        if found.is_none() {
            // Finding a near name takes time linear in the ops, so it is done for the first faults only.
            let shown = self.errors.kept().len() < 10;
            let known = || self.graph.ops().map(|op| self.graph.op_name(op)).collect::<Vec<_>>();
            let close = shown.then(|| closest(name, &known())).flatten();
            let fix = close
                .map_or("`divvy inspect --top 100` names ops".to_owned(), |c| format!("did you mean `{c}`?"));
            self.errors.add(Code::Dangling, place, format!("there is no op `{name}`"), fix);
        }
        found
    }

    fn device(&mut self, place: &str, name: &str) -> Option<DeviceId> {
        let found = self.hardware.device_named(name);
        if found.is_none() {
            let known: Vec<&str> =
                self.hardware.devices().map(|d| self.hardware.device_name(d)).take(20).collect();
            let more = if self.hardware.device_count() > known.len() { " and more" } else { "" };
            let fix = format!("the devices are {}{more}", known.join(", "));
            self.errors.add(Code::Dangling, place, format!("there is no device `{name}`"), fix);
        }
        found
    }
}

/// Reports `replicate` without stages.
fn check_replicate(spec: &ConstraintsSpec, objective: Objective, errors: &mut InputErrors) {
    if spec.replicate && !matches!(objective, Objective::Pipeline { .. }) {
        let message = format!("{} has no stages to replicate", objective.name());
        errors.add(Code::Option, "--replicate", message, "use it with --objective pipeline");
    }
}

/// Reports split limits that do not apply or contradict each other.
fn check_splits(spec: &ConstraintsSpec, objective: Objective, errors: &mut InputErrors) {
    if (spec.min_splits.is_some() || spec.max_splits.is_some()) && objective != Objective::Stream {
        let message = format!("split limits do not apply to {}", objective.name());
        errors.add(Code::Option, "--max-splits", message, "use them with --objective stream");
    }
    if let (Some(fewest), Some(most)) = (spec.min_splits, spec.max_splits)
        && fewest > most
    {
        let message = format!("at least {fewest} splits and at most {most}");
        errors.add(Code::Contradiction, "--max-splits", message, "raise the upper limit or lower the other");
    }
}

/// Merges groups that share an op (union-find), and drops groups of one.
fn disjoint(ops: usize, groups: &[Vec<OpId>]) -> Vec<Vec<OpId>> {
    let mut parent: Vec<usize> = (0..ops).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    for group in groups {
        for pair in group.windows(2) {
            let (a, b) = (root(&mut parent, pair[0].index()), root(&mut parent, pair[1].index()));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut merged: std::collections::BTreeMap<usize, Vec<OpId>> = std::collections::BTreeMap::new();
    for i in 0..ops {
        let root = root(&mut parent, i);
        merged.entry(root).or_default().push(OpId::new(i));
    }
    merged.into_values().filter(|group| group.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_groups_are_merged() {
        let groups = [vec![OpId(3), OpId(1)], vec![OpId(4)], vec![OpId(1), OpId(0)]];
        assert_eq!(disjoint(6, &groups), [vec![OpId(0), OpId(1), OpId(3)]]);
    }
}
