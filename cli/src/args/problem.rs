//! What makes a problem out of files, and the options of `divvy::io::assemble` that it stands for.

use std::collections::{BTreeMap, HashSet};

use clap::ValueEnum;
use divvy::core::coarsen::Granularity;
use divvy::core::problem::{ConstraintsSpec, Contention, LinkUse};
use divvy::core::units::Time;
use divvy::io::assemble::{ObjectiveKind, ObjectiveOptions, ProblemOptions};
use divvy::io::hardware_file::{parse_bytes, parse_time};
use divvy::io::onnx::trips::{EVERY_LOOP, MOST_TRIPS};
use divvy::io::read_options::ReadOptions;

use crate::failure::Failure;

/// How a model is read.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct ReadingArgs {
    /// Size of a symbolic dimension of an ONNX model, such as batch=8; may be repeated
    #[arg(long, value_name = "NAME=SIZE")]
    pub(crate) dim: Vec<String>,
    /// How often loops of an ONNX model run whose rounds depend on data: N for all, NAME=N for one; may be repeated
    #[arg(long, value_name = "N|NAME=N")]
    pub(crate) trips: Vec<String>,
    /// How much of the network one op stands for [default: fused for ONNX models, else op]
    #[arg(long, value_enum)]
    pub(crate) granularity: Option<GranularityName>,
    /// Input that is a parameter, such as 'past_key_values.*': in memory before the request comes; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) parameter: Vec<String>,
}

/// Granularities by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GranularityName {
    /// One op of the source
    Op,
    /// What a runtime runs as one kernel
    Fused,
    /// Everything between two places where at most one tensor crosses
    Block,
}

impl From<GranularityName> for Granularity {
    fn from(name: GranularityName) -> Self {
        match name {
            GranularityName::Op => Self::Op,
            GranularityName::Fused => Self::Fused,
            GranularityName::Block => Self::Block,
        }
    }
}

/// Objectives by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// The finish of one request
    Latency,
    /// The finish of a group of inputs (--inputs)
    Batch,
    /// The busiest pipeline stage (--stages)
    Pipeline,
    /// The busiest device or link of a stream
    Stream,
    /// The finish of one request whose weights are still in host memory
    ColdStart,
}

impl From<ObjectiveName> for ObjectiveKind {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::Latency => Self::Latency,
            ObjectiveName::Batch => Self::Batch,
            ObjectiveName::Pipeline => Self::Pipeline,
            ObjectiveName::Stream => Self::Stream,
            ObjectiveName::ColdStart => Self::ColdStart,
        }
    }
}

/// How links behave under latency.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinksName {
    /// A transfer takes its time, whatever else is under way
    Delay,
    /// Every link carries one transfer at a time
    InTurn,
}

impl From<LinksName> for LinkUse {
    fn from(name: LinksName) -> Self {
        match name {
            LinksName::Delay => Self::Delay,
            LinksName::InTurn => Self::InTurn,
        }
    }
}

/// What reads in place cost under cold-start.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContentionName {
    /// They wait for their turn on the bus, and hold it
    Bus,
    /// As in SortingHat: they hold no bus, but take a multiple of their time, as copies between devices do
    Paper,
}

impl From<ContentionName> for Contention {
    fn from(name: ContentionName) -> Self {
        match name {
            ContentionName::Bus => Self::Bus,
            ContentionName::Paper => Self::Paper,
        }
    }
}

/// How many stages a pipeline may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stages {
    /// At most so many.
    AtMost(u32),
    /// As many as pay.
    Auto,
}

fn stages(text: &str) -> Result<Stages, String> {
    match text {
        "auto" => Ok(Stages::Auto),
        _ => text.parse().map(Stages::AtMost).map_err(|_| "write a number, or auto".to_owned()),
    }
}

