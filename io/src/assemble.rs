//! Model file, hardware file and profile to a [`Problem`]: the one place where a problem is put together.
//!
//! [`assemble`] reads all files that [`ProblemOptions`] name, in this order: the model with its constraints and its
//! granularity, the profile, the hardware. What an option says wins over what the model file says of the same thing.

use std::collections::HashMap;

use divvy_core::coarsen::{Granularity, coarsen};
use divvy_core::costs::{ClassCosts, Profile};
use divvy_core::graph::{Graph, GraphSpec};
use divvy_core::hardware::{ClassSpec, HardwareSpec};
use divvy_core::input_error::{Code, InputErrors};
use divvy_core::problem::{
    ConstraintsSpec, Contention, LinkUse, Objective, OwnHardware, Problem, ProblemSpec,
};
use divvy_core::units::Time;

use crate::read_options::ReadOptions;
use crate::source::Source;
use crate::{Error, file, hardware_source, import, presets};

/// What a problem is made of beside the model file.
#[derive(Clone, Debug, Default)]
pub struct ProblemOptions {
    /// How the model file is read.
    pub read: ReadOptions,
    /// The hardware: a built-in name or a file; none: what the model file says.
    pub hardware: Option<String>,
    /// A file with times of the same ops.
    pub profile: Option<String>,
    /// What a piece costs on every device; none: what profile and hardware say.
    pub piece_cost: Option<Time>,
    /// What to minimise.
    pub objective: ObjectiveOptions,
    /// Constraints, which are added to those of the model file and win where the two disagree.
    pub constraints: ConstraintsSpec,
}

/// What to minimise, as far as it is asked for; the model file and defaults say the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectiveOptions {
    /// Which objective; none: pipeline with `stages`, else what the model file says, else latency.
    pub kind: Option<ObjectiveKind>,
    /// Number of inputs of a batch.
    pub inputs: Option<u32>,
    /// Most stages of a pipeline; none: the number of devices.
    pub stages: Option<u32>,
    /// How links behave under latency.
    pub links: Option<LinkUse>,
    /// What reads in place cost under cold start.
    pub contention: Option<Contention>,
    /// Percent of every parameter that is resident before a cold start.
    pub resident: Option<u32>,
}

/// The objectives without their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveKind {
    /// The finish of one request.
    Latency,
    /// The finish of a group of inputs.
    Batch,
    /// The busiest pipeline stage.
    Pipeline,
    /// The busiest device or link of a stream.
    Stream,
    /// The finish of one request whose weights are still in host memory.
    ColdStart,
}

impl From<Objective> for ObjectiveOptions {
    /// The options that ask for exactly this objective.
    fn from(objective: Objective) -> ObjectiveOptions {
        let of = |kind| ObjectiveOptions { kind: Some(kind), ..ObjectiveOptions::default() };
        match objective {
            Objective::Latency { links } => {
                ObjectiveOptions { links: Some(links), ..of(ObjectiveKind::Latency) }
            }
            Objective::Batch { inputs } => {
                ObjectiveOptions { inputs: Some(inputs), ..of(ObjectiveKind::Batch) }
            }
            Objective::Pipeline { stages } => {
                ObjectiveOptions { stages: Some(stages), ..of(ObjectiveKind::Pipeline) }
            }
            Objective::Stream => of(ObjectiveKind::Stream),
            Objective::ColdStart { contention, resident } => ObjectiveOptions {
                contention: Some(contention),
                resident: Some(resident),
                ..of(ObjectiveKind::ColdStart)
            },
        }
    }
}

/// A problem and the files it came from.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The problem.
    pub problem: Problem,
    /// The files that it was made from.
    pub sources: Vec<Source>,
    /// How the model was read, with the granularity that was chosen.
    pub reading: ReadOptions,
    /// What is not certain about the model.
    pub warnings: Vec<String>,
}

/// What a model file holds, at the granularity asked for.
#[derive(Clone, Debug)]
pub struct Model {
    /// The network, with whatever else the file says.
    pub spec: ProblemSpec,
    /// SHA-256 of the file.
    pub sha256: String,
    /// How it was read, with the granularity that was chosen.
    pub reading: ReadOptions,
    /// What is not certain about it.
    pub warnings: Vec<String>,
}

/// Reads a model, or standard input for `-`.
pub fn read_model(path: &str, options: &ReadOptions) -> Result<Model, Error> {
    read_constrained(path, options, &ConstraintsSpec::default())
}

