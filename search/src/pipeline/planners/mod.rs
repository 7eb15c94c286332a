//! TODO-DOC

pub(crate) mod annealing;
