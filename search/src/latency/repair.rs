//! Repairs a placement: memory limits and missing routes, with few changes.
//!
//! Two phases. (1) For each overfull device, units leave it in the order of least extra time per byte freed, each to
//! the fastest device with enough memory. (2) Min-conflicts (Minton et al. 1992): a random unit in conflict moves to
//! the device with the fewest missing routes, then the least excess of memory; with probability 0.1 to a random
//! device. The problem contains bin packing, so a placement may exist that is not found.

use divvy_core::rng::Rng;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::memory_use::MemoryUse;
use crate::latency::placement_units::PlacementUnits;

/// The number of min-conflicts steps. A step looks at all units, so their product is limited too.
fn steps(units: usize) -> usize {
    (2000 + 20 * units).min(200_000_000 / (1 + units))
}

/// A placement of the units within memory limits and routes, near `placement`, and the memory it holds; none if none is
/// found. `memory` has empty devices.
pub(crate) fn repair(
    tables: &LatencyTables,
    units: &PlacementUnits,
    memory: &MemoryUse,
    placement: Vec<u32>,
    seed: u64,
) -> Option<(Vec<u32>, MemoryUse)> {
    let mut state = RepairState { tables, units, memory: memory.clone(), device_of: placement };
    for unit in 0..units.len() {
        state.memory.put(unit, state.device_of[unit]);
    }
    state.unload();
    let mut rng = Rng::new(seed);
    for _ in 0..steps(units.len()) {
        let conflicts = state.conflicts();
        if conflicts.is_empty() {
            return Some((state.device_of, state.memory));
        }
        state.move_unit(*rng.pick(&conflicts) as usize, &mut rng);
    }
    None
}

/// A placement that may violate limits and routes.
struct RepairState<'a> {
    tables: &'a LatencyTables,
    units: &'a PlacementUnits,
    memory: MemoryUse,
    device_of: Vec<u32>,
}

impl RepairState<'_> {
    fn put(&mut self, unit: usize, to: u32) {
        self.memory.take(unit, self.device_of[unit]);
        self.memory.put(unit, to);
        self.device_of[unit] = to;
    }

    /// Moves units off overfull devices, least extra time per byte first.
    fn unload(&mut self) {
        for device in self.memory.overfull().collect::<Vec<_>>() {
            let time = |unit: usize, device| self.units.time(self.tables, unit, device);
            let mut leaving: Vec<(f64, usize)> = Vec::new();
            for unit in (0..self.units.len()).filter(|&unit| self.device_of[unit] == device) {
                let others = self.units.choices(unit).iter().filter(|&&other| other != device);
                if let Some(best) = others.map(|&other| time(unit, other)).min() {
                    let loss = best as f64 - time(unit, device) as f64;
                    leaving.push((loss / (1 + self.memory.added(unit, device)) as f64, unit));
                }
            }
            leaving.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (_, unit) in leaving {
                if self.memory.excess(device) == 0 {
                    break;
                }
                let open = |&&to: &&u32| {
                    to != device
                        && self.memory.fits(unit, to)
                        && self.units.missing_routes(self.tables, unit, to, &self.device_of) == 0
                };
                let to = self.units.choices(unit).iter().filter(open).min_by_key(|&&to| time(unit, to));
                if let Some(&to) = to {
                    self.put(unit, to);
                }
            }
        }
    }

    /// The units on overfull devices and those without a route to some neighbour.
    fn conflicts(&self) -> Vec<u32> {
        let overfull: Vec<u32> = self.memory.overfull().collect();
        if overfull.is_empty() && self.units.all_connected() {
            return Vec::new();
        }
        let in_conflict = |unit: &u32| {
            let device = self.device_of[*unit as usize];
            overfull.contains(&device)
                || self.units.missing_routes(self.tables, *unit as usize, device, &self.device_of) > 0
        };
        (0..self.units.len() as u32).filter(in_conflict).collect()
    }

    /// Moves a unit to the device with the fewest missing routes, then the least excess memory; sometimes to a random
    /// one.
    fn move_unit(&mut self, unit: usize, rng: &mut Rng) {
        let choices = self.units.choices(unit);
        let mut to = *rng.pick(choices);
        if !rng.chance(0.1) {
            let mut least = (usize::MAX, u64::MAX);
            let first = rng.below(choices.len());
            for &device in choices[first..].iter().chain(&choices[..first]) {
                let cut = self.units.missing_routes(self.tables, unit, device, &self.device_of);
                let from = self.device_of[unit];
                self.put(unit, device);
                let left = (cut, self.memory.overfull().map(|d| self.memory.excess(d)).sum());
                self.put(unit, from);
                // Staying resolves no conflict.
                if device != from && left < least {
                    (least, to) = (left, device);
                }
            }
        }
        self.put(unit, to);
    }
}
