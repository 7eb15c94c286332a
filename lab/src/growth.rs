//! How time, memory and quality under `latency` grow with the number of ops: our own table.

use divvy_core::generate::{RwnnOptions, Wiring};

use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, percent, seconds};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, LineChart, Series};

pub(crate) struct Growth;

/// Modules of each network; a module has some 12 ops.
const MODULES: [u32; 6] = [8, 25, 80, 250, 800, 2500];

fn instance(modules: u32) -> Instance {
    Instance::Rwnn(RwnnOptions { modules, channels: 2, wiring: Wiring::Wdep, ..RwnnOptions::default() })
}

fn cell(modules: u32, planner: &'static str, settings: &Settings) -> Cell {
    Cell { instance: instance(modules), work: Work::Plan(planner), limit: settings.limit(10, 60) }
}

impl Experiment for Growth {
    fn name(&self) -> &'static str {
        "latency-growth"
    }

    fn paper(&self) -> &'static str {
        "Ours, no paper"
    }

    fn about(&self) -> &'static str {
        "Randomly wired networks of 100 to 30 000 ops: time, memory, value and gap of auto beside HEFT"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "2 min",
            Mode::Full => "8 min",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let planners = |modules| ["heft", "auto"].map(|planner| cell(modules, planner, settings));
        MODULES.into_iter().flat_map(planners).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Values in ms, times in seconds, the reading of the problem included; peak memory of the whole program.",
            &[
                "ops",
                "HEFT",
                "HEFT took",
                "HEFT, peak MB",
                "auto",
                "under HEFT",
                "under HEFT's value after",
                "gap",
                "auto, peak MB",
            ],
        );
        let mut notes = Notes::default();
        for modules in MODULES {
            let heft = results.of(&cell(modules, "heft", settings));
            let auto = results.of(&cell(modules, "auto", settings));
            let values = heft.and_then(|f| f.value_ps).zip(auto.and_then(|f| f.value_ps));
            let under = values.map(|(heft, auto)| (heft as f64 - auto as f64) / heft as f64);
            let sooner = auto.zip(values).and_then(|(auto, (heft, _))| auto.seconds_to(heft - 1));
            let peak = |figures: Option<&Figures>| {
                let bytes = figures.and_then(|figures| figures.peak_bytes);
                bytes.map_or("–".to_owned(), |bytes| format!("{}", bytes / 1_000_000))
            };
            table.row(vec![
                heft.or(auto).map_or("–".to_owned(), |figures| figures.ops.to_string()),
                notes.milliseconds(heft, |f| f.value_ps),
                seconds(heft.map(|figures| figures.seconds)),
                peak(heft),
                notes.milliseconds(auto, |f| f.value_ps),
                percent(under),
                seconds(sooner),
                percent(auto.and_then(Figures::gap)),
                peak(auto),
            ]);
        }
        let mut differs = vec![
            "Networks as `divvy generate rwnn` makes them: ER(0.2) modules of 10 nodes, wdep, 2 channels, three unlike \
             devices."
                .to_owned(),
            "Peak memory is the whole program's, with what experiments before this one left behind: run it by itself."
                .to_owned(),
            "Past some thousand ops `auto` searches in windows only, so that its bound stays that of areas and chains."
                .to_owned(),
        ];
        differs.extend(notes.lines());
        let limit = settings.limit(10, 60);
        let runs: Vec<(f64, &Figures)> = MODULES
            .iter()
            .filter_map(|&modules| results.of(&cell(modules, "auto", settings)))
            .map(|figures| (figures.ops as f64, figures))
            .collect();
        let of = |figure: fn(&Figures) -> Option<f64>| {
            runs.iter().filter_map(move |&(ops, figures)| Some((ops, figure(figures)?)))
        };
        let under = MODULES.iter().filter_map(|&modules| {
            let [heft, auto] = ["heft", "auto"].map(|planner| results.of(&cell(modules, planner, settings)));
            let (heft, auto) = (heft?.value_ps? as f64, auto?);
            Some((auto.ops as f64, (heft - auto.value_ps? as f64) / heft * 100.0))
        });
        let chart =
            LineChart::new("Quality against the number of ops", Axis::log("ops"), Axis::from_zero("%"))
                .with(Series::new("gap of auto", of(|figures| Some(figures.gap()? * 100.0))))
                .with(Series::new("auto under HEFT", under));
        let pictures =
            vec![Picture::new("quality", "Gap of `auto`, and how far it is under HEFT.", chart.svg())];
        Page { tables: vec![table], pictures, limits: format!("{limit:?} a run"), differs }
    }
}
