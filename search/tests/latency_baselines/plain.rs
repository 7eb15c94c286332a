//! Small problems as plain tables, and the list heuristics written straight from their papers, without any regard for
//! speed: no tables are shared, gaps are found by trying every start.

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::hardware::{ClassSpec, DeviceKind, DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, Problem};
use divvy_core::rng::Rng;
use divvy_core::units::Time;

/// Every pair of devices has a link of its own that takes `latency` plus a picosecond for each byte.
pub(crate) struct Plain {
    pub(crate) times: Vec<Vec<u64>>,
    /// From, to, bytes; an edge goes from a lower to a higher number.
    pub(crate) edges: Vec<(usize, usize, u64)>,
    pub(crate) latency: Vec<Vec<u64>>,
    pub(crate) weights: Vec<u64>,
    pub(crate) memory: Vec<Option<u64>>,
    /// Devices that are processors.
    pub(crate) processors: Vec<usize>,
    pub(crate) constraints: ConstraintsSpec,
}

/// An op that is scheduled.
#[derive(Clone, Copy)]
struct Slot {
    device: usize,
    start: u64,
    end: u64,
}

impl Plain {
    /// Transfers cost their bytes between any two devices.
    pub(crate) fn uniform<const D: usize>(times: &[[u64; D]], edges: &[(usize, usize, u64)]) -> Plain {
        Plain {
            times: times.iter().map(|row| row.to_vec()).collect(),
            edges: edges.to_vec(),
            latency: vec![vec![0; D]; D],
            weights: Vec::new(),
            memory: vec![None; D],
            processors: Vec::new(),
            constraints: ConstraintsSpec::default(),
        }
    }

    pub(crate) fn random(rng: &mut Rng) -> Plain {
        let ops = 1 + rng.below(25);
        let devices = 1 + rng.below(4);
        let most = *rng.pick(&[3, 30, 1000]);
        let density = *rng.pick(&[0.1, 0.3, 0.7]);
        let time = |rng: &mut Rng| if rng.chance(0.1) { 0 } else { rng.between(1, most) };
        let row = |rng: &mut Rng| (0..devices).map(|_| rng.between(0, most)).collect::<Vec<_>>();
        let drawn: Vec<Vec<u64>> = (0..devices).map(|_| row(rng)).collect();
        // The same both ways.
        let latency =
            (0..devices).map(|a| (0..devices).map(|b| drawn[a.min(b)][a.max(b)]).collect()).collect();
        let mut edges = Vec::new();
        for to in 0..ops {
            for from in 0..to {
                if rng.chance(density) {
                    edges.push((from, to, rng.between(0, most)));
                }
            }
        }
        Plain {
            times: (0..ops).map(|_| (0..devices).map(|_| time(rng)).collect()).collect(),
            edges,
            latency,
            weights: Vec::new(),
            memory: vec![None; devices],
            processors: Vec::new(),
            constraints: ConstraintsSpec::default(),
        }
    }

    pub(crate) fn problem(&self) -> Problem {
        let ops = self.times.len();
        let name = |op: usize| format!("o{op}");
        let tensor = |(i, &(from, to, bytes)): (usize, &(usize, usize, u64))| TensorSpec {
            name: format!("t{i}"),
            bytes,
            producer: Some(from as u32),
            consumers: vec![to as u32],
            ..TensorSpec::default()
        };
        let param = |(op, &bytes): (usize, &u64)| ParamSpec {
            name: format!("w{op}"),
            bytes,
            readers: vec![op as u32],
        };
        let graph = GraphSpec {
            name: "plain".into(),
            ops: (0..ops).map(|op| OpSpec { name: name(op), ..OpSpec::default() }).collect(),
            tensors: self.edges.iter().enumerate().map(tensor).collect(),
            params: self.weights.iter().enumerate().map(param).collect(),
            ..GraphSpec::default()
        };
        let devices = self.latency.len();
        let class = |d: usize| ClassSpec {
            name: format!("c{d}"),
            kind: if self.processors.contains(&d) { DeviceKind::Cpu } else { DeviceKind::Gpu },
            memory: self.memory[d],
            ..ClassSpec::default()
        };
        let mut hardware = HardwareSpec { name: "plain".into(), ..HardwareSpec::default() };
        hardware.classes = (0..devices).map(class).collect();
        for d in 0..devices {
            hardware.devices.push(DeviceSpec {
                name: format!("d{d}"),
                class: format!("c{d}"),
                ..DeviceSpec::default()
            });
            hardware.links.extend((0..d).map(|other| LinkSpec {
                between: [format!("d{other}"), format!("d{d}")],
                bandwidth: 1_000_000_000_000,
                latency: Time(self.latency[d][other]),
                ..LinkSpec::default()
            }));
        }
        let cost =
            |op: usize, d: usize| Some(Cost { time: Time(self.times[op][d]), origin: Origin::Measured });
        let costs = |d: usize| ClassCosts {
            class: format!("c{d}"),
            batch_sizes: vec![1],
            costs: vec![(0..ops).map(|op| cost(op, d)).collect()],
        };
        let profile = Profile { classes: (0..devices).map(costs).collect(), ..Profile::default() };
        let objective = Objective::Latency { links: LinkUse::Delay };
        let graph = Graph::new(graph).expect("a sound graph");
        Problem::new(graph, &profile, hardware, &[], objective, &self.constraints).expect("a sound problem")
    }

