//! Window search: a few ops that follow each other in time are scheduled anew, and better if that is possible, with all
//! that comes before and after fixed.
//!
//! What came before gives the times when devices are free and tensors arrive; what comes after, with its devices and
//! orders kept, gives the exact time from the end of an op to the end of everything. What is left is a small problem
//! that the frontier search solves, mostly to the optimum. Equal results are sometimes taken too, so as to move on.
//! Memory limits and colocation hold throughout: an op moves only where there is room, and a colocation group only
//! if all of it is in the window, which is not tried.

use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{LatencyPlan, Plan};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::frontier_search::levels::{SearchWidth, search};
use divvy_proof::frontier_search::subproblem::Subproblem;
use divvy_proof::frontier_search::tails::Tails;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::memory_use::MemoryUse;

/// How often a result that is no better is taken.
const TAKE_EQUAL: f64 = 0.25;

/// Ops in a window.
const SIZES: [u64; 2] = [14, 28];
/// Rows kept for a window.
const WIDTH: usize = 300;

/// What all schedules of a problem share.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) dense: &'a LatencyTables,
    pub(crate) tails: &'a Tails,
    pub(crate) weights: &'a [Vec<u64>],
    pub(crate) units: &'a ColocatedUnits,
}

/// A schedule and what improves it.
#[derive(Clone)]
pub(crate) struct Windows<'a> {
    dense: &'a LatencyTables,
    tails: &'a Tails,
    weights: &'a [Vec<u64>],
    units: &'a ColocatedUnits,
    room: MemoryUse,
    device_of: Vec<u32>,
    /// The ops by start.
    sequence: Vec<u32>,
    start: Vec<u64>,
    finish: Vec<u64>,
    value: u64,
    rows: u64,
    rng: Rng,
}

