//! The experiments of DiviML (Ghannane, Abdelfattah: "DiviML: A Module-based Heuristic for Mapping Neural Networks
//! onto Heterogeneous Platforms", ICCAD 2023, <https://arxiv.org/abs/2308.00127>).
//!
//! Here: the methods of its section V-A by our names, and what all its pages have to say about instances and solver.

pub(crate) mod fig3;
pub(crate) mod fig4;
pub(crate) mod table1;
pub(crate) mod table2;
pub(crate) mod table3;
pub(crate) mod table5;
pub(crate) mod throughput;

use std::time::Duration;

use divvy_core::generate::{RwnnOptions, Wiring};

use crate::cells::{Cell, Work};
use crate::charts::quality_over_time;
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, percent};
use crate::{Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart, LineChart};

/// The planners of the paper's columns, by the paper's name and ours.
const METHODS: [(&str, &str); 8] = [
    ("best device", "one-device"),
    ("MET", "met"),
    ("Greedy", "greedy"),
    ("HEFT", "heft"),
    ("(1+1) EA", "ea"),
    ("SA", "annealing"),
    ("MILP", "milp"),
    ("MILP-SPLIT", "milp-split"),
];

/// The limit of a planner: the paper lets MILP run for two hours and everything else for ten minutes.
fn limit(settings: &Settings, planner: &str) -> Duration {
    let full = if planner == "milp" { 7200 } else { 600 };
    settings.limit(3, full)
}

fn limits(settings: &Settings) -> String {
    match (settings.time, settings.mode) {
        (Some(time), _) => format!("{time:?} a run"),
        (None, Mode::Quick) => "3 s a run".to_owned(),
        (None, Mode::Full) => "2 h for MILP, 10 min for every other run, as in the paper".to_owned(),
    }
}

fn plan(instance: &Instance, planner: &'static str, settings: &Settings) -> Cell {
    let limit = limit(settings, planner);
    Cell { instance: instance.clone(), work: Work::Plan(planner), limit }
}

fn lbound(instance: &Instance, settings: &Settings) -> Cell {
    let limit = limit(settings, "lbound");
    Cell { instance: instance.clone(), work: Work::Bound("lbound"), limit }
}

/// All methods and `auto` on an instance.
fn every_method(instance: &Instance, settings: &Settings) -> Vec<Cell> {
    let names = METHODS.iter().map(|&(_, name)| name).chain(["auto"]);
    names.map(|name| plan(instance, name, settings)).collect()
}

/// The fields of [`every_method`] in milliseconds, then `auto`'s bound and gap.
fn every_field(
    instance: &Instance,
    settings: &Settings,
    results: &Results,
    notes: &mut Notes,
) -> Vec<String> {
    let mut fields: Vec<String> = every_method(instance, settings)
        .iter()
        .map(|cell| notes.milliseconds(results.of(cell), |figures| figures.value_ps))
        .collect();
    let auto = results.of(&plan(instance, "auto", settings));
    fields.push(notes.milliseconds(auto, |figures| figures.bound_ps));
    fields.push(percent(auto.and_then(Figures::gap)));
    fields
}

/// The heads of [`every_field`].
fn every_head() -> Vec<&'static str> {
    let columns = METHODS.iter().map(|&(column, _)| column);
    columns.chain(["auto", "bound of auto", "gap of auto"]).collect()
}

/// Bars of every method and `auto` on each of some networks, from what one run gave.
fn method_bars(
    title: &str,
    axis: Axis,
    networks: impl Iterator<Item = (String, Instance)>,
    settings: &Settings,
    results: &Results,
    figure: fn(&[Option<f64>], usize) -> Option<f64>,
) -> BarChart {
    let names: Vec<&str> = METHODS.iter().map(|&(column, _)| column).chain(["auto"]).collect();
    let mut chart = BarChart::new(title, axis, &names);
    for (name, instance) in networks {
        let milliseconds: Vec<Option<f64>> = every_method(&instance, settings)
            .iter()
            .map(|cell| Some(results.of(cell)?.value_ps? as f64 / 1e9))
            .collect();
        chart.group(&name, (0..milliseconds.len()).map(|i| figure(&milliseconds, i)).collect());
    }
    chart
}

/// The best value so far over time of the methods that search, on one instance.
fn search_over_time(title: &str, instance: &Instance, settings: &Settings, results: &Results) -> LineChart {
    let methods = [("(1+1) EA", "ea"), ("SA", "annealing"), ("MILP", "milp"), ("MILP-SPLIT", "milp-split")];
    let runs: Vec<(&str, Option<&Figures>, bool)> = [("auto", "auto")]
        .into_iter()
        .chain(methods)
        .map(|(name, planner)| (name, results.of(&plan(instance, planner, settings)), planner == "auto"))
        .collect();
    quality_over_time(title, &runs)
}

/// Networks of modules of ten ops each, ER(0.2), as the paper stacks them.
fn stacked(wiring: Wiring, channels: u32, modules: u32) -> Instance {
    Instance::Rwnn(RwnnOptions { wiring, channels, modules, ..RwnnOptions::default() })
}

/// What holds for every page with randomly wired networks.
fn rwnn_differs() -> Vec<String> {
    vec![
        "Instances: the paper's were never released. Ours are `divvy generate rwnn` with seed 1: the same random models, \
         sizes and wirings as far as the text tells, with op times drawn after the pattern of profiled vision networks and \
         links of 1 GB/s. Values are therefore not comparable one to one; the order of the methods is."
            .to_owned(),
        "Devices: theirs are a Xeon, a T4 and an A100 on PCIe 4.0, timed; ours are three devices of the same names with \
         drawn times."
            .to_owned(),
        "Wirings: the paper's `sdep` and `wdep` can be read in several ways. Ours: with `sdep` a module has one source and one \
         sink, and channels lead from the sink and from inner ops to the next source and its inner ops, paired by chance; \
         with `wdep` it has as many inputs and outputs as channels, joined one to one."
            .to_owned(),
        solver_differs(),
    ]
}

/// What the programs for batches begin with.
fn milp_begins() -> String {
    "MILP and MILP-SPLIT begin with bHEFT's plan: where they show its figure, HiGHS found nothing better in the time."
        .to_owned()
}

fn solver_differs() -> String {
    "Solver: theirs is not named; ours is HiGHS, which is open source. Limits and machine are below, and decide what MILP \
     and MILP-SPLIT reach. SA and (1+1) EA use all their time."
        .to_owned()
}
