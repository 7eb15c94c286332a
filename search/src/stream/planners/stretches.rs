//! `stretches`: annealing of stretches of the canonical order, where pieces cost something.
//!
//! The other planners of `stream` count ops, copies and bytes. Here a plan is worth what it is: a device's load has the cost of its
//! pieces too. First the others plan for a part of the time, as if pieces cost nothing; from the best plan so far, and from the
//! best single device, stretches are annealed. A move gives a stretch of the canonical order to a device, with all ops that must
//! stay with one of it. A plan with less memory or other splits than it needs is refused by the check.

use std::time::{Duration, Instant};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::objectives::pieces::StreamPieces;
use divvy_core::plan::{Plan, StreamPlan};
use divvy_core::problem::{Objective, Problem};
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::budget::{Budget, StopReason};
use crate::one_device::baseline::baseline;
use crate::planner::Planner;
use crate::run::Run;

/// The shares of the time left: for other planners first, and for annealing.
const SHARES: (f64, f64) = (0.25, 0.6);
/// First and last temperature, as parts of the start's value.
const TEMPERATURES: (f64, f64) = (2e-2, 1e-4);
/// States evaluated for a node of the budget.
const STATES_PER_NODE: u64 = 100;
/// States between two looks at the clock.
const STATES_PER_LOOK: u64 = 16;

pub(crate) struct Stretches;

impl Planner for Stretches {
    fn name(&self) -> &'static str {
        "stretches"
    }

    fn about(&self) -> &'static str {
        "annealing of stretches of the canonical order, with what pieces cost"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        if problem.objective != Objective::Stream {
            return Err(format!("it works on streams, not on `{}`", problem.objective.name()));
        }
        if problem.has_piece_costs() { Ok(()) } else { Err("pieces cost nothing here".to_owned()) }
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let part = |share: f64, all: &Budget| Budget {
            start: Instant::now(),
            time: all.left().mul_f64(share),
            nodes: all.nodes.map(|nodes| nodes / 4),
            ..all.clone()
        };
        let others = part(SHARES.0, run.budget);
        for (plan, _) in run.plan_inner(run.problem, &others) {
            // Whatever keeps the rules without pieces keeps them with these.
            let _ = run.offer(plan);
        }
        let (_, alone) = baseline(run.real(), run.budget);
        if let Some(plan) = alone {
            let _ = run.offer(plan);
        }
        let Some((Plan::Stream(best), _)) = &run.outcome().best else { return StopReason::Finished };
        let mut annealing = Annealing::new(run.real(), &best.device_of, run.budget.seed);
        let budget = part(SHARES.1, run.budget);
        annealing.anneal(&budget, run);
        if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
    }
}

struct Annealing<'a> {
    problem: &'a Problem,
    device_of: Vec<DeviceId>,
    /// By op, those that must be where it is, itself among them.
    with: Vec<Vec<OpId>>,
    rng: Rng,
    loads: Vec<u64>,
    bytes: Vec<u128>,
    targets: Vec<DeviceId>,
}

