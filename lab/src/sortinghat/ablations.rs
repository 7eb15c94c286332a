//! SortingHat's section 4.4: one thing turned up or off at a time, and weights that are still there.

use std::collections::HashSet;

use super::{LIMITS, cell, common, language, speed_up};
use crate::cells::Cell;
use crate::markdown::{Notes, Page, Picture, Table};
use crate::models::Model;
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart};

pub(crate) struct Ablations;

/// A figure of variants: what is turned up or off, what the page calls it, and the paper's servers.
struct Figure {
    number: u32,
    about: &'static str,
    variants: &'static [(&'static str, &'static str)],
    servers: [&'static str; 2],
}

const FIGURES: [Figure; 2] = [
    Figure {
        number: 12,
        about: "how far is searched",
        variants: &[
            ("sortinghat", "q = 6, one dominator, 2 s"),
            ("sortinghat-1", "1 s"),
            ("sortinghat-5", "5 s"),
            ("sortinghat-two-dominators", "two dominators"),
            ("sortinghat-q12", "q = 12"),
        ],
        servers: ["dgx-v100", "a6000-3"],
    },
    Figure {
        number: 13,
        about: "what is known of the server",
        variants: &[
            ("sortinghat", "sortinghat"),
            ("sortinghat-no-topology", "average devices"),
            ("sortinghat-no-turns", "buses not shared"),
        ],
        servers: ["dgx-v100", "dgx-v100-mixed"],
    },
];

/// Percent of the weights that are resident, and the smallest and the largest of the paper's models.
const RESIDENT: [u32; 5] = [0, 25, 50, 75, 100];
const SMALLEST_AND_LARGEST: [&str; 2] = ["gpt2-large", "open_llama_7b"];

/// The models of Figure 14.
fn with_residents(settings: &Settings) -> Vec<&Model> {
    let named = |model: &&Model| SMALLEST_AND_LARGEST.iter().any(|name| model.name.starts_with(name));
    language(settings).into_iter().filter(named).collect()
}

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
        let mut cells: Vec<Cell> = Vec::new();
        for model in with_residents(settings) {
            for resident in RESIDENT {
                let instance = model.cold_start("dgx-v100", resident);
                cells.extend(["one-gpu", "auto"].map(|method| cell(instance.clone(), method, settings)));
            }
        }
        // All of a model, then the next: a run that is stopped has whole rows.
        for model in language(settings) {
            for figure in &FIGURES {
                for server in figure.servers {
                    let methods =
                        ["one-gpu"].into_iter().chain(figure.variants.iter().map(|(method, _)| *method));
                    cells.extend(methods.map(|method| cell(model.cold_start(server, 0), method, settings)));
                }
            }
        }
        // Some are in both figures.
        let mut seen = HashSet::new();
        cells.retain(|cell| seen.insert(cell.key()));
        cells
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut notes = Notes::default();
        let (mut tables, mut pictures) = (Vec::new(), Vec::new());
        for figure in &FIGURES {
            let names: Vec<&str> = figure.variants.iter().map(|(_, name)| *name).collect();
            let mut head = vec!["model", "on"];
            head.extend(&names);
            let caption = format!(
                "Figure {}, {}: speed-up over `one-gpu`; 2 s for each submodel where nothing else is said.",
                figure.number, figure.about
            );
            let mut table = Table::new(&caption, &head);
            let mut chart = BarChart::new("Speed-up over one GPU", Axis::from_zero("times as fast"), &names);
            for model in language(settings) {
                for server in figure.servers {
                    let of = |method| results.of(&cell(model.cold_start(server, 0), method, settings));
                    let base = of("one-gpu").and_then(|figures| figures.value_ps);
                    let mut row = vec![model.name.clone(), server.to_owned()];
                    row.extend(figure.variants.iter().map(|(method, _)| notes.factor(base, of(method))));
                    table.row(row);
                    let bars = figure.variants.iter().map(|(method, _)| speed_up(base, of(method))).collect();
                    chart.group(&format!("{} on {server}", model.name), bars);
                }
            }
            tables.push(table);
            let name = format!("figure-{}", figure.number);
            pictures.push(Picture::new(
                &name,
                &format!("Figure {} of the paper.", figure.number),
                chart.svg(),
            ));
        }
        let shares: Vec<String> = RESIDENT.iter().map(|share| format!("{share} % resident")).collect();
        let mut head: Vec<&str> = vec!["model", "method"];
        head.extend(shares.iter().map(String::as_str));
        let mut resident = Table::new(
            "Figure 14: finish in ms on `dgx-v100`, by the share of the weights that is there.",
            &head,
        );
        for model in with_residents(settings) {
            for method in ["one-gpu", "auto"] {
                let mut row = vec![model.name.clone(), method.to_owned()];
                for share in RESIDENT {
                    let figures = results.of(&cell(model.cold_start("dgx-v100", share), method, settings));
                    row.push(notes.milliseconds(figures, |f| f.value_ps));
                }
                resident.row(row);
            }
        }
        tables.push(resident);
        let mut differs = common();
        differs.push(
            "A share that is resident is that share of every weight, wherever a plan has it land; `auto` plans anew for each \
             share, the paper runs one schedule again."
                .to_owned(),
        );
        differs.push("The paper gives each submodel of Figure 13 30 s, this page 2 s.".to_owned());
        differs.extend(notes.lines());
        Page { tables, pictures, limits: LIMITS.to_owned(), differs }
    }
}
