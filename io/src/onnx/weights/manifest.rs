//! `manifest.json`: what the pieces of a model are, in the order in which they run, and how they hang together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::staging::fingerprint;
use crate::onnx::cut::CutPiece;
use crate::onnx::facts::element_name;
use crate::onnx::proto::{DimensionValue, TensorType, Type, TypeValue, ValueInfo};

/// The name of the manifest in the folder of pieces.
pub const MANIFEST: &str = "manifest.json";

/// What tells a manifest from other files.
const MARK: &str = "pieces";

/// The version of the format.
const VERSION: u64 = 1;

/// What the pieces of a model are and how they hang together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `pieces`.
    pub divvy: String,
    /// The version of the format.
    pub version: u64,
    /// The model that was cut.
    pub source: Source,
    /// Sizes of symbolic dimensions that the plan was made for. The pieces accept others too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: BTreeMap<String, u64>,
    /// Inputs of the whole that some piece reads.
    pub inputs: Vec<String>,
    /// Outputs of the whole.
    pub outputs: Vec<String>,
    /// The pieces, in an order in which they can run.
    pub pieces: Vec<PieceEntry>,
    /// Which piece feeds which.
    pub feeds: Vec<Feed>,
    /// The files that were written with it, with the SHA-256 of each.
    #[serde(default)]
    pub written: BTreeMap<String, String>,
}

/// The model that was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its path as given.
    pub path: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// A piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceEntry {
    /// Its name.
    pub name: String,
    /// Its file, in the folder of the manifest.
    pub file: String,
    /// The device that it runs on.
    pub device: String,
    /// How many pieces must run before it, one after the other.
    pub stage: usize,
    /// Values to feed.
    pub inputs: Vec<Value>,
    /// Values it gives.
    pub outputs: Vec<Value>,
    /// Bytes of its weights and constants, wherever they are; text not counted.
    pub weight_bytes: u64,
    /// Files that its weights are in, beside its own, seen from the folder of the manifest.
    pub weight_files: Vec<String>,
    /// Weights whose files were not there: the piece still refers to them.
    pub missing_weights: Vec<MissingWeights>,
}

/// A value that enters or leaves a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// The type of its elements, such as `float` or `int64`; `sequence(float)` and such for what is not a tensor.
    pub element: String,
    /// Its shape, for any sizes of the symbolic dimensions; none where it is not known.
    pub shape: Option<Vec<Option<Dim>>>,
    /// Its shape for the sizes that the plan was made for, where that says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Vec<u64>>,
}

/// A dimension that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// Its size.
    Size(i64),
    /// The symbol that stands for its size.
    Symbol(String),
}

/// Values that one piece makes for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// The piece that makes them.
    pub from: String,
    /// The piece that reads them.
    pub to: String,
    /// The values.
    pub values: Vec<String>,
}

/// Weights whose file was not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingWeights {
    /// The tensor.
    pub tensor: String,
    /// The file, as the model gives it.
    pub location: String,
}

impl Manifest {
    /// The manifest of an earlier run in a folder; none where there is none, or it is something else.
    pub(super) fn earlier(folder: &Path) -> Option<Manifest> {
        let text = std::fs::read(folder.join(MANIFEST)).ok()?;
        serde_json::from_slice(&text).ok().filter(|manifest: &Manifest| manifest.divvy == MARK)
    }

    /// The files that came with a manifest in a folder, itself among them. A manifest may have been edited, or be
    /// somebody else's: a file is ours only if it lies in the folder, has the name of one that pieces have, and is still
    /// what was written.
    pub(super) fn own_files(&self, folder: &Path) -> BTreeSet<String> {
        let named = |file: &str| {
            Path::new(file).file_name().is_some_and(|name| name == file)
                && [".onnx", ".onnx.data"].iter().any(|ending| file.ends_with(ending))
        };
        let is_plain = |file: &str| folder.join(file).symlink_metadata().is_ok_and(|file| file.is_file());
        let same = |file: &str, sha256: &String| {
            named(file) && is_plain(file) && fingerprint(&folder.join(file)).is_ok_and(|now| now == *sha256)
        };
        let own = self.written.iter().filter(|(file, sha256)| same(file, sha256));
        own.map(|(file, _)| file.clone()).chain([MANIFEST.to_owned()]).collect()
    }

