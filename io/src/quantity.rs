//! Quantities with units, as hardware files write them: `"32 GB"`, `"12 GB/s"`, `"2 us"`, `"300 W"`.

use divvy_core::input_error::Code;
use divvy_core::units::Time;

use crate::reader::Item;

/// A unit's name and how many base units it is.
type Units = &'static [(&'static str, f64)];

const BYTES: Units = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const BYTES_PER_SECOND: Units = &[
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("TB/s", 1e12),
    ("kbit/s", 125.0),
    ("Mbit/s", 125e3),
    ("Gbit/s", 125e6),
];
const FLOPS_PER_SECOND: Units =
    &[("FLOP/s", 1.0), ("MFLOP/s", 1e6), ("GFLOP/s", 1e9), ("TFLOP/s", 1e12), ("PFLOP/s", 1e15)];
const MICROSECONDS: Units = &[("us", 1.0), ("µs", 1.0), ("ns", 1e-3), ("ms", 1e3), ("s", 1e6)];
const MILLIWATTS: Units = &[("mW", 1.0), ("W", 1e3), ("kW", 1e6)];

/// Bytes; a plain number is bytes.
pub(crate) fn bytes(item: &Item<'_, '_>) -> Option<u64> {
    whole(item, BYTES, 1.0)
}

/// Bytes per second; a plain number is that.
pub(crate) fn bandwidth(item: &Item<'_, '_>) -> Option<u64> {
    whole(item, BYTES_PER_SECOND, 1.0)
}

/// Operations per second; a plain number is that.
pub(crate) fn flops_per_second(item: &Item<'_, '_>) -> Option<u64> {
    whole(item, FLOPS_PER_SECOND, 1.0)
}

/// Milliwatts; a plain number is watts.
pub(crate) fn milliwatts(item: &Item<'_, '_>) -> Option<u64> {
    whole(item, MILLIWATTS, 1e3)
}

/// A time; a plain number is microseconds.
pub(crate) fn time(item: &Item<'_, '_>) -> Option<Time> {
    if item.value().is_number() {
        return item.microseconds();
    }
    let us = parse(item, MICROSECONDS)?;
    let time = Time::from_us(us);
    if time.is_none() {
        item.fault(Code::Range, "no such time", "times are from 0 up to 53 days");
    }
    time
}

fn whole(item: &Item<'_, '_>, units: Units, plain: f64) -> Option<u64> {
    let amount = if item.value().is_number() { item.number()? * plain } else { parse(item, units)? };
    if (0.0..1e18).contains(&amount) {
        return Some(amount.round() as u64);
    }
    item.fault(
        Code::Range,
        format!("{amount} is out of range"),
        "give a number from 0 up, with the right unit",
    );
    None
}

/// Bytes as people write them; read again, they are the same up to 2^53.
pub(crate) fn write_bytes(bytes: u64) -> String {
    write_whole(bytes, BYTES)
}

/// Bytes per second, as [`write_bytes`].
pub(crate) fn write_bandwidth(bytes_per_second: u64) -> String {
    write_whole(bytes_per_second, &BYTES_PER_SECOND[..5])
}

/// Operations per second, as [`write_bytes`].
pub(crate) fn write_flops_per_second(rate: u64) -> String {
    write_whole(rate, FLOPS_PER_SECOND)
}

/// Power, as [`write_bytes`].
pub(crate) fn write_milliwatts(milliwatts: u64) -> String {
    write_whole(milliwatts, MILLIWATTS)
}

/// A time, as [`write_bytes`].
pub(crate) fn write_time(time: Time) -> String {
    shortest(time.as_us(), MICROSECONDS, |us| Time::from_us(us) == Some(time))
}

fn write_whole(amount: u64, units: Units) -> String {
    shortest(amount as f64, units, |read| read.round() as u64 == amount)
}

/// The text with the fewest digits that is read as the same; of equally short ones the first unit's.
fn shortest(amount: f64, units: Units, is_same: impl Fn(f64) -> bool) -> String {
    let text = |(unit, factor): &(&'static str, f64)| {
        let number = amount / factor;
        is_same(number * factor).then(|| (format!("{number}"), *unit))
    };
    // A leading zero counts twice: 100 B rather than 0.1 kB.
    let digits = |(number, _): &(String, &str)| {
        number.bytes().filter(u8::is_ascii_digit).count() + usize::from(number.starts_with("0."))
    };
    let fewest = units.iter().filter_map(text).min_by_key(digits);
    let (number, unit) = fewest.unwrap_or_else(|| (format!("{amount}"), units[0].0));
    format!("{number} {unit}")
}

/// The number in a text like `12.5 GB/s`, in base units.
fn parse(item: &Item<'_, '_>, units: Units) -> Option<f64> {
    let text = item.text()?.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let number: Option<f64> = number.replace('_', "").parse().ok();
    let unit = units.iter().find(|(name, _)| *name == unit.trim());
    match (number, unit) {
        (Some(number), Some((_, factor))) => Some(number * factor),
        _ => {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            let fix = format!("write a number and one of {}", names.join(", "));
            item.fault(Code::Type, format!("`{text}` is not a quantity"), fix);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_people_do() {
        for (bytes, text) in [
            (0, "0 B"),
            (16_000_000_000, "16 GB"),
            (1152 << 30, "1152 GiB"),
            (32 << 20, "32 MiB"),
            (999, "999 B"),
            (16_707_006_464, "16315436 KiB"),
        ] {
            assert_eq!(write_bytes(bytes), text);
        }
        assert_eq!(write_bandwidth(56_250_000_000), "56.25 GB/s");
        assert_eq!(write_bandwidth(125_000_000), "125 MB/s");
        assert_eq!(write_bandwidth(4_800_000_000_000), "4.8 TB/s");
        assert_eq!(write_flops_per_second(989_500_000_000_000), "989.5 TFLOP/s");
        assert_eq!(write_milliwatts(6_400), "6.4 W");
        assert_eq!(write_time(Time(3_700_000)), "3.7 us");
        assert_eq!(write_time(Time(900_000)), "0.9 us");
        assert_eq!(write_time(Time(1)), "0.001 ns");
    }
}
