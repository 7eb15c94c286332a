//! A plan that is ready to be loaded: its program, and how the program's stages and values belong to the problem.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::score::Score;
use divvy_exec::backend::StageModel;
use divvy_exec::backends::cuda::CudaBackend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::cores::Cores;
use divvy_exec::program::ProgramSpec;

use crate::cold_start::places::DevicePlace;
use crate::engine::Engine;
use crate::error::DeployError;
use crate::inputs::Input;
use crate::kernel_owners::Owners;
use crate::pieces::shares::Share;

/// Everything that a run needs.
pub struct Prepared {
    /// The problem that was planned.
    pub problem: Problem,
    /// What the plan promises.
    pub score: Score,
    /// Whether items follow each other: a pipeline or a stream.
    pub is_stream: bool,
    /// The program: devices with their cores, links, and a stage for each piece of the model.
    pub spec: ProgramSpec,
    /// For each stage, what it does.
    pub work: Vec<StageWork>,
    /// What is worth knowing before the run.
    pub warnings: Vec<String>,
    /// The program with every node named by its position, so that kernels can be told apart.
    pub(crate) marked: ProgramSpec,
    /// The model in one piece on all cores, as it was profiled.
    pub(crate) whole: ProgramSpec,
    /// The same as its file has it, where results are to be compared, or times with those of plain ONNX Runtime.
    pub(crate) untouched: Option<ProgramSpec>,
    /// That for all inputs of an item at once, where an item has several, times are compared, and the model can be changed so.
    pub(crate) untouched_at_once: Option<StageModel>,
    /// The cores of all devices of the hardware.
    pub(crate) all_cores: Cores,
    /// How many inputs an item has.
    pub(crate) together: usize,
    /// For each input of the program, what it is of the item.
    pub(crate) fed: Vec<Share>,
    /// For each result of the program, what it is of the item.
    pub(crate) given: Vec<Share>,
    /// For each device of the program, the device of the problem.
    pub(crate) devices: Vec<DeviceId>,
    /// For each device of the program, what it is here.
    pub(crate) places: Vec<DevicePlace>,
    /// Sizes of values, for one input.
    pub(crate) bytes: HashMap<String, u64>,
    /// Where kernels belong.
    pub(crate) owners: Owners,
    /// The inputs of the model.
    pub(crate) inputs: Vec<Input>,
}

impl Prepared {
    /// What runs each device of the program.
    pub(crate) fn engines(&self, runtime: &OnnxRuntime) -> Result<Vec<Engine>, DeployError> {
        let engine = |place: &DevicePlace| match place {
            DevicePlace::Cuda(card) => CudaBackend::new(*card)
                .map(Engine::Card)
                .map_err(|absent| DeployError::Absent { message: absent.message, fix: absent.fix }),
            _ => Ok(Engine::Cores(runtime.clone())),
        };
        self.places.iter().map(engine).collect()
    }

    /// The first card that the plan uses, if it uses any.
    pub(crate) fn first_card(&self) -> Option<usize> {
        self.places.iter().find_map(|place| match place {
            DevicePlace::Cuda(card) => Some(*card),
            _ => None,
        })
    }
}

/// What a stage does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageWork {
    /// Ops of the problem, each once.
    pub ops: Vec<OpId>,
    /// For how many inputs.
    pub size: u32,
    /// The stage that it puts inputs together for, if that is all it does.
    pub regroups_for: Option<usize>,
}
