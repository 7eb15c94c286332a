//! Units: picoseconds, bytes per second, and the only conversion of bytes to time.
//!
//! [`Time`] is an integer number of picoseconds, so that a score is exact and the same on every machine. Additions are checked:
//! a [`Problem`](crate::Problem) is refused if its longest conceivable schedule would not fit, so an overflow is a bug and
//! panics.

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
    /// Zero.
    pub const ZERO: Time = Time(0);

    /// The longest time that a figure of an input may have: about 53 days.
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
        if bandwidth == Bandwidth::INFINITE {
            return Some(Time::ZERO);
        }
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

/// Written for people: four digits and a unit.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["ps", "ns", "us", "ms", "s"];
        let text = if self.0 == 0 { "0".to_owned() } else { with_unit(u128::from(self.0), &units) };
        f.pad(&text)
    }
}

/// Bytes per second; zero stands for [`Bandwidth::INFINITE`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub u64);

impl Bandwidth {
    /// Any number of bytes takes no time.
    pub const INFINITE: Bandwidth = Bandwidth(0);
}

/// A count of bytes written for people, in powers of ten.
pub fn show_bytes(bytes: u64) -> String {
    with_unit(u128::from(bytes), &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// A count of floating-point operations written for people.
pub fn show_flops(flops: u128) -> String {
    with_unit(flops, &["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"])
}

/// A whole number written for people: groups of three digits from five digits on.
pub fn show_count(count: u128) -> String {
    group(&count.to_string())
}

/// A number of things: `1 device`, `2 devices`. For what takes another ending see [`counted_as`].
pub fn counted(count: usize, thing: &str) -> String {
    counted_as(count, thing, &format!("{thing}s"))
}

/// A number of things with a plural of its own: `1 entry`, `2 entries`.
pub fn counted_as(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", show_count(count as u128), if count == 1 { one } else { many })
}

/// A number written for people: that many significant digits where there are decimals, and no exponent.
pub fn show_number(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let exponent = value.abs().log10().floor() as i32;
    let decimals = |exponent: i32| (digits - 1 - exponent).max(0) as usize;
    let text = format!("{value:.*}", decimals(exponent));
    // 9.9996 in four digits is 10.00, not 10.000.
    let rounded_up = text.parse::<f64>().is_ok_and(|shown| shown.abs() >= 10f64.powi(exponent + 1));
    group(&if rounded_up { format!("{value:.*}", decimals(exponent + 1)) } else { text })
}

/// Commas between groups of three digits of the whole part, where it has five or more.
fn group(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut grouped = String::new();
    for (i, digit) in whole.char_indices() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) && grouped != "-" {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A count in four digits and the unit that leaves one to three of them before the point; each unit is a thousand of
/// the one before.
fn with_unit(count: u128, units: &[&str]) -> String {
    if count < 1000 {
        return format!("{count} {}", units[0]);
    }
    let (mut value, mut unit) = (count as f64, 0);
    // From here on a number would be shown as 1000.
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{} {}", show_number(value, 4), units[unit])
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
    #[test]
    fn one_thing_is_not_several() {
        assert_eq!(counted(1, "op"), "1 op");
        assert_eq!(counted(0, "op"), "0 ops");
        assert_eq!(counted(2, "more lane"), "2 more lanes");
        assert_eq!(counted(12_345, "op"), "12,345 ops");
        assert_eq!(
            (counted_as(1, "entry", "entries"), counted_as(2, "entry", "entries")),
            ("1 entry".into(), "2 entries".into())
        );
    }

    #[test]
    fn quantities_are_written_with_few_digits_and_the_right_unit() {
        let times = [
            (0, "0"),
            (999, "999 ps"),
            (500_000, "500.0 ns"),
            (65_000_000, "65.00 us"),
            (999_940_000, "999.9 us"),
            (999_960_000, "1.000 ms"),
            (2_047_812_345, "2.048 ms"),
            (12_345_600_000_000, "12.35 s"),
            (86_400_000_000_000_000, "86,400 s"),
        ];
        for (ps, text) in times {
            assert_eq!(Time(ps).to_string(), text);
        }
        let sizes = [(0, "0 B"), (999, "999 B"), (1_025_000, "1.025 MB"), (999_960, "1.000 MB")];
        for (bytes, text) in sizes {
            assert_eq!(show_bytes(bytes), text);
        }
        assert_eq!(show_flops(8_204_123_456), "8.204 GFLOP");
    }

    #[test]
    fn numbers_have_no_exponent_and_large_ones_are_grouped() {
        let numbers =
            [(30_769.23, "30,769"), (9999.6, "10,000"), (9.9996, "10.00"), (-123_456.0, "-123,456")];
        for (value, text) in numbers {
            assert_eq!(show_number(value, 4), text);
        }
        assert_eq!(show_number(0.000_271_8, 2), "0.00027");
        assert_eq!(show_count(9999), "9999");
        assert_eq!(show_count(1_234_567), "1,234,567");
    }
}
