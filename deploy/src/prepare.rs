//! From a plan and its model to a program: pieces, devices with their cores, links, inputs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use divvy_core::hardware::DeviceKind;
use divvy_core::ids::DeviceId;
use divvy_core::input_error::{Code, InputError};
use divvy_core::plan::Plan;
use divvy_core::problem::{Objective, Problem};
use divvy_core::rng::Rng;
use divvy_core::score::Score;
use divvy_exec::backend::StageModel;
use divvy_exec::cores::Cores;
use divvy_exec::npy;
use divvy_exec::program::{DeviceSpec, LinkSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Element, HostTensor};
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::pieces::Cutting;
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::onnx::quicker::quicker;
use divvy_io::onnx::weights::bring_in;
use divvy_io::plan_file::PlanFile;
use prost::Message;

use super::groups::Share;
use super::kernels::Owners;
use super::stages::{self, Source, Work};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::model_of_plan::model_of_plan;

/// An input of the model: its name, and element type and shape where they are known.
pub(in crate::commands) struct Input {
    pub(in crate::commands) name: String,
    element: i32,
    shape: Option<Vec<u64>>,
}

/// Everything that a run needs.
pub(super) struct Prepared {
    pub(super) problem: Problem,
    pub(super) score: Score,
    /// Whether items follow each other: a pipeline or a stream.
    pub(super) is_stream: bool,
    pub(super) spec: ProgramSpec,
    /// The same with every node named by its position, so that kernels can be told apart.
    pub(super) marked: ProgramSpec,
    /// The model in one piece on all cores, as it was profiled.
    pub(super) whole: ProgramSpec,
    /// The same as its file has it, where results are to be compared.
    pub(super) untouched: Option<ProgramSpec>,
    /// For each stage, what it does.
    pub(super) work: Vec<Work>,
    /// How many inputs an item has.
    pub(super) together: usize,
    /// For each input of the program, what it is of the item.
    pub(super) fed: Vec<Share>,
    /// For each result of the program, what it is of the item.
    pub(super) given: Vec<Share>,
    /// For each device of the program, the device of the problem.
    pub(super) devices: Vec<DeviceId>,
    /// Sizes of values, for one input.
    pub(super) bytes: HashMap<String, u64>,
    /// Where kernels belong.
    pub(super) owners: Owners,
    pub(super) inputs: Vec<Input>,
    pub(super) warnings: Vec<String>,
}

/// What to do with a plan that cannot be run.
pub(super) const RUNNABLE: &str = "run a latency, batch, pipeline or stream plan that can be cut";

pub(super) fn fault(path: &str, message: impl Into<String>, fix: &str) -> Failure {
    Failure::Input(path.to_owned(), InputError::new(Code::Contradiction, "run", message, fix).into())
}

