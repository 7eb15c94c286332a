//! TODO-DOC

pub mod bus_bytes;
pub mod last_loads;
pub mod segment_prices;
