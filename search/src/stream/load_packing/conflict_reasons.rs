//! Which decisions something follows from, as few as can be told.

use crate::stream::load_packing::PackingSearch;
use crate::stream::load_packing::decision_sets::Levels;
use crate::stream::load_packing::relaxation::Work;

impl PackingSearch<'_> {
    /// Why the units on a device load it by more than `room`; small ones that are not needed for that are left out.
    pub(crate) fn why_full(&self, device: usize, room: f64, but: Option<usize>) -> Levels {
        let time = |unit: usize| self.packing.times(unit)[device];
        let mut excess = self.loads[device] - room;
        let mut on: Vec<usize> = (0..self.allowed.len())
            .filter(|&unit| Some(unit) != but && self.allowed[unit] == 1 << device)
            .collect();
        on.sort_by(|&a, &b| time(a).total_cmp(&time(b)));
        on.into_iter().fold(Levels::default(), |levels, unit| {
            let own = self.why_kept(unit, |_| true);
            if time(unit) < excess && !own.is_empty() {
                excess -= time(unit);
                levels
            } else {
                levels.and(&own)
            }
        })
    }

    /// Why a unit is kept from some of the devices that it is kept from.
    pub(crate) fn why_kept(&self, unit: usize, from: impl Fn(usize) -> bool) -> Levels {
        let kept = self.packing.possible[unit] & !self.allowed[unit];
        let devices = self.packing.devices;
        let from = (0..devices).filter(|&device| kept >> device & 1 == 1 && from(device));
        from.fold(Levels::default(), |levels, device| levels.and(&self.reasons[unit * devices + device]))
    }

    /// Why placements cost so much that the bound is beyond the limit by `excess`; what costs least is left out as far as
    /// that is enough. `but` may be anywhere.
    pub(crate) fn why_dear(&self, prices: &[f64], mut excess: f64, but: Option<usize>) -> Levels {
        let packing = self.packing;
        let mut dearer: Vec<(f64, usize, f64)> = Vec::new();
        for unit in (0..self.allowed.len()).filter(|&unit| Some(unit) != but) {
            if self.allowed[unit] == packing.possible[unit] {
                continue;
            }
            let cost = self.work().cheapest(unit, prices).1;
            let anywhere = Work { allowed: &packing.possible, ..self.work() }.cheapest(unit, prices).1;
            if cost > anywhere {
                dearer.push((cost - anywhere, unit, cost));
            }
        }
        dearer.sort_by(|a, b| a.0.total_cmp(&b.0));
        dearer.into_iter().fold(Levels::default(), |levels, (more, unit, cost)| {
            let times = packing.times(unit);
            let own = self.why_kept(unit, |device| prices[device] * times[device] < cost);
            if more < excess && !own.is_empty() {
                excess -= more;
                levels
            } else {
                levels.and(&own)
            }
        })
    }
}
