//! TODO-DOC

pub(crate) mod divisions;
