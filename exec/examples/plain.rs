//! ONNX Runtime without the executor, to compare with. Prints one JSON object.
//!
//!     plain rate MODEL.onnx CORES SECONDS        runs the model again and again, pinned to the cores
//!     plain overhead MODEL.onnx CORES SECONDS    the same in turns with a one-stage program on the same cores
//!
//! `scripts/measure_runs.py` calls it.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::cores::Cores;
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, Program, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Data, HostTensor, Tensor};
use ort::session::Session;
use ort::value::ValueType;
use serde_json::json;

/// How long a turn is at least. The runtime's threads look for work for a while after each run, on cores that whoever has the
/// next turn needs.
const TURN_US: f64 = 60_000.0;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The model, and values of the shapes that it wants.
fn read(path: &str, backend: &dyn Backend) -> Outcome<(StageModel, Vec<Tensor>)> {
    let bytes = std::fs::read(path)?;
    let session = Session::builder()?.commit_from_memory(&bytes)?;
    let mut fed = Vec::new();
    for input in session.inputs() {
        let ValueType::Tensor { shape, .. } = input.dtype() else {
            return Err("an input is no tensor".into());
        };
        let shape: Vec<usize> = shape.iter().map(|&size| usize::try_from(size).unwrap_or(1)).collect();
        let values = (0..shape.iter().product()).map(|i: usize| (i % 17) as f32 / 17.0).collect();
        fed.push(backend.take_in(HostTensor { shape, data: Data::F32(values) })?);
    }
    let inputs = session.inputs().iter().map(|input| input.name().to_owned()).collect();
    let outputs = session.outputs().iter().map(|output| output.name().to_owned()).collect();
    let name = Path::new(path).display().to_string();
    Ok((StageModel { name, bytes, inputs, outputs }, fed))
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, path, cores, seconds] = arguments.as_slice() else {
        return Err("usage: plain rate|overhead MODEL.onnx CORES SECONDS".into());
    };
    let (cores, limit): (Cores, _) = (cores.parse()?, Duration::from_secs_f64(seconds.parse()?));
    let backend: Arc<dyn Backend> = Arc::new(OnnxRuntime::load()?);
    let (model, fed) = read(path, &*backend)?;
    let mut program = match what.as_str() {
        "overhead" => Some(one_stage(model.clone(), &cores, &backend)?),
        _ => None,
    };
    cores.pin_this_thread()?;
    let mut plain = backend.open(&cores)?.load(&model)?;
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let before = Instant::now();
        plain.run(&fed)?;
        least = least.min(microseconds(before));
        if let Some(program) = &mut program {
            items(program, &fed, 1)?;
        }
    }
    let count = (TURN_US / least).ceil().max(1.0) as u64;
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < limit {
        let before = Instant::now();
        for _ in 0..count {
            drop(plain.run(&fed)?);
        }
        alone.push(microseconds(before) / count as f64);
        if let Some(program) = &mut program {
            let before = Instant::now();
            items(program, &fed, count)?;
            through.push(microseconds(before) / count as f64);
        }
    }
    let (items, seconds) = (alone.len() as u64 * count, start.elapsed().as_secs_f64());
    // How much longer an item takes through the executor than in the turn before, alone.
    let ratios = Timings::new(alone.iter().zip(&through).map(|(alone, through)| through / alone).collect());
    let (alone, through) = (Timings::new(alone), Timings::new(through));
    let object = json!({
        "items": items, "seconds": seconds, "alone_us": alone.median(), "alone_least_us": alone.quantile(0.0),
        "through_us": through.median(), "through_least_us": through.quantile(0.0), "ratio": ratios.median(),
    });
    Ok(writeln!(std::io::stdout(), "{object}")?)
}

fn one_stage(model: StageModel, cores: &Cores, backend: &Arc<dyn Backend>) -> Outcome<Running> {
    let spec = ProgramSpec {
        devices: vec![DeviceSpec { name: "device".into(), cores: cores.clone() }],
        inputs: model.inputs.clone(),
        results: model.outputs.clone(),
        stages: vec![StageSpec::new(model, 0)],
        ..ProgramSpec::default()
    };
    Ok(Running::start(Program::new(spec)?, std::slice::from_ref(backend), 1)?)
}

/// Items one after another, from their admission to their results in the caller's hands.
fn items(program: &mut Running, fed: &[Tensor], count: u64) -> Outcome<()> {
    let mut source = |item: u64| (item < count).then(|| fed.to_vec());
    program.run(&mut source, &mut |_, _| Ok(()), &AtomicBool::new(false), 0)?;
    Ok(())
}
