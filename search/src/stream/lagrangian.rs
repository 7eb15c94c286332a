//! Lagrangian relaxation of "each op on exactly one device", for problems in which all transfers share one link.
//!
//! At a threshold T, with multipliers (prices) π of the ops, every device solves a knapsack by itself: the set S of ops of time
//! at most T with the largest Σ_{u ∈ S} π_u − bytes that S receives, or an upper bound on it ([`DeviceKnapsack`]). Every plan
//! within T then sends at least L(π) = Σ_u π_u − Σ over devices of that value; T is refuted if L(π) exceeds the bytes that the
//! shared link carries within T.
//!
//! L is concave and piecewise linear. It is maximised by the subgradient method (Held, Wolfe and Crowder 1974): the price of an
//! op rises if no device picks it and falls if several do. Once T is refuted, a larger T is tried from the same prices. Each
//! step solves one knapsack for each device.
//!
//! Plans come from diving: the device whose picks were steadiest gets its set, prices are re-optimised for the ops and devices
//! that are left, and so on; ops left over go to the device that finishes them first.

use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::stream::link_prices::DeviceKnapsack;

use crate::stream::tables::StreamTables;

/// The first step length, the factor after `PATIENCE` steps without a gain, and the least step length.
const FIRST_STEP: f64 = 1.0;
const SHORTER: f64 = 0.7;
const PATIENCE: u32 = 12;
const LAST_STEP: f64 = 1e-3;
/// An increase of L by this share of the link's bytes is a gain.
const GAIN: f64 = 1e-3;
/// The estimated optimum exceeds the best L by this share of the link's bytes, times the step length.
const AHEAD: f64 = 0.1;
/// The weight of the last direction in the next (momentum).
const INERTIA: f64 = 0.5;
/// The least step scale of an op, as a share of the mean price.
const LEAST_MOVE: f64 = 0.1;
/// The next threshold is higher by this share of the relative excess of L,
const RISE: f64 = 0.3;
/// and at least by one part in so many.
const LEAST_RISE: u64 = 1000;

/// Multipliers, kept between calls.
pub(crate) struct LagrangianSolver<'p> {
    knapsack: DeviceKnapsack<'p>,
    /// By link, 1 for the shared one.
    weights: Vec<u64>,
    devices: usize,
    prices: Vec<f64>,
    /// By op, the scale of its steps.
    step_scale: Vec<f64>,
}

/// The result of raising a threshold.
pub(crate) struct DualAscentResult {
    pub(crate) steps: u64,
    /// For the highest threshold refuted.
    pub(crate) evidence: Option<Evidence>,
}

/// The state of a subgradient ascent.
struct Ascent {
    /// The largest L, and its prices.
    best: f64,
    prices: Vec<f64>,
    step: f64,
    /// Steps since the last gain.
    since: u32,
    direction: Vec<f64>,
}

/// The solution of the relaxation at some prices.
struct RelaxedSolution {
    /// L(π).
    sent: f64,
    /// By device, the ops it picks.
    picked: Vec<Vec<usize>>,
}

