//! DiviML's encoding for metaheuristics: a string of devices, one for each op.
//!
//! Ops stand in breadth-first topological order (Kahn's algorithm with a queue). Each device runs its ops in that
//! order, and the fitness of a string is the makespan of the schedule that results. A colocation group is one gene. A
//! string that exceeds a memory limit or needs a transfer without a route is refused.
//!
//! **The cost of one moved op**: a change is evaluated in place, without allocation, from the first op that it touches. The evaluation stops at an
//! op whose end plus its tail, the longest path behind it on the fastest devices, exceeds the limit. Links are delays
//! here; for problems whose links are used in turn, the value of a plan is the one that the check computes.

use std::time::Duration;

use crate::budget::StopReason;
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::memory_use::MemoryUse;
use crate::latency::placement_units::PlacementUnits;
use crate::latency::repair::repair;
use crate::run::Run;

/// A gene and its new device.
pub(crate) type GeneChange = (usize, u32);

/// A string of devices and its schedule.
pub(crate) struct DeviceString<'a> {
    tables: &'a LatencyTables,
    units: &'a PlacementUnits,
    memory: MemoryUse,
    device_of: Vec<u32>,
    /// The units that have more than one device to choose from.
    genes: Vec<u32>,
    /// For each unit, the position of its first op in the order.
    first: Vec<u32>,
    order: Vec<u32>,
    /// For each op, a lower bound on the time from its end to the end of the network.
    tail: Vec<u64>,
    /// The end of each op.
    finish: Vec<u64>,
    /// The makespan of the ops up to each position.
    prefix_value: Vec<u64>,
    old_finish: Vec<u64>,
    old_prefix_value: Vec<u64>,
    free: Vec<u64>,
    undo: Vec<GeneChange>,
}

