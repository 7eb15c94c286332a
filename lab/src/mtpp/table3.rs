//! Table 3: lower bounds on REGAL graphs, relative to the best plan.

use super::{Method, STAGES, bounds_differ, head, limits, paper_row, ratio_rows, regal_groups};
use crate::cells::Cell;
use crate::charts::against_stages;
use crate::markdown::{Notes, Page, Picture, Table};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct Table3;

/// The paper's rows, on 1000 graphs.
const PAPER: [(&str, [f64; 6]); 4] = [
    ("simple", [0.9579, 0.8795, 0.7911, 0.5821, 0.4087, 0.3336]),
    ("bottleneck", [0.9794, 0.8818, 0.7918, 0.5824, 0.4090, 0.3338]),
    ("bottleneck-guess", [0.9804, 0.8826, 0.7918, 0.5824, 0.4090, 0.3338]),
    ("exact", [0.9804, 0.9579, 0.9407, 0.8929, 0.5910, 0.3810]),
];

impl Experiment for Table3 {
    fn name(&self) -> &'static str {
        "mtpp-table-3"
    }

    fn paper(&self) -> &'static str {
        "Practical Performance Guarantees for Pipelined DNN Inference, Table 3"
    }

    fn about(&self) -> &'static str {
        "Lower bounds for pipeline stages on REGAL graphs: the paper's programs beside ours, relative to the best plan"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "11 min",
            Mode::Full => "3 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        Method::cells(&regal_groups(), &STAGES, settings)
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut tables = Vec::new();
        let mut pictures = Vec::new();
        let mut notes = Notes::default();
        for (i, group) in regal_groups().into_iter().enumerate() {
            let caption = format!(
                "Geometric means of lower bound / best value, {} ({}); below them the paper's, on its 1000 graphs.",
                group.name,
                group.networks.len()
            );
            let mut table = Table { caption, head: head("lower bound", &STAGES), rows: Vec::new() };
            ratio_rows(&mut table, &group, &STAGES, settings, results, &mut notes);
            PAPER.into_iter().for_each(|(name, figures)| table.row(paper_row(name, figures)));
            let title = format!("Lower bound / best value, {}", group.name);
            let chart = against_stages(&title, "geometric mean", &table, &STAGES);
            let caption =
                format!("Bounds against the number of stages, {}; the paper's in dashes.", group.name);
            pictures.push(Picture::new(&format!("bounds-{}", i + 1), &caption, chart.svg()));
            tables.push(table);
        }
        let mut differs = vec![
            "REGAL's graphs are filtered for hardness under another objective, and their parameters are drawn; ours are one graph \
             of each family as `divvy generate regal` makes them. The paper does not report stochastic blocks apart."
                .to_owned(),
        ];
        differs.extend(bounds_differ());
        differs.extend(notes.lines());
        Page { tables, pictures, limits: limits(settings), differs }
    }
}
