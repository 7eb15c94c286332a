//! Lower bounds of `latency`. The ones that need no search of this objective are in `chains/`, `loads/` and
//! `division_lp/`.

pub(crate) mod frontier_search;
pub(crate) mod interval_lp;
pub(crate) mod lbound;
pub(crate) mod milp;
