//! Relaxations of `pipeline`, and two of `stream`, whose proofs are checked here, in integers.
//!
//! [`relaxed`] is the problem without memory and overflow, each stage at the least that its kind of device could cost it.
//! [`flow`] is the minimum cut behind everything else. [`sets`] are the convex sets of ops that fit a stage, [`halves`]
//! the ways to divide the network between the first stages and the others; of both, a tree of branchings proves that
//! nothing within a threshold is left. [`cover`] adds up what sets can cover. [`beginnings`] lists every way, where there are
//! few. Two are about `stream`: [`united`], ops that no links can keep apart, and [`shares`], what devices must be sent for
//! what they take.

pub mod beginnings;
pub mod bits;
pub mod cover;
pub mod flow;
pub mod halves;
mod kernel;
mod moves;
pub mod relaxed;
pub mod sets;
pub mod shares;
pub mod tree;
pub mod united;
