//! A placement that memory and routes allow, near one that is wished for.
//!
//! First the units that lose least by leaving an overfull device, per byte it gets back, move to the fastest device
//! that has room for them. If that is not enough, conflicts are settled one at a time (min-conflicts, Minton et al.
//! 1992): some unit that is part of one goes where fewest are left, now and then anywhere. It may fail where a
//! placement exists, since finding one is bin packing.

use divvy_core::rng::Rng;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::memory_use::MemoryUse;

/// Steps of min-conflicts: some for each unit, but each looks at all units, which must not take longer than a moment.
fn steps(units: usize) -> usize {
    (2000 + 20 * units).min(200_000_000 / (1 + units))
}

/// A placement of units within memory and routes, with the room it takes; none if none was found. `room` is empty.
pub(crate) fn repair(
    dense: &LatencyTables,
    units: &ColocatedUnits,
    room: &MemoryUse,
    wish: Vec<u32>,
    seed: u64,
) -> Option<(Vec<u32>, MemoryUse)> {
    let mut placement = RepairState { dense, units, room: room.clone(), device_of: wish };
    for unit in 0..units.len() {
        placement.room.put(unit, placement.device_of[unit]);
    }
    placement.unload();
    let mut rng = Rng::new(seed);
    for _ in 0..steps(units.len()) {
        let conflicts = placement.conflicts();
        if conflicts.is_empty() {
            return Some((placement.device_of, placement.room));
        }
        placement.settle(*rng.pick(&conflicts) as usize, &mut rng);
    }
    None
}

struct RepairState<'a> {
    dense: &'a LatencyTables,
    units: &'a ColocatedUnits,
    room: MemoryUse,
    device_of: Vec<u32>,
}

impl RepairState<'_> {
    fn shift(&mut self, unit: usize, to: u32) {
        self.room.take(unit, self.device_of[unit]);
        self.room.put(unit, to);
        self.device_of[unit] = to;
    }

    /// Moves units off overfull devices, those that lose least first.
    fn unload(&mut self) {
        for device in self.room.overfull().collect::<Vec<_>>() {
            let time = |unit: usize, device| self.units.time(self.dense, unit, device);
            let mut leaving: Vec<(f64, usize)> = Vec::new();
            for unit in (0..self.units.len()).filter(|&unit| self.device_of[unit] == device) {
                let others = self.units.choices(unit).iter().filter(|&&other| other != device);
                if let Some(best) = others.map(|&other| time(unit, other)).min() {
                    let loss = best as f64 - time(unit, device) as f64;
                    leaving.push((loss / (1 + self.room.added(unit, device)) as f64, unit));
                }
            }
            leaving.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (_, unit) in leaving {
                if self.room.excess(device) == 0 {
                    break;
                }
                let open = |&&to: &&u32| {
                    to != device
                        && self.room.fits(unit, to)
                        && self.units.cut_off(self.dense, unit, to, &self.device_of) == 0
                };
                let to = self.units.choices(unit).iter().filter(open).min_by_key(|&&to| time(unit, to));
                if let Some(&to) = to {
                    self.shift(unit, to);
                }
            }
        }
    }

    /// The units on overfull devices and those cut off from a neighbour.
    fn conflicts(&self) -> Vec<u32> {
        let overfull: Vec<u32> = self.room.overfull().collect();
        if overfull.is_empty() && self.units.all_connected() {
            return Vec::new();
        }
        let troubled = |unit: &u32| {
            let device = self.device_of[*unit as usize];
            overfull.contains(&device)
                || self.units.cut_off(self.dense, *unit as usize, device, &self.device_of) > 0
        };
        (0..self.units.len() as u32).filter(troubled).collect()
    }

    /// Moves a unit where it leaves fewest edges cut, and then least memory in excess; now and then anywhere.
    fn settle(&mut self, unit: usize, rng: &mut Rng) {
        let choices = self.units.choices(unit);
        let mut to = *rng.pick(choices);
        if !rng.chance(0.1) {
            let mut least = (usize::MAX, u64::MAX);
            let first = rng.below(choices.len());
            for &device in choices[first..].iter().chain(&choices[..first]) {
                let cut = self.units.cut_off(self.dense, unit, device, &self.device_of);
                let from = self.device_of[unit];
                self.shift(unit, device);
                let left = (cut, self.room.overfull().map(|d| self.room.excess(d)).sum());
                self.shift(unit, from);
                // Staying where it is settles nothing.
                if device != from && left < least {
                    (least, to) = (left, device);
                }
            }
        }
        self.shift(unit, to);
    }
}
