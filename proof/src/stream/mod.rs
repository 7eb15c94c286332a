//! TODO-DOC

pub mod colocation;
pub mod link_prices;
