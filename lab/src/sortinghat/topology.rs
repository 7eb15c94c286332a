//! SortingHat's Figures 4 and 10: which GPUs a schedule is given, and which GPUs a plan chooses.

use super::{LIMITS, SERVERS, cell, common, language, speed_up};
use crate::cells::{Cell, Work};
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, factor};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart, BusyLane, LaneChart};

pub(crate) struct Figure4;

/// The second GPU of each pair; the first is `gpu1`.
const SECONDS: [&str; 3] = ["gpu2", "gpu3", "gpu4"];

fn pair(instance: Instance, second: &'static str, settings: &Settings) -> Cell {
    Cell { instance, work: Work::PairWith(second), limit: settings.limit(300, 600) }
}

impl Experiment for Figure4 {
    fn name(&self) -> &'static str {
        "sortinghat-figure-4"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figure 4"
    }

    fn about(&self) -> &'static str {
        "One schedule of efficient-mip for two GPUs, on pairs that differ in their buses and links"
    }

    fn duration(&self, _mode: Mode) -> &'static str {
        "2 min"
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let cells = |model: &&crate::models::Model| {
            let instance = model.cold_start("dgx-v100", 0);
            let mut cells = vec![cell(instance.clone(), "one-gpu", settings)];
            cells.extend(SECONDS.map(|second| pair(instance.clone(), second, settings)));
            cells
        };
        language(settings).iter().flat_map(cells).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Speed-up over `one-gpu`. The first pair shares a bus; the others do not, and the last has twice the NVLink.",
            &["model", "one-gpu, ms", "gpu1 + gpu2", "gpu1 + gpu3", "gpu1 + gpu4"],
        );
        let names = SECONDS.map(|second| format!("gpu1 + {second}"));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut chart = BarChart::new("Speed-up over one GPU", Axis::from_zero("times as fast"), &names)
            .with_reference(1.0, "one GPU");
        let mut notes = Notes::default();
        for model in language(settings) {
            let instance = model.cold_start("dgx-v100", 0);
            let one_gpu = results.of(&cell(instance.clone(), "one-gpu", settings));
            let base = one_gpu.and_then(|figures| figures.value_ps);
            let faster = |second| speed_up(base, results.of(&pair(instance.clone(), second, settings)));
            let mut row = vec![model.name.clone(), notes.milliseconds(one_gpu, |f| f.value_ps)];
            row.extend(SECONDS.map(|second| factor(faster(second))));
            table.row(row);
            chart.group(&model.name, SECONDS.map(faster).to_vec());
        }
        let mut differs = common();
        differs.extend(notes.lines());
        let pictures = vec![Picture::new("pairs", "As the paper draws it.", chart.svg())];
        let limits =
            "5 nodes of HiGHS for each submodel, so that every pair gets the same schedule".to_owned();
        Page { tables: vec![table], pictures, limits, differs }
    }
}

pub(crate) struct Figure10;

/// The methods whose timelines are drawn.
const DRAWN: [&str; 2] = ["sortinghat", "auto"];

/// The model that the figure shows, or the first there is.
fn shown(settings: &Settings) -> Option<&crate::models::Model> {
    let models = language(settings);
    models.iter().find(|model| model.name == "open_llama_3b-1x1024").or(models.first()).copied()
}

fn timeline(instance: Instance, method: &'static str, settings: &Settings) -> Cell {
    Cell { work: Work::Timeline(method), ..cell(instance, method, settings) }
}

impl Experiment for Figure10 {
    fn name(&self) -> &'static str {
        "sortinghat-figure-10"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figure 10"
    }

    fn about(&self) -> &'static str {
        "Timelines of a cold start by server: which GPUs run kernels, and which only carry weights"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "3 min",
            Mode::Full => "15 min",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let cells = |server: &&'static str| {
            let instance = shown(settings)?.cold_start(server, 0);
            Some(DRAWN.map(|method| timeline(instance.clone(), method, settings)))
        };
        SERVERS[..3].iter().filter_map(cells).flatten().collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let name = shown(settings).map_or("–", |model| &model.name);
        let mut table = Table::new(
            &format!(
                "GPUs under a cold start of {name}: time in kernels, weights that land, and what is forwarded of them."
            ),
            &["server", "method", "GPU", "kernels, ms", "share", "landed, GB", "forwarded, GB"],
        );
        let mut notes = Notes::default();
        let mut pictures = Vec::new();
        for server in &SERVERS[..3] {
            for method in DRAWN {
                let Some(model) = shown(settings) else { continue };
                let figures = results.of(&timeline(model.cold_start(server, 0), method, settings));
                let value = notes.milliseconds(figures, |f| f.value_ps);
                let lanes = figures.map_or(&[][..], |figures| &figures.lanes);
                let all: u64 = lanes.iter().filter(|lane| lane.is_device).map(|lane| lane.busy_ps).sum();
                if lanes.is_empty() {
                    let mut row =
                        vec![(*server).to_owned(), method.to_owned(), "–".to_owned(), value.clone()];
                    row.resize(table.head.len(), "–".to_owned());
                    table.row(row);
                }
                for lane in lanes.iter().filter(|lane| lane.is_device) {
                    table.row(vec![
                        (*server).to_owned(),
                        method.to_owned(),
                        lane.name.clone(),
                        format!("{:.2}", lane.busy_ps as f64 / 1e9),
                        format!("{:.0} %", 100.0 * lane.busy_ps as f64 / all.max(1) as f64),
                        format!("{:.2}", lane.landed_bytes as f64 / 1e9),
                        format!("{:.2}", lane.forwarded_bytes as f64 / 1e9),
                    ]);
                }
                let ms = |ps: u64| ps as f64 / 1e9;
                let drawn = lanes.iter().map(|lane| {
                    let busy = lane.busy.iter().map(|&(start, end)| (ms(start), ms(end))).collect();
                    BusyLane { name: lane.name.clone(), colour: usize::from(!lane.is_device), busy }
                });
                let chart = LaneChart {
                    title: format!("{name} on {server}, {method}: {value} ms"),
                    unit: "ms".to_owned(),
                    lanes: drawn.collect(),
                };
                pictures.push(Picture::new(
                    &format!("{server}-{method}"),
                    &format!("When GPUs and buses of `{server}` are busy under `{method}`."),
                    chart.svg(),
                ));
            }
        }
        let mut differs = common();
        differs.push(
            "The paper shows OpenLLaMA-3B at (1, 1024), on its three servers; without that file, the first model there is."
                .to_owned(),
        );
        differs.extend(notes.lines());
        Page { tables: vec![table], pictures, limits: LIMITS.to_owned(), differs }
    }
}
