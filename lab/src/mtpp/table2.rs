//! Table 2: searches over orders, each order sliced optimally, relative to the simple bound.

use super::{
    Group, Network, STAGES, THREE_STAGES, cell, head, limits, mean, paper_row, real_group,
    real_models_differ, regal_groups,
};
use crate::cells::{Cell, Work};
use crate::charts::against_stages;
use crate::figures::Figures;
use crate::markdown::{Notes, Page, Picture, Table};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct Table2;

/// The paper's rows: value over simple bound, by number of stages.
const PAPER: [(&str, [f64; 6]); 7] = [
    ("mla", [1.216, 1.538, 1.950, 2.224, 2.304, 2.326]),
    ("mla-weighted", [1.206, 1.516, 1.920, 2.182, 2.258, 2.283]),
    ("random-1", [1.220, 1.551, 1.959, 2.230, 2.309, 2.333]),
    ("random-100", [1.201, 1.512, 1.916, 2.179, 2.258, 2.282]),
    ("random-10000", [1.199, 1.509, 1.911, 2.176, 2.256, 2.281]),
    ("brkga-100", [1.201, 1.516, 1.919, 2.184, 2.263, 2.288]),
    ("brkga-10000", [1.199, 1.509, 1.910, 2.175, 2.255, 2.272]),
];
/// The search that all are compared with.
const PAPERS_BEST: &str = "brkga-10000";
const OURS: &str = "auto";

fn search(network: &Network, stages: u32, planner: &'static str, settings: &Settings) -> Cell {
    cell(network, stages, Work::PlanWith(planner, "simple"), settings)
}

fn groups(settings: &Settings) -> Vec<(Group, &'static [u32])> {
    let regal = regal_groups().into_iter().map(|group| (group, &STAGES[..]));
    regal.chain([(real_group(settings), &THREE_STAGES[..])]).collect()
}

fn planners() -> impl Iterator<Item = &'static str> {
    PAPER.into_iter().map(|(name, _)| name).chain([OURS])
}

/// Value over simple bound.
fn ratio(figures: &Figures) -> Option<f64> {
    Some(figures.value_ps? as f64 / figures.bound_ps? as f64)
}

impl Experiment for Table2 {
    fn name(&self) -> &'static str {
        "mtpp-table-2"
    }

    fn paper(&self) -> &'static str {
        "Practical Performance Guarantees for Pipelined DNN Inference, Table 2"
    }

    fn about(&self) -> &'static str {
        "Pipeline stages by search: random orders, BRKGA and linear arrangements beside auto, relative to the simple bound"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "7 min",
            Mode::Full => "1 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (group, stages) in groups(settings) {
            for network in &group.networks {
                for &k in stages {
                    cells.extend(planners().map(|planner| search(network, k, planner, settings)));
                }
            }
        }
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut tables = Vec::new();
        let mut pictures = Vec::new();
        let mut notes = Notes::default();
        for (i, (group, stages)) in groups(settings).into_iter().enumerate() {
            let caption = format!(
                "Geometric means of value / simple bound, {} ({}).",
                group.name,
                group.networks.len()
            );
            let mut table = Table { caption, head: head("search", stages), rows: Vec::new() };
            for planner in planners() {
                let mut row = vec![planner.to_owned()];
                for &k in stages {
                    let of = |network: &Network| {
                        results.of(&search(network, k, planner, settings)).and_then(ratio)
                    };
                    row.push(mean(&group, &mut notes, of));
                }
                table.row(row);
            }
            let title = format!("Value / simple bound, {}", group.name);
            let chart = against_stages(&title, "geometric mean", &table, stages);
            let caption = format!("What each search reaches against the number of stages, {}.", group.name);
            pictures.push(Picture::new(&format!("values-{}", i + 1), &caption, chart.svg()));
            // How much of the difference is a matter of time alone.
            let mut row = vec![format!("auto, in the time of {PAPERS_BEST}")];
            let mut under = vec![format!("auto / {PAPERS_BEST}")];
            for &k in stages {
                let both = |network: &Network| {
                    let auto = results.of(&search(network, k, OURS, settings))?;
                    Some((auto, results.of(&search(network, k, PAPERS_BEST, settings))?))
                };
                let in_its_time = |network: &Network| {
                    let (auto, theirs) = both(network)?;
                    Some(auto.value_after(theirs.seconds)? as f64 / auto.bound_ps? as f64)
                };
                let beside = |network: &Network| {
                    let (auto, theirs) = both(network)?;
                    Some(auto.value_ps? as f64 / theirs.value_ps? as f64)
                };
                row.push(mean(&group, &mut notes, in_its_time));
                under.push(mean(&group, &mut notes, beside));
            }
            table.row(row);
            table.row(under);
            tables.push(table);
        }
        let caption = "The paper's Table 2: the same on its 369 production models.".to_owned();
        let mut table = Table { caption, head: head("search", &STAGES), rows: Vec::new() };
        PAPER.into_iter().for_each(|(name, figures)| table.row(paper_row(name, figures)));
        tables.push(table);
        let mut differs = vec![
            "The paper's models are not public: its figures are for other networks, so the order of the rows is what compares, \
             not the ratios."
                .to_owned(),
            "The paper gives its searches a number of evaluations and no limit; here the limit holds for all, and a search \
             ends sooner when it has had its evaluations. `auto` uses all of the limit for its search; its only bound is \
             `simple`."
                .to_owned(),
            real_models_differ(),
        ];
        differs.extend(notes.lines());
        Page { tables, pictures, limits: limits(settings), differs }
    }
}