impl<'a> Windows<'a> {
    /// From a plan that is valid.
    pub(crate) fn new(
        problem: &Problem,
        surroundings: Surroundings<'a>,
        plan: &LatencyPlan,
        seed: u64,
    ) -> Windows<'a> {
        let Surroundings { dense, tails, weights, units } = surroundings;
        let mut device_of = vec![0; dense.op_count()];
        let mut room = MemoryUse::new(problem, units);
        for (device, ops) in plan.order.iter().enumerate() {
            for op in ops {
                device_of[op.index()] = device as u32;
            }
        }
        for unit in 0..units.len() {
            room.put(unit, device_of[units.members(unit)[0] as usize]);
        }
        let mut windows = Windows {
            dense,
            tails,
            weights,
            units,
            room,
            device_of,
            sequence: topological(dense, plan),
            start: vec![0; dense.op_count()],
            finish: vec![0; dense.op_count()],
            value: 0,
            rows: 0,
            rng: Rng::new(seed),
        };
        windows.value = windows.time();
        windows.sort();
        windows
    }

    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// Rows looked at so far.
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

    /// Times every op as early as its device's order allows, and says when the last result is there.
    fn time(&mut self) -> u64 {
        let dense = self.dense;
        let mut free = vec![0u64; dense.device_count()];
        let mut value = 0;
        for &op in &self.sequence {
            let op = op as usize;
            let device = self.device_of[op] as usize;
            let mut start = free[device].max(dense.release(op, device));
            for edge in dense.inputs(op) {
                let from = self.device_of[edge.op as usize] as usize;
                start = start.max(self.finish[edge.op as usize] + dense.delay(edge.size, from, device));
            }
            self.start[op] = start;
            self.finish[op] = start + dense.time(op, device);
            free[device] = self.finish[op];
            value = value.max(self.finish[op] + dense.way_out(op, device));
        }
        value
    }

    /// Orders the sequence by start; ops that take no time come before those that start when they end.
    fn sort(&mut self) {
        let mut place = vec![0u32; self.sequence.len()];
        for (i, &op) in self.sequence.iter().enumerate() {
            place[op as usize] = i as u32;
        }
        let (start, finish) = (&self.start, &self.finish);
        self.sequence
            .sort_unstable_by_key(|&op| (start[op as usize], finish[op as usize], place[op as usize]));
    }

    /// From the start of each op to the end of everything, devices and orders as they are.
    fn tails_as_planned(&self) -> Vec<u64> {
        let dense = self.dense;
        let mut tails = vec![0u64; dense.op_count()];
        let mut next: Vec<u64> = vec![0; dense.device_count()];
        for &op in self.sequence.iter().rev() {
            let op = op as usize;
            let device = self.device_of[op] as usize;
            let mut rest = dense.way_out(op, device).max(next[device]);
            for edge in dense.outputs(op) {
                let to = self.device_of[edge.op as usize] as usize;
                rest = rest.max(dense.delay(edge.size, device, to) + tails[edge.op as usize]);
            }
            tails[op] = dense.time(op, device) + rest;
            next[device] = tails[op];
        }
        tails
    }

    /// The same schedule, to be improved elsewhere.
    pub(crate) fn with_seed(&self, seed: u64) -> Windows<'a> {
        Windows { rng: Rng::new(seed), ..self.clone() }
    }

    /// Schedules some ops anew; says whether the value became smaller. `stop` ends it early.
    pub(crate) fn improve_some(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
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
        self.value = self.time();
        if self.value > before.0 {
            // Whole numbers leave no room for this, but no harm is done by looking.
            let back: Vec<(u32, u32)> = window.iter().map(|&(op, _)| (op, before.1[op as usize])).collect();
            self.move_units(&back);
            (self.value, self.device_of, self.sequence) = before;
            self.time();
            return false;
        }
        self.sort();
        self.value < before.0
    }

    /// The best schedule of a window: ops and devices by start. None if there is none worth taking.
    fn solve(
        &mut self,
        first: usize,
        size: usize,
        stop: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<(u32, u32)>> {
        const INSIDE: u8 = 1;
        const AFTER: u8 = 2;
        let dense = self.dense;
        let devices = dense.device_count();
        let tails = self.tails_as_planned();
        let mut place = vec![0u8; dense.op_count()];
        self.sequence[first..first + size].iter().for_each(|&op| place[op as usize] = INSIDE);
        self.sequence[first + size..].iter().for_each(|&op| place[op as usize] = AFTER);
        let mut free = vec![0; devices];
        let mut fixed = 0;
        for &op in &self.sequence[..first] {
            let op = op as usize;
            let device = self.device_of[op] as usize;
            free[device] = self.finish[op];
            fixed = fixed.max(self.finish[op] + dense.way_out(op, device));
            for edge in dense.outputs(op).iter().filter(|edge| place[edge.op as usize] == AFTER) {
                let to = self.device_of[edge.op as usize] as usize;
                fixed =
                    fixed.max(self.finish[op] + dense.delay(edge.size, device, to) + tails[edge.op as usize]);
            }
        }
        let mut device_tails = vec![0; devices];
        for &op in self.sequence[first + size..].iter().rev() {
            device_tails[self.device_of[op as usize] as usize] = tails[op as usize];
        }
        // What is decided already cannot get better.
        let equal = self.rng.chance(TAKE_EQUAL);
        if fixed >= self.value && !equal {
            return None;
        }
        let mut part = Subproblem::new(dense, self.tails, self.sequence[first..first + size].to_vec());
        part.set_releases(|i, device| {
            let op = part_op(&self.sequence, first, i);
            let mut release = dense.release(op, device);
            for edge in dense.inputs(op).iter().filter(|edge| place[edge.op as usize] == 0) {
                let from = self.device_of[edge.op as usize] as usize;
                release = release.max(self.finish[edge.op as usize] + dense.delay(edge.size, from, device));
            }
            release
        });
        self.restrict(&mut part, first, size);
        let own = |i: usize, device: usize| {
            let op = part_op(&self.sequence, first, i);
            let mut rest = dense.way_out(op, device);
            for edge in dense.outputs(op).iter().filter(|edge| place[edge.op as usize] == AFTER) {
                let to = self.device_of[edge.op as usize] as usize;
                rest = rest.max(dense.delay(edge.size, device, to) + tails[edge.op as usize]);
            }
            dense.time(op, device).saturating_add(rest).min(NEVER)
        };
        part.set_surroundings(free, own, device_tails);
        let limit = self.value + u64::from(equal);
        let settings = SearchWidth { width: WIDTH, limit, weights: self.weights, levels: usize::MAX };
        let found = search(&part, &settings, stop);
        self.rows += found.rows;
        let (_, steps) = found.best?;
        Some(steps.into_iter().map(|(i, device)| (self.sequence[first + i as usize], device)).collect())
    }

    /// Keeps ops of a window where colocation or memory leave no choice.
    fn restrict(&mut self, part: &mut Subproblem, first: usize, size: usize) {
        let limited = self.room.is_limited();
        for i in 0..size {
            let op = part_op(&self.sequence, first, i);
            let (unit, here) = (self.units.of(op), self.device_of[op]);
            let alone = self.units.members(unit).len() == 1;
            if alone && !limited {
                continue;
            }
            self.room.take(unit, here);
            part.restrict(i, |device| device == here || (alone && self.room.fits(unit, device)));
            self.room.put(unit, here);
        }
    }

    /// Moves ops in memory; if they do not fit together, none is moved.
    fn move_units(&mut self, window: &[(u32, u32)]) -> bool {
        let moves: Vec<(usize, u32, u32)> = (window.iter())
            .map(|&(op, to)| (self.units.of(op as usize), self.device_of[op as usize], to))
            .filter(|(_, from, to)| from != to)
            .collect();
        moves.iter().for_each(|&(unit, from, _)| self.room.take(unit, from));
        moves.iter().for_each(|&(unit, _, to)| self.room.put(unit, to));
        if self.room.overfull().next().is_none() {
            return true;
        }
        moves.iter().for_each(|&(unit, _, to)| self.room.take(unit, to));
        moves.iter().for_each(|&(unit, from, _)| self.room.put(unit, from));
        false
    }
}

fn part_op(sequence: &[u32], first: usize, i: usize) -> usize {
    sequence[first + i] as usize
}

/// The ops of a valid plan in an order that respects data and devices.
fn topological(dense: &LatencyTables, plan: &LatencyPlan) -> Vec<u32> {
    let mut waiting: Vec<usize> = (0..dense.op_count()).map(|op| dense.inputs(op).len()).collect();
    let mut after: Vec<Option<u32>> = vec![None; dense.op_count()];
    for ops in &plan.order {
        for pair in ops.windows(2) {
            after[pair[0].index()] = Some(pair[1].0);
            waiting[pair[1].index()] += 1;
        }
    }
    let mut ready: Vec<u32> = (0..dense.op_count() as u32).filter(|&op| waiting[op as usize] == 0).collect();
    let mut sequence = Vec::with_capacity(dense.op_count());
    while let Some(op) = ready.pop() {
        sequence.push(op);
        let next = dense.outputs(op as usize).iter().map(|edge| edge.op).chain(after[op as usize]);
        for next in next {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    sequence
}
