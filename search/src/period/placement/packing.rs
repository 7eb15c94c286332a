//! Units on devices within a limit of time, links and memory left aside: branch and bound on the linear relaxation.
//!
//! The relaxation lets a unit be divided over devices. It is solved as a mixture of whole placements (Dantzig and Wolfe
//! 1960): its rows are the devices and one that says that shares sum to one, so a basis has one more row than there are
//! devices. Prices of the devices' time come out of it; the placement that is cheapest at these prices is the next to
//! enter the mixture, and what it costs bounds every placement from below, at any prices. A unit that would raise that cost
//! beyond the limit on some device never goes there. A branch puts a unit that the mixture divides on each device in
//! turn; of devices that are alike so far, on one.
//!
//! Loads are whole numbers that `f64` holds exactly; bounds are rounded and given a margin.

use super::tables::{NEVER, Tables};

/// Sums beyond this are not exact.
const LONGEST: u64 = 1 << 52;
/// The share of a bound that rounding may have added.
const MARGIN: f64 = 1e-12;
/// Steps of the relaxation at one node.
const MOST_STEPS: usize = 100;
/// What a large unit that is whole counts, compared with one that is divided in the middle.
const WHOLE: f64 = 0.3;
/// How close mixture and bound are when the relaxation is solved.
const CLOSE: f64 = 1e-9;
const TINY: f64 = 1e-11;

/// What is packed: units of ops, and their time on each device.
pub(in crate::period) struct Packing {
    units: Vec<Vec<usize>>,
    ops: usize,
    devices: usize,
    /// Unit after unit; infinite where it must not run.
    time: Vec<f64>,
    /// The first device with the same times.
    alike: Vec<usize>,
}

/// What a search came to.
pub(in crate::period) struct Packed {
    /// The limit in the end: below all placements that were found.
    pub(in crate::period) limit: u64,
    /// Whether nothing keeps it.
    pub(in crate::period) is_refuted: bool,
    pub(in crate::period) nodes: u64,
}

impl Packing {
    /// None where times are too long to be added exactly.
    pub(in crate::period) fn new(tables: &Tables) -> Option<Packing> {
        let units = tables.units();
        let time_of = |unit: &[usize], device: usize| {
            let mut times = unit.iter().map(|&op| tables.time(op, device));
            times
                .try_fold(0u64, |sum, time| if time == NEVER { None } else { Some(sum.saturating_add(time)) })
        };
        let times: Vec<_> =
            units.iter().map(|unit| (0..tables.devices).map(|d| time_of(unit, d)).collect()).collect();
        Some(Packing { ops: tables.ops, units, ..Packing::of_times(&times, tables.devices)? })
    }

    /// Of units with a time on each device, where they may run there. They are made of no ops.
    pub(in crate::period) fn of_times(times: &[Vec<Option<u64>>], devices: usize) -> Option<Packing> {
        let longest = |times: &Vec<Option<u64>>| times.iter().copied().flatten().max().unwrap_or(0);
        let total = times.iter().map(longest).fold(0u64, u64::saturating_add);
        let time: Vec<f64> =
            times.iter().flatten().map(|time| time.map_or(f64::INFINITY, |time| time as f64)).collect();
        let column = |device: usize| time.iter().skip(device).step_by(devices);
        let first = |device| (0..device).find(|&other| column(other).eq(column(device))).unwrap_or(device);
        let alike = (0..devices).map(first).collect();
        let units = vec![Vec::new(); times.len()];
        (total < LONGEST).then_some(Packing { ops: 0, units, devices, alike, time })
    }

    fn root(&self) -> Node {
        Node {
            loads: vec![0.0; self.devices],
            open: (0..self.units.len() as u32).collect(),
            allowed: vec![u64::MAX; self.units.len()],
            prices: vec![1.0 / self.devices as f64; self.devices],
            device_of: vec![0; self.units.len()],
        }
    }

