//! Picoseconds as floating-point numbers of a magnitude that suits HiGHS, and bounds back in picoseconds.
//!
//! Every time of a subproblem is a multiple of their greatest common divisor, the grain. The program's unit is the
//! grain times the least power of two for which the horizon is at most [`LARGEST`] units, so times of up to 53
//! significant bits are exact.

use divvy_proof::latency_tables::NEVER;

use crate::latency::subproblem::Subproblem;

/// The most units of the horizon: HiGHS's tolerances are absolute.
const LARGEST: f64 = 4096.0;

/// The error of HiGHS as a share of the horizon: its integrality tolerance, times the largest coefficient.
const TOLERANCE: f64 = 1e-6;

/// The unit of time of a program.
pub(crate) struct Scale {
    unit: f64,
    grain: u64,
    horizon: u64,
}

impl Scale {
    pub(crate) fn new(part: &Subproblem<'_>, horizon: u64) -> Scale {
        let mut grain = 0;
        let mut include = |time: u64| {
            if time < NEVER {
                grain = divisor(grain, time);
            }
        };
        for op in 0..part.op_count() {
            for &d in &part.allowed[op] {
                include(part.time(op, d));
                include(part.release[op][d as usize]);
                include(part.tail[op][d as usize]);
                for edge in &part.inputs[op] {
                    for &from in &part.allowed[edge.op as usize] {
                        include(part.delay(edge.size, from, d));
                    }
                }
            }
        }
        let grain = grain.max(1);
        let mut unit = grain as f64;
        while horizon as f64 / unit > LARGEST {
            unit *= 2.0;
        }
        Scale { unit, grain, horizon }
    }

    /// Picoseconds in units.
    pub(crate) fn units(&self, time: u64) -> f64 {
        time as f64 / self.unit
    }

    /// The error of HiGHS in picoseconds.
    fn error(&self) -> f64 {
        TOLERANCE * self.horizon as f64
    }

    /// A bound of HiGHS in picoseconds: less the error, then rounded up to the next multiple of the grain.
    pub(crate) fn safe_bound(&self, bound: f64) -> u64 {
        let bound = bound * self.unit - self.error();
        if bound.is_nan() || bound <= 0.0 {
            return 0;
        }
        let grain = self.grain as f64;
        let values = (bound / grain).ceil() * grain;
        (values as u64).min(self.horizon)
    }

    /// An absolute gap that leaves no other schedule value between value and bound.
    pub(crate) fn harmless_gap(&self) -> f64 {
        ((0.9 * self.grain as f64 - 2.0 * self.error()) / self.unit).max(0.0)
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_back_on_the_safe_side_and_on_the_grain() {
        let scale = Scale { unit: 2.0, grain: 1, horizon: 100 };
        assert_eq!(scale.safe_bound(18.500_001), 37);
        assert_eq!(scale.safe_bound(18.499_99), 37);
        assert_eq!(scale.safe_bound(-1.0), 0);
        assert_eq!(scale.safe_bound(f64::INFINITY), 100);
        let coarse = Scale { unit: 1e6, grain: 1_000_000, horizon: 200_000_000_000 };
        assert_eq!(coarse.safe_bound(1234.3), 1_235_000_000);
        assert_eq!(coarse.safe_bound(1234.1), 1_234_000_000);
        assert!(coarse.harmless_gap() > 0.4 && coarse.harmless_gap() < 0.6);
        let fine = Scale { unit: 1e7, grain: 1, horizon: 40_000_000_000 };
        assert_eq!(fine.safe_bound(4000.0), 40_000_000_000 - 40_000);
        assert_eq!(fine.harmless_gap(), 0.0);
    }
}
