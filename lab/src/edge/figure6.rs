//! Figure 6: throughput and effort over link and processing rate, and the three boundaries.

use super::{MEGA, SMALLEST_CUT_PER_WORK, cell, is_optimal, limits, quick, remarks, speedup};
use crate::cells::Cell;
use crate::figures::Figures;
use crate::markdown::{Page, Picture, Table, factor, seconds};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, LineChart, Series};

pub(crate) struct Figure6;

/// Throughput at a ratio θ/η is in proportion to η, and effort is the same: one device rate is enough.
const RATE: u64 = 100_000 * MEGA;
const DEVICES: usize = 4;
const SPLITS: u32 = 3;
/// Ratios θ/η for each power of ten, from 1e-5 to 10.
const PER_DECADE: i32 = 4;
/// A ratio at which links are no matter any more.
const FAST: f64 = 0.5;
const PLANNERS: [&str; 2] = ["auto", "branch-and-bound"];
/// The paper's boundaries: improvement, optimal partitioning, most effort.
const PAPER: [f64; 3] = [1.64e-3, 9.52e-3, 0.168];

fn ratios() -> Vec<f64> {
    (0..=6 * PER_DECADE).map(|step| 10f64.powf(-5.0 + f64::from(step) / f64::from(PER_DECADE))).collect()
}

fn at(ratio: f64, planner: &'static str, settings: &Settings) -> Cell {
    within(Some(SPLITS), ratio, planner, settings)
}

fn within(splits: Option<u32>, ratio: f64, planner: &'static str, settings: &Settings) -> Cell {
    let link = (ratio * RATE as f64).round() as u64;
    cell(vec![RATE; DEVICES], link, splits, planner, settings)
}

/// Both searches side by side where links are as fast as the devices can make use of: there is most to search.
fn side_by_side(settings: &Settings, results: &Results) -> Table {
    let mut table = Table::new(
        &format!(
            "The paper's algorithm beside ours, in one run, at a ratio of {FAST}; * marks runs that the limit ended."
        ),
        &["splits", "its seconds", "seconds of auto", "sooner", "same value"],
    );
    for splits in [Some(SPLITS), None] {
        let [auto, its] = PLANNERS.map(|planner| results.of(&within(splits, FAST, planner, settings)));
        let ended = if is_optimal(its) { "" } else { " *" };
        let time = |figures: Option<&Figures>| seconds(figures.map(|figures| figures.seconds));
        let sooner = Option::zip(its, auto).map(|(its, auto)| its.seconds / auto.seconds);
        let is_same = its.and_then(|f| f.value_ps) == auto.and_then(|f| f.value_ps);
        table.row(vec![
            splits.map_or("unlimited".to_owned(), |most| format!("S = {most}")),
            format!("{}{ended}", time(its)),
            time(auto),
            factor(sooner),
            if is_same { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

impl Experiment for Figure6 {
    fn name(&self) -> &'static str {
        "edge-figure-6"
    }

    fn paper(&self) -> &'static str {
        "DNN Partitioning for Inference Throughput Acceleration at the Edge, Figure 6"
    }

    fn about(&self) -> &'static str {
        "YOLOv2 on 4 equal devices with 3 splits over the ratio of link to processing rate: gain, effort, boundaries"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        quick(mode, "3 min", "5 min")
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let both = |ratio| PLANNERS.map(|planner| at(ratio, planner, settings));
        let all = ratios().into_iter().flat_map(both);
        let fast = [Some(SPLITS), None];
        let fast =
            fast.iter().flat_map(|&splits| PLANNERS.map(|planner| within(splits, FAST, planner, settings)));
        all.chain(fast).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut gains = Vec::new();
        let (mut own, mut lists) = (Vec::new(), Vec::new());
        for ratio in ratios() {
            let (auto, its) = (at(ratio, "auto", settings), at(ratio, "branch-and-bound", settings));
            gains.extend(speedup(results.of(&auto)).map(|gain| (ratio, gain)));
            own.extend(results.of(&auto).map(|figures| (ratio, figures.nodes as f64)));
            lists.extend(results.of(&its).map(|figures| (ratio, figures.nodes as f64)));
        }
        let first = |points: &[(f64, f64)], is: &dyn Fn(f64) -> bool| {
            points
                .iter()
                .find(|point| is(point.1))
                .map_or("–".to_owned(), |point| format!("{:.2e}", point.0))
        };
        let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
        let (best, longest) = (most(&gains), most(&lists));
        let mut table = Table::new(
            "Boundaries, in bytes per second of link for each operation per second of a device; ours lie on the first ratio \
             of the grid past the boundary (four for each power of ten).",
            &["boundary", "paper", "seen here"],
        );
        let seen = [
            first(&gains, &|gain| gain > 1.0),
            first(&gains, &|gain| gain >= best * (1.0 - 1e-9)),
            first(&lists, &|lists| lists >= 0.999 * longest),
        ];
        let names = ["splitting helps", "faster links no longer help", "most lists of branch-and-bound"];
        for ((name, paper), seen) in names.into_iter().zip(PAPER).zip(seen) {
            table.row(vec![name.to_owned(), format!("{paper:.2e}"), seen]);
        }
        let mut most_lists = Table::new("Most effort.", &["", "paper", "here"]);
        let shown = |count: f64| if count > 0.0 { format!("{count:.0}") } else { "–".to_owned() };
        most_lists.row(vec!["lists of branch-and-bound".into(), "1.7e5".into(), shown(longest)]);
        most_lists.row(vec!["placements of auto".into(), "–".into(), shown(most(&own))]);
        let mut differs = vec![
            "All times are in proportion to 1/η at a fixed θ/η, so that one line of ratios stands for the whole plane; \
             `divvy region` draws the plane."
                .to_owned(),
            format!(
                "Equation 10 with the smallest cut gives {SMALLEST_CUT_PER_WORK:.2e}, by construction of the scaled network. Where \
                 the other two lie depends on sizes of layers that the paper does not give."
            ),
            "The paper's queue holds lists that begin on its first device; ours counts lists that begin on any, and prunes by \
             work as well as by transfers."
                .to_owned(),
        ];
        differs.extend(remarks(self.cells(settings).iter().map(|cell| results.of(cell))));
        let gain = LineChart::new(
            "Throughput over one device",
            Axis::log("link over processing rate, B/FLOP"),
            Axis::from_zero("times"),
        )
        .with(Series::new("auto, 4 devices, 3 splits", gains.clone()));
        let effort = LineChart::new(
            "Effort",
            Axis::log("link over processing rate, B/FLOP"),
            Axis::log("placements or lists"),
        )
        .with(Series::new("placements of auto", own))
        .with(Series::new("lists of branch-and-bound", lists));
        let pictures = vec![
            Picture::new("throughput", "Throughput over that of one device.", gain.svg()),
            Picture::new("effort", "Effort of both searches.", effort.svg()),
        ];
        Page {
            tables: vec![table, most_lists, side_by_side(settings, results)],
            pictures,
            limits: limits(settings),
            differs,
        }
    }
}
