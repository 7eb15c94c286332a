//! What the threads of a cold start tell each other: marks of loads and pieces, values in host memory, and failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::card::Mark;
use crate::executor::Failure;
use crate::tensor::Tensor;

/// How often a waiting thread looks whether the run was cancelled.
const LOOK: Duration = Duration::from_millis(50);

/// Another thread failed, or the run was cancelled: whoever hears of it ends.
pub(super) struct Stopped;

/// What was told so far.
pub(super) struct Told {
    /// For each step of the buses, when it is over.
    pub(super) bus: Vec<Option<Mark>>,
    /// For each piece on a card, when it is over.
    pub(super) pieces: Vec<Option<Mark>>,
    /// Values in host memory.
    pub(super) values: Vec<Option<Tensor>>,
    pub(super) failure: Option<Failure>,
    stopped: bool,
}

/// Shared by the threads of one run.
pub(super) struct Board<'a> {
    told: Mutex<Told>,
    changed: Condvar,
    cancelled: &'a AtomicBool,
}

impl<'a> Board<'a> {
    pub(super) fn new(bus: usize, pieces: usize, values: usize, cancelled: &'a AtomicBool) -> Board<'a> {
        let told = Told {
            bus: vec![None; bus],
            pieces: vec![None; pieces],
            values: vec![None; values],
            failure: None,
            stopped: false,
        };
        Board { told: Mutex::new(told), changed: Condvar::new(), cancelled }
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn hear<T>(&self, look: impl Fn(&Told) -> Option<T>) -> Result<T, Stopped> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if told.stopped || self.cancelled.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            if let Some(found) = look(&told) {
                return Ok(found);
            }
            told = self.changed.wait_timeout(told, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn tell_bus(&self, step: usize, mark: Mark) {
        self.tell(|told| told.bus[step] = Some(mark));
    }

    /// When a step of a bus is over, once it is in its queue.
    pub(super) fn hear_bus(&self, step: usize) -> Result<Mark, Stopped> {
        self.hear(|told| told.bus[step].clone())
    }

    pub(super) fn tell_piece(&self, piece: usize, mark: Mark) {
        self.tell(|told| told.pieces[piece] = Some(mark));
    }

    /// When a piece on a card is over, once it is in its queue.
    pub(super) fn hear_piece(&self, piece: usize) -> Result<Mark, Stopped> {
        self.hear(|told| told.pieces[piece].clone())
    }

    pub(super) fn tell_value(&self, value: usize, tensor: Tensor) {
        self.tell(|told| told.values[value] = Some(tensor));
    }

    /// A value in host memory, once it is made.
    pub(super) fn hear_value(&self, value: usize) -> Result<Tensor, Stopped> {
        self.hear(|told| told.values[value].clone())
    }

    /// The first failure is kept.
    pub(super) fn fail(&self, failure: Failure) {
        self.tell(|told| {
            told.failure.get_or_insert(failure);
            told.stopped = true;
        });
    }

    /// What is left when all threads have ended.
    pub(super) fn end(self) -> Told {
        self.told.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
