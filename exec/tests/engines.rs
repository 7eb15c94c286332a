//! Two engines that have nothing in common agree. Needs the feature `reference`; ONNX Runtime absent, it says so and passes.
#![cfg(feature = "reference")]

use std::path::{Path, PathBuf};

use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::backends::reference::Reference;
use divvy_exec::compare::difference;
use divvy_exec::cores::Cores;
use divvy_exec::tensor::{Data, Element, HostTensor};

fn results(backend: &dyn Backend, model: &StageModel, input: &HostTensor) -> Vec<HostTensor> {
    let mut stage = backend.open(&Cores::allowed()).expect("it opens").load(model).expect("it loads");
    let input = backend.take_in(input.clone()).expect("it can be taken in");
    let results = stage.run(&[input]).unwrap_or_else(|error| panic!("{}: {error}", model.name));
    results.iter().map(|value| value.stored().to_host().expect("it can be copied")).collect()
}

fn compare(path: &Path, input: &str, output: &str, value: &HostTensor) {
    let runtime = match OnnxRuntime::load() {
        Ok(runtime) => runtime,
        Err(absent) => return eprintln!("skipped: {absent}; {}", absent.fix),
    };
    let model = StageModel {
        name: path.display().to_string(),
        bytes: std::fs::read(path).expect("it is there"),
        inputs: vec![input.to_owned()],
        outputs: vec![output.to_owned()],
    };
    let (fast, plain) = (results(&runtime, &model, value), results(&Reference, &model, value));
    let far = difference(&plain[0], &fast[0]).expect("they can be compared");
    // What `divvy run --verify` lets pass.
    assert!(far < 1e-4, "{}: {far}", model.name);
}

#[test]
fn the_engines_agree_on_the_small_models() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let values = (0..24).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
    let value = HostTensor { shape: vec![3, 8], data: Data::F32(values) };
    compare(&data.join("whole.onnx"), "x", "y", &value);
    compare(&data.join("front.onnx"), "x", "b", &value);
}

/// Networks with random weights, as `scripts/light_models.py` writes them, in the folder that DIVVY_NETWORKS names.
#[test]
fn the_engines_agree_on_whole_networks() {
    let Some(folder) = std::env::var_os("DIVVY_NETWORKS").map(PathBuf::from) else {
        return eprintln!("skipped: DIVVY_NETWORKS names no folder");
    };
    let mut state = 1u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let value = HostTensor::random(Element::F32, vec![1, 3, 224, 224], 2, &mut unit);
    for (name, input, output) in [
        ("light_squeezenet", "data_0", "softmaxout_1"),
        ("light_shufflenet", "gpu_0/data_0", "gpu_0/softmax_1"),
    ] {
        compare(&folder.join(name).with_extension("onnx"), input, output, &value);
    }
}
