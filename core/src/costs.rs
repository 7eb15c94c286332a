//! Costs: how long an op takes on a class of devices at a batch size, and where that figure comes from.
//!
//! A [`Profile`] holds what was measured. [`resolve`] fills in the classes of the hardware at hand: profiled times are taken as
//! they are; else times of a profiled class are carried over, launch' + (t − launch) · the op's roofline ratio, and labelled
//! scaled; else the time is estimated ([`estimate`]). Nothing is interpolated between batch sizes: one that was not measured is
//! not supported.
//!
//! Times that were not measured are rounded to whole multiples of a thousandth of the class's average. Further digits are not
//! known, yet they would decide which of two plans is better and keep bounds from being tight. Classes whose times differ by a
//! factor round alike, so that no op gains by where it runs.

use std::collections::HashSet;

use crate::estimate::{self, Demand};
use crate::graph::Graph;
use crate::hardware::{ClassSpec, HardwareSpec};
use crate::ids::OpId;
use crate::input_error::{Code, InputErrors};
use crate::units::{Time, counted};

pub use crate::estimate::ErrorBand;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Measured on this class.
    Measured,
    /// Measured on another class and carried over.
    Scaled,
    /// Estimated from the class's rates.
    Estimated,
}

/// A time and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The time.
    pub time: Time,
    /// Its origin.
    pub origin: Origin,
}

/// The times of all ops on one class of devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassCosts {
    /// Name of the class.
    pub class: String,
    /// Supported batch sizes, ascending.
    pub batch_sizes: Vec<u32>,
    /// For each batch size, for each op; none: this class cannot run that op.
    pub costs: Vec<Vec<Option<Cost>>>,
}

impl ClassCosts {
    /// The costs of all ops at a batch size, if that is supported.
    pub fn at(&self, batch_size: u32) -> Option<&[Option<Cost>]> {
        let index = self.batch_sizes.binary_search(&batch_size).ok()?;
        Some(&self.costs[index])
    }

    /// Keeps only the batch sizes that `keep` accepts.
    fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let mut kept = self.batch_sizes.iter().map(|&size| keep(size)).collect::<Vec<_>>().into_iter();
        self.costs.retain(|_| kept.next().expect("one list per size"));
        self.batch_sizes.retain(|&size| keep(size));
    }
}

/// Measured times of a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// By class.
    pub classes: Vec<ClassCosts>,
    /// The whole network in one go, where it was measured too: class, batch size, time.
    pub whole_model: Vec<(String, u32, Time)>,
    /// What a piece costs besides its ops, where that was measured too: class and time.
    pub pieces: Vec<(String, Time)>,
}

/// The fraction of a total time by origin, each between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibratedShare {
    /// Measured on the class at hand.
    pub measured: f64,
    /// Carried over from another class.
    pub scaled: f64,
    /// Estimated from the class's rates.
    pub estimated: f64,
}

impl CalibratedShare {
    /// The fractions in the sum of `costs`; all 0 for an empty sum.
    pub fn of(costs: impl Iterator<Item = Cost>) -> CalibratedShare {
        let mut sums = [0u128; 3];
        for cost in costs {
            sums[cost.origin as usize] += u128::from(cost.time.0);
        }
        let total = sums.iter().sum::<u128>().max(1) as f64;
        let [measured, scaled, estimated] = sums.map(|sum| sum as f64 / total);
        CalibratedShare { measured, scaled, estimated }
    }
}

/// How far times of that origin are off on a class; none where nobody knows, and for measured times.
pub fn error_band(class: &ClassSpec, origin: Origin) -> Option<ErrorBand> {
    match origin {
        Origin::Measured => None,
        Origin::Scaled => estimate::band_of_scaled(class),
        Origin::Estimated => estimate::band(class),
    }
}

/// Which batch sizes a problem needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSizes {
    /// One input at a time.
    One,
    /// Any supported size up to this many inputs.
    UpTo(u32),
}

impl BatchSizes {
    fn wanted(self, size: u32) -> bool {
        match self {
            BatchSizes::One => size == 1,
            BatchSizes::UpTo(inputs) => size <= inputs,
        }
    }

