//! Throughput of groups of inputs, by method: Table IV, Figures 5, 6 and 7.

use std::time::Duration;

use divvy_core::generate::{RandomModel, RwnnOptions, Wiring};

use super::{milp_begins, rwnn_differs, solver_differs};
use crate::cells::{Cell, Work};
use crate::charts::quality_over_time;
use crate::figures::Figures;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, percent};
use crate::models::ModelFamily;
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart};

/// The planners of the paper's columns, by the paper's name and ours.
const METHODS: [(&str, &str); 9] = [
    ("BD", "one-device"),
    ("bMET", "b-met"),
    ("bGreedy", "b-greedy"),
    ("bHEFT", "b-heft"),
    ("(1+1) EA", "ea"),
    ("SA", "annealing"),
    ("MILP", "milp"),
    ("MILP-SPLIT", "milp-split"),
    ("auto", "auto"),
];

/// A network of a page, with what the paper says of it: its columns from best device to UBound, in images per second.
struct Row {
    name: String,
    instance: Instance,
    paper: Option<[f64; 9]>,
}

/// A page of throughputs.
pub(crate) struct Throughput {
    name: &'static str,
    paper: &'static str,
    about: &'static str,
    inputs: u32,
    rows: fn(&Settings) -> Vec<Row>,
    differs: fn() -> Vec<String>,
    shares_cells_of: &'static str,
}

/// Table IV.
pub(crate) const TABLE_4: Throughput = Throughput {
    name: "diviml-table-4",
    paper: "DiviML, Table IV",
    about: "Throughput of randomly wired networks of ten modules, 16 inputs at once, by method",
    inputs: 16,
    rows: table_4,
    differs: rwnn_differs,
    shares_cells_of: "diviml-table-4",
};

/// Figure 5 on the paper's server.
pub(crate) const FIGURE_5: Throughput = Throughput {
    name: "diviml-figure-5",
    paper: "DiviML, Figure 5",
    about: "Throughput of torchvision networks, 128 inputs at once, on the paper's server and on an H200 with its CPU",
    inputs: 128,
    rows: figure_5,
    differs: figure_5_differs,
    shares_cells_of: "diviml-figure-5",
};

/// Figure 6.
pub(crate) const FIGURE_6: Throughput = Throughput {
    name: "diviml-figure-6",
    paper: "DiviML, Figure 6",
    about: "Throughput of single randomly wired modules, 16 inputs at once, by method",
    inputs: 16,
    rows: figure_6,
    differs: rwnn_differs,
    shares_cells_of: "diviml-figure-6",
};

/// Figure 7: the runs of Table IV over time.
pub(crate) const FIGURE_7: Throughput = Throughput {
    name: "diviml-figure-7",
    paper: "DiviML, Figure 7",
    about: "The runs of Table IV: solution quality over time of the methods that search",
    inputs: 16,
    rows: table_4,
    differs: rwnn_differs,
    shares_cells_of: "diviml-table-4",
};

fn table_4(_: &Settings) -> Vec<Row> {
    let rows: [(&str, Wiring, u32, [f64; 9]); 7] = [
        ("1-chan", Wiring::Sdep, 1, [54.0, 56.0, 74.0, 75.0, 84.0, 87.0, 114.0, 135.0, 164.0]),
        ("sdep, 2-chan", Wiring::Sdep, 2, [48.0, 50.0, 67.0, 66.0, 75.0, 78.0, 95.0, 119.0, 180.0]),
        ("sdep, 3-chan", Wiring::Sdep, 3, [49.0, 51.0, 68.0, 70.0, 78.0, 81.0, 116.0, 129.0, 196.0]),
        ("sdep, 4-chan", Wiring::Sdep, 4, [47.0, 48.0, 65.0, 67.0, 76.0, 79.0, 73.0, 126.0, 209.0]),
        ("wdep, 2-chan", Wiring::Wdep, 2, [51.0, 53.0, 76.0, 75.0, 86.0, 87.0, 89.0, 137.0, 182.0]),
        ("wdep, 3-chan", Wiring::Wdep, 3, [49.0, 52.0, 73.0, 73.0, 82.0, 85.0, 72.0, 137.0, 181.0]),
        ("wdep, 4-chan", Wiring::Wdep, 4, [47.0, 50.0, 72.0, 74.0, 82.0, 84.0, 65.0, 138.0, 207.0]),
    ];
    let row = |(name, wiring, channels, paper): (&str, Wiring, u32, [f64; 9])| Row {
        name: name.to_owned(),
        instance: batch(RwnnOptions { wiring, channels, ..RwnnOptions::default() }),
        paper: Some(paper),
    };
    rows.into_iter().map(row).collect()
}

