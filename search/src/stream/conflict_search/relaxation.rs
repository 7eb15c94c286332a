//! Device weights for the area rule of `propagation.rs` at a search node: the duals of the linear relaxation of load packing,
//! rounded to integers. Any weights are valid.

use crate::stream::conflict_search::model::PlacementModel;
use crate::stream::load_packing::instance::LoadPacking;
use crate::stream::load_packing::relaxation::LoadRelaxation;

/// The price of all devices together, in integer weights.
const PARTS: f64 = (1u64 << 40) as f64;

pub(crate) struct AreaRelaxation {
    packing: LoadPacking,
    relaxation: LoadRelaxation,
}

impl AreaRelaxation {
    /// None if sums of times are not exact in `f64`.
    pub(crate) fn new(model: &PlacementModel<'_>) -> Option<AreaRelaxation> {
        let times = (0..model.units).map(|unit| (0..model.devices).map(move |d| model.time(unit, d)));
        let times: Vec<Vec<Option<u64>>> = times.map(Iterator::collect).collect();
        let packing = LoadPacking::of_times(&times, model.devices)?;
        Some(AreaRelaxation { relaxation: LoadRelaxation::new(&packing), packing })
    }

    /// Integer prices for the open units and the loads of the trail.
    pub(crate) fn weights(&mut self, model: &PlacementModel<'_>) -> Vec<u64> {
        let loads = model.device_load.iter().map(|&load| load as f64);
        let open = (0..model.units).filter(|&unit| model.device_of[unit].is_none()).map(|unit| unit as u32);
        let prices = self.relaxation.prices(&self.packing, model.threshold, loads, open, &model.domains);
        prices.iter().map(|price| (price * PARTS) as u64).collect()
    }
}
