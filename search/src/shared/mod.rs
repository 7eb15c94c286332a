//! What serves both families.

pub(crate) mod area;
pub(crate) mod circles;
pub(crate) mod largest_op;
pub(crate) mod one_device;
pub(crate) mod pinned;
