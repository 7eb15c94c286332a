//! From files and options to a problem.

use std::collections::{BTreeMap, HashMap, HashSet};

use clap::ValueEnum;
use divvy_core::coarsen::{Granularity, coarsen};
use divvy_core::costs::{ClassCosts, Profile};
use divvy_core::graph::{Graph, GraphSpec};
use divvy_core::hardware::HardwareSpec;
use divvy_core::input_error::{Code, InputErrors};
use divvy_core::problem::{
    ConstraintsSpec, Contention, LinkUse, Objective, OwnHardware, Problem, ProblemSpec,
};
use divvy_io::plan_file::{ReadingOptions, Source};
use divvy_io::{file, import, presets};

use crate::args::{
    ContentionName, GranularityName, LinksName, ObjectiveName, ProblemArgs, ReadingArgs, Stages,
};
use crate::failure::Failure;

/// A problem and the files it came from.
pub(crate) struct Assembled {
    pub(crate) problem: Problem,
    pub(crate) sources: Vec<Source>,
    pub(crate) reading: ReadingOptions,
    pub(crate) warnings: Vec<String>,
}

/// A model as it was read.
pub(crate) struct Read {
    pub(crate) spec: ProblemSpec,
    pub(crate) sha256: String,
    pub(crate) reading: ReadingOptions,
    pub(crate) warnings: Vec<String>,
}

/// Reads a model; `more` are constraints by the names of its own ops, which coarsening carries over.
pub(crate) fn read(
    model: &str,
    args: &ReadingArgs,
    more: impl FnOnce(ConstraintsSpec) -> Result<ConstraintsSpec, Failure>,
) -> Result<Read, Failure> {
    let loaded = file::load(model)?;
    let dims = dims(&args.dim)?;
    let (mut spec, warnings) = import::import_problem_with(&loaded, &dims)?;
    spec.constraints = more(spec.constraints)?;
    let about = |errors| Failure::Input(model.to_owned(), errors);
    import::declare_parameters(&mut spec.graph, &args.parameter).map_err(about)?;
    let granularity = match args.granularity {
        Some(name) => name.into(),
        None if divvy_io::onnx::load::looks_like_onnx(&loaded.bytes) => Granularity::Fused,
        None => Granularity::Op,
    };
    spec = to_granularity(spec, granularity).map_err(about)?;
    let granularity = Some(granularity.name().to_owned());
    let reading = ReadingOptions { dims, granularity, parameters: args.parameter.clone() };
    Ok(Read { spec, sha256: loaded.sha256, reading, warnings })
}

/// Merges ops; blocks are made of fused ops, or a plain chain would stay as it is.
pub(crate) fn to_granularity(
    spec: ProblemSpec,
    granularity: Granularity,
) -> Result<ProblemSpec, InputErrors> {
    match granularity {
        Granularity::Op => Ok(spec),
        Granularity::Fused => coarsen(&spec, Granularity::Fused),
        Granularity::Block => coarsen(&coarsen(&spec, Granularity::Fused)?, Granularity::Block),
    }
}

/// The options that read a model again as it was read before.
pub(crate) fn same_reading(reading: &ReadingOptions) -> ReadingArgs {
    let names = GranularityName::value_variants().iter();
    let same = |name: &&GranularityName| {
        let granularity: Granularity = (**name).into();
        Some(granularity.name()) == reading.granularity.as_deref()
    };
    ReadingArgs {
        dim: reading.dims.iter().map(|(name, size)| format!("{name}={size}")).collect(),
        granularity: names.copied().find(|name| same(&name)),
        parameter: reading.parameters.clone(),
    }
}

