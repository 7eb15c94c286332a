//! Tables and figures of Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), which
//! calls the problem MTPP.
//!
//! The paper's 369 production models are not public; real models stand for them. Its REGAL graphs are generated here, one
//! of each family; stochastic-block graphs, the hardest, are reported apart.

pub(crate) mod figures;
pub(crate) mod table2;
pub(crate) mod table3;

use divvy_core::generate::{RegalFamily, RegalOptions};

use crate::cells::{Cell, Work};
use crate::figures::Figures;
use crate::instances::{Instance, STAGE_BANDWIDTH};
use crate::markdown::Notes;
use crate::models::Model;
use crate::{Results, Settings};

/// The paper's numbers of stages.
const STAGES: [u32; 6] = [2, 4, 8, 16, 32, 64];
/// Three of them, where the paper shows three without saying which.
const THREE_STAGES: [u32; 3] = [4, 16, 64];
/// The generated graphs: sizes as in REGAL, 50 to 200 ops.
const REGAL: [(RegalFamily, u32); 5] = [
    (RegalFamily::Er, 150),
    (RegalFamily::Ws, 180),
    (RegalFamily::Ba, 140),
    (RegalFamily::Layered, 120),
    (RegalFamily::Sbm, 160),
];
/// Their seed.
const REGAL_SEED: u64 = 101;

/// What is cut into stages.
#[derive(Clone)]
enum Network {
    Regal(RegalOptions),
    Real(Model),
}

impl Network {
    fn in_stages(&self, stages: u32) -> Instance {
        match self {
            Network::Regal(options) => Instance::Regal(options.clone(), stages),
            Network::Real(model) => model.in_stages(stages),
        }
    }
}

/// Networks that are reported together.
struct Group {
    name: &'static str,
    networks: Vec<Network>,
}

/// REGAL graphs: stochastic blocks apart from the others.
fn regal_groups() -> Vec<Group> {
    let of = |blocks: bool| {
        let graphs = REGAL.into_iter().filter(|(family, _)| (*family == RegalFamily::Sbm) == blocks);
        graphs
            .map(|(family, nodes)| Network::Regal(RegalOptions { family, nodes, seed: REGAL_SEED }))
            .collect()
    };
    vec![
        Group { name: "REGAL graphs without stochastic blocks", networks: of(false) },
        Group { name: "REGAL graph of stochastic blocks", networks: of(true) },
    ]
}

/// The real models there are.
fn real_group(settings: &Settings) -> Group {
    Group { name: "real models", networks: settings.models.iter().cloned().map(Network::Real).collect() }
}

fn cell(network: &Network, stages: u32, work: Work, settings: &Settings) -> Cell {
    Cell { instance: network.in_stages(stages), work, limit: settings.limit(3, 60) }
}

fn limits(settings: &Settings) -> String {
    format!("{:?} a run, the same for every method", settings.limit(3, 60))
}

/// A geometric mean over the networks of a group that have the figure; how many have not is noted.
fn mean(group: &Group, notes: &mut Notes, ratio: impl Fn(&Network) -> Option<f64>) -> String {
    let all = group.networks.len();
    let ratios: Vec<f64> = group.networks.iter().filter_map(ratio).collect();
    match geometric_mean(&ratios) {
        None => notes.mark("not run yet"),
        Some(mean) if ratios.len() < all => format!("{mean:.4} ({} of {all})", ratios.len()),
        Some(mean) => format!("{mean:.4}"),
    }
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// The columns of a table by number of stages.
fn head(first: &str, stages: &[u32]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(stages.iter().map(|k| format!("k = {k}"))).collect()
}

/// A row of the paper's figures.
fn paper_row<const N: usize>(name: &str, figures: [f64; N]) -> Vec<String> {
    std::iter::once(format!("{name}, paper")).chain(figures.map(|figure| figure.to_string())).collect()
}

/// Searches and bounds that Table 3 and the figures compare, in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Brkga,
    Auto,
    Simple,
    Bottleneck,
    Guess,
    Exact,
    NodeCut,
    Hierarchy,
    Columns,
    Beginnings,
}

impl Method {
    const ALL: [Method; 10] = [
        Method::Brkga,
        Method::Auto,
        Method::Simple,
        Method::Bottleneck,
        Method::Guess,
        Method::Exact,
        Method::NodeCut,
        Method::Hierarchy,
        Method::Columns,
        Method::Beginnings,
    ];

