//! The linear relaxation of load packing, by the primal simplex method.
//!
//! minimise T subject to Σ_u t_{u,d} x_{u,d} + load_d ≤ T for each device d, Σ_d x_{u,d} = 1 for each open unit u, x ≥ 0.
//!
//! Each assignment row has one *key* variable, eliminated from the basis (generalised upper bounding, Dantzig and Van Slyke
//! 1967): x on the key device is 1 minus the others. The basis then has one row for each device, and a basic solution divides
//! fewer units than there are devices. The duals of the device rows are prices of device time that sum to one; the cheapest
//! placement at these prices bounds every placement from below (the Lagrangian bound), so a solve can stop as soon as that
//! exceeds the limit. O(devices² + open units × devices) for each step.

use crate::stream::load_packing::instance::{LONGEST, LoadPacking};

/// The most steps at a node of the search.
pub(crate) const MOST_STEPS: usize = 200;
/// The relative difference of bound and solution at which the relaxation counts as solved.
const CLOSE: f64 = 1e-9;
/// Entries that count as zero in the ratio test.
const TINY: f64 = 1e-9;
/// Duals and, as a share of the limit, reduced costs that count as zero.
const ROUNDING: f64 = 1e-12;

/// A subproblem: the loads of the units placed, and the domains of the open ones.
#[derive(Clone, Copy)]
pub(crate) struct RelaxationInput<'a> {
    pub(crate) packing: &'a LoadPacking,
    pub(crate) loads: &'a [f64],
    pub(crate) open: &'a [u32],
    /// By unit, the devices left to it, as a mask.
    pub(crate) domains: &'a [u64],
}

impl RelaxationInput<'_> {
    /// The device where a unit costs least at some prices, and that cost.
    pub(crate) fn cheapest(&self, unit: usize, prices: &[f64]) -> (usize, f64) {
        let mut least = (0, f64::INFINITY);
        for (device, (&time, &price)) in self.packing.times(unit).iter().zip(prices).enumerate() {
            if self.domains[unit] >> device & 1 == 1 && price * time < least.1 {
                least = (device, price * time);
            }
        }
        least
    }

    /// The cost of the cheapest placement at prices that sum to one: a lower bound, but for rounding.
    pub(crate) fn cost(&self, prices: &[f64]) -> f64 {
        let placed: f64 = prices.iter().zip(self.loads).map(|(price, load)| price * load).sum();
        self.open.iter().fold(placed, |cost, &unit| cost + self.cheapest(unit as usize, prices).1)
    }

    /// Whether a cost exceeds a limit by more than rounding.
    pub(crate) fn is_beyond(&self, cost: f64, limit: f64) -> bool {
        cost - cost * self.packing.margin() > limit
    }
}

/// A basic variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    /// T, which never leaves the basis.
    Largest,
    /// The slack of a device's row.
    Slack(usize),
    /// x of a unit and a device that is not its key.
    Share(usize, usize),
}

/// A basis, kept between solves.
pub(crate) struct LoadSimplex {
    /// By unit.
    key: Vec<u8>,
    basis: Vec<Basic>,
    /// The inverse of the basis matrix, row by row.
    inverse: Vec<f64>,
    /// The values of the basic variables.
    values: Vec<f64>,
    /// The loads with every open unit on its key device.
    loads: Vec<f64>,
    prices: Vec<f64>,
    /// The entering column.
    column: Vec<f64>,
    /// The entering column times the inverse.
    direction: Vec<f64>,
}

impl LoadSimplex {
    pub(crate) fn new(units: usize, devices: usize) -> LoadSimplex {
        LoadSimplex {
            key: vec![0; units],
            basis: vec![Basic::Largest; devices],
            inverse: vec![0.0; devices * devices],
            values: vec![0.0; devices],
            loads: vec![0.0; devices],
            prices: vec![0.0; devices],
            column: vec![0.0; devices],
            direction: vec![0.0; devices],
        }
    }

    /// Solves the relaxation, starting from given prices and the keys of the last solve. `prices` become optimal, or the first
    /// whose bound exceeds the limit. The bound, unless it exceeds the limit.
    pub(crate) fn solve(
        &mut self,
        input: RelaxationInput<'_>,
        prices: &mut [f64],
        limit: f64,
        most_steps: usize,
    ) -> Option<f64> {
        let mut bound = input.cost(prices);
        if input.is_beyond(bound, limit) {
            return None;
        }
        self.begin(input, prices);
        for _ in 0..most_steps {
            self.read_values();
            let Some((entering, cost)) = self.entering(input, limit) else { break };
            if let Some(cost) = cost {
                if cost > bound || input.is_beyond(cost, limit) {
                    bound = cost;
                    prices.copy_from_slice(&self.prices);
                }
                if input.is_beyond(cost, limit) {
                    return None;
                }
                if self.values[self.largest()] - bound < CLOSE * limit {
                    break;
                }
            }
            let Some(entering) = entering else { break };
            if !self.enter(input, entering) {
                break;
            }
        }
        self.read_values();
        Some(bound)
    }

