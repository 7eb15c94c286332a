//! Plans that tests of exporters share.

use divvy_core::check::check;
use divvy_core::generate::{TransformerOptions, gpt};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{Plan, StreamPlan};
use divvy_core::problem::{Objective, Problem, ProblemSpec};
use divvy_core::score::Score;

use crate::file::load;
use crate::import::import_problem;
use crate::plan_file::PlanFile;
use crate::{hardware_source, presets};

/// A valid plan file of the command's tests, and its score.
pub(crate) fn plan(name: &str) -> (PlanFile, Score) {
    let path = format!("{}/../cli/tests/plans/valid/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = PlanFile::read(&load(&path).unwrap()).unwrap();
    let score = file.check().unwrap().score;
    (file, score)
}

/// A small GPT of `layers` layers on four V100s, as a stream; `device_of` places each op by its name.
pub(crate) fn transformer(layers: u32, device_of: impl Fn(&str) -> &'static str) -> (Problem, Plan) {
    stream(small_gpt(layers), "dgx-v100", device_of)
}

fn small_gpt(layers: u32) -> ProblemSpec {
    let options = TransformerOptions {
        layers: Some(layers),
        hidden: Some(64),
        heads: Some(4),
        vocabulary: Some(1000),
        ..TransformerOptions::default()
    };
    gpt(&options).unwrap()
}

/// A bundled model as a stream, all of it on one device.
pub(super) fn model(name: &str, hardware: &str, device: &'static str) -> (Problem, Plan) {
    let path = format!("{}/../models/{name}", env!("CARGO_MANIFEST_DIR"));
    stream(import_problem(&load(&path).unwrap()).unwrap(), hardware, |_| device)
}

/// Two modules, the second merged with the addition of a shortcut.
pub(super) fn shortcut(device_of: impl Fn(&str) -> &'static str) -> (Problem, Plan) {
    let op = |name: &str, members: &[&str]| OpSpec {
        name: name.to_owned(),
        flops: Some(1000),
        members: members.iter().map(|&member| member.to_owned()).collect(),
        ..OpSpec::default()
    };
    let tensor = |name: &str| TensorSpec {
        name: name.to_owned(),
        bytes: 4000,
        producer: Some(0),
        consumers: vec![1],
        output: false,
    };
    let param = |name: &str, reader| ParamSpec { name: name.to_owned(), bytes: 4000, readers: vec![reader] };
    let graph = GraphSpec {
        name: "shortcut".to_owned(),
        ops: vec![op("first", &[]), op("second", &["plus"])],
        tensors: vec![tensor("inner"), tensor("around")],
        params: vec![param("block.first.weight", 0), param("block.second.weight", 1)],
        ..GraphSpec::default()
    };
    stream(ProblemSpec { graph, ..ProblemSpec::default() }, "dgx-v100", device_of)
}

fn stream(spec: ProblemSpec, hardware: &str, device_of: impl Fn(&str) -> &'static str) -> (Problem, Plan) {
    let (hardware, _) = hardware_source::find(hardware).unwrap();
    let graph = Graph::new(spec.graph).unwrap();
    let (catalogue, objective) = (presets::catalogue(), Objective::Stream);
    let problem =
        Problem::new(graph, &spec.profile, hardware, &catalogue, objective, &spec.constraints).unwrap();
    let place = |op: OpId| -> DeviceId {
        let name = device_of(problem.graph.op_name(op));
        problem.hardware.device_named(name).unwrap_or_else(|| panic!("there is no device {name}"))
    };
    let plan = Plan::Stream(StreamPlan { device_of: problem.graph.ops().map(place).collect() });
    check(&problem, &plan).unwrap();
    (problem, plan)
}

/// The layer in an op's name.
pub(super) fn layer(name: &str) -> Option<u32> {
    name.strip_prefix('h')?.split('.').next()?.parse().ok()
}
