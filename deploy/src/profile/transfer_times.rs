//! How long values take from one device to another: a hand-over within one memory, a copy over a link.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::problem::Problem;
use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::executor::{Happened, Report, Span};
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, LinkSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Data, HostTensor};
use divvy_io::onnx::proto::{
    Dimension, DimensionValue, Graph, Model, Node, OperatorSet, Shape, TensorType, Type, TypeValue, ValueInfo,
};

use crate::device_specs::in_one_memory;
use crate::engine::Engine;
use crate::error::DeployError;
use crate::session::{feeds, start, start_on, warm_up};

/// Elements of the values that are sent: few, for the time before the first byte, and many, for what bytes add.
const FEW: usize = 16;
const MANY: usize = 1 << 20;
const WARM_UP: u64 = 20;
/// All pairs of more devices are not measured.
const MOST_DEVICES: usize = 6;

/// What was measured between two devices.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The device that has a value.
    pub from: String,
    /// The device that gets it.
    pub to: String,
    /// From the end of a stage to the start of the one that it feeds, in microseconds, for a few bytes.
    pub latency: f64,
    /// What a stage takes that does next to nothing, in microseconds.
    pub(super) launch: f64,
    /// Bytes per second beyond that; none within one memory, where nothing is copied.
    pub bandwidth: Option<f64>,
    /// How the timings scatter: the distance of their quarters over their median.
    pub spread: f64,
}

/// Measures every ordered pair of devices.
pub(super) fn measure(
    problem: &Problem,
    devices: &[DeviceSpec],
    backend: &Arc<dyn Backend>,
    repeat: u64,
    cancelled: &AtomicBool,
) -> Result<Vec<Transfer>, DeployError> {
    let mut transfers = Vec::new();
    let devices = &devices[..devices.len().min(MOST_DEVICES)];
    for from in devices {
        for to in devices.iter().filter(|to| to.name != from.name && !to.cores.overlap(&from.cores)) {
            let end = |device: &DeviceSpec| problem.hardware.device_named(&device.name);
            let route = Option::zip(end(from), end(to)).and_then(|(a, b)| problem.hardware.route(a, b));
            let Some(route) = route else { continue };
            let together = Option::zip(end(from), end(to)).is_some_and(|(a, b)| in_one_memory(problem, a, b));
            let linked = route.bandwidth.is_some() && !together;
            let ends = [from.clone(), to.clone()];
            let (few, launch) = gaps(&ends, linked, FEW, backend, repeat, cancelled)?;
            let (name, to) = (from.name.clone(), to.name.clone());
            let mut transfer = Transfer {
                from: name,
                to,
                latency: few.undisturbed(),
                launch,
                bandwidth: None,
                spread: few.spread(),
            };
            if linked {
                let (many, _) = gaps(&ends, linked, MANY, backend, repeat, cancelled)?;
                let added = (many.undisturbed() - few.undisturbed()).max(1.0);
                transfer.bandwidth = Some(((MANY - FEW) * size_of::<f32>()) as f64 / (added / 1e6));
                transfer.spread = transfer.spread.max(many.spread());
            }
            transfers.push(transfer);
        }
    }
    Ok(transfers)
}

/// Times from the end of one stage to the start of the next, on another device, and what a stage takes.
fn gaps(
    ends: &[DeviceSpec; 2],
    linked: bool,
    elements: usize,
    backend: &Arc<dyn Backend>,
    repeat: u64,
    cancelled: &AtomicBool,
) -> Result<(Timings, f64), DeployError> {
    let stage = |device: usize, from: &str, to: &str| {
        let model = StageModel {
            name: format!("copy of {from}"),
            bytes: identity(from, to, elements).to_bytes(),
            inputs: vec![from.to_owned()],
            outputs: vec![to.to_owned()],
            ..StageModel::default()
        };
        StageSpec::new(model, device)
    };
    let link = LinkSpec { name: "link".into(), from: 0, to: 1 };
    let spec = ProgramSpec {
        devices: ends.to_vec(),
        links: if linked { vec![link] } else { Vec::new() },
        stages: vec![stage(0, "x", "a"), stage(1, "a", "y")],
        inputs: vec!["x".into()],
        results: vec!["y".into()],
        in_order: false,
    };
    let values = vec![vec![HostTensor { shape: vec![elements], data: Data::F32(vec![1.0; elements]) }]];
    let fed = feeds(&values, &**backend)?;
    let mut running = start(spec, backend, 1)?;
    warm_up(&mut running, &fed, WARM_UP, cancelled)?;
    let count = repeat.max(20);
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let traced = u32::try_from(count).unwrap_or(u32::MAX);
    let report: Report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, traced)?;
    let of = |stage: usize| report.spans.iter().filter(move |span| span.what == Happened::Stage(stage));
    let gap = |first: &Span| {
        let second = of(1).find(|second| second.item == first.item)?;
        Some(second.start_us - first.end_us)
    };
    // Within one memory, what is between two stages is the hand-over alone, which the executor times undisturbed.
    let gaps = if linked { Timings::new(of(0).filter_map(gap).collect()) } else { report.handover };
    Ok((gaps, report.stages[1].undisturbed()))
}

