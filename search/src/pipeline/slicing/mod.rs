//! The optimal *slices* of one topological order: its partition into at most k intervals, the stages, with the least largest
//! stage cost (chains-on-chains partitioning, with costs that are not additive).
//!
//! * `slicer.rs`: any devices, with overflow, memory limits and replicated stages
//! * `identical_devices.rs`: the fast path for identical devices without these
//! * `slices.rs`: the result

pub(crate) mod identical_devices;
pub(crate) mod slicer;
pub(crate) mod slices;
