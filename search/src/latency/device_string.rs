//! DiviML's encoding for search heuristics: a string of devices, one for each op.
//!
//! The ops stand in breadth-first topological order (Kahn's algorithm with a queue), each device runs its ops in that
//! order, and the string's fitness is the finish of the schedule that follows. Ops that must stay together are one
//! gene. A string that breaks a memory limit, or needs a transfer without a route, is refused.
//!
//! A change is evaluated in place from the first op it touches, without allocating, and given up as soon as an op
//! ends so late that what must follow it on the fastest devices passes the limit. Links are delays here; where they
//! are used in turn, the check has the last word on what a plan is worth.

use std::time::Duration;

use crate::budget::StopReason;
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::memory_use::MemoryUse;
use crate::latency::repair::repair;
use crate::run::Run;

/// A gene and the device it changes to.
pub(crate) type GeneChange = (usize, u32);

/// A string and its schedule.
pub(crate) struct DeviceString<'a> {
    dense: &'a LatencyTables,
    units: &'a ColocatedUnits,
    room: MemoryUse,
    device_of: Vec<u32>,
    /// The units with a choice.
    genes: Vec<u32>,
    /// Where each unit's first op stands.
    first: Vec<u32>,
    order: Vec<u32>,
    /// From the end of each op to the end of the network at the least.
    tail: Vec<u64>,
    /// The end of each op.
    finish: Vec<u64>,
    /// The value of the ops up to each place.
    reached: Vec<u64>,
    old_finish: Vec<u64>,
    old_reached: Vec<u64>,
    free: Vec<u64>,
    undo: Vec<GeneChange>,
}

impl<'a> DeviceString<'a> {
    /// Every gene on its fastest device, or as near to that as memory and routes allow; none if no way was found.
    pub(crate) fn fastest(
        problem: &Problem,
        dense: &'a LatencyTables,
        units: &'a ColocatedUnits,
        seed: u64,
    ) -> Option<DeviceString<'a>> {
        let (device_of, room) =
            repair(dense, units, &MemoryUse::new(problem, units), units.fastest(dense)?, seed)?;
        let order = breadth_first(dense);
        let mut first = vec![u32::MAX; units.len()];
        for (place, &op) in order.iter().enumerate() {
            let first = &mut first[units.of(op as usize)];
            *first = (*first).min(place as u32);
        }
        let ops = dense.op_count();
        let mut string = DeviceString {
            dense,
            units,
            room,
            genes: (0..units.len() as u32).filter(|&unit| units.choices(unit as usize).len() > 1).collect(),
            device_of: (0..ops).map(|op| device_of[units.of(op)]).collect(),
            first,
            order,
            tail: tails(dense),
            finish: vec![0; ops],
            reached: vec![0; ops],
            old_finish: vec![0; ops],
            old_reached: vec![0; ops],
            free: vec![0; dense.device_count()],
            undo: Vec::new(),
        };
        string.evaluate(0, NEVER - 1).then_some(string)
    }

    /// How many genes there are.
    pub(crate) fn len(&self) -> usize {
        self.genes.len()
    }

    /// The fitness.
    pub(crate) fn value(&self) -> u64 {
        self.reached.last().copied().unwrap_or(0)
    }

    /// The device of every op.
    pub(crate) fn device_of(&self) -> &[u32] {
        &self.device_of
    }

    /// A gene's change to another device, each of them as likely.
    pub(crate) fn change(&self, gene: usize, rng: &mut divvy_core::rng::Rng) -> GeneChange {
        let unit = self.genes[gene] as usize;
        let choices = self.units.choices(unit);
        let here = self.device_of[self.units.members(unit)[0] as usize];
        let other = choices[rng.below(choices.len() - 1)];
        // The one left out of the draw stands in for the present one.
        (gene, if other == here { choices[choices.len() - 1] } else { other })
    }

    /// Makes some changes of different genes if the fitness stays within `limit`; else nothing changes.
    pub(crate) fn try_changes(&mut self, changes: &[GeneChange], limit: u64) -> bool {
        let mut undo = std::mem::take(&mut self.undo);
        undo.clear();
        let mut from = u32::MAX;
        for &(gene, device) in changes {
            let unit = self.genes[gene] as usize;
            undo.push((gene, self.device_of[self.units.members(unit)[0] as usize]));
            from = from.min(self.first[unit]);
            self.shift(unit, device);
        }
        let fits = || changes.iter().all(|&(_, device)| self.room.excess(device) == 0);
        let kept = fits() && (from == u32::MAX || self.evaluate(from as usize, limit));
        if !kept {
            for &(gene, device) in &undo {
                self.shift(self.genes[gene] as usize, device);
            }
        }
        self.undo = undo;
        kept
    }

    /// Takes back the changes that were made last.
    pub(crate) fn take_back(&mut self) {
        let changes = self.undo.clone();
        let back = self.try_changes(&changes, NEVER - 1);
        debug_assert!(back, "what was there before fits");
    }

    fn shift(&mut self, unit: usize, device: u32) {
        let members = self.units.members(unit);
        self.room.take(unit, self.device_of[members[0] as usize]);
        self.room.put(unit, device);
        members.iter().for_each(|&op| self.device_of[op as usize] = device);
    }

    /// Works out the schedule from a place on; false, and the schedule is as before, if it passes the limit.
    fn evaluate(&mut self, from: usize, limit: u64) -> bool {
        let dense = self.dense;
        self.free.fill(0);
        for &op in &self.order[..from] {
            self.free[self.device_of[op as usize] as usize] = self.finish[op as usize];
        }
        let mut reached = if from == 0 { 0 } else { self.reached[from - 1] };
        for place in from..self.order.len() {
            let op = self.order[place] as usize;
            let device = self.device_of[op] as usize;
            let mut start = self.free[device].max(dense.release(op, device));
            for edge in dense.inputs(op) {
                let producer = edge.op as usize;
                let sender = self.device_of[producer] as usize;
                let delay = if sender == device { 0 } else { dense.delay(edge.size, sender, device) };
                start = start.max(self.finish[producer] + delay);
            }
            let finish = start + dense.time(op, device);
            let value = finish + dense.way_out(op, device);
            if finish + self.tail[op] > limit || value > limit {
                for place in from..place {
                    let op = self.order[place] as usize;
                    self.finish[op] = self.old_finish[op];
                    self.reached[place] = self.old_reached[place];
                }
                return false;
            }
            reached = reached.max(value);
            self.old_finish[op] = std::mem::replace(&mut self.finish[op], finish);
            self.old_reached[place] = std::mem::replace(&mut self.reached[place], reached);
            self.free[device] = finish;
        }
        true
    }
}

