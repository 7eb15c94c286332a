//! A CUDA card in a cold start.
//!
//! Every weight that lands on it and every value that crosses the border of a piece has a place of its own in its memory, fixed
//! when it is made, so that sessions are bound once. A weight that is read in place is bound to where it lies in pinned host
//! memory: the kernel reads it over the bus.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream};

use super::driver::{ALIGNED, CardMemory, Staging, context, failed, memory_of, moment, queue};
use super::host_reader::HostReader;
use super::libraries;
use super::session::{Bound, Place, SessionOptions, session};
use crate::backends::onnxruntime::failure;
use crate::cold_start::card::{Card, Mark, Queue};
use crate::cold_start::spec::{ColdSpec, WeightAt};
use crate::stage_error::StageError;
use crate::tensor::HostTensor;

/// What the runtime and the driver take for themselves, by experience: contexts, kernel libraries, workspaces.
const OVERHEAD: u64 = 1 << 30;

/// A card whose pieces are loaded.
pub struct CudaCard {
    // In the order in which they must go: sessions use the queues and memories.
    pieces: Vec<Option<Mutex<Bound>>>,
    weights: Arc<CardMemory>,
    values: CardMemory,
    /// For each weight and value, its place, if it has one here.
    weight_at: Vec<Option<usize>>,
    value_at: Vec<Option<usize>>,
    /// For each value that comes from the host or goes there, a place that the card reaches.
    staging: Vec<Option<Mutex<Staging>>>,
    reader: HostReader,
    queues: [Arc<CudaStream>; 3],
    began: Mutex<Option<CudaEvent>>,
    context: Arc<CudaContext>,
    spec: Arc<ColdSpec>,
}

/// Memory for the weights of a card, which several ways to run one model may use one after the other.
#[derive(Clone)]
pub struct CardRoom(Arc<CardMemory>);

/// Places one behind the other.
struct Places {
    at: Vec<Option<usize>>,
    end: usize,
}

impl Places {
    fn new(count: usize) -> Places {
        Places { at: vec![None; count], end: 0 }
    }

    fn add(&mut self, what: usize, bytes: usize) {
        if self.at[what].is_none() {
            self.at[what] = Some(self.end);
            self.end += bytes.next_multiple_of(ALIGNED);
        }
    }
}

fn driver<T>(doing: &str, result: Result<T, cudarc::driver::DriverError>) -> Result<T, StageError> {
    result.map_err(failed(doing))
}

