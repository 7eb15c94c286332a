//! Heads: lower bounds on the starts of an op's batches, from paths alone.
//!
//! As for tails there are two estimates for each division: one for each batch, and one for the sum over all inputs. Labels
//! are only looked at where head + tail is below the limit.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::op_times::{ChainDpInstance, Delays, NEVER, OpTimes};
use crate::batch::chain_dp::stage_links::StageLink;

/// For each division, a lower bound on the start of each device's batch, and one on the sum over all inputs of their starts.
pub(super) type Heads = Vec<([u64; MOST_DEVICES], u64)>;

impl ChainDpInstance<'_> {
    /// The heads of each op of the chain.
    pub(super) fn heads(&self, first: &OpTimes, links: &[StageLink]) -> Vec<Heads> {
        let mut all = vec![vec![([0; MOST_DEVICES], 0); self.transitions.divisions.len()]];
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

    /// A lower bound on the end of any batch of an op.
    pub(super) fn earliest_end(&self, node: &OpTimes, heads: &Heads) -> u64 {
        let ends = self.ends(node, heads);
        let each = ends.iter().zip(&self.transitions.divisions).flat_map(|((ends, _), groups)| {
            ends.iter().zip(groups).filter(|(_, groups)| **groups > 0).map(|(end, _)| *end)
        });
        each.min().unwrap_or(0)
    }

    /// A lower bound on the start of the batch on a device.
    pub(super) fn head(&self, heads: &Heads, division: usize, device: usize) -> u64 {
        let (each, sum) = heads[division];
        let is_whole = self.transitions.divisions[division][device] == self.groups;
        if is_whole { each[device].max(sum / self.inputs) } else { each[device] }
    }

    /// Heads of ends, from heads of starts.
    fn ends(&self, node: &OpTimes, heads: &Heads) -> Heads {
        let count = self.transitions.divisions.len();
        let end = |division: usize| match node.times[division] {
            Some(times) => {
                let (each, sum) = heads[division];
                let work = self.sum_over_inputs(&self.transitions.divisions[division], &times);
                (std::array::from_fn(|d| (each[d] + times[d]).min(NEVER)), (sum + work).min(NEVER))
            }
            None => ([NEVER; MOST_DEVICES], NEVER),
        };
        (0..count).map(end).collect()
    }

    /// Heads of the next op's starts, over all divisions and transitions.
    fn reached(&self, ends: &Heads, delays: &Delays) -> Heads {
        let mut heads = vec![([NEVER; MOST_DEVICES], NEVER); ends.len()];
        for (there, (each, least)) in heads.iter_mut().enumerate() {
            for (here, (ends, sum)) in ends.iter().enumerate() {
                for shipments in self.transitions.between(here, there) {
                    let (mut new, mut moved) = ([0u64; MOST_DEVICES], *sum);
                    for shipment in shipments {
                        let delay = delays.of(shipment);
                        new[shipment.to] = new[shipment.to].max((ends[shipment.from] + delay).min(NEVER));
                        let inputs = u64::from(shipment.groups * self.grain).max(1);
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