impl<'p> LagrangianSolver<'p> {
    /// None if no link is on all routes between devices, or too many tensors are live at once. `device_weights` are prices of
    /// device time.
    pub(crate) fn new(
        problem: &'p Problem,
        tables: &StreamTables,
        device_weights: &[u64],
    ) -> Option<LagrangianSolver<'p>> {
        let shared = shared_link(tables)?;
        let weights: Vec<u64> = (0..tables.bandwidths.len()).map(|link| u64::from(link == shared)).collect();
        let knapsack = DeviceKnapsack::new(problem, &weights).ok()?;
        // First prices: proportional to the least weighted time, in all the bytes the link carries in the mean load.
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
        let bytes = knapsack.carried(Time((all / weight) as u64)) as f64;
        let prices: Vec<f64> = costs.iter().map(|cost| cost / all * bytes).collect();
        let least = LEAST_MOVE * bytes / tables.ops as f64;
        let step_scale = prices.iter().map(|price| price + least).collect();
        (bytes > 0.0).then_some(LagrangianSolver {
            knapsack,
            weights,
            devices: tables.devices,
            prices,
            step_scale,
        })
    }

    /// Solves the relaxation for the devices that are left and the ops that are open.
    fn relax(&self, threshold: u64, prices: &[f64], is_open: &[bool], is_left: &[bool]) -> RelaxedSolution {
        let in_bytes = in_bytes(prices);
        let open = in_bytes.iter().zip(is_open).filter(|(_, is_open)| **is_open);
        let mut sent: f64 = open.map(|(&price, _)| price as f64).sum();
        let mut picked = vec![Vec::new(); self.devices];
        for device in (0..self.devices).filter(|&device| is_left[device]) {
            let solution = self.knapsack.best(DeviceId::new(device), Time(threshold), &in_bytes, is_open);
            sent -= solution.profit as f64;
            picked[device] = solution.ops.into_iter().map(|op| op.index()).collect();
        }
        RelaxedSolution { sent, picked }
    }

    /// Maximises L to refute thresholds from `threshold` up to `most`, one after the other.
    pub(crate) fn raise_threshold(
        &mut self,
        mut threshold: u64,
        most: u64,
        most_steps: u64,
        is_over: &mut dyn FnMut() -> bool,
    ) -> DualAscentResult {
        let (open, left) = (vec![true; self.prices.len()], vec![true; self.devices]);
        let mut ascent = Ascent::new(&self.prices);
        let (mut steps, mut evidence) = (0, None);
        while steps < most_steps && ascent.step >= LAST_STEP && threshold <= most && !is_over() {
            steps += 1;
            let solution = self.relax(threshold, &self.prices, &open, &left);
            let carried = self.knapsack.carried(Time(threshold)) as f64;
            if solution.sent <= carried {
                self.move_prices(&mut ascent, &solution, carried, &open);
                continue;
            }
            let (threshold_ps, weights) = (Time(threshold), self.weights.clone());
            evidence = Some(Evidence::LinkPrices { threshold_ps, weights, prices: in_bytes(&self.prices) });
            ascent = Ascent { step: ascent.step, ..Ascent::new(&self.prices) };
            let rise = RISE * (solution.sent - carried) / carried.max(1.0) * threshold as f64;
            let next = threshold.saturating_add((rise as u64).max(threshold / LEAST_RISE).max(1));
            threshold = if threshold < most { next.min(most) } else { next };
        }
        self.prices = ascent.prices;
        DualAscentResult { steps, evidence }
    }

    /// One subgradient step.
    fn move_prices(
        &mut self,
        ascent: &mut Ascent,
        solution: &RelaxedSolution,
        carried: f64,
        is_open: &[bool],
    ) {
        ascent.since += 1;
        if solution.sent > ascent.best {
            if solution.sent > ascent.best + GAIN * carried {
                ascent.since = 0;
            }
            ascent.best = solution.sent;
            ascent.prices.copy_from_slice(&self.prices);
        }
        if ascent.since > PATIENCE {
            ascent.step *= SHORTER;
            ascent.since = 0;
            self.prices.copy_from_slice(&ascent.prices);
        }
        // The subgradient: 1 minus the number of devices that pick an op.
        let mut subgradient: Vec<f64> = is_open.iter().map(|&is_open| f64::from(u8::from(is_open))).collect();
        solution.picked.iter().flatten().for_each(|&op| subgradient[op] -= 1.0);
        let mut slope = 0.0;
        for ((direction, own), scale) in ascent.direction.iter_mut().zip(&subgradient).zip(&self.step_scale) {
            *direction = INERTIA * *direction + (1.0 - INERTIA) * own;
            slope += scale * *direction * own;
        }
        let target = ascent.best + AHEAD * carried * ascent.step;
        let length = ascent.step * (target - solution.sent) / slope.max(1e-6 * carried);
        for ((price, direction), scale) in self.prices.iter_mut().zip(&ascent.direction).zip(&self.step_scale)
        {
            *price += length * scale * direction;
        }
    }

    /// A placement by diving at a threshold, which it may exceed; `steps` of ascent for each device.
    pub(crate) fn dive(
        &mut self,
        tables: &StreamTables,
        threshold: u64,
        steps: u64,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<u8>> {
        let carried = self.knapsack.carried(Time(threshold)) as f64;
        let mut is_open = vec![true; self.prices.len()];
        let mut is_left = vec![true; self.devices];
        let mut device_of: Vec<Option<usize>> = vec![None; self.prices.len()];
        let before = self.prices.clone();
        for _ in 0..self.devices {
            let mut ascent = Ascent::new(&self.prices);
            // By device and op, how often it was picked in the second half of the steps, weighted by the step scale.
            let mut frequency = vec![vec![0.0; self.prices.len()]; self.devices];
            for step in 0..steps {
                if is_over() {
                    self.prices = before;
                    return None;
                }
                let solution = self.relax(threshold, &self.prices, &is_open, &is_left);
                if 2 * step >= steps {
                    for (frequency, picked) in frequency.iter_mut().zip(&solution.picked) {
                        picked.iter().for_each(|&op| frequency[op] += self.step_scale[op]);
                    }
                }
                self.move_prices(&mut ascent, &solution, carried, &is_open);
            }
            self.prices = ascent.prices;
            let solution = self.relax(threshold, &self.prices, &is_open, &is_left);
            let steadiness = |device: usize| {
                let here = solution.picked[device].iter().map(|&op| frequency[device][op]).sum::<f64>();
                here / frequency[device].iter().sum::<f64>().max(f64::MIN_POSITIVE)
            };
            let steadiest = (0..self.devices)
                .filter(|&device| is_left[device])
                .max_by(|&a, &b| steadiness(a).total_cmp(&steadiness(b)).then(b.cmp(&a)))?;
            is_left[steadiest] = false;
            for &op in &solution.picked[steadiest] {
                (is_open[op], device_of[op]) = (false, Some(steadiest));
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

/// Prices in whole bytes, clamped so that their sum stays in range.
fn in_bytes(prices: &[f64]) -> Vec<i64> {
    let most = DeviceKnapsack::MOST as f64 / (prices.len() + 1) as f64;
    prices.iter().map(|price| price.clamp(-most, most).round() as i64).collect()
}

/// A link that is on every route between two devices.
fn shared_link(tables: &StreamTables) -> Option<usize> {
    let pairs = (0..tables.devices).flat_map(|a| (0..tables.devices).map(move |b| (a, b)));
    let routes = pairs.filter(|(a, b)| a != b).filter_map(|(a, b)| tables.route(a, b));
    let passes = |link: usize| routes.clone().all(|route| route.iter().any(|(other, _)| *other == link));
    (0..tables.bandwidths.len()).find(|&link| tables.devices > 1 && passes(link))
}

/// Completes a placement: colocation groups on one device, then each unplaced unit where it finishes first.
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
