//! ONNX Runtime without the executor, to compare with. Prints one JSON object.
//!
//!     plain rate MODEL.onnx CORES SECONDS        runs the model again and again, pinned to the cores
//!     plain overhead MODEL.onnx CORES SECONDS    the same in turns with a one-stage program on the same cores
//!
//! `scripts/measure_runs.py` calls it.

use std::error::Error;
use std::io::Write;
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
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor as OrtTensor, ValueType};
use serde_json::json;

/// How long a turn is at least.
const TURN_US: f64 = 40_000.0;

/// How long nothing is done between turns: the runtime's threads look for work for some 35 ms after a run, on cores that
/// whoever has the next turn needs.
const REST: Duration = Duration::from_millis(60);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// ONNX Runtime as one would use it without divvy.
struct Plain {
    session: Session,
    inputs: Vec<(String, DynValue)>,
}

impl Plain {
    /// Reads a model and makes up values for its inputs. The threads that are started use the cores of the calling one.
    fn read(bytes: &[u8], cores: &Cores) -> Outcome<Plain> {
        let mut builder = Session::builder()?.with_intra_threads(cores.count())?.with_inter_threads(1)?;
        let session = builder.commit_from_memory(bytes)?;
        let mut inputs = Vec::new();
        for input in session.inputs() {
            let (shape, values) = made_up(input.dtype())?;
            inputs.push((input.name().to_owned(), OrtTensor::from_array((shape, values))?.into_dyn()));
        }
        Ok(Plain { session, inputs })
    }

    fn run(&mut self) -> Outcome<()> {
        let fed: Vec<(&str, SessionInputValue<'_>)> =
            self.inputs.iter().map(|(name, value)| (name.as_str(), value.into())).collect();
        drop(self.session.run(fed)?);
        Ok(())
    }
}

fn made_up(kind: &ValueType) -> Outcome<(Vec<usize>, Vec<f32>)> {
    let ValueType::Tensor { shape, .. } = kind else {
        return Err("an input is no tensor".into());
    };
    let shape: Vec<usize> = shape.iter().map(|&size| usize::try_from(size).unwrap_or(1)).collect();
    let values = (0..shape.iter().product()).map(|i: usize| (i % 17) as f32 / 17.0).collect();
    Ok((shape, values))
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
    let bytes = std::fs::read(path)?;
    cores.pin_this_thread()?;
    let mut plain = Plain::read(&bytes, &cores)?;
    let mut program = match what.as_str() {
        "overhead" => Some(one_stage(path, bytes, &plain.session, &cores, &backend)?),
        _ => None,
    };
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let before = Instant::now();
        plain.run()?;
        least = least.min(microseconds(before));
    }
    let count = (TURN_US / least).ceil().max(1.0) as u64;
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some((program, fed)) = &mut program {
            std::thread::sleep(REST);
            items(program, fed, 1)?;
            let before = Instant::now();
            items(program, fed, count)?;
            through.push(microseconds(before) / count as f64);
            std::thread::sleep(REST);
            plain.run()?;
        }
        let before = Instant::now();
        for _ in 0..count {
            plain.run()?;
        }
        alone.push(microseconds(before) / count as f64);
    }
    let (items, seconds) = (alone.len() as u64 * count, start.elapsed().as_secs_f64());
    // How much longer an item takes through the executor than in the turn after it, alone.
    let ratios = Timings::new(alone.iter().zip(&through).map(|(alone, through)| through / alone).collect());
    let (alone, through) = (Timings::new(alone), Timings::new(through));
    let object = json!({
        "items": items, "seconds": seconds, "alone_us": alone.median(), "alone_least_us": alone.quantile(0.0),
        "through_us": through.median(), "through_least_us": through.quantile(0.0), "ratio": ratios.median(),
    });
    Ok(writeln!(std::io::stdout(), "{object}")?)
}

/// The model as a program of one stage, and what to feed it.
fn one_stage(
    path: &str,
    bytes: Vec<u8>,
    session: &Session,
    cores: &Cores,
    backend: &Arc<dyn Backend>,
) -> Outcome<(Running, Vec<Tensor>)> {
    let mut fed = Vec::new();
    for input in session.inputs() {
        let (shape, values) = made_up(input.dtype())?;
        fed.push(backend.take_in(HostTensor { shape, data: Data::F32(values) })?);
    }
    let inputs: Vec<String> = session.inputs().iter().map(|input| input.name().to_owned()).collect();
    let outputs: Vec<String> = session.outputs().iter().map(|output| output.name().to_owned()).collect();
    let model = StageModel {
        name: path.to_owned(),
        bytes,
        inputs: inputs.clone(),
        outputs: outputs.clone(),
        ..StageModel::default()
    };
    let spec = ProgramSpec {
        devices: vec![DeviceSpec { name: "device".into(), cores: cores.clone() }],
        inputs,
        results: outputs,
        stages: vec![StageSpec::new(model, 0)],
        ..ProgramSpec::default()
    };
    Ok((Running::start(Program::new(spec)?, std::slice::from_ref(backend), 1)?, fed))
}

/// Items one after another, from their admission to their results in the caller's hands.
fn items(program: &mut Running, fed: &[Tensor], count: u64) -> Outcome<()> {
    let mut source = |item: u64| (item < count).then(|| fed.to_vec());
    program.run(&mut source, &mut |_, _| Ok(()), &AtomicBool::new(false), 0)?;
    Ok(())
}
