//! TODO-DOC

pub(crate) mod dominators;
pub(crate) mod sortinghat;
pub(crate) mod submodel_mip;