fn breadth_first(dense: &LatencyTables) -> Vec<u32> {
    let mut waiting: Vec<usize> = (0..dense.op_count()).map(|op| dense.inputs(op).len()).collect();
    let sources = dense.order().iter().copied().filter(|&op| waiting[op as usize] == 0);
    let mut order: Vec<u32> = sources.collect();
    let mut next = 0;
    while next < order.len() {
        for edge in dense.outputs(order[next] as usize) {
            waiting[edge.op as usize] -= 1;
            if waiting[edge.op as usize] == 0 {
                order.push(edge.op);
            }
        }
        next += 1;
    }
    order
}

fn tails(dense: &LatencyTables) -> Vec<u64> {
    let shortest = |op: usize| dense.times(op).iter().copied().min().unwrap_or(0);
    let mut tails = vec![0; dense.op_count()];
    for &op in dense.order().iter().rev() {
        let after = dense.outputs(op as usize).iter().map(|e| shortest(e.op as usize) + tails[e.op as usize]);
        tails[op as usize] = after.max().unwrap_or(0);
    }
    tails
}

/// A search over strings: counts evaluations, keeps the best, offers it now and then, and says when to stop.
pub(crate) struct StringSearch<'w, 'a> {
    run: &'w mut Run<'a>,
    order: Vec<OpId>,
    best: Vec<u32>,
    value: u64,
    offered: u64,
    evaluations: u64,
    /// Evaluations between two looks at the clock.
    look_every: u64,
    progress: f64,
    limits: WalkLimits,
    /// Seconds since the beginning of the run.
    began: f64,
}

/// When a walk ends at the latest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkLimits {
    /// Since the beginning of the run.
    pub(crate) time: Duration,
    /// Evaluations.
    pub(crate) nodes: Option<u64>,
}

impl<'w, 'a> StringSearch<'w, 'a> {
    /// Begins at a string, which is offered, and takes all of the run's budget.
    pub(crate) fn new(run: &'w mut Run<'a>, start: &DeviceString<'_>) -> StringSearch<'w, 'a> {
        let limits = WalkLimits { time: run.budget.time, nodes: run.budget.nodes };
        StringSearch::within(limits, run, start)
    }

    /// As [`StringSearch::new`], with limits of its own.
    pub(crate) fn within(limits: WalkLimits, run: &'w mut Run<'a>, start: &DeviceString<'_>) -> StringSearch<'w, 'a> {
        let began = run.budget.start.elapsed().as_secs_f64();
        let mut walk = StringSearch {
            run,
            order: start.order.iter().map(|&op| OpId(op)).collect(),
            best: start.device_of.clone(),
            value: start.value(),
            offered: u64::MAX,
            evaluations: 0,
            look_every: 1 + 30_000 / (1 + start.order.len() as u64),
            progress: 0.0,
            limits,
            began,
        };
        walk.offer();
        walk
    }

    /// Counts an evaluation; false if the budget is spent or no better string can exist.
    pub(crate) fn goes_on(&mut self) -> bool {
        let budget = self.run.budget;
        let WalkLimits { time, nodes } = self.limits;
        if nodes.is_some_and(|nodes| self.evaluations >= nodes) {
            return false;
        }
        if self.evaluations.is_multiple_of(self.look_every) {
            let elapsed = budget.start.elapsed();
            if budget.is_spent() || elapsed >= time {
                return false;
            }
            // Where the run must not depend on the clock, progress does not.
            self.progress = match nodes {
                Some(nodes) => self.evaluations as f64 / nodes as f64,
                None => {
                    let all = time.as_secs_f64() - self.began;
                    (elapsed.as_secs_f64() - self.began) / all.max(f64::MIN_POSITIVE)
                }
            };
            // A plan takes longer to check than a string to evaluate.
            let proven = self.run.outcome().lower_bound();
            if self.evaluations.is_multiple_of(64 * self.look_every) || proven >= Some(Time(self.value)) {
                self.offer();
                if proven.is_some() && proven == self.run.outcome().value() {
                    return false;
                }
            }
        }
        self.evaluations += 1;
        true
    }

    /// How many strings were looked at.
    pub(crate) fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// The share of the budget that is used up.
    pub(crate) fn progress(&self) -> f64 {
        self.progress
    }

    /// Keeps a string if it is the best so far.
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
                // Links used in turn may lengthen it, and nothing else can be wrong with it.
                let as_delays = Objective::Latency { links: LinkUse::Delay };
                debug_assert!(
                    self.run.problem.objective != as_delays
                        || self.run.outcome().value().is_some_and(|value| value.0 <= self.value),
                    "the check agrees with the fitness"
                );
            }
        }
    }

    /// Offers the best, and says why the search ended.
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
