//! The makespan of [`Choices`], whole or for the first pieces: serial schedule generation, which also gives
//! **the cost of one moved op**.
//!
//! Pieces are appended in the order of [`Choices::sequence`], each behind the loads of its weights; every item starts as soon as
//! its resources and inputs are available (a semi-active schedule). The rules are those of `core`'s definition, in `f64`. Once
//! a device or a copy has been paid for, later pieces on that device use it for free.
//!
//! A move is evaluated from scratch in O(pieces + edges + bundles read). The beam appends and undoes single pieces: a
//! checkpoint copies what is kept by device and link, and what is kept by bundle or edge is undone from a log.

use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::{NEVER, Pieces};

/// A partial schedule.
#[derive(Clone)]
pub(crate) struct Simulation {
    pub(crate) device_free: Vec<f64>,
    pub(crate) link_free: Vec<f64>,
    /// The makespan.
    pub(crate) end: f64,
    /// The makespan of the same decisions if all weights were resident.
    pub(crate) kernels_end: f64,
    /// By piece.
    finish: Vec<f64>,
    /// As `finish` and `device_free`, with all weights resident.
    kernel_finish: Vec<f64>,
    kernel_free: Vec<f64>,
    device_of: Vec<u16>,
    /// By bundle and landing device, when the load ends; negative if it is not loaded there.
    landed: Vec<f64>,
    /// By bundle and reader, one more than its landing device; 0 if no piece there has read it yet.
    source: Vec<u16>,
    /// By edge and device, whether the tensor has been copied there.
    copied: Vec<bool>,
    /// By device, bytes held.
    memory: Vec<f64>,
    /// The entries of `landed`, `source` and `copied` that were assigned, in that order.
    log: Vec<Assigned>,
}

/// An assignment to be undone.
#[derive(Clone, Copy)]
enum Assigned {
    Landed(u32),
    Source(u32),
    Copied(u32),
}

