//! Constraints on ops, carried over to the merged ops that contain them.
//!
//! A pin of one member pins the merged op; members pinned to different devices contradict each other. A device forbidden to
//! any member is forbidden to the merged op. Colocation groups become groups of merged ops; those within one op hold already.
//! Names that no op has are kept, so that they are reported where constraints are resolved.

use std::collections::BTreeMap;

use super::merge::Merged;
use crate::graph::Graph;
use crate::input_error::{Code, InputErrors};
use crate::problem::ConstraintsSpec;

/// The constraints of `graph` on what it was merged into.
pub fn rename_constraints(
    constraints: &ConstraintsSpec,
    graph: &Graph,
    merged: &Merged,
) -> Result<ConstraintsSpec, InputErrors> {
    let mut errors = InputErrors::default();
    let rename = |name: &str| -> String {
        let owner = graph.op_named(name).map(|op| merged.op_of[op.index()]);
        owner.map_or(name, |op| merged.graph.ops[op.index()].name.as_str()).to_owned()
    };
    let mut pin: BTreeMap<String, String> = BTreeMap::new();
    for (name, device) in &constraints.pin {
        let owner = rename(name);
        let pinned = pin.entry(owner.clone()).or_insert_with(|| device.clone());
        if pinned != device {
            errors.add(
                Code::Contradiction,
                "pin",
                format!(
                    "`{name}` is pinned to `{device}`, and another op merged into `{owner}` to `{pinned}`"
                ),
                "drop one of the pins, or choose a finer granularity",
            );
        }
    }
    let mut forbid: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, devices) in &constraints.forbid {
        let merged_devices = forbid.entry(rename(name)).or_default();
        for device in devices {
            if !merged_devices.contains(device) {
                merged_devices.push(device.clone());
            }
        }
    }
    let mut colocate: Vec<Vec<String>> = Vec::with_capacity(constraints.colocate.len());
    for group in &constraints.colocate {
        let mut owners: Vec<String> = group.iter().map(|name| rename(name)).collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.len() > 1 || owners.len() == group.len() {
            colocate.push(owners);
        }
    }
    errors.into_result(ConstraintsSpec { pin, forbid, colocate, ..constraints.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarsen::merge;
    use crate::costs::Profile;
    use crate::graph::{GraphSpec, OpSpec};

    /// Ops `a` to `d`, of which `a` and `b`, and `c` and `d`, are merged.
    fn renamed(constraints: &ConstraintsSpec) -> Result<ConstraintsSpec, InputErrors> {
        let op = |name: &str| OpSpec { name: name.into(), ..OpSpec::default() };
        let ops = ["a", "b", "c", "d"].map(op).to_vec();
        let graph = Graph::new(GraphSpec { ops, ..GraphSpec::default() }).unwrap();
        let merged = merge(&graph, &Profile::default(), &[0, 0, 1, 1]).unwrap();
        rename_constraints(constraints, &graph, &merged)
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn names_follow_the_ops() {
        let constraints = ConstraintsSpec {
            pin: [("b", "gpu"), ("a", "gpu"), ("gone", "cpu")].map(|(o, d)| (o.into(), d.into())).into(),
            forbid: [("c".into(), names(&["x", "y"])), ("d".into(), names(&["y", "z"]))].into(),
            colocate: vec![names(&["a", "b"]), names(&["b", "d", "c"]), names(&["gone"])],
            max_splits: Some(3),
            ..ConstraintsSpec::default()
        };
        let new = renamed(&constraints).unwrap();
        assert_eq!(new.pin, [("a", "gpu"), ("gone", "cpu")].map(|(o, d)| (o.into(), d.into())).into());
        assert_eq!(new.forbid, [("c".into(), names(&["x", "y", "z"]))].into());
        assert_eq!(new.colocate, [names(&["a", "c"]), names(&["gone"])]);
        assert_eq!(new.max_splits, Some(3));
    }

    #[test]
    fn pins_of_one_group_to_two_devices_contradict_each_other() {
        let pin = [("c", "gpu"), ("d", "cpu")].map(|(o, d)| (o.into(), d.into())).into();
        let errors = renamed(&ConstraintsSpec { pin, ..ConstraintsSpec::default() }).unwrap_err();
        assert_eq!(errors.kept()[0].code, Code::Contradiction);
        assert!(errors.kept()[0].message.contains("merged into `c`"));
    }
}