fn figure_6(_: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    for model in [RandomModel::WS, RandomModel::ER, RandomModel::BA] {
        for nodes in [10, 32] {
            rows.push(Row {
                name: format!("{}, {nodes} nodes", model.name().to_uppercase()),
                instance: batch(RwnnOptions { model, nodes, modules: 1, ..RwnnOptions::default() }),
                paper: None,
            });
        }
    }
    rows
}

fn batch(options: RwnnOptions) -> Instance {
    Instance::Batch(Box::new(Instance::Rwnn(options)), 16)
}

fn figure_5(settings: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    for hardware in ["cpu-t4-a100", "h200-cpu"] {
        for model in settings.models.iter().filter(|model| model.family == ModelFamily::Vision) {
            rows.push(Row {
                name: format!("{} on {hardware}", model.name),
                instance: Instance::Batch(Box::new(model.on(hardware)), 128),
                paper: None,
            });
        }
    }
    rows
}

fn figure_5_differs() -> Vec<String> {
    vec![
        "The paper draws bars without figures; its text gives up to 2.9 times the throughput of the best device.".to_owned(),
        "Times: on `h200-cpu` they were measured at batch sizes 32, 64, 96 and 128; on `cpu-t4-a100` they are carried over from those \
         by roofline."
            .to_owned(),
        solver_differs(),
    ]
}

fn limit(settings: &Settings, planner: &str) -> Duration {
    settings.limit(10, if planner == "milp" { 7200 } else { 600 })
}

fn cell(row: &Row, planner: &'static str, settings: &Settings) -> Cell {
    Cell { instance: row.instance.clone(), work: Work::Plan(planner), limit: limit(settings, planner) }
}

impl Throughput {
    fn per_second(&self, ps: u64) -> f64 {
        f64::from(self.inputs) / (ps as f64 / 1e12)
    }

    fn field(
        &self,
        figures: Option<&Figures>,
        value: fn(&Figures) -> Option<u64>,
        notes: &mut Notes,
    ) -> String {
        match figures.and_then(value) {
            Some(ps) => format!("{:.1}", self.per_second(ps)),
            None => notes.milliseconds(figures, value),
        }
    }

    fn bars(&self, settings: &Settings, results: &Results) -> BarChart {
        let names: Vec<&str> = METHODS.iter().map(|&(column, _)| column).collect();
        let mut chart =
            BarChart::new("Throughput by method, ours", Axis::from_zero("inputs per second"), &names);
        for row in (self.rows)(settings) {
            let of = |planner| Some(self.per_second(results.of(&cell(&row, planner, settings))?.value_ps?));
            chart.group(&row.name, METHODS.iter().map(|&(_, planner)| of(planner)).collect());
        }
        chart
    }

    fn over_time(&self, settings: &Settings, results: &Results) -> Vec<Picture> {
        let searches = [
            ("auto", "auto"),
            ("(1+1) EA", "ea"),
            ("SA", "annealing"),
            ("MILP", "milp"),
            ("MILP-SPLIT", "milp-split"),
        ];
        let picture = |(number, row): (usize, Row)| {
            let runs: Vec<(&str, Option<&Figures>, bool)> = searches
                .iter()
                .map(|&(name, planner)| (name, results.of(&cell(&row, planner, settings)), planner == "auto"))
                .collect();
            let title = format!("{}: finish of all inputs so far", row.name);
            let caption = format!("{}: value over time, and the bound of `auto`.", row.name);
            Picture::new(
                &format!("over-time-{}", number + 1),
                &caption,
                quality_over_time(&title, &runs).svg(),
            )
        };
        (self.rows)(settings).into_iter().enumerate().map(picture).collect()
    }
}

