//! How soon the ops that are not placed yet can be done, if nothing has to move: water-filling.
//!
//! Work is measured in the shortest time of each op. In a picosecond a device does at most its best ratio, over the ops
//! that are left, of shortest time to own time. The rest fits within T if the room T − load of the devices that may still
//! be used, each times its ratio, holds the work left. With r splits left these are the device used last and r others,
//! and the r with the most room are the best case. Figures are rounded towards a smaller bound.

use crate::stream::partial_placement::PartialPlacement;
use crate::stream::tables::{NEVER, StreamTables};

/// More than all rounding of the sums here.
const MARGIN: f64 = 1e-9;
/// Halvings of the interval in which the bound lies.
const HALVINGS: u32 = 12;

/// Work left and best ratios, by the number of ops placed.
pub(crate) struct WaterFilling {
    work: Vec<f64>,
    /// Device after device.
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

    /// Whether the rest may fit within `limit`, given what is placed.
    pub(crate) fn fits(&self, tables: &StreamTables, partial: &PartialPlacement, limit: u64) -> bool {
        let mut rooms = Vec::with_capacity(tables.devices);
        self.has_room(tables, partial, limit as f64, &mut rooms)
    }

    fn has_room(&self, tables: &StreamTables, partial: &PartialPlacement, limit: f64, rooms: &mut Vec<f64>) -> bool {
        let last = partial.last(tables);
        let left = (tables.max_splits - partial.splits) as usize + usize::from(last.is_none());
        let mut room = 0.0;
        rooms.clear();
        for (device, (&load, &ratio)) in
            partial.device_loads(tables).iter().zip(&self.ratios[partial.placed]).enumerate()
        {
            let own = (limit - load as f64).max(0.0) * ratio;
            if Some(device) == last { room += own } else { rooms.push(own) }
        }
        if left < rooms.len() {
            rooms.sort_unstable_by(|a, b| b.total_cmp(a));
            rooms.truncate(left);
        }
        room += rooms.iter().sum::<f64>();
        room * (1.0 + MARGIN) >= self.work[partial.placed]
    }

    /// No completion takes less than this. `value` is what is placed already takes.
    pub(crate) fn least(&self, tables: &StreamTables, partial: &PartialPlacement, value: u64) -> u64 {
        let mut rooms = Vec::with_capacity(tables.devices);
        let mut high =
            self.work[partial.placed] + partial.device_loads(tables).iter().max().map_or(0.0, |&l| l as f64);
        let mut low = value as f64;
        if self.has_room(tables, partial, low, &mut rooms) {
            return value;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.has_room(tables, partial, middle, &mut rooms) { high = middle } else { low = middle }
        }
        value.max(low as u64)
    }
}
