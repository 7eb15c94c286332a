//! TODO-DOC

pub(crate) mod frontier_search;
pub(crate) mod interval_lp;
pub(crate) mod lbound;
pub(crate) mod milp;
