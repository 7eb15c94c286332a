//! Lower bounds, the cheapest first.
//!
//! * `colocation.rs`: ops that must share a device, refuted by area or by device
//! * `link_prices.rs`: the Lagrangian bound where all transfers share one link

pub(crate) mod colocation;
pub(crate) mod link_prices;
