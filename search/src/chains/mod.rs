//! The bound of the makespan objectives by paths of ops, each op on the device that suits the path best.

pub(crate) mod critical_path;
