//! TODO-DOC search/src/cold_start/choices.rs

/// Where a piece runs, and how its weights get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceChoice {
    pub(crate) device: u16,
    /// Where its weights land first.
    pub(crate) via: u16,
    /// Whether its first op reads in place.
    pub(crate) in_place: bool,
}

/// A choice for every piece, and the order they are taken in.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) sequence: Vec<usize>,
    pub(crate) of: Vec<PieceChoice>,
}