    /// Looks for placements whose loads are at most `limit`, and then for ever better ones, which are told with their
    /// largest load.
    pub(in crate::period) fn search(
        &self,
        limit: u64,
        most_nodes: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> Packed {
        let mut search = Search {
            packing: self,
            limit: limit.min(LONGEST) as f64,
            nodes: 0,
            most_nodes,
            is_over,
            found,
            mixture: Mixture::default(),
            loads: vec![0.0; self.devices],
            pick: Vec::new(),
        };
        let is_refuted = search.branch(self.root());
        // Below zero there is nothing, which a limit of zero cannot say.
        let limit = search.limit.max(0.0) as u64;
        Packed { limit, is_refuted: is_refuted && search.limit >= 0.0, nodes: search.nodes }
    }

    fn times(&self, unit: usize) -> &[f64] {
        &self.time[unit * self.devices..][..self.devices]
    }
}

/// The linear relaxation alone, again and again.
pub(in crate::period) struct Relaxed {
    node: Node,
    mixture: Mixture,
    loads: Vec<f64>,
    pick: Vec<u8>,
}

impl Relaxed {
    pub(in crate::period) fn new(packing: &Packing) -> Relaxed {
        let devices = packing.devices;
        Relaxed {
            node: packing.root(),
            mixture: Mixture::default(),
            loads: vec![0.0; devices],
            pick: Vec::new(),
        }
    }

    /// Prices that bound the loads from below as well as prices can, or beyond the limit. Units that are not open are in
    /// `loads`; open ones may go to `places`. Begins at the prices of the last time.
    pub(in crate::period) fn prices(
        &mut self,
        packing: &Packing,
        limit: u64,
        loads: impl Iterator<Item = f64>,
        open: impl Iterator<Item = u32>,
        places: &[u64],
    ) -> &[f64] {
        let node = &mut self.node;
        node.loads.clear();
        node.loads.extend(loads);
        node.open.clear();
        node.open.extend(open);
        node.allowed.copy_from_slice(places);
        let mut search = Search {
            packing,
            limit: limit.min(LONGEST) as f64,
            nodes: 0,
            most_nodes: u64::MAX,
            is_over: &mut || false,
            found: &mut |_, _| {},
            mixture: Mixture::default(),
            loads: std::mem::take(&mut self.loads),
            pick: std::mem::take(&mut self.pick),
        };
        self.mixture.solve(&mut search, node);
        (self.loads, self.pick) = (search.loads, search.pick);
        &self.node.prices
    }
}

/// Some units are placed, others may go to some devices.
#[derive(Clone)]
struct Node {
    loads: Vec<f64>,
    open: Vec<u32>,
    /// By unit, a bit for each device.
    allowed: Vec<u64>,
    prices: Vec<f64>,
    device_of: Vec<u8>,
}

struct Search<'a> {
    packing: &'a Packing,
    limit: f64,
    nodes: u64,
    most_nodes: u64,
    is_over: &'a mut dyn FnMut() -> bool,
    found: &'a mut dyn FnMut(u64, &[u8]),
    mixture: Mixture,
    /// The placement looked at last: its loads, and the devices of the open units.
    loads: Vec<f64>,
    pick: Vec<u8>,
}