impl CudaCard {
    /// Loads the pieces of a device on a card. Weights must be in pinned memory. `most_bytes` is what may be taken of the card's
    /// memory; `room` is memory to use
    /// for weights, if it is large enough; `known` is called with each piece's number as it is loaded.
    pub fn new(
        spec: &Arc<ColdSpec>,
        device: usize,
        card: usize,
        most_bytes: Option<u64>,
        room: Option<CardRoom>,
        known: &mut dyn FnMut(usize),
    ) -> Result<CudaCard, StageError> {
        libraries::check().map_err(|absent| StageError::new(format!("{absent}; {}", absent.fix)))?;
        let context = context(card)?;
        let (mut weights, mut values) = (Places::new(spec.weights.len()), Places::new(spec.values.len()));
        let mut staged = BTreeSet::new();
        for piece in &spec.pieces {
            let is_here = piece.device == device;
            for used in &piece.weights {
                if let WeightAt::Loaded { via } = used.at
                    && (is_here || via == device)
                {
                    weights.add(used.weight, spec.weights[used.weight].data.len());
                }
            }
            for &value in piece.values.iter().chain(&piece.outputs).filter(|_| is_here) {
                values.add(value, spec.values[value].byte_count());
                staged.insert(value);
            }
        }
        let queues = [queue(&context)?, queue(&context)?, queue(&context)?];
        let room = room.filter(|room| room.0.holds(&context, weights.end));
        let new = weights.end * usize::from(room.is_none());
        check_memory(spec, card, new as u64, values.end as u64, most_bytes)?;
        let weight_memory = match room {
            Some(room) => room.0,
            None => Arc::new(CardMemory::new(&context, weights.end)?),
        };
        let value_memory = CardMemory::new(&context, values.end)?;
        let crosses = |value: usize| spec.crosses(value, device);
        let staging = (0..spec.values.len()).map(|value| {
            let wanted = staged.contains(&value) && crosses(value);
            let bytes = spec.values[value].byte_count();
            wanted
                .then(|| Staging::new(&context, bytes.next_multiple_of(ALIGNED)).map(Mutex::new))
                .transpose()
        });
        let staging = staging.collect::<Result<Vec<_>, _>>()?;
        let held = (weights.end + values.end) as u64;
        let most = most_bytes.map(|bytes| usize::try_from(bytes.saturating_sub(held)).unwrap_or(usize::MAX));
        let options = SessionOptions { card, most_bytes: most, ..SessionOptions::default() };
        let value_place = |value: usize| -> Result<Place, StageError> {
            let known = &spec.values[value];
            let bytes = known.byte_count();
            let address = value_memory.at(values.at[value].unwrap_or(0), bytes)?;
            let shape = known.shape.iter().map(|&size| size as i64).collect();
            Ok(Place { address, bytes, element: known.element, shape })
        };
        let mut pieces = Vec::with_capacity(spec.pieces.len());
        for (number, piece) in spec.pieces.iter().enumerate() {
            if piece.device != device {
                pieces.push(None);
                continue;
            }
            known(number);
            let mut inputs = Vec::new();
            for (name, &value) in piece.model.inputs.iter().zip(&piece.values) {
                inputs.push((name.clone(), value_place(value)?));
            }
            for used in &piece.weights {
                let weight = &spec.weights[used.weight];
                let bytes = weight.data.len();
                let address = match used.at {
                    WeightAt::InPlace => weight.data.as_ptr() as u64,
                    WeightAt::Loaded { .. } => {
                        weight_memory.at(weights.at[used.weight].unwrap_or(0), bytes)?
                    }
                };
                let (element, shape) = (weight.element, weight.shape.clone());
                inputs.push((weight.name.clone(), Place { address, bytes, element, shape }));
            }
            let mut outputs = Vec::new();
            for (name, &value) in piece.model.outputs.iter().zip(&piece.outputs) {
                outputs.push((name.clone(), value_place(value)?));
            }
            let about = |error: ort::Error| {
                let StageError { op, cause } = failure(&error);
                StageError { op, cause: format!("piece `{}`: {cause}", piece.model.name) }
            };
            let loaded = session(&piece.model, &queues[Queue::Compute as usize], &options).map_err(about)?;
            pieces.push(Some(Mutex::new(Bound::new(loaded, card, &inputs, &outputs).map_err(about)?)));
        }
        Ok(CudaCard {
            pieces,
            weights: weight_memory,
            values: value_memory,
            weight_at: weights.at,
            value_at: values.at,
            staging,
            reader: HostReader::new(&context)?,
            queues,
            began: Mutex::new(None),
            context,
            spec: spec.clone(),
        })
    }

    /// Its memory for weights, for others that do not run at the same time.
    pub fn room(&self) -> CardRoom {
        CardRoom(self.weights.clone())
    }

    fn queue(&self, queue: Queue) -> &CudaStream {
        &self.queues[queue as usize]
    }

    fn weight_place(&self, weight: usize) -> Result<usize, StageError> {
        let name = &self.spec.weights[weight].name;
        self.weight_at[weight].ok_or_else(|| StageError::new(format!("`{name}` has no place on this card")))
    }

    fn value_place(&self, value: usize) -> Result<usize, StageError> {
        let name = &self.spec.values[value].name;
        self.value_at[value].ok_or_else(|| StageError::new(format!("`{name}` has no place on this card")))
    }

