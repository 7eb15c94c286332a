//! The units of a placement, and the devices that each may use.
//!
//! A unit is an op, or all ops of a colocation group. A device is a choice of a unit if every op of the unit may run
//! there, the network's inputs and outputs can be carried there and from there, and every neighbouring unit has a
//! choice that is connected to it. Where some devices are not connected, the last condition is enforced to a fixpoint
//! (arc consistency on the edges): a choice that remains may still be in no placement.

use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

/// The units of a problem.
pub(crate) struct PlacementUnits {
    unit_of: Vec<u32>,
    members: Vec<Vec<u32>>,
    choices: Vec<Vec<u32>>,
    /// Whether every ordered pair of devices has a route.
    all_connected: bool,
}

impl PlacementUnits {
    pub(crate) fn new(problem: &Problem, tables: &LatencyTables) -> PlacementUnits {
        let mut unit_of = vec![u32::MAX; tables.op_count()];
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
            tables.time(op, device) < NEVER
                && tables.release(op, device) < NEVER
                && tables.way_out(op, device) < NEVER
        };
        let choices = (members.iter())
            .map(|ops| {
                let mut list = tables.allowed(ops[0] as usize).to_vec();
                list.retain(|&device| ops.iter().all(|&op| reachable(op as usize, device as usize)));
                list
            })
            .collect();
        let devices = || problem.hardware.devices();
        let all_connected = devices().all(|a| devices().all(|b| problem.hardware.route(a, b).is_some()));
        let mut units = PlacementUnits { unit_of, members, choices, all_connected };
        while !all_connected && units.drop_unreachable(tables) {}
        units
    }

    /// Removes choices that are connected to no choice of some neighbour; true if any was removed.
    fn drop_unreachable(&mut self, tables: &LatencyTables) -> bool {
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
                        from.any(|&d| tables.delay(e.size, d as usize, device as usize) < NEVER)
                    };
                    let sends = |e: &divvy_proof::latency_tables::Edge| {
                        let mut to = choices(e.op).iter();
                        to.any(|&d| tables.delay(e.size, device as usize, d as usize) < NEVER)
                    };
                    tables.inputs(op as usize).iter().all(ready)
                        && tables.outputs(op as usize).iter().all(sends)
                })
            });
            dropped |= list.len() < before;
            self.choices[unit] = list;
        }
        dropped
    }

    /// The number of units.
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

    /// The devices that a unit may use, ascending.
    pub(crate) fn choices(&self, unit: usize) -> &[u32] {
        &self.choices[unit]
    }

    /// Whether every ordered pair of devices has a route.
    pub(crate) fn all_connected(&self) -> bool {
        self.all_connected
    }

    /// The number of edges of a unit without a route, with the unit on `device` and the others placed by `device_of`.
    pub(crate) fn missing_routes(
        &self,
        tables: &LatencyTables,
        unit: usize,
        device: u32,
        device_of: &[u32],
    ) -> usize {
        if self.all_connected {
            return 0;
        }
        let at = |op: u32| {
            let other = self.of(op as usize);
            if other == unit { device as usize } else { device_of[other] as usize }
        };
        let here = device as usize;
        let cut = |op: &u32| {
            let inputs = tables.inputs(*op as usize).iter();
            let outputs = tables.outputs(*op as usize).iter();
            inputs.filter(|e| tables.delay(e.size, at(e.op), here) >= NEVER).count()
                + outputs.filter(|e| tables.delay(e.size, here, at(e.op)) >= NEVER).count()
        };
        self.members[unit].iter().map(cut).sum()
    }

    /// The sum of the op times of a unit on a device.
    pub(crate) fn time(&self, tables: &LatencyTables, unit: usize, device: u32) -> u64 {
        self.members[unit].iter().map(|&op| tables.time(op as usize, device as usize)).sum()
    }

    /// For each unit the device with the least time, the lowest number on ties; none if some unit has no choice.
    pub(crate) fn fastest(&self, tables: &LatencyTables) -> Option<Vec<u32>> {
        let fastest = |unit: usize| {
            self.choices[unit].iter().copied().min_by_key(|&device| self.time(tables, unit, device))
        };
        (0..self.len()).map(fastest).collect()
    }
}
