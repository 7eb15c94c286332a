//! Runs a program: a queue of ready stages for each device, a queue of values for each link.
//!
//! This is SortingHat's Algorithm 1 (a stage is put into its device's queue by whoever fulfils its last dependence),
//! generalised: to links, to many items under way at once, and to stages rather than single ops. Every dependence is an
//! atomic counter; nothing is locked but what belongs to one stage of one item, so no two devices wait for each other
//! except for data. At most `window` items are under way: an item enters when the oldest has left, which is the
//! back-pressure. Results are handed out in the order of the items.
//!
//! A stage that fails, and a thread that dies, end the run with [`Failure`]; whatever else is under way is dropped.

use std::collections::{BTreeSet, BinaryHeap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::{Backend, Kernel, Stage, StageError};
use crate::measure::Timings;
use crate::program::{Program, Readers, Slot};
use crate::tensor::Tensor;

/// How often a waiting run looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// A device that has nothing to do while items are under way looks for work so long before it sleeps: waking up costs
/// more than a hand-over may. Not where another device uses the same core, which would lose the time.
const SPIN: Duration = Duration::from_millis(50);
/// The most timings that are kept of one stage; the oldest go first.
const MOST_TIMINGS: usize = 1 << 14;

/// What a run ended with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stage `{stage}` on `{device}` failed{}{}: {cause}", at_op(.op), at_item(.item))]
pub struct Failure {
    /// The stage or link.
    pub stage: String,
    /// Its device.
    pub device: String,
    /// The node of the model, where the backend tells.
    pub op: Option<String>,
    /// The item; none while loading.
    pub item: Option<u64>,
    /// What went wrong.
    pub cause: String,
}

fn at_op(op: &Option<String>) -> String {
    op.as_ref().map_or(String::new(), |op| format!(" at `{op}`"))
}

fn at_item(item: &Option<u64>) -> String {
    item.map_or(" while loading".to_owned(), |item| format!(" on item {item}"))
}

/// Something that happened: a stage of an item, or a value on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What.
    pub what: Happened,
    /// The item.
    pub item: u64,
    /// Microseconds since the program was started.
    pub start_us: f64,
    /// Microseconds since the program was started.
    pub end_us: f64,
}

/// What a [`Span`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A stage ran.
    Stage(usize),
    /// An output of a stage went over a link.
    Sent {
        /// The stage that made it.
        stage: usize,
        /// Which of its outputs.
        output: usize,
        /// The link.
        link: usize,
    },
}

/// What was measured of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many items came out.
    pub items: u64,
    /// Whether it was cancelled, so that some did not.
    pub cancelled: bool,
    /// From the first item's start to the last one's end.
    pub wall: Duration,
    /// From one item's end to the next one's, on average; none with fewer than two items.
    pub period: Option<Duration>,
    /// For each item that is remembered, the time from its admission to its end.
    pub latency: Timings,
    /// For each stage, how long it ran.
    pub stages: Vec<Timings>,
    /// For each device, how long it was busy.
    pub busy: Vec<Duration>,
    /// From the moment a stage was ready to its start, where its device had nothing else to do.
    pub handover: Timings,
    /// Spans of the items that were asked for.
    pub spans: Vec<Span>,
}

/// Where the sink of a run may say that it cannot go on.
pub type Sink<'a> = dyn FnMut(u64, Vec<Tensor>) -> Result<(), String> + 'a;
/// Gives the inputs of each item, by its number from 0; none ends the run.
pub type Source<'a> = dyn FnMut(u64) -> Option<Vec<Tensor>> + 'a;

enum Message {
    Ready { item: u64, stage: usize, at: Instant },
    Kernels { stage: usize, reply: Sender<Result<Vec<Vec<Kernel>>, StageError>> },
    Stop,
}

enum Cargo {
    Value { item: u64, stage: usize, output: usize, value: Tensor },
    Stop,
}

enum Event {
    Loaded,
    Done(u64, Instant),
    Failed(Failure),
}

/// One of the items under way. Another takes its place when it has left.
struct ItemState {
    /// For each stage, how many of its inputs are missing.
    waiting: Vec<AtomicU32>,
    /// For each stage, its inputs so far.
    feeds: Vec<Mutex<Vec<Option<Tensor>>>>,
    results: Mutex<Vec<Option<Tensor>>>,
    /// How many stages have not ended.
    left: AtomicU32,
}

/// What one device measured. Only its own thread writes while a run is on.
#[derive(Default)]
struct Measured {
    /// For each stage of the program, recent timings and where the next goes.
    stages: Vec<(Vec<f64>, usize)>,
    busy: Duration,
    handover: (Vec<f64>, usize),
    spans: Vec<Span>,
}

