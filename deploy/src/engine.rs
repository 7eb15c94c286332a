//! What runs a model on a device: ONNX Runtime on cores, or its CUDA provider on a card.

use std::path::PathBuf;
use std::sync::Arc;

use divvy_exec::backend::Backend;
use divvy_exec::backends::cuda::CudaBackend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;

/// What runs the model.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    /// ONNX Runtime on cores.
    Cores(OnnxRuntime),
    /// Its CUDA provider on a card.
    Card(CudaBackend),
}

impl Engine {
    /// As plans run.
    pub(crate) fn plain(&self) -> Arc<dyn Backend> {
        match self {
            Engine::Cores(runtime) => Arc::new(runtime.clone()),
            Engine::Card(card) => Arc::new(card.clone()),
        }
    }

    /// With kernels timed.
    pub(crate) fn timing(&self, folder: PathBuf) -> Arc<dyn Backend> {
        match self {
            Engine::Cores(runtime) => Arc::new(runtime.clone().profiling(folder)),
            Engine::Card(card) => Arc::new(card.clone().profiling(folder)),
        }
    }

    /// The card's number, if it is one.
    pub(crate) fn card(&self) -> Option<usize> {
        match self {
            Engine::Cores(_) => None,
            Engine::Card(card) => Some(card.card()),
        }
    }
}