/// Reads a model and adds constraints by the names of its own ops, which coarsening carries over.
fn read_constrained(path: &str, options: &ReadOptions, added: &ConstraintsSpec) -> Result<Model, Error> {
    let loaded = file::load(path)?;
    let (mut spec, warnings) = import::import_problem_with(&loaded, options)?;
    add_constraints(&mut spec.constraints, added);
    let about = |errors| Error::Input { path: path.to_owned(), errors };
    import::declare_parameters(&mut spec.graph, &options.parameters).map_err(about)?;
    let granularity = match options.granularity {
        Some(granularity) => granularity,
        None if crate::onnx::load::looks_like_onnx(&loaded.bytes) => Granularity::Fused,
        None => Granularity::Op,
    };
    spec = to_granularity(spec, granularity).map_err(about)?;
    let reading = ReadOptions { granularity: Some(granularity), ..options.clone() };
    Ok(Model { spec, sha256: loaded.sha256, reading, warnings })
}

/// Merges ops; blocks are made of fused ops, or a plain chain would stay as it is.
pub fn to_granularity(spec: ProblemSpec, granularity: Granularity) -> Result<ProblemSpec, InputErrors> {
    match granularity {
        Granularity::Op => Ok(spec),
        Granularity::Fused => coarsen(&spec, Granularity::Fused),
        Granularity::Block => coarsen(&coarsen(&spec, Granularity::Fused)?, Granularity::Block),
    }
}

/// Reads the model, and whatever hardware and profile the options name, and puts the problem together.
pub fn assemble(model: &str, options: &ProblemOptions) -> Result<Assembled, Error> {
    let files = [Some(model), options.hardware.as_deref(), options.profile.as_deref()];
    file::read_once(files.into_iter().flatten())?;
    let found = options.hardware.as_deref().map(hardware_source::find);
    let read = read_constrained(model, &options.read, &options.constraints);
    let (Model { mut spec, sha256, reading, warnings }, found) = both(model, read, found)?;
    let mut sources = vec![Source { role: "model".into(), path: model.to_owned(), sha256: Some(sha256) }];
    if let Some(path) = &options.profile {
        let times = read_times(path, &mut spec.graph)?;
        spec.profile = times.profile;
        spec.constraints.colocate.extend(times.together);
        sources.push(times.source);
    }
    let (objective, mut hardware) = match options.hardware.as_ref().zip(found) {
        Some((name, (hardware, sha256))) => {
            sources.push(Source { role: "hardware".into(), path: name.clone(), sha256 });
            (objective(&options.objective, spec.objective, Some(&hardware))?, hardware)
        }
        None => own_hardware(&options.objective, &spec)?,
    };
    if options.profile.is_some() {
        match objective {
            Objective::Latency { .. } => scale_classes(&mut spec.profile, &hardware, |class| class.alone),
            Objective::ColdStart { .. } => {
                scale_classes(&mut spec.profile, &hardware, |class| class.beside_copies);
            }
            _ => {}
        }
    }
    for (class, time) in &spec.profile.pieces {
        let of_class = hardware.devices.iter_mut().filter(|device| device.class == *class);
        of_class.for_each(|device| device.piece = device.piece.or(Some(*time)));
    }
    if let Some(time) = options.piece_cost {
        hardware.set_piece_cost(time);
    }
    let problem = put_together(spec, hardware, objective);
    let problem = problem.map_err(|errors| Error::Input { path: model.to_owned(), errors })?;
    Ok(Assembled { problem, sources, reading, warnings })
}

/// Makes times that were measured while all devices of a class were busy with them, and with nothing else, those of devices that
/// work alone, as they do for most of one request, or beside copies to cards, as in a cold start: by a factor of each class.
fn scale_classes(profile: &mut Profile, hardware: &HardwareSpec, factor: impl Fn(&ClassSpec) -> Option<f64>) {
    for class in &mut profile.classes {
        let known = hardware.classes.iter().find(|known| known.name == class.class);
        let Some(share) = known.and_then(&factor) else { continue };
        for cost in class.costs.iter_mut().flatten().flatten() {
            cost.time = Time((cost.time.0 as f64 * share).round() as u64);
        }
    }
}

/// The problem of a network on this hardware under this objective. The hardware and the objective that come with the
/// network do not count.
pub fn put_together(
    spec: ProblemSpec,
    hardware: HardwareSpec,
    objective: Objective,
) -> Result<Problem, InputErrors> {
    let graph = Graph::new(spec.graph)?;
    Problem::new(graph, &spec.profile, hardware, &presets::catalogue(), objective, &spec.constraints)
}

/// The model and the hardware, or all that is wrong with the two. A model that cannot be read may lack hardware, too.
fn both<T>(
    model: &str,
    read: Result<Model, Error>,
    found: Option<Result<T, Error>>,
) -> Result<(Model, Option<T>), Error> {
    let (read, found) = match (read, found.transpose()) {
        (Ok(read), Ok(found)) => return Ok((read, found)),
        (read, found) => (read.err(), found),
    };
    let refused = matches!(read, Some(Error::Input { .. }));
    // An ONNX model never says what it runs on.
    let needs_hardware = refused && matches!(found, Ok(None)) && is_onnx(model);
    let errors = read.into_iter().chain(found.err()).chain(needs_hardware.then(no_hardware));
    Err(Error::all(errors.collect()).expect("one of the two failed"))
}

