//! An instance of load packing: units, and their time on each device.
//!
//! Times are counted in *quanta*: the largest time of which all times are multiples. Loads are then integers, which `f64` holds
//! exactly up to 2^52; instances with larger sums are refused. Bounds are computed in floating point and given a margin.

use crate::stream::tables::{NEVER, StreamTables};

/// Larger sums are not exact.
pub(crate) const LONGEST: u64 = 1 << 52;

/// The instance, with the pseudocosts that searches of it have learnt.
pub(crate) struct LoadPacking {
    /// The ops of each unit.
    pub(super) units: Vec<Vec<usize>>,
    pub(super) ops: usize,
    pub(super) devices: usize,
    /// Picoseconds.
    pub(super) quantum: u64,
    /// By device, the greatest common divisor of the times there, in quanta.
    pub(super) device_quanta: Vec<f64>,
    /// By unit and device, in quanta; infinite where the unit must not run.
    times: Vec<f64>,
    /// By unit, the devices where it may run, as a mask.
    pub(super) devices_of: Vec<u64>,
    /// By device, the first device with the same times.
    pub(super) first_equal_device: Vec<usize>,
    /// By unit, the first unit with the same times.
    pub(super) first_equal_unit: Vec<usize>,
    /// By unit and device: of assigning the unit to the device, and of excluding it.
    pub(super) pseudocosts: Vec<[PseudoCost; 2]>,
}

/// The increases of the bound observed after a branching decision, each scaled to a whole unit.
#[derive(Clone, Copy, Default)]
pub(crate) struct PseudoCost {
    pub(super) sum: f64,
    pub(super) count: u32,
}

impl LoadPacking {
    /// The instance of a problem's units; none if sums of times are not exact.
    pub(crate) fn new(tables: &StreamTables) -> Option<LoadPacking> {
        let units = tables.units();
        let time_of = |unit: &[usize], device: usize| {
            let mut times = unit.iter().map(|&op| tables.time(op, device));
            times
                .try_fold(0u64, |sum, time| if time == NEVER { None } else { Some(sum.saturating_add(time)) })
        };
        let times: Vec<_> =
            units.iter().map(|unit| (0..tables.devices).map(|d| time_of(unit, d)).collect()).collect();
        Some(LoadPacking { ops: tables.ops, units, ..LoadPacking::of_times(&times, tables.devices)? })
    }

    /// The instance of units without ops, given their times where they may run; none if sums of times are not exact.
    pub(crate) fn of_times(times: &[Vec<Option<u64>>], devices: usize) -> Option<LoadPacking> {
        let quantum = times.iter().flatten().flatten().fold(0, |quantum, &time| gcd(quantum, time)).max(1);
        let longest = |times: &Vec<Option<u64>>| times.iter().copied().flatten().max().unwrap_or(0) / quantum;
        let total = times.iter().map(longest).fold(0u64, u64::saturating_add);
        let in_quanta = |time: &Option<u64>| time.map_or(f64::INFINITY, |time| (time / quantum) as f64);
        let flat: Vec<f64> = times.iter().flatten().map(in_quanta).collect();
        let column = |device: usize| flat.iter().skip(device).step_by(devices);
        let first = |device| (0..device).find(|&other| column(other).eq(column(device))).unwrap_or(device);
        let first_equal_device = (0..devices).map(first).collect();
        let finite = |device| column(device).filter(|time| time.is_finite()).map(|&time| time as u64);
        let device_quanta = (0..devices).map(|device| finite(device).fold(0, gcd).max(1) as f64).collect();
        let first = |unit: usize| (0..unit).find(|&other| times[other] == times[unit]).unwrap_or(unit);
        let first_equal_unit = (0..times.len()).map(first).collect();
        let units = vec![Vec::new(); times.len()];
        let mask = |times: &Vec<Option<u64>>| {
            let devices = times.iter().enumerate().filter(|(_, time)| time.is_some());
            devices.fold(0, |mask, (device, _)| mask | 1u64 << device)
        };
        let devices_of = times.iter().map(mask).collect();
        let pseudocosts = vec![[PseudoCost::default(); 2]; flat.len()];
        (total < LONGEST).then_some(LoadPacking {
            ops: 0,
            units,
            devices,
            quantum,
            device_quanta,
            devices_of,
            first_equal_device,
            first_equal_unit,
            times: flat,
            pseudocosts,
        })
    }

    /// The same instance with the pseudocosts of another, if that has the same units.
    #[must_use]
    pub(crate) fn with_experience(mut self, before: LoadPacking) -> LoadPacking {
        if self.units == before.units {
            self.pseudocosts = before.pseudocosts;
        }
        self
    }

    /// The times of a unit by device, in quanta; infinite where it must not run.
    pub(super) fn times(&self, unit: usize) -> &[f64] {
        &self.times[unit * self.devices..][..self.devices]
    }

    /// The time of a unit on a device, in quanta; none where it must not run.
    pub(super) fn quanta_of(&self, unit: usize, device: usize) -> Option<u64> {
        (self.devices_of[unit] >> device & 1 == 1).then(|| self.times(unit)[device] as u64)
    }

    /// The relative error of a bound by rounding: it is a sum of one term for each unit and device, at prices that sum to one
    /// but for rounding.
    pub(super) fn margin(&self) -> f64 {
        (self.units.len() + 2 * self.devices + 8) as f64 * f64::EPSILON
    }
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
