//! Schedules cut at their joints, and put together anew from the best parts.
//!
//! All inputs pass some ops, and where such an op is a single batch, everything before it has ended when it starts and everything
//! behind it begins after it. What lies between two such batches takes as long whatever comes before and after, so of several
//! schedules that have the same two the best part can be taken. Cut so, a network of many modules is as hard as
//! the hardest of them, not as all together.

use std::collections::HashMap;

use super::memory::Memory;
use super::schedule::{Item, Schedule};
use super::tables::Tables;

/// Where schedules can be cut.
pub(crate) struct Joints {
    /// Ops that lie on every path, in the order of the network.
    ops: Vec<u32>,
    /// For each op, how many of those are before it.
    before: Vec<u32>,
}

/// A joint at which a schedule can be cut: its place among all, and the device of its single batch; none: the beginning or the end.
type Cut = Option<(usize, u32)>;

/// The best way to a cut: how long it takes, the cut before, and which schedule leads from there.
struct Reached {
    time: u64,
    from: Cut,
    by: usize,
}

impl Joints {
    /// The joints of a network.
    pub(crate) fn new(tables: &Tables) -> Joints {
        let count = tables.ops;
        let mut place_of = vec![0; count];
        for (place, &op) in tables.order.iter().enumerate() {
            place_of[op as usize] = place;
        }
        let mut is_joint = vec![true; count];
        // Nothing goes past a joint, and no op before it leads elsewhere.
        let mut farthest = 0;
        for (place, &op) in tables.order.iter().enumerate() {
            is_joint[place] &= farthest <= place;
            let outputs = tables.outputs[op as usize].iter().map(|edge| place_of[edge.op as usize]);
            farthest = farthest.max(outputs.max().unwrap_or(count));
        }
        let mut nearest = count;
        for (place, &op) in tables.order.iter().enumerate().rev() {
            is_joint[place] &= nearest >= place;
            let inputs = tables.inputs[op as usize].iter().map(|edge| place_of[edge.op as usize]);
            nearest = nearest.min(inputs.min().unwrap_or(0));
        }
        // Nor is a unit on both sides of it.
        for (unit, members) in tables.members.iter().enumerate() {
            let places = || members.iter().map(|&op| place_of[op as usize]);
            let (Some(first), Some(last)) = (places().min(), places().max()) else { continue };
            for (is_joint, &op) in is_joint[first..last].iter_mut().zip(&tables.order[first..last]) {
                *is_joint &= tables.unit_of[op as usize] as usize == unit;
            }
        }
        let mut joints = Joints { ops: Vec::new(), before: vec![0; count] };
        for (place, &op) in tables.order.iter().enumerate() {
            joints.before[op as usize] = joints.ops.len() as u32;
            if is_joint[place] {
                joints.ops.push(op);
            }
        }
        joints
    }

    /// Where a schedule can be cut, and when the batch there starts.
    fn cuts(&self, tables: &Tables, schedule: &Schedule) -> Vec<(usize, u32, u64)> {
        let cut = |(place, &op): (usize, &u32)| {
            let [piece] = schedule.pieces[tables.unit_of[op as usize] as usize][..] else { return None };
            Some((place, piece.device, schedule.start(tables, Item { op, piece: 0 })))
        };
        self.ops.iter().enumerate().filter_map(cut).collect()
    }

    /// How many parts of a schedule with more than one op lie between its cuts.
    pub(crate) fn part_count(&self, tables: &Tables, schedule: &Schedule) -> usize {
        let mut ops = vec![0; self.ops.len() + 1];
        self.before.iter().for_each(|&before| ops[before as usize] += 1);
        let (mut parts, mut from) = (0, 0);
        for (place, ..) in self.cuts(tables, schedule) {
            let inside: usize = ops[from..=place].iter().sum();
            parts += usize::from(inside > 2);
            from = place + 1;
        }
        parts
    }