/// Whether a file is an ONNX model; standard input has been read and cannot be looked at again.
fn is_onnx(path: &str) -> bool {
    path != "-" && std::fs::File::open(path).is_ok_and(|file| file::starts_like_onnx(&file))
}

fn no_hardware() -> Error {
    Error::option(
        "--on",
        "the model does not say what it runs on",
        format!("add --on with one of {}, or with the path of a hardware file", presets::names().join(", ")),
    )
}

/// The hardware that comes with the model.
fn own_hardware(asked: &ObjectiveOptions, spec: &ProblemSpec) -> Result<(Objective, HardwareSpec), Error> {
    match &spec.hardware {
        Some(OwnHardware::Given(hardware)) => {
            Ok((objective(asked, spec.objective, Some(hardware))?, (**hardware).clone()))
        }
        Some(OwnHardware::UniformPerStage { bandwidth }) => {
            let objective = match asked.kind {
                // The file is made for pipelines; nothing else is meant unless it is said.
                None => pipeline(asked, None)?,
                Some(_) => objective(asked, spec.objective, None)?,
            };
            let devices = asked.stages.unwrap_or(1);
            if devices == 0 || devices > 1024 {
                return Err(Error::option("--stages", format!("{devices} stages"), "give 1 to 1024"));
            }
            Ok((objective, presets::uniform_devices(devices, *bandwidth)))
        }
        None => Err(no_hardware()),
    }
}

/// The objective: what the options say, else what the file says, else latency. Only a pipeline has stages, so that asking
/// for some is asking for one.
fn objective(
    asked: &ObjectiveOptions,
    own: Option<Objective>,
    hardware: Option<&HardwareSpec>,
) -> Result<Objective, Error> {
    let ObjectiveOptions { links, contention, .. } = *asked;
    let kind = asked.kind.or(asked.stages.map(|_| ObjectiveKind::Pipeline));
    let objective = match (kind, own) {
        (None, Some(Objective::Latency { links: own })) => Objective::Latency { links: links.unwrap_or(own) },
        (None, Some(Objective::Batch { inputs })) => {
            Objective::Batch { inputs: asked.inputs.unwrap_or(inputs) }
        }
        (None, Some(Objective::ColdStart { contention: own, resident })) => {
            let contention = contention.unwrap_or(own);
            Objective::ColdStart { contention, resident: asked.resident.unwrap_or(resident) }
        }
        (None, Some(own)) => own,
        (None | Some(ObjectiveKind::Latency), _) => Objective::Latency { links: links.unwrap_or_default() },
        (Some(ObjectiveKind::Batch), own) => {
            let own = own.filter(|own| own.name() == "batch").map(Objective::inputs);
            let inputs = asked.inputs.or(own).ok_or_else(|| {
                Error::option("--inputs", "batch needs the number of inputs", "add --inputs 16, say")
            })?;
            Objective::Batch { inputs }
        }
        (Some(ObjectiveKind::Pipeline), _) => pipeline(asked, hardware)?,
        (Some(ObjectiveKind::Stream), _) => Objective::Stream,
        (Some(ObjectiveKind::ColdStart), _) => {
            let contention = contention.unwrap_or_default();
            Objective::ColdStart { contention, resident: asked.resident.unwrap_or(0) }
        }
    };
    let misplaced = [
        ("--inputs", asked.inputs.is_some(), "batch"),
        ("--stages", asked.stages.is_some(), "pipeline"),
        ("--links", asked.links.is_some(), "latency"),
        ("--contention", asked.contention.is_some(), "cold-start"),
        ("--resident", asked.resident.is_some(), "cold-start"),
    ];
    for (option, given, wanted) in misplaced {
        if given && objective.name() != wanted {
            let message = format!("it belongs to {wanted}, the objective is {}", objective.name());
            let fix = format!("add --objective {wanted}, or drop {option}");
            return Err(Error::option(option, message, fix));
        }
    }
    Ok(objective)
}

fn pipeline(asked: &ObjectiveOptions, hardware: Option<&HardwareSpec>) -> Result<Objective, Error> {
    let devices = hardware.map(|hardware| hardware.devices.len() as u32);
    let stages = asked.stages.or(devices).ok_or_else(|| {
        Error::option("--stages", "this model comes without a number of devices", "add --stages 4, say")
    })?;
    Ok(Objective::Pipeline { stages })
}

