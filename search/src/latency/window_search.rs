//! Window search: a large-neighbourhood search in which a window of consecutive ops is rescheduled by dominance search.
//!
//! The ops are ordered by start. The ops before a window are fixed: they release its ops and devices. The ops behind
//! it keep their devices and orders: from these follow the exact tail of each op of the window on each device and,
//! for each device, the tail of its next op. What remains is a subproblem of 14 to 28 ops, solved by a beam search
//! that is mostly exact. A result of equal value is accepted with probability [`EQUAL_SHARE`].
//!
//! Memory limits and colocation hold throughout: an op may move only to a device with memory for it, ops of
//! colocation groups do not move, and moves that exceed a limit together are undone.

use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{LatencyPlan, Plan};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::frontier_search::levels::{FrontierSettings, search};
use divvy_proof::frontier_search::subproblem::FrontierSubproblem;
use divvy_proof::frontier_search::tails::Tails;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::memory_use::MemoryUse;
use crate::latency::placement_units::PlacementUnits;

/// The probability that a result of equal value is accepted.
const EQUAL_SHARE: f64 = 0.25;

/// The least and the most ops of a window.
const SIZES: [u64; 2] = [14, 28];
/// The beam width.
const WIDTH: usize = 300;

/// What window searches of a problem share.
#[derive(Clone, Copy)]
pub(crate) struct WindowContext<'a> {
    pub(crate) tables: &'a LatencyTables,
    pub(crate) tails: &'a Tails,
    pub(crate) weights: &'a [Vec<u64>],
    pub(crate) units: &'a PlacementUnits,
}

/// A schedule and the state of its search.
#[derive(Clone)]
pub(crate) struct WindowSearch<'a> {
    tables: &'a LatencyTables,
    tails: &'a Tails,
    weights: &'a [Vec<u64>],
    units: &'a PlacementUnits,
    memory: MemoryUse,
    device_of: Vec<u32>,
    /// The ops by start.
    sequence: Vec<u32>,
    start: Vec<u64>,
    finish: Vec<u64>,
    value: u64,
    /// States that dominance searches have looked at.
    rows: u64,
    rng: Rng,
}