impl Search<'_> {
    /// Whether all below the node has been looked at.
    fn branch(&mut self, mut node: Node) -> bool {
        self.nodes += 1;
        if self.nodes > self.most_nodes || (self.is_over)() {
            return false;
        }
        let Some(unit) = self.divided_unit(&mut node) else { return true };
        let packing = self.packing;
        let times = packing.times(unit);
        let price = |device: usize| node.prices[device] * times[device];
        let mut devices: Vec<usize> =
            (0..packing.devices).filter(|&d| node.allowed[unit] >> d & 1 == 1).collect();
        devices.sort_by(|&a, &b| price(a).total_cmp(&price(b)));
        for (place, &device) in devices.iter().enumerate() {
            let is_like = |&other: &usize| {
                packing.alike[other] == packing.alike[device]
                    && node.loads[other] == node.loads[device]
                    && node.open.iter().all(|&unit| {
                        let allowed = node.allowed[unit as usize];
                        allowed >> other & 1 == allowed >> device & 1
                    })
            };
            if devices[..place].iter().any(is_like) {
                continue;
            }
            let mut child = node.clone();
            child.allowed[unit] = 1 << device;
            if !self.branch(child) {
                return false;
            }
        }
        true
    }

    /// Places what can go to one device only, and bounds the rest. A unit to branch on; none if nothing keeps the limit.
    fn divided_unit(&mut self, node: &mut Node) -> Option<usize> {
        loop {
            if !self.place_forced(node) {
                return None;
            }
            if node.open.is_empty() {
                self.loads.copy_from_slice(&node.loads);
                self.pick.clear();
                self.tell(node);
                return None;
            }
            let mut mixture = std::mem::take(&mut self.mixture);
            let is_open = mixture.solve(self, node);
            self.mixture = mixture;
            if !is_open {
                return None;
            }
            if !self.forbid_dear(node) {
                return Some(self.mixture.most_divided(self.packing, node));
            }
        }
    }

    /// Whether all units that have one device left could be placed there.
    fn place_forced(&mut self, node: &mut Node) -> bool {
        let mut at = 0;
        while at < node.open.len() {
            let unit = node.open[at] as usize;
            let times = self.packing.times(unit);
            let fits = |&device: &usize| {
                node.allowed[unit] >> device & 1 == 1 && node.loads[device] + times[device] <= self.limit
            };
            let allowed = (0..times.len()).filter(fits).fold(0, |set, device| set | 1u64 << device);
            node.allowed[unit] = allowed;
            match allowed.count_ones() {
                0 => return false,
                1 => {
                    let device = allowed.trailing_zeros() as usize;
                    node.loads[device] += times[device];
                    node.device_of[unit] = device as u8;
                    node.open.swap_remove(at);
                    // Others may no longer fit there.
                    at = 0;
                }
                _ => at += 1,
            }
        }
        true
    }

    /// The placement that costs least at some prices, which sum to one. Its cost: a bound; none if beyond the limit.
    fn cheapest(&mut self, node: &Node, prices: &[f64]) -> Option<f64> {
        self.loads.copy_from_slice(&node.loads);
        self.pick.clear();
        for &unit in &node.open {
            let times = self.packing.times(unit as usize);
            let mut least = (f64::INFINITY, 0);
            for (device, (&time, &price)) in times.iter().zip(prices).enumerate() {
                if node.allowed[unit as usize] >> device & 1 == 1 && price * time < least.0 {
                    least = (price * time, device);
                }
            }
            self.loads[least.1] += times[least.1];
            self.pick.push(least.1 as u8);
        }
        self.tell(node);
        let cost: f64 = prices.iter().zip(&self.loads).map(|(price, load)| price * load).sum();
        (cost - cost * MARGIN <= self.limit).then_some(cost)
    }

    /// Tells of the placement looked at last if it keeps the limit, and lowers that.
    fn tell(&mut self, node: &Node) {
        let most = self.loads.iter().copied().fold(0.0, f64::max);
        if most > self.limit {
            return;
        }
        self.limit = most - 1.0;
        let mut device_of = vec![0; self.packing.ops];
        let mut put = |unit: usize, device: u8| {
            self.packing.units[unit].iter().for_each(|&op| device_of[op] = device);
        };
        node.device_of.iter().enumerate().for_each(|(unit, &device)| put(unit, device));
        node.open.iter().zip(&self.pick).for_each(|(&unit, &device)| put(unit as usize, device));
        (self.found)(most as u64, &device_of);
    }

    /// Keeps units from devices where they alone would raise the bound beyond the limit. Whether one has a single device
    /// left, or the bound no longer keeps the limit.
    fn forbid_dear(&mut self, node: &mut Node) -> bool {
        let prices = std::mem::take(&mut node.prices);
        let cost = self.cheapest(node, &prices);
        let room = cost.map(|cost| self.limit - cost + cost * MARGIN);
        let mut is_forced = room.is_none();
        for (&unit, &pick) in node.open.iter().zip(&self.pick) {
            let times = self.packing.times(unit as usize);
            let least = prices[usize::from(pick)] * times[usize::from(pick)];
            let allowed = &mut node.allowed[unit as usize];
            let dear =
                |device: &usize| room.is_none_or(|room| prices[*device] * times[*device] - least > room);
            for device in (0..times.len()).filter(dear) {
                *allowed &= !(1 << device);
            }
            is_forced |= allowed.count_ones() <= 1;
        }
        node.prices = prices;
        is_forced
    }
}