/// From the end of a stage on one device to the start of the next on another, in microseconds: the mean of both ways, for a few bytes.
/// A device that is another's value is given takes it in as its stage begins: what that adds to the stage counts too.
pub(super) fn there_and_back(
    ends: &[(DeviceSpec, Engine); 2],
    repeat: u64,
    cancelled: &AtomicBool,
) -> Result<f64, DeployError> {
    let stage = |device: usize, from: &str, to: &str| {
        let model = StageModel {
            name: format!("copy of {from}"),
            bytes: identity(from, to, FEW).to_bytes(),
            inputs: vec![from.to_owned()],
            outputs: vec![to.to_owned()],
            ..StageModel::default()
        };
        StageSpec::new(model, device)
    };
    let [one, other] = ends;
    let values = vec![vec![HostTensor { shape: vec![FEW], data: Data::F32(vec![1.0; FEW]) }]];
    let time = |spec: ProgramSpec, engines: &[Engine]| -> Result<f64, DeployError> {
        let fed = feeds(&values, &*engines[0].plain())?;
        let mut running = start_on(spec, engines, 1)?;
        warm_up(&mut running, &fed, WARM_UP, cancelled)?;
        let count = repeat.max(20);
        let mut source = |item: u64| (item < count).then(|| fed[0].clone());
        let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
        Ok(report.pace.latency.whole().median())
    };
    let program = |devices: Vec<DeviceSpec>, stages: Vec<StageSpec>, results: &str| ProgramSpec {
        devices,
        stages,
        inputs: vec!["x".into()],
        results: vec![results.into()],
        ..ProgramSpec::default()
    };
    let both = vec![one.0.clone(), other.0.clone()];
    let engines = [one.1.clone(), other.1.clone()];
    let round =
        time(program(both, vec![stage(0, "x", "a"), stage(1, "a", "b"), stage(0, "b", "y")], "y"), &engines)?;
    let twice =
        time(program(vec![one.0.clone()], vec![stage(0, "x", "a"), stage(0, "a", "y")], "y"), &engines[..1])?;
    let call = time(program(vec![other.0.clone()], vec![stage(0, "x", "y")], "y"), &engines[1..])?;
    Ok(((round - twice - call) / 2.0).max(0.0))
}

/// A model that hands on what it is given.
pub(super) fn identity(from: &str, to: &str, elements: usize) -> Model {
    let value = |name: &str| {
        let size = Some(DimensionValue::DimValue(elements as i64));
        let shape = Shape { dim: vec![Dimension { value: size, ..Dimension::default() }] };
        let tensor = TensorType { elem_type: Some(1), shape: Some(shape) };
        let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
        ValueInfo { name: Some(name.into()), r#type: Some(of), ..ValueInfo::default() }
    };
    let node = Node {
        op_type: Some("Abs".into()),
        input: vec![from.into()],
        output: vec![to.into()],
        ..Node::default()
    };
    let graph = Graph {
        name: Some("copy".into()),
        node: vec![node],
        input: vec![value(from)],
        output: vec![value(to)],
        ..Graph::default()
    };
    let opset = OperatorSet { version: Some(13), ..OperatorSet::default() };
    Model { ir_version: Some(8), opset_import: vec![opset], graph: Some(graph), ..Model::default() }
}

/// What a stage takes that does next to nothing, in microseconds.
pub(super) fn launch(transfers: &[Transfer]) -> f64 {
    Timings::new(transfers.iter().map(|transfer| transfer.launch).collect()).median()
}