/// `NAME=SIZE` pairs.
pub(crate) fn dims(texts: &[String]) -> Result<BTreeMap<String, u64>, Failure> {
    let mut dims = BTreeMap::new();
    for text in texts {
        let (name, size) = pair("--dim", text)?;
        let size = size.parse().map_err(|_| {
            Failure::option("--dim", format!("`{size}` is not a size"), "write --dim batch=8, say")
        })?;
        if dims.contains_key(&name) {
            return Err(given_twice("--dim", &name));
        }
        dims.insert(name, size);
    }
    Ok(dims)
}

/// Reads the model, and whatever hardware and profile the options name, and puts the problem together.
pub(crate) fn assemble(model: &str, args: &ProblemArgs) -> Result<Assembled, Failure> {
    let files = [Some(model), args.on.as_deref(), args.profile.as_deref()];
    read_once(files.into_iter().flatten())?;
    let Read { mut spec, sha256, reading, warnings } =
        read(model, &args.reading, |own| constraints(args, own))?;
    let mut sources = vec![Source { role: "model".into(), path: model.to_owned(), sha256: Some(sha256) }];
    if let Some(path) = &args.profile {
        let brought = bring_profile(path, &spec.graph)?;
        spec.profile = brought.profile;
        spec.constraints.colocate.extend(brought.together);
        sources.push(brought.source);
    }
    let (objective, hardware) = match &args.on {
        Some(name) => {
            let (hardware, sha256) = presets::find(name)?;
            sources.push(Source { role: "hardware".into(), path: name.clone(), sha256 });
            (objective(args, spec.objective, Some(&hardware))?, hardware)
        }
        None => own_hardware(args, &spec)?,
    };
    let about = |errors| Failure::Input(model.to_owned(), errors);
    let graph = Graph::new(spec.graph).map_err(about)?;
    let catalogue = presets::catalogue();
    let problem = Problem::new(graph, &spec.profile, hardware, &catalogue, objective, &spec.constraints);
    Ok(Assembled { problem: problem.map_err(about)?, sources, reading, warnings })
}

/// Refuses to read two files from standard input, which ends with the first.
pub(crate) fn read_once<'a>(files: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    if files.filter(|file| *file == "-").count() > 1 {
        let message = "standard input can be read only once";
        return Err(Failure::option("-", message, "give one of the two as a file"));
    }
    Ok(())
}

/// The hardware that comes with the model.
fn own_hardware(args: &ProblemArgs, spec: &ProblemSpec) -> Result<(Objective, HardwareSpec), Failure> {
    match &spec.hardware {
        Some(OwnHardware::Given(hardware)) => {
            Ok((objective(args, spec.objective, Some(hardware))?, (**hardware).clone()))
        }
        Some(OwnHardware::UniformPerStage { bandwidth }) => {
            let objective = match args.objective {
                // The file is made for pipelines; nothing else is meant unless it is said.
                None => pipeline(args, None)?,
                Some(_) => objective(args, spec.objective, None)?,
            };
            let devices = stages(args)?.unwrap_or(1);
            if devices == 0 || devices > 1024 {
                return Err(Failure::option("--stages", format!("{devices} stages"), "give 1 to 1024"));
            }
            Ok((objective, presets::uniform_devices(devices, *bandwidth)))
        }
        None => Err(Failure::option(
            "--on",
            "the model does not say what it runs on",
            format!(
                "add --on with one of {}, or with the path of a hardware file",
                presets::names().join(", ")
            ),
        )),
    }
}

