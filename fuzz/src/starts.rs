//! Where fuzzing starts from: valid files of every format, written into one folder for each target.

use std::io::Write;
use std::path::Path;

use divvy_core::check::check;
use divvy_core::score::{Activity, Lane, Span};
use divvy_io::plan_file::PlanFile;
use divvy_io::presets;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::{seeds, assess, models};
use crate::seeds::{HARDWARE, LATENCY, MACHINE, MSR, PIPELINE, PROBLEM, TORCH};

/// A target and the files it starts from.
type Start = (&'static str, Vec<Vec<u8>>);

/// A matrix as `nvidia-smi topo -m` prints it, with the names of `nvidia-smi -L` before it.
const TOPO: &str = "\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tSYS\tPIX\t0-31\t0\tN/A
GPU1\tNV12\t X \tPHB\tPXB\t0-31\t0\tN/A
GPU2\tSYS\tPHB\t X \tNODE\t32-63\t1\tN/A
NIC0\tPIX\tPXB\tNODE\t X

Legend:

  X    = Self
";

const QUANTITIES: [&str; 8] =
    ["8 GB", "1.5 TiB", "12 Gbit/s", "2 us", "300 W", "989.5 TFLOP/s", "0.001 ns", "1_000 kB"];

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).and_then(|()| packer.finish()).expect("memory takes everything")
}

/// The bundled models, as far as they are ONNX and as far as they are packed.
fn bundled(folder: &Path) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let entries = std::fs::read_dir(folder).expect("the folder of models can be read");
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let with = |ending: &str| -> Vec<Vec<u8>> {
        let paths = paths.iter().filter(|path| path.extension().is_some_and(|found| found == ending));
        paths.map(|path| std::fs::read(path).expect("a model can be read")).collect()
    };
    (with("onnx"), with("gz"))
}

/// A run of a plan that took just as long as was planned.
fn trace(file: &PlanFile) -> Vec<u8> {
    let (graph, hardware) = (&file.problem.graph, &file.problem.hardware);
    let score = check(&file.problem, &file.plan).expect("a seed is sound");
    let span = |span: &Span| {
        let (start, end) = (span.start.0 as f64 / 1e6, span.end.0 as f64 / 1e6);
        match (span.lane, span.what) {
            (Lane::Device(device), Activity::Op(op, inputs)) => Some(json!({
                "op": graph.op_name(op), "device": hardware.device_name(device), "inputs": inputs,
                "start": start, "end": end,
            })),
            (Lane::Link(link), Activity::Tensor(tensor, to)) => Some(json!({
                "tensor": graph.tensor_name(tensor), "link": hardware.links()[link.index()].name,
                "to": hardware.device_name(to), "start": start, "end": end,
            })),
            _ => None,
        }
    };
    let spans: Vec<Value> = score.trace.spans.iter().filter_map(span).collect();
    json!({ "divvy": "trace", "version": 1, "spans": spans }).to_string().into_bytes()
}

/// What every target starts from.
fn all(models: &Path) -> Vec<Start> {
    let (onnx, packed) = bundled(models);
    let mut small: Vec<Vec<u8>> =
        models::one_for_each_operator().into_iter().map(|(_, bytes)| bytes).collect();
    for bytes in onnx {
        let model = prost::Message::decode(bytes.as_slice()).expect("a bundled model is sound");
        small.extend(models::in_pieces(&model, 12));
    }
    // The first bytes of an input to `onnx_cut` say where to cut.
    let cuts = small.iter().enumerate().map(|(i, model)| [&i.to_le_bytes(), model.as_slice()].concat());
    let cuts = cuts.collect();
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let built_in =
        ["h200-cpu", "dgx-v100", "gpt3-6-nodes", "edge-wifi"].map(|name| presets::text(name).unwrap_or(""));
    let is_problem = |seed: &&seeds::Seed| seed.name == "problem" || seed.name.starts_with("generated");
    let problems =
        seeds::all().iter().filter(is_problem).map(|seed| seed.text.clone().into_bytes()).collect();
    let plans = seeds::plan_files().iter().map(|file| file.write().into_bytes()).collect();
    let traces = seeds::plan_files().iter().map(trace).collect();
    let wrapped = [PROBLEM, PIPELINE, HARDWARE].map(|text| pack(text.as_bytes()));
    let wrapped = wrapped.into_iter().chain(packed.into_iter().filter(|bytes| bytes.len() < 4096)).collect();
    let hardware = [texts(&[HARDWARE]), texts(&built_in)].concat();
    debug_assert!(hardware.iter().all(|text| assess::assess(text).is_ok()));
    vec![
        ("onnx", small),
        ("onnx_cut", cuts),
        ("hardware_file", hardware),
        ("problem_file", problems),
        ("plan_file", plans),
        ("trace_file", traces),
        ("torch", texts(&[TORCH])),
        ("latency", texts(&[LATENCY])),
        ("pipeline", texts(&[PIPELINE])),
        ("msr", texts(&[MSR])),
        ("machine", texts(&[MACHINE])),
        ("topo", texts(&[TOPO])),
        ("gzip", wrapped),
        ("quantity", texts(&QUANTITIES)),
    ]
}

/// Writes the files that each target starts from into `folder/TARGET`.
pub fn write(models: &Path, folder: &Path) -> std::io::Result<()> {
    for (target, files) in all(models) {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder)?;
        for (i, bytes) in files.iter().enumerate() {
            std::fs::write(folder.join(format!("start{i:03}")), bytes)?;
        }
    }
    Ok(())
}
