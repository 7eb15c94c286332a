//! `divvy inspect`: what a file holds and, of a network, what dominates it.

mod as_json;
mod as_text;

use divvy::core::costs::{self, BatchSizes, ClassCosts, Cost, Origin, Profile};
use divvy::core::graph::Graph;
use divvy::core::hardware::{Hardware, HardwareSpec};
use divvy::core::problem::{OwnHardware, ProblemSpec};
use divvy::core::units::Time;
use divvy::io::assemble::to_granularity;
use divvy::io::file::{self, read_once};
use divvy::io::import::{Imported, Inspected, declare_parameters, import_for_inspection};
use divvy::io::onnx::open_dims::OpenDim;
use divvy::io::onnx::trips::Trips;
use divvy::io::onnx::weights::Absent;
use divvy::io::plan_file::PlanFile;
use divvy::io::{hardware_source, presets};

use crate::analysis;
use crate::analysis::{Ranking, Repeat};
use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::output::tell;

pub(crate) fn run(args: &InspectArgs) -> Result<String, Failure> {
    read_once([Some(&args.file), args.on.as_ref()].into_iter().flatten().map(String::as_str))?;
    let loaded = file::load(&args.file)?;
    let reading = args.reading.options()?;
    let about = |errors| Failure::Input(args.file.clone(), errors);
    if args.values {
        return super::values::list(&loaded, &reading.dims, args.json);
    }
    let Inspected { imported, open, absent } = import_for_inspection(&loaded, &reading)?;
    match imported {
        Imported::Hardware(spec) => {
            if args.on.is_some() {
                let fix = "give a model, or drop --on";
                return Err(Failure::option("--on", "the file is hardware itself", fix));
            }
            let hardware = Hardware::new(*spec).map_err(about)?;
            Ok(if args.json { as_json::hardware(&hardware) } else { as_text::hardware(&hardware) })
        }
        Imported::Plan => {
            let plan = PlanFile::read(&loaded)?;
            let found_by = plan.found_by.as_ref().unwrap_or(&plan.planner);
            let format = format!("divvy plan ({} by {found_by})", plan.plan.objective_name());
            network(
                &format,
                plan.problem.to_spec(),
                About { open: &open, absent: &absent, trips: &plan.reading.trips },
                args,
            )
        }
        Imported::Problem { format, mut spec, warnings } => {
            warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
            declare_parameters(&mut spec.graph, &reading.parameters).map_err(about)?;
            if let Some(granularity) = reading.granularity {
                *spec = to_granularity(*spec, granularity).map_err(about)?;
            }
            network(format, *spec, About { open: &open, absent: &absent, trips: &reading.trips }, args)
        }
    }
}

fn network(
    format: &str,
    mut spec: ProblemSpec,
    file: About<'_>,
    args: &InspectArgs,
) -> Result<String, Failure> {
    let about = |errors| Failure::Input(args.file.clone(), errors);
    let graph = Graph::new(std::mem::take(&mut spec.graph)).map_err(about)?;
    let timings = match (&args.on, &spec.hardware) {
        (Some(name), _) => {
            let (hardware, _) = hardware_source::find(name)?;
            timings_on(&graph, &spec.profile, &hardware).map_err(about)?
        }
        // What a file says of its own hardware may not be enough to plan with; its times are still worth a look.
        (None, Some(OwnHardware::Given(hardware))) => {
            timings_on(&graph, &spec.profile, hardware).unwrap_or_else(|_| timings_of_profile(&spec.profile))
        }
        (None, _) => timings_of_profile(&spec.profile),
    };
    let facts = Facts::new(format, &graph, &spec, (&timings, file), args);
    Ok(if args.json { as_json::network(&facts) } else { as_text::network(&facts) })
}

/// What there is to say of a file beside the network in it.
#[derive(Clone, Copy)]
struct About<'a> {
    /// Dimensions of inputs that are not set; the figures are for their suggested sizes.
    open: &'a [OpenDim],
    /// Weights in files that are not there.
    absent: &'a Absent,
    /// Rounds of loops that were said.
    trips: &'a Trips,
}

/// The times of all ops on one class of devices.
struct Timing {
    class: String,
    /// The devices of that class, by name; none where no hardware is given.
    devices: Vec<String>,
    batch_size: u32,
    costs: Vec<Option<Cost>>,
    /// What a piece costs there besides its ops.
    piece: Time,
}

impl Timing {
    fn new(costs: &ClassCosts, devices: Vec<String>, piece: Time) -> Option<Timing> {
        let (&batch_size, list) = costs.batch_sizes.first().zip(costs.costs.first())?;
        Some(Timing { class: costs.class.clone(), devices, batch_size, costs: list.clone(), piece })
    }

    /// How many of the ops that take time a piece costs as much as, on average.
    fn ops_in_a_piece(&self) -> Option<f64> {
        let times = || self.costs.iter().flatten().map(|cost| cost.time).filter(|time| *time > Time::ZERO);
        let sum: Time = times().sum();
        (sum > Time::ZERO).then(|| self.piece.0 as f64 * times().count() as f64 / sum.0 as f64)
    }

    /// How the figures came about, by the least certain of them.
    fn origin(&self) -> &'static str {
        origin(&self.costs)
    }
}

