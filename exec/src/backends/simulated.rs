//! Cards that are not there: their queues are threads, their memory is the host's, and pieces run on another backend.
//!
//! All that a cold start asks of a card happens here as it does on a real one: later, in the order of each queue, and at the pace
//! that is set. A piece finds the weights and values that have come by then, and fails if one has not. So runs on simulated cards
//! give right results only where queues, order, forwarding and turns on the bus are right. Their times mean nothing.

use std::any::Any;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::{Backend, Stage, StageModel, WeightsAre};
use crate::cold_start::card::{Card, Mark, Queue};
use crate::cold_start::spec::{ColdSpec, WeightAt};
use crate::cores::Cores;
use crate::stage_error::StageError;
use crate::tensor::{HostTensor, Tensor};

/// How fast a simulated card is, and how much it holds.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedSpeed {
    /// Bytes per second from the host.
    pub bus: f64,
    /// Bytes of its memory, for weights.
    pub memory: u64,
}

impl Default for SimulatedSpeed {
    fn default() -> SimulatedSpeed {
        SimulatedSpeed { bus: 2e9, memory: u64::MAX }
    }
}

type Work = Box<dyn FnOnce(&Memory) -> Result<(), StageError> + Send>;

/// When a mark was reached, once it is.
#[derive(Default)]
struct Reached {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Reached {
    fn tell(&self) {
        *locked(&self.at) = Some(Instant::now());
        self.changed.notify_all();
    }

