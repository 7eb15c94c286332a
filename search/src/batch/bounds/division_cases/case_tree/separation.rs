//! Separation at a node: the violated rows that hold there, and candidates to branch on.

use divvy_core::ids::DeviceId;

use crate::batch::bounds::division_cases::case_tree::{
    CaseBranching, CaseBranchings, CaseContext, CaseSearch, ConditionalRow,
};
use crate::division_lp::op_divisions::OpDivisions;

/// The number of candidates that are evaluated before one is branched on (strong branching).
const MOST_CANDIDATES: usize = 2;
/// Shares below this are zero.
const LEAST_SHARE: f64 = 1e-4;
/// The least conflict in time between two ops, in the program's unit.
const LEAST_OVERLAP: f64 = 1e-5;

/// An op that a solution runs as a single batch on a known device.
struct SingleBatch {
    /// Its place among the ops of the region.
    place: usize,
    class: usize,
    device: DeviceId,
    start: f64,
    end: f64,
}

/// The result of separation.
pub(super) struct Separation {
    pub(super) violated: Vec<ConditionalRow>,
    pub(super) candidates: Vec<CaseBranching>,
}

impl CaseSearch {
    /// The rows of the case that a solution violates, and candidates to branch on: first fractional divisions, by how
    /// evenly the split divides them times the length of the op; then integral ones that conflict in time.
    pub(super) fn separate(
        &self,
        context: CaseContext<'_>,
        facts: &CaseBranchings,
        pinned: &[Option<DeviceId>],
        values: &[f64],
    ) -> Separation {
        let (mut fractional, single) = self.fractional_splits(context.divisions, values);
        let (violated, mut conflicts) = self.conflicts(context, facts, pinned, values, &single);
        fractional.sort_by(|a, b| b.0.total_cmp(&a.0));
        conflicts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut candidates: Vec<CaseBranching> = Vec::new();
        for (_, split) in fractional.into_iter().chain(conflicts) {
            if !candidates.contains(&split) && candidates.len() < MOST_CANDIDATES {
                candidates.push(split);
            }
        }
        Separation { violated, candidates }
    }

    /// The best split of each op whose division is fractional, with its score; and the ops that are single batches.
    fn fractional_splits(
        &self,
        divisions: &OpDivisions,
        values: &[f64],
    ) -> (Vec<(f64, CaseBranching)>, Vec<SingleBatch>) {
        let classes = divisions.devices.len();
        let mut fractional: Vec<(f64, CaseBranching)> = Vec::new();
        let mut single = Vec::new();
        for (place, &op) in self.ops.iter().enumerate() {
            let shares = self.divided[place].iter().map(|column| values[column.index()]);
            let mean_times = self.built.mean_times[op * classes..][..classes].iter().flatten();
            let time: f64 = mean_times.map(|(column, factor)| -factor * values[column.index()]).sum();
            let used: Vec<(f64, &Vec<u32>)> =
                shares.zip(&self.inputs_taken[place]).filter(|(share, _)| *share > LEAST_SHARE).collect();
            let mut best: Option<(f64, CaseBranching)> = None;
            for class in 0..classes {
                for &(_, taken) in &used {
                    let least = taken[class];
                    let above: f64 =
                        used.iter().filter(|(_, t)| t[class] >= least).map(|(share, _)| share).sum();
                    let even = above.min(1.0 - above);
                    if even > LEAST_SHARE && best.is_none_or(|known| even > known.0) {
                        best = Some((even, CaseBranching::Takes { op, class, least }));
                    }
                }
            }
            if let (None, [(_, taken)]) = (best, &used[..])
                && let Some(class) = taken.iter().position(|&taken| taken == divisions.inputs)
                && let Some(device) = self.only_device[place][class]
            {
                let start = values[self.built.starts[op].index()];
                single.push(SingleBatch { place, class, device, start, end: start + time });
            }
            fractional.extend(best.map(|(even, split)| (even * time, split)));
        }
        (fractional, single)
    }

    /// Conflicts in time between ops that are single batches in a solution: the violated rows that hold in the case,
    /// and the splits after which such rows would hold, with the extent of the conflict.
    fn conflicts(
        &self,
        context: CaseContext<'_>,
        facts: &CaseBranchings,
        pinned: &[Option<DeviceId>],
        values: &[f64],
        single: &[SingleBatch],
    ) -> (Vec<ConditionalRow>, Vec<(f64, CaseBranching)>) {
        let CaseContext { divisions, reach, .. } = context;
        let mut violated = Vec::new();
        let mut conflicts: Vec<(f64, CaseBranching)> = Vec::new();
        let pin = |batch: &SingleBatch| CaseBranching::Takes {
            op: self.ops[batch.place],
            class: batch.class,
            least: divisions.inputs,
        };
        for a in single {
            for b in single {
                let (from, to) = (self.ops[a.place], self.ops[b.place]);
                let unpinned = [a, b].into_iter().filter(|batch| pinned[batch.place].is_none());
                let are_pinned = pinned[a.place].is_some() && pinned[b.place].is_some();
                if reach[from][to] {
                    for class in 0..divisions.devices.len() {
                        let between = (self.ops.iter().enumerate())
                            .filter(|(_, op)| reach[from][**op] && reach[**op][to]);
                        let work = between.flat_map(|(place, _)| &self.work[place][class]);
                        let work: f64 = work.map(|&(column, time)| time * values[column.index()]).sum();
                        let overlap = work / divisions.devices[class].max(1) as f64 - (b.start - a.end);
                        if overlap > LEAST_OVERLAP {
                            if are_pinned {
                                let row = ConditionalRow::Window(from, to, class);
                                violated.extend((!self.conditional.contains(&(row, true))).then_some(row));
                            }
                            conflicts.extend(unpinned.clone().map(|batch| (overlap, pin(batch))));
                        }
                    }
                } else if a.place < b.place && a.device == b.device && !reach[to][from] {
                    let overlap = a.end.min(b.end) - a.start.max(b.start);
                    let are_ordered =
                        facts.orders.contains(&(from, to)) || facts.orders.contains(&(to, from));
                    if overlap > LEAST_OVERLAP && !are_ordered {
                        if are_pinned {
                            conflicts.push((overlap, CaseBranching::IsFirst { first: from, second: to }));
                        }
                        conflicts.extend(unpinned.map(|batch| (overlap, pin(batch))));
                    }
                }
            }
        }
        (violated, conflicts)
    }
}