fn origin(costs: &[Option<Cost>]) -> &'static str {
    match costs.iter().flatten().map(|cost| cost.origin).max() {
        None | Some(Origin::Measured) => "measured",
        Some(Origin::Scaled) => "scaled",
        Some(Origin::Estimated) => "estimated",
    }
}

/// Times for one input on each class that some device has.
fn timings_on(
    graph: &Graph,
    profile: &Profile,
    spec: &HardwareSpec,
) -> Result<Vec<Timing>, divvy::core::input_error::InputErrors> {
    let hardware = Hardware::new(spec.clone())?;
    let resolved = costs::resolve(graph, profile, spec, &presets::catalogue(), BatchSizes::One)?;
    let devices_of = |class: &str| -> Vec<String> {
        let devices = hardware.devices().filter(|&device| hardware.class(device).name == class);
        devices.map(|device| hardware.device_name(device).to_owned()).collect()
    };
    let piece = |class: &str| {
        let device = hardware.devices().find(|&device| hardware.class(device).name == class);
        device.map_or(Time::ZERO, |device| hardware.piece_cost(device))
    };
    let timing = |costs: &ClassCosts| Timing::new(costs, devices_of(&costs.class), piece(&costs.class));
    Ok(resolved.iter().filter_map(timing).collect())
}

/// Times as the file has them, at the smallest batch size of each class.
fn timings_of_profile(profile: &Profile) -> Vec<Timing> {
    profile.classes.iter().filter_map(|costs| Timing::new(costs, Vec::new(), Time::ZERO)).collect()
}

/// A figure that ops have.
enum Measure<'a> {
    Flops,
    WeightBytes,
    ActivationBytes,
    Time(&'a Timing),
}

/// The ops of a network, one after the other, on a class at a batch size.
struct Total {
    class: String,
    size: u32,
    sum: Time,
    whole: Option<Time>,
    origin: &'static str,
}

/// What there is to say of a network.
struct Facts<'a> {
    format: &'a str,
    file: About<'a>,
    graph: &'a Graph,
    spec: &'a ProblemSpec,
    /// Hardware that was asked for.
    on: Option<&'a str>,
    /// Nodes of the source that are part of ops.
    folded: usize,
    largest: Vec<(&'a str, u64)>,
    totals: Vec<Total>,
    /// By number of ops, for the chain alone.
    op_counts: Ranking<'a>,
    rankings: Vec<(Measure<'a>, Ranking<'a>)>,
    repeats: Vec<Repeat>,
}

impl<'a> Facts<'a> {
    fn new(
        format: &'a str,
        graph: &'a Graph,
        spec: &'a ProblemSpec,
        (timings, file): (&'a [Timing], About<'a>),
        args: &'a InspectArgs,
    ) -> Facts<'a> {
        let top = args.top;
        let mut largest: Vec<(&str, u64)> =
            graph.tensors().map(|t| (graph.tensor_name(t), graph.tensor_bytes(t))).collect();
        largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        largest.truncate(top);
        let flops: Vec<Option<u64>> = graph.ops().map(|op| graph.op(op).flops).collect();
        let measures = [
            (Measure::Flops, flops),
            (Measure::WeightBytes, analysis::weight_bytes(graph)),
            (Measure::ActivationBytes, analysis::activation_bytes(graph)),
        ];
        let times = timings.iter().map(|timing| {
            (Measure::Time(timing), timing.costs.iter().map(|cost| Some((*cost)?.time.0)).collect())
        });
        let rank = |(measure, amounts): (Measure<'a>, Vec<Option<u64>>)| {
            (measure, Ranking::new(graph, &amounts, top))
        };
        Facts {
            format,
            file,
            graph,
            spec,
            on: args.on.as_deref(),
            folded: graph.ops().map(|op| graph.op(op).members.len()).sum(),
            largest,
            totals: totals(&spec.profile),
            op_counts: Ranking::new(graph, &vec![Some(1); graph.op_count()], 0),
            rankings: measures.into_iter().chain(times).map(rank).collect(),
            repeats: analysis::repeats(graph, top),
        }
    }

    /// All FLOPs that are known, and how many ops' are not; none where no op's are known.
    fn flops(&self) -> (Option<u128>, usize) {
        let known = self.rankings.iter().find(|(measure, _)| matches!(measure, Measure::Flops));
        known.map_or((None, self.graph.op_count()), |(_, ranking)| {
            let any = ranking.unknown < self.graph.op_count();
            (any.then_some(ranking.total), ranking.unknown)
        })
    }
}

fn totals(profile: &Profile) -> Vec<Total> {
    let mut totals = Vec::new();
    for class in &profile.classes {
        for (&size, list) in class.batch_sizes.iter().zip(&class.costs) {
            let sum: u64 = list.iter().flatten().map(|cost| cost.time.0).fold(0, u64::saturating_add);
            let whole = profile.whole_model.iter().find(|(c, s, _)| *c == class.class && *s == size);
            let whole = whole.map(|(_, _, time)| *time);
            totals.push(Total {
                class: class.class.clone(),
                size,
                sum: Time(sum),
                whole,
                origin: origin(list),
            });
        }
    }
    totals
}
