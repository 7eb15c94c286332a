//! The memory of all stages that end at one position of an order: weights, and the peak of the activations alive.
//!
//! With ops numbered by position, the tensors alive at position i of the stage [l, r] are those produced before l and read in
//! [i, r], and those produced in [l, i] that are read at i or later anywhere, are outputs of the network, or are produced at i.
//! From l to l − 1 only the tensors that l − 1 produces change from the first set to the second, which adds bytes to a suffix
//! of the positions. So of two positions the later one, once it holds at least as much as the earlier, always does: a monotone
//! stack of candidates for the peak is enough. Amortised O(tensors of the op + candidates) for each step.

use crate::pipeline::number_lists::NumberLists;
use crate::pipeline::stage_network::StageNetwork;

/// The memory of a stage whose end is fixed and whose start moves towards the front.
pub(crate) struct StageMemory {
    /// The ops in the order loaded.
    ops: Vec<u32>,
    /// By position of a unit, where its ops start.
    starts: Vec<u32>,
    /// By tensor, the position of its last reader; [`ALWAYS`] for outputs of the network.
    last: Vec<u32>,
    /// By tensor, the round in which the stage first read it.
    seen: Vec<u32>,
    /// By tensor seen, the position of its last reader in the stage.
    read_until: Vec<u32>,
    /// By parameter, the round in which the stage first read it.
    param_seen: Vec<u32>,
    /// The number of ends so far, which spares clearing the tables.
    round: u32,
    end: u32,
    /// Bytes of the tensors that enter the stage.
    entering: u64,
    weights: u64,
    /// Candidates for the peak: positions falling, bytes alive there rising.
    steps: Vec<(u32, u64)>,
    /// Whether activations count.
    activations: bool,
}

const ALWAYS: u32 = u32::MAX;

impl StageMemory {
    pub(crate) fn new(network: &StageNetwork<'_>) -> StageMemory {
        let tables = network.tables;
        StageMemory {
            ops: Vec::new(),
            starts: Vec::new(),
            last: vec![0; tables.tensor_count()],
            seen: vec![0; tables.tensor_count()],
            read_until: vec![0; tables.tensor_count()],
            param_seen: vec![0; tables.param_count()],
            round: 0,
            end: 0,
            entering: 0,
            weights: 0,
            steps: Vec::new(),
            activations: tables.activations_count(),
        }
    }

    /// Sets the order of units.
    pub(crate) fn load(&mut self, network: &StageNetwork<'_>, order: &[u32], ops: &NumberLists) {
        let tables = network.tables;
        self.ops.clear();
        self.starts.clear();
        for &unit in order {
            self.starts.push(self.ops.len() as u32);
            self.ops.extend(ops.get(unit as usize));
        }
        self.starts.push(self.ops.len() as u32);
        for (tensor, last) in self.last.iter_mut().enumerate() {
            *last = if tables.is_output(tensor) { ALWAYS } else { 0 };
        }
        for (position, &op) in self.ops.iter().enumerate() {
            for &tensor in tables.inputs(op as usize) {
                let last = &mut self.last[tensor as usize];
                *last = (*last).max(position as u32);
            }
        }
    }

    /// Starts with the empty stage that ends with the unit at position `end`.
    pub(crate) fn begin(&mut self, end: usize) {
        self.round += 1;
        self.end = self.starts[end + 1] - 1;
        (self.entering, self.weights) = (0, 0);
        self.steps.clear();
    }

    /// Adds the unit at position `start` in front. The bytes of weights, and those alive at the peak.
    pub(crate) fn prepend(&mut self, network: &StageNetwork<'_>, start: usize) -> (u64, u64) {
        let tables = network.tables;
        for position in (self.starts[start]..self.starts[start + 1]).rev() {
            let op = self.ops[position as usize] as usize;
            for &param in tables.params(op) {
                if std::mem::replace(&mut self.param_seen[param as usize], self.round) != self.round {
                    self.weights += tables.param_bytes(param as usize);
                }
            }
            if self.activations {
                self.prepend_op(network, op, position);
            }
        }
        (self.weights, self.steps.last().map_or(0, |step| step.1))
    }

    fn prepend_op(&mut self, network: &StageNetwork<'_>, op: usize, position: u32) {
        let tables = network.tables;
        let mut produced = 0;
        for &tensor in tables.outputs(op) {
            let tensor = tensor as usize;
            let bytes = tables.bytes(tensor);
            produced += bytes;
            let read_here = self.seen[tensor] == self.round;
            if read_here {
                self.entering -= bytes;
            }
            if self.last[tensor] > self.end {
                let from = if read_here { self.read_until[tensor] } else { position };
                self.raise_after(from, bytes);
            }
        }
        for &tensor in tables.inputs(op) {
            let tensor = tensor as usize;
            if self.seen[tensor] != self.round {
                self.seen[tensor] = self.round;
                self.read_until[tensor] = position;
                self.entering += tables.bytes(tensor);
            }
        }
        let alive = self.entering + produced;
        if self.steps.last().is_none_or(|step| step.1 < alive) {
            self.steps.push((position, alive));
        }
    }

    /// Adds bytes to every position after `from`.
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
