//! Table 2 and Figure 7: four set-ups of two equal devices, one in each region.

use super::{MEGA, SMALLEST_CUT_PER_WORK, cell, limits, quick, remarks, shown, speedup, throughput};
use crate::cells::Cell;
use crate::markdown::{Page, Table, factor};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct Table2;

/// Name, operations per second, bytes per second, the paper's ratio and seconds, and its region.
const SETUPS: [(&str, u64, u64, f64, f64, &str); 4] = [
    ("1: Pascal GPU, Wi-Fi", 30_700 * MEGA, 10 * MEGA, 3.26e-4, 0.004, "no help"),
    ("2: ARM A57, Wi-Fi", 1570 * MEGA, 10 * MEGA, 6.37e-3, 0.165, "helps"),
    ("3: Maxwell GPU, Ethernet", 14_700 * MEGA, 1400 * MEGA, 9.52e-2, 2.231, "best possible"),
    ("4: ARM A57, Ethernet", 1570 * MEGA, 1400 * MEGA, 0.98, 2.494, "best possible, most effort"),
];
const SPLITS: u32 = 3;

fn at(rate: u64, link: u64, splits: Option<u32>, planner: &'static str, settings: &Settings) -> Cell {
    cell(vec![rate; 2], link, splits, planner, settings)
}

impl Experiment for Table2 {
    fn name(&self) -> &'static str {
        "edge-table-2"
    }

    fn paper(&self) -> &'static str {
        "DNN Partitioning for Inference Throughput Acceleration at the Edge, Table 2 and Figure 7"
    }

    fn about(&self) -> &'static str {
        "YOLOv2 on the four set-ups of two equal devices with 3 splits: throughput, region, effort, time"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        quick(mode, "1 min", "2 min")
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let each = |(_, rate, link, ..): (&str, u64, u64, f64, f64, &str)| {
            [
                at(rate, link, Some(SPLITS), "auto", settings),
                at(rate, link, Some(SPLITS), "branch-and-bound", settings),
                at(rate, link, None, "auto", settings),
            ]
        };
        SETUPS.into_iter().flat_map(each).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Throughput of two devices with at most 3 splits, and its region.",
            &[
                "set-up",
                "θ/η",
                "one device",
                "two devices",
                "gain",
                "unlimited",
                "paper's region",
                "region here",
            ],
        );
        let mut effort = Table::new(
            "Effort and seconds.",
            &[
                "set-up",
                "paper's seconds",
                "lists of branch-and-bound",
                "seconds",
                "placements of auto",
                "seconds",
                "sooner",
            ],
        );
        let most_lists = SETUPS.iter().filter_map(|&(_, rate, link, ..)| {
            results
                .of(&at(rate, link, Some(SPLITS), "branch-and-bound", settings))
                .map(|figures| figures.nodes)
        });
        let most_lists = most_lists.max().unwrap_or(0);
        for (name, rate, link, _, papers_seconds, papers_region) in SETUPS {
            let cells =
                ["auto", "branch-and-bound"].map(|planner| at(rate, link, Some(SPLITS), planner, settings));
            let [own, its] = [results.of(&cells[0]), results.of(&cells[1])];
            let unlimited_cell = at(rate, link, None, "auto", settings);
            let unlimited = results.of(&unlimited_cell);
            let ratio = link as f64 / rate as f64;
            let alone = own.and_then(|figures| figures.one_device_ps).map(|ps| 1e12 / ps as f64);
            let gain = speedup(own);
            let is_best =
                best_gain(settings, results).zip(gain).map(|(best, gain)| gain >= best * (1.0 - 1e-9));
            let most_effort = its.is_some_and(|figures| figures.nodes == most_lists);
            let region = region(gain, is_best == Some(true), most_effort);
            table.row(vec![
                name.to_owned(),
                format!("{ratio:.2e}"),
                shown(alone),
                shown(throughput(own)),
                factor(gain),
                shown(throughput(unlimited)),
                papers_region.to_owned(),
                region.to_owned(),
            ]);
            let seconds = |figures: Option<&crate::figures::Figures>| figures.map(|figures| figures.seconds);
            let nodes = |figures: Option<&crate::figures::Figures>| {
                figures.map_or("–".to_owned(), |f| f.nodes.to_string())
            };
            effort.row(vec![
                name.to_owned(),
                papers_seconds.to_string(),
                nodes(its),
                shown(seconds(its)),
                nodes(own),
                shown(seconds(own)),
                factor(seconds(its).zip(seconds(own)).map(|(its, own)| its / own.max(1e-6))),
            ]);
        }
        let mut differs = vec![
            format!(
                "Set-up 4's ratio is 1400 MB/s over 1.57 GHz = 0.89; the paper prints 0.98. Set-up 1 lies below \
                 {SMALLEST_CUT_PER_WORK:.2e}, where equation 10 says that splitting cannot help."
            ),
            "Throughputs are those of the model of section III; the paper's Figure 7 also shows measured ones.".to_owned(),
            "The paper's seconds are those of its machine and its program.".to_owned(),
        ];
        differs.extend(remarks(self.cells(settings).iter().map(|cell| results.of(cell))));
        Page { tables: vec![table, effort], pictures: Vec::new(), limits: limits(settings), differs }
    }
}

/// What is seen here of the region that the paper names.
fn region(gain: Option<f64>, is_best: bool, most_effort: bool) -> &'static str {
    match gain {
        None => "–",
        Some(gain) if gain <= 1.0 => "no help",
        Some(_) if is_best && most_effort => "best possible, most effort",
        Some(_) if is_best => "best possible",
        Some(_) => "helps",
    }
}

/// The largest gain of the set-ups: that of the fastest links.
fn best_gain(settings: &Settings, results: &Results) -> Option<f64> {
    let gains = SETUPS.iter().filter_map(|&(_, rate, link, ..)| {
        speedup(results.of(&at(rate, link, Some(SPLITS), "auto", settings)))
    });
    gains.fold(None, |best: Option<f64>, gain| Some(best.map_or(gain, |best| best.max(gain))))
}