struct Shared {
    program: Program,
    window: u64,
    items: Vec<ItemState>,
    devices: Vec<Sender<Message>>,
    links: Vec<Sender<Cargo>>,
    events: Sender<Event>,
    stopping: AtomicBool,
    /// Whether items are under way.
    active: AtomicBool,
    measured: Vec<Mutex<Measured>>,
    epoch: Instant,
    /// Items below this number leave spans.
    traced: AtomicU32,
}

/// A lock that outlives a thread that died with it: the run has failed by then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread that died had to say.
fn death(panic: &(dyn std::any::Any + Send)) -> StageError {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    StageError::new(format!("its thread died: {said}"))
}

fn remember(list: &mut (Vec<f64>, usize), value: f64) {
    let (values, next) = list;
    if values.len() < MOST_TIMINGS {
        values.push(value);
    } else {
        values[*next] = value;
    }
    *next = (*next + 1) % MOST_TIMINGS;
}

impl Shared {
    fn state(&self, item: u64) -> &ItemState {
        &self.items[(item % self.window) as usize]
    }

    fn since_start(&self, at: Instant) -> f64 {
        at.duration_since(self.epoch).as_secs_f64() * 1e6
    }

    fn is_traced(&self, item: u64) -> bool {
        item < u64::from(self.traced.load(Ordering::Relaxed))
    }

