//! One device: takes ready stages from its queue and runs them, on a thread of its own or on the caller's.

use std::collections::BinaryHeap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::clock::{Awaited, WorkClock};
use super::report::{Happened, Span};
use super::samples::{StageRun, microseconds};
use super::shared::{Event, Message, Shared, death, lock};
use crate::backend::{Backend, Stage};
use crate::program::DeviceSpec;
use crate::stage_error::StageError;
use crate::tensor::Tensor;

/// A device that has nothing to do while items are under way looks for work so long before it sleeps: waking up costs
/// more than a hand-over may. Not where another device uses the same core, which would lose the time.
const SPIN: Duration = Duration::from_millis(50);

/// A ready stage: its item, itself, since when, and since when undisturbed.
type Ready = (u64, usize, Instant, Duration);

/// One device, and its stages.
pub(super) struct Worker {
    shared: Arc<Shared>,
    device: usize,
    queue: Receiver<Message>,
    /// Ready stages: the oldest item first, then the order of the program.
    ready: BinaryHeap<std::cmp::Reverse<Ready>>,
    /// The stages of this device, in the order of the program.
    own: Vec<usize>,
    /// Where the order must be kept: which of its stages comes next, of which item.
    turn: (u64, usize),
    /// Whether no other device uses its cores.
    alone: bool,
    /// Those of the program that are its own, loaded.
    stages: Vec<Option<Box<dyn Stage>>>,
    clock: WorkClock,
}

impl Worker {
    /// Loads the stages of a device on this thread, which is pinned to the first of its cores. A device that cannot be used
    /// is a run that has failed.
    pub(super) fn load(
        shared: Arc<Shared>,
        device: usize,
        queue: Receiver<Message>,
        backend: &dyn Backend,
    ) -> Option<Worker> {
        let spec = &shared.program.spec;
        let DeviceSpec { name, cores } = &spec.devices[device];
        let others = || spec.devices.iter().enumerate().filter(|(i, _)| *i != device);
        let alone = others().all(|(_, other)| !other.cores.overlap(cores));
        let own: Vec<usize> = (0..spec.stages.len()).filter(|&i| spec.stages[i].device == device).collect();
        let mut stages: Vec<Option<Box<dyn Stage>>> = spec.stages.iter().map(|_| None).collect();
        let unusable = |cause| StageError::new(format!("cannot use the cores {cores}: {cause}"));
        let opened = cores.first().pin_this_thread().map_err(unusable).and_then(|()| backend.open(cores));
        let mut opened = opened.map_err(|error| shared.fail(name, name, None, error)).ok()?;
        for &stage in &own {
            let model = &spec.stages[stage].model;
            let loaded = opened.load(model).map_err(|error| shared.fail(&model.name, name, None, error));
            stages[stage] = Some(loaded.ok()?);
        }
        // Devices that share a core take it from each other, which is no disturbance.
        let clock = WorkClock::new(alone && opened.works_in_its_thread(), shared.epoch);
        let _ = shared.events.send(Event::Loaded);
        Some(Worker {
            device,
            queue,
            ready: BinaryHeap::new(),
            own,
            turn: (0, 0),
            alone,
            stages,
            clock,
            shared,
        })
    }

    /// Runs stages as they get ready, until it is told to stop.
    pub(super) fn serve(mut self) {
        loop {
            let mut looked = None;
            let next = loop {
                if !self.take_messages() {
                    return;
                }
                if let Some(next) = self.next() {
                    break next;
                }
                let Some((message, used)) = self.wait() else { return };
                looked = Some(used);
                if !self.take(message) {
                    return;
                }
            };
            if !self.run(next, looked) {
                return;
            }
        }
    }

    /// Runs stages until none is ready. What the thread did before has nothing to do with them.
    pub(super) fn catch_up(&mut self) {
        let mut looked = Some(self.clock.used());
        while self.take_messages() {
            let Some(next) = self.next() else { return };
            if !self.run(next, looked.take()) {
                return;
            }
        }
    }

