//! TODO-DOC

pub(crate) mod annealing;
pub(crate) mod annealing_rounds;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod exact_cost_annealing;
pub(crate) mod incumbent;
pub(crate) mod planners;
pub(crate) mod random_keys;
pub(crate) mod slicing;
pub(crate) mod stage_assignment;
pub(crate) mod stage_memory;
pub(crate) mod stage_network;
pub(crate) mod tables;

pub use slicing::Slicer;
pub use slicing::slices::{Slice, Slices};
pub use stage_network::StageNetwork;
pub use tables::PipelineTables;
