//! What the threads of a running program share: items under way, queues, and what was measured.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::report::{Failure, Measured};
use crate::backend::Kernel;
use crate::program::{Program, Readers, Slot};
use crate::stage_error::StageError;
use crate::tensor::Tensor;

/// To a device.
pub(super) enum Message {
    /// The stage has its inputs since a moment; `due` is that moment undisturbed.
    Ready {
        item: u64,
        stage: usize,
        at: Instant,
        due: Duration,
    },
    Kernels {
        stage: usize,
        reply: Sender<Result<Vec<Vec<Kernel>>, StageError>>,
    },
    Stop,
}

/// To a link.
pub(super) enum Cargo {
    Value { item: u64, stage: usize, output: usize, value: Tensor, due: Duration },
    Stop,
}

/// To whoever waits for the run.
pub(super) enum Event {
    Loaded,
    /// An item ended, and when: by the wall's clock, and undisturbed.
    Done(u64, Instant, Duration),
    Failed(Failure),
}

/// One of the items under way. Another takes its place when it has left.
pub(super) struct ItemState {
    /// For each stage, how many of its inputs are missing.
    pub(super) waiting: Vec<AtomicU32>,
    /// For each stage, its inputs so far.
    pub(super) feeds: Vec<Mutex<Vec<Option<Tensor>>>>,
    pub(super) results: Mutex<Vec<Option<Tensor>>>,
    /// How many stages have not ended.
    pub(super) left: AtomicU32,
    /// For each stage, when the last of its inputs so far came, undisturbed, in nanoseconds.
    pub(super) due: Vec<AtomicU64>,
    /// When the last of its stages so far ended, undisturbed, in nanoseconds.
    pub(super) end: AtomicU64,
}

/// What every thread holds.
pub(super) struct Shared {
    pub(super) program: Program,
    pub(super) window: u64,
    pub(super) items: Vec<ItemState>,
    pub(super) devices: Vec<Sender<Message>>,
    pub(super) links: Vec<Sender<Cargo>>,
    pub(super) events: Sender<Event>,
    pub(super) stopping: AtomicBool,
    /// Whether items are under way.
    pub(super) active: AtomicBool,
    pub(super) measured: Vec<Mutex<Measured>>,
    pub(super) epoch: Instant,
    /// Items below this number leave spans.
    pub(super) traced: AtomicU32,
}

/// A lock that outlives a thread that died with it: the run has failed by then.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a thread that died had to say.
pub(super) fn death(panic: &(dyn std::any::Any + Send)) -> StageError {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    StageError::new(format!("its thread died: {said}"))
}

impl Shared {
    pub(super) fn state(&self, item: u64) -> &ItemState {
        &self.items[(item % self.window) as usize]
    }

    pub(super) fn since_start(&self, at: Instant) -> f64 {
        at.duration_since(self.epoch).as_secs_f64() * 1e6
    }

    pub(super) fn is_traced(&self, item: u64) -> bool {
        item < u64::from(self.traced.load(Ordering::Relaxed))
    }

    /// Gives a value to an input of a stage, and puts the stage into its queue if that was the last it waited for.
    pub(super) fn feed(&self, item: u64, slot: Slot, value: Tensor, due: Duration) {
        let state = self.state(item);
        state.due[slot.stage].fetch_max(nanoseconds(due), Ordering::Relaxed);
        lock(&state.feeds[slot.stage])[slot.input] = Some(value);
        if state.waiting[slot.stage].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ready(item, slot.stage);
        }
    }

    fn ready(&self, item: u64, stage: usize) {
        let device = self.program.spec.stages[stage].device;
        let due = Duration::from_nanos(self.state(item).due[stage].load(Ordering::Relaxed));
        // A device that has gone is a run that has failed, which is told elsewhere.
        let _ = self.devices[device].send(Message::Ready { item, stage, at: Instant::now(), due });
    }

    pub(super) fn hand_on(
        &self,
        item: u64,
        made_by: Option<(usize, usize)>,
        readers: &Readers,
        value: &Tensor,
        due: Duration,
    ) {
        for &place in &readers.results {
            lock(&self.state(item).results)[place] = Some(value.clone());
        }
        if let Some((stage, output)) = made_by {
            for (link, _) in &readers.far {
                let _ =
                    self.links[*link].send(Cargo::Value { item, stage, output, value: value.clone(), due });
            }
        }
        for &slot in &readers.near {
            self.feed(item, slot, value.clone(), due);
        }
    }

    /// Puts an item under way, for which there was room since `due`, undisturbed.
    pub(super) fn admit(&self, item: u64, inputs: &[Tensor], due: Duration) {
        let spec = &self.program.spec;
        let state = self.state(item);
        state.left.store(spec.stages.len() as u32, Ordering::Relaxed);
        for (stage, spec) in spec.stages.iter().enumerate() {
            state.waiting[stage].store(spec.model.inputs.len() as u32, Ordering::Relaxed);
            state.due[stage].store(nanoseconds(due), Ordering::Relaxed);
        }
        state.end.store(nanoseconds(due), Ordering::Relaxed);
        for (readers, value) in self.program.of_input.iter().zip(inputs) {
            self.hand_on(item, None, readers, value, due);
        }
        for (stage, _) in spec.stages.iter().enumerate().filter(|(_, stage)| stage.model.inputs.is_empty()) {
            self.ready(item, stage);
        }
        if spec.stages.is_empty() {
            let _ = self.events.send(Event::Done(item, Instant::now(), due));
        }
    }

    /// One of an item's stages ended at `end`, undisturbed.
    pub(super) fn stage_ended(&self, item: u64, end: Duration) {
        let state = self.state(item);
        state.end.fetch_max(nanoseconds(end), Ordering::Relaxed);
        if state.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let last = Duration::from_nanos(state.end.load(Ordering::Relaxed));
            let _ = self.events.send(Event::Done(item, Instant::now(), last));
        }
    }

    pub(super) fn fail(&self, stage: &str, device: &str, item: Option<u64>, error: StageError) {
        self.stopping.store(true, Ordering::Release);
        let (stage, device) = (stage.to_owned(), device.to_owned());
        let _ = self.events.send(Event::Failed(Failure {
            stage,
            device,
            op: error.op,
            item,
            cause: error.cause,
        }));
    }
}
