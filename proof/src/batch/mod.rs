//! Bounds on the finish of a group of inputs. The division LP, which other objectives use too, is in [`crate::division_lp`].
//!
//! | file | evidence |
//! |---|---|
//! | [`division_cases`] | `division-cases`: dual solutions of the division LP, one for each leaf of a case tree |
//! | [`chain_dp`] | `chain-dp`: a dynamic program along a chain of ops, over how inputs are divided among devices |

pub mod chain_dp;
pub mod division_cases;
