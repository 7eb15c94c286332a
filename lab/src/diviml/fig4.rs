//! Figure 4: latency of single modules of randomly wired networks, by method.

use divvy_core::generate::{RandomModel, RwnnOptions};

use super::{every_field, every_head, every_method, limits, method_bars, rwnn_differs, search_over_time};
use crate::cells::Cell;
use crate::instances::Instance;
use crate::markdown::{Notes, Page, Picture, Table, factor, percent};
use crate::{Experiment, Mode, Results, Settings};
use divvy_io::svg::Axis;

pub(crate) struct Figure4;

/// The paper's six networks.
const NETWORKS: [(&str, RandomModel, u32); 6] = [
    ("ER(0.2), N = 10", RandomModel::ER, 10),
    ("WS(4, 0.75), N = 10", RandomModel::WS, 10),
    ("BA(5), N = 10", RandomModel::BA, 10),
    ("ER(0.2), N = 32", RandomModel::ER, 32),
    ("WS(4, 0.75), N = 32", RandomModel::WS, 32),
    ("BA(5), N = 32", RandomModel::BA, 32),
];

fn instance(model: RandomModel, nodes: u32) -> Instance {
    Instance::Rwnn(RwnnOptions { model, nodes, modules: 1, ..RwnnOptions::default() })
}

impl Experiment for Figure4 {
    fn name(&self) -> &'static str {
        "diviml-figure-4"
    }

    fn paper(&self) -> &'static str {
        "DiviML, Figure 4"
    }

    fn about(&self) -> &'static str {
        "Latency of single randomly wired modules, by method"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "1 min",
            Mode::Full => "15 h",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        NETWORKS
            .iter()
            .flat_map(|&(_, model, nodes)| every_method(&instance(model, nodes), settings))
            .collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let head: Vec<&str> = ["module"].into_iter().chain(every_head()).collect();
        let mut ours = Table::new("Ours, in ms.", &head);
        let mut claims = Table::new(
            "What the paper's text says of its figure, and ours. Heuristics: MET, Greedy, HEFT, EA, SA.",
            &[
                "module",
                "best device / MILP, paper",
                "best device / MILP",
                "best device / auto",
                "best heuristic above MILP, paper",
                "best heuristic above MILP",
                "best heuristic above auto",
            ],
        );
        let mut notes = Notes::default();
        for (name, model, nodes) in NETWORKS {
            let instance = instance(model, nodes);
            let mut row = vec![name.to_owned()];
            row.extend(every_field(&instance, settings, results, &mut notes));
            ours.row(row);
            let values: Vec<Option<f64>> = every_method(&instance, settings)
                .iter()
                .map(|cell| Some(results.of(cell)?.value_ps? as f64))
                .collect();
            let (device, milp, auto) = (values[0], values[6], values[8]);
            let heuristic = values[1..6].iter().flatten().copied().reduce(f64::min);
            let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
            let above = |a, b| percent(ratio(a, b).map(|ratio| ratio - 1.0));
            claims.row(vec![
                name.to_owned(),
                "about 2×".to_owned(),
                factor(ratio(device, milp)),
                factor(ratio(device, auto)),
                "22–26 %".to_owned(),
                above(heuristic, milp),
                above(heuristic, auto),
            ]);
        }
        let mut differs = rwnn_differs();
        differs.push(
            "The paper draws bars without figures; its text gives the two claims above for all modules together, and says that \
             MILP reaches the optimum."
                .to_owned(),
        );
        differs.extend(notes.lines());
        let named = NETWORKS.iter().map(|&(name, model, nodes)| (name.to_owned(), instance(model, nodes)));
        let bars =
            method_bars("Latency by method", Axis::from_zero("ms"), named, settings, results, |values, i| {
                values[i]
            });
        let (name, model, nodes) = NETWORKS[3];
        let title = format!("{name}: best latency so far");
        let search = search_over_time(&title, &instance(model, nodes), settings, results);
        let pictures = vec![
            Picture::new("latency", "Ours, as the paper draws it.", bars.svg()),
            Picture::new(
                "search",
                "Value over time of the methods that search, and the bound of `auto`.",
                search.svg(),
            ),
        ];
        Page { tables: vec![ours, claims], pictures, limits: limits(settings), differs }
    }
}