/// A partial schedule to return to.
pub(crate) struct Checkpoint {
    device_free: Vec<f64>,
    kernel_free: Vec<f64>,
    link_free: Vec<f64>,
    memory: Vec<f64>,
    end: f64,
    kernels_end: f64,
    log_length: usize,
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
            copied: vec![false; pieces.edges.len() * devices],
            memory: vec![0.0; devices],
            log: Vec::new(),
        }
    }

    /// A copy of all that [`Simulation::restore`] needs.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            device_free: self.device_free.clone(),
            kernel_free: self.kernel_free.clone(),
            link_free: self.link_free.clone(),
            memory: self.memory.clone(),
            end: self.end,
            kernels_end: self.kernels_end,
            log_length: self.log.len(),
        }
    }

    /// Removes the pieces appended since a checkpoint.
    pub(crate) fn restore(&mut self, checkpoint: &Checkpoint) {
        self.device_free.copy_from_slice(&checkpoint.device_free);
        self.kernel_free.copy_from_slice(&checkpoint.kernel_free);
        self.link_free.copy_from_slice(&checkpoint.link_free);
        self.memory.copy_from_slice(&checkpoint.memory);
        self.end = checkpoint.end;
        self.kernels_end = checkpoint.kernels_end;
        self.undo_log(checkpoint.log_length);
    }

    fn undo_log(&mut self, from: usize) {
        for assigned in self.log.drain(from..) {
            match assigned {
                Assigned::Landed(slot) => self.landed[slot as usize] = -1.0,
                Assigned::Source(slot) => self.source[slot as usize] = 0,
                Assigned::Copied(slot) => self.copied[slot as usize] = false,
            }
        }
    }

    /// Marks an edge as copied to a device; false if it already was.
    fn copy_once(&mut self, slot: usize) -> bool {
        let new = !std::mem::replace(&mut self.copied[slot], true);
        if new {
            self.log.push(Assigned::Copied(slot as u32));
        }
        new
    }

    /// Removes all pieces.
    fn reset(&mut self) {
        self.device_free.fill(0.0);
        self.kernel_free.fill(0.0);
        self.kernels_end = 0.0;
        self.link_free.fill(0.0);
        self.end = 0.0;
        self.memory.fill(0.0);
        self.undo_log(0);
    }

    /// The makespan of complete decisions; [`NEVER`] if they are infeasible.
    pub(crate) fn evaluate(&mut self, pieces: &Pieces, choices: &Choices) -> f64 {
        self.reset();
        for &piece in &choices.sequence {
            if self.append(pieces, piece, choices.by_piece[piece]) == NEVER {
                return NEVER;
            }
        }
        self.end
    }

    /// Appends a piece; its finish, or [`NEVER`] if it does not fit into memory or cannot read in place there.
    pub(crate) fn append(&mut self, pieces: &Pieces, index: usize, choice: PieceChoice) -> f64 {
        let piece = &pieces.pieces[index];
        let (device, devices) = (choice.device as usize, pieces.devices);
        let mut duration = piece.times[device];
        let mut start = self.device_free[device];
        let mut kernel_start = self.kernel_free[device];
        for &edge in &piece.inputs {
            let Some(from) = pieces.edges[edge].producer.map(|producer| {
                start = start.max(self.finish[producer]);
                kernel_start = kernel_start.max(self.kernel_finish[producer]);
                self.device_of[producer] as usize
            }) else {
                let bytes = pieces.edges[edge].bytes;
                if self.copy_once(edge * devices + device) {
                    self.memory[device] += if pieces.counts_tensors { bytes } else { 0.0 };
                    duration += pieces.input_at.map_or(0.0, |from| pieces.copy(bytes, from, device));
                }
                continue;
            };
            if from != device && self.copy_once(edge * devices + device) {
                let bytes = pieces.edges[edge].bytes;
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
                // Copies and forwards before the first op are part of its time.
                holds = held + (duration - piece.times[device] - longer);
                start =
                    pieces.load_links[device].iter().fold(start, |at, &link| at.max(self.link_free[link]));
            }
        }
        self.memory[device] += if pieces.counts_tensors { piece.produced } else { 0.0 };
        let over = |d: usize| self.memory[d] > pieces.memory_limits[d];
        if over(device) || over(choice.via as usize) {
            return NEVER;
        }
        let finish = start + duration;
        if holds > 0.0 {
            for &link in &pieces.load_links[device] {
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

    /// When a bundle has landed, and the time to forward it from there; loads it first if need be.
    fn load(&mut self, pieces: &Pieces, bundle: usize, device: usize, via: usize) -> (f64, f64) {
        let devices = pieces.devices;
        let known = self.source[bundle * devices + device];
        if known > 0 {
            // An earlier piece on this device has waited for it, and its time includes the forward.
            return (self.landed[bundle * devices + known as usize - 1], 0.0);
        }
        self.source[bundle * devices + device] = via as u16 + 1;
        self.log.push(Assigned::Source((bundle * devices + device) as u32));
        let weights = &pieces.bundles[bundle];
        let slot = bundle * devices + via;
        if self.landed[slot] < 0.0 {
            let start = pieces.load_links[via].iter().fold(0.0f64, |at, &link| at.max(self.link_free[link]));
            let end = start + weights.loads[via];
            for &link in &pieces.load_links[via] {
                self.link_free[link] = end;
            }
            self.landed[slot] = end;
            self.log.push(Assigned::Landed(slot as u32));
            // A copy forwarded from elsewhere counts already.
            if via == device || self.source[slot] == 0 {
                self.memory[via] += weights.bytes;
            }
        }
        if via == device {
            return (self.landed[slot], 0.0);
        }
        if self.landed[bundle * devices + device] < 0.0 {
            self.memory[device] += weights.bytes;
        }
        (self.landed[slot], weights.forwards[via * devices + device])
    }
}