/// The objective: what the options say, else what the file says, else latency. Only a pipeline has stages, so that asking
/// for some is asking for one.
fn objective(
    args: &ProblemArgs,
    own: Option<Objective>,
    hardware: Option<&HardwareSpec>,
) -> Result<Objective, Failure> {
    let links = match args.links {
        None => None,
        Some(LinksName::Delay) => Some(LinkUse::Delay),
        Some(LinksName::InTurn) => Some(LinkUse::InTurn),
    };
    let contention = args.contention.map(|name| match name {
        ContentionName::Bus => Contention::Bus,
        ContentionName::Paper => Contention::Paper,
    });
    let asked = args.objective.or(args.stages.map(|_| ObjectiveName::Pipeline));
    let objective = match (asked, own) {
        (None, Some(Objective::Latency { links: own })) => Objective::Latency { links: links.unwrap_or(own) },
        (None, Some(Objective::Batch { inputs })) => {
            Objective::Batch { inputs: args.inputs.unwrap_or(inputs) }
        }
        (None, Some(Objective::ColdStart { contention: own, resident })) => {
            let contention = contention.unwrap_or(own);
            Objective::ColdStart { contention, resident: args.resident.unwrap_or(resident) }
        }
        (None, Some(own)) => own,
        (None | Some(ObjectiveName::Latency), _) => Objective::Latency { links: links.unwrap_or_default() },
        (Some(ObjectiveName::Batch), own) => {
            let own = own.filter(|own| own.name() == "batch").map(Objective::inputs);
            let inputs = args.inputs.or(own).ok_or_else(|| {
                Failure::option("--inputs", "batch needs the number of inputs", "add --inputs 16, say")
            })?;
            Objective::Batch { inputs }
        }
        (Some(ObjectiveName::Pipeline), _) => pipeline(args, hardware)?,
        (Some(ObjectiveName::Stream), _) => Objective::Stream,
        (Some(ObjectiveName::ColdStart), _) => {
            let contention = contention.unwrap_or_default();
            Objective::ColdStart { contention, resident: args.resident.unwrap_or(0) }
        }
    };
    let misplaced = [
        ("--inputs", args.inputs.is_some(), "batch"),
        ("--stages", args.stages.is_some(), "pipeline"),
        ("--links", args.links.is_some(), "latency"),
        ("--contention", args.contention.is_some(), "cold-start"),
        ("--resident", args.resident.is_some(), "cold-start"),
    ];
    for (option, given, wanted) in misplaced {
        if given && objective.name() != wanted {
            let message = format!("it belongs to {wanted}, the objective is {}", objective.name());
            return Err(Failure::option(
                option,
                message,
                format!("add --objective {wanted}, or drop {option}"),
            ));
        }
    }
    Ok(objective)
}

/// The number of stages asked for; `auto` is for `plan` alone, which asks for one number after the other.
fn stages(args: &ProblemArgs) -> Result<Option<u32>, Failure> {
    match args.stages {
        None => Ok(None),
        Some(Stages::AtMost(stages)) => Ok(Some(stages)),
        Some(Stages::Auto) => {
            Err(Failure::option("--stages", "auto is for `divvy plan`", "give a number of stages"))
        }
    }
}

fn pipeline(args: &ProblemArgs, hardware: Option<&HardwareSpec>) -> Result<Objective, Failure> {
    let devices = hardware.map(|hardware| hardware.devices.len() as u32);
    let stages = stages(args)?.or(devices).ok_or_else(|| {
        Failure::option("--stages", "this model comes without a number of devices", "add --stages 4, say")
    })?;
    Ok(Objective::Pipeline { stages })
}

