//! Nogoods of excluded devices and refuted nodes: small sets of decisions from which the deduction follows.

use crate::stream::load_packing::decision_sets::DecisionSet;
use crate::stream::load_packing::relaxation::RelaxationInput;
use crate::stream::load_packing::search::PackingSearch;

impl PackingSearch<'_> {
    /// Why the units on a device, one of them apart, take more than `capacity`. The shortest ones are left out as long as the
    /// others are enough.
    pub(super) fn explain_overload(
        &self,
        device: usize,
        capacity: f64,
        except: Option<usize>,
    ) -> DecisionSet {
        let time = |unit: usize| self.packing.times(unit)[device];
        let mut excess = self.loads[device] - capacity;
        let mut units: Vec<usize> = (0..self.domains.len())
            .filter(|&unit| Some(unit) != except && self.domains[unit] == 1 << device)
            .collect();
        units.sort_by(|&a, &b| time(a).total_cmp(&time(b)));
        units.into_iter().fold(DecisionSet::default(), |decisions, unit| {
            let own = self.explain_exclusion(unit, |_| true);
            if time(unit) < excess && !own.is_empty() {
                excess -= time(unit);
                decisions
            } else {
                decisions.union(&own)
            }
        })
    }

    /// Why a unit is excluded from those of its devices that satisfy a condition.
    fn explain_exclusion(&self, unit: usize, from: impl Fn(usize) -> bool) -> DecisionSet {
        let excluded = self.packing.devices_of[unit] & !self.domains[unit];
        let devices = self.packing.devices;
        let from = (0..devices).filter(|&device| excluded >> device & 1 == 1 && from(device));
        let reasons = from.map(|device| &self.reasons[unit * devices + device]);
        reasons.fold(DecisionSet::default(), |decisions, reason| decisions.union(reason))
    }

    /// Why the cheapest placement at some prices, with one unit free, costs so much that the bound exceeds the limit by `excess`.
    /// The units whose cost rose least are left out as long as the others are enough.
    pub(super) fn explain_bound(
        &self,
        prices: &[f64],
        mut excess: f64,
        except: Option<usize>,
    ) -> DecisionSet {
        let packing = self.packing;
        let input = self.relaxation_input();
        let unrestricted = RelaxationInput { domains: &packing.devices_of, ..input };
        let mut dearer: Vec<(f64, usize, f64)> = Vec::new();
        for unit in (0..self.domains.len()).filter(|&unit| Some(unit) != except) {
            if self.domains[unit] == packing.devices_of[unit] {
                continue;
            }
            let cost = input.cheapest(unit, prices).1;
            let least = unrestricted.cheapest(unit, prices).1;
            if cost > least {
                dearer.push((cost - least, unit, cost));
            }
        }
        dearer.sort_by(|a, b| a.0.total_cmp(&b.0));
        dearer.into_iter().fold(DecisionSet::default(), |decisions, (rise, unit, cost)| {
            let times = packing.times(unit);
            let own = self.explain_exclusion(unit, |device| prices[device] * times[device] < cost);
            if rise < excess && !own.is_empty() {
                excess -= rise;
                decisions
            } else {
                decisions.union(&own)
            }
        })
    }
}
