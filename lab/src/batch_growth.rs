//! How time and quality under `batch` grow with the number of devices: our own table.

use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::{ClusterNetwork, Instance};
use crate::markdown::{Notes, Page, Table, percent, seconds};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct BatchGrowth;

/// Servers of four GPUs each.
const NODES: [u32; 4] = [1, 4, 16, 128];
const INPUTS: u32 = 1000;

fn cell(nodes: u32, planner: &'static str, settings: &Settings) -> Cell {
    let network = ClusterNetwork { name: "gpt2-xl", layers: None, tokens: 20, nodes, gpus_only: true };
    let instance = Instance::Batch(Box::new(Instance::Cluster(network)), INPUTS);
    Cell { instance, work: Work::Plan(planner), limit: settings.limit(20, 120) }
}

impl Experiment for BatchGrowth {
    fn name(&self) -> &'static str {
        "batch-growth"
    }

    fn paper(&self) -> &'static str {
        "Ours, no paper"
    }

    fn about(&self) -> &'static str {
        "GPT-2 XL for 1000 inputs on 4 to 512 GPUs: time, value and gap of auto beside b-HEFT"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "3 min",
            Mode::Full => "16 min",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        NODES.iter().flat_map(|&nodes| ["b-heft", "auto"].map(|p| cell(nodes, p, settings))).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Values in ms, times in seconds.",
            &["devices", "b-HEFT", "b-HEFT took", "auto", "first plan", "gap", "inputs per second"],
        );
        let mut notes = Notes::default();
        for nodes in NODES {
            let [heft, auto] = ["b-heft", "auto"].map(|planner| results.of(&cell(nodes, planner, settings)));
            let first = |figures: &Figures| {
                figures.history.iter().find(|moment| moment.value_ps.is_some()).map(|moment| moment.seconds)
            };
            let rate = auto.and_then(|f| f.value_ps).map(|ps| f64::from(INPUTS) / (ps as f64 / 1e12));
            table.row(vec![
                (4 * nodes).to_string(),
                notes.milliseconds(heft, |f| f.value_ps),
                seconds(heft.map(|f| f.seconds)),
                notes.milliseconds(auto, |f| f.value_ps),
                seconds(auto.and_then(first)),
                percent(auto.and_then(Figures::gap)),
                rate.map_or("–".to_owned(), |rate| format!("{rate:.0}")),
            ]);
        }
        let mut differs = vec![
            "Servers of two A100 and two T4 as in `gpt3-6-nodes`, on one network; batches of a quarter, half, three quarters and all of \
             the inputs, so that at most four devices share an op."
                .to_owned(),
        ];
        differs.extend(notes.lines());
        let limits = format!("{:?} a run", settings.limit(20, 120));
        Page { tables: vec![table], pictures: Vec::new(), limits, differs }
    }
}
