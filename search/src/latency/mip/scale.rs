//! Picoseconds as floating-point numbers of a size that suits HiGHS, and back.
//!
//! Every figure of a problem is a whole multiple of some grain: the greatest common divisor of them all. The unit of the
//! program is that grain times a power of two, so that figures stay exact while they have 53 bits, and the horizon is
//! near [`LARGEST`].

use divvy_proof::latency_tables::NEVER;

use crate::latency::subproblem::Subproblem;

/// The horizon in the program's units is at most this: HiGHS's tolerances are absolute.
const LARGEST: f64 = 4096.0;

/// HiGHS may be off by this share of the horizon: its tolerance for a whole column, times the largest factor.
const TOLERANCE: f64 = 1e-6;

pub(crate) struct Scale {
    unit: f64,
    grain: u64,
    horizon: u64,
}

impl Scale {
    pub(crate) fn new(part: &Subproblem<'_>, horizon: u64) -> Scale {
        let mut grain = 0;
        let mut meet = |time: u64| {
            if time < NEVER {
                grain = divisor(grain, time);
            }
        };
        for op in 0..part.op_count() {
            for &d in &part.allowed[op] {
                meet(part.time(op, d));
                meet(part.release[op][d as usize]);
                meet(part.tail[op][d as usize]);
                for edge in &part.inputs[op] {
                    for &from in &part.allowed[edge.op as usize] {
                        meet(part.delay(edge.size, from, d));
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

    /// Picoseconds in the program's unit.
    pub(crate) fn units(&self, time: u64) -> f64 {
        time as f64 / self.unit
    }

    fn slack(&self) -> f64 {
        TOLERANCE * self.horizon as f64
    }

    /// A bound of the program in picoseconds: no more than it proves, or the next value that a schedule can have.
    pub(crate) fn safe_bound(&self, bound: f64) -> u64 {
        let bound = bound * self.unit - self.slack();
        if bound.is_nan() || bound <= 0.0 {
            return 0;
        }
        let grain = self.grain as f64;
        let values = (bound / grain).ceil() * grain;
        (values as u64).min(self.horizon)
    }

    /// A gap that no schedule's value lies in.
    pub(crate) fn harmless_gap(&self) -> f64 {
        ((0.9 * self.grain as f64 - 2.0 * self.slack()) / self.unit).max(0.0)
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
