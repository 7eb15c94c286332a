//! `device-map`: which device has which module, as Hugging Face Accelerate wants it.
//!
//! The map goes from names of modules to devices: numbers for accelerators, in the order of the hardware, and `"cpu"`. It
//! holds the highest modules that are on one device as a whole. Accelerate moves the inputs of every module in the map to
//! its device; an op that is no module of its own (an addition between two modules, a softmax) then runs where its inputs
//! are. So a plan can be told only if
//!
//! * every parameter is named by a dotted path, so that there are modules,
//! * all parameters of a module's own are on one device, and
//! * every op without parameters whose module is divided over devices runs where all that it reads was made; so does every
//!   merged op that reads several tensors, unless the map has a module around it.
//!
//! Otherwise it is refused with the module or op in the way.

use std::collections::BTreeMap;

use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use serde_json::{Map, Value, json};

use super::{Refusal, accelerator_number, name, one_device_each};

/// A module: its own devices, with an op on each, and the modules in it.
#[derive(Default)]
struct Module<'p> {
    /// Devices of its own parameters and of everything inside, each with the name of something there.
    devices: BTreeMap<DeviceId, &'p str>,
    /// Devices of its own parameters alone.
    own: BTreeMap<DeviceId, &'p str>,
    inside: BTreeMap<&'p str, Module<'p>>,
}

/// The device map of a plan as one JSON object.
pub fn device_map(problem: &Problem, plan: &Plan) -> Result<String, Refusal> {
    let device_of = one_device_each(problem, plan, "a device map")?;
    check_one_machine(problem, &device_of)?;
    let mut root = Module::default();
    for param in problem.graph.params() {
        let path = problem.graph.param_name(param);
        if !path.contains('.') || is_of_a_trace(problem, param) {
            let message = format!("the parameter `{path}` is not named by the dotted path of its module");
            let fix = "plan an ONNX model exported from PyTorch, which keeps such names, or export csv";
            return Err(Refusal::new(message, fix));
        }
        for reader in problem.graph.readers(param) {
            root.add(path, device_of[reader.index()], name(problem, *reader));
        }
    }
    if root.inside.is_empty() {
        let fix = "plan a model with weights, or export csv";
        return Err(Refusal::new("the network has no parameters, so there are no modules to place", fix));
    }
    let mut map = Map::new();
    root.describe(problem, "", &mut map)?;
    for op in problem.graph.ops() {
        if problem.graph.params_of(op).is_empty() {
            check_free_op(problem, op, &device_of, &map)?;
        } else if !problem.graph.op(op).members.is_empty() {
            check_merged_op(problem, op, &device_of, &map)?;
        }
    }
    Ok(format!("{}\n", serde_json::to_string_pretty(&Value::Object(map)).expect("plain data")))
}

/// Whether a parameter stands for all parameters of an op in a trace, whose name is the module's path with its dots lost.
fn is_of_a_trace(problem: &Problem, param: ParamId) -> bool {
    let Some(node) = problem.graph.param_name(param).strip_suffix(".params") else { return false };
    problem.graph.readers(param).iter().any(|&op| {
        let spec = problem.graph.op(op);
        spec.name == node || spec.members.iter().any(|member| member == node)
    })
}

/// How Accelerate calls a device.
fn called(problem: &Problem, device: DeviceId) -> Value {
    accelerator_number(problem, device).map_or(json!("cpu"), |number| json!(number))
}

fn check_one_machine(problem: &Problem, device_of: &[DeviceId]) -> Result<(), Refusal> {
    let node = |device: DeviceId| problem.hardware.device(device).node.as_deref();
    let mut used: Vec<DeviceId> = device_of.to_vec();
    used.sort_unstable();
    used.dedup();
    match used.iter().find(|&&device| node(device) != node(used[0])) {
        None => Ok(()),
        Some(&other) => {
            let [one, other] = [used[0], other].map(|device| problem.hardware.device_name(device));
            let message =
                format!("`{one}` and `{other}` are in different machines, and a device map is about one");
            Err(Refusal::new(message, "plan on the devices of one machine, or export csv"))
        }
    }
}

impl<'p> Module<'p> {
    /// Notes that a parameter is on a device; the last part of its path is its own name.
    fn add(&mut self, path: &'p str, device: DeviceId, by: &'p str) {
        self.devices.entry(device).or_insert(by);
        match path.split_once('.') {
            Some((module, rest)) => self.inside.entry(module).or_default().add(rest, device, by),
            None => {
                self.own.entry(device).or_insert(by);
            }
        }
    }

    /// Adds the highest modules that are on one device.
    fn describe(&self, problem: &Problem, path: &str, map: &mut Map<String, Value>) -> Result<(), Refusal> {
        if let (1, Some(&device)) = (self.devices.len(), self.devices.keys().next()) {
            map.insert(path.to_owned(), called(problem, device));
            return Ok(());
        }
        if !self.own.is_empty() {
            let mut places = self
                .devices
                .iter()
                .take(2)
                .map(|(&device, by)| format!("`{by}` on `{}`", problem.hardware.device_name(device)));
            let (one, other) = (places.next().unwrap_or_default(), places.next().unwrap_or_default());
            let message = format!("the module `{path}` has parameters on two devices: {one}, {other}");
            let fix = "pin these ops to one device, or plan with --granularity block";
            return Err(Refusal::new(message, fix));
        }
        for (part, module) in &self.inside {
            let path = if path.is_empty() { (*part).to_owned() } else { format!("{path}.{part}") };
            module.describe(problem, &path, map)?;
        }
        Ok(())
    }
}

