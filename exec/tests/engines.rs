//! Two engines that have nothing in common agree. Needs the feature `reference`, and is skipped where ONNX Runtime is
//! absent.
#![cfg(feature = "reference")]

use std::path::{Path, PathBuf};

use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::backends::reference::Reference;
use divvy_exec::compare::difference;
use divvy_exec::cores::Cores;
use divvy_exec::tensor::{Data, Element, HostTensor};
use divvy_testing::skipped::skip;

fn results(backend: &dyn Backend, model: &StageModel, input: &HostTensor) -> Vec<HostTensor> {
    let mut stage = backend.open(&Cores::allowed()).expect("it opens").load(model).expect("it loads");
    let input = backend.take_in(input.clone()).expect("it can be taken in");
    let results = stage.run(&[input]).unwrap_or_else(|error| panic!("{}: {error}", model.name));
    results.iter().map(|value| value.stored().to_host().expect("it can be copied")).collect()
}

fn runtime(test: &str) -> Option<OnnxRuntime> {
    let loaded = OnnxRuntime::load();
    loaded.map_err(|absent| skip(test, format!("{absent}; {}", absent.fix))).ok()
}

fn compare(runtime: &OnnxRuntime, path: &Path, input: &str, output: &str, value: &HostTensor) {
    let model = StageModel {
        name: path.display().to_string(),
        bytes: std::fs::read(path).expect("it is there"),
        inputs: vec![input.to_owned()],
        outputs: vec![output.to_owned()],
        ..StageModel::default()
    };
    let (fast, plain) = (results(runtime, &model, value), results(&Reference, &model, value));
    let far = difference(&plain[0], &fast[0]).expect("they can be compared");
    // What `divvy run --verify` lets pass.
    assert!(far < 1e-4, "{}: {far}", model.name);
}

#[test]
fn the_engines_agree_on_the_small_models() {
    let Some(runtime) = runtime("the_engines_agree_on_the_small_models") else { return };
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let values = (0..24).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
    let value = HostTensor { shape: vec![3, 8], data: Data::F32(values) };
    compare(&runtime, &data.join("whole.onnx"), "x", "y", &value);
    compare(&runtime, &data.join("front.onnx"), "x", "b", &value);
}

/// Networks with random weights, as `scripts/light_models.py` writes them, in the folder that DIVVY_NETWORKS names.
#[test]
fn the_engines_agree_on_whole_networks() {
    let test = "the_engines_agree_on_whole_networks";
    let Some(runtime) = runtime(test) else { return };
    let Some(folder) = std::env::var_os("DIVVY_NETWORKS").map(PathBuf::from) else {
        return skip(test, "DIVVY_NETWORKS names no folder; `scripts/light_models.py` fills one");
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
        compare(&runtime, &folder.join(name).with_extension("onnx"), input, output, &value);
    }
}
