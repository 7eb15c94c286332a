//! Devices carve their shares out of the network: bounds and plans where links are the matter.
//!
//! At a threshold, prices of ops are raised where no device wants an op and lowered where several do, until what must be
//! sent for the best shares is as much as prices can show (a subgradient method: Held, Wolfe and Crowder 1974). Where
//! it is more than the links carry, the threshold is refuted ([`DeviceKnapsack`]) and the next is further up. At the
//! prices in the end the shares nearly fit together. A dive gives the device that was of one mind most the share it wants,
//! lets prices settle for what is left, and so on; what is left in the end goes where there is time.

use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::stream::link_prices::DeviceKnapsack;

use crate::stream::tables::StreamTables;

/// The first step towards the target, and by how much steps get shorter where nothing was gained for so many of them.
const FIRST_STEP: f64 = 1.0;
const SHORTER: f64 = 0.7;
const PATIENCE: u32 = 12;
/// Steps shorter than this lead nowhere.
const LAST_STEP: f64 = 1e-3;
/// A gain of this part of what the links carry counts.
const GAIN: f64 = 1e-3;
/// How far above the best known the target is, and the part of the last direction that is kept.
const AHEAD: f64 = 0.1;
const INERTIA: f64 = 0.5;
/// The least that an op's price may move by, as a part of what it moves by on average.
const LEAST_MOVE: f64 = 0.1;
/// The part of what was shown beyond need by which the next threshold is higher, and the least that it is higher by.
const CLIMB: f64 = 0.3;
const LEAST_CLIMB: u64 = 1000;

/// Prices that know more each time.
pub(crate) struct LagrangianSplit<'p> {
    shares: DeviceKnapsack<'p>,
    weights: Vec<u64>,
    devices: usize,
    prices: Vec<f64>,
    /// How readily the price of an op moves.
    pace: Vec<f64>,
}

/// What a climb came to.
pub(crate) struct Climbed {
    /// How many steps it took.
    pub(crate) steps: u64,
    /// For the highest threshold that was refuted.
    pub(crate) evidence: Option<Evidence>,
}

/// The prices of some steps, and what they came to.
struct Ascent {
    best: f64,
    prices: Vec<f64>,
    step: f64,
    since: u32,
    direction: Vec<f64>,
}

/// What the devices want at some prices.
struct Wanted {
    /// What must be sent at least.
    sent: f64,
    /// By device, what it wants.
    shares: Vec<Vec<usize>>,
}

