//! Bounds on the finish of one request whose weights are still in host memory.
//!
//! | file | evidence |
//! |---|---|
//! | [`bus_bytes`] | `bus-bytes`: all weights cross the buses before the end |
//! | [`last_loads`] | `last-loads`: those with τ of compute behind them cross before C − τ |
//! | [`segment_prices`] | `segment-prices`: a Lagrangian of bus time and compute time, segment by segment |

pub mod bus_bytes;
pub mod last_loads;
pub mod segment_prices;