/// Everything that makes a problem out of files.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct ProblemArgs {
    /// Hardware: a built-in name (`divvy hardware list`) or a file; not needed where the model file holds its own
    #[arg(long, value_name = "HARDWARE")]
    pub(crate) on: Option<String>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// What to minimise [default: pipeline with --stages, else what the file says, else latency]
    #[arg(long, value_enum)]
    pub(crate) objective: Option<ObjectiveName>,
    /// Number of inputs of a batch
    #[arg(long, allow_negative_numbers = true, value_name = "L")]
    pub(crate) inputs: Option<u32>,
    /// Most stages of a pipeline; with `auto`, `divvy plan` tries 1, 2, 4, … and finds where more stages stop paying
    /// [default: the number of devices]
    #[arg(long, allow_negative_numbers = true, value_name = "K|auto", value_parser = stages)]
    pub(crate) stages: Option<Stages>,
    /// Let several identical devices share a pipeline stage, each taking requests in turn
    #[arg(long)]
    pub(crate) replicate: bool,
    /// Most changes of device between ops that follow each other (stream)
    #[arg(long, allow_negative_numbers = true, value_name = "S")]
    pub(crate) max_splits: Option<u32>,
    /// Fewest changes of device between ops that follow each other (stream)
    #[arg(long, allow_negative_numbers = true, value_name = "S")]
    pub(crate) min_splits: Option<u32>,
    /// Whether transfers on a link wait for each other (latency) [default: delay]
    #[arg(long, value_enum)]
    pub(crate) links: Option<LinksName>,
    /// What it costs when ops read weights in place, from host memory (cold-start) [default: bus]
    #[arg(long, value_enum)]
    pub(crate) contention: Option<ContentionName>,
    /// Percent of every weight that is on its device before the request comes (cold-start) [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "PERCENT")]
    pub(crate) resident: Option<u32>,
    /// File with times of these ops, as `divvy profile` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<String>,
    /// What a piece costs on every device besides its ops, such as 20us; 0 as in papers [default: what profile and hardware say]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME")]
    pub(crate) piece_cost: Option<String>,
    /// Op that must run on a device; may be repeated
    #[arg(long, value_name = "OP=DEVICE")]
    pub(crate) pin: Vec<String>,
    /// Op that must not run on a device; may be repeated
    #[arg(long, value_name = "OP=DEVICE")]
    pub(crate) forbid: Vec<String>,
    /// Ops that must share a device, with commas between them; may be repeated
    #[arg(long, value_name = "OP,OP")]
    pub(crate) colocate: Vec<String>,
    /// Bytes of a device that a plan may use, such as gpu1=8GB; may be repeated
    #[arg(long, value_name = "DEVICE=SIZE")]
    pub(crate) memory_limit: Vec<String>,
    /// Device where the network's inputs are [default: everywhere]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) input_at: Option<String>,
    /// Device where the network's outputs must arrive [default: anywhere]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) output_at: Option<String>,
}

/// The time of `--piece-cost`.
pub(crate) fn piece_cost(text: &str) -> Result<Time, Failure> {
    let time = if text == "0" { Some(Time::ZERO) } else { parse_time(text) };
    time.ok_or_else(|| Failure::option("--piece-cost", format!("`{text}` is no time"), "write 20us, or 0"))
}

impl ReadingArgs {
    /// The options that these arguments stand for.
    pub(crate) fn options(&self) -> Result<ReadOptions, Failure> {
        Ok(ReadOptions {
            dims: dims(&self.dim)?,
            trips: trips(&self.trips)?,
            granularity: self.granularity.map(Granularity::from),
            parameters: self.parameter.clone(),
        })
    }
}

impl ProblemArgs {
    /// The options that these arguments stand for.
    pub(crate) fn options(&self) -> Result<ProblemOptions, Failure> {
        let stages = match self.stages {
            None => None,
            Some(Stages::AtMost(stages)) => Some(stages),
            Some(Stages::Auto) => {
                let fix = "give a number of stages";
                return Err(Failure::option("--stages", "auto is for `divvy plan`", fix));
            }
        };
        let objective = ObjectiveOptions {
            kind: self.objective.map(ObjectiveKind::from),
            inputs: self.inputs,
            stages,
            links: self.links.map(LinkUse::from),
            contention: self.contention.map(Contention::from),
            resident: self.resident,
        };
        Ok(ProblemOptions {
            read: self.reading.options()?,
            hardware: self.on.clone(),
            profile: self.profile.clone(),
            piece_cost: self.piece_cost.as_deref().map(piece_cost).transpose()?,
            objective,
            constraints: self.constraints()?,
        })
    }

