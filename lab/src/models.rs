//! Which model files there are: the bundled ones, and those of a folder that the user names.
//!
//! Only networks with op times or FLOPs of their own count: torch workloads and ONNX models. A file of a folder that has
//! the name of a bundled one is left out. What cannot be read is left out too.

use std::path::{Path, PathBuf};

use divvy_io::file;
use divvy_io::import::{Imported, import};
use divvy_io::onnx::load::looks_like_onnx;

use crate::edge::unlike_networks::UnlikeDevices;
use crate::instances::Instance;

/// What a model is, as far as experiments choose by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelFamily {
    /// A vision network with measured times.
    Vision,
    /// A language model, op by op, with measured times.
    Language,
    /// An ONNX model, whose times are estimated.
    Onnx,
}

/// A model file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) family: ModelFamily,
    path: PathBuf,
    sha256: String,
}

impl Model {
    /// The model on built-in hardware.
    pub(crate) fn on(&self, hardware: &'static str) -> Instance {
        Instance::File { path: self.path.clone(), sha256: self.sha256.clone(), hardware }
    }

    /// The first request to the model on built-in hardware, so many percent of its weights being there.
    pub(crate) fn cold_start(&self, hardware: &'static str, resident: u32) -> Instance {
        Instance::ColdStart { path: self.path.clone(), sha256: self.sha256.clone(), hardware, resident }
    }

    /// A stream of the model over unlike devices.
    pub(crate) fn streamed_over(&self, network: UnlikeDevices) -> Instance {
        Instance::Unlike { path: self.path.clone(), sha256: self.sha256.clone(), network }
    }

    /// A pipeline of the model.
    pub(crate) fn in_stages(&self, stages: u32) -> Instance {
        Instance::Staged { path: self.path.clone(), sha256: self.sha256.clone(), stages }
    }
}

/// The models of both folders, by family and name.
pub(crate) fn models(bundled: &Path, workloads: Option<&Path>) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for path in files(bundled).into_iter().chain(workloads.into_iter().flat_map(files)) {
        if let Some(model) = model(&path)
            && !models.iter().any(|known| known.name == model.name)
        {
            models.push(model);
        }
    }
    models.sort_by(|a, b| (a.family as u8, &a.name).cmp(&(b.family as u8, &b.name)));
    models
}

/// The files of a folder and of its folders, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let mut files: Vec<PathBuf> = list(folder)
        .into_iter()
        .flat_map(|path| if path.is_dir() { list(&path) } else { vec![path] })
        .filter(|path| {
            let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
            [".json", ".json.gz", ".onnx"].iter().any(|end| name.ends_with(end)) && path.is_file()
        })
        .collect();
    files.sort();
    files
}

fn model(path: &Path) -> Option<Model> {
    let loaded = file::load(&path.display().to_string()).ok()?;
    let stem = path.file_name()?.to_string_lossy().split('.').next()?.to_owned();
    let (name, family) = if looks_like_onnx(&loaded.bytes) {
        (format!("{stem} (ONNX)"), ModelFamily::Onnx)
    } else {
        match import(&loaded).ok()? {
            Imported::Problem { format: "torch workload", spec, .. } => {
                // The language models among the workloads are the ones in half precision.
                let language = spec.graph.precision.as_deref() == Some("fp16");
                (stem, if language { ModelFamily::Language } else { ModelFamily::Vision })
            }
            _ => return None,
        }
    };
    Some(Model { name, family, path: path.to_owned(), sha256: loaded.sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_models_are_found_once_even_if_the_folder_is_given_twice() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
        let names: Vec<String> = models(&folder, Some(&folder)).into_iter().map(|model| model.name).collect();
        let expected =
            ["googlenet", "gpt2-large-1x32", "googlenet (ONNX)", "mobilenet_v2 (ONNX)", "resnet50 (ONNX)"];
        assert_eq!(names, expected);
    }
}
