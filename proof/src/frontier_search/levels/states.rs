//! A level of the search: sets of scheduled ops, and the states of each.

use std::collections::HashMap;

/// All states with the same set of ops scheduled.
pub(super) struct StatesOfSet {
    pub(super) scheduled: Box<[u64]>,
    /// Ops that may come next, and where in a state the tensors they read are.
    pub(super) ready: Vec<(u32, Vec<u32>)>,
    /// Tensors still needed, in the order of their place in a state.
    pub(super) ports: Vec<u32>,
    /// For each tensor still needed, the ops that wait for it.
    pub(super) waits: Vec<WaitingOps>,
    /// For each device, the least `rest` of ops that are not ready and may run there.
    pub(super) rest_on: Vec<u64>,
    /// For some sets of unscheduled ops: the least continuation behind them, and their area under each list of weights.
    pub(super) area_sets: Vec<(u64, Vec<u64>)>,
    /// The states, one row of numbers after the other.
    pub(super) rows: Vec<u64>,
    /// For each state, a lower bound on its completions.
    pub(super) least: Vec<u64>,
    /// For each state, the part of that bound that the scheduled ops decide by themselves.
    pub(super) decided: Vec<u64>,
    /// For each state, the step that led to it.
    pub(super) steps: Vec<BackPointer>,
    /// The number in the log of the first state, once the level is complete.
    pub(super) first_number: u32,
}

impl StatesOfSet {
    pub(super) fn push(&mut self, least: u64, decided: u64, step: BackPointer) {
        self.least.push(least);
        self.decided.push(decided);
        self.steps.push(step);
    }

    pub(super) fn count(&self) -> usize {
        self.least.len()
    }

    pub(super) fn retain(&mut self, keep: &[bool], devices: usize) {
        let length = (self.ports.len() + 1) * devices;
        let mut kept = 0;
        for row in (0..keep.len()).filter(|&row| keep[row]) {
            if row > kept {
                self.rows.copy_within(row * length..(row + 1) * length, kept * length);
                self.least[kept] = self.least[row];
                self.decided[kept] = self.decided[row];
                self.steps[kept] = self.steps[row];
            }
            kept += 1;
        }
        self.rows.truncate(kept * length);
        self.least.truncate(kept);
        self.decided.truncate(kept);
        self.steps.truncate(kept);
    }
}

/// The ops that wait for a tensor.
pub(super) struct WaitingOps {
    /// Ready ops, as positions in the list of ready ops.
    pub(super) ready: Vec<u32>,
    /// The least `rest` of ops that are not ready: a lower bound on the time their predecessors still take once the first of
    /// all ready ops has ended.
    pub(super) rest: u64,
}

/// The step that led to a state.
#[derive(Clone, Copy)]
pub(super) struct BackPointer {
    /// The number of the state before.
    pub(super) before: u32,
    pub(super) op: u32,
    pub(super) device: u32,
}

/// All states with the same number of ops scheduled, by the set of these ops.
#[derive(Default)]
pub(super) struct StateLevel {
    pub(super) sets: Vec<StatesOfSet>,
    pub(super) index: HashMap<Box<[u64]>, usize, std::hash::BuildHasherDefault<FoldHasher>>,
}

impl StateLevel {
    pub(super) fn count(&self) -> usize {
        self.sets.iter().map(StatesOfSet::count).sum()
    }

    pub(super) fn add(&mut self, set: StatesOfSet) -> usize {
        self.index.insert(set.scheduled.clone(), self.sets.len());
        self.sets.push(set);
        self.sets.len() - 1
    }
}

/// A fast hash of bit sets without a random seed, so that searches are deterministic.
#[derive(Default)]
pub(super) struct FoldHasher(u64);

impl std::hash::Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
