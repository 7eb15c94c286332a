//! A card as a device of a warm program: weights are in its memory, and a stage ends when its work is done.
//!
//! What a stage makes stays on the card, in the runtime's memory, until somebody elsewhere asks for it. What comes from elsewhere is
//! copied in as the stage begins.

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream};
use ort::session::{IoBinding, NoSelectedOutputs, RunOptions, Session};
use ort::value::{DynValue, ValueType};

use super::driver::{CardMemory, Staging, context, failed, queue, read_at};
use super::libraries;
use super::session::{Place, SessionOptions, enqueue_only, memory, session, value};
use crate::backend::{Backend, Device, Kernel, Stage, StageModel, Weight, WeightsAre};
use crate::backends::onnxruntime::{Unavailable, download, element_of, failure, session_kernels};
use crate::backends::ort_memory::address_of;
use crate::cores::Cores;
use crate::stage_error::StageError;
use crate::tensor::{Element, HostTensor, Stored, Tensor};

/// A CUDA card.
#[derive(Clone, Debug)]
pub struct CudaBackend {
    card: usize,
    optimised: bool,
    most_bytes: Option<usize>,
    profile_in: Option<PathBuf>,
    /// Weights in the card's memory, by where they lie in the host's.
    weights: Arc<Mutex<SharedWeights>>,
}

type SharedWeights = HashMap<(usize, usize), Weak<Brought>>;

impl CudaBackend {
    /// A card by its number; what is missing is told with how to get it.
    pub fn new(card: usize) -> Result<CudaBackend, Unavailable> {
        libraries::check()?;
        context(card).map_err(|error| Unavailable {
            message: error.to_string(),
            fix: "`nvidia-smi -L` lists the cards; name one with --device DEVICE=cuda:NUMBER".into(),
        })?;
        Ok(CudaBackend { card, optimised: true, most_bytes: None, profile_in: None, weights: Arc::default() })
    }

    /// Its number.
    pub fn card(&self) -> usize {
        self.card
    }

    /// The same without rewriting of graphs, so that whole and pieces compute the same.
    pub fn unoptimised(self) -> CudaBackend {
        CudaBackend { optimised: false, ..self }
    }

    /// The same with at most so many bytes for the values of each session.
    pub fn limited(self, most_bytes: usize) -> CudaBackend {
        CudaBackend { most_bytes: Some(most_bytes), ..self }
    }

    /// The same with every kernel timed, as far as the host sees it; the runtime writes its files to a folder.
    pub fn profiling(self, folder: PathBuf) -> CudaBackend {
        CudaBackend { profile_in: Some(folder), ..self }
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> String {
        format!("CUDA card {}", self.card)
    }

    fn open(&self, _cores: &Cores) -> Result<Box<dyn Device>, StageError> {
        let context = context(self.card)?;
        let queue = queue(&context)?;
        Ok(Box::new(CudaDevice { how: self.clone(), context, queue }))
    }

    fn take_in(&self, value: HostTensor) -> Result<Tensor, StageError> {
        Ok(Tensor::new(value))
    }
}

struct CudaDevice {
    how: CudaBackend,
    context: Arc<CudaContext>,
    queue: Arc<CudaStream>,
}

impl Device for CudaDevice {
    fn load(&mut self, model: &StageModel) -> Result<Box<dyn Stage>, StageError> {
        let about = |error: ort::Error| failure(&error);
        let card = self.how.card;
        let profile = self.how.profile_in.as_ref().map(|folder| {
            static PROFILED: AtomicU64 = AtomicU64::new(0);
            folder.join(format!("cuda-{}", PROFILED.fetch_add(1, Ordering::Relaxed)))
        });
        let is_profiled = profile.is_some();
        let (most_bytes, unoptimised) = (self.how.most_bytes, !self.how.optimised);
        let options = SessionOptions { card, most_bytes, unoptimised, profile };
        let session = session(model, &self.queue, &options).map_err(about)?;
        let names: Vec<String> = session.outputs().iter().map(|outlet| outlet.name().to_owned()).collect();
        if let Some(wanted) = model.outputs.iter().find(|&wanted| !names.contains(wanted)) {
            return Err(StageError::new(format!("the model does not give `{wanted}`")));
        }
        let fed = if model.weights_are == WeightsAre::Inputs { &model.weights[..] } else { &[] };
        let mut weights = Vec::new();
        for weight in fed {
            weights.push((weight.name.clone(), self.bring(weight)?));
        }
        let in_place = if model.weights_are == WeightsAre::InPlace { &model.weights[..] } else { &[] };
        let mut binding = session.create_binding().map_err(about)?;
        for (name, here) in &weights {
            binding.bind_input(name.as_str(), &value(card, &here.place).map_err(about)?).map_err(about)?;
        }
        for weight in in_place {
            let place = Place {
                address: weight.data.as_ptr() as u64,
                bytes: weight.data.len(),
                element: weight.element,
                shape: weight.shape.clone(),
            };
            binding.bind_input(weight.name.as_str(), &value(card, &place).map_err(about)?).map_err(about)?;
        }
        for name in &model.outputs {
            binding.bind_output_to_device(name.as_str(), &memory(card).map_err(about)?).map_err(about)?;
        }
        Ok(Box::new(CudaStage {
            binding,
            session,
            options: enqueue_only().map_err(about)?,
            brought: (0..model.inputs.len()).map(|_| None).collect(),
            _weights: weights,
            _constants: model.weights.clone(),
            inputs: model.inputs.clone(),
            outputs: model.outputs.clone(),
            is_profiled,
            card,
            queue: self.queue.clone(),
            context: self.context.clone(),
        }))
    }
}

impl CudaDevice {
    /// A weight in the card's memory, once for all stages that read it.
    fn bring(&self, weight: &Weight) -> Result<Arc<Brought>, StageError> {
        let key = (weight.data.as_ptr() as usize, weight.data.len());
        let mut shared = self.how.weights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let mut here = Brought::new(&self.context, weight.element, weight.shape.clone(), weight.data.len())?;
        here.staging.fill(|into| into[..weight.data.len()].copy_from_slice(&weight.data));
        here.copy(&self.queue)?;
        self.queue.synchronize().map_err(failed("copying a weight"))?;
        // What is there already needs no second place.
        here.staging = Staging::new(&self.context, 0)?;
        let here = Arc::new(here);
        shared.insert(key, Arc::downgrade(&here));
        Ok(here)
    }
}

/// Something that was copied to the card, and its place in pinned memory.
#[derive(Debug)]
struct Brought {
    memory: CardMemory,
    staging: Staging,
    place: Place,
}

impl Brought {
    fn new(
        context: &Arc<CudaContext>,
        element: Element,
        shape: Vec<i64>,
        bytes: usize,
    ) -> Result<Brought, StageError> {
        let memory = CardMemory::new(context, bytes)?;
        let place = Place { address: memory.at(0, bytes)?, bytes, element, shape };
        Ok(Brought { memory, staging: Staging::new(context, bytes)?, place })
    }

