//! What an op takes on a class of devices that nobody timed it on: launches + the larger of arithmetic and traffic.
//!
//! Peak rates are not what ops reach. How much of them groups of ops reach on devices of a [`Family`] was measured, and stands
//! in a table (`efficiencies.tsv`) that `scripts/fit_estimates.py` fits:
//!
//! time = launches · launch · √w + max(arithmetic · ⁴√w · operations / peak, memory · bytes / bandwidth)
//!
//! w is how many times the peak rate of one processor core the class has, at least 1: many cores share out an op less well
//! than few. The table also has how far such times were off on a class that was left out of the fit ([`band`]). Classes whose
//! rates are what ops reach ([`Family::Full`]), and those of no known family that are neither CPU nor GPU, are taken at their
//! word.
//!
//! Nothing but additions, products, quotients and square roots is used: they give the same on every machine.
//!
//! | file | what |
//! |---|---|
//! | `op_group` | the group of ops that a kind belongs to |
//! | `table` | the fitted figures |
//! | `left_out` | a test: how far off estimates were of classes that were left out of the fit |

#[cfg(test)]
mod left_out;
mod op_group;
mod table;

use crate::graph::Graph;
use crate::hardware::{ClassSpec, DeviceKind, Family};
use crate::ids::OpId;

use table::FamilyTable;

pub use op_group::OpGroup;
pub use table::ErrorBand;

/// What an op asks of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its group.
    pub group: OpGroup,
    /// Operations; none where they are not known.
    pub flops: Option<f64>,
    /// Bytes read and written.
    pub bytes: f64,
}

impl Demand {
    /// Of an op at a batch size.
    pub fn of(graph: &Graph, op: OpId, batch_size: u32) -> Demand {
        let spec = graph.op(op);
        let batch = f64::from(batch_size);
        let bytes = match spec.traffic {
            Some(bytes) => batch * bytes as f64,
            None => batch * graph.activation_bytes(op) as f64 + graph.weight_bytes(op) as f64,
        };
        let made: u64 = graph.outputs(op).iter().map(|&tensor| graph.tensor_bytes(tensor)).sum();
        let group = OpGroup::of(&spec.kind, spec.flops, made);
        Demand { group, flops: spec.flops.map(|flops| batch * flops as f64), bytes }
    }
}

/// The larger of arithmetic at the peak rate and traffic at the memory bandwidth, in seconds. None if the class limits
/// neither, or limits only arithmetic and the op's is not known.
pub fn roofline(class: &ClassSpec, precision: Option<&str>, demand: &Demand) -> Option<f64> {
    let [arithmetic, traffic] = at_peak(class, precision, demand);
    larger(arithmetic, traffic)
}

/// Seconds that the op takes, launches and all; none where [`roofline`] has none.
pub fn seconds(class: &ClassSpec, precision: Option<&str>, demand: &Demand) -> Option<f64> {
    match family(class).and_then(table::of) {
        Some(family) => seconds_by(family, class, precision, demand),
        None => Some(class.launch.as_seconds() + roofline(class, precision, demand)?),
    }
}

fn seconds_by(
    family: &FamilyTable,
    class: &ClassSpec,
    precision: Option<&str>,
    demand: &Demand,
) -> Option<f64> {
    let [arithmetic, traffic] = at_peak(class, precision, demand);
    let row = family.row(demand.group);
    let width = match (family.one_core, peak(class, None)) {
        (Some(one_core), Some(peak)) => (peak / one_core).max(1.0),
        _ => 1.0,
    };
    let arithmetic = arithmetic.map(|seconds| seconds * row.arithmetic * width.sqrt().sqrt());
    let traffic = traffic.map(|seconds| seconds * row.memory);
    Some(class.launch.as_seconds() * row.launches * width.sqrt() + larger(arithmetic, traffic)?)
}

/// Between which factors nine of ten times of [`seconds`] turned out on a class that was left out of the fit; none where no
/// hardware like this class was measured, or where it does not say what limits it.
pub fn band(class: &ClassSpec) -> Option<ErrorBand> {
    let known = class.family.filter(|_| class.memory_bandwidth.is_some() && !class.peak.is_empty());
    table::of(known?)?.estimated(&class.name)
}

