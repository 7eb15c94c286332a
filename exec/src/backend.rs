//! What a device must be able to do.
//!
//! A backend opens devices; a device loads stages; a stage runs. All of these calls come from a thread that is pinned to
//! the first of the device's cores. Threads that a runtime starts belong on the others.

use bytes::Bytes;

use crate::cores::Cores;
use crate::stage_error::StageError;
use crate::tensor::{Element, HostTensor, Tensor};

/// A weight in host memory, shared by all stages that read it.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub element: Element,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its elements, row after row, little end first.
    pub data: Bytes,
}

/// How a stage is given the weights that are not in its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightsAre {
    /// As constants, which the runtime may fold, unite and lay out anew.
    #[default]
    Constants,
    /// As inputs, fed with what lies in the device's memory, as in a cold start.
    Inputs,
    /// As inputs, fed with what lies in pinned host memory: a card reads it over its bus.
    InPlace,
}

/// A piece of a model, as a backend is given it.
#[derive(Clone, Debug, Default)]
pub struct StageModel {
    /// Its name, for messages.
    pub name: String,
    /// The model: an ONNX file. It has its small weights itself; for the others it says that they lie elsewhere.
    pub bytes: Vec<u8>,
    /// Those others.
    pub weights: Vec<Weight>,
    /// How it is given them. As inputs they follow `inputs`, in this order.
    pub weights_are: WeightsAre,
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
