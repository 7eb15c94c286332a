//! Units in numbered stages, with the cost of each stage kept up to date.
//!
//! Stage numbers never fall along an edge, so the quotient graph is acyclic: a unit may move anywhere between the highest stage
//! of its predecessors and the lowest of its successors. The readers of every tensor are counted by stage; a move then changes
//! the cost of two stages by the unit's own tensors, in O(tensors of the unit): **the cost of one moved op**. Each stage has a
//! kind of device. Costs are exact for even links, without overflow and memory.

use divvy_core::rng::Rng;

use crate::pipeline::stage_network::StageNetwork;
use crate::pipeline::tables::{NETWORK_INPUT, NEVER};

/// The stage of every unit, and the kind of every stage.
#[derive(Clone)]
pub(crate) struct StageAssignment<'n> {
    network: &'n StageNetwork<'n>,
    stages: usize,
    /// By stage.
    kind_of: Vec<u32>,
    /// By unit.
    stage_of: Vec<u32>,
    /// By tensor and stage, the number of readers there.
    readers: Vec<u32>,
    /// By stage.
    cost: Vec<i64>,
}

/// A move, and the costs of the two stages after it.
#[derive(Clone, Copy)]
pub(crate) struct StageMove {
    unit: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) cost_from: i64,
    pub(crate) cost_to: i64,
}