    /// The best that can be put together from some schedules; none if memory does not allow it.
    pub(crate) fn put_together(
        &self,
        tables: &Tables,
        memory: &Memory,
        known: &[Schedule],
    ) -> Option<Schedule> {
        let mut reached: HashMap<Cut, Reached> = HashMap::new();
        let mut legs: Vec<(usize, Cut, Cut, u64, usize)> = Vec::new();
        for (by, schedule) in known.iter().enumerate() {
            let (mut from, mut since) = (None, 0);
            for (place, device, start) in self.cuts(tables, schedule) {
                legs.push((place, from, Some((place, device)), start - since, by));
                (from, since) = (Some((place, device)), start);
            }
            legs.push((usize::MAX, from, None, schedule.value() - since, by));
        }
        legs.sort_unstable();
        // The end has the same name as the beginning, and comes last.
        for (_, from, to, time, by) in legs {
            let time = time + if from.is_some() { reached.get(&from)?.time } else { 0 };
            if reached.get(&to).is_none_or(|known| time < known.time) {
                reached.insert(to, Reached { time, from, by });
            }
        }
        // For what lies before each joint, where its part ends and whose it is.
        let mut at: Cut = None;
        let mut taken = vec![(0, 0); self.ops.len() + 1];
        loop {
            let Reached { from, by, .. } = reached.get(&at)?;
            // Joints within a part belong to it, and so does the one at its end.
            let first = from.map_or(0, |(place, _)| place + 1);
            let last = at.map_or(self.ops.len(), |(place, _)| place);
            taken[first..=last].fill((last, *by));
            if from.is_none() {
                break;
            }
            at = *from;
        }
        let part_of = |op: u32| taken[self.before[op as usize] as usize];
        let pieces = tables.members.iter().enumerate();
        let pieces = pieces.map(|(unit, members)| known[part_of(members[0]).1].pieces[unit].clone());
        let mut united = Schedule::new(tables, pieces.collect(), &tables.order);
        let mut memory = memory.clone();
        united.pieces.iter().enumerate().for_each(|(unit, pieces)| memory.put(unit, pieces));
        if !memory.all_hold() {
            return None;
        }
        // Each part in its own order, one behind the other.
        let mut list: Vec<(usize, Item)> = Vec::with_capacity(united.list.len());
        for (number, schedule) in known.iter().enumerate() {
            let parts = schedule.list.iter().map(|item| (part_of(item.op), *item));
            list.extend(parts.filter(|((_, by), _)| *by == number).map(|((end, _), item)| (end, item)));
        }
        list.sort_by_key(|(end, _)| *end);
        united.list = list.into_iter().map(|(_, item)| item).collect();
        united.evaluate(tables, 0, u64::MAX - 1);
        Some(united)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::generate::{RwnnOptions, rwnn};
    use divvy_core::graph::Graph;
    use divvy_core::outcome::Outcome;
    use divvy_core::problem::{Objective, OwnHardware, Problem};
    use divvy_core::rng::Rng;

    use super::super::climb::Climb;
    use super::super::potential::Potential;
    use super::super::tables::Piece;
    use smallvec::smallvec;

    fn modules(seed: u64) -> Problem {
        let options = RwnnOptions { modules: 4, nodes: 4, seed, batches: true, ..RwnnOptions::default() };
        let spec = rwnn(&options).expect("valid options");
        let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("its own hardware") };
        let graph = Graph::new(spec.graph).expect("a valid graph");
        let objective = Objective::Batch { inputs: 16 };
        Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints)
            .expect("a valid problem")
    }

    /// Whatever is put together takes as long as its parts did, and no longer than any of the schedules.
    #[test]
    fn the_best_parts_are_put_together() {
        let mut better = 0;
        for seed in 0..60 {
            let problem = modules(seed);
            let tables = Tables::new(&problem).expect("a batch problem");
            let memory = Memory::new(&problem, &tables);
            let potential = Potential::new(&problem, &tables, &Outcome::default());
            let joints = Joints::new(&tables);
            assert!(joints.ops.len() >= 4, "modules are joined");
            let mut rng = Rng::new(seed);
            let known: Vec<Schedule> = (0..3)
                .map(|number| {
                    // Whole batches on devices of each schedule's own, but for joints.
                    let own = rng.below(tables.devices);
                    let whole = |unit: usize| {
                        let is_joint = joints.ops.contains(&tables.members[unit][0]);
                        let choices = &tables.choices[unit];
                        let device = choices[if is_joint { 0 } else { own % choices.len() }].device;
                        smallvec![Piece { device, groups: tables.all_groups() }]
                    };
                    let pieces = (0..tables.members.len()).map(whole).collect();
                    let start = Schedule::new(&tables, pieces, &tables.order);
                    let mut climb = Climb::new(&tables, &memory, &potential, &start, seed + number)
                        .expect("memory holds");
                    for _ in 0..300 {
                        climb.step(start.value() as f64 / 100.0);
                    }
                    climb.schedule().clone()
                })
                .collect();
            let united = joints.put_together(&tables, &memory, &known).expect("memory holds");
            let best = known.iter().map(Schedule::value).min().expect("three schedules");
            assert!(united.value() <= best, "seed {seed}: {} after {best}", united.value());
            assert_eq!(
                united.list.len(),
                united.pieces.iter().zip(&tables.members).map(|(p, m)| p.len() * m.len()).sum()
            );
            better += u32::from(united.value() < best);
        }
        assert!(better > 10, "{better} of 60 are better than all they were made of");
    }
}
