//! Several networks as one: each keeps its ops, tensors and parameters under its own name, and no edge joins two of them.
//!
//! A plan for the whole serves all networks at once; its value is the finish of the last. Times of a class are kept for the
//! batch sizes that all networks have times for. Hardware and constraints of the networks must not contradict each other.

use std::collections::BTreeMap;

use crate::costs::{ClassCosts, Profile};
use crate::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
use crate::input_error::{Code, InputErrors};
use crate::problem::{ConstraintsSpec, ProblemSpec};

/// All networks side by side.
pub fn combine(specs: Vec<ProblemSpec>) -> Result<ProblemSpec, InputErrors> {
    let mut errors = InputErrors::default();
    let names = names(&specs);
    let mut all = ProblemSpec::default();
    all.graph.name = names.join(" + ");
    all.graph.precision = same(&specs, |spec| &spec.graph.precision, "precision", &mut errors);
    all.hardware = same(&specs, |spec| &spec.hardware, "hardware", &mut errors);
    all.objective = same(&specs, |spec| &spec.objective, "objective", &mut errors);
    all.constraints.input_at = same(&specs, |spec| &spec.constraints.input_at, "input_at", &mut errors);
    all.constraints.output_at = same(&specs, |spec| &spec.constraints.output_at, "output_at", &mut errors);
    let rules = specs.iter().map(|spec| spec.constraints.memory_rule);
    all.constraints.memory_rule = rules.clone().next().unwrap_or_default();
    if rules.clone().any(|rule| rule != all.constraints.memory_rule) {
        errors.add(Code::Contradiction, "memory_rule", "the networks differ in it", "give them the same");
    }
    all.profile = profiles(&specs);
    for (spec, name) in specs.into_iter().zip(&names) {
        add_constraints(&mut all.constraints, spec.constraints, name);
        add_graph(&mut all.graph, spec.graph, name);
    }
    errors.into_result(all)
}

/// Distinct names: a second network of the same name is numbered.
fn names(specs: &[ProblemSpec]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for spec in specs {
        let own = if spec.graph.name.is_empty() { "network" } else { &spec.graph.name };
        let numbered = (2..).map(|number| format!("{own}-{number}"));
        let free = [own.to_owned()].into_iter().chain(numbered).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

/// The value on which all networks that have one agree; none if none has one.
fn same<T: Clone + PartialEq>(
    specs: &[ProblemSpec],
    get: impl Fn(&ProblemSpec) -> &Option<T>,
    what: &str,
    errors: &mut InputErrors,
) -> Option<T> {
    let mut said = specs.iter().filter_map(|spec| get(spec).as_ref());
    let first = said.next()?;
    if said.any(|other| other != first) {
        let fix = "give the networks the same, or leave it out of all but one";
        errors.add(Code::Contradiction, what, "the networks differ in it", fix);
    }
    Some(first.clone())
}

fn profiles(specs: &[ProblemSpec]) -> Profile {
    let mut classes: Vec<ClassCosts> = Vec::new();
    for class in specs.iter().flat_map(|spec| &spec.profile.classes) {
        if classes.iter().any(|known| known.class == class.class) {
            continue;
        }
        let of = |spec: &ProblemSpec| spec.profile.classes.iter().find(|c| c.class == class.class).cloned();
        let each: Vec<Option<ClassCosts>> = specs.iter().map(of).collect();
        let has = |size: u32| each.iter().flatten().all(|one| one.batch_sizes.contains(&size));
        let batch_sizes: Vec<u32> = class.batch_sizes.iter().copied().filter(|&size| has(size)).collect();
        let costs = |&size: &u32| {
            let list = |(one, spec): (&Option<ClassCosts>, &ProblemSpec)| match one {
                Some(one) => one.at(size).map_or_else(Vec::new, <[_]>::to_vec),
                None => vec![None; spec.graph.ops.len()],
            };
            each.iter().zip(specs).flat_map(list).collect()
        };
        let costs = batch_sizes.iter().map(costs).collect();
        classes.push(ClassCosts { class: class.class.clone(), batch_sizes, costs });
    }
    Profile { classes, ..Profile::default() }
}

fn add_constraints(all: &mut ConstraintsSpec, own: ConstraintsSpec, name: &str) {
    let renamed = |op: &String| format!("{name}/{op}");
    all.pin.extend(own.pin.iter().map(|(op, device)| (renamed(op), device.clone())));
    all.forbid.extend(own.forbid.iter().map(|(op, devices)| (renamed(op), devices.clone())));
    all.colocate.extend(own.colocate.iter().map(|group| group.iter().map(renamed).collect::<Vec<_>>()));
    let limits: BTreeMap<String, u64> = own.memory_limit;
    for (device, bytes) in limits {
        let known = all.memory_limit.entry(device).or_insert(bytes);
        *known = bytes.min(*known);
    }
    all.min_splits = all.min_splits.max(own.min_splits);
    all.max_splits = all.max_splits.into_iter().chain(own.max_splits).min();
    all.replicate |= own.replicate;
}

fn add_graph(all: &mut GraphSpec, own: GraphSpec, name: &str) {
    let first = all.ops.len() as u32;
    let renamed = |own: String| format!("{name}/{own}");
    let moved = |ops: Vec<u32>| ops.into_iter().map(|op| op + first).collect::<Vec<_>>();
    // Modules are numbered on, so that those of two networks stay apart.
    let modules = all.ops.iter().filter_map(|op| op.module).max().map_or(0, |last| last + 1);
    all.ops.extend(own.ops.into_iter().map(|op| OpSpec {
        name: renamed(op.name),
        module: op.module.map(|module| module + modules),
        members: op.members.into_iter().map(renamed).collect(),
        ..op
    }));
    all.tensors.extend(own.tensors.into_iter().map(|tensor| TensorSpec {
        name: renamed(tensor.name),
        producer: tensor.producer.map(|op| op + first),
        consumers: moved(tensor.consumers),
        ..tensor
    }));
    all.params.extend(own.params.into_iter().map(|param| ParamSpec {
        name: renamed(param.name),
        readers: moved(param.readers),
        ..param
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{TransformerOptions, gpt};
    use crate::graph::Graph;

    fn small() -> ProblemSpec {
        gpt(&TransformerOptions { layers: Some(2), ..TransformerOptions::default() }).unwrap()
    }

    #[test]
    fn both_networks_are_complete_and_apart() {
        let one = Graph::new(small().graph).unwrap();
        let both = combine(vec![small(), small()]).unwrap();
        assert!(both.graph.name.contains(" + "));
        let both = Graph::new(both.graph).unwrap();
        assert_eq!(both.op_count(), 2 * one.op_count());
        assert_eq!(both.params().count(), 2 * one.params().count());
        let half = one.op_count();
        for op in both.ops() {
            let apart = both.successors(op).all(|next| (next.index() < half) == (op.index() < half));
            assert!(apart, "{}", both.op_name(op));
        }
    }

    #[test]
    fn networks_that_contradict_each_other_are_refused() {
        let mut other = small();
        other.graph.precision = Some("int8".to_owned());
        let errors = combine(vec![small(), other]).unwrap_err();
        assert!(errors.to_string().contains("precision"), "{errors}");
    }
}
