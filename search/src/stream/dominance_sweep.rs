//! A sweep over the canonical order: all placements of the first ops, level by level, as few as must be kept.
//!
//! Two placements of the same ops have the same future if every tensor that is still to be read comes from the same
//! device and went to the same devices, every group of ops that must stay together and is not complete is on the same
//! device, every parameter still to be read lies in the same memories, and the last device is the same. Of two such
//! placements the one whose loads, memory and splits are all no larger is as good as the other, which is dropped. Equal
//! devices are opened in their order: what could change places with an unused device does not come twice. What cannot
//! become better than the best plan ([`WaterFilling`]) is dropped too.
//!
//! At most `width` placements go on from a level, those with the smallest bound. **The smallest bound of those dropped
//! for lack of width, or the best value if that is less, is a bound on all plans**; where none was dropped, the best
//! plan is optimal. Time is O(levels × width × devices × (loads + live tensors)).

use std::collections::HashMap;

use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// Placements of one future that a new one is compared with. Fewer comparisons drop less, and nothing wrongly.
const MOST_COMPARED: usize = 400;

/// What came of a sweep.
pub(crate) struct Swept {
    /// The best plan below the limit.
    pub(crate) best: Option<(u64, Vec<u8>)>,
    /// No plan below the limit and below this was missed; none: no plan at all.
    pub(crate) bound: Option<u64>,
}

/// What is still to be read after each level.
struct Live {
    tensors: Vec<usize>,
    groups: Vec<usize>,
    params: Vec<usize>,
}

/// The sweeps of a problem.
pub(crate) struct DominanceSweep<'t> {
    tables: &'t StreamTables,
    rest: &'t WaterFilling,
    live: Vec<Live>,
    /// Placements looked at so far, by earlier sweeps too.
    pub(crate) nodes: u64,
}

/// A placement with its place in the order of a level.
struct Ranked {
    bound: u64,
    link: u64,
    sum: u64,
    partial: PartialPlacement,
}

impl<'t> DominanceSweep<'t> {
    pub(crate) fn new(tables: &'t StreamTables, rest: &'t WaterFilling, nodes: u64) -> DominanceSweep<'t> {
        let mut place = vec![0; tables.ops];
        tables.order.iter().enumerate().for_each(|(i, &op)| place[op] = i);
        let last = |ops: &[usize]| ops.iter().map(|&op| place[op]).max();
        let first = |ops: &[usize]| ops.iter().map(|&op| place[op]).min();
        let live = |level: usize| {
            let is_open = |end: Option<usize>| end.is_some_and(|end| end >= level);
            let has_begun = |begin: Option<usize>| begin.is_none_or(|begin| begin < level);
            let tensor = |&t: &usize| {
                let tensor = &tables.tensors[t];
                has_begun(tensor.producer.map(|op| place[op])) && is_open(last(&tensor.readers))
            };
            let begun = |ops: &[usize]| is_open(last(ops)) && has_begun(first(ops));
            Live {
                tensors: (0..tables.tensors.len()).filter(tensor).collect(),
                groups: (0..tables.groups.len()).filter(|&g| begun(&tables.groups[g])).collect(),
                params: (0..tables.params.len()).filter(|&p| begun(&tables.params[p].readers)).collect(),
            }
        };
        DominanceSweep { tables, rest, live: (0..=tables.ops).map(live).collect(), nodes }
    }

    /// One sweep for plans below `limit`. `is_over`, asked with the placements looked at so far, ends it early with
    /// nothing.
    pub(crate) fn sweep(
        &mut self,
        limit: u64,
        width: usize,
        is_over: &mut dyn FnMut(u64) -> bool,
    ) -> Option<Swept> {
        let tables = self.tables;
        let mut kept: Vec<PartialPlacement> = PartialPlacement::empty(tables).into_iter().collect();
        let mut bound: Option<u64> = None;
        for level in 1..=tables.ops {
            let mut children = Vec::new();
            for partial in &kept {
                for device in 0..tables.devices {
                    self.nodes += 1;
                    if self.nodes.is_multiple_of(64) && is_over(self.nodes) {
                        return None;
                    }
                    children.extend(self.child(partial, device, limit));
                }
            }
            children.sort_by_key(|child: &Ranked| (child.bound, child.link, child.sum));
            kept.clear();
            let mut futures: HashMap<Vec<u64>, Vec<usize>> = HashMap::new();
            for child in children {
                let alike = futures.entry(self.future(&child.partial, level)).or_default();
                let is_dominated = |&other: &usize| self.dominates(&kept[other], &child.partial);
                if alike.iter().take(MOST_COMPARED).any(is_dominated) {
                    continue;
                }
                if kept.len() == width {
                    // The first one dropped has the smallest bound of this level.
                    bound = Some(bound.map_or(child.bound, |bound| bound.min(child.bound)));
                    break;
                }
                alike.push(kept.len());
                kept.push(child.partial);
            }
        }
        let plans = kept.into_iter().filter(|partial| partial.is_plan(tables));
        let best = plans.map(|partial| (partial.value(tables), partial.device_of)).min();
        Some(Swept { best, bound })
    }

    /// A placement with one op more, if it may become better than `limit`.
    fn child(&self, partial: &PartialPlacement, device: usize, limit: u64) -> Option<Ranked> {
        let tables = self.tables;
        let is_unused = |d: usize| partial.used >> d & 1 == 0;
        if is_unused(device) && tables.twins_before[device].iter().any(|&twin| is_unused(twin)) {
            return None;
        }
        let mut child = partial.clone();
        if !child.place(tables, device) || limit == 0 {
            return None;
        }
        let link = child.busiest_link(tables);
        let value = child.device_loads(tables).iter().copied().max().unwrap_or(0).max(link);
        if value >= limit || !self.rest.fits(tables, &child, limit - 1) {
            return None;
        }
        let bound = self.rest.least(tables, &child, value);
        let sum = child.device_loads(tables).iter().sum();
        Some(Ranked { bound, link, sum, partial: child })
    }

    /// All that the costs of the ops to come depend on, apart from loads.
    fn future(&self, partial: &PartialPlacement, level: usize) -> Vec<u64> {
        let (tables, live) = (self.tables, &self.live[level]);
        let mut key = Vec::with_capacity(2 + 2 * live.tensors.len() + live.groups.len() + live.params.len());
        key.push(partial.last(tables).map_or(0, |last| last as u64 + 1));
        key.push(u64::from(partial.splits.min(tables.min_splits)));
        for &tensor in &live.tensors {
            let source = partial.source(tables, tensor).unwrap_or(0);
            key.push(source as u64);
            key.push(partial.receivers(tables, tensor) | 1 << source);
        }
        for &group in &live.groups {
            key.push(partial.device_of_group(&tables.groups[group]).map_or(0, u64::from));
        }
        key.extend(live.params.iter().map(|&param| partial.holders(tables, param)));
        key
    }

    /// Whether, of two placements with the same future, the first is as good as the second.
    fn dominates(&self, one: &PartialPlacement, other: &PartialPlacement) -> bool {
        let fewer = self.tables.max_splits == u32::MAX || one.splits <= other.splits;
        fewer && one.loads.iter().zip(&other.loads).all(|(a, b)| a <= b)
    }
}