/// A mixture of placements whose largest load is least, found by the revised simplex method.
///
/// Variables are numbered: the slack of each device, the largest load, then the placements. Loads are in terms of the limit.
#[derive(Default)]
struct Mixture {
    /// Loads of the placements, and the devices of the open units.
    placements: Vec<(Vec<f64>, Vec<u8>)>,
    basis: Vec<usize>,
    /// The inverse of the basis, row by row, and the values of its variables.
    inverse: Vec<f64>,
    values: Vec<f64>,
}

impl Mixture {
    /// Solves the relaxation at a node and leaves its prices there. Whether the bound keeps the limit.
    fn solve(&mut self, search: &mut Search<'_>, node: &mut Node) -> bool {
        let devices = search.packing.devices;
        let rows = devices + 1;
        let Some(mut bound) = search.cheapest(node, &node.prices) else { return false };
        let scale = 1.0 / search.limit.max(1.0);
        self.placements.clear();
        self.add(search, scale);
        self.begin(devices);
        let mut best = node.prices.clone();
        let (mut duals, mut prices, mut column) = (vec![0.0; rows], vec![0.0; devices], vec![0.0; rows]);
        for step in 0..MOST_STEPS {
            let largest =
                self.basis.iter().position(|&variable| variable == devices).expect("it stays in the basis");
            duals.copy_from_slice(&self.inverse[largest * rows..][..rows]);
            column.fill(0.0);
            let least_slack = (0..devices).max_by(|&a, &b| duals[a].total_cmp(&duals[b])).unwrap_or(0);
            let entering = if duals[least_slack] > TINY {
                column[least_slack] = 1.0;
                least_slack
            } else {
                let sum: f64 = duals[..devices].iter().map(|dual| -dual.min(0.0)).sum();
                // Halfway to the best prices so far bounds are better; at the prices themselves the next step is sure.
                let mut entered = false;
                for share in [0.5, 0.0].into_iter().skip(usize::from(step == 0)) {
                    for (device, price) in prices.iter_mut().enumerate() {
                        let own = -duals[device].min(0.0) / sum;
                        *price = (1.0 - share) * own + share * best[device];
                    }
                    let Some(cost) = search.cheapest(node, &prices) else { return false };
                    if cost > bound {
                        bound = cost;
                        best.copy_from_slice(&prices);
                    }
                    let loads = duals.iter().zip(&search.loads);
                    let gain: f64 =
                        loads.map(|(dual, load)| dual * load * scale).sum::<f64>() + duals[devices];
                    if gain > TINY {
                        self.add(search, scale);
                        entered = true;
                        break;
                    }
                }
                let is_solved = self.values[largest] - bound * scale < CLOSE;
                if !entered || is_solved {
                    break;
                }
                let (loads, _) = &self.placements[self.placements.len() - 1];
                column[..devices].copy_from_slice(loads);
                column[devices] = 1.0;
                devices + self.placements.len()
            };
            if !self.pivot(entering, &column) {
                break;
            }
        }
        node.prices = best;
        true
    }

