//! Units: picoseconds, bytes per second, and the one place where bytes become time.
//!
//! [`Time`] is a whole number of picoseconds, so that a score is exact and the same on every machine. Additions
//! are checked: a [`Problem`](crate::Problem) is refused when its longest conceivable schedule would not fit, so an
//! overflow here is a bug of ours and panics.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A span or a point of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

const PS_PER_US: f64 = 1e6;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

impl Time {
    /// No time at all.
    pub const ZERO: Time = Time(0);

    /// The longest time a figure in an input may have: about 53 days. Leaves room to add thousands of them.
    pub const LONGEST_INPUT: Time = Time(u64::MAX >> 2);

    /// The nearest picosecond to `us` microseconds; `None` for negative, infinite, NaN or absurd values.
    pub fn from_us(us: f64) -> Option<Time> {
        let ps = (us * PS_PER_US).round();
        // The comparison is false for NaN.
        (ps >= 0.0 && ps <= Time::LONGEST_INPUT.0 as f64).then_some(Time(ps as u64))
    }

    /// Microseconds, for people and for JSON.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / PS_PER_US
    }

    /// Seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PS_PER_SECOND as f64
    }

    /// The sum, or `None` past the end of the range.
    pub fn checked_add(self, other: Time) -> Option<Time> {
        self.0.checked_add(other.0).map(Time)
    }

    /// The time `bytes` take at `bandwidth` bytes per second, rounded up; `None` if it does not fit.
    pub fn of_bytes(bytes: u64, bandwidth: Bandwidth) -> Option<Time> {
        Time::of_many_bytes(u128::from(bytes), bandwidth)
    }

    /// As [`Time::of_bytes`], for sums of bytes.
    pub fn of_many_bytes(bytes: u128, bandwidth: Bandwidth) -> Option<Time> {
        let ps = bytes.checked_mul(PS_PER_SECOND)?.div_ceil(u128::from(bandwidth.0));
        u64::try_from(ps).ok().map(Time)
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.checked_add(other.0).expect("a validated problem keeps times in range"))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0.checked_sub(other.0).expect("a span ends after it starts"))
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

/// Written for people: three or four digits and a unit.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.as_us();
        let text = match us {
            _ if self.0 == 0 => "0".to_owned(),
            _ if us >= 1e7 => format!("{:.2} s", us / 1e6),
            _ if us >= 1e4 => format!("{:.2} ms", us / 1e3),
            _ if us >= 10.0 => format!("{us:.1} us"),
            _ => format!("{us:.3} us"),
        };
        f.pad(&text)
    }
}

/// Bytes per second; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub u64);

/// A count of bytes written for people, in powers of ten.
pub fn show_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", value / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.1} GB", value / 1e9),
    }
}

/// A count of floating-point operations written for people.
pub fn show_flops(flops: u128) -> String {
    let value = flops as f64;
    match flops {
        0..10_000 => format!("{flops} FLOP"),
        10_000..10_000_000 => format!("{:.2} MFLOP", value / 1e6),
        10_000_000..10_000_000_000_000 => format!("{:.2} GFLOP", value / 1e9),
        _ => format!("{:.2} TFLOP", value / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_convert_exactly_and_nonsense_is_refused() {
        assert_eq!(Time::from_us(955.854), Some(Time(955_854_000)));
        assert_eq!(Time::from_us(0.000_001), Some(Time(1)));
        for nonsense in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert_eq!(Time::from_us(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn bytes_become_time_rounded_up_once() {
        assert_eq!(Time::of_bytes(1, Bandwidth(1_000_000_000)), Some(Time(1_000)));
        assert_eq!(Time::of_bytes(1, Bandwidth(3_000_000_000_000)), Some(Time(1)));
        assert_eq!(Time::of_bytes(0, Bandwidth(1)), Some(Time::ZERO));
        assert_eq!(Time::of_bytes(u64::MAX, Bandwidth(1)), None);
    }
}