impl<'a> WindowSearch<'a> {
    /// Starts at a valid plan.
    pub(crate) fn new(
        problem: &Problem,
        context: WindowContext<'a>,
        plan: &LatencyPlan,
        seed: u64,
    ) -> WindowSearch<'a> {
        let WindowContext { tables, tails, weights, units } = context;
        let mut device_of = vec![0; tables.op_count()];
        let mut memory = MemoryUse::new(problem, units);
        for (device, ops) in plan.order.iter().enumerate() {
            for op in ops {
                device_of[op.index()] = device as u32;
            }
        }
        for unit in 0..units.len() {
            memory.put(unit, device_of[units.members(unit)[0] as usize]);
        }
        let mut search = WindowSearch {
            tables,
            tails,
            weights,
            units,
            memory,
            device_of,
            sequence: topological(tables, plan),
            start: vec![0; tables.op_count()],
            finish: vec![0; tables.op_count()],
            value: 0,
            rows: 0,
            rng: Rng::new(seed),
        };
        search.value = search.evaluate();
        search.sort();
        search
    }

    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// The number of states that dominance searches have looked at.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn op_count(&self) -> usize {
        self.sequence.len()
    }

    pub(crate) fn plan(&self, problem: &Problem) -> Option<Plan> {
        let device_of: Vec<DeviceId> = self.device_of.iter().map(|&device| DeviceId(device)).collect();
        let sequence: Vec<OpId> = self.sequence.iter().map(|&op| OpId(op)).collect();
        default_plan::plan_in_order(problem, &device_of, &sequence).ok()
    }

    /// Computes the semi-active schedule of the sequence, and returns its makespan.
    fn evaluate(&mut self) -> u64 {
        let tables = self.tables;
        let mut free = vec![0u64; tables.device_count()];
        let mut value = 0;
        for &op in &self.sequence {
            let op = op as usize;
            let device = self.device_of[op] as usize;
            let mut start = free[device].max(tables.release(op, device));
            for edge in tables.inputs(op) {
                let from = self.device_of[edge.op as usize] as usize;
                start = start.max(self.finish[edge.op as usize] + tables.delay(edge.size, from, device));
            }
            self.start[op] = start;
            self.finish[op] = start + tables.time(op, device);
            free[device] = self.finish[op];
            value = value.max(self.finish[op] + tables.way_out(op, device));
        }
        value
    }

    /// Sorts the sequence by start; an op of no duration precedes one that starts when it ends.
    fn sort(&mut self) {
        let mut place = vec![0u32; self.sequence.len()];
        for (i, &op) in self.sequence.iter().enumerate() {
            place[op as usize] = i as u32;
        }
        let (start, finish) = (&self.start, &self.finish);
        self.sequence
            .sort_unstable_by_key(|&op| (start[op as usize], finish[op as usize], place[op as usize]));
    }

    /// The exact tails, from the start of each op, with devices and orders as they are.
    fn tails_as_planned(&self) -> Vec<u64> {
        let tables = self.tables;
        let mut tails = vec![0u64; tables.op_count()];
        let mut next: Vec<u64> = vec![0; tables.device_count()];
        for &op in self.sequence.iter().rev() {
            let op = op as usize;
            let device = self.device_of[op] as usize;
            let mut rest = tables.way_out(op, device).max(next[device]);
            for edge in tables.outputs(op) {
                let to = self.device_of[edge.op as usize] as usize;
                rest = rest.max(tables.delay(edge.size, device, to) + tails[edge.op as usize]);
            }
            tails[op] = tables.time(op, device) + rest;
            next[device] = tails[op];
        }
        tails
    }

    /// A copy with a random generator of its own.
    pub(crate) fn with_seed(&self, seed: u64) -> WindowSearch<'a> {
        WindowSearch { rng: Rng::new(seed), ..self.clone() }
    }

    /// Reschedules a random window; true if the value became smaller. `stop` ends it early.
    pub(crate) fn improve_window(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
        let count = self.sequence.len();
        let size = (self.rng.between(SIZES[0], SIZES[1]) as usize).min(count);
        let first = self.rng.below(count - size + 1);
        let Some(window) = self.solve(first, size, stop) else { return false };
        let before = (self.value, self.device_of.clone(), self.sequence.clone());
        if !self.move_units(&window) {
            return false;
        }
        for (place, &(op, device)) in window.iter().enumerate() {
            self.sequence[first + place] = op;
            self.device_of[op as usize] = device;
        }
        self.value = self.evaluate();
        if self.value > before.0 {
            // Exact tails exclude this; the former schedule is restored for safety.
            let back: Vec<(u32, u32)> = window.iter().map(|&(op, _)| (op, before.1[op as usize])).collect();
            self.move_units(&back);
            (self.value, self.device_of, self.sequence) = before;
            self.evaluate();
            return false;
        }
        self.sort();
        self.value < before.0
    }

    /// The best schedule of a window, as ops and devices by start; none if there is none to accept.
    fn solve(
        &mut self,
        first: usize,
        size: usize,
        stop: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<(u32, u32)>> {
        const INSIDE: u8 = 1;
        const AFTER: u8 = 2;
        let tables = self.tables;
        let devices = tables.device_count();
        let tails = self.tails_as_planned();
        let mut place = vec![0u8; tables.op_count()];
        self.sequence[first..first + size].iter().for_each(|&op| place[op as usize] = INSIDE);
        self.sequence[first + size..].iter().for_each(|&op| place[op as usize] = AFTER);
        let mut free = vec![0; devices];
        let mut fixed = 0;
        for &op in &self.sequence[..first] {
            let op = op as usize;
            let device = self.device_of[op] as usize;
            free[device] = self.finish[op];
            fixed = fixed.max(self.finish[op] + tables.way_out(op, device));
            for edge in tables.outputs(op).iter().filter(|edge| place[edge.op as usize] == AFTER) {
                let to = self.device_of[edge.op as usize] as usize;
                fixed = fixed
                    .max(self.finish[op] + tables.delay(edge.size, device, to) + tails[edge.op as usize]);
            }
        }
        let mut device_tails = vec![0; devices];
        for &op in self.sequence[first + size..].iter().rev() {
            device_tails[self.device_of[op as usize] as usize] = tails[op as usize];
        }
        // The window cannot shorten a path that avoids it.
        let equal = self.rng.chance(EQUAL_SHARE);
        if fixed >= self.value && !equal {
            return None;
        }
        let mut part =
            FrontierSubproblem::new(tables, self.tails, self.sequence[first..first + size].to_vec());
        part.set_releases(|i, device| {
            let op = op_of_window(&self.sequence, first, i);
            let mut release = tables.release(op, device);
            for edge in tables.inputs(op).iter().filter(|edge| place[edge.op as usize] == 0) {
                let from = self.device_of[edge.op as usize] as usize;
                release = release.max(self.finish[edge.op as usize] + tables.delay(edge.size, from, device));
            }
            release
        });
        self.restrict(&mut part, first, size);
        let own = |i: usize, device: usize| {
            let op = op_of_window(&self.sequence, first, i);
            let mut rest = tables.way_out(op, device);
            for edge in tables.outputs(op).iter().filter(|edge| place[edge.op as usize] == AFTER) {
                let to = self.device_of[edge.op as usize] as usize;
                rest = rest.max(tables.delay(edge.size, device, to) + tails[edge.op as usize]);
            }
            tables.time(op, device).saturating_add(rest).min(NEVER)
        };
        part.set_surroundings(free, own, device_tails);
        let limit = self.value + u64::from(equal);
        let settings = FrontierSettings { width: WIDTH, limit, weights: self.weights, levels: usize::MAX };
        let found = search(&part, &settings, stop);
        self.rows += found.states;
        let (_, steps) = found.best?;
        Some(steps.into_iter().map(|(i, device)| (self.sequence[first + i as usize], device)).collect())
    }

    /// Restricts the ops of a window to devices that colocation and memory allow.
    fn restrict(&mut self, part: &mut FrontierSubproblem, first: usize, size: usize) {
        let limited = self.memory.is_limited();
        for i in 0..size {
            let op = op_of_window(&self.sequence, first, i);
            let (unit, here) = (self.units.of(op), self.device_of[op]);
            let alone = self.units.members(unit).len() == 1;
            if alone && !limited {
                continue;
            }
            self.memory.take(unit, here);
            part.restrict(i, |device| device == here || (alone && self.memory.fits(unit, device)));
            self.memory.put(unit, here);
        }
    }

    /// Updates the memory of the devices for the moves of a window; false, with nothing changed, if a limit is
    /// exceeded.
    fn move_units(&mut self, window: &[(u32, u32)]) -> bool {
        let moves: Vec<(usize, u32, u32)> = (window.iter())
            .map(|&(op, to)| (self.units.of(op as usize), self.device_of[op as usize], to))
            .filter(|(_, from, to)| from != to)
            .collect();
        moves.iter().for_each(|&(unit, from, _)| self.memory.take(unit, from));
        moves.iter().for_each(|&(unit, _, to)| self.memory.put(unit, to));
        if self.memory.overfull().next().is_none() {
            return true;
        }
        moves.iter().for_each(|&(unit, _, to)| self.memory.take(unit, to));
        moves.iter().for_each(|&(unit, from, _)| self.memory.put(unit, from));
        false
    }
}

/// The op with a number within a window.
fn op_of_window(sequence: &[u32], first: usize, i: usize) -> usize {
    sequence[first + i] as usize
}

/// The ops of a valid plan in a topological order of data dependences and device orders.
fn topological(tables: &LatencyTables, plan: &LatencyPlan) -> Vec<u32> {
    let mut waiting: Vec<usize> = (0..tables.op_count()).map(|op| tables.inputs(op).len()).collect();
    let mut after: Vec<Option<u32>> = vec![None; tables.op_count()];
    for ops in &plan.order {
        for pair in ops.windows(2) {
            after[pair[0].index()] = Some(pair[1].0);
            waiting[pair[1].index()] += 1;
        }
    }
    let mut ready: Vec<u32> = (0..tables.op_count() as u32).filter(|&op| waiting[op as usize] == 0).collect();
    let mut sequence = Vec::with_capacity(tables.op_count());
    while let Some(op) = ready.pop() {
        sequence.push(op);
        let next = tables.outputs(op as usize).iter().map(|edge| edge.op).chain(after[op as usize]);
        for next in next {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    sequence
}