impl<'a> Annealing<'a> {
    fn new(problem: &'a Problem, device_of: &[DeviceId], seed: u64) -> Annealing<'a> {
        let mut with: Vec<Vec<OpId>> = problem.graph.ops().map(|op| vec![op]).collect();
        for group in &problem.constraints.colocate {
            group.iter().for_each(|op| with[op.index()].clone_from(group));
        }
        Annealing {
            problem,
            device_of: device_of.to_vec(),
            with,
            rng: Rng::new(seed),
            loads: vec![0; problem.hardware.device_count()],
            bytes: vec![0; problem.hardware.links().len()],
            targets: Vec::new(),
        }
    }

    /// The period, memory and splits aside; none without a route.
    fn evaluate(&mut self) -> Option<u64> {
        let problem = self.problem;
        let (graph, hardware) = (&problem.graph, &problem.hardware);
        self.loads.fill(0);
        self.bytes.fill(0);
        for op in graph.ops() {
            let device = self.device_of[op.index()];
            self.loads[device.index()] += problem.time(op, device)?.0;
        }
        for device in StreamPieces::new(problem, &self.device_of).devices {
            self.loads[device.index()] += problem.piece_cost(device).0;
        }
        for tensor in graph.tensors() {
            let producer = graph.producer(tensor).map(|op| self.device_of[op.index()]);
            let Some(from) = producer.or(problem.constraints.input_at) else { continue };
            self.targets.clear();
            let readers = graph.consumers(tensor).iter().map(|op| self.device_of[op.index()]);
            let out = problem.constraints.output_at.filter(|_| graph.is_output(tensor));
            for to in readers.chain(out).filter(|&to| to != from) {
                if !self.targets.contains(&to) {
                    self.targets.push(to);
                }
            }
            let size = graph.tensor_bytes(tensor);
            for &to in &self.targets {
                let route = hardware.route(from, to)?;
                for link in &route.links {
                    self.bytes[link.index()] += u128::from(size);
                }
                for end in [from, to].into_iter().filter(|_| !route.links.is_empty()) {
                    self.loads[end.index()] += problem.copy_time(end, size).0;
                }
            }
        }
        let links = self.bytes.iter().zip(hardware.links());
        let links = links.filter_map(|(&bytes, link)| Time::of_many_bytes(bytes, link.bandwidth));
        let links = links.map(|time| time.0).max().unwrap_or(0);
        Some(self.loads.iter().copied().max().unwrap_or(0).max(links))
    }

    fn anneal(&mut self, budget: &Budget, run: &mut Run<'_>) {
        let Some(mut value) = self.evaluate() else { return };
        let mut best = (value, self.device_of.clone());
        let (scale, (hot, cold)) = (value as f64, TEMPERATURES);
        let most = budget.nodes.map(|nodes| nodes.saturating_mul(STATES_PER_NODE));
        let (mut progress, mut since) = (0.0, 0u64);
        for count in 0u64.. {
            if let Some(most) = most {
                progress = count as f64 / most.max(1) as f64;
            } else if count.is_multiple_of(STATES_PER_LOOK) {
                progress = budget.start.elapsed().as_secs_f64()
                    / budget.time.max(Duration::from_micros(1)).as_secs_f64();
            }
            if progress >= 1.0 || budget.is_cancelled() || run.is_solved() {
                return;
            }
            let undo = self.random_move();
            if undo.is_empty() {
                continue;
            }
            let temperature = scale * hot * (cold / hot).powf(progress);
            let limit = value + (-temperature * (1.0 - self.rng.unit()).ln()) as u64;
            let found = self.evaluate().filter(|&found| found <= limit);
            let is_better = found.is_some_and(|found| found < best.0);
            let plan = || Plan::Stream(StreamPlan { device_of: self.device_of.clone() });
            match found {
                // The check refuses what does not fit.
                Some(found) if !is_better || run.offer(plan()).is_ok() => {
                    value = found;
                    if is_better {
                        best = (found, self.device_of.clone());
                        since = 0;
                    }
                }
                _ => undo.into_iter().rev().for_each(|(op, device)| self.device_of[op.index()] = device),
            }
            since += 1;
            if since > 2_000 + 20 * self.device_of.len() as u64 {
                since = 0;
                (value, self.device_of) = best.clone();
            }
        }
    }

    /// Gives a stretch to a device; what undoes it, nothing if it came to nothing.
    fn random_move(&mut self) -> Vec<(OpId, DeviceId)> {
        let order = self.problem.graph.order();
        let mut length = 1;
        while length < order.len() && self.rng.chance(0.7) {
            length = (length * 2).min(order.len());
        }
        let length = 1 + self.rng.below(length);
        let from = self.rng.below(order.len() - length + 1);
        // Often to the device next to it, which makes a piece longer.
        let beside =
            from.checked_sub(1).map(|at| order[at]).into_iter().chain(order.get(from + length).copied());
        let beside: Vec<DeviceId> = beside.map(|op| self.device_of[op.index()]).collect();
        let device = if !beside.is_empty() && self.rng.chance(0.6) {
            *self.rng.pick(&beside)
        } else {
            DeviceId::new(self.rng.below(self.problem.hardware.device_count()))
        };
        let mut undo = Vec::new();
        for &op in &order[from..from + length] {
            let group = &self.with[op.index()];
            let here = self.device_of[op.index()];
            if here == device || !group.iter().all(|&op| self.problem.may_run(op, device)) {
                continue;
            }
            for &op in group {
                undo.push((op, here));
                self.device_of[op.index()] = device;
            }
        }
        undo
    }
}
