//! Prices of the devices' time under which the work that is left is dearest: those of the linear relaxation.

use crate::stream::conflict_search::trail::Model;
use crate::stream::load_packing::{LoadPacking, LoadRelaxation};

/// Weights are prices in so many parts.
const PARTS: f64 = (1u64 << 40) as f64;

pub(crate) struct AreaRelaxation {
    packing: LoadPacking,
    relaxed: LoadRelaxation,
}

impl AreaRelaxation {
    /// None where times are too long to be added exactly.
    pub(crate) fn new(model: &Model<'_>) -> Option<AreaRelaxation> {
        let times = (0..model.units).map(|unit| (0..model.devices).map(move |d| model.time(unit, d)));
        let times: Vec<Vec<Option<u64>>> = times.map(Iterator::collect).collect();
        let packing = LoadPacking::of_times(&times, model.devices)?;
        Some(AreaRelaxation { relaxed: LoadRelaxation::new(&packing), packing })
    }

    /// Weights of the devices for units that are placed in part.
    pub(crate) fn weights(&mut self, model: &Model<'_>) -> Vec<u64> {
        let loads = model.device_load.iter().map(|&load| load as f64);
        let open = (0..model.units).filter(|&unit| model.at[unit].is_none()).map(|unit| unit as u32);
        let prices = self.relaxed.prices(&self.packing, model.threshold, loads, open, &model.places);
        prices.iter().map(|price| (price * PARTS) as u64).collect()
    }
}
