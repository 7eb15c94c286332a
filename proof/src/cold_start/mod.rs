//! Bounds on the finish of one request whose weights are still in host memory.
//!
//! | file | evidence |
//! |---|---|
//! | [`last_loads`] | `last-loads`: weights with τ of compute behind them cross the buses before C − τ |
//! | [`segment_prices`] | `segment-prices`: a Lagrangian of bus time and compute time, segment by segment |

pub mod last_loads;
pub mod segment_prices;