pub(super) fn prepare(args: &RunArgs, plan: &PlanFile) -> Result<Prepared, Failure> {
    let verdict = plan.check().map_err(|violations| {
        let first = violations.first().map_or(String::new(), ToString::to_string);
        fault(&args.plan, format!("the plan is not valid: {first}"), "plan anew")
    })?;
    let cutting = match &plan.plan {
        Plan::Latency(_) | Plan::Batch(_) => Cutting::Prompt,
        Plan::Pipeline(_) | Plan::Stream(_) => Cutting::Fewest,
        Plan::ColdStart(_) => {
            let message = "a cold-start plan moves weights between devices, which CPU cores do not";
            return Err(fault(&args.plan, message, RUNNABLE));
        }
    };
    let (path, mut model) = model_of_plan(args.model.as_deref(), &args.plan, plan)?;
    let mut warnings = Vec::new();
    fill_weights(&mut model, &path, args.seed, &mut warnings)?;
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let facts = infer(&model, &plan.reading.dims);
    let devices = used_devices(&plan.plan, &plan.problem);
    let specs = device_specs(args, &plan.problem, &devices, &mut warnings)?;
    let inputs =
        inputs_of(graph, &facts.values.iter().map(|(k, v)| (k.as_str(), (v.element, &v.shape))).collect());
    let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
    let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
    let owners = Owners::new(&plan.problem, graph);
    let source = Source {
        plan_path: &args.plan,
        plan,
        path: &path,
        model: &model,
        inputs: &names,
        results: &results,
        devices: &specs,
        owners: &owners,
    };
    let stages = match &plan.plan {
        Plan::Batch(batch) => stages::of_groups(&source, batch)?,
        _ => stages::of_one(&source, cutting)?,
    };
    let untouched = args.verify.then(|| whole(&model, &names, &results));
    let whole = whole(&quicker(model), &names, &results);
    let share_names = |shares: &[Share]| shares.iter().map(|share| share.name.clone()).collect();
    let spec = ProgramSpec {
        links: links(&plan.problem, &devices),
        inputs: share_names(&stages.inputs),
        results: share_names(&stages.results),
        in_order: cutting == Cutting::Prompt && stages.groups == 1,
        devices: specs,
        stages: stages.plain,
    };
    let together = match plan.problem.objective {
        Objective::Batch { inputs } => inputs as usize,
        _ => 1,
    };
    Ok(Prepared {
        problem: plan.problem.clone(),
        score: verdict.score,
        is_stream: cutting == Cutting::Fewest,
        marked: ProgramSpec { stages: stages.marked, ..spec.clone() },
        spec,
        whole,
        untouched,
        work: stages.work,
        together,
        fed: stages.inputs,
        given: stages.results,
        devices,
        bytes: facts.values.iter().filter_map(|(name, fact)| Some((name.clone(), fact.bytes()?))).collect(),
        owners,
        inputs,
        warnings,
    })
}

/// Brings weights into the model; what is missing is made up, and said.
pub(in crate::commands) fn fill_weights(
    model: &mut Model,
    path: &str,
    seed: u64,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let made_up =
        bring_in(model, folder, seed).map_err(|error| Failure::Environment(format!("{path}: {error}")))?;
    if let Some(first) = made_up.first() {
        let count = made_up.len();
        warnings.push(format!(
            "{count} weights, such as `{first}`, are in files that are not there; random ones take their place, so times \
             mean something and results do not"
        ));
    }
    Ok(())
}

/// The devices that a plan uses, in the order of the problem.
fn used_devices(plan: &Plan, problem: &Problem) -> Vec<DeviceId> {
    let used: HashSet<DeviceId> = plan.placements().into_iter().map(|(_, device, _)| device).collect();
    problem.hardware.devices().filter(|device| used.contains(device)).collect()
}

/// Cores for each device: as asked for, else an equal share of what this process may use.
fn device_specs(
    args: &RunArgs,
    problem: &Problem,
    devices: &[DeviceId],
    warnings: &mut Vec<String>,
) -> Result<Vec<DeviceSpec>, Failure> {
    let names: Vec<&str> = devices.iter().map(|&device| problem.hardware.device_name(device)).collect();
    let foreign = devices.iter().filter(|&&d| problem.hardware.class(d).kind != DeviceKind::Cpu);
    for &device in foreign {
        let name = problem.hardware.device_name(device);
        warnings.push(format!(
            "`{name}` is no CPU; its part runs on CPU cores, so its times are not those predicted"
        ));
    }
    // Every device of the hardware has its share, whether or not the plan uses it, as when it was profiled.
    let all: Vec<&str> = problem.hardware.devices().map(|d| problem.hardware.device_name(d)).collect();
    let mut specs = cores(&args.cores, &all)?;
    specs.retain(|spec| names.contains(&spec.name.as_str()));
    warn_of_shared_cores(&specs, warnings);
    Ok(specs)
}

