//! The whole way of a file: import, graph, hardware, problem, the plainest plans, their check and some bounds.
//!
//! [`assess`] answers what the file's own objective (or latency) says. Every other objective is tried too, because
//! nothing on the way may panic, whether or not it fits the file.

use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::hardware::{Hardware, HardwareSpec};
use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::input_error::InputErrors;
use divvy_core::problem::{LinkUse, Objective, OwnHardware, Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_core::{check, default_plan};
use divvy_io::file::Loaded;
use divvy_io::import::{Imported, import};
use divvy_io::plan_file::PlanFile;
use divvy_io::{Error, presets};
use divvy_proof::evidence::{ChainStage, Evidence, StageGroup};
use divvy_proof::verify;

/// Inputs of the `batch` that every problem is tried with.
const INPUTS: u32 = 4;

/// A file in memory.
pub(crate) fn loaded(bytes: &[u8]) -> Loaded {
    Loaded { path: "hostile".to_owned(), bytes: bytes.to_vec().into(), sha256: String::new() }
}

/// The input's faults; any other kind of error is a bug, as nothing here touches the disk.
pub(crate) fn faults(error: Error) -> InputErrors {
    match error {
        Error::Input { errors, .. } => errors,
        other => panic!("not the input's fault: {other}"),
    }
}

/// Takes a file all the way; the faults that end the way early.
pub(crate) fn assess(bytes: &[u8]) -> Result<(), InputErrors> {
    let loaded = loaded(bytes);
    match import(&loaded).map_err(faults)? {
        Imported::Plan => {
            let file = PlanFile::read(&loaded).map_err(faults)?;
            // A plan that breaks rules is a verdict, not a fault of the input.
            let _ = file.check();
            Ok(())
        }
        Imported::Hardware(spec) => {
            Hardware::new((*spec).clone())?;
            let network = ProblemSpec { graph: small_network(), ..ProblemSpec::default() };
            let graph = Graph::new(network.graph.clone())?;
            try_objectives(&graph, &network, &spec)
        }
        Imported::Problem { spec, .. } => {
            let graph = Graph::new(spec.graph.clone())?;
            let results =
                hardware_for(&spec).iter().map(|h| try_objectives(&graph, &spec, h)).collect::<Vec<_>>();
            // The first hardware is the one that the file itself asks for.
            results.into_iter().next().expect("there is hardware to try")
        }
    }
}

/// The file's own hardware, or some that it might be planned on.
fn hardware_for(spec: &ProblemSpec) -> Vec<HardwareSpec> {
    let built_in = |name: &str| presets::hardware(name).expect("it exists").expect("it reads");
    match &spec.hardware {
        Some(OwnHardware::Given(hardware)) => vec![(**hardware).clone()],
        Some(OwnHardware::UniformPerStage { bandwidth }) => vec![presets::uniform_devices(2, *bandwidth)],
        None => vec![built_in("h200-cpu"), built_in("uniform-2")],
    }
}

/// Tries all objectives; the result is that of the file's own.
fn try_objectives(graph: &Graph, spec: &ProblemSpec, hardware: &HardwareSpec) -> Result<(), InputErrors> {
    let own = spec.objective.unwrap_or(Objective::Latency { links: LinkUse::Delay });
    let stages = u32::try_from(hardware.devices.len().min(3)).expect("a small number");
    let others = [
        Objective::Latency { links: LinkUse::InTurn },
        Objective::Batch { inputs: INPUTS },
        Objective::Pipeline { stages },
        Objective::Stream,
        Objective::COLD_START,
    ];
    let catalogue = presets::catalogue();
    let attempt = |objective| {
        let (graph, hardware) = (graph.clone(), hardware.clone());
        let problem = Problem::new(graph, &spec.profile, hardware, &catalogue, objective, &spec.constraints)?;
        exercise(&problem);
        Ok(())
    };
    for objective in others {
        let _: Result<(), InputErrors> = attempt(objective);
    }
    attempt(own)
}

/// Plans, checks and bounds a sound problem. Plans may break rules; nothing may panic.
fn exercise(problem: &Problem) {
    let _ = problem.infeasibilities();
    for spread in [false, true] {
        if let Ok(plan) = default_plan::plan(problem, &placement(problem, spread)) {
            let _ = check::check(problem, &plan);
        }
    }
    for evidence in evidences(problem) {
        let _ = verify::proven(problem, &evidence);
    }
}

/// Every op on the first device that may run it, or spread over those that may.
pub(crate) fn placement(problem: &Problem, spread: bool) -> Vec<DeviceId> {
    let choose = |op: OpId| {
        let allowed = problem.devices_for(op).count();
        let nth = if spread { op.index() % allowed.max(1) } else { 0 };
        problem.devices_for(op).nth(nth).expect("a sound problem has a device for every op")
    };
    problem.graph.ops().map(choose).collect()
}

/// One evidence of each kind.
pub(crate) fn evidences(problem: &Problem) -> Vec<Evidence> {
    vec![
        Evidence::CriticalPath { ops: some_chain(problem) },
        Evidence::Op { op: OpId(0) },
        Evidence::Area { weights: vec![1; problem.hardware.device_count()] },
        Evidence::DeviceLoad { device: DeviceId(0) },
        Evidence::LinkLoad { link: LinkId(0) },
        Evidence::LastLoads {
            weights: vec![1; problem.hardware.links().len()],
            left_ps: Time::ZERO,
            shares: Vec::new(),
            steps: Vec::new(),
        },
        Evidence::SegmentPrices {
            links: vec![1; problem.hardware.links().len()],
            kernels: 1,
            chain: some_chain(problem),
            shared: false,
        },
        Evidence::ChainDp {
            stages: some_chain(problem).into_iter().map(plain_stage).collect(),
            limit_ps: Time(1 << 40),
            width: 10,
            shares: vec![1; problem.hardware.device_count()],
        },
        Evidence::SetCover {
            merged: true,
            threshold_ps: Time(0),
            prices: vec![1; problem.graph.op_count()],
            groups: vec![StageGroup { stages: 1, count: 1, limit: 0, tree: vec![1] }],
        },
        Evidence::TwoWayCut { merged: true, threshold_ps: Time(0), first: 1, tree: vec![1] },
        Evidence::DownSets { merged: true, threshold_ps: Time(0) },
        Evidence::Attested { by: "nobody".to_owned() },
    ]
}

fn plain_stage(op: OpId) -> ChainStage {
    ChainStage { op, branches: Vec::new(), shares: Vec::new(), weights: Vec::new() }
}

/// A chain from the first op along first successors.
fn some_chain(problem: &Problem) -> Vec<OpId> {
    let first = problem.graph.order().first().copied();
    std::iter::successors(first, |&op| problem.graph.successors(op).next()).collect()
}

/// A network of three ops to try hardware with.
fn small_network() -> GraphSpec {
    let op = |name: &str| OpSpec { name: name.to_owned(), flops: Some(1_000_000), ..OpSpec::default() };
    let tensor = |name: &str, producer: Option<u32>, consumers: &[u32]| TensorSpec {
        name: name.to_owned(),
        bytes: 4096,
        producer,
        consumers: consumers.to_vec(),
        output: consumers.is_empty(),
    };
    GraphSpec {
        name: "three ops".to_owned(),
        precision: None,
        ops: vec![op("a"), op("b"), op("c")],
        tensors: vec![
            tensor("x", None, &[0]),
            tensor("y", Some(0), &[1, 2]),
            tensor("z", Some(1), &[2]),
            tensor("out", Some(2), &[]),
        ],
        params: vec![ParamSpec { name: "w".to_owned(), bytes: 65_536, readers: vec![0, 2] }],
    }
}
