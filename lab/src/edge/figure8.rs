//! Figure 8: what a second device of another rate adds to one of 14.7 GFLOP/s.

use super::{MEGA, cell, limits, quick, remarks, throughput};
use crate::cells::Cell;
use crate::markdown::{Page, Picture, Table, number};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, LineChart, Series};

pub(crate) struct Figure8;

const FIXED: u64 = 14_700 * MEGA;
/// Rates of the device that is added, in MFLOP/s.
const ADDED: [u64; 8] = [500, 1570, 5000, 10_000, 14_700, 20_000, 30_700, 60_000];
/// Wi-Fi and Ethernet.
const LINKS: [(&str, u64); 2] = [("Wi-Fi, 10 MB/s", 10 * MEGA), ("Ethernet, 1.4 GB/s", 1400 * MEGA)];
const SPLITS: u32 = 3;

fn at(added: u64, link: u64, settings: &Settings) -> Cell {
    cell(vec![FIXED, added * MEGA], link, Some(SPLITS), "auto", settings)
}

impl Experiment for Figure8 {
    fn name(&self) -> &'static str {
        "edge-figure-8"
    }

    fn paper(&self) -> &'static str {
        "DNN Partitioning for Inference Throughput Acceleration at the Edge, Figure 8"
    }

    fn about(&self) -> &'static str {
        "YOLOv2 on a device of 14.7 GFLOP/s with a second of another rate, over Wi-Fi and Ethernet"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        quick(mode, "30 s", "30 s")
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        LINKS.iter().flat_map(|&(_, link)| ADDED.map(|added| at(added, link, settings))).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Inferences per second; equation 11 says where splitting can help: θ > s_min·η_max/Σc.",
            &[
                "added, GFLOP/s",
                "fastest device alone",
                "Wi-Fi",
                "Ethernet",
                "both rates together",
                "(11) on Wi-Fi",
                "(11) on Ethernet",
            ],
        );
        let figures = |added: u64, link: u64| results.of(&at(added, link, settings));
        let alone = |added: u64| {
            let ps = figures(added, LINKS[0].1).or(figures(added, LINKS[1].1))?.one_device_ps?;
            Some(1e12 / ps as f64)
        };
        let together = |added: u64| {
            let fastest = (added * MEGA).max(FIXED) as f64;
            Some(alone(added)? * (FIXED + added * MEGA) as f64 / fastest)
        };
        let show = |value: Option<f64>| value.map_or("–".to_owned(), number);
        for added in ADDED {
            let can = |link: u64| {
                let boundary = super::SMALLEST_CUT_PER_WORK * (added * MEGA).max(FIXED) as f64;
                if link as f64 > boundary { "can help" } else { "cannot" }.to_owned()
            };
            table.row(vec![
                number(added as f64 / 1e3),
                show(alone(added)),
                show(throughput(figures(added, LINKS[0].1))),
                show(throughput(figures(added, LINKS[1].1))),
                show(together(added)),
                can(LINKS[0].1),
                can(LINKS[1].1),
            ]);
        }
        let points = |value: &dyn Fn(u64) -> Option<f64>| -> Vec<(f64, f64)> {
            ADDED.iter().filter_map(|&added| Some((added as f64 / 1e3, value(added)?))).collect()
        };
        let mut chart = LineChart::new(
            "A second device",
            Axis::linear("its rate, GFLOP/s"),
            Axis::from_zero("inferences/s"),
        )
        .with(Series::new("fastest device alone", points(&alone)).dashed())
        .with(Series::new("both rates together", points(&together)).dashed());
        for (name, link) in LINKS {
            chart = chart.with(Series::new(name, points(&|added| throughput(figures(added, link)))));
        }
        let mut differs = vec![
            "The paper also shows measured throughputs; here are the predicted ones.".to_owned(),
            "The paper does not list the rates of the devices it adds beyond those of Table 2.".to_owned(),
        ];
        differs.extend(remarks(self.cells(settings).iter().map(|cell| results.of(cell))));
        let pictures = vec![Picture::new("throughput", "Throughput with a second device.", chart.svg())];
        Page { tables: vec![table], pictures, limits: limits(settings), differs }
    }
}
