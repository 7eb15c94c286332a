//! From a plan and its model to a program: pieces, devices with their cores, links, inputs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use divvy_core::hardware::DeviceKind;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::input_error::{Code, InputError};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::score::Score;
use divvy_exec::backend::StageModel;
use divvy_exec::cores::Cores;
use divvy_exec::npy;
use divvy_exec::program::{DeviceSpec, LinkSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Element, HostTensor};
use divvy_io::onnx::cut::{CutPiece, cut};
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::import::op_names;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::pieces::{self, Cutting};
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::onnx::symbolic::Outlines;
use divvy_io::onnx::weights::bring_in;
use divvy_io::plan_file::PlanFile;
use prost::Message;

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
    /// The model in one piece, on all cores of the plan's devices.
    pub(super) whole: ProgramSpec,
    /// For each stage, the ops of the problem in it.
    pub(super) ops: Vec<Vec<OpId>>,
    /// For each device of the program, the device of the problem.
    pub(super) devices: Vec<DeviceId>,
    /// For each node of the model, its op.
    pub(super) op_of_node: Vec<Option<OpId>>,
    pub(super) inputs: Vec<Input>,
    pub(super) warnings: Vec<String>,
}

fn fault(path: &str, message: impl Into<String>, fix: &str) -> Failure {
    Failure::Input(path.to_owned(), InputError::new(Code::Contradiction, "run", message, fix).into())
}

