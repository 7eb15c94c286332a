//! The ONNX model that is profiled, and the problem that it makes on the hardware this machine stands for.

use divvy_core::problem::{Contention, Objective, Problem};
use divvy_io::assemble::{Assembled, ObjectiveOptions, ProblemOptions, assemble};
use divvy_io::file;
use divvy_io::import::onnx_model;
use divvy_io::onnx::load;
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::read_options::ReadOptions;

use crate::error::DeployError;

/// A cold start with nothing to load.
const ALL_RESIDENT: Objective = Objective::ColdStart { contention: Contention::Bus, resident: 100 };

/// A model file, and the problem that it makes on hardware.
pub struct ModelOnHardware {
    /// The problem, whose ops are timed.
    pub problem: Problem,
    /// The model's file.
    pub(super) path: String,
    /// The fingerprint of that file.
    pub(super) sha256: String,
    /// A built-in name or a file.
    pub(super) hardware: String,
    pub(super) model: Model,
    /// How the model was read.
    pub(super) reading: ReadOptions,
}

impl ModelOnHardware {
    /// Reads the ONNX model at `path`; `hardware` is a built-in name or a file. The problem is one of a cold
    /// start where that is what is profiled for.
    pub fn read(
        path: &str,
        hardware: &str,
        reading: &ReadOptions,
        cold_start: bool,
    ) -> Result<ModelOnHardware, DeployError> {
        let loaded = file::load(path)?;
        if !load::looks_like_onnx(&loaded.bytes) {
            return Err(DeployError::option("MODEL", "only ONNX models can be run", "give an .onnx file"));
        }
        let question = ProblemOptions {
            read: reading.clone(),
            hardware: Some(hardware.to_owned()),
            objective: if cold_start {
                ObjectiveOptions::from(ALL_RESIDENT)
            } else {
                ObjectiveOptions::default()
            },
            ..ProblemOptions::default()
        };
        let Assembled { problem, reading, .. } = assemble(path, &question)?;
        let model = onnx_model(&loaded)?;
        let (path, hardware) = (path.to_owned(), hardware.to_owned());
        Ok(ModelOnHardware { problem, path, sha256: loaded.sha256, hardware, model, reading })
    }

    /// The model's graph; an empty one where the file has none.
    pub(super) fn graph(&self) -> Graph {
        self.model.graph.clone().unwrap_or_default()
    }
}
