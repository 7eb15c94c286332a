//! The cost of divisions at the dual prices of `division-lp`: the work of devices, and the time that inputs spend in
//! batches and transfers.

use crate::outcome::Outcome;
use divvy_core::problem::Problem;
use divvy_proof::division_lp::{BatchPrices, DivisionRows};
use divvy_proof::evidence::Evidence;

use crate::batch::tables::{BatchTables, DevicePart};

/// A cost for every batch, in picoseconds of the makespan.
pub(crate) struct DualCost {
    classes: usize,
    /// The costs, by op, class and number of groups.
    costs: Vec<f64>,
}

impl DualCost {
    /// The costs of the best dual so far; all 0 without one.
    pub(crate) fn new(problem: &Problem, tables: &BatchTables, outcome: &Outcome) -> DualCost {
        let classes = problem.hardware.class_count();
        let mut dual_cost =
            DualCost { classes, costs: vec![0.0; tables.ops * classes * (tables.groups + 1)] };
        let known = outcome.certificates.iter().filter_map(|certificate| match &certificate.evidence {
            Evidence::DivisionLp { weights, flows, windows, memory } => {
                Some((certificate.value_ps, DivisionRows { weights, flows, windows, memory }))
            }
            _ => None,
        });
        let Some((_, rows)) = known.max_by_key(|known| known.0) else { return dual_cost };
        let Ok(prices) = BatchPrices::new(problem, &rows) else { return dual_cost };
        for device in problem.hardware.devices() {
            let class = problem.hardware.class_of(device).index();
            for (number, slot) in prices.class_sizes().iter().enumerate() {
                if slot.class != class || slot.size % tables.group_size != 0 {
                    continue;
                }
                for (op, chain) in tables.chains.iter().enumerate() {
                    let cost =
                        |&member: &u32| prices.batch(member as usize, device.index(), number).unwrap_or(0);
                    let cost: i128 = chain.iter().map(cost).sum();
                    let place = (op * classes + class) * (tables.groups + 1)
                        + (slot.size / tables.group_size) as usize;
                    dual_cost.costs[place] = cost as f64 / prices.units_per_ps() as f64;
                }
            }
        }
        dual_cost
    }

    /// The cost of a unit's division.
    pub(crate) fn of(&self, tables: &BatchTables, unit: usize, division: &[DevicePart]) -> f64 {
        let mut sum = 0.0;
        for &op in &tables.members[unit] {
            for part in division {
                let class = tables.class_of[part.device as usize] as usize;
                sum += self.costs[(op as usize * self.classes + class) * (tables.groups + 1) + part.count()];
            }
        }
        sum
    }
}
