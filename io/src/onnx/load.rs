//! Reading ONNX files: bounded in size, without touching weights that live in other files.
//!
//! Weights inside the file stay slices of what was read. Everything else is structure, whose messages take more
//! memory than their bytes; its size is measured by a scan of the file before anything is built from it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use divvy_core::input_error::{Code, InputError};
use prost::Message;

use super::proto::Model;
use crate::Error;

/// The largest file: protobuf itself ends at 2 GiB.
pub const MOST_BYTES: u64 = 2 << 30;

/// The most bytes of structure, weights left out. A network of 100 000 nodes has some twenty million.
const MOST_STRUCTURE: usize = 64 << 20;

/// A model and the folder that its external data are in.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The model as the file has it.
    pub model: Model,
    /// The folder of the file.
    pub folder: PathBuf,
}

/// Whether bytes look like the beginning of an ONNX file: protobuf that opens with one of a model's first fields.
pub fn looks_like_onnx(start: &[u8]) -> bool {
    // The version of the format comes first in what every known writer writes; then names or the graph.
    matches!(start, [0x08, version, ..] if (1..=99).contains(version))
        || matches!(start, [0x12 | 0x1a | 0x22 | 0x3a | 0x42, length, ..] if *length > 0)
}

/// Decodes a model from the bytes of the file at `path`.
pub fn decode(path: &str, bytes: Bytes) -> Result<Loaded, Error> {
    let fault = |code, message: String, fix: &str| Error::Input {
        path: path.to_owned(),
        errors: InputError::new(code, "file", message, fix).into(),
    };
    let structure = structure_bytes(&bytes).ok_or_else(|| {
        fault(Code::Syntax, "it stops short, or is not ONNX".into(), "export or copy it again")
    })?;
    if structure > MOST_STRUCTURE {
        let message = format!("it has {structure} bytes of structure besides weights");
        return Err(fault(Code::TooLarge, message, "split the model, or keep constants in initializers"));
    }
    let model = Model::decode(bytes)
        .map_err(|e| fault(Code::Syntax, format!("not an ONNX model: {e}"), "export or copy it again"))?;
    if model.graph.is_none() {
        return Err(fault(Code::Empty, "the model has no graph".into(), "export it again"));
    }
    let folder = Path::new(path).parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(Loaded { model, folder })
}

/// Field numbers of the way to weights: model.graph, graph.initializer, tensor.raw_data.
const WAY_TO_WEIGHTS: [u64; 3] = [7, 5, 9];

/// Bytes of a model less those of its weights; none if the outermost levels are not sound protobuf.
fn structure_bytes(bytes: &[u8]) -> Option<usize> {
    Some(bytes.len() - weight_bytes(bytes, &WAY_TO_WEIGHTS)?)
}

fn weight_bytes(bytes: &[u8], way: &[u64]) -> Option<usize> {
    let (wanted, further) = way.split_first()?;
    let mut found = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let length = match key & 7 {
            0 => {
                varint(&mut rest)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (field, after) = rest.split_at_checked(length)?;
        if key == wanted << 3 | 2 {
            found += if further.is_empty() { length } else { weight_bytes(field, further)? };
        }
        rest = after;
    }
    Some(found)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{Graph, Tensor};

    fn model(weights: usize) -> Vec<u8> {
        let tensor = Tensor { raw_data: Some(Bytes::from(vec![0; weights])), ..Tensor::default() };
        let graph = Graph { initializer: vec![tensor], ..Graph::default() };
        Model { ir_version: Some(9), graph: Some(graph), ..Model::default() }.encode_to_vec()
    }

    #[test]
    fn weights_are_not_structure() {
        let bytes = model(100_000);
        assert!(structure_bytes(&bytes).unwrap() < 100);
        assert!(looks_like_onnx(&bytes));
        assert!(decode("m.onnx", bytes.into()).is_ok());
    }

    #[test]
    fn short_and_senseless_files_are_refused() {
        let bytes = model(1000);
        for end in [1, 3, 10, bytes.len() - 1] {
            assert!(decode("m.onnx", Bytes::copy_from_slice(&bytes[..end])).is_err(), "{end}");
        }
        assert!(decode("m.onnx", Bytes::from_static(b"\x08\x09")).is_err(), "no graph");
        assert!(decode("m.onnx", Bytes::from_static(&[0xff; 64])).is_err());
        let many = [vec![0x3a, 0x80, 0x80, 0x80, 0x40], [0x0a, 0x00].repeat(64 << 20)].concat();
        assert!(decode("m.onnx", many.into()).is_err(), "a hundred million empty nodes");
    }
}
