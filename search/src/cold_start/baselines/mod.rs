//! Common practice and published methods, run by name.
//!
//! * `one_gpu.rs`: everything on one GPU
//! * `deepplan.rs`: one GPU computes, peers forward weights (DeepPlan)
//! * `sortinghat.rs`: SortingHat, its ablations and EfficientMIP: submodel after submodel
//! * `dominators.rs`: the network cut into submodels
//! * `submodel_mip.rs`: the mixed-integer program of one submodel

pub(crate) mod deepplan;
pub(crate) mod dominators;
pub(crate) mod one_gpu;
pub(crate) mod sortinghat;
pub(crate) mod submodel_mip;
