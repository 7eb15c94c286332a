//! The search space of `cold-start`: for each piece the device that runs it, the device on which its weights land first, and
//! whether its first op reads its weights in place; and one topological order of the pieces. Together these fix the order of
//! kernels on every device and of loads on every bus.

/// Where a piece runs, and how its weights reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceChoice {
    pub(crate) device: u16,
    /// The device to which its weights are loaded from host memory; they are forwarded if it is not `device`.
    pub(crate) via: u16,
    /// Whether the first op reads its weights in place (direct host access).
    pub(crate) in_place: bool,
}

/// A complete set of decisions.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    /// The pieces in a topological order: that of kernels on each device and of loads on each bus.
    pub(crate) sequence: Vec<usize>,
    pub(crate) by_piece: Vec<PieceChoice>,
}
