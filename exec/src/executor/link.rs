//! The thread of one link: copies values, one after the other.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use super::clock::WorkClock;
use super::report::{Happened, Span};
use super::shared::{Cargo, Shared, lock};
use crate::stage_error::StageError;

/// Copies values until it is told to stop.
pub(super) fn carry(shared: &Shared, link: usize, queue: &Receiver<Cargo>) {
    let mut clock = WorkClock::new(true, shared.epoch);
    while let Ok(Cargo::Value { item, stage, output, value, due }) = queue.recv() {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let copying = clock.begin(due, None);
        let copy = match value.stored().copied() {
            Ok(copy) => copy,
            Err(error) => {
                let spec = &shared.program.spec;
                let name = &spec.stages[stage].model.outputs[output];
                let cause = format!("`{name}` cannot be sent: {error}");
                let device = &spec.devices[spec.links[link].to].name;
                return shared.fail(&spec.links[link].name, device, Some(item), StageError::new(cause));
            }
        };
        drop(value);
        let took = clock.end(copying);
        if shared.is_traced(item) {
            let (start_us, end_us) = (shared.since_start(copying.began), shared.since_start(took.ended));
            let what = Happened::Sent { stage, output, link };
            let mut measured = lock(&shared.measured[shared.devices.len() + link]);
            measured.spans.push(Span { what, item, start_us, end_us });
        }
        let far = shared.program.of_output[stage][output].far.iter().find(|(other, _)| *other == link);
        for &slot in far.map_or(&[][..], |(_, slots)| slots) {
            shared.feed(item, slot, copy.clone(), took.end);
        }
    }
}
