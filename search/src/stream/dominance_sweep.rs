//! A beam search with dominance over the canonical order: placements of the first i ops, for i = 1, 2, ….
//!
//! The *key* of a placement is all that the costs of later ops depend on, loads apart: source and receivers of every live
//! tensor, the device of every incomplete colocation group, the holders of every parameter still to be read, the last device,
//! and the splits as far as a least number of them is required. Of two placements with the same key, one dominates the other if
//! its loads, memory and splits are all no larger. Dominated placements are dropped; so are those whose water-filling bound
//! ([`WaterFilling`]) is no better than the best plan, and those that use a device before an interchangeable one of lower index.
//!
//! Of each level the `width` placements with the smallest bound are kept. **The smallest bound ever dropped for lack of width,
//! or the best value if that is less, is a lower bound on all plans**; if nothing was dropped, the best plan is optimal.
//! O(ops × width × devices × (loads + live tensors)), and the comparisons for dominance.

use std::collections::HashMap;

use divvy_core::units::Time;

use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// The most placements with the same key that a new one is compared with. Fewer comparisons drop less, never wrongly.
const MOST_COMPARED: usize = 400;

/// The result of a sweep.
pub(crate) struct SweepResult {
    /// The best plan below the limit.
    pub(crate) best: Option<(u64, Vec<u8>)>,
    /// The smallest bound dropped for lack of width; none if none was.
    pub(crate) bound: Option<u64>,
}

impl SweepResult {
    /// What no plan is below, after a sweep for plans below a limit that some plan has.
    pub(crate) fn proven(&self, limit: u64) -> Time {
        let best = self.best.as_ref().map_or(limit, |&(value, _)| value.min(limit));
        Time(self.bound.map_or(best, |bound| bound.min(best)))
    }
}

/// What begins before a level and is needed from there on.
struct LiveItems {
    tensors: Vec<usize>,
    groups: Vec<usize>,
    params: Vec<usize>,
}

/// The sweeps of a problem.
pub(crate) struct DominanceSweep<'t> {
    tables: &'t StreamTables,
    water: &'t WaterFilling,
    /// By level.
    live: Vec<LiveItems>,
    /// Placements generated so far, those of earlier sweeps included.
    pub(crate) nodes: u64,
}

/// A placement with the key of its rank in a level: bound, largest load of a link, sum of the devices' loads.
struct Ranked {
    bound: u64,
    link: u64,
    sum: u64,
    partial: PartialPlacement,
}

impl<'t> DominanceSweep<'t> {
    pub(crate) fn new(tables: &'t StreamTables, water: &'t WaterFilling, nodes: u64) -> DominanceSweep<'t> {
        let position = tables.positions();
        let last = |ops: &[usize]| ops.iter().map(|&op| position[op]).max();
        let first = |ops: &[usize]| ops.iter().map(|&op| position[op]).min();
        let live = |level: usize| {
            let is_open = |end: Option<usize>| end.is_some_and(|end| end >= level);
            let has_begun = |begin: Option<usize>| begin.is_none_or(|begin| begin < level);
            let tensor = |&t: &usize| {
                let tensor = &tables.tensors[t];
                has_begun(tensor.producer.map(|op| position[op])) && is_open(last(&tensor.readers))
            };
            let begun = |ops: &[usize]| is_open(last(ops)) && has_begun(first(ops));
            LiveItems {
                tensors: (0..tables.tensors.len()).filter(tensor).collect(),
                groups: (0..tables.groups.len()).filter(|&g| begun(&tables.groups[g])).collect(),
                params: (0..tables.params.len()).filter(|&p| begun(&tables.params[p].readers)).collect(),
            }
        };
        DominanceSweep { tables, water, live: (0..=tables.ops).map(live).collect(), nodes }
    }

    /// One sweep for plans below `limit`. `is_over`, asked with the placements generated so far, ends it without a result.
    pub(crate) fn sweep(
        &mut self,
        limit: u64,
        width: usize,
        is_over: &mut dyn FnMut(u64) -> bool,
    ) -> Option<SweepResult> {
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
            let mut by_key: HashMap<Vec<u64>, Vec<usize>> = HashMap::new();
            for child in children {
                let same_key = by_key.entry(self.key(&child.partial, level)).or_default();
                let is_dominated = |&other: &usize| self.dominates(&kept[other], &child.partial);
                if same_key.iter().take(MOST_COMPARED).any(is_dominated) {
                    continue;
                }
                if kept.len() == width {
                    // Children are sorted, so the first one dropped has the smallest bound of this level.
                    bound = Some(bound.map_or(child.bound, |bound| bound.min(child.bound)));
                    break;
                }
                same_key.push(kept.len());
                kept.push(child.partial);
            }
        }
        let plans = kept.into_iter().filter(|partial| partial.is_plan(tables));
        let best = plans.map(|partial| (partial.value(tables), partial.device_of)).min();
        Some(SweepResult { best, bound })
    }

    /// A placement with one op more, unless it breaks a rule or its bound is no less than `limit`.
    fn child(&self, partial: &PartialPlacement, device: usize, limit: u64) -> Option<Ranked> {
        let tables = self.tables;
        let is_unused = |d: usize| partial.used >> d & 1 == 0;
        if is_unused(device) && tables.interchangeable_before[device].iter().any(|&other| is_unused(other)) {
            return None;
        }
        let mut child = partial.clone();
        if !child.place(tables, device) || limit == 0 {
            return None;
        }
        let link = child.busiest_link(tables);
        let value = child.device_loads(tables).iter().copied().max().unwrap_or(0).max(link);
        if value >= limit || !self.water.fits(tables, &child, limit - 1) {
            return None;
        }
        let bound = self.water.bound(tables, &child, value);
        let sum = child.device_loads(tables).iter().sum();
        Some(Ranked { bound, link, sum, partial: child })
    }

    /// All that the costs of later ops depend on, apart from loads.
    fn key(&self, partial: &PartialPlacement, level: usize) -> Vec<u64> {
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

    /// Whether, of two placements with the same key, the first dominates the second.
    fn dominates(&self, one: &PartialPlacement, other: &PartialPlacement) -> bool {
        let fewer = self.tables.max_splits == u32::MAX || one.splits <= other.splits;
        fewer && one.loads.iter().zip(&other.loads).all(|(a, b)| a <= b)
    }
}