    /// Gives a value to an input of a stage, and puts the stage into its queue if that was the last it waited for.
    fn feed(&self, item: u64, slot: Slot, value: Tensor) {
        let state = self.state(item);
        lock(&state.feeds[slot.stage])[slot.input] = Some(value);
        if state.waiting[slot.stage].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ready(item, slot.stage);
        }
    }

    fn ready(&self, item: u64, stage: usize) {
        let device = self.program.spec.stages[stage].device;
        // A device that has gone is a run that has failed, which is told elsewhere.
        let _ = self.devices[device].send(Message::Ready { item, stage, at: Instant::now() });
    }

    fn hand_on(&self, item: u64, made_by: Option<(usize, usize)>, readers: &Readers, value: &Tensor) {
        for &place in &readers.results {
            lock(&self.state(item).results)[place] = Some(value.clone());
        }
        if let Some((stage, output)) = made_by {
            for (link, _) in &readers.far {
                let _ = self.links[*link].send(Cargo::Value { item, stage, output, value: value.clone() });
            }
        }
        for &slot in &readers.near {
            self.feed(item, slot, value.clone());
        }
    }

    fn admit(&self, item: u64, inputs: &[Tensor]) {
        let spec = &self.program.spec;
        let state = self.state(item);
        state.left.store(spec.stages.len() as u32, Ordering::Relaxed);
        for (stage, spec) in spec.stages.iter().enumerate() {
            state.waiting[stage].store(spec.model.inputs.len() as u32, Ordering::Relaxed);
        }
        for (readers, value) in self.program.of_input.iter().zip(inputs) {
            self.hand_on(item, None, readers, value);
        }
        for (stage, _) in spec.stages.iter().enumerate().filter(|(_, stage)| stage.model.inputs.is_empty()) {
            self.ready(item, stage);
        }
        if spec.stages.is_empty() {
            let _ = self.events.send(Event::Done(item, Instant::now()));
        }
    }

    fn fail(&self, stage: &str, device: &str, item: Option<u64>, error: StageError) {
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

/// A program whose devices have loaded their stages and wait for items.
pub struct Running {
    shared: Arc<Shared>,
    events: Receiver<Event>,
    threads: Vec<JoinHandle<()>>,
    next_item: u64,
    failed: Option<Failure>,
}

impl Running {
    /// Starts a thread for each device and link, and loads every stage. `backends` has one entry for each device.
    ///
    /// At most `window` items will be under way at once.
    pub fn start(program: Program, backends: &[Arc<dyn Backend>], window: usize) -> Result<Running, Failure> {
        let (devices, device_queues): (Vec<_>, Vec<_>) =
            program.spec.devices.iter().map(|_| channel()).unzip();
        let (links, link_queues): (Vec<_>, Vec<_>) = program.spec.links.iter().map(|_| channel()).unzip();
        let (sender, events) = channel();
        let window = window.max(1);
        let stages = &program.spec.stages;
        let item = |_| ItemState {
            waiting: stages.iter().map(|_| AtomicU32::new(0)).collect(),
            feeds: stages.iter().map(|stage| Mutex::new(vec![None; stage.model.inputs.len()])).collect(),
            results: Mutex::new(vec![None; program.spec.results.len()]),
            left: AtomicU32::new(0),
        };
        let measured = || Measured { stages: vec![Default::default(); stages.len()], ..Measured::default() };
        let lanes = devices.len() + links.len();
        let shared = Arc::new(Shared {
            window: window as u64,
            items: (0..window).map(item).collect(),
            measured: (0..lanes).map(|_| Mutex::new(measured())).collect(),
            devices,
            links,
            events: sender,
            stopping: AtomicBool::new(false),
            active: AtomicBool::new(false),
            epoch: Instant::now(),
            traced: AtomicU32::new(0),
            program,
        });
        let mut running =
            Running { events, threads: Vec::new(), next_item: 0, failed: None, shared: shared.clone() };
        for (device, queue) in device_queues.into_iter().enumerate() {
            let (shared, backend) = (shared.clone(), backends[device].clone());
            let name = shared.program.spec.devices[device].name.clone();
            running.spawn(&name, move || Worker::new(&shared, device, &queue).serve(&*backend));
        }
        for (link, queue) in link_queues.into_iter().enumerate() {
            let shared = shared.clone();
            let name = shared.program.spec.links[link].name.clone();
            running.spawn(&name, move || carry(&shared, link, &queue));
        }
        for _ in 0..shared.program.spec.devices.len() {
            match running.events.recv() {
                Ok(Event::Failed(failure)) => return Err(failure),
                Ok(_) => {}
                Err(_) => return Err(running.lost()),
            }
        }
        Ok(running)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) {
        let shared = self.shared.clone();
        let about = name.to_owned();
        let guarded = move || {
            if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(body)) {
                shared.fail(&about, &about, None, death(&*panic));
            }
        };
        match std::thread::Builder::new().name(name.to_owned()).spawn(guarded) {
            Ok(thread) => self.threads.push(thread),
            Err(cause) => {
                let error = StageError::new(format!("its thread cannot be started: {cause}"));
                self.shared.fail(name, name, None, error);
            }
        }
    }

    fn lost(&self) -> Failure {
        let all = "all".to_owned();
        Failure {
            stage: all.clone(),
            device: all,
            op: None,
            item: None,
            cause: "every thread has gone".into(),
        }
    }

    /// Runs items until the source ends or `cancelled` is set; items under way are finished then. The first `traced`
    /// items leave spans.
    pub fn run(
        &mut self,
        source: &mut Source<'_>,
        sink: &mut Sink<'_>,
        cancelled: &AtomicBool,
        traced: u32,
    ) -> Result<Report, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        self.shared.active.store(true, Ordering::Relaxed);
        let result = self.run_items(source, sink, cancelled, traced);
        self.shared.active.store(false, Ordering::Relaxed);
        if let Err(failure) = &result {
            self.failed = Some(failure.clone());
        }
        result
    }

    fn run_items(
        &mut self,
        source: &mut Source<'_>,
        sink: &mut Sink<'_>,
        cancelled: &AtomicBool,
        traced: u32,
    ) -> Result<Report, Failure> {
        let shared = self.shared.clone();
        let first = self.next_item;
        shared
            .traced
            .store(u32::try_from(first).unwrap_or(u32::MAX).saturating_add(traced), Ordering::Relaxed);
        for measured in &shared.measured {
            let mut measured = lock(measured);
            let stages = vec![Default::default(); shared.program.spec.stages.len()];
            *measured = Measured { stages, ..Measured::default() };
        }
        let (mut admitted, mut delivered, mut ended) = (first, first, false);
        let mut finished: BTreeSet<u64> = BTreeSet::new();
        let mut entered: Vec<Instant> = vec![Instant::now(); shared.window as usize];
        let mut latency = (Vec::new(), 0);
        let start = Instant::now();
        let (mut end, mut first_end) = (start, None);
        loop {
            while !ended && admitted - delivered < shared.window {
                let inputs = if cancelled.load(Ordering::Relaxed) { None } else { source(admitted - first) };
                let Some(inputs) = inputs else {
                    ended = true;
                    break;
                };
                entered[(admitted % shared.window) as usize] = Instant::now();
                shared.admit(admitted, &inputs);
                admitted += 1;
            }
            if admitted == delivered {
                break;
            }
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Loaded) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Failed(failure)) => {
                    let item = failure.item.map(|item| item.saturating_sub(first));
                    return Err(Failure { item, ..failure });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
                Ok(Event::Done(item, at)) => {
                    end = at.max(end);
                    first_end.get_or_insert(end);
                    let came_in = entered[(item % shared.window) as usize];
                    remember(&mut latency, at.duration_since(came_in).as_secs_f64() * 1e6);
                    finished.insert(item);
                }
            }
            while finished.remove(&delivered) {
                let results: Vec<Tensor> =
                    lock(&shared.state(delivered).results).iter_mut().filter_map(Option::take).collect();
                let item = delivered - first;
                sink(item, results).map_err(|cause| Failure {
                    stage: "results".into(),
                    device: "host".into(),
                    op: None,
                    item: Some(item),
                    cause,
                })?;
                delivered += 1;
            }
            self.next_item = admitted;
        }
        let cancelled = cancelled.load(Ordering::Relaxed);
        let items = delivered - first;
        let steps = u32::try_from(items.saturating_sub(1)).ok().filter(|&steps| steps > 0);
        let period = Option::zip(first_end, steps).map(|(first_end, steps)| (end - first_end) / steps);
        Ok(Report { cancelled, period, ..self.report(items, end - start, latency.0) })
    }

    fn report(&self, items: u64, wall: Duration, latency: Vec<f64>) -> Report {
        let shared = &self.shared;
        let mut stages = vec![Vec::new(); shared.program.spec.stages.len()];
        let (mut busy, mut handover, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for (lane, measured) in shared.measured.iter().enumerate() {
            let mut measured = lock(measured);
            for (all, (own, _)) in stages.iter_mut().zip(&mut measured.stages) {
                all.append(own);
            }
            if lane < shared.devices.len() {
                busy.push(measured.busy);
            }
            handover.append(&mut measured.handover.0);
            spans.append(&mut measured.spans);
        }
        spans.sort_by(|a: &Span, b: &Span| a.start_us.total_cmp(&b.start_us));
        Report {
            items,
            cancelled: false,
            wall,
            period: None,
            latency: Timings::new(latency),
            stages: stages.into_iter().map(Timings::new).collect(),
            busy,
            handover: Timings::new(handover),
            spans,
        }
    }

    /// The kernels of every run of a stage so far, where its backend times them.
    pub fn kernels(&self, stage: usize) -> Result<Vec<Vec<Kernel>>, StageError> {
        let (reply, answer) = channel();
        let device = self.shared.program.spec.stages[stage].device;
        let gone = || StageError::new("its device has gone");
        self.shared.devices[device].send(Message::Kernels { stage, reply }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.shared.program
    }
}

impl Drop for Running {
    /// Ends every thread. A stage that is under way is waited for.
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        for queue in &self.shared.devices {
            let _ = queue.send(Message::Stop);
        }
        for queue in &self.shared.links {
            let _ = queue.send(Cargo::Stop);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The thread of one device.
struct Worker<'a> {
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
    fn new(shared: &'a Shared, device: usize, queue: &'a Receiver<Message>) -> Worker<'a> {
        let stages = shared.program.spec.stages.iter().enumerate();
        let own = stages.filter(|(_, stage)| stage.device == device).map(|(i, _)| i).collect();
        let devices = shared.program.spec.devices.iter().enumerate();
        let cores = &shared.program.spec.devices[device].cores;
        let alone = devices.filter(|(i, _)| *i != device).all(|(_, other)| !other.cores.overlap(cores));
        Worker { shared, device, queue, ready: BinaryHeap::new(), own, turn: (0, 0), alone }
    }

    fn serve(mut self, backend: &dyn Backend) {
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

/// The thread of one link: copies values, one after the other.
fn carry(shared: &Shared, link: usize, queue: &Receiver<Cargo>) {
    while let Ok(Cargo::Value { item, stage, output, value }) = queue.recv() {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let start = Instant::now();
        let copy = match value.stored().copied() {
            Ok(copy) => copy,
            Err(error) => {
                let spec = &shared.program.spec;
                let name = &spec.stages[stage].model.outputs[output];
                let cause = format!("`{name}` cannot be sent: {error}");
                let device = &spec.devices[spec.links[link].to].name;
                return shared.fail(&spec.links[link].name, device, Some(item), StageError::new(cause));
            }
        };
        drop(value);
        if shared.is_traced(item) {
            let (start_us, end_us) = (shared.since_start(start), shared.since_start(Instant::now()));
            let what = Happened::Sent { stage, output, link };
            let mut measured = lock(&shared.measured[shared.devices.len() + link]);
            measured.spans.push(Span { what, item, start_us, end_us });
        }
        let far = shared.program.of_output[stage][output].far.iter().find(|(other, _)| *other == link);
        for &slot in far.map_or(&[][..], |(_, slots)| slots) {
            shared.feed(item, slot, copy.clone());
        }
    }
}
