//! TODO-DOC

pub(crate) mod colocation;
pub(crate) mod link_prices;
pub(crate) mod transfers;