    /// The manifest of pieces, with an entry for each.
    pub(super) fn new(
        pieces: &[CutPiece],
        entries: Vec<PieceEntry>,
        source: Source,
        dims: BTreeMap<String, u64>,
        written: BTreeMap<String, String>,
    ) -> Manifest {
        // What a piece only passes on, it does not make.
        let mut maker: HashMap<&str, usize> = HashMap::new();
        for (position, piece) in pieces.iter().enumerate() {
            let made = piece.outputs.iter().filter(|name| !piece.inputs.contains(name));
            maker.extend(made.map(|name| (name.as_str(), position)));
        }
        let mut inputs = BTreeSet::new();
        let mut feeds: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for (to, piece) in pieces.iter().enumerate() {
            for name in &piece.inputs {
                match maker.get(name.as_str()) {
                    Some(&from) => feeds.entry((from, to)).or_default().push(name.clone()),
                    None => _ = inputs.insert(name.clone()),
                }
            }
        }
        let name = |piece: usize| pieces[piece].name.clone();
        let feed = |((from, to), values)| Feed { from: name(from), to: name(to), values };
        Manifest {
            divvy: MARK.into(),
            version: VERSION,
            source,
            dims,
            inputs: inputs.into_iter().collect(),
            outputs: pieces.iter().flat_map(|piece| &piece.results).cloned().collect(),
            pieces: entries,
            feeds: feeds.into_iter().map(feed).collect(),
            written,
        }
    }
}

/// The values of these names, as their piece declares them, with their planned shapes.
pub(super) fn values(
    names: &[String],
    declared: &[ValueInfo],
    planned: &BTreeMap<String, Vec<u64>>,
) -> Vec<Value> {
    let by_name: HashMap<&str, &ValueInfo> = declared.iter().map(|info| (info.name(), info)).collect();
    let value = |name: &String| {
        let known = by_name.get(name.as_str()).and_then(|info| info.r#type.as_ref());
        let shape = known.and_then(shape);
        let settled = |dim: &Option<Dim>| matches!(dim, Some(Dim::Size(_)));
        let is_settled = shape.as_ref().is_some_and(|dims| dims.iter().all(settled));
        let planned = planned.get(name).filter(|_| !is_settled).cloned();
        Value { name: name.clone(), element: element(known), shape, planned }
    };
    names.iter().map(value).collect()
}

fn element(known: Option<&Type>) -> String {
    let of_tensor = |tensor: &TensorType| element_name(tensor.elem_type()).to_owned();
    match known.and_then(|known| known.value.as_ref()) {
        None => "unknown".into(),
        Some(TypeValue::TensorType(tensor)) => of_tensor(tensor),
        Some(TypeValue::SparseTensorType(tensor)) => format!("sparse({})", of_tensor(tensor)),
        Some(TypeValue::SequenceType(inner)) => format!("sequence({})", element(inner.elem_type.as_deref())),
        Some(TypeValue::OptionalType(inner)) => format!("optional({})", element(inner.elem_type.as_deref())),
        Some(TypeValue::MapType(map)) => {
            format!("map({}, {})", element_name(map.key_type()), element(map.value_type.as_deref()))
        }
        Some(TypeValue::OpaqueType(opaque)) => format!("opaque({}, {})", opaque.domain(), opaque.name()),
    }
}

fn shape(known: &Type) -> Option<Vec<Option<Dim>>> {
    let (TypeValue::TensorType(tensor) | TypeValue::SparseTensorType(tensor)) = known.value.as_ref()? else {
        return None;
    };
    let dim = |value: &DimensionValue| match value {
        DimensionValue::DimValue(size) => Dim::Size(*size),
        DimensionValue::DimParam(symbol) => Dim::Symbol(symbol.clone()),
    };
    Some(tensor.shape.as_ref()?.dim.iter().map(|dimension| dimension.value.as_ref().map(dim)).collect())
}