pub(super) fn prepare(args: &RunArgs, plan: &PlanFile) -> Result<Prepared, Failure> {
    let verdict = plan.check().map_err(|violations| {
        let first = violations.first().map_or(String::new(), ToString::to_string);
        fault(&args.plan, format!("the plan is not valid: {first}"), "plan anew")
    })?;
    let cutting = match &plan.plan {
        Plan::Latency(_) => Cutting::Prompt,
        Plan::Pipeline(_) | Plan::Stream(_) => Cutting::Fewest,
        other => {
            let message = format!("a {} plan cannot be run yet", other.objective_name());
            return Err(fault(&args.plan, message, "run a latency, pipeline or stream plan"));
        }
    };
    let (path, mut model) = model_of_plan(args.model.as_deref(), &args.plan, plan)?;
    let mut warnings = Vec::new();
    fill_weights(&mut model, &path, args.seed, &mut warnings)?;
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let facts = infer(&model, &plan.reading.dims);
    let fixed = FixedShapes::new(graph, &plan.reading.dims, &facts);
    let pieces = pieces::pieces(&plan.problem, &plan.plan, graph, &fixed, cutting)
        .map_err(|reason| fault(&args.plan, reason, "run a latency, pipeline or stream plan"))?;
    let outlines = Outlines::new(&model, &plan.reading.dims, &facts);
    let cut_up = |model: Model| {
        cut(&fixed.write_down(model, &pieces), &pieces, &outlines)
            .map_err(|error| fault(&path, error.to_string(), "choose another plan"))
    };
    let devices = used_devices(&plan.plan, &plan.problem);
    let specs = device_specs(args, &plan.problem, &devices, &mut warnings)?;
    let inputs =
        inputs_of(graph, &facts.values.iter().map(|(k, v)| (k.as_str(), (v.element, &v.shape))).collect());
    let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
    let base = ProgramSpec {
        links: links(&plan.problem, &devices),
        inputs: inputs.iter().map(|input| input.name.clone()).collect(),
        results,
        in_order: cutting == Cutting::Prompt,
        devices: specs,
        stages: Vec::new(),
    };
    let with = |cut: Vec<CutPiece>| {
        let stages = cut.into_iter().filter(|piece| !piece.outputs.is_empty());
        ProgramSpec { stages: stages.map(|piece| stage(piece, &base)).collect(), ..base.clone() }
    };
    let op_of_node = ops_of_nodes(&plan.problem, graph);
    let spec = with(cut_up(model.clone())?);
    let marked = with(cut_up(marked(model.clone()))?);
    let names: HashMap<&str, usize> = pieces.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
    let ops_in = |stage: &StageSpec| -> Vec<OpId> {
        let nodes = names.get(stage.model.name.as_str()).map_or(&[][..], |&piece| &pieces[piece].nodes);
        let mut seen = HashSet::new();
        nodes.iter().filter_map(|&node| op_of_node[node]).filter(|op| seen.insert(*op)).collect()
    };
    let ops = spec.stages.iter().map(ops_in).collect();
    let whole = whole(&model, &base);
    Ok(Prepared {
        problem: plan.problem.clone(),
        score: verdict.score,
        is_stream: cutting == Cutting::Fewest,
        spec,
        marked,
        whole,
        ops,
        devices,
        op_of_node,
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
    cores(&args.cores, &names, warnings)
}

/// The cores of devices by name.
pub(in crate::commands) fn cores(
    asked: &[String],
    names: &[&str],
    warnings: &mut Vec<String>,
) -> Result<Vec<DeviceSpec>, Failure> {
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
    let specs: Vec<DeviceSpec> = names
        .iter()
        .zip(share)
        .map(|(&name, share)| DeviceSpec {
            name: name.to_owned(),
            cores: given.get(name).cloned().unwrap_or(share),
        })
        .collect();
    for (i, one) in specs.iter().enumerate() {
        if let Some(other) = specs[..i].iter().find(|other| other.cores.overlap(&one.cores)) {
            warnings.push(format!(
                "`{}` and `{}` share cores, so they slow each other down",
                other.name, one.name
            ));
        }
    }
    Ok(specs)
}

/// A link for each pair of devices that do not share a memory.
fn links(problem: &Problem, devices: &[DeviceId]) -> Vec<LinkSpec> {
    let mut links = Vec::new();
    for (from, &one) in devices.iter().enumerate() {
        for (to, &other) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            let route = problem.hardware.route(one, other).filter(|route| route.bandwidth.is_some());
            if let Some(&link) = route.and_then(|route| route.links.first()) {
                let name = problem.hardware.links()[link.index()].name.clone();
                links.push(LinkSpec { name, from, to });
            }
        }
    }
    links
}

fn stage(piece: CutPiece, base: &ProgramSpec) -> StageSpec {
    let device = base.devices.iter().position(|device| device.name == piece.device).unwrap_or(0);
    let bytes = piece.model.encode_to_vec();
    StageSpec {
        model: StageModel { name: piece.name, bytes, inputs: piece.inputs, outputs: piece.outputs },
        device,
    }
}

/// The model in one piece, on every core that may be used.
fn whole(model: &Model, base: &ProgramSpec) -> ProgramSpec {
    let model = StageModel {
        name: "whole model".into(),
        bytes: model.encode_to_vec(),
        inputs: base.inputs.clone(),
        outputs: base.results.clone(),
    };
    let device = DeviceSpec { name: "all cores".into(), cores: Cores::allowed() };
    let (devices, stages) = (vec![device], vec![StageSpec { model, device: 0 }]);
    ProgramSpec { devices, stages, links: Vec::new(), in_order: false, ..base.clone() }
}

/// Every node named by its position.
pub(in crate::commands) fn marked(mut model: Model) -> Model {
    let nodes = model.graph.iter_mut().flat_map(|graph| &mut graph.node).enumerate();
    nodes.for_each(|(i, node)| node.name = Some(format!("node<{i}>")));
    model
}

/// The position in a name that [`marked`] gave, or that a runtime made from one.
pub(in crate::commands) fn marked_node(name: &str) -> Option<usize> {
    name.split_once("node<")?.1.split_once('>')?.0.parse().ok()
}

/// For each node, the op that it is or was folded into.
pub(in crate::commands) fn ops_of_nodes(problem: &Problem, graph: &Graph) -> Vec<Option<OpId>> {
    let mut by_name: HashMap<&str, OpId> = HashMap::new();
    for op in problem.graph.ops() {
        let spec = problem.graph.op(op);
        by_name.extend(std::iter::once(&spec.name).chain(&spec.members).map(|name| (name.as_str(), op)));
    }
    op_names(graph).iter().map(|name| by_name.get(name.as_str()).copied()).collect()
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

/// Sets of inputs: one from files, or several that are random.
pub(super) fn inputs(
    args: &RunArgs,
    prepared: &Prepared,
    random: u64,
) -> Result<Vec<Vec<HostTensor>>, Failure> {
    if args.input.is_empty() {
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
        check_input(input, &array)?;
        Ok(array)
    };
    Ok(vec![prepared.inputs.iter().map(take).collect::<Result<_, Failure>>()?])
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
