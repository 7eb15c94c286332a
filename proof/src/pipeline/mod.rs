//! TODO-DOC

pub mod branching_tree;
pub mod convex_sets;
pub mod down_sets;
pub mod kernelisation;
pub mod relaxation;
pub mod safe_moves;
pub mod set_cover;
pub mod two_way_cut;
pub mod units;
