//! TODO-DOC search/src/pipeline/slicing/slices.rs

/// One stage of a sliced order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The place of its first unit.
    pub start: u32,
    /// The place after its last unit.
    pub end: u32,
    /// The sort of its devices.
    pub sort: u32,
    /// How many devices share its requests.
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
