//! SortingHat: how long a first request takes when the weights are still in host memory.

pub(crate) mod ablations;
pub(crate) mod runs;
pub(crate) mod topology;

use crate::cells::{Cell, Figures, Instance, Work};
use crate::markdown::{Notes, Page, Picture, Table, factor, percent, seconds};
use crate::models::{Kind, Model};
use crate::plot::{Axis, BarChart};
use crate::{Experiment, Mode, Results, Settings};

/// The paper's servers, the one of its discussion last.
const SERVERS: [&str; 4] = ["dgx-v100", "dgx-v100-mixed", "a6000-3", "p4d-24xlarge"];

/// The methods of Figure 9, the baseline first.
const METHODS: [&str; 6] =
    ["one-gpu", "one-gpu-overlapped", "efficient-mip", "deepplan", "sortinghat", "auto"];

/// The cases that SortingHat's program has its full 30 seconds for each submodel on.
const FULL_TIME: [(&str, &str); 2] = [("gpt2-large-1x32", "dgx-v100"), ("gpt2-large-1x32", "a6000-3")];

fn language(settings: &Settings) -> Vec<&Model> {
    settings.models.iter().filter(|model| model.kind == Kind::Language).collect()
}

/// A run of a method; programs have a limit for each submodel, and for all of them together.
fn cell(instance: Instance, method: &'static str, settings: &Settings) -> Cell {
    let limit = match method {
        "auto" => settings.limit(30, 30),
        "sortinghat-30" => settings.limit(60, 7200),
        "one-gpu" | "one-gpu-overlapped" | "deepplan" => settings.limit(30, 30),
        _ => settings.limit(15, 600),
    };
    Cell { instance, work: Work::Plan(method), limit }
}

fn common() -> Vec<String> {
    vec![
        "Times are measured on an H200 and scaled to each server's GPUs, in half precision; the paper measures its own servers, \
         and its speed-ups look like single precision. Ratios of kernels to transfers differ accordingly."
            .to_owned(),
        "An op that reads in place holds its bus here; the paper lets such reads pass for free. Plans of all methods are scored \
         by the same definition."
            .to_owned(),
    ]
}

pub(crate) struct Figure9;

impl Experiment for Figure9 {
    fn name(&self) -> &'static str {
        "sortinghat-figure-9"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figure 9"
    }

    fn about(&self) -> &'static str {
        "Speed-up of a cold start over one GPU without overlap, by method and server"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "5 min",
            Mode::Full => "4 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let mut cells = Vec::new();
        for model in language(settings) {
            for server in SERVERS {
                let instance = model.cold_start(server, 0);
                cells.push(chain(instance.clone()));
                cells.extend(METHODS.map(|method| cell(instance.clone(), method, settings)));
                if FULL_TIME.contains(&(model.name.as_str(), server)) {
                    cells.push(cell(instance, "sortinghat-30", settings));
                }
            }
        }
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut head = vec!["model", "on", "one-gpu, ms", "critical path"];
        head.extend(&METHODS[1..]);
        head.extend([
            "sortinghat, 30 s",
            "auto, ms",
            "bound, ms",
            "proved, ms",
            "gap",
            "auto's processor time",
        ]);
        let mut table = Table::new(
            "Speed-up over `one-gpu`: everything loaded, then everything run. The critical path is the paper's column; it is \
             no bound, as plans that share out transfers pass it.",
            &head,
        );
        let mut chart =
            BarChart::new("Speed-up over one GPU", Axis::from_zero("times as fast"), &METHODS[1..]);
        let mut notes = Notes::default();
        let mut gaps: Vec<f64> = Vec::new();
        let mut beaten = 0;
        let mut gains: Vec<f64> = Vec::new();
        for model in language(settings) {
            for server in SERVERS {
                let instance = model.cold_start(server, 0);
                let of = |method| results.of(&cell(instance.clone(), method, settings));
                let value = |figures: Option<&Figures>| Some(figures?.value_ps? as f64);
                let base = value(of("one-gpu"));
                let faster = |figures: Option<&Figures>| Some(base? / value(figures)?);
                let auto = of("auto");
                let gap = auto.and_then(Figures::gap);
                gaps.extend(gap);
                let others = METHODS.iter().filter(|&&method| method != "auto").filter_map(|&m| value(of(m)));
                let best_other = others.fold(f64::INFINITY, f64::min);
                beaten += usize::from(value(auto).is_some_and(|auto| auto > best_other));
                let gain = value(of("sortinghat")).zip(value(auto)).map(|(theirs, ours)| theirs / ours - 1.0);
                gains.extend(gain);
                let mut row = vec![model.name.clone(), server.to_owned()];
                row.push(notes.milliseconds(of("one-gpu"), |f| f.value_ps));
                row.push(factor(faster(results.of(&chain(instance.clone())))));
                row.extend(METHODS[1..].iter().map(|&method| factor(faster(of(method)))));
                row.push(factor(faster(of("sortinghat-30"))));
                row.push(notes.milliseconds(auto, |f| f.value_ps));
                row.push(notes.milliseconds(auto, |f| f.bound_ps));
                row.push(notes.milliseconds(auto, |f| f.verified_ps));
                row.push(percent(gap));
                row.push(seconds(auto.and_then(|f| f.processor_seconds)));
                table.row(row);
                let bars = METHODS[1..].iter().map(|&method| faster(of(method))).collect();
                chart.group(&format!("{} on {server}", model.name), bars);
            }
        }
        if table.rows.is_empty() {
            table.row(vec!["–".to_owned(); head.len()]);
        }
        let mut differs = common();
        let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
        let worst = gaps.iter().copied().fold(0.0, f64::max);
        differs.push(format!(
            "Gap of `auto`: {} on average, {} at most, over {} cases. Cases where another method is better: {beaten}.",
            percent(Some(mean)),
            percent(Some(worst)),
            gaps.len()
        ));
        differs.push(format!(
            "`sortinghat` takes {} longer than `auto` on average, over {} cases that both have a plan for.",
            percent(Some(gains.iter().sum::<f64>() / gains.len().max(1) as f64)),
            gains.len()
        ));
        differs.push(
            "Programs have a limit on the clock: where the runs had little of a core (see below), `sortinghat` and \
             `efficient-mip` hardly get beyond their first solutions, and comparing with them says little."
                .to_owned(),
        );
        differs.extend(notes.lines());
        let limits = "30 s for auto; sortinghat and efficient-mip 2 s for each submodel, and 15 s (quick) or 600 s (full) for all \
                      of them; sortinghat-30, 30 s for each submodel, and 60 s or 2 h for all of them"
            .to_owned();
        let pictures = vec![Picture::new("speed-ups", "As the paper draws it.", chart.svg())];
        Page { tables: vec![table], pictures, limits, differs }
    }
}