    fn name(self) -> &'static str {
        match self {
            Method::Brkga => "brkga-10000",
            Method::Auto => "auto, search and all bounds",
            Method::Simple => "simple",
            Method::Bottleneck => "bottleneck",
            Method::Guess => "bottleneck-guess",
            Method::Exact => "exact (milp)",
            Method::NodeCut => "node-cut",
            Method::Hierarchy => "two-stage, hierarchy",
            Method::Columns => "column-generation",
            Method::Beginnings => "down-sets",
        }
    }

    /// Whether it is a bound that the paper does not have.
    fn is_our_bound(self) -> bool {
        matches!(self, Method::NodeCut | Method::Hierarchy | Method::Columns | Method::Beginnings)
    }

    fn work(self, stages: u32) -> Work {
        match self {
            Method::Brkga => Work::PlanWith("brkga-10000", "simple"),
            Method::Auto => Work::Plan("auto"),
            Method::Simple => Work::Bound("simple"),
            Method::Bottleneck => Work::Bound("bottleneck"),
            Method::Guess => Work::Bound("bottleneck-guess"),
            Method::Exact => Work::Bound("milp"),
            Method::NodeCut => Work::Bound("node-cut"),
            Method::Hierarchy if stages == 2 => Work::Bound("two-stage"),
            Method::Hierarchy => Work::Bound("hierarchy"),
            // These two start from a plan.
            Method::Columns => Work::PlanWith("auto", "column-generation"),
            Method::Beginnings => Work::PlanWith("auto", "down-sets"),
        }
    }

    fn cell(self, network: &Network, stages: u32, settings: &Settings) -> Cell {
        cell(network, stages, self.work(stages), settings)
    }

    /// Every method on some networks.
    fn cells(groups: &[Group], stages: &[u32], settings: &Settings) -> Vec<Cell> {
        let mut cells = Vec::new();
        for network in groups.iter().flat_map(|group| &group.networks) {
            for &stages in stages {
                cells.extend(Method::ALL.map(|method| method.cell(network, stages, settings)));
            }
        }
        cells
    }
}

/// What all methods came to on a network.
struct Compared<'r> {
    results: &'r Results,
    settings: &'r Settings,
    network: &'r Network,
    stages: u32,
}

impl<'r> Compared<'r> {
    fn of(&self, method: Method) -> Option<&'r Figures> {
        self.results.of(&method.cell(self.network, self.stages, self.settings))
    }

    /// The best value of any run.
    fn best(&self) -> Option<f64> {
        Method::ALL.into_iter().filter_map(|method| self.of(method)?.value_ps).min().map(|ps| ps as f64)
    }

    /// A bound divided by the best value.
    fn ratio(&self, method: Method, pick: fn(&Figures) -> Option<u64>) -> Option<f64> {
        Some(pick(self.of(method)?)? as f64 / self.best()?)
    }

    /// The best ratio of several bounds: the paper's rows are what is available up to there.
    fn best_ratio(&self, methods: &[Method]) -> Option<f64> {
        let ratios = methods.iter().filter_map(|&method| self.ratio(method, |figures| figures.bound_ps));
        ratios.reduce(f64::max)
    }
}

/// The paper's bounds: each row is the best of those up to it.
const THEIRS: [(&str, &[Method]); 4] = [
    ("simple", &[Method::Simple]),
    ("bottleneck", &[Method::Simple, Method::Bottleneck]),
    ("bottleneck-guess", &[Method::Simple, Method::Bottleneck, Method::Guess]),
    ("exact (milp)", &[Method::Simple, Method::Bottleneck, Method::Guess, Method::Exact]),
];

/// Adds the rows of ours for a group: the paper's bounds, then our own, then those that `core` verified.
fn ratio_rows(
    table: &mut crate::Table,
    group: &Group,
    stages: &[u32],
    settings: &Settings,
    results: &Results,
    notes: &mut Notes,
) {
    let mut add = |name: &str, ratio: &dyn Fn(&Compared<'_>) -> Option<f64>| {
        let mut row = vec![name.to_owned()];
        for &stages in stages {
            row.push(mean(group, notes, |network| ratio(&Compared { results, settings, network, stages })));
        }
        table.row(row);
    };
    for (name, methods) in THEIRS {
        add(name, &|compared| compared.best_ratio(methods));
    }
    for method in [Method::NodeCut, Method::Hierarchy, Method::Columns, Method::Beginnings, Method::Auto] {
        // A bound that does not apply or finds nothing leaves what costs nothing.
        add(method.name(), &|compared| compared.best_ratio(&[Method::Simple, method]));
    }
    add("auto, proved", &|compared| compared.ratio(Method::Auto, |figures| figures.verified_ps));
}

/// What the real models run on.
fn real_models_differ() -> String {
    format!(
        "Real models run on identical devices with the rates of an H200, every pair joined at {} GB/s, batch 1; ONNX models with \
         fused ops and estimated times, the others op by op with measured ones.",
        STAGE_BANDWIDTH / 1_000_000_000
    )
}

/// What every page on bounds has to say.
fn bounds_differ() -> Vec<String> {
    vec![
        "Bounds are divided by the best value that any run here found; the paper divides by BRKGA's.".to_owned(),
        "As in the paper, a row of its four bounds shows the best bound available up to it; a row of ours the better of that \
         bound and `simple`. `two-stage` is for k = 2, `hierarchy` for more. `column-generation` and `down-sets` start from a plan, so \
         their time includes a search."
            .to_owned(),
        "The paper gave its programs 15 to 60 minutes of Gurobi and SCIP a graph. Here HiGHS has the same short limit as every \
         other method; where it has not got through its first linear program by then, what remains is `simple`. Its bounds are \
         attested. `auto, proved` is what `core` has verified."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometric_mean_is_one() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0, 1.0]).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn stochastic_blocks_are_a_group_of_their_own() {
        let groups = regal_groups();
        let is_blocks =
            |network: &Network| matches!(network, Network::Regal(o) if o.family == RegalFamily::Sbm);
        assert!(!groups[0].networks.iter().any(is_blocks));
        assert!(groups[1].networks.iter().all(is_blocks) && !groups[1].networks.is_empty());
    }
}
