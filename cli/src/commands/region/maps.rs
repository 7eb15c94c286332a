//! The acceleration region drawn over the rates of links and devices.

use divvy::io::svg::{HeatMap, RatioLine};
use divvy::search::studies::acceleration_region::{AtRatio, Region};

/// Inferences per second over the plane.
pub(super) fn throughput(region: &Region) -> HeatMap {
    map(region, "inferences per second", "inferences/s", &|at, rate| rate / at.period)
}

/// Placements looked at over the plane.
pub(super) fn effort(region: &Region) -> HeatMap {
    map(region, "placements looked at", "placements", &|at, _| (at.effort as f64).max(1.0))
}

fn map(region: &Region, title: &str, unit: &str, value: &dyn Fn(&AtRatio, f64) -> f64) -> HeatMap {
    let (links, rates) = region.axes();
    let row = |r: usize| (0..links.len()).map(|l| Some(value(region.at(l, r), rates[r]))).collect();
    // Ratios of boundaries are in bytes per operation; the axes are in MB/s and GFLOP/s.
    let lines = region.boundaries().into_iter();
    let lines = lines.map(|b| RatioLine { name: b.name, ratio: b.ratio * 1e3, dashed: b.from_paper });
    let mega = |all: &[f64], by: f64| all.iter().map(|value| value / by).collect();
    HeatMap {
        title: format!("{}: {title}, N = {}, S = {}", region.name, region.devices, region.max_splits),
        x_label: "link, MB/s".to_owned(),
        y_label: "device, GFLOP/s".to_owned(),
        xs: mega(&links, 1e6),
        ys: mega(&rates, 1e9),
        values: (0..rates.len()).map(row).collect(),
        unit: unit.to_owned(),
        lines: lines.collect(),
    }
}