    /// The sizes to estimate for a class: its own list, else quarters of the inputs as in DiviML's experiments.
    fn to_estimate(self, class: &ClassSpec) -> Vec<u32> {
        let mut sizes = match self {
            BatchSizes::One => vec![1],
            BatchSizes::UpTo(_) if !class.batch_sizes.is_empty() => class.batch_sizes.clone(),
            BatchSizes::UpTo(inputs) => {
                let quarters = (1..=4).map(|q| u64::from(inputs) * q);
                quarters.filter(|q| q % 4 == 0).map(|q| (q / 4) as u32).collect()
            }
        };
        sizes.retain(|&size| size > 0 && self.wanted(size));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// The costs for each class of `hardware`, in its order. `catalogue` describes further classes that a profile may
/// have been measured on.
pub fn resolve(
    graph: &Graph,
    profile: &Profile,
    hardware: &HardwareSpec,
    catalogue: &[ClassSpec],
    sizes: BatchSizes,
) -> Result<Vec<ClassCosts>, InputErrors> {
    let mut errors = InputErrors::default();
    check_lengths(graph, profile, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut resolved = Vec::with_capacity(hardware.classes.len());
    let in_use: HashSet<&str> = hardware.devices.iter().map(|device| device.class.as_str()).collect();
    for class in &hardware.classes {
        // A description may list any number of classes; only those of some device get times.
        if !in_use.contains(class.name.as_str()) {
            resolved.push(ClassCosts { class: class.name.clone(), ..ClassCosts::default() });
            continue;
        }
        let mut costs = match profile.classes.iter().find(|p| p.class == class.name) {
            Some(profiled) => profiled.clone(),
            None => {
                let mut derived = match scale_source(class, profile, hardware, catalogue) {
                    Some((from, spec)) => scale(graph, class, from, spec),
                    None => estimated(graph, class, &sizes.to_estimate(class)),
                };
                derived.costs.iter_mut().for_each(|costs| round_to_known_digits(costs, class.launch));
                derived
            }
        };
        let listed = |size: u32| {
            sizes == BatchSizes::One || class.batch_sizes.is_empty() || class.batch_sizes.contains(&size)
        };
        let timed = show_sizes(&costs.batch_sizes);
        costs.retain(|size| sizes.wanted(size) && listed(size));
        if costs.batch_sizes.is_empty() {
            let wanted = match sizes {
                BatchSizes::One => "no times for a batch of one input".to_owned(),
                BatchSizes::UpTo(inputs) => format!("no supported batch size up to {inputs}"),
            };
            let supported = match class.batch_sizes.as_slice() {
                [] => String::new(),
                own => format!("; its batch_sizes are {}", show_sizes(own)),
            };
            errors.add(
                Code::NoCost,
                format!("hardware.class.{}", class.name),
                format!("{wanted}: there are times for {timed}{supported}"),
                "ask for at least as many inputs, profile the class at such a batch size, or change batch_sizes",
            );
        }
        if !costs.costs.is_empty() && costs.costs.iter().all(|list| list.iter().all(Option::is_none)) {
            errors.add(
                Code::NoCost,
                format!("hardware.class.{}", class.name),
                "there is no profile of this class, none to scale from, and no peak rate to estimate from",
                "give the class `peak` or `memory_bandwidth` figures, or bring a profile with --profile",
            );
        }
        resolved.push(costs);
    }
    errors.into_result(resolved)
}

/// Batch sizes as text.
pub(crate) fn show_sizes(sizes: &[u32]) -> String {
    let all: Vec<String> = sizes.iter().map(u32::to_string).collect();
    match all.split_last() {
        None => "none".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) if rest.len() < 16 => format!("{} or {last}", rest.join(", ")),
        Some((last, rest)) => format!("{}, … or {last}", rest[..16].join(", ")),
    }
}

fn check_lengths(graph: &Graph, profile: &Profile, errors: &mut InputErrors) {
    for class in &profile.classes {
        let lists = class.costs.len() == class.batch_sizes.len();
        let ascending = class.batch_sizes.windows(2).all(|pair| pair[0] < pair[1]);
        let ops = class.costs.iter().all(|list| list.len() == graph.op_count());
        if class.batch_sizes.contains(&0) {
            let place = format!("costs.{}.batch_sizes", class.class);
            errors.add(Code::Range, place, "a batch of zero inputs", "sizes are 1 or more");
        }
        if !(lists && ops && ascending) {
            errors.add(
                Code::Length,
                format!("costs.{}", class.class),
                format!(
                    "needs one list of {} for each of its batch sizes",
                    counted(graph.op_count(), "time")
                ),
                "give every op a time (null where the class cannot run it), batch sizes ascending",
            );
        }
    }
}

/// The profiled class to carry times over from: one of the same kind if there is one.
fn scale_source<'a>(
    class: &ClassSpec,
    profile: &'a Profile,
    hardware: &'a HardwareSpec,
    catalogue: &'a [ClassSpec],
) -> Option<(&'a ClassCosts, &'a ClassSpec)> {
    if class.peak.is_empty() && class.memory_bandwidth.is_none() {
        return None;
    }
    let known = || hardware.classes.iter().chain(catalogue);
    let with_spec = |costs: &'a ClassCosts| {
        let spec = known().find(|spec| spec.name == costs.class)?;
        (!spec.peak.is_empty() || spec.memory_bandwidth.is_some()).then_some((costs, spec))
    };
    let sources: Vec<_> = profile.classes.iter().filter_map(with_spec).collect();
    sources.iter().find(|(_, spec)| spec.kind == class.kind).or(sources.first()).copied()
}