/// The file's constraints and those of the options, the latter winning where they disagree.
fn constraints(args: &ProblemArgs, mut spec: ConstraintsSpec) -> Result<ConstraintsSpec, Failure> {
    for text in &args.pin {
        let (op, device) = pair("--pin", text)?;
        let said = args.pin.iter().filter_map(|other| other.rsplit_once('='));
        if let Some((_, other)) = said.into_iter().find(|(o, d)| *o == op && *d != device) {
            let message = format!("`{op}` cannot be on `{device}` and on `{other}`");
            return Err(Failure::option("--pin", message, "pin it to one device"));
        }
        spec.pin.insert(op, device);
    }
    for text in &args.forbid {
        let (op, device) = pair("--forbid", text)?;
        spec.forbid.entry(op).or_default().push(device);
    }
    spec.colocate
        .extend(args.colocate.iter().map(|ops| ops.split(',').map(|op| op.trim().to_owned()).collect()));
    let mut limited = HashSet::new();
    for text in &args.memory_limit {
        let (device, size) = pair("--memory-limit", text)?;
        let bytes = size.parse().ok().or_else(|| divvy_io::hardware_file::parse_bytes(&size));
        let bytes = bytes.ok_or_else(|| {
            let fix = format!("write {device}=8GB, {device}=512MiB or, in bytes, {device}=8000000000, say");
            Failure::option("--memory-limit", format!("`{size}` is not a size"), fix)
        })?;
        if !limited.insert(device.clone()) {
            return Err(given_twice("--memory-limit", &device));
        }
        spec.memory_limit.insert(device, bytes);
    }
    spec.max_splits = args.max_splits.or(spec.max_splits);
    spec.replicate |= args.replicate;
    spec.min_splits = args.min_splits.or(spec.min_splits);
    spec.input_at = args.input_at.clone().or(spec.input_at);
    spec.output_at = args.output_at.clone().or(spec.output_at);
    Ok(spec)
}

/// What an option of two parts looks like.
fn example(option: &str) -> String {
    let pair = match option {
        "--dim" => "batch=8",
        "--memory-limit" => "gpu=8GB",
        _ => "conv1=gpu",
    };
    format!("write {option} {pair}, say")
}

fn given_twice(option: &str, name: &str) -> Failure {
    Failure::option(option, format!("`{name}` is given twice"), "give it once")
}

/// `OP=DEVICE`; names of ops may hold `=`, those of devices do not.
fn pair(option: &str, text: &str) -> Result<(String, String), Failure> {
    let split = text.rsplit_once('=').filter(|(a, b)| !a.is_empty() && !b.is_empty());
    let (a, b) = split.ok_or_else(|| {
        Failure::option(option, format!("`{text}` is not of the form A=B"), example(option))
    })?;
    Ok((a.to_owned(), b.to_owned()))
}

/// The times in another file, matched to the model's ops by name.
///
/// A file that holds nothing but times may say which ops are run as one; they stay together then.
fn bring_profile(path: &str, graph: &GraphSpec) -> Result<BroughtProfile, Failure> {
    let loaded = file::load(path)?;
    let other = import::import_problem(&loaded)?;
    let rows: HashMap<&str, usize> =
        other.graph.ops.iter().enumerate().map(|(i, op)| (op.name.as_str(), i)).collect();
    let mut errors = InputErrors::default();
    if other.profile.classes.is_empty() {
        errors.add(Code::Missing, "costs", "the profile holds no times", "give a file with measured times");
    }
    let mut row_of = Vec::with_capacity(graph.ops.len());
    for op in &graph.ops {
        match rows.get(op.name.as_str()) {
            Some(&row) => row_of.push(row),
            None => errors.add(
                Code::Dangling,
                format!("op `{}`", op.name),
                "the profile has no times for it",
                "profile the same model: ops are matched by name",
            ),
        }
    }
    errors.into_result(()).map_err(|errors| Failure::Input(path.to_owned(), errors))?;
    let pick = |class: &ClassCosts| ClassCosts {
        class: class.class.clone(),
        batch_sizes: class.batch_sizes.clone(),
        costs: class
            .costs
            .iter()
            .map(|list| row_of.iter().map(|&row| list.get(row).copied().flatten()).collect())
            .collect(),
    };
    let profile =
        Profile { classes: other.profile.classes.iter().map(pick).collect(), whole_model: Vec::new() };
    let source = Source { role: "profile".into(), path: path.to_owned(), sha256: Some(loaded.sha256) };
    let only_times = other.hardware.is_none() && other.objective.is_none();
    let together = if only_times { other.constraints.colocate } else { Vec::new() };
    Ok(BroughtProfile { profile, together, source })
}

/// What a file of times brings.
struct BroughtProfile {
    profile: Profile,
    /// Ops that are run as one.
    together: Vec<Vec<String>>,
    source: Source,
}
