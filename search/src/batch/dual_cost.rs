//! What divisions cost at the prices of a bound's dual: the work of devices, and the time of inputs on their way.

use crate::outcome::Outcome;
use divvy_core::problem::Problem;
use divvy_proof::division_lp::{BatchPrices, DivisionRows};
use divvy_proof::evidence::Evidence;

use crate::batch::tables::{DevicePart, BatchTables};

/// A cost for every batch, in picoseconds of the finish.
pub(crate) struct DualCost {
    classes: usize,
    /// By op, class and number of groups.
    costs: Vec<f64>,
}

impl DualCost {
    /// From the best evidence by divisions so far; without any, nothing costs.
    pub(crate) fn new(problem: &Problem, tables: &BatchTables, outcome: &Outcome) -> DualCost {
        let classes = problem.hardware.class_count();
        let mut potential =
            DualCost { classes, costs: vec![0.0; tables.ops * classes * (tables.groups + 1)] };
        let known = outcome.certificates.iter().filter_map(|certificate| match &certificate.evidence {
            Evidence::DivisionLp { weights, flows, windows, memory } => {
                Some((certificate.value_ps, DivisionRows { weights, flows, windows, memory }))
            }
            _ => None,
        });
        let Some((_, rows)) = known.max_by_key(|known| known.0) else { return potential };
        let Ok(prices) = BatchPrices::new(problem, &rows) else { return potential };
        for device in problem.hardware.devices() {
            let class = problem.hardware.class_of(device).index();
            for (number, slot) in prices.slots().iter().enumerate() {
                if slot.class != class || slot.size % tables.grain != 0 {
                    continue;
                }
                for (op, chain) in tables.chains.iter().enumerate() {
                    let cost = |&link: &u32| prices.batch(link as usize, device.index(), number).unwrap_or(0);
                    let cost: i128 = chain.iter().map(cost).sum();
                    let place =
                        (op * classes + class) * (tables.groups + 1) + (slot.size / tables.grain) as usize;
                    potential.costs[place] = cost as f64 / prices.divisor() as f64;
                }
            }
        }
        potential
    }

    /// What a division of a unit costs.
    pub(crate) fn of(&self, tables: &BatchTables, unit: usize, pieces: &[DevicePart]) -> f64 {
        let mut sum = 0.0;
        for &op in &tables.members[unit] {
            for piece in pieces {
                let class = tables.class_of[piece.device as usize] as usize;
                sum += self.costs[(op as usize * self.classes + class) * (tables.groups + 1) + piece.count()];
            }
        }
        sum
    }
}
