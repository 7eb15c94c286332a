//! TODO-DOC

pub(crate) mod critical_path;
pub(crate) mod transfers;
