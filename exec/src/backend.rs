//! What a device must be able to do.
//!
//! A backend opens devices; a device loads stages; a stage runs. All of these calls come from a thread that is pinned to
//! the first of the device's cores. Threads that a runtime starts belong on the others.

use crate::cores::Cores;
use crate::stage_error::StageError;
use crate::tensor::{HostTensor, Tensor};

/// A piece of a model, as a backend is given it.
#[derive(Clone, Debug)]
pub struct StageModel {
    /// Its name, for messages.
    pub name: String,
    /// The model: an ONNX file, weights included.
    pub bytes: Vec<u8>,
    /// Values to feed, in the order in which they will be given.
    pub inputs: Vec<String>,
    /// Values wanted, in the order in which they are to be returned.
    pub outputs: Vec<String>,
}

/// A kind of device.
pub trait Backend: Send + Sync {
    /// Its name, such as `onnxruntime`, with its version.
    fn name(&self) -> String;
    /// Gets ready to load stages.
    fn open(&self, cores: &Cores) -> Result<Box<dyn Device>, StageError>;
    /// Brings a value into the form that its stages take, so that feeding it costs no copy.
    fn take_in(&self, value: HostTensor) -> Result<Tensor, StageError>;
}

/// A device that is ready.
pub trait Device {
    /// Loads a stage.
    fn load(&mut self, model: &StageModel) -> Result<Box<dyn Stage>, StageError>;
    /// Whether the thread that runs a stage does all of its work, so that the thread's processor time is the work's.
    fn works_in_its_thread(&self) -> bool {
        false
    }
}

/// A stage that is ready to run.
pub trait Stage: Send {
    /// Runs it once.
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, StageError>;
    /// Ends profiling, where that was asked for, and gives the kernels of every run so far.
    fn kernels(&mut self) -> Result<Vec<Vec<Kernel>>, StageError> {
        Err(StageError::new("this backend does not time kernels"))
    }
}

/// A kernel that ran, in microseconds since its run began.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The name of its node. Runtimes that unite nodes make names of their own, which hold that of one of them.
    pub node: String,
    /// When it began.
    pub start_us: f64,
    /// How long it took.
    pub duration_us: f64,
}