    fn staging(&self, value: usize) -> Result<std::sync::MutexGuard<'_, Staging>, StageError> {
        let name = &self.spec.values[value].name;
        let staging = self.staging[value].as_ref();
        let staging = staging.ok_or_else(|| StageError::new(format!("`{name}` never crosses the bus")))?;
        Ok(staging.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Refuses, with the figures, what the card has no room for.
fn check_memory(
    spec: &ColdSpec,
    card: usize,
    weights: u64,
    values: u64,
    most_bytes: Option<u64>,
) -> Result<(), StageError> {
    let (free, all) = memory_of(card)?;
    let free = most_bytes.map_or(free, |most| most.min(free));
    let inside = OVERHEAD;
    let needed = weights + values + inside;
    if needed <= free {
        return Ok(());
    }
    let mb = |bytes: u64| bytes.div_ceil(1 << 20);
    Err(StageError::new(format!(
        "card {card} has {} MiB to use of {} MiB, and {} MiB are needed: {} for {} weights, {} for values between pieces, {} for the \
         runtime",
        mb(free),
        mb(all),
        mb(needed),
        mb(weights),
        spec.weights.len(),
        mb(values),
        mb(inside)
    )))
}

fn event(mark: &Mark) -> Result<Arc<CudaEvent>, StageError> {
    mark.0.clone().downcast().map_err(|_| StageError::new("a CUDA card waits for CUDA cards only"))
}

fn peer(other: &dyn Card) -> Result<&CudaCard, StageError> {
    other.as_any().downcast_ref().ok_or_else(|| StageError::new("a CUDA card has CUDA cards as peers only"))
}

impl Card for CudaCard {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn forget(&self) -> Result<(), StageError> {
        let queue = self.queue(Queue::Copy);
        for (weight, place) in self.weight_at.iter().enumerate() {
            let Some(place) = *place else { continue };
            let data = &self.spec.weights[weight].data;
            let resident = self.spec.resident_bytes(weight);
            self.weights.take_in(place, &data[..resident], queue)?;
            self.weights.spoil(place + resident, data.len() - resident, queue)?;
        }
        self.finish()
    }

    fn begin(&self) -> Result<(), StageError> {
        let event = moment(self.queue(Queue::Copy))?;
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(())
    }

    fn load(&self, weight: usize) -> Result<(), StageError> {
        let resident = self.spec.resident_bytes(weight);
        let place = self.weight_place(weight)? + resident;
        self.weights.take_in(place, &self.spec.weights[weight].data[resident..], self.queue(Queue::Copy))
    }

    fn forward(&self, weight: usize, from: &dyn Card) -> Result<(), StageError> {
        let from = peer(from)?;
        let bytes = self.spec.weights[weight].data.len();
        let (here, there) = (self.weight_place(weight)?, from.weight_place(weight)?);
        self.weights.take_from(here, &from.weights, there, bytes, self.queue(Queue::Compute))
    }

    fn bring(&self, value: usize, from: &HostTensor) -> Result<(), StageError> {
        let mut staging = self.staging(value)?;
        let bytes = self.spec.values[value].byte_count();
        let place = self.value_place(value)?;
        let mut fits = false;
        staging.fill(|into| fits = from.write_bytes(&mut into[..bytes]));
        if !fits {
            let name = &self.spec.values[value].name;
            return Err(StageError::new(format!("`{name}` has another size than was planned for")));
        }
        self.reader.take_in(&staging, &self.values, place, bytes, self.queue(Queue::Compute))
    }

    fn bring_from(&self, value: usize, from: &dyn Card) -> Result<(), StageError> {
        let from = peer(from)?;
        let bytes = self.spec.values[value].byte_count();
        let (here, there) = (self.value_place(value)?, from.value_place(value)?);
        self.values.take_from(here, &from.values, there, bytes, self.queue(Queue::Compute))
    }

    fn run(&self, piece: usize) -> Result<(), StageError> {
        let bound = self.pieces[piece].as_ref().ok_or_else(|| StageError::new("it is not loaded here"))?;
        bound.lock().unwrap_or_else(PoisonError::into_inner).run().map_err(|error| failure(&error))
    }

    fn fetch(&self, value: usize, made: &Mark) -> Result<HostTensor, StageError> {
        let known = &self.spec.values[value];
        let bytes = known.byte_count();
        let (staging, queue) = (self.staging(value)?, self.queue(Queue::Out));
        self.wait(Queue::Out, made)?;
        self.values.give_out(self.value_place(value)?, bytes, &staging, queue)?;
        driver("copying from it", queue.synchronize())?;
        HostTensor::from_bytes(known.element, known.shape.clone(), &staging.bytes()[..bytes])
            .ok_or_else(|| StageError::new("a value of another size came"))
    }

    fn mark(&self, queue: Queue) -> Result<Mark, StageError> {
        Ok(Mark(Arc::new(moment(self.queue(queue))?)))
    }

    fn wait(&self, queue: Queue, mark: &Mark) -> Result<(), StageError> {
        driver("waiting in a queue", self.queue(queue).wait(&*event(mark)?))
    }

    fn finish(&self) -> Result<(), StageError> {
        self.queues.iter().try_for_each(|queue| driver("working", queue.synchronize()))
    }

    fn reached_us(&self, mark: &Mark) -> Result<f64, StageError> {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let began = began.as_ref().ok_or_else(|| StageError::new("time has not begun"))?;
        let elapsed = driver("telling the time", began.elapsed_ms(&*event(mark)?))?;
        Ok(f64::from(elapsed) * 1e3)
    }
}

impl Drop for CudaCard {
    /// Memory is freed when nothing uses it any more.
    fn drop(&mut self) {
        let _ = self.context.synchronize();
    }
}
