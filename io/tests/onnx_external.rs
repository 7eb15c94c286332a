//! Weights beside a model are never read to understand it, however large they are.
//!
//! One test, so that what the process reads is what the import reads.

use std::fs::{self, File};
use std::path::Path;

use divvy_io::file;
use divvy_io::import::import_problem;
use divvy_io::onnx::proto::{
    Dimension, DimensionValue, Entry, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType, Type,
    TypeValue, ValueInfo,
};
use prost::Message;

/// Bytes of the weights.
const WEIGHTS: u64 = 1 << 30;

/// A model of one matrix product whose weights are in `weights.bin`.
fn model() -> Model {
    let dimension = |&dim| Dimension { value: Some(DimensionValue::DimValue(dim)), denotation: None };
    let shape = Some(Shape { dim: [1, 16_384].iter().map(dimension).collect() });
    let tensor = TypeValue::TensorType(TensorType { elem_type: Some(1), shape });
    let input = ValueInfo {
        name: Some("x".into()),
        r#type: Some(Type { value: Some(tensor), denotation: None }),
        ..ValueInfo::default()
    };
    let entry = |key: &str, value: &str| Entry { key: Some(key.into()), value: Some(value.into()) };
    let weight = Tensor {
        name: Some("w".into()),
        dims: vec![16_384, 16_384],
        data_type: Some(1),
        data_location: Some(1),
        external_data: vec![
            entry("location", "weights.bin"),
            entry("offset", "0"),
            entry("length", &WEIGHTS.to_string()),
        ],
        ..Tensor::default()
    };
    let node = Node {
        op_type: Some("MatMul".into()),
        input: vec!["x".into(), "w".into()],
        output: vec!["y".into()],
        ..Node::default()
    };
    let graph = Graph { node: vec![node], input: vec![input], initializer: vec![weight], ..Graph::default() };
    let set = OperatorSet { domain: None, version: Some(18) };
    Model { ir_version: Some(9), opset_import: vec![set], graph: Some(graph), ..Model::default() }
}

/// A number from a file of `/proc/self`, where the system has it.
fn told(file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc/self").join(file)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_gigabyte_of_weights_is_not_read() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("external-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let (path, weights) = (folder.join("model.onnx"), folder.join("weights.bin"));
    fs::write(&path, model().encode_to_vec()).expect("the temporary folder can be written");
    let file = File::create(&weights).expect("the temporary folder can be written");
    file.set_len(WEIGHTS).expect("the file system has sparse files");
    let import = || {
        let loaded = file::load(path.to_str().expect("a plain path")).expect("the model is there");
        import_problem(&loaded).expect("the model is sound")
    };

    let before = (told("io", "rchar:"), told("status", "VmHWM:"));
    let with = import();
    let after = (told("io", "rchar:"), told("status", "VmHWM:"));
    assert_eq!(with.graph.params[0].bytes, WEIGHTS);
    if let (Some(before), Some(after)) = (before.0, after.0) {
        assert!(after - before < 1 << 20, "{} bytes were read", after - before);
    }
    if let (Some(before), Some(after)) = (before.1, after.1) {
        assert!(after - before < 16 << 10, "memory grew by {} KiB", after - before);
    }

    fs::remove_file(&weights).expect("it was just written");
    assert_eq!(import(), with, "weights that are not there change nothing");
    fs::remove_dir_all(&folder).expect("it was just written");
}
