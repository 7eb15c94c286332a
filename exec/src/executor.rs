//! Runs a program: a queue of ready stages for each device, a queue of values for each link.
//!
//! This is SortingHat's Algorithm 1 (a stage is put into its device's queue by whoever fulfils its last dependence),
//! generalised: to links, to many items under way at once, and to stages rather than single ops. Every dependence is an
//! atomic counter; nothing is locked but what belongs to one stage of one item, so no two devices wait for each other
//! except for data. At most `window` items are under way: an item enters when the oldest has left, which is the
//! back-pressure. Results are handed out in the order of the items.
//!
//! A single device works on the caller's thread: nobody else could work meanwhile, and two threads that wake each other for
//! every item would cost more than ONNX Runtime alone may lose.
//!
//! A stage that fails, and a thread that dies, end the run with [`Failure`]; whatever else is under way is dropped.
//!
//! | file | what it does |
//! |---|---|
//! | `shared` | items under way, and the queues |
//! | `worker` | a device, on a thread of its own or on the caller's |
//! | `link` | the thread of a link |
//! | `clock` | time without what others had of a core |
//! | `samples` | what items took, and stages of it |
//! | `report` | what a run leaves |

mod clock;
mod link;
mod report;
mod samples;
mod shared;
mod worker;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use report::{Failure, Happened, Pace, Report, Span};
pub use samples::Samples;

use self::link::carry;
use self::report::Measured;
use self::samples::{ItemEnd, Notes, Ring, microseconds};
use self::shared::{Cargo, Event, ItemState, Message, Shared, death, lock};
use self::worker::Worker;
use crate::backend::{Backend, Kernel};
use crate::cores::Cores;
use crate::measure::Timings;
use crate::program::Program;
use crate::stage_error::StageError;
use crate::tensor::Tensor;

/// How often a waiting run looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(50);

/// Where the sink of a run may say that it cannot go on.
pub type Sink<'a> = dyn FnMut(u64, Vec<Tensor>) -> Result<(), String> + 'a;
/// Gives the inputs of each item, by its number from 0; none ends the run.
pub type Source<'a> = dyn FnMut(u64) -> Option<Vec<Tensor>> + 'a;

/// A program whose devices have loaded their stages and wait for items.
pub struct Running {
    shared: Arc<Shared>,
    events: Receiver<Event>,
    threads: Vec<JoinHandle<()>>,
    /// The only device, which has no thread.
    only: Option<Worker>,
    next_item: u64,
    /// When the last item so far left, undisturbed.
    left: Duration,
    failed: Option<Failure>,
}

impl Running {
    /// Starts a thread for each device, unless it is the only one, and for each link, and loads every stage. `backends`
    /// has one entry for each device.
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
            due: stages.iter().map(|_| AtomicU64::new(0)).collect(),
            end: AtomicU64::new(0),
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
        let mut running = Running {
            events,
            threads: Vec::new(),
            only: None,
            next_item: 0,
            left: Duration::ZERO,
            failed: None,
            shared: shared.clone(),
        };
        let is_only = device_queues.len() == 1;
        for (device, queue) in device_queues.into_iter().enumerate() {
            let (of_worker, backend) = (shared.clone(), backends[device].clone());
            let name = shared.program.spec.devices[device].name.clone();
            let load = move || Worker::load(of_worker, device, queue, &*backend);
            if is_only {
                running.only = Cores::back_after(|| guarded(&shared, &name, load)).flatten();
            } else {
                running.spawn(&name, move || load().map_or((), Worker::serve));
            }
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
        let (shared, about) = (self.shared.clone(), name.to_owned());
        let guarded = move || guarded(&shared, &about, body).unwrap_or_default();
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
        let result = Cores::back_after(|| self.run_items(source, sink, cancelled, traced));
        self.shared.active.store(false, Ordering::Relaxed);
        if let Err(failure) = &result {
            self.failed = Some(failure.clone());
        }
        result
    }

    /// Pins the calling thread where it does the work itself, and forgets what the last run measured.
    fn begin_run(&self, traced: u32) {
        let first = u32::try_from(self.next_item).unwrap_or(u32::MAX);
        if self.only.is_some() {
            // That a thread can be pinned there was seen when the stages were loaded.
            let _ = self.shared.program.spec.devices[0].cores.first().pin_this_thread();
        }
        self.shared.traced.store(first.saturating_add(traced), Ordering::Relaxed);
        for measured in &self.shared.measured {
            let mut measured = lock(measured);
            let stages = vec![Default::default(); self.shared.program.spec.stages.len()];
            *measured = Measured { stages, ..Measured::default() };
        }
    }