/// The cores of devices by name.
pub(in crate::commands) fn cores(asked: &[String], names: &[&str]) -> Result<Vec<DeviceSpec>, Failure> {
    let allowed = Cores::allowed();
    let mut given: BTreeMap<&str, Cores> = BTreeMap::new();
    for text in asked {
        let fault = |message: String| Failure::option("--cores", message, "write --cores cpu1=0,2-3, say");
        let (name, list) =
            text.split_once('=').ok_or_else(|| fault(format!("`{text}` is not of the form DEVICE=CORES")))?;
        if !names.contains(&name) {
            let known = names.join(", ");
            return Err(fault(format!("there is no device `{name}`; there are {known}")));
        }
        let cores: Cores = list.parse().map_err(fault)?;
        if !cores.are_within(&allowed) {
            return Err(fault(format!("cores {cores} are not all among those that may be used, {allowed}")));
        }
        given.insert(name, cores);
    }
    let share = allowed.divided(names.len().max(1));
    let specs = names.iter().zip(share).map(|(&name, share)| DeviceSpec {
        name: name.to_owned(),
        cores: given.get(name).cloned().unwrap_or(share),
    });
    Ok(specs.collect())
}

fn warn_of_shared_cores(specs: &[DeviceSpec], warnings: &mut Vec<String>) {
    for (i, one) in specs.iter().enumerate() {
        if let Some(other) = specs[..i].iter().find(|other| other.cores.overlap(&one.cores)) {
            warnings.push(format!(
                "`{}` and `{}` share cores, so they slow each other down",
                other.name, one.name
            ));
        }
    }
}

/// Whether two devices are CPUs of one node: nothing has to be copied between them, whatever a cut there costs.
pub(in crate::commands) fn in_one_memory(problem: &Problem, a: DeviceId, b: DeviceId) -> bool {
    let hardware = &problem.hardware;
    let is_cpu = |device| hardware.class(device).kind == DeviceKind::Cpu;
    let node = &hardware.device(a).node;
    is_cpu(a) && is_cpu(b) && node.is_some() && *node == hardware.device(b).node
}

/// A link for each pair of devices that do not share a memory.
fn links(problem: &Problem, devices: &[DeviceId]) -> Vec<LinkSpec> {
    let mut links = Vec::new();
    for (from, &one) in devices.iter().enumerate() {
        for (to, &other) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            if in_one_memory(problem, one, other) {
                continue;
            }
            let route = problem.hardware.route(one, other).filter(|route| route.bandwidth.is_some());
            if let Some(&link) = route.and_then(|route| route.links.first()) {
                let name = problem.hardware.links()[link.index()].name.clone();
                links.push(LinkSpec { name, from, to });
            }
        }
    }
    links
}

/// The model in one piece, on every core that may be used.
fn whole(model: &Model, inputs: &[String], results: &[String]) -> ProgramSpec {
    let (inputs, results) = (inputs.to_vec(), results.to_vec());
    let model = StageModel {
        name: "whole model".into(),
        bytes: model.encode_to_vec(),
        inputs: inputs.clone(),
        outputs: results.clone(),
    };
    let device = DeviceSpec { name: "all cores".into(), cores: Cores::allowed() };
    let (devices, stages) = (vec![device], vec![StageSpec::new(model, 0)]);
    ProgramSpec { devices, stages, inputs, results, ..ProgramSpec::default() }
}

/// What the model must be given.
pub(in crate::commands) fn inputs_of(
    graph: &Graph,
    facts: &HashMap<&str, (i32, &Option<Vec<u64>>)>,
) -> Vec<Input> {
    let weights: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let given = graph.input.iter().filter(|input| !weights.contains(input.name()));
    given
        .map(|input| {
            let fact = facts.get(input.name());
            let (element, shape) = fact.map_or((0, None), |(element, shape)| (*element, (*shape).clone()));
            Input { name: input.name().to_owned(), element, shape }
        })
        .collect()
}

