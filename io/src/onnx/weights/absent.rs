//! Weights beside the model that cannot be had, told before anything needs them: in which files they should be, and how
//! many. To plan, sizes are enough, and those are in the model.

use std::collections::BTreeMap;
use std::path::Path;

use super::{data_bytes, is_external, resolve};
use crate::onnx::proto::{Graph, Model, Tensor};
use crate::onnx::reads::bodies;

/// A file with weights that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentFile {
    /// Its place, from the model's folder.
    pub file: String,
    /// How many tensors have their data in it.
    pub tensors: usize,
    /// Bytes of those.
    pub bytes: u64,
}

/// What is wrong with weights that lie beside a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Files that are not there, by name.
    pub files: Vec<AbsentFile>,
    /// Tensors whose data cannot be where they are said to be, each with the reason.
    pub faults: Vec<String>,
}

/// Looks for the files with the weights of a model in `folder`.
pub fn absent(folder: &Path, model: &Model) -> Absent {
    let mut files: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let mut faults = Vec::new();
    for tensor in model.graph.iter().flat_map(tensors).filter(|tensor| is_external(tensor)) {
        match resolve(folder, tensor) {
            Ok(external) if external.present => {}
            Ok(external) => {
                let (count, bytes) = files.entry(external.location).or_default();
                *count += 1;
                *bytes = bytes.saturating_add(data_bytes(tensor).unwrap_or(0));
            }
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    let files = files.into_iter().map(|(file, (tensors, bytes))| AbsentFile { file, tensors, bytes });
    Absent { files: files.collect(), faults }
}

/// All tensors of a graph that may have their data elsewhere.
fn tensors(graph: &Graph) -> Vec<&Tensor> {
    let mut tensors: Vec<&Tensor> = Vec::new();
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        tensors.extend(&graph.initializer);
        let sparse = graph.sparse_initializer.iter();
        tensors.extend(sparse.flat_map(|sparse| sparse.values.iter().chain(&sparse.indices)));
        for node in &graph.node {
            open.extend(bodies(node));
            tensors.extend(node.attribute.iter().flat_map(|a| a.t.as_deref().into_iter().chain(&a.tensors)));
        }
    }
    tensors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::Entry;

    fn external(name: &str, file: &str) -> Tensor {
        let entry = |key: &str, value: &str| Entry { key: Some(key.into()), value: Some(value.into()) };
        Tensor {
            name: Some(name.into()),
            dims: vec![4, 9],
            data_type: Some(1),
            data_location: Some(1),
            external_data: vec![entry("location", file)],
            ..Tensor::default()
        }
    }

    #[test]
    fn files_that_are_not_there_are_named_with_what_they_would_hold() {
        let folder = std::env::temp_dir().join(format!("divvy-absent-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("there.bin"), [0; 144]).unwrap();
        std::fs::write(folder.join("short.bin"), [0; 4]).unwrap();
        let told = |weights: Vec<Tensor>| {
            let graph = Graph { initializer: weights, ..Graph::default() };
            absent(&folder, &Model { graph: Some(graph), ..Model::default() })
        };
        assert_eq!(told(vec![external("a", "there.bin")]), Absent::default());
        let found =
            told(vec![external("a", "there.bin"), external("b", "gone.bin"), external("c", "gone.bin")]);
        let gone = AbsentFile { file: "gone.bin".into(), tensors: 2, bytes: 288 };
        assert_eq!(found, Absent { files: vec![gone], faults: Vec::new() });
        let faults = told(vec![external("a", "../out.bin"), external("b", "short.bin")]).faults;
        assert!(faults[0].contains("leads upwards") && faults[1].contains("too few"), "{faults:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