impl Experiment for Throughput {
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
            Mode::Quick => "10 min",
            Mode::Full => "20 h",
        }
    }

    fn shares_cells_of(&self) -> &'static str {
        self.shares_cells_of
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let cells = |row: &Row| METHODS.map(|(_, planner)| cell(row, planner, settings));
        (self.rows)(settings).iter().flat_map(cells).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let columns = || METHODS.iter().map(|&(column, _)| column);
        let head: Vec<&str> = ["model"]
            .into_iter()
            .chain(columns())
            .chain(["bound", "gap", "over the best heuristic"])
            .collect();
        let caption = "Ours, in inputs per second. `bound` and `gap` are what `auto` proved of its own plan; the last column is `auto` \
                       over the best of bHEFT, (1+1) EA and SA.";
        let mut ours = Table::new(caption, &head);
        let mut notes = Notes::default();
        let mut theirs_rows = Vec::new();
        for row in (self.rows)(settings) {
            let figures: Vec<Option<&Figures>> =
                METHODS.iter().map(|&(_, planner)| results.of(&cell(&row, planner, settings))).collect();
            let mut fields = vec![row.name.clone()];
            fields.extend(figures.iter().map(|f| self.field(*f, |f| f.value_ps, &mut notes)));
            let auto = figures[METHODS.len() - 1];
            fields.push(self.field(auto, |f| f.bound_ps, &mut notes));
            fields.push(percent(auto.and_then(Figures::gap)));
            let heuristics = figures[3..6].iter().filter_map(|f| f.and_then(|f| f.value_ps)).min();
            let more = heuristics.zip(auto.and_then(|f| f.value_ps)).map(|(h, a)| h as f64 / a as f64 - 1.0);
            fields.push(more.map_or("–".to_owned(), |more| format!("{:+.1} %", more * 100.0)));
            ours.row(fields);
            theirs_rows.extend(row.paper.map(|paper| (row.name, paper)));
        }
        let mut tables = vec![ours];
        if !theirs_rows.is_empty() {
            let head: Vec<&str> = ["model"].into_iter().chain(columns().take(8)).chain(["UBound"]).collect();
            let mut theirs = Table::new("Theirs (DiviML, Table IV), in images per second.", &head);
            for (name, paper) in theirs_rows {
                let fields = paper.iter().map(|value| format!("{value:.0}"));
                theirs.row([name].into_iter().chain(fields).collect());
            }
            tables.push(theirs);
        }
        let mut differs = (self.differs)();
        differs.push(milp_begins());
        differs.push(
            "SA and (1+1) EA: a string of devices, one for each op and quarter of the inputs. The paper's text gives one device for \
             each op, which would leave no op divided."
                .to_owned(),
        );
        differs.push(
            "UBound: the paper's recursive formula for batches is not proved where there are two channels or more. In its place stands \
             the bound of `auto`, which is verified."
                .to_owned(),
        );
        differs.extend(notes.lines());
        let pictures = if self.name == FIGURE_7.name {
            self.over_time(settings, results)
        } else {
            vec![Picture::new("throughput", "Ours.", self.bars(settings, results).svg())]
        };
        let limits = match (settings.time, settings.mode) {
            (Some(time), _) => format!("{time:?} a run"),
            (None, Mode::Quick) => "10 s a run".to_owned(),
            (None, Mode::Full) => "2 h for MILP, 10 min for every other run, as in the paper".to_owned(),
        };
        Page { tables, pictures, limits, differs }
    }
}
