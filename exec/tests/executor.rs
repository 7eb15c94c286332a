//! The executor on a device made for the purpose: what it promises, and what it does when a stage fails.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use divvy_exec::backend::{Backend, Device, Stage, StageModel};
use divvy_exec::cores::Cores;
use divvy_exec::executor::{Failure, Report, Running};
use divvy_exec::program::{DeviceSpec, LinkSpec, Program, ProgramSpec, StageSpec};
use divvy_exec::stage_error::StageError;
use divvy_exec::tensor::{HostTensor, Stored, Tensor};
use divvy_testing::skipped::skip;

/// Whole numbers; the model's bytes say what a stage does with them. How many are alive is counted.
#[derive(Default)]
struct Toy {
    alive: Arc<AtomicI64>,
}

struct Number(i64, Arc<AtomicI64>);

impl Number {
    fn tensor(value: i64, alive: &Arc<AtomicI64>) -> Tensor {
        alive.fetch_add(1, Ordering::Relaxed);
        Tensor::new(Number(value, alive.clone()))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stored for Number {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn to_host(&self) -> Result<HostTensor, StageError> {
        Err(StageError::new("numbers stay here"))
    }
    fn copied(&self) -> Result<Tensor, StageError> {
        if self.0 == 666 {
            return Err(StageError::new("this number is not sent"));
        }
        Ok(Number::tensor(self.0, &self.1))
    }
    fn byte_count(&self) -> usize {
        8
    }
}

fn number(tensor: &Tensor) -> i64 {
    tensor.stored().as_any().downcast_ref::<Number>().expect("a number").0
}

impl Backend for Toy {
    fn name(&self) -> String {
        "toy".into()
    }
    fn open(&self, _: &Cores) -> Result<Box<dyn Device>, StageError> {
        Ok(Box::new(Toy { alive: self.alive.clone() }))
    }
    fn take_in(&self, _: HostTensor) -> Result<Tensor, StageError> {
        Err(StageError::new("numbers are made otherwise"))
    }
}

impl Device for Toy {
    fn load(&mut self, model: &StageModel) -> Result<Box<dyn Stage>, StageError> {
        let what = String::from_utf8_lossy(&model.bytes).into_owned();
        match what.as_str() {
            "unloadable" => Err(StageError { op: Some("conv7".into()), cause: "no such kernel".into() }),
            "panics while loading" => panic!("the loader is broken"),
            _ => Ok(Box::new(ToyStage { what, outputs: model.outputs.len(), alive: self.alive.clone() })),
        }
    }
    fn works_in_its_thread(&self) -> bool {
        true
    }
}

struct ToyStage {
    what: String,
    outputs: usize,
    alive: Arc<AtomicI64>,
}

impl Stage for ToyStage {
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, StageError> {
        let sum: i64 = inputs.iter().map(number).sum();
        match self.what.as_str() {
            "fails at 5" if sum >= 5 => {
                return Err(StageError { op: Some("conv3".into()), cause: "out of memory".into() });
            }
            "panics at 5" if sum >= 5 => panic!("a bug in the kernel"),
            "short" => return Ok(Vec::new()),
            "slow" => std::thread::sleep(Duration::from_millis(2)),
            // As if somebody else had the core for most of the time.
            "disturbed" => {
                (0..100_000u32).for_each(|step| _ = std::hint::black_box(step));
                std::thread::sleep(Duration::from_millis(4));
            }
            _ => {}
        }
        let step = self.what.parse::<i64>().unwrap_or(0);
        Ok((0..self.outputs).map(|_| Number::tensor(sum + step, &self.alive)).collect())
    }
}

fn device(name: &str) -> DeviceSpec {
    DeviceSpec { name: name.into(), cores: Cores::allowed() }
}

fn stage(what: &str, device: usize, inputs: &[&str], outputs: &[&str]) -> StageSpec {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let name = format!("stage-{}", outputs[0]);
    let model = StageModel {
        name,
        bytes: what.as_bytes().to_vec(),
        inputs: list(inputs),
        outputs: list(outputs),
        ..StageModel::default()
    };
    StageSpec::new(model, device)
}

/// x -> a (on one) -> y (on two).
fn chain(first: &str, second: &str) -> ProgramSpec {
    ProgramSpec {
        devices: vec![device("one"), device("two")],
        stages: vec![stage(first, 0, &["x"], &["a"]), stage(second, 1, &["a"], &["y"])],
        inputs: vec!["x".into()],
        results: vec!["y".into()],
        ..ProgramSpec::default()
    }
}

fn start(spec: ProgramSpec, window: usize) -> (Result<Running, Failure>, Arc<AtomicI64>) {
    let toy = Toy::default();
    let alive = toy.alive.clone();
    let backend: Arc<dyn Backend> = Arc::new(toy);
    let backends = vec![backend; spec.devices.len()];
    (Running::start(Program::new(spec).expect("it is sound"), &backends, window), alive)
}

/// Runs numbers 0, 1, … through and returns what came out.
fn run(spec: ProgramSpec, window: usize, count: u64) -> Result<(Vec<i64>, Report), Failure> {
    let (running, alive) = start(spec, window);
    let mut running = running?;
    let (mut out, mut next) = (Vec::new(), 0);
    let mut source =
        |item| (item < count).then(|| vec![Number::tensor(i64::try_from(item).expect("few"), &alive)]);
    let mut sink = |item: u64, values: Vec<Tensor>| {
        assert_eq!(item, next, "items come in order");
        next += 1;
        out.extend(values.iter().map(number));
        Ok(())
    };
    let report = running.run(&mut source, &mut sink, &AtomicBool::new(false), 2)?;
    Ok((out, report))
}

/// As [`run`], for programs that must fail; a hang is a failure of its own.
fn failure(spec: ProgramSpec) -> Failure {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(run(spec, 4, 100).map(|_| ())));
    let result = result.recv_timeout(Duration::from_secs(20)).expect("it ends");
    result.expect_err("it fails")
}

#[test]
fn a_hundred_thousand_items_pass_in_order_each_once_and_leave_nothing_behind() {
    let (running, alive) = start(chain("1", "2"), 4);
    let mut running = running.expect("it starts");
    let (count, mut next, mut most) = (100_000i64, 0i64, 0);
    let mut source = |item| (item < count as u64).then(|| vec![Number::tensor(item as i64, &alive)]);
    let mut sink = |item: u64, values: Vec<Tensor>| {
        most = most.max(alive.load(Ordering::Relaxed));
        assert_eq!((item as i64, number(&values[0])), (next, next + 3));
        next += 1;
        Ok(())
    };
    let report = running.run(&mut source, &mut sink, &AtomicBool::new(false), 0).expect("it runs");
    assert_eq!((next, report.items), (count, count as u64));
    // At most the window's items are under way, each with at most three values.
    assert!(most <= 12, "{most} values at once");
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    assert!(report.stages.iter().all(|stage| stage.count() <= 1 << 14), "timings are bounded");
}

#[test]
fn values_with_several_readers_and_stages_without_inputs() {
    let mut spec = chain("1", "2");
    spec.stages.push(stage("10", 0, &[], &["c"]));
    spec.stages.push(stage("0", 1, &["a", "c", "y"], &["z"]));
    spec.results = vec!["z".into(), "a".into(), "x".into()];
    let (out, _) = run(spec, 3, 3).expect("it runs");
    // a = x + 1, y = x + 3, c = 10.
    assert_eq!(out, [14, 1, 0, 16, 2, 1, 18, 3, 2]);
}

#[test]
fn time_for_which_a_core_was_taken_away_is_told_apart() {
    let cores = Cores::allowed();
    if cores.count() < 2 {
        return skip("time_for_which_a_core_was_taken_away_is_told_apart", "it takes two cores");
    }
    let mut spec = chain("disturbed", "disturbed");
    for (device, cores) in spec.devices.iter_mut().zip(cores.divided(cores.count())) {
        device.cores = cores;
    }
    // One request at a time has both disturbances in its time.
    let (_, report) = run(spec.clone(), 1, 10).expect("it runs");
    assert!(report.pace.latency.whole().median() >= 8_000.0, "{report:?}");
    let undisturbed = report.undisturbed.latency.whole().undisturbed();
    assert!((20.0..4_000.0).contains(&undisturbed), "{undisturbed}");
    assert!(report.taken_away.iter().all(|taken| *taken >= Duration::from_millis(40)), "{report:?}");
    assert!(report.busy.iter().all(|busy| *busy < Duration::from_millis(40)), "{report:?}");
    // Of a stream each step has one of them.
    let (_, report) = run(spec, 4, 40).expect("it runs");
    assert!(report.pace.period >= Some(Duration::from_millis(4)), "{report:?}");
    let undisturbed = report.undisturbed.steps.whole().undisturbed();
    assert!((10.0..2_000.0).contains(&undisturbed), "{undisturbed}");
}

#[test]
fn values_that_cross_a_link_are_copied_and_timed() {
    let mut spec = chain("1", "2");
    spec.links = vec![LinkSpec { name: "wire".into(), from: 0, to: 1 }];
    let (out, report) = run(spec, 2, 10).expect("it runs");
    assert_eq!(out, (3..13).collect::<Vec<_>>());
    // Two items are traced: two stages and a transfer each.
    assert_eq!(report.spans.len(), 6);
    assert!(report.spans.iter().all(|span| span.start_us <= span.end_us && span.item < 2));
}

#[test]
fn a_device_keeps_the_order_where_it_must() {
    // Both stages of `one` are ready at once or the later one first: `b` waits for `two`, which is slow.
    let mut spec = ProgramSpec {
        devices: vec![device("one"), device("two")],
        stages: vec![
            stage("slow", 1, &["x"], &["s"]),
            stage("1", 0, &["s"], &["b"]),
            stage("2", 0, &["x"], &["c"]),
        ],
        inputs: vec!["x".into()],
        results: vec!["b".into(), "c".into()],
        in_order: true,
        ..ProgramSpec::default()
    };
    let starts = |spec: ProgramSpec| {
        let (_, report) = run(spec, 1, 1).expect("it runs");
        let at = |stage| {
            let found = report.spans.iter().find(|s| s.what == divvy_exec::executor::Happened::Stage(stage));
            found.expect("it ran").start_us
        };
        (at(1), at(2))
    };
    let (b, c) = starts(spec.clone());
    assert!(b < c, "in order: {b} {c}");
    spec.in_order = false;
    let (b, c) = starts(spec);
    assert!(c < b, "whatever is ready: {b} {c}");
}

#[test]
fn a_stage_that_fails_is_named_with_op_item_and_cause() {
    let found = failure(chain("1", "fails at 5"));
    assert_eq!((found.stage.as_str(), found.device.as_str()), ("stage-y", "two"));
    assert_eq!((found.op.as_deref(), found.item), (Some("conv3"), Some(4)));
    let text = found.to_string();
    assert_eq!(text, "stage `stage-y` on `two` failed at `conv3` on item 4: out of memory");
}

/// [`chain`] on one device.
fn alone(first: &str, second: &str) -> ProgramSpec {
    let mut spec = chain(first, second);
    spec.devices.truncate(1);
    spec.stages[1].device = 0;
    spec
}

#[test]
fn a_single_device_works_on_the_caller_s_thread_and_gives_it_back() {
    let before = Cores::allowed();
    let (out, report) = run(alone("1", "2"), 4, 100).expect("it runs");
    assert_eq!(out, (3..103).collect::<Vec<i64>>());
    assert_eq!((report.items, report.busy.len()), (100, 1));
    assert_eq!(Cores::allowed(), before);
    let found = failure(alone("1", "fails at 5"));
    assert_eq!((found.stage.as_str(), found.device.as_str(), found.item), ("stage-y", "one", Some(4)));
    let found = failure(alone("panics at 5", "1"));
    assert!(found.item == Some(5) && found.cause.contains("a bug in the kernel"), "{found}");
    let found = failure(alone("1", "panics while loading"));
    assert!(found.item.is_none() && found.cause.contains("the loader is broken"), "{found}");
}

#[test]
fn a_thread_that_dies_ends_the_run() {
    let found = failure(chain("panics at 5", "1"));
    assert_eq!((found.stage.as_str(), found.item), ("stage-a", Some(5)));
    assert!(found.cause.contains("a bug in the kernel"), "{found}");
    let found = failure(chain("panics while loading", "1"));
    assert!(found.item.is_none() && found.cause.contains("the loader is broken"), "{found}");
}

#[test]
fn stages_that_cannot_be_loaded_or_give_too_little_are_named() {
    let found = failure(chain("1", "unloadable"));
    assert_eq!(found.to_string(), "stage `stage-y` on `two` failed at `conv7` while loading: no such kernel");
    let found = failure(chain("short", "1"));
    assert!(found.cause.contains("outputs: 0 came, 1 expected"), "{found}");
    let mut spec = chain("666", "1");
    spec.links = vec![LinkSpec { name: "wire".into(), from: 0, to: 1 }];
    let found = failure(spec);
    assert!(found.stage == "wire" && found.cause.contains("this number is not sent"), "{found}");
}

#[test]
fn a_run_that_is_cancelled_finishes_what_is_under_way() {
    let (running, alive) = start(chain("slow", "slow"), 3);
    let mut running = running.expect("it starts");
    let cancelled = AtomicBool::new(false);
    let mut came = 0;
    let mut source = |_| Some(vec![Number::tensor(0, &alive)]);
    let mut sink = |_, _| {
        came += 1;
        cancelled.store(came >= 5, Ordering::Relaxed);
        Ok(())
    };
    let start = Instant::now();
    let report = running.run(&mut source, &mut sink, &cancelled, 0).expect("it ends well");
    assert!(report.cancelled && (5..=8).contains(&report.items), "{}", report.items);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_program_can_run_again_but_not_after_a_failure() {
    let (running, alive) = start(chain("1", "fails at 5"), 2);
    let mut running = running.expect("it starts");
    let mut once = |value: i64| {
        let mut source = |item| (item == 0).then(|| vec![Number::tensor(value, &alive)]);
        running.run(&mut source, &mut |_, _| Ok(()), &AtomicBool::new(false), 0).map(|report| report.items)
    };
    assert_eq!((once(0), once(1)), (Ok(1), Ok(1)));
    assert_eq!(once(9).map_err(|found| found.item), Err(Some(0)));
    assert!(once(0).is_err());
}

#[test]
fn programs_that_do_not_hold_together_are_refused() {
    let fault = |spec: ProgramSpec| Program::new(spec).expect_err("it is refused");
    let mut spec = chain("1", "2");
    spec.stages[0].model.inputs = vec!["y".into()];
    assert!(fault(spec).contains("of a later stage"));
    let mut spec = chain("1", "2");
    spec.results = vec!["q".into()];
    assert!(fault(spec).contains("nothing makes"));
    let mut spec = chain("1", "2");
    spec.stages[1].model.outputs = vec!["a".into()];
    assert!(fault(spec).contains("made twice"));
    let mut spec = chain("1", "2");
    spec.stages[1].device = 7;
    assert!(fault(spec).contains("has no device"));
}

#[test]
fn copies_of_a_model_are_told_apart_by_their_prefixes() {
    let mut spec = chain("1", "2");
    for (stage, prefix) in [(0, "l:"), (1, "l:")] {
        spec.stages[stage].prefix = prefix.into();
    }
    let mut other = chain("10", "20").stages;
    other.iter_mut().for_each(|stage| stage.prefix = "r:".into());
    spec.stages.extend(other);
    spec.inputs = vec!["l:x".into(), "r:x".into()];
    spec.results = vec!["r:y".into(), "l:y".into()];
    let (running, alive) = start(spec, 2);
    let mut running = running.expect("it starts");
    let mut out = Vec::new();
    let mut source = |item| (item == 0).then(|| vec![Number::tensor(0, &alive), Number::tensor(100, &alive)]);
    let mut sink = |_, values: Vec<Tensor>| {
        out.extend(values.iter().map(number));
        Ok(())
    };
    running.run(&mut source, &mut sink, &AtomicBool::new(false), 0).expect("it runs");
    assert_eq!(out, [130, 3]);
}
