//! Water-filling: a lower bound on the period of all completions of a partial placement, transfers left out.
//!
//! Let W = Σ over unplaced ops of the shortest time, and ρ_d = max over unplaced ops of shortest time / time on d. In one
//! picosecond device d completes at most ρ_d of W, so a completion within T needs Σ_{d ∈ D} ρ_d (T − load_d)⁺ ≥ W, where D are
//! the devices that may still be used: with r splits left, the last device and the r others with the largest terms. Sums are
//! given a margin towards a smaller bound. O(devices · log devices) for each T.

use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::{NEVER, StreamTables};

/// More than the relative rounding error of the sums.
const MARGIN: f64 = 1e-9;
/// Steps of bisection for the bound.
const HALVINGS: u32 = 12;

/// W and ρ, by the number of ops placed.
pub(crate) struct WaterFilling {
    work: Vec<f64>,
    ratios: Vec<Vec<f64>>,
}

impl WaterFilling {
    pub(crate) fn new(tables: &StreamTables) -> WaterFilling {
        let mut work = vec![0.0; tables.ops + 1];
        let mut ratios = vec![vec![0.0f64; tables.devices]; tables.ops + 1];
        for place in (0..tables.ops).rev() {
            let op = tables.order[place];
            let times = || (0..tables.devices).map(move |d| tables.time(op, d));
            let shortest = times().min().unwrap_or(0);
            work[place] = work[place + 1] + shortest as f64;
            ratios[place] = ratios[place + 1].clone();
            for (ratio, time) in ratios[place].iter_mut().zip(times()) {
                if time != NEVER && shortest > 0 {
                    *ratio = ratio.max(shortest as f64 / time as f64);
                }
            }
        }
        WaterFilling { work, ratios }
    }

    /// Whether the unplaced ops may fit within a period of `limit`.
    pub(crate) fn fits(&self, tables: &StreamTables, partial: &PartialPlacement, limit: u64) -> bool {
        let mut buffer = Vec::with_capacity(tables.devices);
        self.has_capacity(tables, partial, limit as f64, &mut buffer)
    }

    fn has_capacity(
        &self,
        tables: &StreamTables,
        partial: &PartialPlacement,
        limit: f64,
        others: &mut Vec<f64>,
    ) -> bool {
        let last = partial.last(tables);
        let left = (tables.max_splits - partial.splits) as usize + usize::from(last.is_none());
        let mut capacity = 0.0;
        others.clear();
        for (device, (&load, &ratio)) in
            partial.device_loads(tables).iter().zip(&self.ratios[partial.placed]).enumerate()
        {
            let own = (limit - load as f64).max(0.0) * ratio;
            if Some(device) == last { capacity += own } else { others.push(own) }
        }
        if left < others.len() {
            others.sort_unstable_by(|a, b| b.total_cmp(a));
            others.truncate(left);
        }
        capacity += others.iter().sum::<f64>();
        capacity * (1.0 + MARGIN) >= self.work[partial.placed]
    }

    /// The lower bound, at least `value`: the period of the partial placement itself.
    pub(crate) fn bound(&self, tables: &StreamTables, partial: &PartialPlacement, value: u64) -> u64 {
        let mut buffer = Vec::with_capacity(tables.devices);
        let mut high =
            self.work[partial.placed] + partial.device_loads(tables).iter().max().map_or(0.0, |&l| l as f64);
        let mut low = value as f64;
        if self.has_capacity(tables, partial, low, &mut buffer) {
            return value;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.has_capacity(tables, partial, middle, &mut buffer) { high = middle } else { low = middle }
        }
        value.max(low as u64)
    }
}
