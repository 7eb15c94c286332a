//! The planners of `batch` that `auto` runs beside `one-device`: [`heft`], then [`divisions`].

pub(crate) mod divisions;
pub(crate) mod heft;