    /// The basis with every unit on its key device: T and the slacks of all devices but the busiest.
    fn begin(&mut self, input: RelaxationInput<'_>, prices: &[f64]) {
        let devices = self.basis.len();
        self.loads.copy_from_slice(input.loads);
        for unit in input.open.iter().map(|&unit| unit as usize) {
            if input.domains[unit] >> self.key[unit] & 1 == 0 {
                self.key[unit] = input.cheapest(unit, prices).0 as u8;
            }
            let key = usize::from(self.key[unit]);
            self.loads[key] += input.packing.times(unit)[key];
        }
        let busiest = (0..devices).max_by(|&a, &b| self.loads[a].total_cmp(&self.loads[b])).unwrap_or(0);
        self.inverse.fill(0.0);
        for device in 0..devices {
            let is_busiest = device == busiest;
            self.basis[device] = if is_busiest { Basic::Largest } else { Basic::Slack(device) };
            self.inverse[device * devices + device] = 1.0;
            self.inverse[device * devices + busiest] = -1.0;
        }
    }

    fn largest(&self) -> usize {
        self.basis.iter().position(|&basic| basic == Basic::Largest).unwrap_or(0)
    }

    fn read_values(&mut self) {
        let rows = self.inverse.chunks_exact(self.loads.len());
        for (value, row) in self.values.iter_mut().zip(rows) {
            *value = -row.iter().zip(&self.loads).map(|(entry, load)| entry * load).sum::<f64>();
        }
    }

    /// Pricing: the variable with the most negative reduced cost, if any, and the Lagrangian bound, if all duals have the right
    /// sign. None if the duals vanish.
    fn entering(&mut self, input: RelaxationInput<'_>, limit: f64) -> Option<(Option<Basic>, Option<f64>)> {
        let devices = self.basis.len();
        let duals = &self.inverse[self.largest() * devices..][..devices];
        let wrong = (0..devices).max_by(|&a, &b| duals[a].total_cmp(&duals[b]))?;
        if duals[wrong] > ROUNDING {
            return Some((Some(Basic::Slack(wrong)), None));
        }
        let sum: f64 = duals.iter().map(|dual| -dual.min(0.0)).sum();
        if sum <= 0.0 {
            return None;
        }
        for (price, dual) in self.prices.iter_mut().zip(duals) {
            *price = -dual.min(0.0) / sum;
        }
        let mut cost: f64 = self.prices.iter().zip(input.loads).map(|(price, load)| price * load).sum();
        let mut best = (-ROUNDING * limit, None);
        for unit in input.open.iter().map(|&unit| unit as usize) {
            let (device, least) = input.cheapest(unit, &self.prices);
            let key = usize::from(self.key[unit]);
            let gain = least - self.prices[key] * input.packing.times(unit)[key];
            cost += least;
            if gain < best.0 {
                best = (gain, Some(Basic::Share(unit, device)));
            }
        }
        Some((best.1, Some(cost)))
    }

    fn read_column(&mut self, input: RelaxationInput<'_>, entering: Basic) {
        let devices = self.basis.len();
        self.column.fill(0.0);
        match entering {
            Basic::Largest => self.column.fill(-1.0),
            Basic::Slack(device) => self.column[device] = 1.0,
            Basic::Share(unit, device) => {
                let (times, key) = (input.packing.times(unit), usize::from(self.key[unit]));
                self.column[device] += times[device];
                self.column[key] -= times[key];
            }
        }
        for (entry, row) in self.direction.iter_mut().zip(self.inverse.chunks_exact(devices)) {
            *entry = row.iter().zip(&self.column).map(|(entry, column)| entry * column).sum();
        }
    }

    /// The ratio test and the change of basis. False if no variable can leave.
    fn enter(&mut self, input: RelaxationInput<'_>, entering: Basic) -> bool {
        self.read_column(input, entering);
        let mut least = f64::INFINITY;
        let mut leaving = None;
        for (row, basic) in self.basis.iter().enumerate() {
            if *basic != Basic::Largest && self.direction[row] > TINY {
                let ratio = self.values[row].max(0.0) / self.direction[row];
                if ratio < least {
                    (least, leaving) = (ratio, Some(row));
                }
            }
        }
        // The key variables, which are not in the basis, must stay non-negative too.
        let mut emptied = None;
        let own = if let Basic::Share(unit, _) = entering { Some(unit) } else { None };
        let units = self.basis.iter().filter_map(|basic| match basic {
            Basic::Share(unit, _) => Some(*unit),
            _ => None,
        });
        for unit in units.chain(own) {
            let (mut share, mut rate) = (1.0, if own == Some(unit) { -1.0 } else { 0.0 });
            for (row, basic) in self.basis.iter().enumerate() {
                if matches!(basic, Basic::Share(other, _) if *other == unit) {
                    share -= self.values[row];
                    rate += self.direction[row];
                }
            }
            let ratio = f64::max(share, 0.0) / -rate;
            if rate < -TINY && ratio < least {
                (least, emptied) = (ratio, Some(unit));
            }
        }
        let row = match (emptied, leaving) {
            (Some(unit), _) => {
                let Some(row) = self.exchange_key(input, unit, entering) else { return true };
                self.read_column(input, entering);
                row
            }
            (None, Some(row)) => row,
            (None, None) => return false,
        };
        self.pivot(row, entering)
    }

