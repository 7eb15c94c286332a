//! The thread of one device: takes ready stages from its queue and runs them.

use std::collections::BinaryHeap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::clock::{Awaited, WorkClock};
use super::report::{Happened, Span, remember};
use super::shared::{Event, Message, Shared, death, lock};
use crate::backend::{Backend, Stage, StageError};
use crate::tensor::Tensor;

/// A device that has nothing to do while items are under way looks for work so long before it sleeps: waking up costs
/// more than a hand-over may. Not where another device uses the same core, which would lose the time.
const SPIN: Duration = Duration::from_millis(50);

/// A ready stage: its item, itself, since when, and since when undisturbed.
type Ready = (u64, usize, Instant, Duration);

/// The thread of one device.
pub(super) struct Worker<'a> {
    shared: &'a Shared,
    device: usize,
    queue: &'a Receiver<Message>,
    /// Ready stages: the oldest item first, then the order of the program.
    ready: BinaryHeap<std::cmp::Reverse<Ready>>,
    /// The stages of this device, in the order of the program.
    own: Vec<usize>,
    /// Where the order must be kept: which of its stages comes next, of which item.
    turn: (u64, usize),
    /// Whether no other device uses its cores.
    alone: bool,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared, device: usize, queue: &'a Receiver<Message>) -> Worker<'a> {
        let stages = shared.program.spec.stages.iter().enumerate();
        let own = stages.filter(|(_, stage)| stage.device == device).map(|(i, _)| i).collect();
        let devices = shared.program.spec.devices.iter().enumerate();
        let cores = &shared.program.spec.devices[device].cores;
        let alone = devices.filter(|(i, _)| *i != device).all(|(_, other)| !other.cores.overlap(cores));
        Worker { shared, device, queue, ready: BinaryHeap::new(), own, turn: (0, 0), alone }
    }

    pub(super) fn serve(mut self, backend: &dyn Backend) {
        let spec = &self.shared.program.spec;
        let device = &spec.devices[self.device];
        let mut stages: Vec<Option<Box<dyn Stage>>> = spec.stages.iter().map(|_| None).collect();
        let opened = match device.cores.pin_this_thread() {
            Ok(()) => backend.open(&device.cores),
            Err(cause) => Err(StageError::new(format!("cannot use the cores {}: {cause}", device.cores))),
        };
        let mut opened = match opened {
            Ok(opened) => opened,
            Err(error) => return self.shared.fail(&device.name, &device.name, None, error),
        };
        for &stage in &self.own {
            let model = &spec.stages[stage].model;
            match opened.load(model) {
                Ok(loaded) => stages[stage] = Some(loaded),
                Err(error) => return self.shared.fail(&model.name, &device.name, None, error),
            }
        }
        // Devices that share a core take it from each other, which is no disturbance.
        let by_thread = self.alone && opened.works_in_its_thread();
        let mut clock = WorkClock::new(by_thread, self.shared.epoch);
        let _ = self.shared.events.send(Event::Loaded);
        loop {
            let mut looked = None;
            let next = loop {
                if !self.take_messages(&mut stages) {
                    return;
                }
                if let Some(next) = self.next() {
                    break next;
                }
                let Some((message, used)) = self.wait(&clock) else { return };
                looked = Some(used);
                if !self.take(message, &mut stages) {
                    return;
                }
            };
            let Some(loaded) = &mut stages[next.1] else { continue };
            if !self.run(next, &mut **loaded, looked, &mut clock) {
                return;
            }
        }
    }

    /// Whether to go on.
    fn take_messages(&mut self, stages: &mut [Option<Box<dyn Stage>>]) -> bool {
        loop {
            match self.queue.try_recv() {
                Ok(message) => {
                    if !self.take(message, stages) {
                        return false;
                    }
                }
                Err(TryRecvError::Empty) => return !self.shared.stopping.load(Ordering::Acquire),
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, message: Message, stages: &mut [Option<Box<dyn Stage>>]) -> bool {
        match message {
            Message::Ready { item, stage, at, due } => {
                self.ready.push(std::cmp::Reverse((item, stage, at, due)));
            }
            Message::Kernels { stage, reply } => {
                let none = || Err(StageError::new("it is on another device"));
                let _ = reply.send(stages[stage].as_mut().map_or_else(none, |stage| stage.kernels()));
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
    fn wait(&self, clock: &WorkClock) -> Option<(Message, Duration)> {
        let start = Instant::now();
        let mut looked = clock.used();
        while self.alone && self.shared.active.load(Ordering::Relaxed) && start.elapsed() < SPIN {
            let now = clock.used();
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
    fn run(
        &self,
        (item, stage, at, due): Ready,
        loaded: &mut dyn Stage,
        looked: Option<Duration>,
        clock: &mut WorkClock,
    ) -> bool {
        let shared = self.shared;
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
            let fault = || StageError::new(format!("{} outputs came, {wanted} were expected", outputs.len()));
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
        remember(&mut measured.stages[stage], took.own.as_secs_f64() * 1e6);
        if let Some(handover) = work.handover {
            remember(&mut measured.handover, handover.as_secs_f64() * 1e6);
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
