//! Axes: which numbers are shown, where the marks are, and where on the picture a number lies.

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// Whether equal distances are equal factors.
    pub logarithmic: bool,
    /// Whether zero is always on it.
    pub from_zero: bool,
}

impl Axis {
    /// An axis on which equal distances are equal differences, as far as the figures reach.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), logarithmic: false, from_zero: false }
    }

    /// A linear axis that begins at zero.
    pub fn from_zero(label: &str) -> Axis {
        Axis { from_zero: true, ..Axis::linear(label) }
    }

    /// An axis on which equal distances are equal factors.
    pub fn log(label: &str) -> Axis {
        Axis { logarithmic: true, ..Axis::linear(label) }
    }

    /// Whether a number has a place on it.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.logarithmic || value > 0.0)
    }

    /// The axis over `values`, widened to round numbers; none without a number that it can show.
    pub(super) fn over(&self, values: impl Iterator<Item = f64>) -> Option<Range> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|&value| self.shows(value)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            return None;
        }
        if self.from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        Some(if self.logarithmic { logarithmic(low, high) } else { linear(low, high) })
    }
}

/// What an axis shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Numbers that are marked, ascending.
    pub(super) marks: Vec<f64>,
}

impl Range {
    /// Where a number lies, from 0 at the low end to 1 at the high end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.logarithmic { value.log10() } else { value };
        let (low, high) = (scaled(self.low), scaled(self.high));
        ((scaled(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The low end.
    pub(super) fn low(&self) -> f64 {
        self.low
    }
}

/// How many steps between marks, about.
const STEPS: f64 = 5.0;

fn linear(low: f64, high: f64) -> Range {
    // A single number gets some room around it.
    let (low, high) = match high - low {
        0.0 if low == 0.0 => (0.0, 1.0),
        0.0 => (low - low.abs() / 2.0, high + high.abs() / 2.0),
        _ => (low, high),
    };
    let rough = (high - low) / STEPS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    let marks: Vec<f64> = (first..=last).map(|i| i as f64 * step).collect();
    Range { low: first as f64 * step, high: last as f64 * step, logarithmic: false, marks }
}

fn logarithmic(low: f64, high: f64) -> Range {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let last = last.max(first + 1);
    let power = |exponent: i32| 10f64.powi(exponent);
    let every = (f64::from(last - first) / (2.0 * STEPS)).ceil().max(1.0) as usize;
    if last - first > 2 {
        // Powers of ten are marked; the ends may lie between them, so that little room is left empty.
        let ends = || (first..=last).flat_map(|e| [1.0, 2.0, 5.0].map(|factor| factor * power(e)));
        let lowest = ends().take_while(|&end| end <= low * (1.0 + 1e-9)).last().unwrap_or(power(first));
        let highest = ends().find(|&end| end >= high * (1.0 - 1e-9)).unwrap_or(power(last));
        let inside = |mark: &f64| *mark >= lowest && *mark <= highest;
        let marks = (first..=last).step_by(every).map(power).filter(inside).collect();
        return Range { low: lowest, high: highest, logarithmic: true, marks };
    }
    // Over few powers of ten the ends are nearer, and numbers between the powers are marked.
    let all: Vec<f64> =
        (first..=last).flat_map(|e| [1.0, 2.0, 5.0].map(|factor| factor * power(e))).collect();
    let from = all.iter().rposition(|&mark| mark <= low * (1.0 + 1e-9)).unwrap_or(0);
    let to = all.iter().position(|&mark| mark >= high * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    let to = to.max(from + 1).min(all.len() - 1);
    Range { low: all[from], high: all[to], logarithmic: true, marks: all[from..=to].to_vec() }
}

/// A number in few digits, with a unit prefix where it is large: `0.001`, `25`, `10k`, `3.5M`.
pub(super) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        0.0 => 0,
        v if v >= 100.0 => 0,
        v => (2 - v.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{}{unit}", text.replace('-', "−"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_hold_everything() {
        let range = Axis::linear("x").over([3.2, 17.9].into_iter()).unwrap();
        assert_eq!(range.marks, [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!((range.place(0.0), range.place(5.0), range.place(20.0)), (0.0, 0.25, 1.0));
        let range = Axis::log("x").over([0.004, 80.0].into_iter()).unwrap();
        assert_eq!(range.marks, [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert!((range.place(100.0) - 1.0).abs() < 1e-12 && range.place(0.002) == 0.0);
        let range = Axis::log("x").over([22.0, 95.0].into_iter()).unwrap();
        assert_eq!(range.marks, [20.0, 50.0, 100.0]);
    }

    #[test]
    fn steps_are_one_two_or_five_times_a_power_of_ten() {
        for tenths in 1..400 {
            let high = f64::from(tenths) * 0.37;
            let range = Axis::from_zero("x").over([0.0, high].into_iter()).unwrap();
            let step = range.marks[1] - range.marks[0];
            let first = step / 10f64.powf((step * 1.000_001).log10().floor());
            assert!([1.0, 2.0, 5.0].iter().any(|one| (first - one).abs() < 1e-6), "{high}: steps of {step}");
            assert!((3..=7).contains(&range.marks.len()), "{high}: {:?}", range.marks);
            let range = Axis::log("x").over([high, high * 30.0].into_iter()).unwrap();
            for mark in &range.marks {
                let first = mark / 10f64.powf((mark * 1.000_001).log10().floor());
                assert!([1.0, 2.0, 5.0].iter().any(|one| (first - one).abs() < 1e-6), "{high}: {mark}");
            }
        }
    }

    #[test]
    fn a_single_number_and_no_number_have_an_axis_or_none() {
        for axis in [Axis::linear("x"), Axis::log("x"), Axis::from_zero("x")] {
            let range = axis.over([7.0].into_iter()).unwrap();
            assert!((0.0..=1.0).contains(&range.place(7.0)) && range.marks.len() > 1, "{range:?}");
            assert_eq!(axis.over([f64::NAN, f64::INFINITY].into_iter()), None);
        }
        assert_eq!(Axis::log("x").over([0.0, -3.0].into_iter()), None);
        assert!(Axis::linear("x").over([0.0].into_iter()).is_some());
        assert_eq!(Axis::from_zero("x").over([3.0, 4.0].into_iter()).unwrap().low(), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.001, 0.25, 1.0, 2.5, 1234.0, 12_000.0, 3_500_000.0, -4.0];
        assert_eq!(all.map(short), ["0", "0.001", "0.25", "1", "2.5", "1234", "12k", "3.5M", "−4"]);
    }
}
