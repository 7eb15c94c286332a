//! Units in numbered stages, and what moving one unit costs.
//!
//! Data flow from lower numbers to higher ones only, so stages never depend on each other in a circle: a unit may move
//! anywhere from the last of its predecessors' stages to the first of its successors'. For every tensor the readers in
//! each stage are counted; a move then changes the cost of two stages, by the unit's own tensors alone. Each stage
//! stands on a sort of device. Costs are those of even links, without overflow.

use crate::pipeline::tables::{NEVER, NOBODY};
use divvy_core::rng::Rng;

use crate::pipeline::stage_network::StageNetwork;

/// Which stage every unit is in.
#[derive(Clone)]
pub(crate) struct Labels<'n> {
    net: &'n StageNetwork<'n>,
    stages: usize,
    /// The sort of each stage's device.
    sort_of: Vec<u32>,
    stage_of: Vec<u32>,
    /// Tensor after tensor, its readers in each stage.
    readers: Vec<u32>,
    /// The cost of each stage.
    cost: Vec<i64>,
    members: Vec<u32>,
}

/// A move and what it makes of the two stages.
#[derive(Clone, Copy)]
pub(crate) struct StageMove {
    pub(crate) unit: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) cost_from: i64,
    pub(crate) cost_to: i64,
}

impl<'n> Labels<'n> {
    /// The stages given; numbers must not fall along any edge.
    pub(crate) fn new(net: &'n StageNetwork<'n>, stage_of: Vec<u32>, sort_of: Vec<u32>) -> Labels<'n> {
        let stages = sort_of.len();
        let mut labels = Labels {
            net,
            stages,
            sort_of,
            stage_of,
            readers: vec![0; net.tensor_count() * stages],
            cost: vec![0; stages],
            members: vec![0; stages],
        };
        labels.recount();
        labels
    }

    /// Counts and costs from scratch.
    fn recount(&mut self) {
        let net = self.net;
        self.readers.fill(0);
        self.cost.fill(0);
        self.members.fill(0);
        for unit in 0..net.len() {
            let stage = self.stage_of[unit] as usize;
            self.members[stage] += 1;
            let work = net.work(unit, self.sort_of[stage] as usize);
            // A stage with something that may not run there is dearer than any that is valid.
            self.cost[stage] = self.cost[stage].saturating_add(work as i64);
        }
        for tensor in 0..net.tensor_count() {
            for &reader in net.readers.get(tensor) {
                self.readers[tensor * self.stages + self.stage_of[reader as usize] as usize] += 1;
            }
            self.add_tensor(tensor);
        }
    }

    fn add_tensor(&mut self, tensor: usize) {
        let net = self.net;
        let home = match net.maker[tensor] {
            NOBODY => self.stages,
            unit => self.stage_of[unit as usize] as usize,
        };
        let mut outside = false;
        for stage in 0..self.stages {
            if stage != home && self.readers[tensor * self.stages + stage] > 0 {
                outside = true;
                let time = net.enter(tensor, self.sort_of[stage] as usize) as i64;
                self.cost[stage] = self.cost[stage].saturating_add(time);
            }
        }
        if home < self.stages {
            let sort = self.sort_of[home] as usize;
            if outside || net.must_leave(tensor, sort) {
                self.cost[home] = self.cost[home].saturating_add(net.leave(tensor, sort) as i64);
            }
        }
    }

    pub(crate) fn stages(&self) -> usize {
        self.stages
    }

    pub(crate) fn stage_of(&self, unit: usize) -> u32 {
        self.stage_of[unit]
    }

    pub(crate) fn sorts(&self) -> &[u32] {
        &self.sort_of
    }

    pub(crate) fn costs(&self) -> &[i64] {
        &self.cost
    }

    /// The cost of the dearest stage.
    pub(crate) fn value(&self) -> i64 {
        self.cost.iter().copied().max().unwrap_or(0)
    }

    /// The lowest and the highest stage that a unit may be in.
    pub(crate) fn range(&self, unit: usize) -> (u32, u32) {
        let before = self.net.predecessors.get(unit).iter().map(|&u| self.stage_of[u as usize]);
        let after = self.net.successors.get(unit).iter().map(|&u| self.stage_of[u as usize]);
        (before.max().unwrap_or(0), after.min().unwrap_or(self.stages as u32 - 1))
    }

    /// What moving a unit would make of the two stages; none where it may not run.
    pub(crate) fn try_move(&self, unit: u32, to: u32) -> Option<StageMove> {
        let net = self.net;
        let (unit, to) = (unit as usize, to as usize);
        let from = self.stage_of[unit] as usize;
        let (sort_from, sort_to) = (self.sort_of[from] as usize, self.sort_of[to] as usize);
        let work_to = net.work(unit, sort_to);
        if work_to >= NEVER {
            return None;
        }
        let mut cost_from = self.cost[from].wrapping_sub(net.work(unit, sort_from) as i64);
        let mut cost_to = self.cost[to].wrapping_add(work_to as i64);
        for &tensor in net.inputs.get(unit) {
            let tensor = tensor as usize;
            let maker = net.maker[tensor];
            let home = if maker == NOBODY { usize::MAX } else { self.stage_of[maker as usize] as usize };
            let row = tensor * self.stages;
            let (in_from, in_to) = (self.readers[row + from], self.readers[row + to]);
            if home == from {
                // It stays at home no longer; the home pays if nobody made it leave before.
                let total = net.readers.get(tensor).len() as u32;
                if in_from == total && !net.must_leave(tensor, sort_from) {
                    cost_from = cost_from.wrapping_add(net.leave(tensor, sort_from) as i64);
                }
            } else if in_from == 1 {
                cost_from = cost_from.wrapping_sub(net.enter(tensor, sort_from) as i64);
            }
            if home == to {
                let total = net.readers.get(tensor).len() as u32;
                if in_to + 1 == total && !net.must_leave(tensor, sort_to) {
                    cost_to = cost_to.wrapping_sub(net.leave(tensor, sort_to) as i64);
                }
            } else if in_to == 0 {
                cost_to = cost_to.wrapping_add(net.enter(tensor, sort_to) as i64);
            }
        }
        for &tensor in net.outputs.get(unit) {
            let tensor = tensor as usize;
            let row = tensor * self.stages;
            let (in_from, in_to) = (self.readers[row + from], self.readers[row + to]);
            let total = net.readers.get(tensor).len() as u32;
            if in_from < total || net.must_leave(tensor, sort_from) {
                cost_from = cost_from.wrapping_sub(net.leave(tensor, sort_from) as i64);
            }
            if in_from > 0 {
                cost_from = cost_from.wrapping_add(net.enter(tensor, sort_from) as i64);
            }
            if in_to > 0 {
                cost_to = cost_to.wrapping_sub(net.enter(tensor, sort_to) as i64);
            }
            if in_to < total || net.must_leave(tensor, sort_to) {
                cost_to = cost_to.wrapping_add(net.leave(tensor, sort_to) as i64);
            }
        }
        Some(StageMove { unit: unit as u32, from: from as u32, to: to as u32, cost_from, cost_to })
    }

    /// Makes a move.
    pub(crate) fn make(&mut self, step: &StageMove) {
        let (unit, from, to) = (step.unit as usize, step.from as usize, step.to as usize);
        for &tensor in self.net.inputs.get(unit) {
            let row = tensor as usize * self.stages;
            self.readers[row + from] -= 1;
            self.readers[row + to] += 1;
        }
        self.stage_of[unit] = step.to;
        self.cost[from] = step.cost_from;
        self.cost[to] = step.cost_to;
        self.members[from] -= 1;
        self.members[to] += 1;
    }

    /// Numbers the stages anew, in a random order that data still flow forward in. Costs stay what they are.
    pub(crate) fn renumber(&mut self, rng: &mut Rng) {
        let net = self.net;
        let stages = self.stages;
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for unit in 0..net.len() {
            let here = self.stage_of[unit];
            let after = net.successors.get(unit).iter().map(|&next| (here, self.stage_of[next as usize]));
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
        let old = self.sort_of.clone();
        for (stage, &at) in place.iter().enumerate() {
            self.sort_of[at as usize] = old[stage];
        }
        self.recount();
    }

    /// Gives two stages each other's devices.
    pub(crate) fn swap_devices(&mut self, a: usize, b: usize) {
        self.sort_of.swap(a, b);
        self.recount();
    }

    /// The units stage after stage, each stage in the network's own order.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut order = self.net.order.clone();
        order.sort_by_key(|&unit| self.stage_of[unit as usize]);
        order
    }
}
