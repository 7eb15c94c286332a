//! How many bytes a stage holds, for every stage that ends at one place of an order.
//!
//! With the ops numbered by their place, what lives at place i of the stage from l to r is: what was made before l and
//! is read somewhere from i to r; and what was made from l to i and is read at i or later anywhere, or is an output
//! of the network, or is made at i itself. Going from l to l − 1 changes the first sort into the second for what l − 1
//! makes, which adds bytes to some of the last places only. So of two places the later one, once it holds no less than
//! the earlier, always will: only a falling staircase of places is kept, and its first step is the peak.

use crate::pipeline::stage_network::{NumberLists, StageNetwork};

/// Bytes of stages that end at one place and begin ever earlier.
pub(crate) struct Held {
    /// Ops in the order loaded, and where each unit's ops begin.
    ops: Vec<u32>,
    starts: Vec<u32>,
    /// For each tensor its last reader's place; beyond the end for outputs of the network.
    last: Vec<u32>,
    /// For each tensor and parameter, the round in which it was met, and the place of its last reader in the stage.
    met: Vec<u32>,
    read_until: Vec<u32>,
    param_met: Vec<u32>,
    round: u32,
    end: u32,
    entering: u64,
    weights: u64,
    /// Places and the bytes alive there: places falling, bytes rising.
    steps: Vec<(u32, u64)>,
    activations: bool,
}

const FOREVER: u32 = u32::MAX;

impl Held {
    pub(crate) fn new(net: &StageNetwork<'_>) -> Held {
        let dense = net.dense;
        Held {
            ops: Vec::new(),
            starts: Vec::new(),
            last: vec![0; dense.tensor_count()],
            met: vec![0; dense.tensor_count()],
            read_until: vec![0; dense.tensor_count()],
            param_met: vec![0; dense.param_count()],
            round: 0,
            end: 0,
            entering: 0,
            weights: 0,
            steps: Vec::new(),
            activations: dense.activations_count(),
        }
    }

    /// Takes an order of units.
    pub(crate) fn load(&mut self, net: &StageNetwork<'_>, order: &[u32], ops: &NumberLists) {
        let dense = net.dense;
        self.ops.clear();
        self.starts.clear();
        for &unit in order {
            self.starts.push(self.ops.len() as u32);
            self.ops.extend(ops.get(unit as usize));
        }
        self.starts.push(self.ops.len() as u32);
        for (tensor, last) in self.last.iter_mut().enumerate() {
            *last = if dense.is_output(tensor) { FOREVER } else { 0 };
        }
        for (place, &op) in self.ops.iter().enumerate() {
            for &tensor in dense.inputs(op as usize) {
                let last = &mut self.last[tensor as usize];
                *last = (*last).max(place as u32);
            }
        }
    }

    /// Starts over with the stages that end with the unit at `end`.
    pub(crate) fn begin(&mut self, end: usize) {
        self.round += 1;
        self.end = self.starts[end + 1] - 1;
        (self.entering, self.weights) = (0, 0);
        self.steps.clear();
    }

    /// Bytes of weights of the stage that now begins with the unit at `start`, and bytes alive at its peak.
    pub(crate) fn prepend(&mut self, net: &StageNetwork<'_>, start: usize) -> (u64, u64) {
        let dense = net.dense;
        for place in (self.starts[start]..self.starts[start + 1]).rev() {
            let op = self.ops[place as usize] as usize;
            for &param in dense.params(op) {
                if std::mem::replace(&mut self.param_met[param as usize], self.round) != self.round {
                    self.weights += dense.param_bytes(param as usize);
                }
            }
            if self.activations {
                self.prepend_op(net, op, place);
            }
        }
        (self.weights, self.steps.last().map_or(0, |step| step.1))
    }

    fn prepend_op(&mut self, net: &StageNetwork<'_>, op: usize, place: u32) {
        let dense = net.dense;
        let mut made = 0;
        for &tensor in dense.outputs(op) {
            let tensor = tensor as usize;
            let bytes = dense.bytes(tensor);
            made += bytes;
            let read_here = self.met[tensor] == self.round;
            if read_here {
                self.entering -= bytes;
            }
            if self.last[tensor] > self.end {
                let from = if read_here { self.read_until[tensor] } else { place };
                self.raise_after(from, bytes);
            }
        }
        for &tensor in dense.inputs(op) {
            let tensor = tensor as usize;
            if self.met[tensor] != self.round {
                self.met[tensor] = self.round;
                self.read_until[tensor] = place;
                self.entering += dense.bytes(tensor);
            }
        }
        let alive = self.entering + made;
        if self.steps.last().is_none_or(|step| step.1 < alive) {
            self.steps.push((place, alive));
        }
    }

    /// Adds bytes to every place after `from`.
    fn raise_after(&mut self, from: u32, bytes: u64) {
        let raised = self.steps.partition_point(|step| step.0 > from);
        for step in &mut self.steps[..raised] {
            step.1 += bytes;
        }
        if raised > 0 {
            let highest = self.steps[raised - 1].1;
            let kept = self.steps[raised..].partition_point(|step| step.1 <= highest);
            self.steps.drain(raised..raised + kept);
        }
    }
}
