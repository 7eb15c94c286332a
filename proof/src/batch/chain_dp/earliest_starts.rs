//! When batches of each stage can start at the earliest, by the ways alone: from there on nothing needs to be looked at that
//! would end too late. As for what follows, there are two estimates: for each batch, and for the mean over all inputs.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::{Delays, StageLink, NEVER, OpTimes, ChainDp};

/// For each sharing, a moment for each device that its batch does not start before, and the least sum over all inputs of
/// when they start.
pub(super) type Heads = Vec<([u64; MOST_DEVICES], u64)>;

impl ChainDp<'_> {
    /// For each stage.
    pub(super) fn heads(&self, first: &OpTimes, links: &[StageLink]) -> Vec<Heads> {
        let mut all = vec![vec![([0; MOST_DEVICES], 0); self.moves.sharings.len()]];
        let mut node = first;
        for link in links {
            let ends = self.ends(node, &all[all.len() - 1]);
            let mut heads = vec![([0; MOST_DEVICES], 0); ends.len()];
            for branch in &link.branches {
                let mut reached = self.reached(&ends, &branch.delays[0]);
                for (inner, delays) in branch.nodes.iter().zip(&branch.delays[1..]) {
                    reached = self.reached(&self.ends(inner, &reached), delays);
                }
                for (known, new) in heads.iter_mut().zip(&reached) {
                    *known = (std::array::from_fn(|d| known.0[d].max(new.0[d])), known.1.max(new.1));
                }
            }
            all.push(heads);
            node = &link.node;
        }
        all
    }

    /// A moment before which no batch of an op ends.
    pub(super) fn soonest(&self, node: &OpTimes, heads: &Heads) -> u64 {
        let ends = self.ends(node, heads);
        let each = ends.iter().zip(&self.moves.sharings).flat_map(|((ends, _), groups)| {
            ends.iter().zip(groups).filter(|(_, groups)| **groups > 0).map(|(end, _)| *end)
        });
        each.min().unwrap_or(0)
    }

    /// A moment that the batch of a device does not start before.
    pub(super) fn head(&self, heads: &Heads, sharing: usize, device: usize) -> u64 {
        let (each, sum) = heads[sharing];
        let is_whole = self.moves.sharings[sharing][device] == self.groups;
        if is_whole { each[device].max(sum / self.inputs) } else { each[device] }
    }

    fn ends(&self, node: &OpTimes, heads: &Heads) -> Heads {
        let count = self.moves.sharings.len();
        let end = |sharing: usize| match node.times[sharing] {
            Some(times) => {
                let (each, sum) = heads[sharing];
                let spent = self.sum(&self.moves.sharings[sharing], &times);
                (std::array::from_fn(|d| (each[d] + times[d]).min(NEVER)), (sum + spent).min(NEVER))
            }
            None => ([NEVER; MOST_DEVICES], NEVER),
        };
        (0..count).map(end).collect()
    }

    fn reached(&self, ends: &Heads, delays: &Delays) -> Heads {
        let mut heads = vec![([NEVER; MOST_DEVICES], NEVER); ends.len()];
        for (there, (each, least)) in heads.iter_mut().enumerate() {
            for (here, (ends, sum)) in ends.iter().enumerate() {
                for handed in self.moves.between(here, there) {
                    let (mut new, mut moved) = ([0u64; MOST_DEVICES], *sum);
                    for part in handed {
                        let delay = delays.of(part);
                        new[part.to] = new[part.to].max((ends[part.from] + delay).min(NEVER));
                        let inputs = u64::from(part.groups * self.grain).max(1);
                        moved = if delay < NEVER { (moved + delay * inputs).min(NEVER) } else { NEVER };
                    }
                    each.iter_mut().zip(new).for_each(|(head, new)| *head = new.min(*head));
                    *least = moved.min(*least);
                }
            }
        }
        heads
    }
}
