//! A test: of each class, or network, that was left out of the fit, nine of ten times are within the band.
//!
//! `tests/data/left_out.tsv` has the figures that were fitted without it, `tests/data/measured_ops.tsv` what was measured.

use std::collections::BTreeMap;

use crate::estimate::op_group::OpGroup;
use crate::estimate::table::FamilyTable;
use crate::estimate::{Demand, band, seconds, seconds_by};
use crate::hardware::{ClassSpec, Family};
use crate::units::Time;

const MEASURED: &str = include_str!("../../tests/data/measured_ops.tsv");
const LEFT_OUT: &str = include_str!("../../tests/data/left_out.tsv");

/// What was measured in one go.
struct Measurement {
    class: ClassSpec,
    network: String,
    precision: String,
    seconds: f64,
    ops: Vec<Demand>,
}

fn class(fields: &[&str]) -> ClassSpec {
    let peak = fields[5].split(',').map(|rate| {
        let (format, rate) = rate.split_once('=').unwrap();
        (format.to_owned(), rate.parse().unwrap())
    });
    ClassSpec {
        name: fields[1].to_owned(),
        family: Family::ALL.into_iter().find(|family| family.name() == fields[2]),
        memory_bandwidth: Some(fields[3].parse().unwrap()),
        launch: Time::from_us(fields[4].parse().unwrap()).unwrap(),
        peak: peak.collect(),
        ..ClassSpec::default()
    }
}

fn demand(text: &str) -> Demand {
    let mut fields = text.rsplitn(4, ':');
    let made = fields.next().unwrap().parse().unwrap();
    let bytes = fields.next().unwrap().parse().unwrap();
    let flops: Option<u64> = fields.next().unwrap().parse().ok();
    let group = OpGroup::of(fields.next().unwrap(), flops, made);
    Demand { group, flops: flops.map(|flops| flops as f64), bytes }
}

fn measurements() -> Vec<Measurement> {
    let mut classes: BTreeMap<&str, ClassSpec> = BTreeMap::new();
    let mut found = Vec::new();
    for line in MEASURED.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[0] == "class" {
            classes.insert(fields[1], class(&fields));
            continue;
        }
        found.push(Measurement {
            class: classes[fields[0]].clone(),
            network: fields[1].to_owned(),
            precision: fields[2].to_owned(),
            seconds: fields[4].parse::<f64>().unwrap() / 1e6,
            ops: fields[5].split(';').map(demand).collect(),
        });
    }
    found
}

/// The share of `all` whose times are within the band of estimates by `estimate`.
fn covered<'a>(
    all: impl Iterator<Item = &'a Measurement>,
    estimate: impl Fn(&Measurement, &Demand) -> f64,
) -> (usize, usize) {
    let (mut within, mut count) = (0, 0);
    for one in all {
        let band = band(&one.class).expect("it was measured");
        let ratio = one.seconds / one.ops.iter().map(|op| estimate(one, op)).sum::<f64>();
        within += usize::from((band.low..=band.high).contains(&ratio));
        count += 1;
    }
    (within, count)
}

#[test]
fn nine_of_ten_times_of_what_was_left_out_of_the_fit_are_within_the_band() {
    let all = measurements();
    assert!(all.len() > 4000);
    let mut left_out: BTreeMap<&str, String> = BTreeMap::new();
    for line in LEFT_OUT.lines().filter(|line| !line.starts_with('#')) {
        let (what, rest) = line.split_once('\t').unwrap();
        left_out.entry(what).or_default().push_str(&format!("{rest}\n"));
    }
    let mut networks = (0, 0);
    let mut classes = 0;
    for (what, text) in &left_out {
        let own = all.iter().filter(|one| one.class.name == *what || one.network == *what);
        // Networks are left out where there is but one class.
        let is_class = all.iter().any(|one| one.class.name == *what);
        let family = if is_class { Family::X86 } else { Family::Nvidia };
        let own = own.filter(|one| one.class.family == Some(family));
        let table = FamilyTable::read(text, family).expect("a line for each group");
        let estimate = |one: &Measurement, op: &Demand| {
            seconds_by(&table, &one.class, Some(&one.precision), op).expect("rates are known")
        };
        let (within, count) = covered(own, estimate);
        assert!(count > 0, "{what}");
        if is_class {
            assert!(10 * within >= 9 * count, "{what}: {within} of {count}");
            classes += 1;
        } else {
            networks = (networks.0 + within, networks.1 + count);
        }
    }
    assert!(classes >= 6 && 10 * networks.0 >= 9 * networks.1 && networks.1 > 1000, "{classes} {networks:?}");
}

#[test]
fn estimates_of_what_was_measured_are_within_the_band_and_right_on_the_whole() {
    let all = measurements();
    let names: Vec<&str> = all.iter().map(|one| one.class.name.as_str()).collect();
    for name in names.into_iter().collect::<std::collections::BTreeSet<_>>() {
        let own = || all.iter().filter(|one| one.class.name == name);
        let estimate = |one: &Measurement, op: &Demand| {
            seconds(&one.class, Some(&one.precision), op).expect("rates are known")
        };
        let (within, count) = covered(own(), estimate);
        assert!(10 * within >= 9 * count, "{name}: {within} of {count}");
        let ratios = own().map(|one| one.seconds / one.ops.iter().map(|op| estimate(one, op)).sum::<f64>());
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let middle = ratios[ratios.len() / 2];
        assert!((0.6..1.7).contains(&middle), "{name}: {middle}");
    }
}
