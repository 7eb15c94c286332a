//! Sessions of the CUDA provider whose inputs and outputs lie at given addresses of a card.

#![allow(unsafe_code)]

use cudarc::driver::CudaStream;
use ort::ep::{ArbitrarilyConfigurableExecutionProvider, CUDA};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{IoBinding, NoSelectedOutputs, RunOptions, Session};
use ort::value::DynValue;

use crate::backend::StageModel;
use crate::backends::onnxruntime::commit;
use crate::backends::ort_memory::value_at;
use crate::tensor::Element;

/// Something at an address of a card, or of pinned host memory, which cards reach like their own.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) bytes: usize,
    pub(super) element: Element,
    pub(super) shape: Vec<i64>,
}

/// The memory of a card, as the runtime names it.
pub(super) fn memory(card: usize) -> Result<MemoryInfo<'static>, ort::Error> {
    let number = i32::try_from(card).unwrap_or(0);
    MemoryInfo::new(AllocationDevice::CUDA, number, AllocatorType::Device, MemoryType::Default)
}

/// A value at a place. The place must stay valid as long as the value is used.
pub(super) fn value(card: usize, place: &Place) -> Result<DynValue, ort::Error> {
    // SAFETY: stages and cards own the memory that they bind, and drop their sessions before it.
    unsafe { value_at(&memory(card)?, place.address as usize, place.bytes, place.element, &place.shape) }
}

/// How sessions of a card are made.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionOptions {
    pub(super) card: usize,
    /// The most bytes that the runtime may take for each session's own values.
    pub(super) most_bytes: Option<usize>,
    pub(super) unoptimised: bool,
    /// Where kernels are timed, to which file.
    pub(super) profile: Option<std::path::PathBuf>,
}

/// A session that works on a queue. The queue must outlive it.
pub(super) fn session(
    model: &StageModel,
    queue: &CudaStream,
    options: &SessionOptions,
) -> Result<Session, ort::Error> {
    let level =
        if options.unoptimised { GraphOptimizationLevel::Disable } else { GraphOptimizationLevel::All };
    let mut provider = CUDA::default()
        .with_device_id(i32::try_from(options.card).unwrap_or(0))
        .with_arena_extend_strategy(ort::ep::ArenaExtendStrategy::SameAsRequested)
        .with_arbitrary_config("do_copy_in_default_stream", "1");
    if let Some(most) = options.most_bytes {
        provider = provider.with_memory_limit(most);
    }
    // SAFETY: stages and cards own their queue, and drop their sessions before it.
    let provider = unsafe { provider.with_compute_stream(queue.cu_stream().cast()) };
    let mut builder: SessionBuilder = Session::builder()?
        .with_log_level(ort::logging::LogLevel::Fatal)?
        .with_optimization_level(level)?
        .with_intra_threads(1)?
        .with_execution_providers([provider.build().error_on_failure()])?;
    if let Some(path) = &options.profile {
        builder = builder.with_profiling(path)?;
    }
    commit(builder, model)
}

/// Lets runs return when all of their work is in the queue.
pub(super) fn enqueue_only() -> Result<RunOptions<NoSelectedOutputs>, ort::Error> {
    let mut options = RunOptions::new()?;
    options.disable_device_sync()?;
    Ok(options)
}

/// A session with all it reads and makes at fixed places.
pub(super) struct Bound {
    // In the order in which they must go.
    binding: IoBinding,
    session: Session,
    options: RunOptions<NoSelectedOutputs>,
}

impl Bound {
    /// `inputs` and `outputs` by name.
    pub(super) fn new(
        session: Session,
        card: usize,
        inputs: &[(String, Place)],
        outputs: &[(String, Place)],
    ) -> Result<Bound, ort::Error> {
        let mut binding = session.create_binding()?;
        for (name, place) in inputs {
            binding.bind_input(name.as_str(), &value(card, place)?)?;
        }
        for (name, place) in outputs {
            binding.bind_output(name.as_str(), value(card, place)?)?;
        }
        Ok(Bound { binding, session, options: enqueue_only()? })
    }

    /// Puts one run into the queue.
    pub(super) fn run(&mut self) -> Result<(), ort::Error> {
        self.session.run_binding_with_options(&self.binding, &self.options).map(drop)
    }
}
