//! Lower bounds, the cheapest first.
//!
//! * `last_loads.rs`: loads that must precede the remaining work; the same with searched tails
//! * `segment_prices.rs`: prices of bus and kernel time, between ops that every path passes

pub(crate) mod last_loads;
pub(crate) mod segment_prices;