impl<'a> DeviceString<'a> {
    /// Every gene on its fastest device, repaired where memory or routes forbid that; none if no placement is found.
    pub(crate) fn fastest(
        problem: &Problem,
        tables: &'a LatencyTables,
        units: &'a PlacementUnits,
        seed: u64,
    ) -> Option<DeviceString<'a>> {
        let (device_of, memory) =
            repair(tables, units, &MemoryUse::new(problem, units), units.fastest(tables)?, seed)?;
        let order = breadth_first(tables);
        let mut first = vec![u32::MAX; units.len()];
        for (place, &op) in order.iter().enumerate() {
            let first = &mut first[units.of(op as usize)];
            *first = (*first).min(place as u32);
        }
        let ops = tables.op_count();
        let mut string = DeviceString {
            tables,
            units,
            memory,
            genes: (0..units.len() as u32).filter(|&unit| units.choices(unit as usize).len() > 1).collect(),
            device_of: (0..ops).map(|op| device_of[units.of(op)]).collect(),
            first,
            order,
            tail: tails(tables),
            finish: vec![0; ops],
            prefix_value: vec![0; ops],
            old_finish: vec![0; ops],
            old_prefix_value: vec![0; ops],
            free: vec![0; tables.device_count()],
            undo: Vec::new(),
        };
        string.evaluate(0, NEVER - 1).then_some(string)
    }

    /// The number of genes.
    pub(crate) fn len(&self) -> usize {
        self.genes.len()
    }

    /// The fitness: the makespan.
    pub(crate) fn value(&self) -> u64 {
        self.prefix_value.last().copied().unwrap_or(0)
    }

    /// The device of every op.
    fn device_of(&self) -> &[u32] {
        &self.device_of
    }

    /// A change of a gene to another device, uniformly at random.
    pub(crate) fn change(&self, gene: usize, rng: &mut divvy_core::rng::Rng) -> GeneChange {
        let unit = self.genes[gene] as usize;
        let choices = self.units.choices(unit);
        let here = self.device_of[self.units.members(unit)[0] as usize];
        let other = choices[rng.below(choices.len() - 1)];
        // The last choice is left out of the draw and stands in for the present device.
        (gene, if other == here { choices[choices.len() - 1] } else { other })
    }

    /// Applies changes of distinct genes if the fitness stays within `limit`; else nothing changes.
    pub(crate) fn try_changes(&mut self, changes: &[GeneChange], limit: u64) -> bool {
        let mut undo = std::mem::take(&mut self.undo);
        undo.clear();
        let mut from = u32::MAX;
        for &(gene, device) in changes {
            let unit = self.genes[gene] as usize;
            undo.push((gene, self.device_of[self.units.members(unit)[0] as usize]));
            from = from.min(self.first[unit]);
            self.put(unit, device);
        }
        let fits = || changes.iter().all(|&(_, device)| self.memory.excess(device) == 0);
        let kept = fits() && (from == u32::MAX || self.evaluate(from as usize, limit));
        if !kept {
            for &(gene, device) in &undo {
                self.put(self.genes[gene] as usize, device);
            }
        }
        self.undo = undo;
        kept
    }

    /// Undoes the changes that were applied last.
    pub(crate) fn undo_changes(&mut self) {
        let changes = self.undo.clone();
        let undone = self.try_changes(&changes, NEVER - 1);
        debug_assert!(undone, "what was there before fits");
    }

    fn put(&mut self, unit: usize, device: u32) {
        let members = self.units.members(unit);
        self.memory.take(unit, self.device_of[members[0] as usize]);
        self.memory.put(unit, device);
        members.iter().for_each(|&op| self.device_of[op as usize] = device);
    }

    /// Evaluates the schedule from a position on; false, with the schedule unchanged, if it exceeds the limit.
    fn evaluate(&mut self, from: usize, limit: u64) -> bool {
        let tables = self.tables;
        self.free.fill(0);
        for &op in &self.order[..from] {
            self.free[self.device_of[op as usize] as usize] = self.finish[op as usize];
        }
        let mut reached = if from == 0 { 0 } else { self.prefix_value[from - 1] };
        for place in from..self.order.len() {
            let op = self.order[place] as usize;
            let device = self.device_of[op] as usize;
            let mut start = self.free[device].max(tables.release(op, device));
            for edge in tables.inputs(op) {
                let producer = edge.op as usize;
                let sender = self.device_of[producer] as usize;
                let delay = if sender == device { 0 } else { tables.delay(edge.size, sender, device) };
                start = start.max(self.finish[producer] + delay);
            }
            let finish = start + tables.time(op, device);
            let value = finish + tables.way_out(op, device);
            if finish + self.tail[op] > limit || value > limit {
                for place in from..place {
                    let op = self.order[place] as usize;
                    self.finish[op] = self.old_finish[op];
                    self.prefix_value[place] = self.old_prefix_value[place];
                }
                return false;
            }
            reached = reached.max(value);
            self.old_finish[op] = std::mem::replace(&mut self.finish[op], finish);
            self.old_prefix_value[place] = std::mem::replace(&mut self.prefix_value[place], reached);
            self.free[device] = finish;
        }
        true
    }
}

/// Kahn's topological order with a queue.
fn breadth_first(tables: &LatencyTables) -> Vec<u32> {
    let mut waiting: Vec<usize> = (0..tables.op_count()).map(|op| tables.inputs(op).len()).collect();
    let sources = tables.order().iter().copied().filter(|&op| waiting[op as usize] == 0);
    let mut order: Vec<u32> = sources.collect();
    let mut next = 0;
    while next < order.len() {
        for edge in tables.outputs(order[next] as usize) {
            waiting[edge.op as usize] -= 1;
            if waiting[edge.op as usize] == 0 {
                order.push(edge.op);
            }
        }
        next += 1;
    }
    order
}

/// For each op the longest path behind its end, every op on its fastest device, without transfers.
fn tails(tables: &LatencyTables) -> Vec<u64> {
    let shortest = |op: usize| tables.times(op).iter().copied().min().unwrap_or(0);
    let mut tails = vec![0; tables.op_count()];
    for &op in tables.order().iter().rev() {
        let after =
            tables.outputs(op as usize).iter().map(|e| shortest(e.op as usize) + tails[e.op as usize]);
        tails[op as usize] = after.max().unwrap_or(0);
    }
    tails
}

/// The bookkeeping of a search over strings: it counts evaluations, keeps the best string, offers it now and then,
/// and tells when the search is to end.
pub(crate) struct StringSearch<'w, 'a> {
    run: &'w mut Run<'a>,
    order: Vec<OpId>,
    best: Vec<u32>,
    value: u64,
    offered: u64,
    evaluations: u64,
    /// The number of evaluations between two reads of the clock.
    clock_interval: u64,
    progress: f64,
    limits: SearchLimits,
    /// When the search began, in seconds since the start of the run.
    began: f64,
}

