//! What a card must be able to do in a cold start.
//!
//! A card has queues; what is put into one happens in order, later, while the caller goes on. A [`Mark`] is a moment in a queue:
//! another queue, of the same card or of another, can be told to wait for it, which keeps the host out of the way.

use std::any::Any;
use std::sync::Arc;

use crate::stage_error::StageError;
use crate::tensor::HostTensor;

/// A queue of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Loads of weights.
    Copy,
    /// Pieces, and what they are brought.
    Compute,
    /// What leaves the card.
    Out,
}

/// A moment in a queue: when all that was put into it before has happened.
#[derive(Clone)]
pub struct Mark(pub(crate) Arc<dyn Any + Send + Sync>);

/// A card whose pieces are loaded. Weights, values and pieces are positions in the lists of the
/// [`ColdSpec`](super::spec::ColdSpec) that it was made for.
pub trait Card: Send + Sync {
    /// For cards of the same kind, to get at their own type.
    fn as_any(&self) -> &dyn Any;
    /// Forgets loaded weights but for their resident share, and every value. Returns when that is done.
    fn forget(&self) -> Result<(), StageError>;
    /// Time begins: see [`Card::reached_us`].
    fn begin(&self) -> Result<(), StageError>;
    /// Copies a weight from host memory, in [`Queue::Copy`].
    fn load(&self, weight: usize) -> Result<(), StageError>;
    /// Copies a weight from a peer, in [`Queue::Compute`].
    fn forward(&self, weight: usize, from: &dyn Card) -> Result<(), StageError>;
    /// Copies a value from host memory, in [`Queue::Compute`].
    fn bring(&self, value: usize, from: &HostTensor) -> Result<(), StageError>;
    /// Copies a value from a peer, in [`Queue::Compute`].
    fn bring_from(&self, value: usize, from: &dyn Card) -> Result<(), StageError>;
    /// Runs a piece, in [`Queue::Compute`].
    fn run(&self, piece: usize) -> Result<(), StageError>;
    /// Waits until a value is made, and copies it to the host, in [`Queue::Out`].
    fn fetch(&self, value: usize, made: &Mark) -> Result<HostTensor, StageError>;
    /// This moment in a queue.
    fn mark(&self, queue: Queue) -> Result<Mark, StageError>;
    /// Lets a queue wait for a moment in another, of this card or of a peer.
    fn wait(&self, queue: Queue, mark: &Mark) -> Result<(), StageError>;
    /// Waits until all queues are empty; fails if something in them did.
    fn finish(&self) -> Result<(), StageError>;
    /// When a moment of this card was, in microseconds after [`Card::begin`]; the card has finished.
    fn reached_us(&self, mark: &Mark) -> Result<f64, StageError>;
}