    fn run_items(
        &mut self,
        source: &mut Source<'_>,
        sink: &mut Sink<'_>,
        cancelled: &AtomicBool,
        traced: u32,
    ) -> Result<Report, Failure> {
        let (shared, first) = (self.shared.clone(), self.next_item);
        self.begin_run(traced);
        let (mut admitted, mut delivered, mut ended) = (first, first, false);
        let mut finished: BTreeSet<u64> = BTreeSet::new();
        // For each item under way, when it entered, and for each that made room for another, when it left, undisturbed.
        let mut entered = vec![(Duration::ZERO, Duration::ZERO); shared.window as usize];
        let mut left = vec![self.left; shared.window as usize];
        let start = Instant::now();
        let mut end = start;
        let mut ends = Ring::default();
        loop {
            while !ended && admitted - delivered < shared.window {
                let inputs = if cancelled.load(Ordering::Relaxed) { None } else { source(admitted - first) };
                let Some(inputs) = inputs else {
                    ended = true;
                    break;
                };
                let place = (admitted % shared.window) as usize;
                entered[place] = (shared.epoch.elapsed(), left[place]);
                shared.admit(admitted, &inputs, left[place]);
                admitted += 1;
            }
            if admitted == delivered {
                break;
            }
            if let Some(worker) = &mut self.only {
                worker.catch_up();
            }
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Loaded) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Failed(failure)) => {
                    let item = failure.item.map(|item| item.saturating_sub(first));
                    return Err(Failure { item, ..failure });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
                Ok(Event::Done(item, at, due)) => {
                    end = at.max(end);
                    let place = (item % shared.window) as usize;
                    let (began, could) = entered[place];
                    let entered = [microseconds(began), microseconds(could)];
                    let ended = [shared.since_start(at), microseconds(due)];
                    ends.push(ItemEnd { item, entered, ended });
                    left[place] = due;
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
                // Items leave in their order.
                self.left = self.left.max(left[(delivered % shared.window) as usize]);
                left[(delivered % shared.window) as usize] = self.left;
                delivered += 1;
            }
            self.next_item = admitted;
        }
        let cancelled = cancelled.load(Ordering::Relaxed);
        let items = delivered - first;
        Ok(Report { cancelled, ..self.report(items, end - start, ends) })
    }

    fn report(&self, items: u64, wall: Duration, mut ends: Ring<ItemEnd>) -> Report {
        let shared = &self.shared;
        let mut runs = Vec::new();
        let mut stages = vec![Vec::new(); shared.program.spec.stages.len()];
        let (mut busy, mut taken_away) = (Vec::new(), Vec::new());
        let (mut handover, mut spans) = (Vec::new(), Vec::new());
        for (lane, measured) in shared.measured.iter().enumerate() {
            let mut measured = lock(measured);
            for (all, own) in stages.iter_mut().zip(&mut measured.stages) {
                all.append(&mut own.take());
            }
            runs.push(std::mem::take(&mut measured.runs));
            if lane < shared.devices.len() {
                busy.push(measured.busy);
                taken_away.push(measured.taken_away);
            }
            handover.append(&mut measured.handover.take());
            spans.append(&mut measured.spans);
        }
        spans.sort_by(|a: &Span, b: &Span| a.start_us.total_cmp(&b.start_us));
        let notes = Notes::new(&mut ends, &mut runs, self.shared.window as usize, stages.len());
        let [pace, undisturbed] = [0, 1].map(|by| Pace {
            period: notes.period(by),
            steps: notes.by_stretch(by),
            latency: notes.by_item(by),
        });
        Report {
            items,
            cancelled: false,
            wall,
            pace,
            undisturbed,
            stages: stages.into_iter().map(Timings::new).collect(),
            busy,
            taken_away,
            handover: Timings::new(handover),
            spans,
        }
    }

    /// The kernels of every run of a stage so far, where its backend times them.
    pub fn kernels(&mut self, stage: usize) -> Result<Vec<Vec<Kernel>>, StageError> {
        let (reply, answer) = channel();
        let device = self.shared.program.spec.stages[stage].device;
        let gone = || StageError::new("its device has gone");
        self.shared.devices[device].send(Message::Kernels { stage, reply }).map_err(|_| gone())?;
        if let Some(worker) = &mut self.only {
            worker.take_messages();
        }
        answer.recv().map_err(|_| gone())?
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.shared.program
    }
}

/// Does something for a device or link; a panic is its failure.
fn guarded<Result>(shared: &Shared, about: &str, body: impl FnOnce() -> Result) -> Option<Result> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(body));
    done.map_err(|panic| shared.fail(about, about, None, death(&*panic))).ok()
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
