//! Table V: GPT-3 on six servers, one of them planned and repeated, or all at once.

use super::{milp_begins, solver_differs};
use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::{ClusterNetwork, Instance};
use crate::markdown::{Notes, Page, Table, percent, seconds};
use crate::{Experiment, Mode, Results, Settings};

pub(crate) struct Table5;

/// Inputs at once; the paper does not say how many.
const INPUTS: u32 = 16;
const NODES: u32 = 6;

/// Name, whether one node with a sixth of the layers is planned and repeated, what is run, and the paper's inputs per second.
const ROWS: [(&str, bool, Work, Option<f64>); 7] = [
    ("Single node, MILP", true, Work::Plan("milp"), Some(4.8)),
    ("Single node, MILP-SPLIT", true, Work::Plan("milp-split"), Some(5.7)),
    ("Multi node, MILP-SPLIT, no symmetries", false, Work::Plan("milp-split"), Some(5.0)),
    ("Multi node, MILP-SPLIT, batches", false, Work::PlanApart("milp-split", "batches"), Some(5.6)),
    ("Multi node, MILP-SPLIT, tasks", false, Work::PlanApart("milp-split", "tasks"), Some(6.3)),
    ("Multi node, MILP-SPLIT, time", false, Work::PlanApart("milp-split", "time"), Some(6.3)),
    ("auto", false, Work::Plan("auto"), None),
];

fn cell(one_node: bool, work: &Work, settings: &Settings) -> Cell {
    let network = ClusterNetwork {
        name: "gpt3",
        layers: one_node.then_some(96 / NODES),
        tokens: 20,
        nodes: if one_node { 1 } else { NODES },
        gpus_only: false,
    };
    let instance = Instance::Batch(Box::new(Instance::Cluster(network)), INPUTS);
    Cell { instance, work: work.clone(), limit: settings.limit(60, 600) }
}

impl Experiment for Table5 {
    fn name(&self) -> &'static str {
        "diviml-table-5"
    }

    fn paper(&self) -> &'static str {
        "DiviML, Table V"
    }

    fn about(&self) -> &'static str {
        "GPT-3 on six servers: one planned and repeated, all at once by each criterion of symmetry, and auto"
    }

    fn duration(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::Quick => "8 min",
            Mode::Full => "70 min",
        }
    }

    fn cells(&self, settings: &Settings) -> Vec<Cell> {
        ROWS.iter().map(|(_, one_node, work, _)| cell(*one_node, work, settings)).collect()
    }

    fn page(&self, settings: &Settings, results: &Results) -> Page {
        let mut table = Table::new(
            "Inputs per second; `first plan` is the time to any plan at all. The bound is that of `auto`.",
            &["heuristic", "ours", "first plan", "gap to the bound", "theirs"],
        );
        let mut notes = Notes::default();
        let auto = results.of(&cell(false, &Work::Plan("auto"), settings));
        let bound = auto.and_then(|figures| figures.bound_ps);
        let per_second = |ps: f64| f64::from(INPUTS) / (ps / 1e12);
        for (name, one_node, work, paper) in &ROWS {
            let figures = results.of(&cell(*one_node, work, settings));
            let repeated = if *one_node { f64::from(NODES) } else { 1.0 };
            let value = figures.and_then(|figures| figures.value_ps).map(|ps| ps as f64 * repeated);
            let ours = match value {
                Some(ps) => format!("{:.1}", per_second(ps)),
                None => notes.milliseconds(figures, |f| f.value_ps),
            };
            let first = |figures: &Figures| {
                figures.history.iter().find(|moment| moment.value_ps.is_some()).map(|moment| moment.seconds)
            };
            let gap = value.zip(bound).map(|(value, bound)| value / bound as f64 - 1.0);
            let theirs = paper.map_or("–".to_owned(), |paper| format!("{paper:.1}"));
            table.row(vec![(*name).to_owned(), ours, seconds(figures.and_then(first)), percent(gap), theirs]);
        }
        let ours = bound.map_or("–".to_owned(), |ps| format!("{:.1}", per_second(ps as f64)));
        table.row(vec!["bound".to_owned(), ours, "–".to_owned(), "–".to_owned(), "9.9".to_owned()]);
        let mut differs = vec![
            format!(
                "The paper does not say how many inputs are taken at once, nor how long a step is. Here: {INPUTS} inputs of 20 tokens, \
                 all tokens in one step, batches of 4, 8, 12 and 16."
            ),
            "Single node: a network of 16 layers on one server, its finish times six. What goes from server to server is left out, and \
             the embedding and the head are there six times."
                .to_owned(),
            "Times are estimated from data sheets (roofline, fp16); memory limits hold, with weights once for each device."
                .to_owned(),
            solver_differs(),
            milp_begins(),
        ];
        differs.extend(notes.lines());
        let limits = format!("{:?} a run", settings.limit(60, 600));
        Page { tables: vec![table], pictures: Vec::new(), limits, differs }
    }
}