fn chain(instance: Instance) -> Cell {
    Cell { instance, work: Work::LoadedChain("gpu1"), limit: std::time::Duration::ZERO }
}

pub(crate) struct Figure1;

impl Experiment for Figure1 {
    fn name(&self) -> &'static str {
        "sortinghat-figure-1c"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figure 1(c)"
    }

    fn about(&self) -> &'static str {
        "Transfer of all weights and all kernels on one V100, one beside the other"
    }

    fn duration(&self, _mode: Mode) -> &'static str {
        "1 s"
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let cells = |model: &&Model| {
            let instance = model.cold_start("dgx-v100", 0);
            [Work::Loads("gpu1"), Work::Sum("gpu1")].map(|work| Cell {
                instance: instance.clone(),
                work,
                limit: std::time::Duration::ZERO,
            })
        };
        language(settings).iter().flat_map(cells).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new("In ms.", &["model", "transfer", "kernels", "transfer / kernels"]);
        let mut chart =
            BarChart::new("Transfer and kernels", Axis::from_zero("ms"), &["transfer", "kernels"]);
        let mut notes = Notes::default();
        for model in language(settings) {
            let instance = model.cold_start("dgx-v100", 0);
            let of = |work| {
                let cell = Cell { instance: instance.clone(), work, limit: std::time::Duration::ZERO };
                results.of(&cell)
            };
            let (loads, kernels) = (of(Work::Loads("gpu1")), of(Work::Sum("gpu1")));
            let value = |figures: Option<&Figures>| Some(figures?.value_ps? as f64);
            let ratio = value(loads).zip(value(kernels)).map(|(loads, kernels)| loads / kernels);
            table.row(vec![
                model.name.clone(),
                notes.milliseconds(loads, |f| f.value_ps),
                notes.milliseconds(kernels, |f| f.value_ps),
                factor(ratio),
            ]);
            let ms = |figures| value(figures).map(|ps| ps / 1e9);
            chart.group(&model.name, vec![ms(loads), ms(kernels)]);
        }
        let mut differs = common();
        differs.extend(notes.lines());
        let pictures = vec![Picture::new("times", "As the paper draws it.", chart.svg())];
        Page { tables: vec![table], pictures, limits: "none: sums".to_owned(), differs }
    }
}