/// Adds constraints to those of a file; the added ones win where the two disagree.
fn add_constraints(own: &mut ConstraintsSpec, added: &ConstraintsSpec) {
    let ConstraintsSpec {
        pin,
        forbid,
        colocate,
        memory_limit,
        min_splits,
        max_splits,
        input_at,
        output_at,
        memory_rule,
        replicate,
    } = added.clone();
    own.pin.extend(pin);
    for (op, devices) in forbid {
        own.forbid.entry(op).or_default().extend(devices);
    }
    own.colocate.extend(colocate);
    own.memory_limit.extend(memory_limit);
    own.min_splits = min_splits.or(own.min_splits);
    own.max_splits = max_splits.or(own.max_splits);
    own.input_at = input_at.or(own.input_at.take());
    own.output_at = output_at.or(own.output_at.take());
    own.replicate |= replicate;
    if memory_rule != Default::default() {
        own.memory_rule = memory_rule;
    }
}

/// The times in another file, matched to the model's ops by name.
///
/// A file that holds nothing but times may say which ops are run as one; they stay together then. What ops read in place is taken
/// from it, too, where it says so: how long that takes is measured.
fn read_times(path: &str, graph: &mut GraphSpec) -> Result<TimesFile, Error> {
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
    errors.into_result(()).map_err(|errors| Error::Input { path: path.to_owned(), errors })?;
    for (op, &row) in graph.ops.iter_mut().zip(&row_of) {
        op.in_place_bytes = other.graph.ops[row].in_place_bytes.or(op.in_place_bytes);
    }
    let pick = |class: &ClassCosts| ClassCosts {
        class: class.class.clone(),
        batch_sizes: class.batch_sizes.clone(),
        costs: class
            .costs
            .iter()
            .map(|list| row_of.iter().map(|&row| list.get(row).copied().flatten()).collect())
            .collect(),
    };
    let profile = Profile {
        classes: other.profile.classes.iter().map(pick).collect(),
        pieces: other.profile.pieces,
        ..Profile::default()
    };
    let source = Source { role: "profile".into(), path: path.to_owned(), sha256: Some(loaded.sha256) };
    let only_times = other.hardware.is_none() && other.objective.is_none();
    let together = if only_times { other.constraints.colocate } else { Vec::new() };
    Ok(TimesFile { profile, together, source })
}

/// What a file of times holds.
struct TimesFile {
    profile: Profile,
    /// Ops that are run as one.
    together: Vec<Vec<String>>,
    source: Source,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Objective; 5] = [
        Objective::Latency { links: LinkUse::InTurn },
        Objective::Batch { inputs: 3 },
        Objective::Pipeline { stages: 2 },
        Objective::Stream,
        Objective::ColdStart { contention: Contention::Paper, resident: 10 },
    ];

    #[test]
    fn an_objective_is_asked_for_whatever_the_file_says() {
        for wanted in ALL {
            for own in ALL.into_iter().map(Some).chain([None]) {
                assert_eq!(objective(&wanted.into(), own, None).unwrap(), wanted, "{own:?}");
            }
        }
    }

    #[test]
    fn the_file_says_what_the_options_do_not() {
        for own in ALL {
            assert_eq!(objective(&ObjectiveOptions::default(), Some(own), None).unwrap(), own);
        }
        let inputs = ObjectiveOptions { inputs: Some(7), ..ObjectiveOptions::default() };
        let batch = Objective::Batch { inputs: 7 };
        assert_eq!(objective(&inputs, Some(Objective::Batch { inputs: 3 }), None).unwrap(), batch);
        let misplaced = objective(&inputs, Some(Objective::Stream), None).unwrap_err().to_string();
        assert!(misplaced.contains("--inputs") && misplaced.contains("belongs to batch"), "{misplaced}");
    }

    #[test]
    fn added_constraints_win() {
        let pin = |device: &str| [("a".to_owned(), device.to_owned())].into();
        let forbid = |device: &str| [("b".to_owned(), vec![device.to_owned()])].into();
        let mut own = ConstraintsSpec {
            pin: pin("cpu"),
            forbid: forbid("cpu"),
            max_splits: Some(1),
            input_at: Some("cpu".into()),
            ..ConstraintsSpec::default()
        };
        let added = ConstraintsSpec {
            pin: pin("gpu"),
            forbid: forbid("gpu"),
            max_splits: Some(2),
            ..ConstraintsSpec::default()
        };
        add_constraints(&mut own, &added);
        assert_eq!(own.pin["a"], "gpu");
        assert_eq!(own.forbid["b"], ["cpu", "gpu"]);
        assert_eq!((own.max_splits, own.input_at.as_deref()), (Some(2), Some("cpu")));
    }
}
