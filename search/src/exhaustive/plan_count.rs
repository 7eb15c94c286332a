//! How many plans a problem has, counted up to a limit.
//!
//! A plan is a device for every op (for `batch`, for every input of every op), an order of what each device runs, where pieces
//! cost something the cuts of that order, and for transfers and loads that hold a bus an order of these. Pins and bans count; memory, routes, colocation and choices that
//! follow from others do not. So there are never more valid plans than are counted, but for reads in place under
//! `cold-start`, replicas under `pipeline`, and orders that mean nothing.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::objectives::transfers;
use divvy_core::problem::{LinkUse, Objective, Problem};

/// The most plans that are few.
pub(crate) const FEW: u64 = 1_000_000;
/// The most ops: searches go as deep.
pub(super) const MOST_OPS: usize = 100;

/// The number of plans, if these are few.
pub(crate) fn few(problem: &Problem) -> Option<u64> {
    let ops = problem.graph.op_count();
    if ops > MOST_OPS {
        return None;
    }
    let choices: Vec<Vec<DeviceId>> =
        problem.graph.ops().map(|op| problem.devices_for(op).collect()).collect();
    let inputs = match problem.objective {
        Objective::Batch { inputs } => inputs,
        _ => 1,
    };
    let mut product = 1u64;
    for devices in &choices {
        let devices = devices.len() as u64;
        product = product.saturating_mul(devices.saturating_pow(if devices > 1 { inputs } else { 1 }));
        if product > FEW {
            return None;
        }
    }
    if problem.objective == Objective::Stream {
        return Some(product);
    }
    let mut count = Count {
        problem,
        inputs,
        choices,
        device_of: vec![DeviceId(0); ops],
        listed: vec![0; problem.hardware.device_count()],
        has_piece_costs: problem.has_piece_costs(),
        total: 0,
    };
    count.place(0, 1);
    (count.total <= FEW).then_some(count.total)
}

struct Count<'a> {
    problem: &'a Problem,
    inputs: u32,
    choices: Vec<Vec<DeviceId>>,
    /// By op, a device that runs it.
    device_of: Vec<DeviceId>,
    /// By device, how many ops or batches it has.
    listed: Vec<u64>,
    has_piece_costs: bool,
    total: u64,
}

impl Count<'_> {
    /// Counts all ways to place ops from one on, where those before it have `orders` orders.
    fn place(&mut self, op: usize, orders: u64) {
        if self.total > FEW {
            return;
        }
        if orders > FEW {
            // All that follows has at least as many.
            self.total = orders;
            return;
        }
        if op == self.choices.len() {
            self.total = self.total.saturating_add(orders.saturating_mul(self.orders_of_transfers()));
            return;
        }
        if self.inputs > 1 && self.choices[op].len() > 1 {
            self.divide(op, orders);
            return;
        }
        for i in 0..self.choices[op].len() {
            let device = self.choices[op][i];
            self.device_of[op] = device;
            self.listed[device.index()] += 1;
            let orders = orders.saturating_mul(self.places(device));
            self.place(op + 1, orders);
            self.listed[device.index()] -= 1;
        }
    }

    /// Where the last op of a device can stand in its order, and in which pieces.
    fn places(&self, device: DeviceId) -> u64 {
        let listed = self.listed[device.index()];
        if listed > 1 && self.has_piece_costs { 2 * listed } else { listed }
    }

    /// Counts all ways to divide the inputs of an op over its devices: for each set of devices, in how many ways every
    /// device of the set has an input.
    fn divide(&mut self, op: usize, orders: u64) {
        let devices = self.choices[op].clone();
        if devices.len() > 20 {
            self.total = FEW + 1;
            return;
        }
        for set in 1u64..1 << devices.len() {
            let ways = surjections(u64::from(self.inputs), u64::from(set.count_ones()));
            if ways == 0 {
                continue;
            }
            let mut orders = orders.saturating_mul(ways);
            let inside = |i: &usize| set & (1 << i) != 0;
            for i in (0..devices.len()).filter(inside) {
                self.listed[devices[i].index()] += 1;
                orders = orders.saturating_mul(self.places(devices[i]));
            }
            self.place(op + 1, orders);
            for i in (0..devices.len()).filter(inside) {
                self.listed[devices[i].index()] -= 1;
            }
        }
    }

    /// In how many orders the transfers and loads of the placement can be listed, and by which devices loads may go.
    fn orders_of_transfers(&self) -> u64 {
        let problem = self.problem;
        match problem.objective {
            Objective::Latency { links: LinkUse::InTurn } => {
                let moving = transfers::needed(problem, &self.device_of);
                factorial(moving.map_or(0, |list| list.len() as u64))
            }
            Objective::ColdStart { .. } => {
                let has_bus = |device: &DeviceId| {
                    problem.hardware.host_route(*device).is_some_and(|route| route.bandwidth.is_some())
                };
                let vias = problem.hardware.devices().filter(has_bus).count() as u64;
                let mut landings: Vec<(u32, DeviceId)> = (self.device_of.iter().enumerate())
                    .filter(|(_, device)| has_bus(device))
                    .flat_map(|(op, &device)| {
                        problem.graph.params_of(OpId::new(op)).iter().map(move |param| (param.0, device))
                    })
                    .collect();
                landings.sort_unstable();
                landings.dedup();
                let loads = landings.len() as u64;
                factorial(loads).saturating_mul(vias.saturating_pow(loads.min(64) as u32))
            }
            _ => 1,
        }
    }
}

fn factorial(n: u64) -> u64 {
    (1..=n).fold(1, u64::saturating_mul)
}

/// In how many ways things can be put into boxes so that none stays empty.
fn surjections(things: u64, boxes: u64) -> u64 {
    if boxes == 1 || things < boxes {
        return u64::from(things >= boxes);
    }
    // Few enough where it matters: `boxes^things` is at most the limit.
    let mut sum = 0i128;
    let mut binomial = 1i128;
    for left_out in 0..boxes {
        let term = binomial.saturating_mul(i128::from(boxes - left_out).saturating_pow(things as u32));
        sum = if left_out % 2 == 0 { sum.saturating_add(term) } else { sum.saturating_sub(term) };
        binomial = binomial * i128::from(boxes - left_out) / i128::from(left_out + 1);
    }
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{factorial, surjections};

    #[test]
    fn things_in_boxes() {
        assert_eq!(surjections(3, 1), 1);
        assert_eq!(surjections(3, 2), 6);
        assert_eq!(surjections(4, 3), 36);
        assert_eq!(surjections(2, 3), 0);
        let all: u64 = [(1, 3), (2, 3), (3, 1)].iter().map(|&(k, sets)| surjections(4, k) * sets).sum();
        assert_eq!(all, 3u64.pow(4));
        assert_eq!(factorial(5), 120);
    }
}