/// Inputs of the model for one: as many as an item of a batch plan has, else one from files or several that are random.
pub(super) fn inputs(
    args: &RunArgs,
    prepared: &Prepared,
    random: u64,
) -> Result<Vec<Vec<HostTensor>>, Failure> {
    let together = prepared.together;
    if args.input.is_empty() {
        let random = if together > 1 { together as u64 } else { random };
        return (0..random)
            .map(|set| random_inputs(&prepared.inputs, args.seed + set, args.int_below))
            .collect();
    }
    let mut given: HashMap<String, HostTensor> = HashMap::new();
    for path in &args.input {
        for (name, array) in npy::read(path).map_err(Failure::Environment)? {
            // An .npy file has no names; its own counts, unless there is only one input.
            let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = match prepared.inputs.as_slice() {
                [only] if name.is_empty() => only.name.clone(),
                _ if name.is_empty() => stem(),
                _ => name,
            };
            given.insert(name, array);
        }
    }
    let known: Vec<&str> = prepared.inputs.iter().map(|input| input.name.as_str()).collect();
    if let Some(stranger) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("the model has no input `{stranger}`; it has {}", known.join(", "));
        return Err(Failure::option("--input", message, "name the arrays like the model's inputs"));
    }
    let take = |input: &Input| {
        let array = given.remove(&input.name).ok_or_else(|| {
            let message = format!("there is nothing for input `{}`", input.name);
            Failure::option("--input", message, "give an .npz file with an array for each input")
        })?;
        // An array for several inputs has them one after another.
        let parts: Option<Vec<HostTensor>> = (0..together)
            .map(|i| if together > 1 { array.part(i, together) } else { Some(array.clone()) })
            .collect();
        let parts = parts.ok_or_else(|| {
            let message = format!("`{}` does not divide into {together} inputs", input.name);
            Failure::option("--input", message, "give the inputs one after another along the first dimension")
        })?;
        parts.iter().try_for_each(|part| check_input(input, part))?;
        Ok(parts)
    };
    let by_name: Vec<Vec<HostTensor>> = prepared.inputs.iter().map(take).collect::<Result<_, Failure>>()?;
    Ok((0..together).map(|i| by_name.iter().map(|parts| parts[i].clone()).collect()).collect())
}

fn check_input(input: &Input, array: &HostTensor) -> Result<(), Failure> {
    let name = &input.name;
    let wanted =
        input.shape.as_ref().map(|shape| shape.iter().map(|&size| size as usize).collect::<Vec<_>>());
    if let Some(wanted) = wanted.filter(|wanted| *wanted != array.shape) {
        let message = format!("`{name}` has the shape {:?}, the plan was made for {wanted:?}", array.shape);
        return Err(Failure::option("--input", message, "give it in that shape, or plan anew with --dim"));
    }
    if let Some(element) = Element::of_onnx(input.element).filter(|&element| element != array.element()) {
        let message = format!("`{name}` has elements of {:?}, the model wants {element:?}", array.element());
        return Err(Failure::option("--input", message, "convert it, with numpy's astype, say"));
    }
    Ok(())
}

/// Seeded random values for every input.
pub(in crate::commands) fn random_inputs(
    inputs: &[Input],
    seed: u64,
    below: u64,
) -> Result<Vec<HostTensor>, Failure> {
    let mut rng = Rng::new(seed);
    let make = |input: &Input| {
        let name = &input.name;
        let unknown = |what: &str, fix: &str| {
            Failure::option("--input", format!("{what} of input `{name}` cannot be made up"), fix)
        };
        let element = Element::of_onnx(input.element)
            .ok_or_else(|| unknown("the element type", "give the inputs as an .npz file"))?;
        let shape =
            input.shape.as_ref().ok_or_else(|| unknown("the shape", "set symbolic dimensions with --dim"))?;
        let shape = shape.iter().map(|&size| size as usize).collect();
        Ok(HostTensor::random(element, shape, below, &mut || rng.unit()))
    };
    inputs.iter().map(make).collect()
}
