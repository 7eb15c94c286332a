//! `divvy inspect --values`: element type and shape of every value of an ONNX model.

use divvy::io::file::Loaded;
use divvy::io::import::{Dims, onnx_model, with_suggested};
use divvy::io::onnx::import::{check_dims, dim_options};
use divvy::io::onnx::infer::infer;
use divvy::io::onnx::load::looks_like_onnx;
use divvy::io::onnx::open_dims::{OpenDim, open_dims};
use divvy::io::onnx::values::values;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::tell;

pub(super) fn list(loaded: &Loaded, dims: &Dims, as_json: bool) -> Result<String, Failure> {
    if !looks_like_onnx(&loaded.bytes) {
        let message = "only ONNX models have element types and shapes";
        return Err(Failure::option("--values", message, "drop --values, or give an ONNX model"));
    }
    let model = onnx_model(loaded)?;
    let open = open_dims(&model, dims);
    let dims = with_suggested(dims, &open);
    let facts = infer(&model, &dims);
    check_dims(&model, &facts, &dims).map_err(|errors| Failure::Input(loaded.path.clone(), errors))?;
    let values = values(&model, &facts);
    if as_json {
        return Ok(format!(
            "{}\n",
            json!({"format": "ONNX model", "open_dimensions": open_dimensions(&open), "values": values})
        ));
    }
    if !open.is_empty() {
        tell(&format!(
            "note: shapes are for suggested sizes of what the model leaves open: {}",
            dim_options(&open)
        ));
    }
    let mut text = String::new();
    for value in values {
        let shape = match (value.shape, value.reason) {
            (Some(shape), _) => format!("{shape:?}"),
            (None, Some(reason)) => format!("shape not known ({reason})"),
            (None, None) => "shape not known".to_owned(),
        };
        text.push_str(&format!("{}  {} {shape}\n", value.name, value.element));
    }
    Ok(text)
}

/// Dimensions to set, as `--dim` calls them.
pub(in crate::commands) fn open_dimensions(open: &[OpenDim]) -> Vec<Value> {
    let one = |dim: &OpenDim| json!({"name": dim.name, "input": dim.input, "axis": dim.axis, "suggested": dim.suggested});
    open.iter().map(one).collect()
}
