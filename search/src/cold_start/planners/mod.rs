//! TODO-DOC

pub(crate) mod deepplan;
pub(crate) mod exhaustive;
pub(crate) mod interleave;
pub(crate) mod one_gpu;