    /// Makes another device the key of a unit whose key variable falls to zero. The row in which the old key variable is basic
    /// now; none if the entering variable became the key.
    fn exchange_key(&mut self, input: RelaxationInput<'_>, unit: usize, entering: Basic) -> Option<usize> {
        let devices = self.basis.len();
        let (times, old) = (input.packing.times(unit), usize::from(self.key[unit]));
        let of_unit = |basic: &Basic| matches!(basic, Basic::Share(other, _) if *other == unit);
        let rows: Vec<usize> = (0..devices).filter(|&row| of_unit(&self.basis[row])).collect();
        let row = rows.iter().copied().max_by(|&a, &b| self.values[a].total_cmp(&self.values[b]));
        let next = match (row.map(|row| self.basis[row]), entering) {
            (Some(Basic::Share(_, device)), _) | (None, Basic::Share(_, device)) => device,
            _ => return None,
        };
        self.loads[old] -= times[old];
        self.loads[next] += times[next];
        self.key[unit] = next as u8;
        let row = row?;
        self.basis[row] = Basic::Share(unit, old);
        for column in 0..devices {
            let sum: f64 = rows.iter().map(|&row| self.inverse[row * devices + column]).sum();
            self.inverse[row * devices + column] = -sum;
        }
        Some(row)
    }

    fn pivot(&mut self, row: usize, entering: Basic) -> bool {
        let devices = self.basis.len();
        let pivot = self.direction[row];
        if pivot.abs() < ROUNDING {
            return false;
        }
        let (before, rest) = self.inverse.split_at_mut(row * devices);
        let (own, after) = rest.split_at_mut(devices);
        own.iter_mut().for_each(|entry| *entry /= pivot);
        let others = before.chunks_exact_mut(devices).chain(after.chunks_exact_mut(devices));
        let factors = self.direction.iter().enumerate().filter(|&(other, _)| other != row);
        for (other, (_, factor)) in others.zip(factors) {
            other.iter_mut().zip(&*own).for_each(|(entry, pivot)| *entry -= factor * pivot);
        }
        self.basis[row] = entering;
        true
    }

    /// The key device of each unit. With every open unit there, a rounding of the solution.
    pub(crate) fn keys(&self) -> &[u8] {
        &self.key
    }

    /// The units that have basic variables, with each of their devices and the fraction there.
    pub(crate) fn divided(&self) -> Vec<(usize, usize, f64)> {
        let mut left: Vec<(usize, f64)> = Vec::new();
        let mut divided = Vec::new();
        for (basic, &value) in self.basis.iter().zip(&self.values) {
            if let Basic::Share(unit, device) = *basic {
                divided.push((unit, device, value));
                match left.iter_mut().find(|(other, _)| *other == unit) {
                    Some((_, left)) => *left -= value,
                    None => left.push((unit, 1.0 - value)),
                }
            }
        }
        divided.extend(left.into_iter().map(|(unit, share)| (unit, usize::from(self.key[unit]), share)));
        divided
    }
}

/// The relaxation with its buffers, for subproblems of another search.
pub(crate) struct LoadRelaxation {
    relaxation: LoadSimplex,
    loads: Vec<f64>,
    open: Vec<u32>,
    prices: Vec<f64>,
}

impl LoadRelaxation {
    pub(crate) fn new(packing: &LoadPacking) -> LoadRelaxation {
        let devices = packing.devices;
        LoadRelaxation {
            relaxation: LoadSimplex::new(packing.units.len(), devices),
            loads: vec![0.0; devices],
            open: Vec::new(),
            prices: vec![1.0 / devices as f64; devices],
        }
    }

    /// Optimal prices of device time, or the first whose bound exceeds the limit. `loads` are those of the units placed;
    /// `domains` are masks of the devices left to each unit. Starts from the prices of the last call.
    pub(crate) fn prices(
        &mut self,
        packing: &LoadPacking,
        limit: u64,
        loads: impl Iterator<Item = f64>,
        open: impl Iterator<Item = u32>,
        domains: &[u64],
    ) -> &[f64] {
        self.loads.clear();
        self.loads.extend(loads.map(|load| load / packing.quantum as f64));
        self.open.clear();
        self.open.extend(open);
        let input = RelaxationInput { packing, loads: &self.loads, open: &self.open, domains };
        let limit = (limit / packing.quantum).min(LONGEST) as f64;
        self.relaxation.solve(input, &mut self.prices, limit, MOST_STEPS);
        &self.prices
    }
}