    /// Whether to go on.
    pub(super) fn take_messages(&mut self) -> bool {
        loop {
            match self.queue.try_recv() {
                Ok(message) => {
                    if !self.take(message) {
                        return false;
                    }
                }
                Err(TryRecvError::Empty) => return !self.shared.stopping.load(Ordering::Acquire),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Ready { item, stage, at, due } => {
                self.ready.push(std::cmp::Reverse((item, stage, at, due)));
            }
            Message::Kernels { stage, reply } => {
                let none = || Err(StageError::new("it is on another device"));
                let _ = reply.send(self.stages[stage].as_mut().map_or_else(none, |stage| stage.kernels()));
            }
            Message::Stop => return false,
        }
        true
    }

    /// What to run now, if anything.
    fn next(&mut self) -> Option<Ready> {
        let std::cmp::Reverse((item, stage, ..)) = *self.ready.peek()?;
        if self.shared.program.spec.in_order {
            if (item, stage) != (self.turn.0, self.own[self.turn.1]) {
                return None;
            }
            self.turn.1 += 1;
            if self.turn.1 == self.own.len() {
                self.turn = (item + 1, 0);
            }
        }
        self.ready.pop().map(|std::cmp::Reverse(ready)| ready)
    }

    /// Looks for a message for a moment, then sleeps until there is one. Also returns what the thread had used when it last
    /// looked in vain.
    fn wait(&self) -> Option<(Message, Duration)> {
        let start = Instant::now();
        let mut looked = self.clock.used();
        while self.alone && self.shared.active.load(Ordering::Relaxed) && start.elapsed() < SPIN {
            let now = self.clock.used();
            match self.queue.try_recv() {
                Ok(message) => return Some((message, looked)),
                // Whoever else wants this core gets it; alone, this costs next to nothing.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
            looked = now;
        }
        self.queue.recv().ok().map(|message| (message, looked))
    }

    /// Whether it went well. `looked` is of a device that had nothing to do until the stage was ready.
    fn run(&mut self, (item, stage, at, due): Ready, looked: Option<Duration>) -> bool {
        let Worker { shared, stages, clock, .. } = self;
        let Some(loaded) = &mut stages[stage] else { return true };
        let spec = &shared.program.spec;
        let inputs: Vec<Tensor> =
            lock(&shared.state(item).feeds[stage]).iter_mut().filter_map(Option::take).collect();
        let work = clock.begin(due, looked.map(|looked| Awaited { since: at, looked }));
        let outputs = std::panic::catch_unwind(AssertUnwindSafe(|| loaded.run(&inputs)));
        let took = clock.end(work);
        // Before outputs are handed on: whoever reads them last frees them, and inputs need not wait for that.
        drop(inputs);
        let outputs = outputs.unwrap_or_else(|panic| Err(death(&*panic)));
        let outputs = outputs.and_then(|outputs| {
            let wanted = spec.stages[stage].model.outputs.len();
            let fault = || StageError::new(format!("outputs: {} came, {wanted} expected", outputs.len()));
            if outputs.len() == wanted { Ok(outputs) } else { Err(fault()) }
        });
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => {
                let device = &spec.devices[self.device].name;
                shared.fail(&spec.stages[stage].model.name, device, Some(item), error);
                return false;
            }
        };
        let mut measured = lock(&shared.measured[self.device]);
        measured.busy += took.own;
        measured.taken_away += took.wall - took.own;
        measured.stages[stage].push(microseconds(took.own));
        let start = [shared.since_start(work.began), microseconds(took.end - took.own)];
        let end = [shared.since_start(took.ended), microseconds(took.end)];
        measured.runs.push(StageRun { stage, item, start, end });
        if let Some(handover) = work.handover {
            measured.handover.push(microseconds(handover));
        }
        if shared.is_traced(item) {
            let (start_us, end_us) = (shared.since_start(work.began), shared.since_start(took.ended));
            measured.spans.push(Span { what: Happened::Stage(stage), item, start_us, end_us });
        }
        drop(measured);
        for (output, (readers, value)) in shared.program.of_output[stage].iter().zip(&outputs).enumerate() {
            shared.hand_on(item, Some((stage, output)), readers, value, took.end);
        }
        drop(outputs);
        shared.stage_ended(item, took.end);
        true
    }
}
