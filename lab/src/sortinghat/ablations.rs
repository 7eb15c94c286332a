//! SortingHat's section 4.4: one thing turned up or off at a time, and weights that are still there.

use super::{LIMITS, cell, common, language, speed_up};
use crate::cells::Cell;
use crate::markdown::{Notes, Page, Picture, Table};
use crate::plot::{Axis, BarChart};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct Ablations;

/// What is turned up or off, and what the page calls it; what takes longest comes last.
const VARIANTS: [(&str, &str); 7] = [
    ("sortinghat", "q = 6, one dominator, 2 s"),
    ("sortinghat-1", "1 s"),
    ("sortinghat-two-dominators", "two dominators"),
    ("sortinghat-no-topology", "average devices"),
    ("sortinghat-no-turns", "buses not shared"),
    ("sortinghat-q12", "q = 12"),
    ("sortinghat-5", "5 s"),
];

/// Percent of the weights that are resident.
const RESIDENT: [u32; 5] = [0, 25, 50, 75, 100];

/// The servers of the ablations.
const ABLATED: [&str; 2] = ["dgx-v100", "dgx-v100-mixed"];

impl Experiment for Ablations {
    fn name(&self) -> &'static str {
        "sortinghat-ablations"
    }

    fn paper(&self) -> &'static str {
        "SortingHat, Figures 12 to 14"
    }

    fn about(&self) -> &'static str {
        "SortingHat's program with one thing turned up or off, and a share of the weights resident"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "5 min",
            Mode::Full => "4 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let mut cells = self.resident(settings);
        for method in ["one-gpu"].into_iter().chain(VARIANTS.map(|(method, _)| method)) {
            for model in language(settings) {
                cells.extend(ABLATED.map(|server| cell(model.cold_start(server, 0), method, settings)));
            }
        }
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut head = vec!["model", "on"];
        head.extend(VARIANTS.map(|(_, name)| name));
        let mut variants = Table::new(
            "Speed-up over `one-gpu`; 2 s for each submodel where nothing else is said (Figures 12 and 13).",
            &head,
        );
        let shares: Vec<String> = RESIDENT.iter().map(|share| format!("{share} % resident")).collect();
        let mut head: Vec<&str> = vec!["model", "method"];
        head.extend(shares.iter().map(String::as_str));
        let mut resident = Table::new(
            "Finish in ms on `dgx-v100`, by the share of the weights that is there (Figure 14).",
            &head,
        );
        let names: Vec<&str> = VARIANTS.iter().map(|(_, name)| *name).collect();
        let mut chart = BarChart::new("Speed-up over one GPU", Axis::from_zero("times as fast"), &names);
        let mut notes = Notes::default();
        for model in language(settings) {
            for server in ABLATED {
                let of = |method| results.of(&cell(model.cold_start(server, 0), method, settings));
                let base = of("one-gpu").and_then(|figures| figures.value_ps);
                let mut row = vec![model.name.clone(), server.to_owned()];
                row.extend(VARIANTS.map(|(method, _)| notes.factor(base, of(method))));
                variants.row(row);
                let bars = VARIANTS.map(|(method, _)| speed_up(base, of(method))).to_vec();
                chart.group(&format!("{} on {server}", model.name), bars);
            }
            for method in ["one-gpu", "auto"] {
                let mut row = vec![model.name.clone(), method.to_owned()];
                for share in RESIDENT {
                    let figures = results.of(&cell(model.cold_start("dgx-v100", share), method, settings));
                    row.push(notes.milliseconds(figures, |f| f.value_ps));
                }
                resident.row(row);
            }
        }
        let mut differs = common();
        differs.push(
            "A share that is resident is that share of every weight, wherever a plan has it land; `auto` plans anew for each \
             share, the paper runs one schedule again."
                .to_owned(),
        );
        differs.extend(notes.lines());
        let pictures = vec![Picture::new("variants", "As the paper draws them.", chart.svg())];
        Page { tables: vec![variants, resident], pictures, limits: LIMITS.to_owned(), differs }
    }
}

impl Ablations {
    /// The runs with a share of the weights resident.
    fn resident(&self, settings: &Settings) -> Vec<Cell> {
        let mut cells = Vec::new();
        for model in language(settings) {
            for resident in RESIDENT {
                let instance = model.cold_start("dgx-v100", resident);
                // Nothing resident is among the variants already.
                let one_gpu = (resident > 0).then(|| cell(instance.clone(), "one-gpu", settings));
                cells.extend(one_gpu);
                cells.push(cell(instance, "auto", settings));
            }
        }
        cells
    }
}