impl<'n> StageAssignment<'n> {
    /// An assignment in which stage numbers do not fall along any edge.
    pub(crate) fn new(
        network: &'n StageNetwork<'n>,
        stage_of: Vec<u32>,
        kind_of: Vec<u32>,
    ) -> StageAssignment<'n> {
        let stages = kind_of.len();
        let mut assignment = StageAssignment {
            network,
            stages,
            kind_of,
            stage_of,
            readers: vec![0; network.tensor_count() * stages],
            cost: vec![0; stages],
        };
        assignment.recount();
        assignment
    }

    /// Counts and costs from scratch.
    fn recount(&mut self) {
        let network = self.network;
        self.readers.fill(0);
        self.cost.fill(0);
        for unit in 0..network.len() {
            let stage = self.stage_of[unit] as usize;
            let work = network.work(unit, self.kind_of[stage] as usize);
            // A stage with a unit that must not run there costs more than any valid one.
            self.cost[stage] = self.cost[stage].saturating_add(work as i64);
        }
        for tensor in 0..network.tensor_count() {
            for &reader in network.readers.get(tensor) {
                self.readers[tensor * self.stages + self.stage_of[reader as usize] as usize] += 1;
            }
            self.add_tensor(tensor);
        }
    }

    fn add_tensor(&mut self, tensor: usize) {
        let network = self.network;
        let home = match network.producer[tensor] {
            NETWORK_INPUT => self.stages,
            unit => self.stage_of[unit as usize] as usize,
        };
        let mut outside = false;
        for stage in 0..self.stages {
            if stage != home && self.readers[tensor * self.stages + stage] > 0 {
                outside = true;
                let time = network.enter(tensor, self.kind_of[stage] as usize) as i64;
                self.cost[stage] = self.cost[stage].saturating_add(time);
            }
        }
        if home < self.stages {
            let kind = self.kind_of[home] as usize;
            if outside || network.must_leave(tensor, kind) {
                self.cost[home] = self.cost[home].saturating_add(network.leave(tensor, kind) as i64);
            }
        }
    }

    pub(crate) fn stages(&self) -> usize {
        self.stages
    }

    pub(crate) fn stage_of(&self, unit: usize) -> u32 {
        self.stage_of[unit]
    }

    pub(crate) fn kinds(&self) -> &[u32] {
        &self.kind_of
    }

    pub(crate) fn costs(&self) -> &[i64] {
        &self.cost
    }

    /// The largest cost of a stage.
    pub(crate) fn value(&self) -> i64 {
        self.cost.iter().copied().max().unwrap_or(0)
    }

    /// The lowest and the highest stage that precedence allows a unit.
    pub(crate) fn range(&self, unit: usize) -> (u32, u32) {
        let before = self.network.predecessors.get(unit).iter().map(|&u| self.stage_of[u as usize]);
        let after = self.network.successors.get(unit).iter().map(|&u| self.stage_of[u as usize]);
        (before.max().unwrap_or(0), after.min().unwrap_or(self.stages as u32 - 1))
    }

    /// Evaluates a move; none if the unit must not run in that stage.
    pub(crate) fn try_move(&self, unit: u32, to: u32) -> Option<StageMove> {
        let network = self.network;
        let (unit, to) = (unit as usize, to as usize);
        let from = self.stage_of[unit] as usize;
        let (sort_from, sort_to) = (self.kind_of[from] as usize, self.kind_of[to] as usize);
        let work_to = network.work(unit, sort_to);
        if work_to >= NEVER {
            return None;
        }
        let mut cost_from = self.cost[from].wrapping_sub(network.work(unit, sort_from) as i64);
        let mut cost_to = self.cost[to].wrapping_add(work_to as i64);
        for &tensor in network.inputs.get(unit) {
            let tensor = tensor as usize;
            let producer = network.producer[tensor];
            let home = if producer == NETWORK_INPUT {
                usize::MAX
            } else {
                self.stage_of[producer as usize] as usize
            };
            let row = tensor * self.stages;
            let (in_from, in_to) = (self.readers[row + from], self.readers[row + to]);
            if home == from {
                // The first reader outside its producer's stage makes the tensor leave.
                let total = network.readers.get(tensor).len() as u32;
                if in_from == total && !network.must_leave(tensor, sort_from) {
                    cost_from = cost_from.wrapping_add(network.leave(tensor, sort_from) as i64);
                }
            } else if in_from == 1 {
                cost_from = cost_from.wrapping_sub(network.enter(tensor, sort_from) as i64);
            }
            if home == to {
                let total = network.readers.get(tensor).len() as u32;
                if in_to + 1 == total && !network.must_leave(tensor, sort_to) {
                    cost_to = cost_to.wrapping_sub(network.leave(tensor, sort_to) as i64);
                }
            } else if in_to == 0 {
                cost_to = cost_to.wrapping_add(network.enter(tensor, sort_to) as i64);
            }
        }
        for &tensor in network.outputs.get(unit) {
            let tensor = tensor as usize;
            let row = tensor * self.stages;
            let (in_from, in_to) = (self.readers[row + from], self.readers[row + to]);
            let total = network.readers.get(tensor).len() as u32;
            if in_from < total || network.must_leave(tensor, sort_from) {
                cost_from = cost_from.wrapping_sub(network.leave(tensor, sort_from) as i64);
            }
            if in_from > 0 {
                cost_from = cost_from.wrapping_add(network.enter(tensor, sort_from) as i64);
            }
            if in_to > 0 {
                cost_to = cost_to.wrapping_sub(network.enter(tensor, sort_to) as i64);
            }
            if in_to < total || network.must_leave(tensor, sort_to) {
                cost_to = cost_to.wrapping_add(network.leave(tensor, sort_to) as i64);
            }
        }
        Some(StageMove { unit: unit as u32, from: from as u32, to: to as u32, cost_from, cost_to })
    }

    /// Makes a move.
    pub(crate) fn make(&mut self, step: &StageMove) {
        let (unit, from, to) = (step.unit as usize, step.from as usize, step.to as usize);
        for &tensor in self.network.inputs.get(unit) {
            let row = tensor as usize * self.stages;
            self.readers[row + from] -= 1;
            self.readers[row + to] += 1;
        }
        self.stage_of[unit] = step.to;
        self.cost[from] = step.cost_from;
        self.cost[to] = step.cost_to;
    }

    /// Renumbers the stages by a random topological order of the quotient graph. Costs do not change.
    pub(crate) fn renumber(&mut self, rng: &mut Rng) {
        let network = self.network;
        let stages = self.stages;
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for unit in 0..network.len() {
            let here = self.stage_of[unit];
            let after = network.successors.get(unit).iter().map(|&next| (here, self.stage_of[next as usize]));
            pairs.extend(after.filter(|(a, b)| a != b));
            if pairs.len() > 1 << 20 {
                pairs.sort_unstable();
                pairs.dedup();
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut waiting = vec![0u32; stages];
        for &(_, later) in &pairs {
            waiting[later as usize] += 1;
        }
        let mut ready: Vec<u32> = (0..stages as u32).filter(|&s| waiting[s as usize] == 0).collect();
        let mut place = vec![0u32; stages];
        for next in 0..stages {
            let stage = ready.swap_remove(rng.below(ready.len()));
            place[stage as usize] = next as u32;
            let first = pairs.partition_point(|pair| pair.0 < stage);
            for &(_, later) in pairs[first..].iter().take_while(|pair| pair.0 == stage) {
                waiting[later as usize] -= 1;
                if waiting[later as usize] == 0 {
                    ready.push(later);
                }
            }
        }
        for stage in &mut self.stage_of {
            *stage = place[*stage as usize];
        }
        let old = self.kind_of.clone();
        for (stage, &at) in place.iter().enumerate() {
            self.kind_of[at as usize] = old[stage];
        }
        self.recount();
    }

    /// Swaps the kinds of two stages.
    pub(crate) fn swap_devices(&mut self, a: usize, b: usize) {
        self.kind_of.swap(a, b);
        self.recount();
    }

    /// The units by stage, each stage in the network's own order: a topological order.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut order = self.network.order.clone();
        order.sort_by_key(|&unit| self.stage_of[unit as usize]);
        order
    }
}
