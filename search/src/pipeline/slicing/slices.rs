//! Slices of an order: the stages, and the largest load of a device.

/// One stage of a sliced order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The position of its first unit.
    pub start: u32,
    /// The position after its last unit.
    pub end: u32,
    /// The kind of its devices.
    pub kind: u32,
    /// The number of devices that share its requests.
    pub replicas: u32,
}

/// A sliced order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slices {
    /// The load of the busiest device.
    pub value: u64,
    /// The stages, in order.
    pub slices: Vec<Slice>,
}