    fn copy(&self, queue: &CudaStream) -> Result<(), StageError> {
        self.memory.take_in(0, &self.staging.bytes()[..self.place.bytes], queue)
    }
}

struct CudaStage {
    // In the order in which they must go: what is bound is used by the binding.
    binding: IoBinding,
    session: Session,
    options: RunOptions<NoSelectedOutputs>,
    /// For each input, the place to which it is copied if it comes from the host.
    brought: Vec<Option<Brought>>,
    _weights: Vec<(String, Arc<Brought>)>,
    _constants: Vec<Weight>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    is_profiled: bool,
    card: usize,
    queue: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

impl CudaStage {
    /// Copies an input from the host to its place, which is made anew where its shape has changed.
    fn bring(&mut self, input: usize, host: &HostTensor) -> Result<(), StageError> {
        let shape: Vec<i64> = host.shape.iter().map(|&size| size as i64).collect();
        let (element, bytes) = (host.element(), host.len() * host.element().size());
        let fits = |here: &Brought| here.place.shape == shape && here.place.element == element;
        if !self.brought[input].as_ref().is_some_and(fits) {
            self.brought[input] = Some(Brought::new(&self.context, element, shape, bytes)?);
        }
        let Some(here) = &mut self.brought[input] else { return Ok(()) };
        here.staging.fill(|into| {
            host.write_bytes(&mut into[..bytes]);
        });
        here.copy(&self.queue)?;
        let about = |error: ort::Error| failure(&error);
        let bound = value(self.card, &here.place).map_err(about)?;
        self.binding.bind_input(self.inputs[input].as_str(), &bound).map_err(about)
    }
}

impl Stage for CudaStage {
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, StageError> {
        let about = |error: ort::Error| failure(&error);
        for (i, input) in inputs.iter().enumerate() {
            match input.stored().as_any().downcast_ref::<CudaValue>().filter(|value| value.card == self.card)
            {
                Some(here) => self.binding.bind_input(self.inputs[i].as_str(), &here.value).map_err(about)?,
                None => self.bring(i, &input.stored().to_host()?)?,
            }
        }
        let mut made: Vec<(String, DynValue)> = {
            let made = self.session.run_binding_with_options(&self.binding, &self.options).map_err(about)?;
            made.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        self.queue.synchronize().map_err(failed("working"))?;
        let (card, context) = (self.card, &self.context);
        let take = |wanted: &String| {
            let place = made.iter().position(|(name, _)| name == wanted);
            let none = || StageError::new(format!("`{wanted}` was not made"));
            let (_, value) = made.swap_remove(place.ok_or_else(none)?);
            Ok(Tensor::new(CudaValue { value, card, context: context.clone() }))
        };
        self.outputs.iter().map(take).collect()
    }

    fn kernels(&mut self) -> Result<Vec<Vec<Kernel>>, StageError> {
        if !self.is_profiled {
            return Err(StageError::new("kernels were not timed"));
        }
        session_kernels(&mut self.session)
    }
}

/// A value on a card.
struct CudaValue {
    value: DynValue,
    card: usize,
    context: Arc<CudaContext>,
}

impl CudaValue {
    fn known(&self) -> Option<(Element, Vec<usize>)> {
        let ValueType::Tensor { ty, shape, .. } = self.value.dtype() else { return None };
        let element = element_of(*ty)?;
        Some((element, shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect()))
    }
}

impl Stored for CudaValue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_host(&self) -> Result<HostTensor, StageError> {
        let none = || StageError::new(format!("a value is no tensor but {}", self.value.dtype()));
        let (element, shape) = self.known().ok_or_else(none)?;
        // The runtime puts some values, such as shapes, into host memory whatever it is asked.
        if self.value.memory_info().is_cpu_accessible() {
            return download(&self.value);
        }
        let mut bytes = vec![0; self.byte_count()];
        read_at(&self.context, address_of(&self.value).map_err(|error| failure(&error))? as u64, &mut bytes)?;
        HostTensor::from_bytes(element, shape, &bytes)
            .ok_or_else(|| StageError::new("a value of another size came"))
    }

    fn copied(&self) -> Result<Tensor, StageError> {
        Ok(Tensor::new(self.to_host()?))
    }

    fn byte_count(&self) -> usize {
        self.known().map_or(0, |(element, shape)| shape.iter().product::<usize>() * element.size())
    }
}
