//! `--trace`: some items more, with every kernel timed, written as a trace file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::executor::Happened;
use divvy_exec::measure::Timings;
use divvy_exec::tensor::Tensor;
use divvy_io::file;
use divvy_io::plan_file::PlanFile;
use serde_json::{Value, json};

use super::prepare::Prepared;
use super::{start, warm_up};
use crate::failure::Failure;

/// Items before, and items that count. The last one is written.
const WARM_UP: u64 = 3;
const ITEMS: u32 = 8;

/// A folder for the runtime's own files, gone when dropped.
pub(in crate::commands) struct Scratch(pub(in crate::commands) std::path::PathBuf);

impl Scratch {
    pub(in crate::commands) fn new() -> Result<Scratch, Failure> {
        let folder = std::env::temp_dir().join(format!("divvy-kernels-{}", std::process::id()));
        let made = std::fs::create_dir_all(&folder);
        let shown = folder.display().to_string();
        made.map_err(|cause| Failure::Environment(format!("cannot make the folder `{shown}`: {cause}")))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the trace; returns the median time of each op that had kernels of its own.
pub(super) fn write(
    path: &Path,
    prepared: &Prepared,
    runtime: &OnnxRuntime,
    fed: &[Vec<Tensor>],
    plan: &PlanFile,
) -> Result<Vec<(OpId, f64)>, Failure> {
    let scratch = Scratch::new()?;
    let backend: Arc<dyn Backend> = Arc::new(runtime.clone().profiling(scratch.0.clone()));
    let mut running = start(prepared.marked.clone(), &backend, 1)?;
    let off = AtomicBool::new(false);
    warm_up(&mut running, fed, WARM_UP, &off)?;
    let mut source = |item: u64| (item < u64::from(ITEMS)).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), &off, ITEMS)?;
    let last = report.spans.iter().map(|span| span.item).max().unwrap_or(0);
    let hardware = &plan.problem.hardware;
    let mut spans: Vec<Value> = Vec::new();
    // For each op and run; copies of an op for other inputs of the item count too.
    let mut times: BTreeMap<OpId, Vec<f64>> = BTreeMap::new();
    for span in report.spans.iter().filter(|span| span.item == last) {
        match span.what {
            // Putting inputs together anew is no op of the problem's.
            Happened::Stage(stage) if prepared.work[stage].regroups_for.is_some() => {}
            Happened::Stage(stage) => {
                let device = hardware.device_name(prepared.devices[prepared.marked.stages[stage].device]);
                let runs = running.kernels(stage).map_err(|error| Failure::Environment(error.to_string()))?;
                for (i, run) in runs.iter().skip(WARM_UP as usize).enumerate() {
                    for (op, run) in prepared.owners.by_op(run) {
                        let times = times.entry(op).or_default();
                        times.resize(times.len().max(i + 1), 0.0);
                        times[i] += run.busy;
                    }
                }
                for (op, run) in prepared.owners.by_op(runs.last().map_or(&[][..], Vec::as_slice)) {
                    let (start, end) = (span.start_us + run.start, span.start_us + run.end);
                    let op = plan.problem.graph.op_name(op);
                    spans.push(json!({"op": op, "device": device, "start": start, "end": end}));
                }
            }
            Happened::Sent { stage, output, link } => {
                let link = &prepared.marked.links[link];
                let tensor = &prepared.marked.stages[stage].model.outputs[output];
                // Values that are no tensors of the problem, such as shapes, have no place in its timeline.
                if plan.problem.graph.tensors().any(|t| plan.problem.graph.tensor_name(t) == tensor) {
                    let to = hardware.device_name(prepared.devices[link.to]);
                    let (start, end) = (span.start_us, span.end_us);
                    spans.push(
                        json!({"tensor": tensor, "link": link.name, "to": to, "start": start, "end": end}),
                    );
                }
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
    Ok(times.into_iter().map(|(op, times)| (op, Timings::new(times).undisturbed())).collect())
}
