//! Lower bounds of `batch`. The ones that need no batches are in `chains/` and `loads/`.

pub(crate) mod chain_dp;
mod chain_network;
pub(crate) mod division_cases;
pub(crate) mod division_lp;