/// Times carried over from another class.
fn scale(graph: &Graph, class: &ClassSpec, from: &ClassCosts, from_spec: &ClassSpec) -> ClassCosts {
    let carry = |op: OpId, size: u32, cost: Cost| {
        if cost.time == Time::ZERO {
            return Some(Cost { origin: Origin::Scaled, ..cost });
        }
        let ratio = match (roofline(graph, class, op, size), roofline(graph, from_spec, op, size)) {
            (Some(here), Some(there)) if there > 0.0 => here / there,
            _ => 1.0,
        };
        let beyond_launch = cost.time.0.saturating_sub(from_spec.launch.0) as f64;
        let time = Time::from_us((class.launch.0 as f64 + beyond_launch * ratio) / 1e6)?;
        Some(Cost { time, origin: Origin::Scaled })
    };
    let lists = from.batch_sizes.iter().zip(&from.costs);
    let costs = lists.map(|(&size, list)| {
        let costs = list.iter().enumerate();
        costs.map(|(op, cost)| carry(OpId::new(op), size, (*cost)?)).collect()
    });
    ClassCosts { class: class.name.clone(), batch_sizes: from.batch_sizes.clone(), costs: costs.collect() }
}

/// Estimates from the class's rates.
fn estimated(graph: &Graph, class: &ClassSpec, sizes: &[u32]) -> ClassCosts {
    let precision = graph.spec().precision.as_deref();
    let one = |op: OpId, size: u32| {
        let seconds = estimate::seconds(class, precision, &Demand::of(graph, op, size))?;
        let time = Time::from_us(seconds * 1e6)?;
        Some(Cost { time, origin: Origin::Estimated })
    };
    let costs = sizes.iter().map(|&size| graph.ops().map(|op| one(op, size)).collect()).collect();
    ClassCosts { class: class.name.clone(), batch_sizes: sizes.to_vec(), costs }
}

/// Rounds times to whole multiples of a thousandth of their average beyond the launch; none becomes 0. The launch is rounded by
/// itself.
fn round_to_known_digits(costs: &mut [Option<Cost>], launch: Time) {
    let beyond_launch = |cost: &Cost| u128::from(cost.time.0.saturating_sub(launch.0));
    let times = costs.iter().flatten().map(beyond_launch).filter(|&time| time > 0);
    let (sum, count) = times.fold((0, 0), |(sum, count), time| (sum + time, count + 1));
    let parts = 1000 * count;
    if sum < parts || parts == 0 {
        return;
    }
    let step = (sum + parts / 2) / parts;
    let launches = (u128::from(launch.0) + step / 2) / step;
    for cost in costs.iter_mut().flatten().filter(|cost| cost.time > Time::ZERO) {
        let steps = (beyond_launch(cost) * parts + sum / 2) / sum;
        let time = (steps + launches).max(1).saturating_mul(step);
        cost.time = Time(u64::try_from(time).unwrap_or(u64::MAX));
    }
}

/// Seconds beyond the launch at the class's peak rates.
fn roofline(graph: &Graph, class: &ClassSpec, op: OpId, batch_size: u32) -> Option<f64> {
    estimate::roofline(class, graph.spec().precision.as_deref(), &Demand::of(graph, op, batch_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(times: &[u64], launch: u64) -> Vec<u64> {
        let cost = |&time| Some(Cost { time: Time(time), origin: Origin::Scaled });
        let mut costs: Vec<Option<Cost>> = times.iter().map(cost).chain([None]).collect();
        round_to_known_digits(&mut costs, Time(launch));
        costs.iter().flatten().map(|cost| cost.time.0).collect()
    }

    #[test]
    fn times_that_were_not_measured_are_multiples_of_a_thousandth_of_their_average() {
        // The average of positive times is 33 000: no positive time becomes 0, and 0 stays 0.
        assert_eq!(rounded(&[98_980, 7, 0, 13, 0, 0, 0], 0), [98_967, 33, 0, 33, 0, 0, 0]);
        // An average of 20 000 beyond the launch, which is rounded by itself.
        assert_eq!(rounded(&[11_003, 30_997], 1_000), [11_000, 31_000]);
        assert_eq!(rounded(&[11_015, 31_009], 1_012), [11_020, 31_020]);
        // Too short for any digit to be dropped, or empty.
        assert_eq!(rounded(&[101, 998], 0), [101, 998]);
        assert_eq!(rounded(&[0, 0], 0), [0, 0]);
        assert_eq!(rounded(&[], 0), [0_u64; 0]);
        assert_eq!(rounded(&[u64::MAX], 0), [u64::MAX]);
    }

    #[test]
    fn classes_that_differ_by_a_factor_round_in_the_same_way() {
        let slow = [123_456_789, 98_765, 55_555_555, 1_000_001];
        let fast = slow.map(|time| time * 3 / 7);
        let ratios = |times: &[u64]| times.iter().map(|time| time / gcd_of(times)).collect::<Vec<u64>>();
        assert_eq!(ratios(&rounded(&slow, 0)), ratios(&rounded(&fast, 0)));
    }

    fn gcd_of(times: &[u64]) -> u64 {
        times.iter().fold(0, |mut a, &b| {
            let mut b = b;
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        })
    }
}
