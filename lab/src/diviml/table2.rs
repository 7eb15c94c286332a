//! Table II: how fast the devices are, one against another, over all networks.

use divvy_core::generate::Wiring;

use super::stacked;
use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, factor, number, percent};
use crate::models::ModelFamily;
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart};

pub(crate) struct Table2;

const SERVER: &str = "cpu-t4-a100";
const DEVICES: [&str; 3] = ["cpu", "t4", "a100"];

/// Where the times of the bundled models were measured, and its devices.
const MEASURED: &str = "h200-cpu";
const MEASURED_DEVICES: [&str; 2] = ["cpu", "gpu"];

/// The paper's rows: milliseconds and factors over the A100.
const THEIRS: [(&str, [&str; 3], [f64; 3]); 2] = [
    ("Torchvision", ["223.10 (29×)", "12.16 (1.6×)", "7.80 (1×)"], [223.10, 12.16, 7.80]),
    ("RWNNs", ["183.39 (7.10×)", "32.58 (1.26×)", "25.84 (1×)"], [183.39, 32.58, 25.84]),
];

fn sum(instance: &Instance, device: &'static str, settings: &Settings) -> Cell {
    Cell { instance: instance.clone(), work: Work::Sum(device), limit: settings.limit(3, 3) }
}

/// How most of a network's time came about.
fn origin(network: &Instance, figures: &Figures) -> &'static str {
    match network {
        Instance::Rwnn(_) => "drawn",
        _ if figures.measured >= 0.5 => "measured",
        _ if figures.scaled >= 0.5 => "scaled",
        _ => "estimated",
    }
}

/// Networks by name, in the groups of the paper.
fn groups(settings: &Settings) -> [(&'static str, Vec<(String, Instance)>); 2] {
    let vision = settings.models.iter().filter(|model| model.family != ModelFamily::Language).cloned();
    let vision = vision.map(|model| (model.name.clone(), model.on(SERVER))).collect();
    let wired = [(Wiring::Sdep, 1), (Wiring::Sdep, 2), (Wiring::Wdep, 2), (Wiring::Wdep, 4)];
    let wired = wired
        .map(|(wiring, channels)| {
            (format!("rwnn {} {channels}, 10 modules", wiring.name()), stacked(wiring, channels, 10))
        })
        .into();
    [("Torchvision", vision), ("RWNNs", wired)]
}

impl Experiment for Table2 {
    fn name(&self) -> &'static str {
        "diviml-table-2"
    }

    fn paper(&self) -> &'static str {
        "DiviML, Table II"
    }

    fn about(&self) -> &'static str {
        "Speed of the devices relative to each other"
    }

    fn duration(&self, _: Mode) -> &'static str {
        "1 s"
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let networks = groups(settings).into_iter().flat_map(|(_, networks)| networks);
        let mut cells: Vec<Cell> =
            networks.flat_map(|(_, network)| DEVICES.map(|device| sum(&network, device, settings))).collect();
        for model in settings.models.iter().filter(|model| model.family == ModelFamily::Vision) {
            cells.extend(MEASURED_DEVICES.map(|device| sum(&model.on(MEASURED), device, settings)));
        }
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut means =
            Table::new("Mean time of a whole network on one device, in ms.", &["", "CPU", "T4", "A100"]);
        let mut single = Table::new(
            "Each network, in ms.",
            &["network", "CPU", "T4", "A100", "CPU / A100", "T4 / A100", "times"],
        );
        let mut bars = BarChart::new(
            "Time of a whole network, relative to the A100",
            Axis::log("times as long as on the A100"),
            &["CPU", "T4"],
        );
        let mut notes = Notes::default();
        for ((group, networks), (_, theirs, their_ms)) in groups(settings).iter().zip(THEIRS) {
            let mut sums = [0.0; 3];
            let mut counted = 0.0;
            for (name, network) in networks {
                let figures = DEVICES.map(|device| results.of(&sum(network, device, settings)));
                let values = figures.map(|figures| Some(figures?.value_ps? as f64 / 1e9));
                let mut row = vec![name.clone()];
                row.extend(figures.map(|figures| notes.milliseconds(figures, |figures| figures.value_ps)));
                row.push(factor(values[0].zip(values[2]).map(|(cpu, a100)| cpu / a100)));
                row.push(factor(values[1].zip(values[2]).map(|(t4, a100)| t4 / a100)));
                row.push(figures[2].map_or("–", |figures| origin(network, figures)).to_owned());
                single.row(row);
                if let [Some(cpu), Some(t4), Some(a100)] = values {
                    [cpu, t4, a100].iter().zip(&mut sums).for_each(|(value, sum)| *sum += value);
                    counted += 1.0;
                }
            }
            let mean = |i: usize| match counted {
                0.0 => "–".to_owned(),
                _ => format!("{} ({})", number(sums[i] / counted), factor(Some(sums[i] / sums[2]))),
            };
            means.row(vec![format!("{group}, ours"), mean(0), mean(1), mean(2)]);
            let relative = |ms: [f64; 3]| [0, 1].map(|i| (ms[2] > 0.0).then(|| ms[i] / ms[2])).to_vec();
            bars.group(&format!("{group}, ours"), relative(sums));
            bars.group(&format!("{group}, paper"), relative(their_ms));
            let [cpu, t4, a100] = theirs.map(str::to_owned);
            means.row(vec![format!("{group}, paper"), cpu, t4, a100]);
        }
        let mut measured = Table::new(
            "Where the times were measured, in ms: 16 CPU threads and an H200.",
            &["network", "CPU", "H200", "CPU / H200", "measured"],
        );
        for model in settings.models.iter().filter(|model| model.family == ModelFamily::Vision) {
            let network = model.on(MEASURED);
            let figures = MEASURED_DEVICES.map(|device| results.of(&sum(&network, device, settings)));
            let [cpu, h200] = figures.map(|figures| Some(figures?.value_ps? as f64));
            let mut row = vec![model.name.clone()];
            row.extend(figures.map(|figures| notes.milliseconds(figures, |figures| figures.value_ps)));
            row.push(factor(cpu.zip(h200).map(|(cpu, h200)| cpu / h200)));
            row.push(percent(figures[0].zip(figures[1]).map(|(cpu, h200)| cpu.measured.min(h200.measured))));
            measured.row(row);
        }
        let differs = vec![
            "Times: the paper timed every op on a Xeon at 2 GHz, a T4 and an A100. Ours were measured on an H200 and on 16 CPU \
             threads, and carried over to the paper's three devices by each op's roofline ratio; ONNX models are estimated from \
             data sheets; the times of RWNNs are drawn by the generator."
                .to_owned(),
            "Networks: the paper averages over torchvision models that it does not list in full, at a batch size that it does not \
             say; ours are at batch 1."
                .to_owned(),
        ];
        let differs = differs.into_iter().chain(notes.lines()).collect();
        Page {
            tables: vec![means, single, measured],
            pictures: vec![Picture::new("speeds", "How much slower the other devices are.", bars.svg())],
            limits: "none: sums take no search".to_owned(),
            differs,
        }
    }
}
