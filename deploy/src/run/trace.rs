//! When each op ran: some items more with every kernel timed, the last of them written as a trace file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::executor::{Happened, Running, Span};
use divvy_exec::measure::Timings;
use divvy_exec::program::Program;
use divvy_exec::tensor::Tensor;
use divvy_io::file;
use serde_json::{Value, json};

use crate::error::DeployError;
use crate::prepared::Prepared;
use crate::scratch::Scratch;
use crate::session::warm_up;

/// Items before, and items that count. The last one is written.
const WARM_UP: u64 = 3;
const ITEMS: u32 = 8;

/// Writes the trace; returns the times of each op that had kernels of its own.
pub(crate) fn write(
    path: &Path,
    prepared: &Prepared,
    runtime: &OnnxRuntime,
    fed: &[Vec<Tensor>],
) -> Result<Vec<(OpId, Timings)>, DeployError> {
    let scratch = Scratch::new()?;
    let engines = prepared.engines(runtime)?;
    let backends: Vec<Arc<dyn Backend>> =
        engines.iter().map(|engine| engine.timing(scratch.0.clone())).collect();
    let program = Program::new(prepared.marked.clone()).map_err(DeployError::Environment)?;
    let mut running = Running::start(program, &backends, 1)?;
    let off = AtomicBool::new(false);
    warm_up(&mut running, fed, WARM_UP, &off)?;
    let mut source = |item: u64| (item < u64::from(ITEMS)).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), &off, ITEMS)?;
    let last = report.spans.iter().map(|span| span.item).max().unwrap_or(0);
    let mut spans: Vec<Value> = Vec::new();
    let mut times = OpTimes::new();
    for span in report.spans.iter().filter(|span| span.item == last) {
        match span.what {
            // Putting inputs together anew is no op of the problem's.
            Happened::Stage(stage) if prepared.work[stage].regroups_for.is_some() => {}
            Happened::Stage(stage) => {
                spans.extend(stage_spans(prepared, &mut running, stage, span, &mut times)?);
            }
            Happened::Sent { stage, output, link } => {
                spans.extend(sent_span(prepared, (stage, output, link), span));
            }
        }
    }
    let first = spans.iter().filter_map(|span| span["start"].as_f64()).fold(f64::INFINITY, f64::min);
    for span in &mut spans {
        for key in ["start", "end"] {
            span[key] = json!(span[key].as_f64().unwrap_or(0.0) - first);
        }
    }
    file::write(path, &format!("{}\n", json!({"divvy": "trace", "version": 1, "spans": spans})))?;
    Ok(times.into_iter().map(|(op, times)| (op, Timings::new(times))).collect())
}

/// For each op and run, what it took; copies of an op for other inputs of the item count too.
type OpTimes = BTreeMap<OpId, Vec<f64>>;

/// When each op of a stage ran in the last item; `times` takes in what its ops took in every item.
fn stage_spans(
    prepared: &Prepared,
    running: &mut Running,
    stage: usize,
    span: &Span,
    times: &mut OpTimes,
) -> Result<Vec<Value>, DeployError> {
    let problem = &prepared.problem;
    let device = problem.hardware.device_name(prepared.devices[prepared.marked.stages[stage].device]);
    let runs = running.kernels(stage).map_err(|error| DeployError::Environment(error.to_string()))?;
    for (i, run) in runs.iter().skip(WARM_UP as usize).enumerate() {
        for (op, run) in prepared.owners.by_op(run) {
            let times = times.entry(op).or_default();
            times.resize(times.len().max(i + 1), 0.0);
            times[i] += run.busy;
        }
    }
    let of_last = prepared.owners.by_op(runs.last().map_or(&[][..], Vec::as_slice));
    let shown = of_last.into_iter().map(|(op, run)| {
        let (start, end) = (span.start_us + run.start, span.start_us + run.end);
        json!({"op": problem.graph.op_name(op), "device": device, "start": start, "end": end})
    });
    Ok(shown.collect())
}

/// When an output of a stage went over a link. Values that are no tensors of the problem, such as shapes, have no place in
/// its timeline.
fn sent_span(
    prepared: &Prepared,
    (stage, output, link): (usize, usize, usize),
    span: &Span,
) -> Option<Value> {
    let (graph, hardware) = (&prepared.problem.graph, &prepared.problem.hardware);
    let link = &prepared.marked.links[link];
    let tensor = &prepared.marked.stages[stage].model.outputs[output];
    graph.tensors().find(|&known| graph.tensor_name(known) == tensor)?;
    let to = hardware.device_name(prepared.devices[link.to]);
    let (start, end) = (span.start_us, span.end_us);
    Some(json!({"tensor": tensor, "link": link.name, "to": to, "start": start, "end": end}))
}
