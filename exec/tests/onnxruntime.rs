//! ONNX Runtime as a backend. Where its library is absent the tests are skipped; `./check` installs it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::compare::difference;
use divvy_exec::cores::Cores;
use divvy_exec::executor::{Failure, Report, Running};
use divvy_exec::program::{DeviceSpec, LinkSpec, Program, ProgramSpec, StageSpec};
use divvy_exec::tensor::{Data, HostTensor, Tensor};
use divvy_testing::skipped::skip;

fn runtime(test: &str) -> Option<OnnxRuntime> {
    let loaded = OnnxRuntime::load();
    loaded.map_err(|absent| skip(test, format!("{absent}; {}", absent.fix))).ok()
}

fn stage(file: &str, device: usize, input: &str, output: &str) -> StageSpec {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{file}.onnx"));
    let bytes = std::fs::read(path).expect("it is there");
    let (inputs, outputs) = (vec![input.to_owned()], vec![output.to_owned()]);
    StageSpec::new(StageModel { name: file.into(), bytes, inputs, outputs, ..StageModel::default() }, device)
}

fn program(stages: Vec<StageSpec>, linked: bool) -> ProgramSpec {
    let device = |name: &str| DeviceSpec { name: name.into(), cores: Cores::allowed().divided(2)[0].clone() };
    let links = vec![LinkSpec { name: "wire".into(), from: 0, to: 1 }];
    ProgramSpec {
        devices: vec![device("one"), device("two")],
        links: if linked { links } else { Vec::new() },
        stages,
        inputs: vec!["x".into()],
        results: vec!["y".into()],
        in_order: false,
    }
}

fn input(item: u64) -> HostTensor {
    let values = (0..24).map(|i| ((i * 7 + item * 13) % 11) as f32 - 5.0).collect();
    HostTensor { shape: vec![3, 8], data: Data::F32(values) }
}

fn run(
    runtime: &OnnxRuntime,
    spec: ProgramSpec,
    items: u64,
) -> Result<(Vec<HostTensor>, Report, Running), Failure> {
    let backend: Arc<dyn Backend> = Arc::new(runtime.clone());
    let program = Program::new(spec).expect("it is sound");
    let mut running = Running::start(program, &[backend.clone(), backend.clone()], 4)?;
    let mut out = Vec::new();
    let mut source =
        |item| (item < items).then(|| vec![backend.take_in(input(item)).expect("it can be taken in")]);
    let mut sink = |_, values: Vec<Tensor>| {
        out.push(values[0].stored().to_host().map_err(|error| error.to_string())?);
        Ok(())
    };
    let report = running.run(&mut source, &mut sink, &AtomicBool::new(false), 1)?;
    Ok((out, report, running))
}

#[test]
fn halves_equal_the_whole_with_and_without_a_link() {
    let Some(runtime) = runtime("halves_equal_the_whole_with_and_without_a_link") else { return };
    let (whole, _, _) =
        run(&runtime, program(vec![stage("whole", 0, "x", "y")], false), 50).expect("it runs");
    for linked in [false, true] {
        let halves = vec![stage("front", 0, "x", "b"), stage("back", 1, "b", "y")];
        let (split, _, _) = run(&runtime, program(halves, linked), 50).expect("it runs");
        assert_eq!(split.len(), 50);
        for (whole, split) in whole.iter().zip(&split) {
            assert_eq!(whole.shape, [3, 4]);
            let far = difference(whole, split).expect("they can be compared");
            assert!(far < 1e-6, "{far}");
        }
    }
}

#[test]
fn kernels_are_timed_run_by_run() {
    let Some(runtime) = runtime("kernels_are_timed_run_by_run") else { return };
    let folder = std::env::temp_dir().join(format!("divvy-ort-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    let timing = runtime.clone().unoptimised().profiling(folder.clone());
    let spec = program(vec![stage("whole", 0, "x", "y")], false);
    let (_, _, mut running) = run(&timing, spec, 5).expect("it runs");
    let runs = running.kernels(0).expect("kernels were timed");
    assert_eq!(runs.len(), 5);
    let names: Vec<&str> = runs[4].iter().map(|kernel| kernel.node.as_str()).collect();
    assert_eq!(names, ["first", "relu", "second", "last"]);
    drop(running);
    assert_eq!(
        std::fs::read_dir(&folder).expect("it is there").count(),
        0,
        "the runtime's files are cleared away"
    );
    std::fs::remove_dir(&folder).expect("it is empty");
}

#[test]
fn a_node_that_fails_and_a_model_that_is_none_are_named() {
    let Some(runtime) = runtime("a_node_that_fails_and_a_model_that_is_none_are_named") else { return };
    let halves = vec![stage("front", 0, "x", "b"), stage("fails", 1, "b", "y")];
    let Err(found) = run(&runtime, program(halves, false), 3) else { panic!("it must fail") };
    assert_eq!((found.stage.as_str(), found.device.as_str()), ("fails", "two"));
    assert_eq!(found.op.as_deref(), Some("impossible"), "{found}");
    let mut broken = stage("whole", 0, "x", "y");
    broken.model.bytes.truncate(100);
    let Err(found) = run(&runtime, program(vec![broken], false), 1) else { panic!("it must fail") };
    assert!(found.item.is_none() && found.stage == "whole", "{found}");
    // 3 × 16 values do not fit what wants 8 columns.
    let wrong = vec![stage("front", 0, "x", "b"), stage("whole", 1, "b", "y")];
    let mut wrong = program(wrong, false);
    wrong.stages[1].model.inputs = vec!["b".into()];
    assert!(run(&runtime, wrong, 1).is_err());
}

#[test]
fn too_little_memory_is_said_with_the_node() {
    let Some(runtime) = runtime("too_little_memory_is_said_with_the_node") else { return };
    let backend: Arc<dyn Backend> = Arc::new(runtime);
    let mut spec = program(vec![stage("huge", 0, "b", "y")], false);
    spec.inputs = vec!["b".into()];
    let program = Program::new(spec).expect("it is sound");
    let mut running = Running::start(program, &[backend.clone(), backend.clone()], 1).expect("it loads");
    let one = HostTensor { shape: vec![1, 1], data: Data::F32(vec![1.0]) };
    let one = backend.take_in(one).expect("it can be taken in");
    let mut source = |item| (item == 0).then(|| vec![one.clone()]);
    let found = running.run(&mut source, &mut |_, _| Ok(()), &AtomicBool::new(false), 0);
    let found = found.expect_err("nobody has 16 TiB");
    assert_eq!((found.stage.as_str(), found.op.as_deref()), ("huge", Some("enormous")), "{found}");
    assert!(found.cause.contains("allocate memory"), "{found}");
}
