//! A subproblem of a one-request problem: some ops, with release times before them and tails behind them.
//!
//! Ops outside count only through release times (what arrives from before), tails (what must follow an op's start) and device
//! tails (what a device must still run afterwards). Leaving ops out relaxes the problem, so with valid releases and tails a
//! lower bound for the subproblem is one for the whole.
//!
//! A *port* is a tensor read inside the subproblem, with its delays between devices.

use crate::frontier_search::tails::Tails;
use crate::latency_tables::{LatencyTables, NEVER};

/// A tensor between ops of the subproblem: its producer, its consumers, its delays.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) producer: u32,
    pub(super) consumers: Vec<u32>,
    /// For each pair of devices (from, to), the delay.
    pub(super) delays: Vec<u64>,
}

/// The subproblem. Ops are numbered by their position in `ops`.
#[derive(Clone, Debug)]
pub struct FrontierSubproblem {
    /// The ops, as numbered in the problem, in topological order.
    pub ops: Vec<u32>,
    pub(super) devices: usize,
    pub(super) times: Vec<u64>,
    pub(super) allowed: Vec<Vec<u32>>,
    /// The earliest time at which each device is free.
    pub(super) free: Vec<u64>,
    /// The earliest start of an op on a device.
    pub(super) release: Vec<u64>,
    /// A lower bound from the start of an op on a device to the end of the schedule.
    pub(super) tails: Vec<u64>,
    /// The same, counting only the op itself and ops outside.
    pub(super) own: Vec<u64>,
    /// From the last op of the subproblem on a device to the end of the schedule.
    pub(super) device_tails: Vec<u64>,
    /// From the end of an op to the end of the schedule, the least over its devices.
    pub(super) after: Vec<u64>,
    pub(super) ports: Vec<Port>,
    /// For each op, the ports it reads.
    pub(super) reads: Vec<Vec<u32>>,
    /// For each op, the ports it fills.
    pub(super) fills: Vec<Vec<u32>>,
    /// Ops by descending `after`.
    pub(super) by_after: Vec<u32>,
    /// For each op and two devices: how much earlier it must start on the first for its outputs to be on every device no
    /// later than from the second.
    pub(super) head_start: Vec<i64>,
}

impl FrontierSubproblem {
    /// The subproblem of `ops`, which must be in topological order, with the release times of the problem itself.
    pub fn new(tables: &LatencyTables, tails: &Tails, ops: Vec<u32>) -> FrontierSubproblem {
        let devices = tables.device_count();
        let mut local = vec![u32::MAX; tables.op_count()];
        for (i, &op) in ops.iter().enumerate() {
            local[op as usize] = i as u32;
        }
        let mut ports: Vec<Port> = Vec::new();
        let mut reads = vec![Vec::new(); ops.len()];
        let mut fills = vec![Vec::new(); ops.len()];
        let mut sizes: Vec<(u32, u32)> = Vec::new();
        for (i, &op) in ops.iter().enumerate() {
            sizes.clear();
            for edge in tables.outputs(op as usize) {
                let consumer = local[edge.op as usize];
                if consumer == u32::MAX {
                    continue;
                }
                let port = match sizes.iter().find(|(size, _)| *size == edge.size) {
                    Some(&(_, port)) => port,
                    None => {
                        let pairs = (0..devices).flat_map(|u| (0..devices).map(move |v| (u, v)));
                        let delays = pairs.map(|(u, v)| tables.delay(edge.size, u, v)).collect();
                        ports.push(Port { producer: i as u32, consumers: Vec::new(), delays });
                        let port = ports.len() as u32 - 1;
                        sizes.push((edge.size, port));
                        fills[i].push(port);
                        port
                    }
                };
                ports[port as usize].consumers.push(consumer);
                reads[consumer as usize].push(port);
            }
        }
        let per_op = |f: &dyn Fn(usize, usize) -> u64| -> Vec<u64> {
            ops.iter().flat_map(|&op| (0..devices).map(move |d| f(op as usize, d))).collect()
        };
        let times = per_op(&|op, d| tables.time(op, d));
        let release = per_op(&|op, d| tables.release(op, d));
        // For ops outside only the tail counts.
        let inside = |op: usize| tables.outputs(op).iter().all(|edge| local[edge.op as usize] != u32::MAX);
        let own = per_op(&|op, d| {
            if inside(op) { tables.time(op, d) + tables.way_out(op, d) } else { tails.of(op, d) }
        });
        let tails = per_op(&|op, d| tails.of(op, d));
        let allowed = ops.iter().map(|&op| tables.allowed(op as usize).to_vec()).collect();
        let mut subproblem = FrontierSubproblem {
            devices,
            times,
            allowed,
            free: vec![0; devices],
            release,
            tails,
            own,
            device_tails: vec![0; devices],
            after: Vec::new(),
            ports,
            reads,
            fills,
            by_after: Vec::new(),
            head_start: Vec::new(),
            ops,
        };
        subproblem.derive();
        subproblem
    }

