//! Simulated annealing of `batch` schedules: divisions and the order of batches together.
//!
//! * [`annealer`]: the state, its moves, and their acceptance. A move is evaluated by [`crate::batch::segment_value`].
//! * [`move_mix`]: the probabilities of the kinds of moves, adapted to their success.

mod annealer;
mod move_mix;

pub(crate) use annealer::Annealer;