impl<'p> LagrangianSplit<'p> {
    /// None where no link is on all ways between devices, or too many tensors are alive at a time. The weights are those
    /// of the devices' time.
    pub(crate) fn new(problem: &'p Problem, tables: &StreamTables, device_weights: &[u64]) -> Option<LagrangianSplit<'p>> {
        let shared = shared_link(tables)?;
        let weights: Vec<u64> = (0..tables.bandwidths.len()).map(|link| u64::from(link == shared)).collect();
        let shares = DeviceKnapsack::new(problem, &weights).ok()?;
        // An op is worth the time it takes where that is cheapest; all ops what the link carries in the meantime.
        let cheapest = |op: usize| {
            let times = (0..tables.devices).filter(|&d| tables.may_run(op, d));
            let cost = |d: usize| tables.time(op, d) as f64 * device_weights[d] as f64;
            times.map(cost).fold(f64::INFINITY, f64::min)
        };
        let costs: Vec<f64> = (0..tables.ops).map(cheapest).collect();
        let all: f64 = costs.iter().sum();
        let weight: f64 = device_weights.iter().map(|&w| w as f64).sum();
        if !(all.is_finite() && all > 0.0 && weight > 0.0) {
            return None;
        }
        let bytes = shares.carried(Time((all / weight) as u64)) as f64;
        let prices: Vec<f64> = costs.iter().map(|cost| cost / all * bytes).collect();
        let least = LEAST_MOVE * bytes / tables.ops as f64;
        let pace = prices.iter().map(|price| price + least).collect();
        (bytes > 0.0).then_some(LagrangianSplit { shares, weights, devices: tables.devices, prices, pace })
    }

    /// What the devices that are left want of the ops that are left.
    fn wanted(&self, threshold: u64, prices: &[f64], is_open: &[bool], is_left: &[bool]) -> Wanted {
        let whole = whole(prices);
        let open = whole.iter().zip(is_open).filter(|(_, is_open)| **is_open);
        let mut sent: f64 = open.map(|(&price, _)| price as f64).sum();
        let mut shares = vec![Vec::new(); self.devices];
        for device in (0..self.devices).filter(|&device| is_left[device]) {
            let share = self.shares.best(DeviceId::new(device), Time(threshold), &whole, is_open);
            sent -= share.worth as f64;
            shares[device] = share.ops.into_iter().map(|op| op.index()).collect();
        }
        Wanted { sent, shares }
    }

    /// Looks for prices that refute thresholds from `threshold` on, up to `most`.
    pub(crate) fn climb(
        &mut self,
        mut threshold: u64,
        most: u64,
        most_steps: u64,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Climbed {
        let (open, left) = (vec![true; self.prices.len()], vec![true; self.devices]);
        let mut ascent = Ascent::new(&self.prices);
        let (mut steps, mut evidence) = (0, None);
        while steps < most_steps && ascent.step >= LAST_STEP && threshold <= most && !is_over() {
            steps += 1;
            let wanted = self.wanted(threshold, &self.prices, &open, &left);
            let carried = self.shares.carried(Time(threshold)) as f64;
            if wanted.sent <= carried {
                self.move_prices(&mut ascent, &wanted, carried, &open);
                continue;
            }
            let (threshold_ps, weights) = (Time(threshold), self.weights.clone());
            evidence = Some(Evidence::LinkPrices { threshold_ps, weights, prices: whole(&self.prices) });
            ascent = Ascent { step: ascent.step, ..Ascent::new(&self.prices) };
            let beyond = CLIMB * (wanted.sent - carried) / carried.max(1.0) * threshold as f64;
            let next = threshold.saturating_add((beyond as u64).max(threshold / LEAST_CLIMB).max(1));
            threshold = if threshold < most { next.min(most) } else { next };
        }
        self.prices = ascent.prices;
        Climbed { steps, evidence }
    }

    /// One step of an ascent.
    fn move_prices(&mut self, ascent: &mut Ascent, wanted: &Wanted, carried: f64, is_open: &[bool]) {
        ascent.since += 1;
        if wanted.sent > ascent.best {
            if wanted.sent > ascent.best + GAIN * carried {
                ascent.since = 0;
            }
            ascent.best = wanted.sent;
            ascent.prices.copy_from_slice(&self.prices);
        }
        if ascent.since > PATIENCE {
            ascent.step *= SHORTER;
            ascent.since = 0;
            self.prices.copy_from_slice(&ascent.prices);
        }
        // One for an op that nobody wants, less one for each device that does.
        let mut excess: Vec<f64> = is_open.iter().map(|&is_open| f64::from(u8::from(is_open))).collect();
        wanted.shares.iter().flatten().for_each(|&op| excess[op] -= 1.0);
        let mut slope = 0.0;
        for ((direction, excess), pace) in ascent.direction.iter_mut().zip(&excess).zip(&self.pace) {
            *direction = INERTIA * *direction + (1.0 - INERTIA) * excess;
            slope += pace * *direction * excess;
        }
        let target = ascent.best + AHEAD * carried * ascent.step;
        let length = ascent.step * (target - wanted.sent) / slope.max(1e-6 * carried);
        for ((price, direction), pace) in self.prices.iter_mut().zip(&ascent.direction).zip(&self.pace) {
            *price += length * pace * direction;
        }
    }

    /// A placement about as good as a threshold, if prices and times allow; `steps` for each device.
    pub(crate) fn dive(
        &mut self,
        tables: &StreamTables,
        threshold: u64,
        steps: u64,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<u8>> {
        let carried = self.shares.carried(Time(threshold)) as f64;
        let mut is_open = vec![true; self.prices.len()];
        let mut is_left = vec![true; self.devices];
        let mut device_of: Vec<Option<usize>> = vec![None; self.prices.len()];
        let before = self.prices.clone();
        for _ in 0..self.devices {
            let mut ascent = Ascent::new(&self.prices);
            let mut often = vec![vec![0.0; self.prices.len()]; self.devices];
            for step in 0..steps {
                if is_over() {
                    self.prices = before;
                    return None;
                }
                let wanted = self.wanted(threshold, &self.prices, &is_open, &is_left);
                if 2 * step >= steps {
                    for (often, share) in often.iter_mut().zip(&wanted.shares) {
                        share.iter().for_each(|&op| often[op] += self.pace[op]);
                    }
                }
                self.move_prices(&mut ascent, &wanted, carried, &is_open);
            }
            self.prices = ascent.prices;
            let wanted = self.wanted(threshold, &self.prices, &is_open, &is_left);
            let agreed = |device: usize| {
                let here = wanted.shares[device].iter().map(|&op| often[device][op]).sum::<f64>();
                here / often[device].iter().sum::<f64>().max(f64::MIN_POSITIVE)
            };
            let surest = (0..self.devices)
                .filter(|&device| is_left[device])
                .max_by(|&a, &b| agreed(a).total_cmp(&agreed(b)).then(b.cmp(&a)))?;
            is_left[surest] = false;
            for &op in &wanted.shares[surest] {
                (is_open[op], device_of[op]) = (false, Some(surest));
            }
        }
        self.prices = before;
        Some(completed(tables, device_of))
    }
}

impl Ascent {
    fn new(prices: &[f64]) -> Ascent {
        let direction = vec![0.0; prices.len()];
        Ascent { best: f64::NEG_INFINITY, prices: prices.to_vec(), step: FIRST_STEP, since: 0, direction }
    }
}

/// Prices in whole bytes, all together in range.
fn whole(prices: &[f64]) -> Vec<i64> {
    let most = DeviceKnapsack::MOST as f64 / (prices.len() + 1) as f64;
    prices.iter().map(|price| price.clamp(-most, most).round() as i64).collect()
}

/// The link or medium that every way from one device to another passes.
fn shared_link(tables: &StreamTables) -> Option<usize> {
    let pairs = (0..tables.devices).flat_map(|a| (0..tables.devices).map(move |b| (a, b)));
    let routes = pairs.filter(|(a, b)| a != b).filter_map(|(a, b)| tables.route(a, b));
    let passes = |link: usize| routes.clone().all(|route| route.iter().any(|(other, _)| *other == link));
    (0..tables.bandwidths.len()).find(|&link| tables.devices > 1 && passes(link))
}

/// A placement with what is left where it ends first, and ops together that must be.
fn completed(tables: &StreamTables, mut device_of: Vec<Option<usize>>) -> Vec<u8> {
    for group in &tables.groups {
        let at = group.iter().find_map(|&op| device_of[op]);
        group.iter().for_each(|&op| device_of[op] = at);
    }
    let mut busy = vec![0u64; tables.devices];
    for (op, device) in device_of.iter().enumerate() {
        device.iter().for_each(|&device| busy[device] = busy[device].saturating_add(tables.time(op, device)));
    }
    for unit in &tables.units() {
        if device_of[unit[0]].is_some() {
            continue;
        }
        let ends = |device: usize| {
            let times = unit.iter().map(|&op| tables.time(op, device));
            times.fold(busy[device], u64::saturating_add)
        };
        let first = (0..tables.devices).min_by_key(|&device| ends(device)).unwrap_or(0);
        busy[first] = ends(first);
        unit.iter().for_each(|&op| device_of[op] = Some(first));
    }
    device_of.into_iter().map(|device| device.unwrap_or(0) as u8).collect()
}
