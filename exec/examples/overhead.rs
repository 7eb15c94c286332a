//! What running through the executor costs, against ONNX Runtime alone, in turns within one run.
//!
//!     overhead MODEL.onnx INPUT=1x3x224x224 OUTPUT [FRONT.onnx BACK.onnx VALUE,VALUE]
//!
//! FRONT and BACK are the model's halves, and VALUE names what goes from one to the other (`divvy export --format onnx` makes such).
//! Each line gives the smallest and the middle of the times, in microseconds: other programs can only add to them.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::cores::Cores;
use divvy_exec::executor::{Report, Running};
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, Program, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Data, HostTensor, Tensor};

/// How long the whole takes, so that fast models are run more often.
const ROUNDS: Duration = Duration::from_secs(20);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn model(path: &str, input: &str, output: &str) -> Outcome<StageModel> {
    let list = |names: &str| names.split(',').map(str::to_owned).collect();
    let (inputs, outputs) = (list(input), list(output));
    Ok(StageModel { name: path.to_owned(), bytes: std::fs::read(path)?, inputs, outputs })
}

fn start(stages: Vec<StageModel>, backend: &Arc<dyn Backend>, window: usize) -> Outcome<Running> {
    let cores = Cores::allowed().divided(stages.len());
    let input = stages[0].inputs.clone();
    let results = stages[stages.len() - 1].outputs.clone();
    let devices = cores.into_iter().enumerate();
    let devices: Vec<_> = devices.map(|(i, cores)| DeviceSpec { name: format!("core{i}"), cores }).collect();
    let backends = vec![backend.clone(); devices.len()];
    let stages = stages.into_iter().enumerate().map(|(device, model)| StageSpec::new(model, device));
    let (stages, inputs) = (stages.collect(), input);
    let spec = ProgramSpec { devices, stages, inputs, results, ..ProgramSpec::default() };
    Ok(Running::start(Program::new(spec)?, &backends, window)?)
}

fn items(running: &mut Running, fed: &[Tensor], count: u64) -> Outcome<Report> {
    let mut source = |item: u64| (item < count).then(|| fed.to_vec());
    Ok(running.run(&mut source, &mut |_, _| Ok(()), &AtomicBool::new(false), 0)?)
}

fn show(what: &str, timings: &Timings) {
    let (least, middle, count) = (timings.quantile(0.0), timings.median(), timings.count());
    eprintln!("{what:<34} least {least:>10.1}  median {middle:>10.1}  ({count} times)");
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, input, output, halves @ ..] = arguments.as_slice() else {
        return Err(
            "usage: overhead MODEL.onnx INPUT=1x3x224x224 OUTPUT [FRONT.onnx BACK.onnx VALUE,VALUE]".into()
        );
    };
    let (name, shape) = input.split_once('=').ok_or("write INPUT=1x3x224x224")?;
    let shape: Vec<usize> = shape.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let values = (0..shape.iter().product()).map(|i: usize| (i % 17) as f32 / 17.0).collect();
    let backend: Arc<dyn Backend> = Arc::new(OnnxRuntime::load()?);
    let fed = vec![backend.take_in(HostTensor { shape, data: Data::F32(values) })?];

    let all = Cores::allowed();
    let mut executor = start(vec![model(path, name, output)?], &backend, 1)?;
    all.pin_this_thread()?;
    let mut plain = backend.open(&all)?.load(&model(path, name, output)?)?;
    items(&mut executor, &fed, 3)?;
    plain.run(&fed)?;
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    let start_of_rounds = Instant::now();
    while start_of_rounds.elapsed() < ROUNDS {
        let before = Instant::now();
        plain.run(&fed)?;
        alone.push(before.elapsed().as_secs_f64() * 1e6);
        through.push(items(&mut executor, &fed, 1)?.latency.median());
    }
    show("ONNX Runtime alone", &Timings::new(alone));
    show("one stage through the executor", &Timings::new(through));
    drop((executor, plain));

    if let [front, back, value] = halves {
        let mut halves = start(vec![model(front, name, value)?, model(back, value, output)?], &backend, 4)?;
        items(&mut halves, &fed, 3)?;
        let report = items(&mut halves, &fed, 200)?;
        report.stages.iter().zip(["front", "back"]).for_each(|(timings, what)| show(what, timings));
        show("hand-over to a waiting device", &report.handover);
        let period = report.period.unwrap_or_default().as_secs_f64() * 1e6;
        eprintln!(
            "{:<34} {period:.1} from item to item, over {} items",
            "two stages, a core each", report.items
        );
    }
    Ok(())
}
