//! Runnable models that `divvy generate --onnx` writes: the same bytes for the same seed, and results that a decoder must have.
//! Where ONNX Runtime's library is absent what needs it is skipped; `./check` installs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use divvy::exec::backend::{Backend, StageModel};
use divvy::exec::backends::library;
use divvy::exec::backends::onnxruntime::OnnxRuntime;
use divvy::exec::cores::Cores;
use divvy::exec::tensor::{Data, HostTensor};
use divvy::io::onnx::proto::{Attribute, Model, Node, TypeValue};
use divvy::io::onnx::weights::bring_in;
use divvy_testing::skipped::skip;
use divvy_testing::two_cores::HARDWARE;
use prost::Message;
use serde_json::Value;

const BATCH: usize = 2;
const SEQUENCE: usize = 6;
const VOCABULARY: usize = 61;

/// Families with what else they are asked for.
const CASES: [&[&str]; 4] = [
    &["gpt", "--context", "16"],
    &["gpt", "--context", "16", "--untied"],
    &["llama"],
    &["llama", "--kv-heads", "2"],
];

fn divvy(folder: &Path, arguments: &[&str]) -> Output {
    let library = library::find(None);
    let named = library.iter().map(|path| (library::VARIABLE, path));
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
    command.args(arguments).envs(named).current_dir(folder).output().expect("divvy starts")
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = divvy(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

/// Writes a small model of two layers.
fn generate(folder: &Path, what: &[&str], file: &str, more: &[&str]) -> String {
    let sizes = "--layers 2 --hidden 32 --heads 4 --intermediate 48 --vocabulary 61 --batch 2 --sequence 6";
    let sizes: Vec<&str> = sizes.split(' ').collect();
    succeeds(folder, &[&["generate"], what, &sizes, &["--onnx", file], more].concat())
}

fn read(folder: &Path, file: &str) -> Model {
    let bytes = std::fs::read(folder.join(file)).expect("it was written");
    Model::decode(bytes.as_slice()).expect("it is a model")
}

/// The logits of a model for some tokens, as 32-bit floats.
struct Decoder {
    stage: Box<dyn divvy::exec::backend::Stage>,
    runtime: OnnxRuntime,
}

impl Decoder {
    fn load(runtime: &OnnxRuntime, folder: &Path, file: &str) -> Decoder {
        let mut model = read(folder, file);
        let made_up = bring_in(&mut model, folder, 0).expect("weights can be read");
        assert_eq!(made_up, Vec::<String>::new(), "all weights are there");
        with_floats(&mut model);
        let model = StageModel {
            name: file.to_owned(),
            bytes: model.to_bytes(),
            inputs: vec!["input_ids".to_owned()],
            outputs: vec!["floats".to_owned()],
            ..StageModel::default()
        };
        let stage = runtime.open(&Cores::allowed()).expect("it opens").load(&model).expect("it loads");
        Decoder { stage, runtime: runtime.clone() }
    }

    fn logits(&mut self, tokens: &[i64]) -> Vec<f32> {
        let tokens = HostTensor { shape: vec![BATCH, SEQUENCE], data: Data::I64(tokens.to_vec()) };
        let tokens = self.runtime.take_in(tokens).expect("it can be taken in");
        let results = self.stage.run(&[tokens]).expect("it runs");
        let logits = results[0].stored().to_host().expect("it can be copied");
        assert_eq!(logits.shape, [BATCH, SEQUENCE, VOCABULARY]);
        let Data::F32(logits) = logits.data else { panic!("they are floats") };
        logits
    }
}

/// Adds an output of 32-bit floats: halves cannot be looked at here.
fn with_floats(model: &mut Model) {
    let graph = model.graph.as_mut().expect("it has a graph");
    let to = Attribute { name: Some("to".into()), r#type: Some(2), i: Some(1), ..Attribute::default() };
    graph.node.push(Node {
        input: vec!["logits".into()],
        output: vec!["floats".into()],
        op_type: Some("Cast".into()),
        attribute: vec![to],
        ..Node::default()
    });
    let mut floats = graph.output[0].clone();
    floats.name = Some("floats".into());
    let kind = floats.r#type.as_mut().and_then(|kind| kind.value.as_mut());
    let Some(TypeValue::TensorType(tensor)) = kind else { panic!("logits are a tensor") };
    tensor.elem_type = Some(1);
    graph.output.push(floats);
}

fn tokens() -> Vec<i64> {
    (0..BATCH * SEQUENCE).map(|place| (place * 17 % VOCABULARY) as i64).collect()
}

fn runtime(test: &str) -> Option<OnnxRuntime> {
    let loaded = OnnxRuntime::load();
    loaded.map_err(|absent| skip(test, format!("{absent}; {}", absent.fix))).ok()
}

#[test]
fn no_token_sees_those_after_it() {
    let Some(runtime) = runtime("no_token_sees_those_after_it") else { return };
    let folder = scratch("causal");
    for (case, what) in CASES.iter().enumerate() {
        for element in ["fp32", "fp16"] {
            let file = format!("{case}-{element}.onnx");
            generate(&folder, what, &file, &["--element", element]);
            let mut decoder = Decoder::load(&runtime, &folder, &file);
            let before = decoder.logits(&tokens());
            assert!(before.iter().all(|logit| logit.is_finite()), "{what:?} {element}");
            let mut changed = tokens();
            for sequence in 0..BATCH {
                changed[(sequence + 1) * SEQUENCE - 1] += 1;
            }
            let after = decoder.logits(&changed);
            let rows = before.chunks(VOCABULARY).zip(after.chunks(VOCABULARY));
            for (row, (before, after)) in rows.enumerate() {
                let is_last = row % SEQUENCE == SEQUENCE - 1;
                assert_eq!(before != after, is_last, "{what:?} {element}: row {row}");
                assert!(before.iter().any(|logit| *logit != before[0]), "{what:?} {element}: row {row}");
            }
        }
    }
}

#[test]
fn a_token_s_place_and_those_before_it_count() {
    let Some(runtime) = runtime("a_token_s_place_and_those_before_it_count") else { return };
    let folder = scratch("places");
    for (case, what) in CASES.iter().enumerate() {
        let file = format!("{case}.onnx");
        generate(&folder, what, &file, &[]);
        let mut decoder = Decoder::load(&runtime, &folder, &file);
        let last = |logits: &[f32]| logits[(SEQUENCE - 1) * VOCABULARY..SEQUENCE * VOCABULARY].to_vec();
        let before = last(&decoder.logits(&tokens()));
        let mut swapped = tokens();
        swapped.swap(0, 1);
        assert_ne!(before, last(&decoder.logits(&swapped)), "{what:?}: the order of two tokens counts");
    }
}

#[test]
fn halves_say_what_floats_say() {
    let Some(runtime) = runtime("halves_say_what_floats_say") else { return };
    let folder = scratch("halves");
    for (case, what) in CASES.iter().enumerate() {
        let [floats, halves] = ["fp32", "fp16"].map(|element| {
            let file = format!("{case}-{element}.onnx");
            generate(&folder, what, &file, &["--element", element]);
            Decoder::load(&runtime, &folder, &file).logits(&tokens())
        });
        let largest = floats.iter().fold(0.0f32, |largest, logit| largest.max(logit.abs()));
        let far = floats.iter().zip(&halves).fold(0.0f32, |far, (one, other)| far.max((one - other).abs()));
        assert!(far > 0.0 && far < 0.01 * largest, "{what:?}: {far} of {largest}");
    }
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let folder = scratch("seed");
    let both = |file: &str| {
        // Each in a folder of its own: the model names the file of its weights.
        let bytes = |name: &str| std::fs::read(folder.join(file).join(name)).expect("it was written");
        (bytes("model.onnx"), bytes("model.onnx.data"))
    };
    for (place, seed) in [("a", "1"), ("b", "1"), ("c", "2")] {
        std::fs::create_dir_all(folder.join(place)).expect("it can be made");
        let said = generate(&folder.join(place), CASES[0], "model.onnx", &["--seed", seed]);
        assert!(said.contains("written to model.onnx; "), "{said}");
        assert!(said.trim_end().ends_with(" of weights in model.onnx.data"), "{said}");
    }
    assert_eq!(both("a"), both("b"));
    assert_ne!(both("a").1, both("c").1);
    let left: Vec<_> = std::fs::read_dir(folder.join("a")).expect("it is there").collect();
    assert_eq!(left.len(), 2, "nothing else is left behind");
}

#[test]
fn a_generated_model_is_inspected_planned_and_run() {
    let test = "a_generated_model_is_inspected_planned_and_run";
    let folder = scratch("planned");
    std::fs::write(folder.join("pair.toml"), HARDWARE).expect("it can be written");
    for (case, what) in CASES.iter().enumerate() {
        let file = format!("{case}.onnx");
        generate(&folder, what, &file, &[]);
        let inspected = divvy(&folder, &["inspect", &file, "--json"]);
        let found: Value = serde_json::from_slice(&inspected.stdout).expect("it is JSON");
        assert_eq!(found["missing_weights"].as_array().map(Vec::len), Some(0), "{found}");
        assert_eq!(String::from_utf8_lossy(&inspected.stderr), "", "nothing is assumed");
        let cold = ["--on", "h200-cpu", "--objective", "cold-start", "--time", "1s", "--quiet", "--json"];
        let said = succeeds(&folder, &[&["plan", file.as_str()][..], &cold].concat());
        let planned: Value = serde_json::from_str(&said).expect("it is JSON");
        assert!(planned["value_ps"].as_u64() > Some(0), "{planned}");
        let stages =
            ["--objective", "pipeline", "--stages", "2", "--time", "1s", "--quiet", "-o", "plan.json"];
        succeeds(&folder, &[&["plan", file.as_str(), "--on", "pair.toml"][..], &stages].concat());
        if let Err(absent) = library::find(None) {
            skip(test, format!("{absent}; {}", library::FIX));
            continue;
        }
        let run = ["run", "plan.json", "--repeat", "3", "--verify", "--int-below", "61", "--json"];
        let said = succeeds(&folder, &run);
        let run: Value = serde_json::from_str(&said).expect("it is JSON");
        assert!(run["largest_difference"].as_f64() < Some(1e-4), "{run}");
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is() {
    let folder = scratch("refused");
    std::fs::write(folder.join("other.onnx"), b"\x08\x07\x12\x07pytorch").expect("it can be written");
    let refusals: [(&[&str], &str); 7] = [
        (&["gpt", "--past", "5", "--onnx", "m.onnx"], "a runnable model has no cache"),
        (&["llama", "--untied", "--onnx", "m.onnx"], "the head of a llama is never tied"),
        (&["gpt", "--onnx", "m.onnx", "-o", "p.json"], "cannot be used with"),
        (&["gpt", "--element", "fp16"], "--onnx"),
        (&["gpt", "--onnx", "other.onnx"], "is no model of `divvy generate`"),
        (&["gpt", "--onnx", "nowhere/m.onnx"], "make the folder first"),
        (&["gpt", "--onnx", "-"], "does not end in the name of a file"),
    ];
    for (arguments, reason) in refusals {
        let output = divvy(&folder, &[&["generate"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 1);
}
