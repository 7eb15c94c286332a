//! The papers' tables and figures, run again: ours beside theirs, and what differs.
//!
//! An [`Experiment`] names the runs it needs ([`Cell`]s) and makes a page of tables out of their results. [`reproduce()`]
//! runs the cells that are not stored yet, stores each as soon as it is done, and so goes on where it was stopped. To
//! add an experiment, write one file and one line in [`EXPERIMENTS`].

mod batch_growth;
mod cells;
mod charts;
mod diviml;
mod edge;
mod figures;
mod growth;
mod instances;
mod markdown;
mod models;
mod mtpp;
mod pipeline_growth;
mod real_models;
mod reproduce;
mod sortinghat;
mod store;

use std::path::Path;
use std::time::{Duration, Instant};

pub use crate::edge::unlike_networks::{Interconnect, UnlikeDevices};
pub use crate::figures::{Figures, LaneUse, Moment};
pub use cells::{Cell, Work};
pub use instances::{ClusterNetwork, EdgeNetwork, Instance};
pub use markdown::{Page, Picture, Table};
pub use reproduce::{Environment, Event, Report, Stopped, reproduce, results_index};
pub use store::Results;

use models::Model;

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Short limits: some minutes for everything.
    Quick,
    /// The limits of the papers, as far as they are known: hours.
    Full,
}

impl Mode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Full => "full",
        }
    }
}

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much to run.
    pub mode: Mode,
    /// The limit of every run, in place of the experiments' own.
    pub time: Option<Duration>,
    /// The time for everything, and when it began: later no run begins, and pages say what is missing.
    pub within: Option<(Instant, Duration)>,
    models: Vec<Model>,
    /// Whether the user named a folder of further models.
    with_workloads: bool,
}

impl Settings {
    /// Settings with the models of the folder of bundled ones, and of another folder if one is named. Reads them all, once.
    pub fn new(mode: Mode, time: Option<Duration>, bundled: &Path, workloads: Option<&Path>) -> Settings {
        Settings {
            mode,
            time,
            within: None,
            models: models::models(bundled, workloads),
            with_workloads: workloads.is_some(),
        }
    }

    /// The same, with so much time for everything from now on.
    #[must_use]
    pub fn within(self, time: Option<Duration>) -> Settings {
        Settings { within: time.map(|time| (Instant::now(), time)), ..self }
    }

    /// Whether the time for everything is over.
    fn is_over(&self) -> bool {
        self.within.is_some_and(|(start, time)| start.elapsed() >= time)
    }

    /// The limit of a run: the user's, else what the mode says.
    fn limit(&self, quick_seconds: u64, full_seconds: u64) -> Duration {
        self.time.unwrap_or(match self.mode {
            Mode::Quick => Duration::from_secs(quick_seconds),
            Mode::Full => Duration::from_secs(full_seconds),
        })
    }
}

/// A table or figure that can be run again.
pub trait Experiment: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// The paper and the number in it.
    fn paper(&self) -> &'static str;
    /// What it shows, in a line.
    fn about(&self) -> &'static str;
    /// Roughly how long it takes in a mode, without a folder of further models.
    fn duration(&self, mode: Mode) -> &'static str;
    /// The runs it needs.
    fn cells(&self, settings: &Settings) -> Vec<Cell>;
    /// The experiment under whose name the results are kept: another one where both show the same runs.
    fn shares_cells_of(&self) -> &'static str {
        self.name()
    }
    /// The page that shows their results. A run without a result is shown as missing.
    fn page(&self, settings: &Settings, results: &Results) -> Page;
}

/// Every experiment, paper by paper, in the paper's order; then our own.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &diviml::table1::Table1,
    &diviml::table2::Table2,
    &diviml::table3::Table3,
    &diviml::fig3::Figure3,
    &diviml::fig4::Figure4,
    &diviml::throughput::TABLE_4,
    &diviml::table5::Table5,
    &diviml::throughput::FIGURE_5,
    &diviml::throughput::FIGURE_6,
    &diviml::throughput::FIGURE_7,
    &mtpp::table2::Table2,
    &mtpp::table3::Table3,
    &mtpp::figures::FIGURE_4,
    &mtpp::figures::FIGURE_5,
    &edge::figure5::Figure5,
    &edge::figure6::Figure6,
    &edge::table2::Table2,
    &edge::figure8::Figure8,
    &sortinghat::Figure1,
    &sortinghat::topology::Figure4,
    &sortinghat::Figure9,
    &sortinghat::topology::Figure10,
    &sortinghat::ablations::Ablations,
    &real_models::RealModels,
    &edge::unlike::Unlike,
    &growth::Growth,
    &batch_growth::BatchGrowth,
    &pipeline_growth::PipelineGrowth,
];

/// The experiment of a name.
pub fn experiment(name: &str) -> Option<&'static dyn Experiment> {
    EXPERIMENTS.iter().copied().find(|experiment| experiment.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn settings(mode: Mode) -> Settings {
        let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
        Settings::new(mode, None, &bundled, None)
    }

    #[test]
    fn names_find_their_experiments() {
        for one in EXPERIMENTS {
            assert_eq!(experiment(one.name()).map(Experiment::about), Some(one.about()));
        }
        assert!(experiment("no-such").is_none());
    }

    #[test]
    fn every_cell_is_its_own_and_every_instance_can_be_had() {
        for one in EXPERIMENTS {
            let cells = one.cells(&settings(Mode::Quick));
            let keys: HashSet<String> = cells.iter().map(Cell::key).collect();
            assert!(!cells.is_empty() && keys.len() == cells.len(), "{}", one.name());
            let full: HashSet<String> = one.cells(&settings(Mode::Full)).iter().map(Cell::key).collect();
            assert_eq!(full.len(), keys.len(), "{}", one.name());
            let mut seen = Vec::new();
            for cell in cells {
                if !seen.contains(&cell.instance) {
                    cell.instance.problem().unwrap_or_else(|fault| panic!("{}: {fault}", cell.label()));
                    seen.push(cell.instance);
                }
            }
        }
    }

    #[test]
    fn without_results_a_page_is_whole_and_says_that_nothing_was_run() {
        for one in EXPERIMENTS {
            let page = one.page(&settings(Mode::Quick), &Results::default());
            assert!(page.tables.iter().all(|table| !table.rows.is_empty()), "{}", one.name());
            let names: HashSet<&String> = page.pictures.iter().map(|picture| &picture.name).collect();
            assert_eq!(names.len(), page.pictures.len(), "{}", one.name());
            assert!(page.differs.iter().any(|line| line.ends_with("not run yet.")), "{}", one.name());
        }
    }
}
