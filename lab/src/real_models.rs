//! Real models under `latency`, our own table: what `auto` reaches, and how much of it is proved.

use crate::cells::{Cell, Work};
use crate::figures::{Figures, Moment};
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, factor, percent, seconds};
use crate::models::ModelFamily;
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart, LineChart, Series};

pub(crate) struct RealModels;

/// The gap that is the aim for vision networks within ten seconds.
const AIM: f64 = 0.05;

/// The gap in percent at each moment that has one.
fn gap_over_time(name: &str, figures: &Figures) -> Series {
    let gap = |moment: &Moment| {
        let (value, bound) = (moment.value_ps? as f64, moment.bound_ps? as f64);
        (bound > 0.0).then(|| (moment.seconds.max(1e-3), (value - bound) / bound * 100.0))
    };
    let mut points: Vec<(f64, f64)> = figures.history.iter().filter_map(gap).collect();
    points.extend(points.last().map(|&(_, last)| (figures.seconds, last)));
    Series::new(name, points).stepped()
}

/// What is planned: a group, a name, the hardware, the instance.
struct Row {
    group: &'static str,
    name: String,
    hardware: &'static str,
    instance: Instance,
}

fn rows(settings: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    for model in &settings.models {
        let (group, hardware): (_, &[&'static str]) = match model.family {
            ModelFamily::Vision => ("vision", &["h200-cpu", "cpu-t4-a100"]),
            ModelFamily::Language => ("language", &["dgx-v100"]),
            ModelFamily::Onnx => ("ONNX, roofline", &["h200-cpu", "cpu-t4-a100"]),
        };
        for &hardware in hardware {
            rows.push(Row { group, name: model.name.clone(), hardware, instance: model.on(hardware) });
        }
    }
    let on = "dgx-v100";
    let generated =
        [("gpt2-xl", Instance::Gpt("gpt2-xl", on)), ("open-llama-7b", Instance::Llama("open-llama-7b", on))];
    for (name, instance) in generated {
        rows.push(Row { group: "generated, roofline", name: name.to_owned(), hardware: on, instance });
    }
    rows
}

fn cell(row: &Row, settings: &Settings) -> Cell {
    Cell { instance: row.instance.clone(), work: Work::Plan("auto"), limit: settings.limit(10, 60) }
}

impl Experiment for RealModels {
    fn name(&self) -> &'static str {
        "real-models"
    }

    fn paper(&self) -> &'static str {
        "Ours, no paper"
    }

    fn about(&self) -> &'static str {
        "Vision, language and ONNX models on real servers: latency, bound and gap of auto"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "2 min",
            Mode::Full => "11 min",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        rows(settings).iter().map(|row| cell(row, settings)).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "In ms. `proved` is the bound whose evidence was verified; the gap is to the best bound.",
            &[
                "model",
                "kind",
                "on",
                "ops",
                "one device",
                "auto",
                "speed-up",
                "bound",
                "proved",
                "gap",
                "best after",
                "ended after",
                "measured",
                "scaled",
                "estimated",
            ],
        );
        let axis = Axis::from_zero("times as fast as the best device");
        let mut speedups = BarChart::new("Speed-up of auto over the best device", axis, &["auto"])
            .with_reference(1.0, "best device");
        let mut gaps = LineChart::new("Gap between value and bound", Axis::log("seconds"), Axis::log("%"));
        let mut notes = Notes::default();
        let (mut vision, mut near) = (0, 0);
        for row in rows(settings) {
            let figures = results.of(&cell(&row, settings));
            let gap = figures.and_then(Figures::gap);
            if row.group == "vision" {
                vision += 1;
                near += usize::from(gap.is_some_and(|gap| gap < AIM));
            }
            let speedup = figures.and_then(|f| Some(f.one_device_ps? as f64 / f.value_ps? as f64));
            let label = format!("{} on {}", row.name, row.hardware);
            speedups.group(&label, vec![speedup]);
            let open = figures.filter(|figures| figures.gap().is_some_and(|gap| gap > 0.0));
            gaps.series.extend(open.map(|figures| gap_over_time(&label, figures)));
            table.row(vec![
                row.name,
                row.group.to_owned(),
                row.hardware.to_owned(),
                figures.map_or("–".to_owned(), |figures| figures.ops.to_string()),
                notes.milliseconds(figures, |f| f.one_device_ps),
                notes.milliseconds(figures, |f| f.value_ps),
                factor(speedup),
                notes.milliseconds(figures, |f| f.bound_ps),
                notes.milliseconds(figures, |f| f.verified_ps),
                percent(gap),
                seconds(figures.and_then(Figures::seconds_to_best)),
                seconds(figures.map(|figures| figures.seconds)),
                percent(figures.map(|figures| figures.measured)),
                percent(figures.map(|figures| figures.scaled)),
                percent(figures.map(|figures| figures.estimated)),
            ]);
        }
        let mut differs = vec![
            format!("Vision networks with a gap under 5 %: {near} of {vision}. The aim is all of them within 10 s."),
            "Weights are resident on the devices; links are delays. Batch 1. ONNX models are planned with fused ops, all others \
             op by op, free ops folded."
                .to_owned(),
            "measured, scaled, estimated: shares of the plan's op time that were measured on that class of devices, carried over \
             from another, or estimated from data sheets. Values and proofs hold for the times given."
                .to_owned(),
        ];
        differs.extend(notes.lines());
        let limit = settings.limit(10, 60);
        let pictures = vec![
            Picture::new("speed-ups", "The plan of `auto` against the best single device.", speedups.svg()),
            Picture::new(
                "search",
                "Gap of `auto` over time, where the limit ended the run before it was closed.",
                gaps.svg(),
            ),
        ];
        Page { tables: vec![table], pictures, limits: format!("{limit:?} a run"), differs }
    }
}
