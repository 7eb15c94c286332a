//! Bounds on the finish of one request. Frontier search, which other objectives use too, is in [`crate::frontier_search`].
//!
//! | file | evidence |
//! |---|---|
//! | [`interval_lp`] | `interval-lp`: a dual solution of the linear program over op starts and device fractions |

pub mod interval_lp;
