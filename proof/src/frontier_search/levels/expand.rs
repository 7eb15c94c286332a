//! The successors of a state: every ready op on every device, except where that leaves time idle that a ready op could use.

use crate::frontier_search::levels::FrontierSearch;
use crate::frontier_search::levels::states::{BackPointer, StateLevel, StatesOfSet};
use crate::latency_tables::NEVER;

/// The earliest start from which on a step leaves idle time that a ready op could use: the op that gives it (as a position in
/// the list of ready ops), and the earliest for any other op.
struct IdleCutoff {
    first: (u64, usize),
    second: u64,
}

impl IdleCutoff {
    /// Starts of this op from here on are pruned.
    fn latest_start(&self, op: usize) -> u64 {
        if self.first.1 == op { self.second } else { self.first.0 }
    }
}

impl FrontierSearch<'_> {
    /// Adds every successor of the states of a set to the next level.
    pub(super) fn expand(&mut self, set: &StatesOfSet, next: &mut StateLevel) {
        let devices = self.subproblem.devices;
        let length = (set.ports.len() + 1) * devices;
        let idle: Vec<IdleCutoff> = set.rows.chunks_exact(length).map(|row| self.idle(set, row)).collect();
        for (i, (op, reads)) in set.ready.iter().enumerate() {
            let target = self.set_after(set, *op, next);
            let target = &mut next.sets[target];
            // The place of each tensor of the new state in the old one; none: the op makes it.
            let mut moved = std::mem::take(&mut self.moved);
            moved.clear();
            moved.extend(
                target
                    .ports
                    .iter()
                    .map(|port| set.ports.binary_search(port).ok().map(|place| (place + 1) * devices)),
            );
            for (row, (cells, idle)) in set.rows.chunks_exact(length).zip(&idle).enumerate() {
                for &device in &self.subproblem.allowed[*op as usize] {
                    self.states += 1;
                    let from = (set.least[row], set.decided[row], set.first_number + row as u32);
                    let latest = idle.latest_start(i);
                    self.extend(cells, from, *op as usize, reads, device as usize, latest, &moved, target);
                }
            }
            self.moved = moved;
        }
    }

    /// The start from which on a step leaves idle time that a ready op could have used: by then that op would have ended, its
    /// outputs on every device no later than if it started after the step. Moving it there keeps any completion valid and
    /// makes it no longer, so the step is pruned.
    fn idle(&mut self, set: &StatesOfSet, row: &[u64]) -> IdleCutoff {
        let subproblem = self.subproblem;
        let devices = subproblem.devices;
        let mut idle = IdleCutoff { first: (u64::MAX, usize::MAX), second: u64::MAX };
        for (i, (op, reads)) in set.ready.iter().enumerate() {
            let op = *op as usize;
            self.starts.clear();
            for device in 0..devices {
                let start = row[device].max(subproblem.release[op * devices + device]);
                self.starts
                    .push(reads.iter().fold(start, |start, &place| start.max(row[place as usize + device])));
            }
            let used = |&device: &u32| {
                let device = device as usize;
                let start = self.starts[device];
                // Strictly earlier: otherwise two ops could each be pruned in favour of the other.
                let mut from = (start + subproblem.times[op * devices + device]).max(start + 1);
                for &instead in &subproblem.allowed[op] {
                    let head_start =
                        subproblem.head_start[(op * devices + device) * devices + instead as usize];
                    let needed = start.saturating_add_signed(head_start);
                    if self.starts[instead as usize] < needed {
                        from = from.max(needed);
                    }
                }
                from
            };
            let from = subproblem.allowed[op].iter().map(used).min().unwrap_or(u64::MAX);
            if from < idle.first.0 {
                idle.second = idle.first.0;
                idle.first = (from, i);
            } else {
                idle.second = idle.second.min(from);
            }
        }
        idle
    }

    /// One op on one device after a state.
    #[expect(
        clippy::too_many_arguments,
        reason = "the innermost step; its caller has looked all of these up"
    )]
    fn extend(
        &mut self,
        row: &[u64],
        (least, decided, before): (u64, u64, u32),
        op: usize,
        reads: &[u32],
        device: usize,
        latest: u64,
        moved: &[Option<usize>],
        target: &mut StatesOfSet,
    ) {
        let subproblem = self.subproblem;
        let devices = subproblem.devices;
        let cell = op * devices + device;
        let mut start = row[device].max(subproblem.release[cell]);
        for &place in reads {
            start = start.max(row[place as usize + device]);
        }
        let least = least.max(start + subproblem.tails[cell]);
        if least >= self.settings.limit || start >= latest || start >= NEVER {
            return;
        }
        let end = start + subproblem.times[cell];
        self.child.clear();
        self.child.extend(row[..devices].iter().map(|&free| free.max(start)));
        self.child[device] = end;
        let mut fills = subproblem.fills[op].iter();
        for place in moved {
            match place {
                Some(place) => {
                    for d in 0..devices {
                        let there = row[place + d].max(self.child[d]);
                        self.child.push(there);
                    }
                }
                None => {
                    let port = &subproblem.ports[*fills.next().expect("one for each tensor made") as usize];
                    for d in 0..devices {
                        let there = (end + port.delays[device * devices + d]).max(self.child[d]);
                        self.child.push(there);
                    }
                }
            }
        }
        let least = self.estimate(least, target);
        if least >= self.settings.limit {
            return;
        }
        target.rows.extend_from_slice(&self.child);
        let step = BackPointer { before, op: op as u32, device: device as u32 };
        target.push(least, decided.max(start + subproblem.own[cell]), step);
    }
}