    fn devices(&self) -> usize {
        self.latency.len()
    }

    fn delay(&self, bytes: u64, from: usize, to: usize) -> u64 {
        if from == to { 0 } else { self.latency[from][to] + bytes }
    }

    /// Everything is multiplied by this, so that means are whole numbers.
    fn scale(&self) -> u64 {
        let devices = self.devices() as u64;
        devices * (devices * devices.saturating_sub(1)).max(1)
    }

    fn mean_delay(&self, bytes: u64) -> u64 {
        let devices = self.devices();
        let mut sum = 0;
        let mut pairs = 0;
        for a in 0..devices {
            for b in (0..devices).filter(|&b| b != a) {
                sum += self.delay(bytes, a, b);
                pairs += 1;
            }
        }
        sum * self.scale() / pairs.max(1)
    }

    fn upward_ranks(&self) -> Vec<u64> {
        let mut ranks = vec![0; self.times.len()];
        for op in (0..self.times.len()).rev() {
            let mean = self.times[op].iter().sum::<u64>() * self.scale() / self.devices() as u64;
            let after = self.edges.iter().filter(|edge| edge.0 == op);
            let after = after.map(|&(_, to, bytes)| self.mean_delay(bytes) + ranks[to]).max();
            ranks[op] = mean + after.unwrap_or(0);
        }
        ranks
    }

    fn optimistic_cost(&self) -> Vec<Vec<u64>> {
        let mut table = vec![vec![0; self.devices()]; self.times.len()];
        for op in (0..self.times.len()).rev() {
            for here in 0..self.devices() {
                for &(_, to, bytes) in self.edges.iter().filter(|edge| edge.0 == op) {
                    let way = |there: usize| {
                        let mean = if there == here { 0 } else { self.mean_delay(bytes) };
                        table[to][there] + self.times[to][there] * self.scale() + mean
                    };
                    let shortest = (0..self.devices()).map(way).min().unwrap_or(0);
                    table[op][here] = table[op][here].max(shortest);
                }
            }
        }
        table
    }

    fn ready(&self, done: &[Option<Slot>], op: usize, device: usize) -> u64 {
        let arrival = |&(from, _, bytes): &(usize, usize, u64)| {
            let slot = done[from].expect("what an op reads is scheduled before it");
            slot.end + self.delay(bytes, slot.device, device)
        };
        self.edges.iter().filter(|edge| edge.1 == op).map(arrival).max().unwrap_or(0)
    }

    /// The earliest start in a gap: only the ready time and the ends of other ops need to be tried.
    fn earliest_gap(&self, done: &[Option<Slot>], op: usize, device: usize) -> u64 {
        let ready = self.ready(done, op, device);
        let time = self.times[op][device];
        let here: Vec<Slot> = done.iter().flatten().copied().filter(|slot| slot.device == device).collect();
        let mut starts: Vec<u64> = here.iter().map(|slot| slot.end).filter(|&end| end > ready).collect();
        starts.push(ready);
        starts.sort_unstable();
        let free = |&start: &u64| here.iter().all(|slot| slot.end <= start || start + time <= slot.start);
        starts.into_iter().find(free).expect("after the last op there is room")
    }

