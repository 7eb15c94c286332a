//! Table I: latency of randomly wired networks of ten modules, by method.

use divvy_core::generate::Wiring;

use super::{
    METHODS, every_field, every_head, every_method, lbound, limits, method_bars, rwnn_differs,
    search_over_time, stacked,
};
use crate::cells::Cell;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::{Axis, BarChart};

pub(crate) struct Table1;

/// The paper's rows: name, our wiring and channels, then its columns from best device to LBound, in milliseconds.
const ROWS: [(&str, Wiring, u32, [f64; 9]); 7] = [
    ("1-chan", Wiring::Sdep, 1, [211.7, 209.9, 104.4, 99.9, 97.5, 98.9, 80.1, 80.1, 80.1]),
    ("sdep, 2-chan", Wiring::Sdep, 2, [234.9, 219.3, 111.8, 109.3, 103.8, 106.2, 78.9, 79.1, 73.7]),
    ("sdep, 3-chan", Wiring::Sdep, 3, [236.5, 235.4, 114.2, 108.5, 104.7, 106.1, 79.9, 80.3, 68.1]),
    ("sdep, 4-chan", Wiring::Sdep, 4, [250.5, 249.1, 116.3, 111.3, 107.6, 109.5, 79.1, 79.4, 61.3]),
    ("wdep, 2-chan", Wiring::Wdep, 2, [225.2, 223.8, 103.7, 101.7, 97.3, 98.1, 74.3, 77.6, 73.3]),
    ("wdep, 3-chan", Wiring::Wdep, 3, [229.9, 229.3, 107.4, 104.3, 100.9, 103.1, 76.6, 78.7, 71.8]),
    ("wdep, 4-chan", Wiring::Wdep, 4, [242.9, 240.7, 106.8, 104.4, 102.0, 103.6, 71.6, 77.0, 62.1]),
];

fn instance(wiring: Wiring, channels: u32) -> Instance {
    stacked(wiring, channels, 10)
}

/// Our bars and the paper's in one look, and how the methods came to their values on the last network.
fn pictures(settings: &Settings, results: &Results) -> Vec<Picture> {
    let networks =
        ROWS.iter().map(|&(name, wiring, channels, _)| (name.to_owned(), instance(wiring, channels)));
    let axis = || Axis::from_zero("ms");
    let ours =
        method_bars("Latency by method, ours", axis(), networks, settings, results, |values, i| values[i]);
    let names: Vec<&str> = METHODS.iter().map(|&(column, _)| column).collect();
    let mut theirs = BarChart::new("Latency by method, DiviML's Table I", axis(), &names);
    for (name, _, _, paper) in ROWS {
        theirs.group(name, paper[..names.len()].iter().copied().map(Some).collect());
    }
    let (name, wiring, channels, _) = ROWS[ROWS.len() - 1];
    let title = format!("{name}: best latency so far");
    let search = search_over_time(&title, &instance(wiring, channels), settings, results);
    vec![
        Picture::new("ours", "Ours.", ours.svg()),
        Picture::new("theirs", "Theirs, drawn from the paper's table.", theirs.svg()),
        Picture::new(
            "search",
            "Value over time of the methods that search, and the bound of `auto`.",
            search.svg(),
        ),
    ]
}

impl Experiment for Table1 {
    fn name(&self) -> &'static str {
        "diviml-table-1"
    }

    fn paper(&self) -> &'static str {
        "DiviML, Table I"
    }

    fn about(&self) -> &'static str {
        "Latency of randomly wired networks of ten modules, by method"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "2 min",
            Mode::Full => "20 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let row = |&(_, wiring, channels, _): &(&str, Wiring, u32, [f64; 9])| {
            let instance = instance(wiring, channels);
            let mut cells = every_method(&instance, settings);
            cells.push(lbound(&instance, settings));
            cells
        };
        ROWS.iter().flat_map(row).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let head: Vec<&str> = ["model"].into_iter().chain(every_head()).chain(["LBound"]).collect();
        let mut ours =
            Table::new("Ours, in ms. `bound` and `gap` are what `auto` proved of its own plan.", &head);
        let mut notes = Notes::default();
        for (name, wiring, channels, _) in ROWS {
            let instance = instance(wiring, channels);
            let mut row = vec![name.to_owned()];
            row.extend(every_field(&instance, settings, results, &mut notes));
            let proved = results.of(&lbound(&instance, settings));
            row.push(notes.milliseconds(proved, |figures| figures.bound_ps));
            ours.row(row);
        }
        let head: Vec<&str> = ["model"]
            .into_iter()
            .chain(METHODS.iter().map(|&(column, _)| column))
            .chain(["LBound"])
            .collect();
        let mut theirs = Table::new("Theirs (DiviML, Table I), in ms.", &head);
        let mut relative = Table::new(
            "How far each method is above MILP-SPLIT of the same table: ours / theirs.",
            &head[..8],
        );
        for (name, wiring, channels, paper) in ROWS {
            let fields = paper.iter().map(|ms| format!("{ms:.1}"));
            theirs.row([name.to_owned()].into_iter().chain(fields).collect());
            let cells = every_method(&instance(wiring, channels), settings);
            let values: Vec<Option<f64>> =
                cells.iter().map(|cell| Some(results.of(cell)?.value_ps? as f64)).collect();
            let above = |value: Option<f64>, split: Option<f64>| match (value, split) {
                (Some(value), Some(split)) => format!("{:+.0} %", (value / split - 1.0) * 100.0),
                _ => "–".to_owned(),
            };
            let fields = (0..7).map(|i| {
                format!("{} / {}", above(values[i], values[7]), above(Some(paper[i]), Some(paper[7])))
            });
            relative.row([name.to_owned()].into_iter().chain(fields).collect());
        }
        let mut differs = rwnn_differs();
        differs.push(
            "LBound: the paper's recursive formula is no bound where a sink of a module is not an output of its channels; \
             ours refuses there and says so. It is attested by HiGHS, not verified."
                .to_owned(),
        );
        differs.extend(notes.lines());
        let pictures = pictures(settings, results);
        Page { tables: vec![ours, theirs, relative], pictures, limits: limits(settings), differs }
    }
}
