//! Lower bounds, the cheapest first.
//!
//! * `colocation.rs`: ops that must share a device, refuted by area or by device
//! * `device_groups.rs`: a program over which of a few groups of devices runs each op
//! * `link_prices.rs`: the Lagrangian bound where all transfers share one link

pub(crate) mod colocation;
pub(crate) mod device_groups;
pub(crate) mod link_prices;
