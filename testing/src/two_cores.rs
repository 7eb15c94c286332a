//! The hardware file of tests that run plans: two cores of this machine, with figures that are placeholders.

/// Two CPUs of one core each in one memory.
pub const HARDWARE: &str = include_str!("pair.toml");