    fn constraints(&self) -> Result<ConstraintsSpec, Failure> {
        let mut spec = ConstraintsSpec {
            max_splits: self.max_splits,
            min_splits: self.min_splits,
            input_at: self.input_at.clone(),
            output_at: self.output_at.clone(),
            replicate: self.replicate,
            ..ConstraintsSpec::default()
        };
        for text in &self.pin {
            let (op, device) = pair("--pin", text)?;
            let said = self.pin.iter().filter_map(|other| other.rsplit_once('='));
            if let Some((_, other)) = said.into_iter().find(|(o, d)| *o == op && *d != device) {
                let message = format!("`{op}` cannot be on `{device}` and on `{other}`");
                return Err(Failure::option("--pin", message, "pin it to one device"));
            }
            spec.pin.insert(op, device);
        }
        for text in &self.forbid {
            let (op, device) = pair("--forbid", text)?;
            spec.forbid.entry(op).or_default().push(device);
        }
        spec.colocate
            .extend(self.colocate.iter().map(|ops| ops.split(',').map(|op| op.trim().to_owned()).collect()));
        let mut limited = HashSet::new();
        for text in &self.memory_limit {
            let (device, size) = pair("--memory-limit", text)?;
            let bytes = size.parse().ok().or_else(|| parse_bytes(&size));
            let bytes = bytes.ok_or_else(|| {
                let fix =
                    format!("write {device}=8GB, {device}=512MiB or, in bytes, {device}=8000000000, say");
                Failure::option("--memory-limit", format!("`{size}` is not a size"), fix)
            })?;
            if !limited.insert(device.clone()) {
                return Err(given_twice("--memory-limit", &device));
            }
            spec.memory_limit.insert(device, bytes);
        }
        Ok(spec)
    }
}

/// `NAME=SIZE` pairs.
fn dims(texts: &[String]) -> Result<BTreeMap<String, u64>, Failure> {
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

/// Rounds by the name of the loop.
fn trips(texts: &[String]) -> Result<BTreeMap<String, u64>, Failure> {
    let mut trips = BTreeMap::new();
    for text in texts {
        let (name, rounds) = match text.parse::<u64>() {
            Ok(_) => (EVERY_LOOP.to_owned(), text.clone()),
            Err(_) => pair("--trips", text)?,
        };
        let rounds = rounds.parse().ok().filter(|rounds| *rounds <= MOST_TRIPS).ok_or_else(|| {
            let message = format!("`{rounds}` is not a number of rounds up to {MOST_TRIPS}");
            Failure::option("--trips", message, "write --trips 20, say")
        })?;
        if trips.insert(name.clone(), rounds).is_some() {
            return Err(given_twice("--trips", &name));
        }
    }
    Ok(trips)
}

/// `OP=DEVICE`; names of ops may hold `=`, those of devices do not.
fn pair(option: &str, text: &str) -> Result<(String, String), Failure> {
    let split = text.rsplit_once('=').filter(|(a, b)| !a.is_empty() && !b.is_empty());
    let (a, b) = split.ok_or_else(|| {
        Failure::option(option, format!("`{text}` is not of the form A=B"), example(option))
    })?;
    Ok((a.to_owned(), b.to_owned()))
}

/// What an option of two parts looks like.
fn example(option: &str) -> String {
    let pair = match option {
        "--dim" => "batch=8",
        "--trips" => "decoder_loop=20",
        "--memory-limit" => "gpu=8GB",
        _ => "conv1=gpu",
    };
    format!("write {option} {pair}, say")
}

fn given_twice(option: &str, name: &str) -> Failure {
    Failure::option(option, format!("`{name}` is given twice"), "give it once")
}
