//! Contraction of serial chains of a `batch` problem.
//!
//! An op joins the chain of its predecessor if neither has another neighbour on that side, neither is colocated, both
//! have the same choices, and nothing enters or leaves the network between them. Divided alike, the ops of a chain
//! then run back to back, so a schedule of chains is a schedule of the ops, with the same makespan.

use divvy_proof::latency_tables::{Edge, NEVER};

use crate::batch::tables::{BatchTables, delivering_ops};

/// The chains of a network: the chain of each op, the ops of each chain, and the order of the chains.
struct SerialChains {
    chain_of: Vec<u32>,
    chains: Vec<Vec<u32>>,
    order: Vec<u32>,
}

impl BatchTables {
    /// The arrays of the problem with serial chains contracted; none if there are no chains.
    pub(crate) fn contract_chains(&self) -> Option<BatchTables> {
        let per_op = self.devices * (self.groups + 1);
        let SerialChains { chain_of, chains, order } = self.serial_chains(per_op);
        if chains.len() == self.ops {
            return None;
        }
        let at_end = |end: fn(&[u32]) -> Option<&u32>, times: &[u64]| {
            let of_op = |chain: &Vec<u32>| {
                let begin = end(chain).map_or(0, |&op| op as usize * per_op);
                times.get(begin..begin + per_op).unwrap_or_default()
            };
            chains.iter().flat_map(of_op).copied().collect()
        };
        let renumbered = |edges: &[Edge]| {
            edges.iter().map(|edge| Edge { op: chain_of[edge.op as usize], size: edge.size }).collect()
        };
        let (mut unit_of, mut members, mut choices) = (vec![0; chains.len()], Vec::new(), Vec::new());
        for (unit, ops) in self.members.iter().enumerate() {
            let is_first = |op: &&u32| chains[chain_of[**op as usize] as usize][0] == **op;
            let ops: Vec<u32> = ops.iter().filter(is_first).map(|&op| chain_of[op as usize]).collect();
            if !ops.is_empty() {
                ops.iter().for_each(|&op| unit_of[op as usize] = members.len() as u32);
                members.push(ops);
                choices.push(self.choices[unit].clone());
            }
        }
        let mut times = vec![0; chains.len() * self.classes * (self.groups + 1)];
        for (sums, chain) in times.chunks_mut(self.classes * (self.groups + 1)).zip(&chains) {
            for &op in chain {
                let own = &self.times[op as usize * sums.len()..][..sums.len()];
                sums.iter_mut().zip(own).for_each(|(sum, &time)| *sum = (*sum + time).min(NEVER));
            }
        }
        let delivery: Vec<u64> = at_end(<[u32]>::last, &self.delivery);
        Some(BatchTables {
            ops: chains.len(),
            devices: self.devices,
            groups: self.groups,
            group_size: self.group_size,
            class_of: self.class_of.clone(),
            classes: self.classes,
            times,
            inputs: chains.iter().map(|chain| renumbered(&self.inputs[chain[0] as usize])).collect(),
            outputs: chains
                .iter()
                .map(|chain| renumbered(&self.outputs[chain[chain.len() - 1] as usize]))
                .collect(),
            order,
            kinds: self.kinds.clone(),
            kind_count: self.kind_count,
            delays: self.delays.clone(),
            release: at_end(<[u32]>::first, &self.release),
            delivering_ops: delivering_ops(&delivery, per_op),
            delivery,
            unit_of,
            members,
            choices,
            chains,
        })
    }

    /// The serial chains; an op of no chain is one by itself.
    fn serial_chains(&self, per_op: usize) -> SerialChains {
        let is_alone = |op: u32| self.members[self.unit_of[op as usize] as usize].len() == 1;
        let is_at_end = |times: &[u64], op: u32| {
            times.chunks(per_op).nth(op as usize).is_some_and(|times| times.iter().any(|&time| time > 0))
        };
        let predecessor = |op: u32| {
            let [edge] = self.inputs[op as usize][..] else { return None };
            let choices = [op, edge.op].map(|op| &self.choices[self.unit_of[op as usize] as usize]);
            let follows = self.outputs[edge.op as usize].len() == 1
                && is_alone(op)
                && is_alone(edge.op)
                && choices[0] == choices[1]
                && !is_at_end(&self.release, op)
                && !is_at_end(&self.delivery, edge.op);
            follows.then_some(edge.op)
        };
        let mut chain_of = vec![0u32; self.ops];
        let mut chains: Vec<Vec<u32>> = Vec::new();
        let mut order = Vec::new();
        for &op in &self.order {
            chain_of[op as usize] = match predecessor(op) {
                Some(before) => chain_of[before as usize],
                None => {
                    order.push(chains.len() as u32);
                    chains.push(Vec::new());
                    chains.len() as u32 - 1
                }
            };
            chains[chain_of[op as usize] as usize].push(op);
        }
        SerialChains { chain_of, chains, order }
    }
}
