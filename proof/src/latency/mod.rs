//! TODO-DOC

pub mod interval_lp;
