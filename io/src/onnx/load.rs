//! Reading ONNX files: bounded in size, without touching weights that live in other files.
//!
//! Weights inside the file stay slices of what was read. Everything else is structure, which takes far more memory than
//! its bytes; how much is worked out before anything is built from it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use divvy_core::input_error::{Code, InputError};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::footprint::{MessageKind, Unsound, footprint};
use super::proto::{Model, Node};
use crate::Error;

/// The largest file: protobuf itself ends at 2 GiB.
pub const MOST_BYTES: u64 = 2 << 30;

/// The most bytes of structure in memory, weights left out. A network of 100 000 nodes takes some
/// two hundred million.
const MOST_STRUCTURE: usize = 1 << 30;

/// A model and the folder that its external data are in.
#[derive(Clone, Debug)]
pub struct LoadedModel {
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
pub fn decode(path: &str, bytes: &Bytes) -> Result<LoadedModel, Error> {
    let fault = |code, message: String, fix: &str| Error::Input {
        path: path.to_owned(),
        errors: InputError::new(code, "file", message, fix).into(),
    };
    let structure = footprint(MessageKind::Model, bytes, MOST_STRUCTURE).map_err(|why| match why {
        Unsound::Broken => {
            fault(Code::Syntax, "it stops short, or is not ONNX".into(), "export or copy it again")
        }
        Unsound::TooDeep => {
            let message =
                "its If, Loop or Scan bodies are nested deeper than a protobuf decoder goes, some 30 levels";
            fault(Code::TooLarge, message.into(), "flatten the control flow, and export it again")
        }
    })?;
    if structure > MOST_STRUCTURE {
        let message =
            format!("besides weights it would take more than {} MiB of memory", MOST_STRUCTURE >> 20);
        return Err(fault(Code::TooLarge, message, "split the model, or keep weights as raw data"));
    }
    let model = decode_lean(bytes)
        .map_err(|e| fault(Code::Syntax, format!("not an ONNX model: {e}"), "export or copy it again"))?;
    if model.graph.is_none() {
        return Err(fault(Code::Empty, "the model has no graph".into(), "export it again"));
    }
    let folder = Path::new(path).parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(LoadedModel { model, folder })
}

/// As prost decodes it, node by node, each with lists as long as what is in them: a list of one name is made for four.
fn decode_lean(bytes: &Bytes) -> Result<Model, prost::DecodeError> {
    let (graphs, others) = parts(bytes, GRAPH)?;
    let mut model = Model::default();
    others.into_iter().try_for_each(|part| model.merge(bytes.slice(part)))?;
    for content in graphs {
        let held = model.graph.get_or_insert_default();
        let (nodes, others) = parts(&bytes.slice(content.clone()), NODE)?;
        held.node.reserve_exact(nodes.len());
        for node in nodes {
            let mut node = Node::decode(bytes.slice(content.start + node.start..content.start + node.end))?;
            node.input.shrink_to_fit();
            node.output.shrink_to_fit();
            node.attribute.shrink_to_fit();
            held.node.push(node);
        }
        for part in others {
            held.merge(bytes.slice(content.start + part.start..content.start + part.end))?;
        }
    }
    Ok(model)
}

/// The field of a model that is its graph.
const GRAPH: u32 = 7;

/// The field of a graph that is a node.
const NODE: u32 = 1;

/// Places in a message: what fields of a number hold, and runs of other fields between them.
type Parts = (Vec<Range<usize>>, Vec<Range<usize>>);

fn parts(message: &Bytes, number: u32) -> Result<Parts, prost::DecodeError> {
    let (mut found, mut others) = Parts::default();
    let mut rest = &message[..];
    while !rest.is_empty() {
        let start = message.len() - rest.len();
        let (tag, wire) = decode_key(&mut rest)?;
        if (tag, wire) == (number, WireType::LengthDelimited) {
            let length = decode_varint(&mut rest)?;
            let content = message.len() - rest.len();
            let end = usize::try_from(length).ok().and_then(|length| content.checked_add(length));
            let Some(end) = end.filter(|&end| end <= message.len()) else {
                // Words for it are prost's own.
                return Model::decode(message.slice(start..)).and(Ok((found, others)));
            };
            rest = &message[end..];
            found.push(content..end);
        } else {
            skip_field(wire, tag, &mut rest, DecodeContext::default())?;
            let end = message.len() - rest.len();
            match others.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => others.push(start..end),
            }
        }
    }
    Ok((found, others))
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
        assert!(footprint(MessageKind::Model, &bytes, usize::MAX).unwrap() < 2000);
        assert!(looks_like_onnx(&bytes));
        assert!(decode("m.onnx", &bytes.into()).is_ok());
    }

    #[test]
    fn what_is_decoded_is_what_the_file_holds() {
        let node = |name: &str| Node { name: Some(name.into()), input: vec!["x".into()], ..Node::default() };
        let tensor = Tensor { raw_data: Some(Bytes::from_static(b"abcd")), ..Tensor::default() };
        let graph = |names: [&str; 2], title: &str| Graph {
            name: Some(title.into()),
            node: names.map(node).into(),
            initializer: vec![tensor.clone()],
            ..Graph::default()
        };
        let model =
            |graph| Model { ir_version: Some(9), graph: Some(graph), ..Model::default() }.encode_to_vec();
        let (one, other) = (model(graph(["a", "b"], "first")), model(graph(["c", "d"], "second")));
        // Files may lie in each other: a message that comes twice is one.
        for bytes in [one.clone(), [one.clone(), other.clone()].concat(), [other, one].concat()] {
            let bytes = Bytes::from(bytes);
            let plain = Model::decode(bytes.clone()).unwrap();
            assert_eq!(decode_lean(&bytes).unwrap(), plain);
        }
        let cut = Bytes::from(model(graph(["a", "b"], "first"))).slice(..20);
        assert!(decode_lean(&cut).is_err());
    }

    #[test]
    fn short_and_senseless_files_are_refused() {
        let bytes = model(1000);
        for end in [1, 3, 10, bytes.len() - 1] {
            assert!(decode("m.onnx", &Bytes::copy_from_slice(&bytes[..end])).is_err(), "{end}");
        }
        assert!(decode("m.onnx", &Bytes::from_static(b"\x08\x09")).is_err(), "no graph");
        assert!(decode("m.onnx", &Bytes::from_static(&[0xff; 64])).is_err());
        let many = [vec![0x3a, 0x80, 0x80, 0x80, 0x40], [0x0a, 0x00].repeat(64 << 20)].concat();
        assert!(decode("m.onnx", &many.into()).is_err(), "a hundred million empty nodes");
    }
}
