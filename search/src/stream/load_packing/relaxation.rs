//! The linear relaxation: a unit may be divided over devices, and the largest load is to be least.
//!
//! It is solved by the primal simplex method with one *key* device for each unit (generalised upper bounding, Dantzig and
//! Van Slyke 1967): the share of a unit on its key device is what its other shares leave. So a basis has one row for each
//! device, and a solution divides fewer units than there are devices; these are the ones worth branching on. At each step
//! the duals of the rows are prices of the devices' time, and the cheapest placement at these prices bounds the loads of
//! every placement from below.

use crate::stream::load_packing::LoadPacking;

/// How close bound and solution are when the relaxation is solved, and entries that are taken as zero.
const CLOSE: f64 = 1e-9;
const TINY: f64 = 1e-9;
/// What a price below zero may be by rounding alone, and a cost that is no gain, as a share of the limit.
const ROUNDING: f64 = 1e-12;

/// Units that are placed, by what they load, and those that are not, by where they may go.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) packing: &'a LoadPacking,
    pub(crate) loads: &'a [f64],
    pub(crate) open: &'a [u32],
    /// By unit, a bit for each device.
    pub(crate) allowed: &'a [u64],
}

impl Work<'_> {
    /// The device where a unit costs least, and that cost.
    pub(crate) fn cheapest(&self, unit: usize, prices: &[f64]) -> (usize, f64) {
        let mut least = (0, f64::INFINITY);
        for (device, (&time, &price)) in self.packing.times(unit).iter().zip(prices).enumerate() {
            if self.allowed[unit] >> device & 1 == 1 && price * time < least.1 {
                least = (device, price * time);
            }
        }
        least
    }

    /// What the cheapest placement costs at prices that sum to one: a bound, but for rounding.
    pub(crate) fn cost(&self, prices: &[f64]) -> f64 {
        let placed: f64 = prices.iter().zip(self.loads).map(|(price, load)| price * load).sum();
        self.open.iter().fold(placed, |cost, &unit| cost + self.cheapest(unit as usize, prices).1)
    }

    /// Whether a cost is beyond a limit whatever rounding did.
    pub(crate) fn is_beyond(&self, cost: f64, limit: f64) -> bool {
        cost - cost * self.packing.margin() > limit
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    /// The largest load, which stays in the basis.
    Largest,
    /// What a device has left to the largest load.
    Slack(usize),
    /// The share of a unit on a device that is not its key.
    Share(usize, usize),
}

