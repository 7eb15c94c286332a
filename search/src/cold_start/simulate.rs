//! What choices come to: pieces are taken in order, each piece's loads right before it, and everything starts as soon
//! as it may. One pass; the same rules as the definition in `core`, in floating point.

use crate::cold_start::choices::{PieceChoice, Choices};
use crate::cold_start::pieces::{NEVER, Pieces};

/// How far things are.
#[derive(Clone)]
pub(crate) struct Simulation {
    pub(crate) device_free: Vec<f64>,
    pub(crate) link_free: Vec<f64>,
    pub(crate) end: f64,
    /// When everything would end if no kernel waited for weights.
    pub(crate) kernels_end: f64,
    finish: Vec<f64>,
    /// As `finish` and `device_free`, if no kernel waited for weights.
    kernel_finish: Vec<f64>,
    kernel_free: Vec<f64>,
    device_of: Vec<u16>,
    /// For each bundle and device it is loaded to, when it has landed; negative: not loaded.
    landed: Vec<f64>,
    /// For each bundle and device that reads it, where it comes from, and one more; 0: it does not yet.
    source: Vec<u16>,
    /// For each flow and device, whether it is there.
    copied: Vec<bool>,
    /// For each device, bytes that it holds.
    memory: Vec<f64>,
    /// What of `landed`, `source` and `copied` is set, in the order of setting.
    set: Vec<Assigned>,
}

/// Something that was set.
#[derive(Clone, Copy)]
enum Assigned {
    Landed(u32),
    Source(u32),
    Copied(u32),
}

/// How far things were at some moment.
pub(crate) struct Checkpoint {
    device_free: Vec<f64>,
    kernel_free: Vec<f64>,
    link_free: Vec<f64>,
    memory: Vec<f64>,
    end: f64,
    kernels_end: f64,
    set: usize,
}

impl Simulation {
    pub(crate) fn new(pieces: &Pieces) -> Simulation {
        let devices = pieces.devices;
        Simulation {
            device_free: vec![0.0; devices],
            link_free: vec![0.0; pieces.links],
            end: 0.0,
            kernels_end: 0.0,
            finish: vec![0.0; pieces.pieces.len()],
            kernel_finish: vec![0.0; pieces.pieces.len()],
            kernel_free: vec![0.0; devices],
            device_of: vec![0; pieces.pieces.len()],
            landed: vec![-1.0; pieces.bundles.len() * devices],
            source: vec![0; pieces.bundles.len() * devices],
            copied: vec![false; pieces.flows.len() * devices],
            memory: vec![0.0; devices],
            set: Vec::new(),
        }
    }

    /// What to go back to.
    pub(crate) fn mark(&self) -> Checkpoint {
        Checkpoint {
            device_free: self.device_free.clone(),
            kernel_free: self.kernel_free.clone(),
            link_free: self.link_free.clone(),
            memory: self.memory.clone(),
            end: self.end,
            kernels_end: self.kernels_end,
            set: self.set.len(),
        }
    }

    /// Undoes what was taken since.
    pub(crate) fn back_to(&mut self, mark: &Checkpoint) {
        self.device_free.copy_from_slice(&mark.device_free);
        self.kernel_free.copy_from_slice(&mark.kernel_free);
        self.link_free.copy_from_slice(&mark.link_free);
        self.memory.copy_from_slice(&mark.memory);
        self.end = mark.end;
        self.kernels_end = mark.kernels_end;
        self.unset(mark.set);
    }

    fn unset(&mut self, from: usize) {
        for set in self.set.drain(from..) {
            match set {
                Assigned::Landed(slot) => self.landed[slot as usize] = -1.0,
                Assigned::Source(slot) => self.source[slot as usize] = 0,
                Assigned::Copied(slot) => self.copied[slot as usize] = false,
            }
        }
    }

    /// Notes that a flow is on a device; false if it was there.
    fn arrives(&mut self, slot: usize) -> bool {
        let new = !std::mem::replace(&mut self.copied[slot], true);
        if new {
            self.set.push(Assigned::Copied(slot as u32));
        }
        new
    }

    /// Back to the beginning.
    pub(crate) fn reset(&mut self) {
        self.device_free.fill(0.0);
        self.kernel_free.fill(0.0);
        self.kernels_end = 0.0;
        self.link_free.fill(0.0);
        self.end = 0.0;
        self.memory.fill(0.0);
        self.unset(0);
    }