/// The same of times that were measured on another class of the family and carried over.
pub fn band_of_scaled(class: &ClassSpec) -> Option<ErrorBand> {
    let known = class.family.filter(|_| class.memory_bandwidth.is_some() && !class.peak.is_empty());
    table::of(known?)?.scaled(&class.name)
}

/// The family whose figures are used: its own, else that of the measured devices of its kind.
fn family(class: &ClassSpec) -> Option<Family> {
    class.family.or(match class.kind {
        DeviceKind::Cpu => Some(Family::X86),
        DeviceKind::Gpu => Some(Family::Nvidia),
        DeviceKind::Other => None,
    })
}

fn at_peak(class: &ClassSpec, precision: Option<&str>, demand: &Demand) -> [Option<f64>; 2] {
    let arithmetic = Option::zip(demand.flops, peak(class, precision)).map(|(flops, peak)| flops / peak);
    let traffic = class.memory_bandwidth.map(|bandwidth| demand.bytes / bandwidth as f64);
    [arithmetic, traffic]
}

/// Operations per second in the network's number format; fp32 without one of its own.
fn peak(class: &ClassSpec, precision: Option<&str>) -> Option<f64> {
    let rates = &class.peak;
    let own = rates.get(precision.unwrap_or("fp32"));
    own.or_else(|| rates.get("fp32")).or_else(|| rates.values().next()).map(|&rate| rate as f64)
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn class(family: Option<Family>, kind: DeviceKind, peak: u64) -> ClassSpec {
        ClassSpec {
            kind,
            family,
            peak: [("fp32".to_owned(), peak)].into(),
            memory_bandwidth: Some(10_000_000_000),
            launch: Time(1_000_000),
            ..ClassSpec::default()
        }
    }

    fn demand(kind: &str, flops: u64, bytes: f64) -> Demand {
        Demand { group: OpGroup::of(kind, Some(flops), 4), flops: Some(flops as f64), bytes }
    }

    #[test]
    fn rates_that_ops_reach_are_taken_at_their_word() {
        let work = demand("Conv", 1_000_000_000, 1e6);
        for plain in [
            class(Some(Family::Full), DeviceKind::Gpu, 1_000_000_000),
            class(None, DeviceKind::Other, 1_000_000_000),
        ] {
            assert_eq!(seconds(&plain, None, &work), Some(1.000_001));
            assert_eq!(band(&plain), None);
        }
    }

    #[test]
    fn the_figures_of_the_family_count_and_wide_classes_reach_less() {
        let work = demand("Conv", 1_000_000_000_000, 1e6);
        let per_peak = |peak: u64| {
            let class = class(Some(Family::X86), DeviceKind::Cpu, peak);
            seconds(&class, None, &work).expect("there is a peak")
                / roofline(&class, None, &work).expect("it is")
        };
        let (narrow, wide) = (per_peak(100_000_000_000), per_peak(3_200_000_000_000));
        assert!(narrow > 0.5 && narrow < 2.0, "{narrow}");
        assert!(wide > 1.5 * narrow, "{wide} against {narrow}");
    }

    #[test]
    fn traffic_counts_where_there_is_little_arithmetic() {
        let x86 = class(Some(Family::X86), DeviceKind::Cpu, 100_000_000_000);
        let copy = demand("Concat", 0, 1e9);
        let without = ClassSpec { memory_bandwidth: None, ..x86.clone() };
        let takes = |class: &ClassSpec| seconds(class, None, &copy).expect("it has a peak");
        assert!(takes(&x86) > 0.02 && takes(&without) < 0.001);
        assert!(band(&x86).is_some() && band(&without).is_none());
    }

    #[test]
    fn hardware_that_nobody_measured_has_no_band() {
        let gpu = class(Some(Family::Nvidia), DeviceKind::Gpu, 1_000_000_000_000);
        assert_eq!(band(&gpu), None);
        let h200 = ClassSpec { name: "h200".to_owned(), ..gpu };
        assert!(band(&h200).is_some_and(|band| band.low < 1.0 && band.high > 1.0));
        assert_eq!(band(&class(None, DeviceKind::Cpu, 1_000_000_000)), None);
    }
}
