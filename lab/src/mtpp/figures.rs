//! Figures 4 and 5: what the bounds take, on real models and on REGAL graphs; and what they give for it.

use super::{
    Compared, Group, Method, THREE_STAGES, bounds_differ, head, limits, paper_row, ratio_rows, real_group,
    real_models_differ, regal_groups,
};
use crate::cells::Cell;
use crate::figures::Figures;
use crate::markdown::{Notes, Page, Picture, Table, seconds};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, LineChart, Series};

pub(crate) struct Times {
    name: &'static str,
    paper: &'static str,
    about: &'static str,
    durations: [&'static str; 2],
    networks: Networks,
}

enum Networks {
    Real,
    Regal,
}

pub(crate) const FIGURE_4: Times = Times {
    name: "mtpp-figure-4",
    paper: "Practical Performance Guarantees for Pipelined DNN Inference, Figure 4 and Table 1",
    about: "Real models in pipeline stages: what each search and lower bound takes, and what it gives",
    durations: ["6 min", "2 h"],
    networks: Networks::Real,
};

pub(crate) const FIGURE_5: Times = Times {
    name: "mtpp-figure-5",
    paper: "Practical Performance Guarantees for Pipelined DNN Inference, Figure 5",
    about: "REGAL graphs in pipeline stages: what each search and lower bound takes (runs of mtpp-table-3)",
    durations: ["6 min, or none after mtpp-table-3", "2 h, or none after mtpp-table-3"],
    networks: Networks::Regal,
};

/// The paper's Table 1 for the three numbers of stages.
const TABLE_1: [(&str, [f64; 3]); 4] = [
    ("simple", [0.6627, 0.4598, 0.4401]),
    ("bottleneck", [0.7911, 0.5770, 0.5543]),
    ("bottleneck-guess", [0.8446, 0.5780, 0.5543]),
    ("exact", [0.9737, 0.9452, 0.7874]),
];

impl Times {
    fn groups(&self, settings: &Settings) -> Vec<Group> {
        match self.networks {
            Networks::Real => vec![real_group(settings)],
            Networks::Regal => regal_groups(),
        }
    }

    /// Seconds of every method: the median over the networks, and the most.
    fn times(&self, settings: &Settings, results: &Results, notes: &mut Notes) -> Table {
        let caption = "Seconds from start to end, reading the network included: median over all networks, and the most.";
        let mut table =
            Table { caption: caption.to_owned(), head: head("method", &THREE_STAGES), rows: vec![] };
        let groups = self.groups(settings);
        for method in Method::ALL {
            let mut row = vec![method.name().to_owned()];
            for stages in THREE_STAGES {
                let networks = groups.iter().flat_map(|group| &group.networks);
                let took = networks.filter_map(|network| {
                    Compared { results, settings, network, stages }.of(method).map(|figures| figures.seconds)
                });
                let mut took: Vec<f64> = took.collect();
                took.sort_by(f64::total_cmp);
                row.push(match took.last() {
                    Some(&most) => {
                        format!("{}, {}", seconds(Some(took[took.len() / 2])), seconds(Some(most)))
                    }
                    None => notes.mark("not run yet"),
                });
            }
            table.row(row);
        }
        table
    }

    fn picture(&self, stages: u32, settings: &Settings, results: &Results) -> Picture {
        let title = format!("Time against ops, {stages} stages");
        let mut chart = LineChart::new(&title, Axis::log("ops"), Axis::log("seconds"));
        for method in Method::ALL {
            let groups = self.groups(settings);
            let point = |figures: &Figures| (figures.ops as f64, figures.seconds.max(1e-3));
            let mut points: Vec<(f64, f64)> = groups
                .iter()
                .flat_map(|group| &group.networks)
                .filter_map(|network| Compared { results, settings, network, stages }.of(method))
                .filter(|figures| figures.ops > 0)
                .map(point)
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let series = Series::new(method.name(), points);
            // The bounds that are not the paper's.
            chart = chart.with(if method.is_our_bound() { series.dashed() } else { series });
        }
        let caption =
            format!("{stages} stages: a dot for every network, joined by method; our own bounds in dashes.");
        Picture::new(&format!("{stages}-stages"), &caption, chart.svg())
    }
}

impl Experiment for Times {
    fn name(&self) -> &'static str {
        self.name
    }

    fn paper(&self) -> &'static str {
        self.paper
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => self.durations[0],
            Mode::Full => self.durations[1],
        }
    }

    fn shares_cells_of(&self) -> &'static str {
        match self.networks {
            Networks::Real => self.name,
            Networks::Regal => "mtpp-table-3",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        Method::cells(&self.groups(settings), &THREE_STAGES, settings)
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut notes = Notes::default();
        let mut tables = vec![self.times(settings, results, &mut notes)];
        for group in self.groups(settings) {
            let with_paper = matches!(self.networks, Networks::Real);
            let caption = format!(
                "What they give: geometric means of lower bound / best value, {} ({}){}.",
                group.name,
                group.networks.len(),
                if with_paper { "; below them the paper's Table 1, on its 369 models" } else { "" }
            );
            let mut table = Table { caption, head: head("lower bound", &THREE_STAGES), rows: Vec::new() };
            ratio_rows(&mut table, &group, &THREE_STAGES, settings, results, &mut notes);
            if with_paper {
                TABLE_1.into_iter().for_each(|(name, figures)| table.row(paper_row(name, figures)));
            }
            tables.push(table);
        }
        let pictures = THREE_STAGES.map(|stages| self.picture(stages, settings, results)).into();
        let mut differs = vec![
            "The paper shows times as a cloud of dots without figures: its programs take from a second to the limit of an hour, \
             four orders of magnitude more than SliceGraph. Here no run may take longer than the limit, so that what a method \
             gives within it is what compares."
                .to_owned(),
            "The paper shows three numbers of stages without saying in its text which; ours are 4, 16 and 64.".to_owned(),
        ];
        if matches!(self.networks, Networks::Real) {
            differs.push("The paper's models are not public: ours are others.".to_owned());
            differs.push(real_models_differ());
        }
        differs.extend(bounds_differ());
        differs.extend(notes.lines());
        Page { tables, pictures, limits: limits(settings), differs }
    }
}
