//! The lower bound of a state, and how far its components can be raised without changing any completion.

use crate::frontier_search::levels::FrontierSearch;
use crate::frontier_search::levels::states::StatesOfSet;
use crate::latency_tables::NEVER;

impl FrontierSearch<'_> {
    /// A lower bound on the completions of the state in `child`.
    pub(super) fn estimate(&mut self, mut least: u64, set: &StatesOfSet) -> u64 {
        let subproblem = self.subproblem;
        let devices = subproblem.devices;
        let limit = self.settings.limit;
        self.starts.clear();
        self.starts.resize(set.ready.len() * devices, u64::MAX);
        let mut first_end = u64::MAX;
        for (i, (op, reads)) in set.ready.iter().enumerate() {
            let mut best = u64::MAX;
            for &device in &subproblem.allowed[*op as usize] {
                let device = device as usize;
                let cell = *op as usize * devices + device;
                let mut start = self.child[device].max(subproblem.release[cell]);
                for &place in reads {
                    start = start.max(self.child[place as usize + device]);
                }
                best = best.min(start + subproblem.tails[cell]);
                first_end = first_end.min(start + subproblem.times[cell]);
                self.starts[i * devices + device] = start;
            }
            least = least.max(best);
            if least >= limit {
                return least;
            }
        }
        for (device, &tail) in subproblem.device_tails.iter().enumerate().filter(|&(_, &tail)| tail > 0) {
            least = least.max(self.child[device] + tail);
        }
        for (after, areas) in &set.area_sets {
            for (weights, &area) in self.settings.weights.iter().zip(areas) {
                let end = least.saturating_sub(*after);
                let free = self.child[..devices].iter().zip(weights);
                let capacity: u64 = free.map(|(&free, &weight)| weight * end.saturating_sub(free)).sum();
                if capacity < area {
                    least = after + self.area_finish(weights, area);
                    if least >= limit {
                        return least;
                    }
                }
            }
        }
        if !set.ready.is_empty() {
            self.raise_components(first_end, set);
        }
        least
    }

    /// Raises the components of the state in `child` as far as no completion changes: a device is not needed before some op
    /// can start there, nor a tensor before some op that reads it can. More states are then equal.
    fn raise_components(&mut self, first_end: u64, set: &StatesOfSet) {
        let devices = self.subproblem.devices;
        for device in (0..devices).filter(|&device| self.subproblem.device_tails[device] == 0) {
            let ready = self.starts[device..].iter().step_by(devices).min().copied().unwrap_or(u64::MAX);
            let needed = ready.min(first_end.saturating_add(set.rest_on[device]));
            if needed < NEVER {
                self.child[device] = self.child[device].max(needed);
            }
        }
        for (place, wait) in set.waits.iter().enumerate() {
            let later = first_end.saturating_add(wait.rest);
            for device in 0..devices {
                let ready = wait.ready.iter().map(|&op| self.starts[op as usize * devices + device]);
                let needed = ready.min().unwrap_or(u64::MAX).min(later);
                if needed < NEVER {
                    let cell = &mut self.child[(place + 1) * devices + device];
                    *cell = (*cell).max(needed);
                }
            }
        }
    }

    /// The earliest time at which the devices, each working at its weight from when it is free in `child`, have done `area`.
    fn area_finish(&mut self, weights: &[u64], area: u64) -> u64 {
        self.filling.clear();
        self.filling
            .extend(self.child[..self.subproblem.devices].iter().copied().zip(weights.iter().copied()));
        self.filling.sort_unstable();
        let (mut rate, mut done, mut now) = (0, 0, 0);
        for &(free, weight) in &self.filling {
            let by_then = done + rate * (free - now);
            if rate > 0 && by_then >= area {
                break;
            }
            (done, now) = (by_then, free);
            rate += weight;
        }
        if rate == 0 { now } else { now + (area - done).div_ceil(rate) }
    }
}
