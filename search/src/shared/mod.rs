//! Planners and bounds that serve both families.

pub(crate) mod area;
pub(crate) mod one_device;
pub(crate) mod pinned;
pub(crate) mod transfers;
