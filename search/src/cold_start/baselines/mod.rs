//! SortingHat, its ablations and EfficientMIP, run by name.
//!
//! * `sortinghat.rs`: the planners: submodel after submodel
//! * `dominators.rs`: the network cut into submodels
//! * `submodel_mip.rs`: the mixed-integer program of one submodel

pub(crate) mod dominators;
pub(crate) mod sortinghat;
pub(crate) mod submodel_mip;