    fn wait(&self) -> Instant {
        let mut at = locked(&self.at);
        loop {
            if let Some(at) = *at {
                return at;
            }
            at = self.changed.wait(at).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A piece that is loaded, and what it is fed after its values: weights, and whether from here.
struct LoadedPiece {
    stage: Mutex<Box<dyn Stage>>,
    values: Vec<usize>,
    weights: Vec<(usize, bool)>,
    outputs: Vec<usize>,
}

/// What is on the card.
struct Memory {
    /// Weights that have come.
    weights: Vec<Mutex<Option<HostTensor>>>,
    values: Vec<Mutex<Option<HostTensor>>>,
    pieces: Vec<Option<LoadedPiece>>,
    /// Weights in host memory.
    host: Vec<HostTensor>,
    /// The first thing that went wrong.
    fault: Mutex<Option<StageError>>,
    began: Mutex<Instant>,
}

/// A card that is not there.
pub struct SimulatedCard {
    memory: Arc<Memory>,
    queues: Vec<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
    spec: Arc<ColdSpec>,
    speed: SimulatedSpeed,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing(what: &str, name: &str) -> StageError {
    StageError::new(format!("{what} `{name}` is read before it has come"))
}

impl SimulatedCard {
    /// A card for the pieces of a device; they run on `engine`, with a core of their own.
    pub fn new(
        spec: &Arc<ColdSpec>,
        device: usize,
        engine: &dyn Backend,
        speed: SimulatedSpeed,
    ) -> Result<SimulatedCard, StageError> {
        let needed: u64 = landing(spec, device).map(|weight| spec.weights[weight].data.len() as u64).sum();
        if needed > speed.memory {
            return Err(StageError::new(format!(
                "weights of {needed} bytes do not fit into its memory of {}",
                speed.memory
            )));
        }
        let host = spec.weights.iter().map(|weight| {
            let shape = weight.shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
            HostTensor::from_bytes(weight.element, shape, &weight.data)
                .ok_or_else(|| StageError::new(format!("`{}` has too few bytes", weight.name)))
        });
        let mut opened = engine.open(&Cores::allowed().first())?;
        let mut pieces = Vec::with_capacity(spec.pieces.len());
        for piece in &spec.pieces {
            if piece.device != device {
                pieces.push(None);
                continue;
            }
            // The engine is fed weights as it is fed values: what has come by the time the piece runs.
            let names = piece.weights.iter().map(|used| spec.weights[used.weight].name.clone());
            let inputs = piece.model.inputs.iter().cloned().chain(names).collect();
            let weights_are = WeightsAre::Constants;
            let model = StageModel { inputs, weights: Vec::new(), weights_are, ..piece.model.clone() };
            pieces.push(Some(LoadedPiece {
                stage: Mutex::new(opened.load(&model)?),
                values: piece.values.clone(),
                weights: piece
                    .weights
                    .iter()
                    .map(|used| (used.weight, used.at == WeightAt::InPlace))
                    .collect(),
                outputs: piece.outputs.clone(),
            }));
        }
        let memory = Arc::new(Memory {
            weights: spec.weights.iter().map(|_| Mutex::new(None)).collect(),
            values: spec.values.iter().map(|_| Mutex::new(None)).collect(),
            pieces,
            host: host.collect::<Result<_, _>>()?,
            fault: Mutex::new(None),
            began: Mutex::new(Instant::now()),
        });
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for _ in [Queue::Copy, Queue::Compute, Queue::Out] {
            let (sender, queue) = channel::<Work>();
            let memory = memory.clone();
            threads.push(std::thread::spawn(move || {
                while let Ok(work) = queue.recv() {
                    if let Err(error) = work(&memory) {
                        locked(&memory.fault).get_or_insert(error);
                    }
                }
            }));
            queues.push(sender);
        }
        Ok(SimulatedCard { memory, queues, threads, spec: spec.clone(), speed })
    }

    fn put(
        &self,
        queue: Queue,
        work: impl FnOnce(&Memory) -> Result<(), StageError> + Send + 'static,
    ) -> Result<(), StageError> {
        let queue = &self.queues[queue as usize];
        queue.send(Box::new(work)).map_err(|_| StageError::new("its queue has gone"))
    }

    fn peer<'a>(&self, other: &'a dyn Card) -> Result<&'a SimulatedCard, StageError> {
        other
            .as_any()
            .downcast_ref()
            .ok_or_else(|| StageError::new("a simulated card has simulated peers only"))
    }
}

/// Weights that land in the memory of a device.
fn landing(spec: &ColdSpec, device: usize) -> impl Iterator<Item = usize> {
    let mut weights: Vec<usize> = Vec::new();
    for piece in &spec.pieces {
        for used in &piece.weights {
            if let WeightAt::Loaded { via } = used.at
                && (piece.device == device || via == device)
            {
                weights.push(used.weight);
            }
        }
    }
    weights.sort_unstable();
    weights.dedup();
    weights.into_iter()
}

fn reached(mark: &Mark) -> Result<Arc<Reached>, StageError> {
    mark.0.clone().downcast().map_err(|_| StageError::new("a simulated card waits for simulated cards only"))
}

impl Card for SimulatedCard {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn forget(&self) -> Result<(), StageError> {
        self.finish()?;
        self.memory.weights.iter().for_each(|weight| *locked(weight) = None);
        self.memory.values.iter().for_each(|value| *locked(value) = None);
        Ok(())
    }

    fn begin(&self) -> Result<(), StageError> {
        *locked(&self.memory.began) = Instant::now();
        Ok(())
    }

    fn load(&self, weight: usize) -> Result<(), StageError> {
        let bytes = self.spec.weights[weight].data.len() - self.spec.resident_bytes(weight);
        let time = Duration::from_secs_f64(bytes as f64 / self.speed.bus);
        self.put(Queue::Copy, move |memory| {
            std::thread::sleep(time);
            *locked(&memory.weights[weight]) = Some(memory.host[weight].clone());
            Ok(())
        })
    }

    fn forward(&self, weight: usize, from: &dyn Card) -> Result<(), StageError> {
        let (peer, name) = (self.peer(from)?.memory.clone(), self.spec.weights[weight].name.clone());
        self.put(Queue::Compute, move |memory| {
            let there = locked(&peer.weights[weight]).clone();
            *locked(&memory.weights[weight]) = Some(there.ok_or_else(|| missing("weight", &name))?);
            Ok(())
        })
    }

    fn bring(&self, value: usize, from: &HostTensor) -> Result<(), StageError> {
        let from = from.clone();
        self.put(Queue::Compute, move |memory| {
            *locked(&memory.values[value]) = Some(from);
            Ok(())
        })
    }

    fn bring_from(&self, value: usize, from: &dyn Card) -> Result<(), StageError> {
        let (peer, name) = (self.peer(from)?.memory.clone(), self.spec.values[value].name.clone());
        self.put(Queue::Compute, move |memory| {
            let there = locked(&peer.values[value]).clone();
            *locked(&memory.values[value]) = Some(there.ok_or_else(|| missing("value", &name))?);
            Ok(())
        })
    }

    fn run(&self, piece: usize) -> Result<(), StageError> {
        let spec = self.spec.clone();
        self.put(Queue::Compute, move |memory| {
            let Some(loaded) = &memory.pieces[piece] else { return Err(StageError::new("it is not loaded")) };
            let mut inputs = Vec::new();
            for &value in &loaded.values {
                let here = locked(&memory.values[value]).clone();
                inputs.push(Tensor::new(here.ok_or_else(|| missing("value", &spec.values[value].name))?));
            }
            for &(weight, in_place) in &loaded.weights {
                let here = locked(&memory.weights[weight]).clone();
                let here = if in_place { Some(memory.host[weight].clone()) } else { here };
                inputs.push(Tensor::new(here.ok_or_else(|| missing("weight", &spec.weights[weight].name))?));
            }
            let made = locked(&loaded.stage).run(&inputs)?;
            for (&value, tensor) in loaded.outputs.iter().zip(made) {
                *locked(&memory.values[value]) = Some(tensor.stored().to_host()?);
            }
            Ok(())
        })
    }

    fn fetch(&self, value: usize, made: &Mark) -> Result<HostTensor, StageError> {
        reached(made)?.wait();
        let name = &self.spec.values[value].name;
        let fault = locked(&self.memory.fault).clone();
        locked(&self.memory.values[value])
            .clone()
            .ok_or_else(|| fault.unwrap_or_else(|| missing("value", name)))
    }

    fn mark(&self, queue: Queue) -> Result<Mark, StageError> {
        let mark = Arc::new(Reached::default());
        let tell = mark.clone();
        self.put(queue, move |_| {
            tell.tell();
            Ok(())
        })?;
        Ok(Mark(mark))
    }

    fn wait(&self, queue: Queue, mark: &Mark) -> Result<(), StageError> {
        let mark = reached(mark)?;
        self.put(queue, move |_| {
            mark.wait();
            Ok(())
        })
    }

    fn finish(&self) -> Result<(), StageError> {
        for queue in [Queue::Copy, Queue::Compute, Queue::Out] {
            reached(&self.mark(queue)?)?.wait();
        }
        locked(&self.memory.fault).take().map_or(Ok(()), Err)
    }

    fn reached_us(&self, mark: &Mark) -> Result<f64, StageError> {
        let at = reached(mark)?.wait();
        Ok(at.duration_since(*locked(&self.memory.began)).as_secs_f64() * 1e6)
    }
}

impl Drop for SimulatedCard {
    /// What is in the queues is done first.
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
