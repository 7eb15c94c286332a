//! Coarsening: several ops become one, so that planners have less to decide.
//!
//! | file | what |
//! |---|---|
//! | `granularity` | [`coarsen()`] a whole problem, and [`expand`]: for each original op, the coarse op that contains it |
//! | `fold` | [`fold_free`]: ops without a kernel vanish; importers do this to every network |
//! | `fuse`, `kinds` | [`group_fused`]: groups of ops that runtimes run as one kernel |
//! | `block` | [`group_blocks`]: the ops between consecutive cuts of at most one tensor |
//! | `merge` | [`merge()`]: contracts any groups of ops; the other passes only choose the groups |
//! | `constraints` | [`rename_constraints`]: pins and the like, carried over to merged ops |

mod block;
mod constraints;
#[cfg(test)]
mod expansion;
mod fold;
mod fuse;
mod granularity;
mod kinds;
mod merge;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod test_networks;

pub use block::{Blocks, group_blocks};
pub use constraints::rename_constraints;
pub use fold::fold_free;
pub use fuse::group_fused;
pub use granularity::{Granularity, coarsen, expand};
pub use merge::{Merged, merge};