/// When a search over strings ends at the latest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchLimits {
    /// Time since the start of the run.
    pub(crate) time: Duration,
    /// The most evaluations.
    pub(crate) nodes: Option<u64>,
}

impl<'w, 'a> StringSearch<'w, 'a> {
    /// Offers the first string; the search has all of the run's budget.
    pub(crate) fn new(run: &'w mut Run<'a>, start: &DeviceString<'_>) -> StringSearch<'w, 'a> {
        let limits = SearchLimits { time: run.budget.time, nodes: run.budget.nodes };
        StringSearch::within(limits, run, start)
    }

    /// As [`StringSearch::new`], with limits of its own.
    pub(crate) fn within(
        limits: SearchLimits,
        run: &'w mut Run<'a>,
        start: &DeviceString<'_>,
    ) -> StringSearch<'w, 'a> {
        let began = run.budget.start.elapsed().as_secs_f64();
        let mut search = StringSearch {
            run,
            order: start.order.iter().map(|&op| OpId(op)).collect(),
            best: start.device_of.clone(),
            value: start.value(),
            offered: u64::MAX,
            evaluations: 0,
            clock_interval: 1 + 30_000 / (1 + start.order.len() as u64),
            progress: 0.0,
            limits,
            began,
        };
        search.offer();
        search
    }

    /// Counts an evaluation; false if the budget is spent or the best value equals a proven bound.
    pub(crate) fn begin_evaluation(&mut self) -> bool {
        let budget = self.run.budget;
        let SearchLimits { time, nodes } = self.limits;
        if nodes.is_some_and(|nodes| self.evaluations >= nodes) {
            return false;
        }
        if self.evaluations.is_multiple_of(self.clock_interval) {
            let elapsed = budget.start.elapsed();
            if budget.is_spent() || elapsed >= time {
                return false;
            }
            // With a node budget the run must not depend on the clock.
            self.progress = match nodes {
                Some(nodes) => self.evaluations as f64 / nodes as f64,
                None => {
                    let all = time.as_secs_f64() - self.began;
                    (elapsed.as_secs_f64() - self.began) / all.max(f64::MIN_POSITIVE)
                }
            };
            // Checking a plan takes longer than evaluating a string.
            let proven = self.run.outcome().lower_bound();
            if self.evaluations.is_multiple_of(64 * self.clock_interval) || proven >= Some(Time(self.value)) {
                self.offer();
                if proven.is_some() && proven == self.run.outcome().value() {
                    return false;
                }
            }
        }
        self.evaluations += 1;
        true
    }

    /// The number of strings evaluated.
    pub(crate) fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// The share of the budget that is used.
    pub(crate) fn progress(&self) -> f64 {
        self.progress
    }

    /// Keeps a string if it is better than the best so far.
    pub(crate) fn note(&mut self, string: &DeviceString<'_>) {
        if string.value() < self.value {
            self.value = string.value();
            self.best.copy_from_slice(string.device_of());
        }
    }

    fn offer(&mut self) {
        if self.value < self.offered {
            self.offered = self.value;
            let device_of: Vec<DeviceId> = self.best.iter().map(|&device| DeviceId(device)).collect();
            if let Ok(plan) = default_plan::plan_in_order(self.run.problem, &device_of, &self.order) {
                let _ = self.run.offer(plan);
                // With links used in turn the plan may be longer than the schedule; it is valid all the same.
                let as_delays = Objective::Latency { links: LinkUse::Delay };
                debug_assert!(
                    self.run.problem.objective != as_delays
                        || self.run.real().has_piece_costs()
                        || self.run.outcome().value().is_some_and(|value| value.0 <= self.value),
                    "the check agrees with the fitness"
                );
            }
        }
    }

    /// Offers the best string, and tells why the search ended.
    pub(crate) fn end(mut self) -> StopReason {
        self.offer();
        let outcome = self.run.outcome();
        if self.run.budget.is_cancelled() {
            StopReason::Cancelled
        } else if outcome.value().is_some() && outcome.value() == outcome.lower_bound() {
            StopReason::Finished
        } else {
            StopReason::OutOfBudget
        }
    }
}
