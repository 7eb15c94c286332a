//! How time, memory and quality under `pipeline` grow with the number of ops: our own table.

use divvy_core::generate::{RegalFamily, RegalOptions};

use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, percent, seconds};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, LineChart, Series};

pub(crate) struct PipelineGrowth;

/// Ops of each graph.
const SIZES: [u32; 7] = [100, 316, 1000, 3162, 10_000, 31_623, 100_000];
const STAGES: u32 = 16;
/// Ours, then one order sliced: the least that a plan takes.
const PLANNERS: [&str; 2] = ["auto", "random-1"];

fn cell(nodes: u32, planner: &'static str, settings: &Settings) -> Cell {
    let options = RegalOptions { family: RegalFamily::Layered, nodes, seed: 1 };
    Cell {
        instance: Instance::Regal(options, STAGES),
        work: Work::Plan(planner),
        limit: settings.limit(10, 60),
    }
}

impl Experiment for PipelineGrowth {
    fn name(&self) -> &'static str {
        "pipeline-growth"
    }

    fn paper(&self) -> &'static str {
        "Ours, no paper"
    }

    fn about(&self) -> &'static str {
        "Layered graphs of 100 to 100 000 ops in 16 pipeline stages: time, memory, value and gap of auto"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "3 min",
            Mode::Full => "12 min",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let planners = |nodes| PLANNERS.map(|planner| cell(nodes, planner, settings));
        SIZES.into_iter().flat_map(planners).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Values in ms, times in seconds, the reading of the problem included; peak memory of the whole program.",
            &[
                "ops",
                "random-1",
                "random-1 took",
                "auto",
                "under random-1",
                "first plan after",
                "best plan after",
                "bound",
                "proved",
                "gap",
                "auto took",
                "auto, peak MB",
            ],
        );
        let mut notes = Notes::default();
        for nodes in SIZES {
            let [auto, random] = PLANNERS.map(|planner| results.of(&cell(nodes, planner, settings)));
            let values = random.and_then(|f| f.value_ps).zip(auto.and_then(|f| f.value_ps));
            let under = values.map(|(random, auto)| (random as f64 - auto as f64) / random as f64);
            let peak = auto.and_then(|figures| figures.peak_bytes);
            table.row(vec![
                nodes.to_string(),
                notes.milliseconds(random, |f| f.value_ps),
                seconds(random.map(|figures| figures.seconds)),
                notes.milliseconds(auto, |f| f.value_ps),
                percent(under),
                seconds(auto.and_then(|figures| figures.seconds_to(u64::MAX))),
                seconds(auto.and_then(Figures::seconds_to_best)),
                notes.milliseconds(auto, |f| f.bound_ps),
                notes.milliseconds(auto, |f| f.verified_ps),
                percent(auto.and_then(Figures::gap)),
                seconds(auto.map(|figures| figures.seconds)),
                peak.map_or("–".to_owned(), |bytes| format!("{}", bytes / 1_000_000)),
            ]);
        }
        let of = |pick: fn(&Figures) -> Option<f64>| {
            let run = |&nodes: &u32| results.of(&cell(nodes, "auto", settings)).and_then(pick);
            SIZES.iter().filter_map(move |nodes| Some((f64::from(*nodes), run(nodes)?))).collect::<Vec<_>>()
        };
        let chart =
            LineChart::new("Growth with the number of ops", Axis::log("ops"), Axis::log("seconds, MB"))
                .with(Series::new("auto took, s", of(|figures| Some(figures.seconds))))
                .with(Series::new("peak MB", of(|figures| Some(figures.peak_bytes? as f64 / 1e6))));
        let pictures = vec![Picture::new("growth", "Time and memory of `auto`.", chart.svg())];
        let mut differs = vec![
            "Layered graphs as `divvy generate regal --family layered` makes them: an op's work grows with the number of ops, \
             so values are not to be compared between rows."
                .to_owned(),
            "Peak memory is the whole program's, with what experiments before this one left behind: run it by itself."
                .to_owned(),
        ];
        differs.extend(notes.lines());
        let limit = settings.limit(10, 60);
        Page { tables: vec![table], pictures, limits: format!("{limit:?} a run"), differs }
    }
}
