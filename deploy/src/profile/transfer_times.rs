//! How long values take from one device to another: a hand-over within one memory, a copy over a link.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::hardware;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::executor::{Happened, Report};
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, LinkSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Data, HostTensor};
use divvy_io::onnx::proto::{
    Dimension, DimensionValue, Graph, Model, Node, OperatorSet, Shape, TensorType, Type, TypeValue, ValueInfo,
};
use divvy_io::{detect, file};
use prost::Message;

use super::super::run::prepare::in_one_memory;
use super::super::run::{feeds, start, warm_up};
use super::company::Company;
use super::cuts::Cuts;
use crate::failure::Failure;

/// Elements of the values that are sent: few, for the time before the first byte, and many, for what bytes add.
const FEW: usize = 16;
const MANY: usize = 1 << 20;
const WARM_UP: u64 = 20;
/// Bytes per second of a link that costs nothing but its latency.
const FASTEST: f64 = 1e12;
/// All pairs of more devices are not measured.
const MOST_DEVICES: usize = 6;

/// What was measured between two devices.
pub(super) struct Transfer {
    pub(super) from: String,
    pub(super) to: String,
    /// From the end of a stage to the start of the one that it feeds, in microseconds, for a few bytes.
    pub(super) latency: f64,
    /// What a stage takes that does next to nothing, in microseconds.
    launch: f64,
    /// Bytes per second beyond that; none within one memory, where nothing is copied.
    pub(super) bandwidth: Option<f64>,
    pub(super) spread: f64,
}

impl Transfer {
    pub(super) fn describe(&self) -> String {
        let Transfer { from, to, latency, .. } = self;
        let beyond = self
            .bandwidth
            .map_or("nothing is copied".to_owned(), |bandwidth| format!("then {:.2} GB/s", bandwidth / 1e9));
        let spread = 100.0 * self.spread;
        format!("{from} -> {to}: {latency:.1} us, {beyond}; timings scatter by {spread:.1} %\n")
    }
}

/// Measures every ordered pair of devices.
pub(super) fn measure(
    problem: &Problem,
    devices: &[DeviceSpec],
    backend: &Arc<dyn Backend>,
    repeat: u64,
    cancelled: &AtomicBool,
) -> Result<Vec<Transfer>, Failure> {
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
) -> Result<(Timings, f64), Failure> {
    let stage = |device: usize, from: &str, to: &str| {
        let model = StageModel {
            name: format!("copy of {from}"),
            bytes: identity(from, to, elements).encode_to_vec(),
            inputs: vec![from.to_owned()],
            outputs: vec![to.to_owned()],
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
    let gap = |first: &divvy_exec::executor::Span| {
        let second = of(1).find(|second| second.item == first.item)?;
        Some(second.start_us - first.end_us)
    };
    // Within one memory, what is between two stages is the hand-over alone, which the executor times undisturbed.
    let gaps = if linked { Timings::new(of(0).filter_map(gap).collect()) } else { report.handover };
    Ok((gaps, report.stages[1].undisturbed()))
}

/// A model that hands on what it is given.
fn identity(from: &str, to: &str, elements: usize) -> Model {
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

/// Writes the hardware with its links as measured; links that join other ends stay as they are.
///
/// Where all devices work in one memory, links between them take the place of free hand-overs, and stand for what a cut
/// costs: starting a piece, and the change of layout on both sides. Under `stream` links cost devices nothing, so that each
/// side has half of the change as its transfer bandwidth.
pub(super) fn write_hardware(
    path: &std::path::Path,
    problem: &Problem,
    transfers: &[Transfer],
    cuts: &[Cuts],
    company: &[Company],
) -> Result<(), Failure> {
    let mut spec = problem.hardware.spec().clone();
    for link in &mut spec.links {
        let [a, b] = &link.between;
        let found = transfers.iter().find(|t| (&t.from, &t.to) == (a, b) || (&t.from, &t.to) == (b, a));
        if let Some(Transfer { latency, bandwidth: Some(bandwidth), .. }) = found {
            link.latency = Time((latency * 1e6) as u64);
            link.bandwidth = *bandwidth as u64;
        }
    }
    if spec.links.is_empty() && spec.devices.iter().all(|device| device.on_host) && !cuts.is_empty() {
        let of_class = |name: &str| {
            let device = spec.devices.iter().find(|device| device.name == name)?;
            cuts.iter().find(|cuts| cuts.class == device.class)
        };
        let launch = launch(transfers);
        let mut links: Vec<hardware::LinkSpec> = Vec::new();
        for transfer in transfers {
            let between = [transfer.from.clone(), transfer.to.clone()];
            if links.iter().any(|link| between.iter().all(|end| link.between.contains(end))) {
                continue;
            }
            let rates: Vec<f64> =
                between.iter().filter_map(|end| Some(of_class(end)?.per_byte(transfer.launch))).collect();
            let per_byte = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
            let bandwidth = if per_byte > 0.0 { (1e6 / per_byte).min(FASTEST) } else { FASTEST };
            let latency = Time(((transfer.latency + transfer.launch) * 1e6) as u64);
            let bandwidth = bandwidth as u64;
            links.push(hardware::LinkSpec { between, bandwidth, latency, half_duplex: false, bus: None });
        }
        spec.links = links;
        for cuts in cuts {
            let per_byte = cuts.per_byte(launch);
            if let Some(class) =
                spec.classes.iter_mut().find(|class| class.name == cuts.class && per_byte > 0.0)
            {
                class.transfer_bandwidth = Some((2e6 / per_byte).min(FASTEST) as u64);
            }
        }
        for device in &mut spec.devices {
            device.on_host = false;
        }
    }
    for Company { class, alone, in_pieces } in company {
        if let Some(class) = spec.classes.iter_mut().find(|known| known.name == *class) {
            class.alone = Some((1000.0 * alone / in_pieces).round() / 1000.0);
        }
    }
    Ok(file::write(path, &detect::to_toml(&spec))?)
}