    fn after_all(&self, done: &[Option<Slot>], op: usize, device: usize) -> u64 {
        let last = done.iter().flatten().filter(|slot| slot.device == device).map(|slot| slot.end).max();
        self.ready(done, op, device).max(last.unwrap_or(0))
    }

    /// Ready ops in the order of falling rank; each on the device of least `measure(op, device, end)`.
    fn list(&self, rank: &[u64], gaps: bool, measure: impl Fn(usize, usize, u64) -> u64) -> u64 {
        let mut done: Vec<Option<Slot>> = vec![None; self.times.len()];
        while done.iter().any(Option::is_none) {
            let is_ready = |&op: &usize| {
                done[op].is_none() && self.edges.iter().all(|edge| edge.1 != op || done[edge.0].is_some())
            };
            let next = (0..self.times.len()).filter(is_ready).min_by_key(|&op| std::cmp::Reverse(rank[op]));
            let op = next.expect("some op is ready");
            let slot = |device: usize| {
                let start = match gaps {
                    true => self.earliest_gap(&done, op, device),
                    false => self.after_all(&done, op, device),
                };
                Slot { device, start, end: start + self.times[op][device] }
            };
            let best = (0..self.devices()).map(slot).min_by_key(|slot| measure(op, slot.device, slot.end));
            done[op] = best;
        }
        done.iter().flatten().map(|slot| slot.end).max().unwrap_or(0)
    }

    pub(crate) fn heft(&self) -> u64 {
        self.list(&self.upward_ranks(), true, |_, _, end| end)
    }

    pub(crate) fn peft(&self) -> u64 {
        let table = self.optimistic_cost();
        // Every row has as many devices, so sums rank as means do.
        let rank: Vec<u64> = table.iter().map(|row| row.iter().sum()).collect();
        self.list(&rank, true, |op, device, end| end * self.scale() + table[op][device])
    }

    pub(crate) fn greedy(&self) -> u64 {
        self.list(&self.file_order(), false, |_, _, end| end)
    }

    pub(crate) fn met(&self) -> u64 {
        self.list(&self.file_order(), false, |op, device, _| self.times[op][device])
    }

    fn file_order(&self) -> Vec<u64> {
        (0..self.times.len() as u64).rev().collect()
    }

    pub(crate) fn fastest(&self) -> Vec<usize> {
        let fastest = |row: &Vec<u64>| (0..row.len()).min_by_key(|&device| row[device]).unwrap_or(0);
        self.times.iter().map(fastest).collect()
    }

    /// The finish when each device runs its ops in breadth-first order.
    pub(crate) fn breadth_first(&self, device_of: &[usize]) -> u64 {
        let mut done: Vec<Option<Slot>> = vec![None; self.times.len()];
        let inputs = |op: usize| self.edges.iter().filter(move |edge| edge.1 == op).map(|edge| edge.0);
        let mut queue: std::collections::VecDeque<usize> =
            (0..self.times.len()).filter(|&op| inputs(op).count() == 0).collect();
        while let Some(op) = queue.pop_front() {
            let start = self.after_all(&done, op, device_of[op]);
            let end = start + self.times[op][device_of[op]];
            done[op] = Some(Slot { device: device_of[op], start, end });
            for next in (0..self.times.len()).filter(|&next| inputs(next).any(|from| from == op)) {
                if inputs(next).all(|from| done[from].is_some()) {
                    queue.push_back(next);
                }
            }
        }
        done.iter().flatten().map(|slot| slot.end).max().unwrap_or(0)
    }

    /// The least breadth-first finish of all placements, if there are no more than `most`.
    pub(crate) fn best_string(&self, most: usize) -> Option<u64> {
        let count = self.devices().checked_pow(self.times.len() as u32).filter(|&count| count <= most)?;
        let placement = |mut number: usize| -> Vec<usize> {
            let digit = |_| {
                let digit = number % self.devices();
                number /= self.devices();
                digit
            };
            (0..self.times.len()).map(digit).collect()
        };
        (0..count).map(|number| self.breadth_first(&placement(number))).min()
    }
}
