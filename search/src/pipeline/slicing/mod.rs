//! The optimal slices of one topological order into stages.
//!
//! * `slicer.rs`: any devices, with overflow, memory limits and replicated stages
//! * `identical_devices.rs`: the fast path for identical devices without these
//! * `slices.rs`: the result

pub(crate) mod identical_devices;
pub(crate) mod slicer;
pub(crate) mod slices;
