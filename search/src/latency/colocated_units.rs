//! What is placed as one: an op, or all ops of a colocation group; and the devices that each may go to.
//!
//! A device stays in a unit's list only if every op of the unit may run there, the network's ends can be reached from
//! there, and each neighbour has a device left with a way to it. Where every pair of devices can exchange, that is all
//! there is to say; elsewhere a choice may still prove wrong later.

use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

/// The units of a problem.
pub(crate) struct ColocatedUnits {
    unit_of: Vec<u32>,
    members: Vec<Vec<u32>>,
    choices: Vec<Vec<u32>>,
    all_connected: bool,
}

impl ColocatedUnits {
    pub(crate) fn new(problem: &Problem, dense: &LatencyTables) -> ColocatedUnits {
        let mut unit_of = vec![u32::MAX; dense.op_count()];
        let mut members: Vec<Vec<u32>> = Vec::new();
        for group in &problem.constraints.colocate {
            members.push(group.iter().map(|op| op.0).collect());
        }
        for (unit, ops) in members.iter().enumerate() {
            ops.iter().for_each(|&op| unit_of[op as usize] = unit as u32);
        }
        for (op, unit) in unit_of.iter_mut().enumerate().filter(|(_, unit)| **unit == u32::MAX) {
            *unit = members.len() as u32;
            members.push(vec![op as u32]);
        }
        let reachable = |op: usize, device: usize| {
            dense.time(op, device) < NEVER
                && dense.release(op, device) < NEVER
                && dense.way_out(op, device) < NEVER
        };
        let choices = (members.iter())
            .map(|ops| {
                let mut list = dense.allowed(ops[0] as usize).to_vec();
                list.retain(|&device| ops.iter().all(|&op| reachable(op as usize, device as usize)));
                list
            })
            .collect();
        let devices = || problem.hardware.devices();
        let all_connected = devices().all(|a| devices().all(|b| problem.hardware.route(a, b).is_some()));
        let mut units = ColocatedUnits { unit_of, members, choices, all_connected };
        while !all_connected && units.drop_unreachable(dense) {}
        units
    }

    /// Drops devices from which some neighbour has no device to go to; true if any was dropped.
    fn drop_unreachable(&mut self, dense: &LatencyTables) -> bool {
        let mut dropped = false;
        for unit in 0..self.members.len() {
            let mut list = std::mem::take(&mut self.choices[unit]);
            let before = list.len();
            list.retain(|&device| {
                let choices = |other: u32| {
                    let other = self.unit_of[other as usize] as usize;
                    if other == unit { std::slice::from_ref(&device) } else { &self.choices[other][..] }
                };
                self.members[unit].iter().all(|&op| {
                    let ready = |e: &divvy_proof::latency_tables::Edge| {
                        let mut from = choices(e.op).iter();
                        from.any(|&d| dense.delay(e.size, d as usize, device as usize) < NEVER)
                    };
                    let sends = |e: &divvy_proof::latency_tables::Edge| {
                        let mut to = choices(e.op).iter();
                        to.any(|&d| dense.delay(e.size, device as usize, d as usize) < NEVER)
                    };
                    dense.inputs(op as usize).iter().all(ready)
                        && dense.outputs(op as usize).iter().all(sends)
                })
            });
            dropped |= list.len() < before;
            self.choices[unit] = list;
        }
        dropped
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The unit of an op.
    pub(crate) fn of(&self, op: usize) -> usize {
        self.unit_of[op] as usize
    }

    /// The ops of a unit.
    pub(crate) fn members(&self, unit: usize) -> &[u32] {
        &self.members[unit]
    }

    /// The devices that a unit may go to, ascending.
    pub(crate) fn choices(&self, unit: usize) -> &[u32] {
        &self.choices[unit]
    }

    /// Whether every device can send to every other.
    pub(crate) fn all_connected(&self) -> bool {
        self.all_connected
    }

    /// How many edges of a unit have no way, if it goes to `device` and the others are where `device_of` says.
    pub(crate) fn cut_off(&self, dense: &LatencyTables, unit: usize, device: u32, device_of: &[u32]) -> usize {
        if self.all_connected {
            return 0;
        }
        let at = |op: u32| {
            let other = self.of(op as usize);
            if other == unit { device as usize } else { device_of[other] as usize }
        };
        let here = device as usize;
        let cut = |op: &u32| {
            let inputs = dense.inputs(*op as usize).iter();
            let outputs = dense.outputs(*op as usize).iter();
            inputs.filter(|e| dense.delay(e.size, at(e.op), here) >= NEVER).count()
                + outputs.filter(|e| dense.delay(e.size, here, at(e.op)) >= NEVER).count()
        };
        self.members[unit].iter().map(cut).sum()
    }

    /// The time of all ops of a unit on a device.
    pub(crate) fn time(&self, dense: &LatencyTables, unit: usize, device: u32) -> u64 {
        self.members[unit].iter().map(|&op| dense.time(op as usize, device as usize)).sum()
    }

    /// For each unit the device on which it takes least time, the first of equals; none if some has nowhere to go.
    pub(crate) fn fastest(&self, dense: &LatencyTables) -> Option<Vec<u32>> {
        let fastest = |unit: usize| {
            self.choices[unit].iter().copied().min_by_key(|&device| self.time(dense, unit, device))
        };
        (0..self.len()).map(fastest).collect()
    }
}