    /// The finish of the last piece; infinite where the choices cannot be.
    pub(crate) fn run(&mut self, pieces: &Pieces, choices: &Choices) -> f64 {
        self.reset();
        for &piece in &choices.sequence {
            if self.take(pieces, piece, choices.of[piece]) == NEVER {
                return NEVER;
            }
        }
        self.end
    }

    /// Runs the next piece; its finish, infinite where it cannot be run so.
    pub(crate) fn take(&mut self, pieces: &Pieces, index: usize, choice: PieceChoice) -> f64 {
        let piece = &pieces.pieces[index];
        let (device, devices) = (choice.device as usize, pieces.devices);
        let mut duration = piece.times[device];
        let mut start = self.device_free[device];
        let mut kernel_start = self.kernel_free[device];
        for &flow in &piece.inputs {
            let Some(from) = pieces.flows[flow].maker.map(|maker| {
                start = start.max(self.finish[maker]);
                kernel_start = kernel_start.max(self.kernel_finish[maker]);
                self.device_of[maker] as usize
            }) else {
                let bytes = pieces.flows[flow].bytes;
                if self.arrives(flow * devices + device) {
                    self.memory[device] += if pieces.counts_tensors { bytes } else { 0.0 };
                    duration += pieces.input_at.map_or(0.0, |from| pieces.copy(bytes, from, device));
                }
                continue;
            };
            if from != device && self.arrives(flow * devices + device) {
                let bytes = pieces.flows[flow].bytes;
                duration += pieces.copy(bytes, from, device);
                self.memory[device] += if pieces.counts_tensors { bytes } else { 0.0 };
            }
        }
        if !pieces.in_host[device] {
            let first = if choice.in_place { &[][..] } else { &piece.first_bundles[..] };
            for &bundle in first.iter().chain(&piece.other_bundles) {
                let (landed, forward) = self.load(pieces, bundle, device, choice.via as usize);
                start = start.max(landed);
                duration += forward;
            }
        }
        let mut holds = 0.0;
        if choice.in_place {
            let Some((longer, held)) = piece.in_place[device] else { return NEVER };
            duration += longer;
            if pieces.reads_hold_bus {
                // What is copied before the first op counts as part of it.
                holds = held + (duration - piece.times[device] - longer);
                start = pieces.media[device].iter().fold(start, |at, &link| at.max(self.link_free[link]));
            }
        }
        self.memory[device] += if pieces.counts_tensors { piece.made } else { 0.0 };
        let over = |d: usize| self.memory[d] > pieces.limits[d];
        if over(device) || over(choice.via as usize) {
            return NEVER;
        }
        let finish = start + duration;
        if holds > 0.0 {
            for &link in &pieces.media[device] {
                self.link_free[link] = start + holds;
            }
        }
        self.device_free[device] = finish;
        self.finish[index] = finish;
        self.kernel_free[device] = kernel_start + duration;
        self.kernel_finish[index] = kernel_start + duration;
        self.device_of[index] = choice.device;
        let out = match (piece.output, pieces.output_at) {
            (Some(bytes), Some(to)) => pieces.copy(bytes, device, to),
            _ => 0.0,
        };
        self.end = self.end.max(finish + out);
        self.kernels_end = self.kernels_end.max(kernel_start + duration + out);
        finish
    }

    /// When a bundle can be used on a device, and how long it takes to forward it there.
    fn load(&mut self, pieces: &Pieces, bundle: usize, device: usize, via: usize) -> (f64, f64) {
        let devices = pieces.devices;
        let known = self.source[bundle * devices + device];
        if known > 0 {
            // An op before it on this device waited for it, and paid.
            return (self.landed[bundle * devices + known as usize - 1], 0.0);
        }
        self.source[bundle * devices + device] = via as u16 + 1;
        self.set.push(Assigned::Source((bundle * devices + device) as u32));
        let all = &pieces.bundles[bundle];
        let slot = bundle * devices + via;
        if self.landed[slot] < 0.0 {
            let start = pieces.media[via].iter().fold(0.0f64, |at, &link| at.max(self.link_free[link]));
            let end = start + all.loads[via];
            for &link in &pieces.media[via] {
                self.link_free[link] = end;
            }
            self.landed[slot] = end;
            self.set.push(Assigned::Landed(slot as u32));
            // It may be there already, forwarded from elsewhere.
            if via == device || self.source[slot] == 0 {
                self.memory[via] += all.bytes;
            }
        }
        if via == device {
            return (self.landed[slot], 0.0);
        }
        if self.landed[bundle * devices + device] < 0.0 {
            self.memory[device] += all.bytes;
        }
        (self.landed[slot], all.forwards[via * devices + device])
    }
}
