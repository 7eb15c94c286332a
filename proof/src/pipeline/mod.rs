//! Bounds on the largest stage of a pipeline: each refutes a threshold T.
//!
//! | file | what |
//! |---|---|
//! | [`relaxation`] | the overflow-free problem that all of them bound |
//! | [`relaxation_types`] | its types: tensors between units, costs by kind of device, the transitive closure |
//! | [`kernelisation`] | contracts units that share a stage in some optimal plan |
//! | [`safe_moves`] | the exchange argument that kernelisation rests on |
//! | [`branching_tree`] | branch-and-bound trees as lists of numbers |
//! | [`convex_sets`] | no convex set within T holds more than a price limit: minimum cuts and branching |
//! | [`set_cover`] | evidence `set-cover`: k sets within T cannot cover all prices |
//! | [`two_way_cut`] | evidence `two-way-cut`: no down-set fits the first stages while its complement fits the others |
//! | [`down_sets`] | evidence `down-sets`: a dynamic program over all down-sets |

pub mod branching_tree;
pub mod convex_sets;
pub mod down_sets;
pub mod kernelisation;
pub mod relaxation;
pub mod relaxation_types;
pub mod safe_moves;
pub mod set_cover;
pub mod two_way_cut;
