//! Shapes worked out against shapes declared: over every `*.onnx` of the folder named by `DIVVY_ONNX_DIR`.
//!
//! What the files declare of values in between and of outputs is taken away before; then each output is
//! compared with what had been declared. Without the variable there is nothing to do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use divvy_io::onnx::facts::Fact;
use divvy_io::onnx::flops::flops;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::proto::{DimensionValue, Model, Type, TypeValue, ValueInfo};
use prost::Message;

#[derive(Default)]
struct Tally {
    agree: usize,
    open: usize,
    unknown: Vec<String>,
    disagree: Vec<String>,
}

#[test]
fn shapes_agree_with_what_files_declare() {
    let Some(folder) = std::env::var_os("DIVVY_ONNX_DIR") else {
        return;
    };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "onnx")).collect();
    paths.sort();
    let mut tally = Tally::default();
    let mut totals = Vec::new();
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let model = Model::decode(std::fs::read(path).unwrap().as_slice()).unwrap();
        totals.push((name.clone(), compare(&name, model, &mut tally)));
    }
    for line in tally.unknown.iter().chain(&tally.disagree) {
        eprintln!("{line}");
    }
    for (name, (operations, products, unknown)) in totals {
        eprintln!("flops {name}: {operations}, of them {products} in products, {unknown} nodes unknown");
    }
    let Tally { agree, open, unknown, disagree } = tally;
    eprintln!(
        "{agree} agree, {} unknown, {} disagree, {open} declare no shape",
        unknown.len(),
        disagree.len()
    );
    assert!(disagree.is_empty());
}

/// Compares the outputs of one model, and counts its operations.
fn compare(name: &str, mut model: Model, tally: &mut Tally) -> (u64, u64, usize) {
    let Some(graph) = model.graph.as_mut() else {
        return Default::default();
    };
    let declared = graph.output.clone();
    graph.value_info.clear();
    for output in &mut graph.output {
        output.r#type = None;
    }
    let facts = infer(&model, &BTreeMap::new());
    for output in &declared {
        let Some((element, dims)) = declared_tensor(output) else {
            tally.open += 1;
            continue;
        };
        let fact = facts.values.get(output.name()).cloned().unwrap_or_default();
        let reasons = facts.unknown.iter().map(|(index, reason)| format!("{index} {reason}"));
        match &fact.shape {
            None => {
                let first = reasons.take(1).collect::<String>();
                tally.unknown.push(format!("unknown {name}: {} {first}", output.name()));
            }
            Some(shape) if fits(shape, &dims) && fact.element == element => tally.agree += 1,
            Some(shape) => tally.disagree.push(format!(
                "disagree {name}: {} is {} {shape:?}, declared {element} {dims:?}",
                output.name(),
                fact.element
            )),
        }
    }
    let (mut operations, mut products, mut unknown) = (0, 0, 0);
    for node in model.graph.iter().flat_map(|graph| &graph.node) {
        let fact = |name: &String| facts.values.get(name);
        let inputs: Vec<Option<&Fact>> = node.input.iter().map(fact).collect();
        let outputs: Vec<Option<&Fact>> = node.output.iter().map(fact).collect();
        match flops(node, &inputs, &outputs) {
            Some(count) => {
                operations += count;
                if matches!(node.op_type(), "Conv" | "Gemm" | "MatMul") {
                    products += count;
                }
            }
            None => unknown += 1,
        }
    }
    (operations, products, unknown)
}

/// Element type and dimensions, the symbolic ones left open.
fn declared_tensor(output: &ValueInfo) -> Option<(i32, Vec<Option<u64>>)> {
    let Some(Type { value: Some(TypeValue::TensorType(tensor)), .. }) = &output.r#type else {
        return None;
    };
    let dims = tensor.shape.as_ref()?.dim.iter().map(|dim| match dim.value {
        Some(DimensionValue::DimValue(number)) => u64::try_from(number).ok(),
        _ => None,
    });
    Some((tensor.elem_type(), dims.collect()))
}

fn fits(shape: &[u64], dims: &[Option<u64>]) -> bool {
    shape.len() == dims.len()
        && shape.iter().zip(dims).all(|(&dim, declared)| declared.is_none_or(|declared| dim == declared))
}
