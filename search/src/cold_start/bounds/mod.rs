//! TODO-DOC

pub(crate) mod bus_capacity;
pub(crate) mod last_loads;
pub(crate) mod segment_prices;
