//! The thread of one device: takes ready stages from its queue and runs them.

use std::collections::BinaryHeap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::report::{Happened, Span, remember};
use super::shared::{Event, Message, Shared, death, lock};
use crate::backend::{Backend, Stage, StageError};
use crate::tensor::Tensor;

/// A device that has nothing to do while items are under way looks for work so long before it sleeps: waking up costs
/// more than a hand-over may. Not where another device uses the same core, which would lose the time.
const SPIN: Duration = Duration::from_millis(50);

/// The thread of one device.
pub(super) struct Worker<'a> {
    shared: &'a Shared,
    device: usize,
    queue: &'a Receiver<Message>,
    /// Ready stages: the oldest item first, then the order of the program.
    ready: BinaryHeap<std::cmp::Reverse<(u64, usize, Instant)>>,
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
        let _ = self.shared.events.send(Event::Loaded);
        loop {
            let mut waited = false;
            let next = loop {
                if !self.take_messages(&mut stages) {
                    return;
                }
                match self.next() {
                    Some(next) => break next,
                    None => waited = true,
                }
                let Some(message) = self.wait() else { return };
                if !self.take(message, &mut stages) {
                    return;
                }
            };
            let (item, stage, at) = next;
            let Some(loaded) = &mut stages[stage] else { continue };
            if !self.run(item, stage, &mut **loaded, waited.then_some(at)) {
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
            Message::Ready { item, stage, at } => self.ready.push(std::cmp::Reverse((item, stage, at))),
            Message::Kernels { stage, reply } => {
                let none = || Err(StageError::new("it is on another device"));
                let _ = reply.send(stages[stage].as_mut().map_or_else(none, |stage| stage.kernels()));
            }
            Message::Stop => return false,
        }
        true
    }

    /// What to run now, if anything.
    fn next(&mut self) -> Option<(u64, usize, Instant)> {
        let std::cmp::Reverse((item, stage, at)) = *self.ready.peek()?;
        if self.shared.program.spec.in_order {
            if (item, stage) != (self.turn.0, self.own[self.turn.1]) {
                return None;
            }
            self.turn.1 += 1;
            if self.turn.1 == self.own.len() {
                self.turn = (item + 1, 0);
            }
        }
        self.ready.pop();
        Some((item, stage, at))
    }

    /// Looks for a message for a moment, then sleeps until there is one.
    fn wait(&self) -> Option<Message> {
        let start = Instant::now();
        while self.alone && self.shared.active.load(Ordering::Relaxed) && start.elapsed() < SPIN {
            match self.queue.try_recv() {
                Ok(message) => return Some(message),
                // Whoever else wants this core gets it; alone, this costs next to nothing.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        self.queue.recv().ok()
    }

    /// Whether it went well. `idle_since` is when the stage got ready, if the device was waiting for it.
    fn run(&self, item: u64, stage: usize, loaded: &mut dyn Stage, idle_since: Option<Instant>) -> bool {
        let shared = self.shared;
        let spec = &shared.program.spec;
        let state = shared.state(item);
        let inputs: Vec<Tensor> = lock(&state.feeds[stage]).iter_mut().filter_map(Option::take).collect();
        let start = Instant::now();
        let outputs = std::panic::catch_unwind(AssertUnwindSafe(|| loaded.run(&inputs)));
        let end = Instant::now();
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
        let took = end - start;
        measured.busy += took;
        remember(&mut measured.stages[stage], took.as_secs_f64() * 1e6);
        if let Some(at) = idle_since {
            remember(&mut measured.handover, start.duration_since(at).as_secs_f64() * 1e6);
        }
        if shared.is_traced(item) {
            let (start_us, end_us) = (shared.since_start(start), shared.since_start(end));
            measured.spans.push(Span { what: Happened::Stage(stage), item, start_us, end_us });
        }
        drop(measured);
        for (output, (readers, value)) in shared.program.of_output[stage].iter().zip(&outputs).enumerate() {
            shared.hand_on(item, Some((stage, output)), readers, value);
        }
        drop(outputs);
        if state.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = shared.events.send(Event::Done(item, Instant::now()));
        }
        true
    }
}
