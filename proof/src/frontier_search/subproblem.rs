//! A part of a `latency` problem: some ops, with what is known about those before and after them.
//!
//! Ops outside the part count only through release times (what arrives from before), tails (what is still to come
//! after an op starts) and device tails (what must still run on a device). Leaving ops out only relaxes the problem,
//! so a lower bound for a part with valid releases and tails is one for the whole.

use crate::frontier_search::tails::Tails;
use crate::latency_tables::{LatencyTables, NEVER};

/// A tensor that ops of the part wait for: its producer, the sizes it comes in, and who still needs it.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) producer: u32,
    pub(super) consumers: Vec<u32>,
    /// For each pair of devices (from, to), the delay.
    pub(super) delays: Vec<u64>,
}

/// The ops looked at. Numbers of ops in here are positions in `ops`.
#[derive(Clone, Debug)]
pub struct Subproblem {
    /// The ops, as numbered in the problem, in topological order.
    pub ops: Vec<u32>,
    pub(super) devices: usize,
    pub(super) times: Vec<u64>,
    pub(super) allowed: Vec<Vec<u32>>,
    /// When each device is free at first.
    pub(super) free: Vec<u64>,
    /// When an op may start on a device at the earliest.
    pub(super) release: Vec<u64>,
    /// From the start of an op on a device to the end of everything, at least.
    pub(super) tails: Vec<u64>,
    /// From the start of an op on a device to the end of what it decides by itself.
    pub(super) own: Vec<u64>,
    /// From when a device is done with the part to the end of everything.
    pub(super) device_tails: Vec<u64>,
    /// From the end of an op to the end of everything, on the best of devices.
    pub(super) after: Vec<u64>,
    pub(super) ports: Vec<Port>,
    /// For each op, the ports it reads.
    pub(super) reads: Vec<Vec<u32>>,
    /// For each op, the ports it fills.
    pub(super) fills: Vec<Vec<u32>>,
    /// Ops by `after`, the largest first.
    pub(super) by_after: Vec<u32>,
    /// For each op and two devices: how much earlier it must start on the first for its results to be everywhere no
    /// later than from the second.
    pub(super) head_start: Vec<i64>,
}

impl Subproblem {
    /// The part of `ops`, which must be in topological order; nothing but the problem's own releases before them.
    pub fn new(dense: &LatencyTables, tails: &Tails, ops: Vec<u32>) -> Subproblem {
        let devices = dense.device_count();
        let mut local = vec![u32::MAX; dense.op_count()];
        for (i, &op) in ops.iter().enumerate() {
            local[op as usize] = i as u32;
        }
        let mut ports: Vec<Port> = Vec::new();
        let mut reads = vec![Vec::new(); ops.len()];
        let mut fills = vec![Vec::new(); ops.len()];
        let mut sizes: Vec<(u32, u32)> = Vec::new();
        for (i, &op) in ops.iter().enumerate() {
            sizes.clear();
            for edge in dense.outputs(op as usize) {
                let consumer = local[edge.op as usize];
                if consumer == u32::MAX {
                    continue;
                }
                let port = match sizes.iter().find(|(size, _)| *size == edge.size) {
                    Some(&(_, port)) => port,
                    None => {
                        let pairs = (0..devices).flat_map(|u| (0..devices).map(move |v| (u, v)));
                        let delays = pairs.map(|(u, v)| dense.delay(edge.size, u, v)).collect();
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
        let times = per_op(&|op, d| dense.time(op, d));
        let release = per_op(&|op, d| dense.release(op, d));
        // What an op means for ops outside shows in nothing but its tail.
        let inside = |op: usize| dense.outputs(op).iter().all(|edge| local[edge.op as usize] != u32::MAX);
        let own = per_op(&|op, d| {
            if inside(op) { dense.time(op, d) + dense.way_out(op, d) } else { tails.of(op, d) }
        });
        let tails = per_op(&|op, d| tails.of(op, d));
        let allowed = ops.iter().map(|&op| dense.allowed(op as usize).to_vec()).collect();
        let mut part = Subproblem {
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
        part.settle();
        part
    }

    /// Sets when each op may start on each device: `release(op, device)`, with ops as numbered in the part.
    pub fn set_releases(&mut self, release: impl Fn(usize, usize) -> u64) {
        for op in 0..self.ops.len() {
            for device in 0..self.devices {
                self.release[op * self.devices + device] = release(op, device);
            }
        }
    }

    /// Fixes all that is outside: when each device is free at first, how long it takes from the start of each op on each
    /// device to the end of everything, counting only ops outside, and from each device's last op here to the end.
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
                        let ways = self.allowed[consumer as usize].iter().map(|&to| to as usize);
                        let ways = ways.map(|to| {
                            port.delays[device * devices + to] + self.tails[consumer as usize * devices + to]
                        });
                        rest = rest.max(ways.min().unwrap_or(NEVER));
                    }
                }
                self.tails[cell] = self.own[cell].max(self.times[cell].saturating_add(rest)).min(NEVER);
            }
        }
        self.free = free;
        self.device_tails = device_tails;
        self.settle();
    }

    /// Keeps an op off devices.
    pub fn restrict(&mut self, op: usize, allow: impl Fn(u32) -> bool) {
        self.allowed[op].retain(|&device| allow(device));
    }

    /// Lets an op run on one device only.
    pub fn pin(&mut self, op: usize, device: u32) {
        self.allowed[op].retain(|&d| d == device);
        self.settle();
    }

    fn settle(&mut self) {
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
                let way = |from: usize| delays[from * devices + to] as i64;
                head_start = head_start.max(longer + way(on) - way(instead));
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
