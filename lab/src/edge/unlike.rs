//! Our own table: vision networks as streams over four and eight unlike devices, whose links are slow, fast, mixed or one
//! Wi-Fi channel; splits are not limited.

use super::{is_optimal, quick, remarks, speedup};
use crate::cells::{Cell, Work};
use crate::edge::unlike_networks::{CLASSES, Interconnect, MORE_RATES, RATES, UnlikeDevices};
use crate::figures::Figures;
use crate::markdown::{Notes, Page, Table, factor, percent, seconds};
use crate::models::{Model, ModelFamily};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct Unlike;

const ALL_JOINED: [Interconnect; 5] = [
    Interconnect::Each(RATES[0]),
    Interconnect::Each(RATES[1]),
    Interconnect::Each(RATES[2]),
    Interconnect::Mixed,
    Interconnect::Channel(RATES[0]),
];

fn rows(settings: &Settings) -> Vec<(&Model, UnlikeDevices)> {
    let models = settings
        .models
        .iter()
        .filter(|model| matches!(model.family, ModelFamily::Vision | ModelFamily::Onnx));
    let sizes = move |model| [false, true].map(move |are_eight| (model, are_eight));
    let networks =
        |(model, are_eight)| ALL_JOINED.map(move |joined| (model, UnlikeDevices { are_eight, joined }));
    models.flat_map(sizes).flat_map(networks).collect()
}

fn cell((model, network): (&Model, UnlikeDevices), settings: &Settings) -> Cell {
    let limit = settings.limit(10, 60);
    Cell { instance: model.streamed_over(network), work: Work::Plan("auto"), limit }
}

impl Experiment for Unlike {
    fn name(&self) -> &'static str {
        "edge-unlike"
    }

    fn paper(&self) -> &'static str {
        "Ours, no paper"
    }

    fn about(&self) -> &'static str {
        "Vision networks as streams over 4 and 8 unlike devices, splits not limited: period, bound and gap of auto"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        quick(mode, "2 min", "6 min")
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        rows(settings).into_iter().map(|row| cell(row, settings)).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Periods in ms. The last column is when it was proved that nothing is better, or when the limit ended the run.",
            &["model", "devices", "links", "one device", "auto", "speed-up", "bound", "gap", "ended after"],
        );
        let mut notes = Notes::default();
        let mut gaps = Vec::new();
        let mut optimal = 0;
        let rows = rows(settings);
        for &row in &rows {
            let figures = results.of(&cell(row, settings));
            let gap = figures.and_then(Figures::gap);
            gaps.extend(gap);
            optimal += usize::from(is_optimal(figures));
            let (model, network) = row;
            table.row(vec![
                model.name.clone(),
                network.count().to_string(),
                network.joined.name(),
                notes.milliseconds(figures, |f| f.one_device_ps),
                notes.milliseconds(figures, |f| f.value_ps),
                factor(speedup(figures)),
                notes.milliseconds(figures, |f| f.bound_ps),
                percent(gap),
                seconds(figures.map(|figures| figures.seconds)),
            ]);
        }
        let average = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
        let worst = gaps.iter().copied().fold(0.0, f64::max);
        let mut differs = vec![
            format!(
                "Proved optimal, to the picosecond: {optimal} of {} runs. Gap: {} on average, {} at most.",
                rows.len(),
                percent(Some(average)),
                percent(Some(worst))
            ),
            format!(
                "Devices: {}; where there are eight, also processors of {MORE_RATES:?} GFLOP/s. Every pair has a link of its own, \
                 but where all share one half-duplex channel. Mixed links have 10 MB/s, 100 MB/s or 1.4 GB/s, by seed.",
                CLASSES.join(", ")
            ),
            "Op times are measured on an H200 and on 16 cores of a processor and scaled to the devices, those of ONNX models \
             estimated; ONNX models have fused ops, the others are planned op by op."
                .to_owned(),
        ];
        differs.extend(remarks(self.cells(settings).iter().map(|cell| results.of(cell))));
        differs.extend(notes.lines());
        let limits = format!("{:?} a run", settings.limit(10, 60));
        Page { tables: vec![table], pictures: Vec::new(), limits, differs }
    }
}
