//! Table III: how long MILP and MILP-SPLIT take to reach their best, for 5, 10 and 20 modules.

use divvy_core::generate::Wiring;

use super::{limits, plan, rwnn_differs, stacked};
use crate::cells::Cell;
use crate::charts::quality_over_time;
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, factor, seconds};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart, LineChart};

pub(crate) struct Table3;

/// The paper's rows: modules, wiring, seconds of MILP and of MILP-SPLIT.
const ROWS: [(u32, Wiring, f64, f64); 6] = [
    (5, Wiring::Sdep, 82.69, 2.26),
    (10, Wiring::Sdep, 232.24, 4.83),
    (20, Wiring::Sdep, 1907.12, 13.49),
    (5, Wiring::Wdep, 129.08, 2.45),
    (10, Wiring::Wdep, 271.66, 5.00),
    (20, Wiring::Wdep, 5850.37, 14.81),
];

const PLANNERS: [&str; 3] = ["milp", "milp-split", "auto"];

/// The paper does not say how many channels; with one, nothing would differ between the wirings.
const CHANNELS: u32 = 2;

fn instance(modules: u32, wiring: Wiring) -> Instance {
    stacked(wiring, CHANNELS, modules)
}

/// How the methods came to their values on the largest network.
fn search(settings: &Settings, results: &Results) -> LineChart {
    let (modules, wiring, ..) = ROWS[ROWS.len() - 1];
    let runs = [("auto", "auto"), ("MILP", "milp"), ("MILP-SPLIT", "milp-split")].map(|(name, planner)| {
        (name, results.of(&plan(&instance(modules, wiring), planner, settings)), planner == "auto")
    });
    let title = format!("{} {CHANNELS}, {modules} modules: best latency so far", wiring.name());
    quality_over_time(&title, &runs)
}

impl Experiment for Table3 {
    fn name(&self) -> &'static str {
        "diviml-table-3"
    }

    fn paper(&self) -> &'static str {
        "DiviML, Table III"
    }

    fn about(&self) -> &'static str {
        "Time of MILP and MILP-SPLIT to reach their best, for 5, 10 and 20 modules"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "1 min",
            Mode::Full => "14 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let row = |&(modules, wiring, ..): &(u32, Wiring, f64, f64)| {
            PLANNERS.map(|planner| plan(&instance(modules, wiring), planner, settings))
        };
        ROWS.iter().flat_map(row).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut times = Table::new(
            "Time until each method reached its own best value, and the factor between them; then the time until `auto` had a \
             plan at least as good as the best of MILP-SPLIT.",
            &[
                "network",
                "MILP, paper",
                "SPLIT, paper",
                "factor, paper",
                "MILP",
                "SPLIT",
                "factor",
                "auto as good as SPLIT",
                "SPLIT / auto",
            ],
        );
        let mut values = Table::new(
            "What was reached, in ms: a method that stops early with a bad plan looks fast above.",
            &["network", "MILP", "MILP-SPLIT", "auto", "bound of auto"],
        );
        let mut bars = BarChart::new(
            "Time to reach the best plan",
            Axis::log("seconds"),
            &["MILP, paper", "MILP-SPLIT, paper", "MILP", "MILP-SPLIT", "auto"],
        );
        let mut notes = Notes::default();
        for (modules, wiring, milp_paper, split_paper) in ROWS {
            let network = format!("{} {CHANNELS}, {modules} modules", wiring.name());
            let figures =
                PLANNERS.map(|planner| results.of(&plan(&instance(modules, wiring), planner, settings)));
            let [milp, split, _] = figures.map(|figures| figures.and_then(Figures::seconds_to_best));
            let as_good = figures[1].and_then(|split| figures[2]?.seconds_to(split.value_ps?));
            times.row(vec![
                network.clone(),
                seconds(Some(milp_paper)),
                seconds(Some(split_paper)),
                factor(Some(milp_paper / split_paper)),
                seconds(milp),
                seconds(split),
                factor(milp.zip(split).map(|(milp, split)| milp / split)),
                seconds(as_good),
                factor(split.zip(as_good).map(|(split, auto)| split / auto)),
            ]);
            let milp_as_good = figures[1].and_then(|split| figures[0]?.seconds_to(split.value_ps?));
            bars.group(&network, vec![Some(milp_paper), Some(split_paper), milp_as_good, split, as_good]);
            let mut row = vec![network];
            row.extend(figures.map(|figures| notes.milliseconds(figures, |figures| figures.value_ps)));
            row.push(notes.milliseconds(figures[2], |figures| figures.bound_ps));
            values.row(row);
        }
        let mut differs = rwnn_differs();
        differs.push(format!(
            "Channels: the paper does not say how many; ours are {CHANNELS}. It does not say either whether its times are means."
        ));
        differs.push(
            "A time is when the last improvement came. Where the limit ended a run, its best is the best within the limit, and \
             its time is at most the limit: in quick mode MILP's is cut short, and the factor with it. Without a time: it never \
             got there. Both start from HEFT's plan, so a time of milliseconds means that nothing better was found."
                .to_owned(),
        );
        differs.extend(notes.lines());
        let pictures = vec![
            Picture::new(
                "times",
                "The paper: time until each method reached its own best value. Ours: time until each had a plan as good as the \
                 best of MILP-SPLIT; one without a bar never had.",
                bars.svg(),
            ),
            Picture::new(
                "search",
                "Value over time on the largest network.",
                search(settings, results).svg(),
            ),
        ];
        Page { tables: vec![times, values], pictures, limits: limits(settings), differs }
    }
}
