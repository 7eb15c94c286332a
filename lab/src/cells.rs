//! A cell: one method on one instance within one limit, and what came of it.
//!
//! A cell is plain data with a key that names everything its result depends on but the machine: the instance (for a
//! file, its fingerprint), the method, the limit, the seed. Running it never fails: what goes wrong is its result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_core::costs::CalibratedShare;
use divvy_core::problem::Problem;
use divvy_search::{Baseline, Budget, Request, processor_seconds, solve};

use crate::figures::Figures;
use crate::instances::Instance;
use crate::sortinghat::runs;

/// Seed of everything random inside a method.
pub(crate) const SEED: u64 = 1;

/// What is done with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Plan with a planner by name, and the quick bounds.
    Plan(&'static str),
    /// Plan with a planner by name, and one bound by name.
    PlanWith(&'static str, &'static str),
    /// Plan with a planner by name that tells alike devices apart by a criterion.
    PlanApart(&'static str, &'static str),
    /// Prove a bound by name, without planning.
    Bound(&'static str),
    /// Add up the times of all ops on a device by name.
    Sum(&'static str),
    /// Add up the times to load all weights to a device by name.
    Loads(&'static str),
    /// The longest chain of ops on a device by name, the weights of each loaded right before it.
    LoadedChain(&'static str),
    /// Plan with a planner by name, and keep when every device and bus is busy.
    Timeline(&'static str),
    /// The schedule of `efficient-mip` for the first two GPUs, with a GPU by name in place of the second.
    PairWith(&'static str),
}

impl Work {
    fn key(&self) -> String {
        match self {
            Work::Plan(name) => format!("plan {name}"),
            Work::PlanWith(name, bound) => format!("plan {name} with {bound}"),
            Work::PlanApart(name, criterion) => format!("plan {name} by {criterion}"),
            Work::Bound(name) => format!("bound {name}"),
            Work::Sum(device) => format!("sum {device}"),
            Work::Loads(device) => format!("loads {device}"),
            Work::LoadedChain(device) => format!("loaded chain {device}"),
            Work::Timeline(name) => format!("timeline {name}"),
            Work::PairWith(device) => format!("pair with {device}"),
        }
    }
}

/// One method on one instance within one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is planned.
    pub instance: Instance,
    /// What is done with it.
    pub work: Work,
    /// How long it may take.
    pub limit: Duration,
}

impl Cell {
    /// What tells its result from every other of the same build.
    pub fn key(&self) -> String {
        let (instance, work) = (self.instance.key(), self.work.key());
        match self.work {
            // The clock has no say in a sum.
            Work::Sum(_) | Work::Loads(_) | Work::LoadedChain(_) => format!("{instance} | {work}"),
            _ => format!("{instance} | {work} | {:?} | seed {SEED}", self.limit),
        }
    }

    /// What it is, for people.
    pub fn label(&self) -> String {
        format!("{}: {}", self.instance.label(), self.work.key())
    }

    /// Runs it. None if it was cancelled: half a result is none.
    pub fn run(&self, cancelled: &Arc<AtomicBool>) -> Option<Figures> {
        forget_peak_memory();
        let (start, processor) = (Instant::now(), processor_seconds());
        let ran = catch_unwind(AssertUnwindSafe(|| self.figures(cancelled)));
        let figures = match ran {
            Ok(Ok(figures)) => figures,
            Ok(Err(reason)) => Figures::without(reason),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                Figures::without(format!("a bug of divvy: {said}"))
            }
        };
        let stopped = cancelled.load(std::sync::atomic::Ordering::Relaxed);
        let processor_seconds = processor_seconds().zip(processor).map(|(end, start)| end - start);
        let (seconds, peak_bytes) = (start.elapsed().as_secs_f64(), peak_memory());
        (!stopped).then_some(Figures { seconds, processor_seconds, peak_bytes, ..figures })
    }

    fn figures(&self, cancelled: &Arc<AtomicBool>) -> Result<Figures, String> {
        let problem = self.instance.problem()?;
        let request = match self.work {
            Work::Sum(device) => return sum(&problem, device),
            Work::Loads(device) => return runs::loads(&problem, device),
            Work::LoadedChain(device) => return runs::loaded_chain(&problem, device),
            Work::PairWith(device) => return runs::pair(&problem, device, &self.budget(cancelled)),
            Work::Plan(name) | Work::Timeline(name) => {
                Request { planner: Some(name.to_owned()), ..Request::default() }
            }
            Work::PlanWith(name, bound) => Request {
                planner: Some(name.to_owned()),
                bounds: Some(vec![bound.to_owned()]),
                ..Request::default()
            },
            Work::PlanApart(name, criterion) => Request {
                planner: Some(name.to_owned()),
                symmetry: Some(criterion.to_owned()),
                ..Request::default()
            },
            Work::Bound(name) => {
                Request { bounds: Some(vec![name.to_owned()]), bound_only: true, ..Request::default() }
            }
        };
        let solved = solve(&problem, &request, &self.budget(cancelled), &mut |_| {})
            .map_err(|refused| refused.message)?;
        let one_device_ps = match solved.baseline {
            Baseline::Device { value, .. } => Some(value.0),
            Baseline::None { .. } => None,
        };
        let lanes = match (&self.work, &solved.outcome.best) {
            (Work::Timeline(_), Some((plan, score))) => runs::lanes(&problem, plan, score),
            _ => Vec::new(),
        };
        Ok(Figures { one_device_ps, lanes, ..Figures::of(&problem, &solved.outcome) })
    }

    fn budget(&self, cancelled: &Arc<AtomicBool>) -> Budget {
        Budget { seed: SEED, cancelled: cancelled.clone(), ..Budget::new(self.limit) }
    }
}

/// Lets the peak of memory begin anew, where the system can.
fn forget_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this program has held since, where the system tells.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The times of all ops of a network on one device.
fn sum(problem: &Problem, device: &str) -> Result<Figures, String> {
    let id = problem.hardware.device_named(device).ok_or_else(|| format!("there is no device `{device}`"))?;
    let mut costs = Vec::new();
    for op in problem.graph.ops() {
        let cost = problem.cost(op, id, 1);
        costs.push(cost.ok_or_else(|| format!("`{}` cannot run on `{device}`", problem.graph.op(op).name))?);
    }
    let share = CalibratedShare::of(costs.iter().copied());
    Ok(Figures {
        value_ps: Some(costs.iter().map(|cost| cost.time.0).sum()),
        ops: problem.graph.op_count(),
        measured: share.measured,
        scaled: share.scaled,
        estimated: share.estimated,
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use divvy_core::generate::RwnnOptions;

    use super::*;

    fn tiny() -> Instance {
        Instance::Rwnn(RwnnOptions { modules: 1, nodes: 4, ..RwnnOptions::default() })
    }

    fn cell(work: Work) -> Cell {
        Cell { instance: tiny(), work, limit: Duration::from_secs(1) }
    }

    #[test]
    fn a_plan_has_a_value_above_its_bound_and_a_history_that_ends_there() {
        let figures = cell(Work::Plan("heft")).run(&Arc::default()).unwrap();
        assert!(figures.gap().unwrap() >= 0.0);
        let end = figures.history.last().unwrap();
        assert_eq!(end.value_ps, figures.value_ps);
        assert_eq!(figures.seconds_to_best(), Some(end.seconds));
        assert_eq!(figures.seconds_to(0), None);
    }

    #[test]
    fn one_device_takes_the_sum_of_its_ops() {
        let best = cell(Work::Plan("one-device")).run(&Arc::default()).unwrap();
        let sums = ["a100", "t4", "cpu"].map(|device| cell(Work::Sum(device)).run(&Arc::default()).unwrap());
        assert_eq!(best.value_ps, sums.iter().filter_map(|sum| sum.value_ps).min());
    }

    #[test]
    fn what_cannot_run_says_why() {
        let figures = cell(Work::Plan("no-such")).run(&Arc::default()).unwrap();
        assert!(figures.reason.unwrap().contains("no-such"));
        let lost =
            Instance::File { path: "no-such.json".into(), sha256: String::new(), hardware: "h200-cpu" };
        let figures = Cell { instance: lost, ..cell(Work::Plan("heft")) }.run(&Arc::default()).unwrap();
        assert!(figures.reason.unwrap().contains("no-such.json"));
    }

    #[test]
    fn a_cancelled_cell_has_no_result() {
        assert_eq!(cell(Work::Plan("heft")).run(&Arc::new(true.into())), None);
    }

    #[test]
    fn keys_tell_instances_methods_and_limits_apart() {
        let base = cell(Work::Plan("heft"));
        let longer = Cell { limit: Duration::from_secs(2), ..base.clone() };
        let other = Cell { work: Work::Plan("peft"), ..base.clone() };
        let seeded = Instance::Rwnn(RwnnOptions { modules: 1, nodes: 4, seed: 2, ..RwnnOptions::default() });
        let seeded = Cell { instance: seeded, ..base.clone() };
        let keys = [&base, &longer, &other, &seeded].map(Cell::key);
        let distinct: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), 4, "{keys:?}");
    }
}
