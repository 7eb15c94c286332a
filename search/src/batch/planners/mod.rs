//! The planner of `batch` that `auto` runs beside `one-device` and `b-heft`: [`divisions`].

pub(crate) mod divisions;