/// An op without parameters runs with the module it is in, where that is on one device, else where its inputs are.
fn check_free_op(
    problem: &Problem,
    op: OpId,
    device_of: &[DeviceId],
    map: &Map<String, Value>,
) -> Result<(), Refusal> {
    let (path, here) = (name(problem, op), device_of[op.index()]);
    let inside = |(module, device): (&String, &Value)| {
        let within =
            module.is_empty() || path.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with('.'));
        within.then(|| device.clone())
    };
    let fix = "pin it to that device, or plan with --granularity block";
    if let Some(device) = map.iter().find_map(inside) {
        if device == called(problem, here) {
            return Ok(());
        }
        let message = format!(
            "`{path}` is on `{}`, but the module it is part of is on device {device} and takes it along",
            problem.hardware.device_name(here)
        );
        return Err(Refusal::new(message, fix));
    }
    let away = problem.graph.predecessors(op).find(|before| device_of[before.index()] != here);
    match away {
        None => Ok(()),
        Some(before) => {
            let message = format!(
                "`{path}` on `{}` is no module of its own, so it would run where its input `{}` is made: on `{}`",
                problem.hardware.device_name(here),
                name(problem, before),
                problem.hardware.device_name(device_of[before.index()])
            );
            Err(Refusal::new(message, fix))
        }
    }
}

/// A merged op may hold functions beside its module, such as the addition of a shortcut. Where the map has that module by
/// itself, and not one around it, only the module's own input is moved.
fn check_merged_op(
    problem: &Problem,
    op: OpId,
    device_of: &[DeviceId],
    map: &Map<String, Value>,
) -> Result<(), Refusal> {
    let here = device_of[op.index()];
    let away = problem.graph.predecessors(op).find(|before| device_of[before.index()] != here);
    let Some(before) = away.filter(|_| problem.graph.inputs(op).len() > 1) else { return Ok(()) };
    let by_itself = problem.graph.params_of(op).iter().find_map(|&param| {
        let (module, _) = problem.graph.param_name(param).rsplit_once('.')?;
        map.contains_key(module).then_some(module)
    });
    let Some(module) = by_itself else { return Ok(()) };
    let message = format!(
        "`{}` is more than its module `{module}`, and reads what `{}` makes on `{}`, which would not be moved to `{}`",
        name(problem, op),
        name(problem, before),
        problem.hardware.device_name(device_of[before.index()]),
        problem.hardware.device_name(here)
    );
    Err(Refusal::new(message, "plan with --granularity op or block"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans::{self, layer};

    fn exported(device_of: impl Fn(&str) -> &'static str) -> Result<Value, Refusal> {
        let (problem, plan) = test_plans::transformer(3, device_of);
        device_map(&problem, &plan).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn one_device_is_one_entry() {
        assert_eq!(exported(|_| "gpu2").unwrap(), json!({"": 1}));
    }

    /// The head is tied to the embedding, so both ends are on one device here.
    fn by_layer(name: &str) -> &'static str {
        match layer(name) {
            Some(1) => "gpu2",
            _ => "gpu1",
        }
    }

    #[test]
    fn whole_layers_are_entries_of_their_own() {
        let map = exported(by_layer).unwrap();
        assert_eq!(map, json!({"h0": 0, "h1": 1, "h2": 0, "ln_f": 0, "wpe": 0, "wte": 0}));
    }

    #[test]
    fn a_layer_that_is_divided_is_given_module_by_module_if_it_can_be() {
        // The residual addition would mix tensors of two devices.
        let place = |name: &str| if name == "h1.mlp.proj" { "gpu2" } else { "gpu1" };
        let refusal = exported(place).unwrap_err();
        assert!(refusal.message.contains("no module of its own"), "{refusal}");
        assert!(refusal.message.contains("`h1.mlp.proj` is made: on `gpu2`"), "{refusal}");
    }

    #[test]
    fn a_merged_op_beside_its_module_is_named() {
        let (problem, plan) = test_plans::shortcut(|name| if name == "second" { "gpu2" } else { "gpu1" });
        let refusal = device_map(&problem, &plan).unwrap_err();
        assert!(refusal.message.contains("`second` is more than its module `block.second`"), "{refusal}");
        let (problem, plan) = test_plans::shortcut(|_| "gpu2");
        assert_eq!(device_map(&problem, &plan), Ok("{\n  \"\": 1\n}\n".to_owned()));
    }

    #[test]
    fn a_parameter_on_two_devices_is_named() {
        let place = |name: &str| if name == "lm_head" { "gpu2" } else { "gpu1" };
        let refusal = exported(place).unwrap_err();
        assert!(refusal.message.contains("the module `wte` has parameters on two devices"), "{refusal}");
    }

    #[test]
    fn an_op_away_from_its_module_is_named() {
        let place = |name: &str| if name == "h1.attn.softmax" { "gpu2" } else { "gpu1" };
        let refusal = exported(place).unwrap_err();
        assert!(refusal.message.contains("`h1.attn.softmax` is on `gpu2`"), "{refusal}");
    }

    #[test]
    fn parameters_without_paths_are_refused() {
        let (problem, plan) = test_plans::model("googlenet.json.gz", "h200-cpu", "gpu");
        let refusal = device_map(&problem, &plan).unwrap_err();
        assert!(refusal.message.contains("dotted path"), "{refusal}");
    }
}