/// A solution, and room to find the next.
pub(crate) struct LoadSimplex {
    key: Vec<u8>,
    basis: Vec<Basic>,
    /// The inverse of the basis, row by row, and the values of its variables.
    inverse: Vec<f64>,
    values: Vec<f64>,
    /// Loads with every unit on its key device.
    loads: Vec<f64>,
    prices: Vec<f64>,
    column: Vec<f64>,
    /// The column in terms of the basis.
    by: Vec<f64>,
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
            by: vec![0.0; devices],
        }
    }

    /// Solves the relaxation from the prices and keys of the last time. `prices` become the best there are, or the
    /// first whose bound is beyond the limit. The bound, if it is not.
    pub(crate) fn solve(
        &mut self,
        work: Work<'_>,
        prices: &mut [f64],
        limit: f64,
        most_steps: usize,
    ) -> Option<f64> {
        let mut bound = work.cost(prices);
        if work.is_beyond(bound, limit) {
            return None;
        }
        self.begin(work, prices);
        for _ in 0..most_steps {
            self.read_values();
            let Some((entering, cost)) = self.entering(work, limit) else { break };
            if let Some(cost) = cost {
                if cost > bound || work.is_beyond(cost, limit) {
                    bound = cost;
                    prices.copy_from_slice(&self.prices);
                }
                if work.is_beyond(cost, limit) {
                    return None;
                }
                if self.values[self.largest()] - bound < CLOSE * limit {
                    break;
                }
            }
            let Some(entering) = entering else { break };
            if !self.enter(work, entering) {
                break;
            }
        }
        self.read_values();
        Some(bound)
    }

    /// Every unit on its key device: only the busiest device has nothing left.
    fn begin(&mut self, work: Work<'_>, prices: &[f64]) {
        let devices = self.basis.len();
        self.loads.copy_from_slice(work.loads);
        for unit in work.open.iter().map(|&unit| unit as usize) {
            if work.allowed[unit] >> self.key[unit] & 1 == 0 {
                self.key[unit] = work.cheapest(unit, prices).0 as u8;
            }
            let key = usize::from(self.key[unit]);
            self.loads[key] += work.packing.times(unit)[key];
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

    /// The variable that gains most, none if none gains; and what the cheapest placement costs, where prices are such
    /// that this is a bound. Nothing if prices cannot be read.
    fn entering(&mut self, work: Work<'_>, limit: f64) -> Option<(Option<Basic>, Option<f64>)> {
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
        let mut cost: f64 = self.prices.iter().zip(work.loads).map(|(price, load)| price * load).sum();
        let mut best = (-ROUNDING * limit, None);
        for unit in work.open.iter().map(|&unit| unit as usize) {
            let (device, least) = work.cheapest(unit, &self.prices);
            let key = usize::from(self.key[unit]);
            let gain = least - self.prices[key] * work.packing.times(unit)[key];
            cost += least;
            if gain < best.0 {
                best = (gain, Some(Basic::Share(unit, device)));
            }
        }
        Some((best.1, Some(cost)))
    }

    fn read_column(&mut self, work: Work<'_>, entering: Basic) {
        let devices = self.basis.len();
        self.column.fill(0.0);
        match entering {
            Basic::Largest => self.column.fill(-1.0),
            Basic::Slack(device) => self.column[device] = 1.0,
            Basic::Share(unit, device) => {
                let (times, key) = (work.packing.times(unit), usize::from(self.key[unit]));
                self.column[device] += times[device];
                self.column[key] -= times[key];
            }
        }
        for (by, row) in self.by.iter_mut().zip(self.inverse.chunks_exact(devices)) {
            *by = row.iter().zip(&self.column).map(|(entry, column)| entry * column).sum();
        }
    }

    /// Takes a variable into the basis. Whether that could be done.
    fn enter(&mut self, work: Work<'_>, entering: Basic) -> bool {
        self.read_column(work, entering);
        let mut least = f64::INFINITY;
        let mut leaving = None;
        for (row, basic) in self.basis.iter().enumerate() {
            if *basic != Basic::Largest && self.by[row] > TINY {
                let ratio = self.values[row].max(0.0) / self.by[row];
                if ratio < least {
                    (least, leaving) = (ratio, Some(row));
                }
            }
        }
        // Shares on key devices must not fall below zero either.
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
                    rate += self.by[row];
                }
            }
            let ratio = f64::max(share, 0.0) / -rate;
            if rate < -TINY && ratio < least {
                (least, emptied) = (ratio, Some(unit));
            }
        }
        let row = match (emptied, leaving) {
            (Some(unit), _) => {
                let Some(row) = self.exchange_key(work, unit, entering) else { return true };
                self.read_column(work, entering);
                row
            }
            (None, Some(row)) => row,
            (None, None) => return false,
        };
        self.pivot(row, entering)
    }

    /// Makes another device the key of a unit whose share on its key device falls to zero. The row of that share now;
    /// none where the entering share took its place.
    fn exchange_key(&mut self, work: Work<'_>, unit: usize, entering: Basic) -> Option<usize> {
        let devices = self.basis.len();
        let (times, old) = (work.packing.times(unit), usize::from(self.key[unit]));
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
        let by = self.by[row];
        if by.abs() < ROUNDING {
            return false;
        }
        let (before, rest) = self.inverse.split_at_mut(row * devices);
        let (own, after) = rest.split_at_mut(devices);
        own.iter_mut().for_each(|entry| *entry /= by);
        let others = before.chunks_exact_mut(devices).chain(after.chunks_exact_mut(devices));
        let others_by = self.by.iter().enumerate().filter(|&(other, _)| other != row).map(|(_, by)| by);
        for (other, by) in others.zip(others_by) {
            other.iter_mut().zip(&*own).for_each(|(entry, pivot)| *entry -= by * pivot);
        }
        self.basis[row] = entering;
        true
    }

    /// The key device of each unit: where most of an open one is.
    pub(crate) fn keys(&self) -> &[u8] {
        &self.key
    }

    /// Units that are divided, with the devices that they are on and their shares there.
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