    fn add(&mut self, search: &Search<'_>, scale: f64) {
        let loads = search.loads.iter().map(|load| load * scale).collect();
        self.placements.push((loads, search.pick.clone()));
    }

    /// The basis of the first placement alone.
    fn begin(&mut self, devices: usize) {
        let rows = devices + 1;
        let loads = &self.placements[0].0;
        let busiest = (0..devices).max_by(|&a, &b| loads[a].total_cmp(&loads[b])).unwrap_or(0);
        self.basis.clear();
        self.basis.extend(0..devices);
        self.basis[busiest] = devices;
        self.basis.push(devices + 1);
        self.inverse.clear();
        self.inverse.resize(rows * rows, 0.0);
        for device in 0..devices {
            let row = &mut self.inverse[device * rows..][..rows];
            row[device] = 1.0;
            row[busiest] = -1.0;
            row[devices] = loads[busiest] - if device == busiest { 0.0 } else { loads[device] };
        }
        self.inverse[rows * rows - 1] = 1.0;
        self.values.clear();
        self.values.extend(self.inverse.iter().skip(devices).step_by(rows));
    }

    /// Takes a variable into the basis. Whether another had to leave.
    fn pivot(&mut self, entering: usize, column: &[f64]) -> bool {
        let rows = column.len();
        let by: Vec<f64> = (self.inverse.chunks_exact(rows))
            .map(|row| row.iter().zip(column).map(|(a, b)| a * b).sum())
            .collect();
        let ratio = |row: usize| self.values[row].max(0.0) / by[row];
        // The largest load is never zero, so it stays.
        let leaving = (0..rows)
            .filter(|&row| by[row] > TINY && self.basis[row] != rows - 1)
            .min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
        let Some(leaving) = leaving else { return false };
        let step = ratio(leaving);
        for (value, by) in self.values.iter_mut().zip(&by) {
            *value -= step * by;
        }
        self.values[leaving] = step;
        let (before, rest) = self.inverse.split_at_mut(leaving * rows);
        let (row, after) = rest.split_at_mut(rows);
        row.iter_mut().for_each(|entry| *entry /= by[leaving]);
        let others = before.chunks_exact_mut(rows).chain(after.chunks_exact_mut(rows));
        for (other, by) in others.zip(by.iter().enumerate().filter(|&(i, _)| i != leaving).map(|(_, by)| by))
        {
            other.iter_mut().zip(&*row).for_each(|(entry, pivot)| *entry -= by * pivot);
        }
        self.basis[leaving] = entering;
        true
    }

    /// The open unit that is large and divided.
    fn most_divided(&self, packing: &Packing, node: &Node) -> usize {
        let devices = packing.devices;
        let mixed: Vec<(f64, &[u8])> = (self.basis.iter().zip(&self.values))
            .filter(|&(&variable, _)| variable > devices)
            .map(|(&variable, &share)| (share.max(0.0), self.placements[variable - devices - 1].1.as_slice()))
            .collect();
        let mut shares = vec![0.0f64; devices];
        let mut best = (f64::NEG_INFINITY, 0);
        for (place, &unit) in node.open.iter().enumerate() {
            shares.fill(0.0);
            mixed.iter().for_each(|(share, pick)| shares[usize::from(pick[place])] += share);
            let most = shares.iter().copied().fold(0.0, f64::max).min(1.0);
            let times = packing.times(unit as usize);
            let costs = times.iter().zip(&node.prices).enumerate();
            let allowed = costs.filter(|(device, _)| node.allowed[unit as usize] >> device & 1 == 1);
            let cost = allowed.map(|(_, (time, price))| time * price).fold(f64::INFINITY, f64::min);
            let score = cost * (1.0 - most + WHOLE);
            if score > best.0 {
                best = (score, unit as usize);
            }
        }
        best.1
    }
}