    /// Sets the earliest start of each op on each device: `release(op, device)`, with ops as numbered in here.
    pub fn set_releases(&mut self, release: impl Fn(usize, usize) -> u64) {
        for op in 0..self.ops.len() {
            for device in 0..self.devices {
                self.release[op * self.devices + device] = release(op, device);
            }
        }
    }

    /// Fixes all that is outside: when each device becomes free; for each op and device, a lower bound from its start to the
    /// end of the schedule that counts only ops outside; and for each device, one from its last op in here.
    pub fn set_surroundings(
        &mut self,
        free: Vec<u64>,
        own: impl Fn(usize, usize) -> u64,
        device_tails: Vec<u64>,
    ) {
        let devices = self.devices;
        for op in (0..self.ops.len()).rev() {
            for (device, device_tail) in device_tails.iter().enumerate() {
                let cell = op * devices + device;
                self.own[cell] = own(op, device).max(self.times[cell].saturating_add(*device_tail));
                let mut rest = 0;
                for port in self.fills[op].iter().map(|&port| &self.ports[port as usize]) {
                    for &consumer in &port.consumers {
                        let devices_of = self.allowed[consumer as usize].iter().map(|&to| to as usize);
                        let rests = devices_of.map(|to| {
                            port.delays[device * devices + to] + self.tails[consumer as usize * devices + to]
                        });
                        rest = rest.max(rests.min().unwrap_or(NEVER));
                    }
                }
                self.tails[cell] = self.own[cell].max(self.times[cell].saturating_add(rest)).min(NEVER);
            }
        }
        self.free = free;
        self.device_tails = device_tails;
        self.derive();
    }

    /// Removes devices from those that may run an op.
    pub fn restrict(&mut self, op: usize, allow: impl Fn(u32) -> bool) {
        self.allowed[op].retain(|&device| allow(device));
    }

    /// Lets an op run on one device only.
    pub fn pin(&mut self, op: usize, device: u32) {
        self.allowed[op].retain(|&d| d == device);
        self.derive();
    }

    /// Recomputes what follows from times and tails.
    fn derive(&mut self) {
        let devices = self.devices;
        self.after = (0..self.ops.len())
            .map(|op| {
                let row = op * devices;
                let allowed = self.allowed[op].iter().map(|&d| d as usize);
                allowed
                    .map(|d| self.tails[row + d] - self.times[row + d].min(self.tails[row + d]))
                    .min()
                    .unwrap_or(0)
            })
            .collect();
        self.by_after = (0..self.ops.len() as u32).collect();
        self.by_after.sort_by_key(|&op| (std::cmp::Reverse(self.after[op as usize]), op));
        let pairs = (0..devices).flat_map(|on| (0..devices).map(move |instead| (on, instead)));
        let ops =
            (0..self.ops.len()).flat_map(|op| pairs.clone().map(move |(on, instead)| (op, on, instead)));
        self.head_start = ops.map(|(op, on, instead)| self.head_start_of(op, on, instead)).collect();
    }

    fn head_start_of(&self, op: usize, on: usize, instead: usize) -> i64 {
        let devices = self.devices;
        let times = |values: &[u64], device: usize| values[op * devices + device] as i64;
        let mut head_start = times(&self.own, on) - times(&self.own, instead);
        let longer = times(&self.times, on) - times(&self.times, instead);
        for &port in &self.fills[op] {
            let delays = &self.ports[port as usize].delays;
            for to in 0..devices {
                let delay = |from: usize| delays[from * devices + to] as i64;
                head_start = head_start.max(longer + delay(on) - delay(instead));
            }
        }
        head_start
    }

    pub(super) fn time(&self, op: usize, device: usize) -> u64 {
        self.times[op * self.devices + device]
    }

    /// The least weighted time of an op.
    pub(super) fn least_weighted(&self, op: usize, weights: &[u64]) -> u64 {
        let times = self.allowed[op].iter().map(|&d| (self.time(op, d as usize), weights[d as usize]));
        times.filter(|&(time, _)| time < NEVER).map(|(time, weight)| time * weight).min().unwrap_or(0)
    }
}
