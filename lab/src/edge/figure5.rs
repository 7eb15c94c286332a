//! Figure 5: throughput and effort over the number of devices and of splits.

use super::{MEGA, PAPER, SMALLEST_CUT_PER_WORK, cell, is_optimal, limits, quick, remarks, shown, speedup};
use crate::cells::Cell;
use crate::markdown::{Page, Picture, Table, factor};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, LineChart, Series};

pub(crate) struct Figure5;

const DEVICES: [usize; 6] = [1, 2, 3, 4, 5, 6];
const SPLITS: [u32; 6] = [0, 1, 2, 3, 4, 5];
/// The paper's Raspberry Pi 4, and Wi-Fi.
const RATE: u64 = 5000 * MEGA;
const LINK: u64 = 10 * MEGA;
/// Where the paper's algorithm is run beside ours.
const PAPERS: [(usize, u32); 4] = [(2, 1), (2, 2), (4, 2), (4, 3)];

fn ours(devices: usize, splits: Option<u32>, settings: &Settings) -> Cell {
    cell(vec![RATE; devices], LINK, splits, "auto", settings)
}

fn papers(devices: usize, splits: u32, settings: &Settings) -> Cell {
    cell(vec![RATE; devices], LINK, Some(splits), "branch-and-bound", settings)
}

impl Experiment for Figure5 {
    fn name(&self) -> &'static str {
        "edge-figure-5"
    }

    fn paper(&self) -> &'static str {
        "DNN Partitioning for Inference Throughput Acceleration at the Edge, Figure 5"
    }

    fn about(&self) -> &'static str {
        "YOLOv2 on 1 to 6 equal devices with 0 to 5 splits and without a limit: throughput, effort, time"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        quick(mode, "1 min", "2 min")
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let mut cells = Vec::new();
        for devices in DEVICES {
            cells.extend(SPLITS.map(|splits| ours(devices, Some(splits), settings)));
            cells.push(ours(devices, None, settings));
        }
        cells.extend(PAPERS.map(|(devices, splits)| papers(devices, splits, settings)));
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let head: Vec<String> = std::iter::once("devices".to_owned())
            .chain(SPLITS.iter().map(|splits| format!("S = {splits}")))
            .chain(std::iter::once("unlimited".to_owned()))
            .collect();
        let caption = |text: &str| format!("{text} Devices of 5 GFLOP/s, links of 10 MB/s.");
        let mut speeds = Table {
            caption: caption("Throughput over that of one device; * marks proved or attested optima."),
            head: head.clone(),
            rows: Vec::new(),
        };
        let mut effort =
            Table { caption: caption("Placements looked at."), head: head.clone(), rows: Vec::new() };
        let mut times = Table { caption: caption("Seconds."), head, rows: Vec::new() };
        let all = |devices: usize| {
            let limited = SPLITS.iter().map(move |&splits| ours(devices, Some(splits), settings));
            limited.chain(std::iter::once(ours(devices, None, settings)))
        };
        for devices in DEVICES {
            let of = |show: &dyn Fn(&Cell) -> String| {
                std::iter::once(devices.to_string()).chain(all(devices).map(|cell| show(&cell))).collect()
            };
            let star = |cell: &Cell| if is_optimal(results.of(cell)) { " *" } else { "" };
            speeds.row(of(&|cell| format!("{}{}", factor(speedup(results.of(cell))), star(cell))));
            effort
                .row(of(&|cell| results.of(cell).map_or("–".into(), |figures| figures.nodes.to_string())));
            times.row(of(&|cell| shown(results.of(cell).map(|figures| figures.seconds))));
        }
        let mut against = Table::new(
            "The paper's algorithm beside ours, in one run.",
            &["devices, splits", "its lists", "its seconds", "ours", "seconds", "sooner", "same value"],
        );
        for (devices, splits) in PAPERS {
            let (its, own) = (papers(devices, splits, settings), ours(devices, Some(splits), settings));
            let (its, own) = (results.of(&its), results.of(&own));
            let seconds = |figures: Option<&crate::figures::Figures>| figures.map(|figures| figures.seconds);
            let same = its.zip(own).map(|(its, own)| its.value_ps == own.value_ps);
            against.row(vec![
                format!("N = {devices}, S = {splits}"),
                its.map_or("–".into(), |figures| figures.nodes.to_string()),
                shown(seconds(its)),
                own.map_or("–".into(), |figures| figures.nodes.to_string()),
                shown(seconds(own)),
                factor(seconds(its).zip(seconds(own)).map(|(its, own)| its / own.max(1e-6))),
                same.map_or("–", |same| if same { "yes" } else { "no" }).to_owned(),
            ]);
        }
        let ratio = LINK as f64 / RATE as f64;
        let mut differs = vec![
            format!(
                "The paper shows 1.9 to 2.3 times one device for N > 2. Its own equation 12 forbids that here: throughput is at \
                 most θ/s_min, and one device has η/Σc, so the gain is at most (θ/η)/(s_min/Σc) = {ratio:.1e} / \
                 {SMALLEST_CUT_PER_WORK:.2e} = {:.2} with the ratio of section V-B. The figure must have been made with other \
                 sizes or rates than the text gives; ours follow the text. A plan may use two links out of a device at once \
                 where tensors skip layers, so with the skip of YOLOv2 the smallest cut is no strict limit.",
                ratio / SMALLEST_CUT_PER_WORK
            ),
            "Bytes are rescaled to the paper's ratio of the smallest cut to all work; true YOLOv2 has 140 times fewer.".to_owned(),
            "Effort is placements looked at by `auto`; the paper counts lists taken from its queue.".to_owned(),
        ];
        differs.extend(remarks(self.cells(settings).iter().map(|cell| results.of(cell))));
        let line = |splits: Option<u32>, name: String| {
            let points = DEVICES.iter().filter_map(move |&devices| {
                Some((devices as f64, speedup(results.of(&ours(devices, splits, settings)))?))
            });
            Series::new(&name, points)
        };
        let mut chart =
            LineChart::new("Throughput over one device", Axis::linear("devices"), Axis::linear("times"));
        for splits in SPLITS {
            chart = chart.with(line(Some(splits), format!("S = {splits}")));
        }
        let pictures = vec![Picture::new("throughput", "Throughput over that of one device.", chart.svg())];
        debug_assert!(self.paper().starts_with(PAPER));
        Page { tables: vec![speeds, effort, times, against], pictures, limits: limits(settings), differs }
    }
}
