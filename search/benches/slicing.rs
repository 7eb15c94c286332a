//! Slicing one order: exactly, as a decision, and as published.
//!
//! Run with `cargo bench -p divvy-search --bench slicing`. Graphs are Erdős–Rényi of the REGAL set, 16 stages, a random
//! order each; all slice the same orders. The published table of segment costs grows with n², so it is left out of the
//! largest.

#[path = "../tests/slicing/published.rs"]
mod published;

use divan::{Bencher, black_box};
use divvy_core::generate::{RegalFamily, RegalOptions, regal};
use divvy_core::graph::Graph;
use divvy_core::hardware::ClassSpec;
use divvy_core::problem::{ConstraintsSpec, Objective, Problem, uniform_hardware};
use divvy_core::rng::Rng;
use divvy_search::pipeline::{PipelineTables, Slicer, StageNetwork};

const SIZES: [u32; 3] = [200, 1000, 5000];
const STAGES: u32 = 16;
/// Orders that one sample goes through.
const ORDERS: usize = 8;

fn main() {
    divan::main();
}

fn problem(nodes: u32) -> Problem {
    // REGAL's probability of an edge is for 50 to 200 ops; larger graphs come from the layered family.
    let family = if nodes <= 200 { RegalFamily::Er } else { RegalFamily::Layered };
    let spec = regal(&RegalOptions { family, nodes, seed: 1 }).expect("sound options");
    let graph = Graph::new(spec.graph).expect("a sound graph");
    let hardware = uniform_hardware(STAGES, 1_000_000_000, ClassSpec::default());
    let objective = Objective::Pipeline { stages: STAGES };
    Problem::new(graph, &spec.profile, hardware, &[], objective, &ConstraintsSpec::default()).expect("sound")
}

fn orders(network: &StageNetwork<'_>) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(7);
    (0..ORDERS)
        .map(|_| network.sorted_by(&(0..network.len()).map(|_| rng.unit()).collect::<Vec<_>>()))
        .collect()
}

/// The best value of every order.
#[divan::bench(args = SIZES, sample_count = 40)]
fn exact(bencher: Bencher<'_, '_>, nodes: u32) {
    let problem = problem(nodes);
    let tables = PipelineTables::new(&problem).expect("a pipeline problem");
    let network = StageNetwork::new(&tables);
    let orders = orders(&network);
    let mut slicer = Slicer::new(&network);
    bencher.counter(ORDERS).bench_local(|| {
        for order in &orders {
            slicer.load(black_box(order));
            black_box(slicer.best());
        }
    });
}

/// Whether every order can be sliced within 1 % of its best value.
#[divan::bench(args = SIZES, sample_count = 40)]
fn decision(bencher: Bencher<'_, '_>, nodes: u32) {
    let problem = problem(nodes);
    let tables = PipelineTables::new(&problem).expect("a pipeline problem");
    let network = StageNetwork::new(&tables);
    let orders = orders(&network);
    let mut slicer = Slicer::new(&network);
    let mut values = Vec::new();
    for order in &orders {
        slicer.load(order);
        values.push(slicer.best().expect("it can be sliced").value);
    }
    bencher.counter(ORDERS).bench_local(|| {
        for (order, value) in orders.iter().zip(&values) {
            slicer.load(black_box(order));
            black_box(slicer.is_feasible(value - value / 100));
        }
    });
}

/// The published program on a table that is filled segment by segment.
#[divan::bench(args = [200, 1000], sample_count = 10)]
fn quadratic(bencher: Bencher<'_, '_>, nodes: u32) {
    published_with(bencher, nodes, published::costs_by_segments);
}

/// The published program on a table from a Fenwick tree.
#[divan::bench(args = [200, 1000], sample_count = 10)]
fn fenwick(bencher: Bencher<'_, '_>, nodes: u32) {
    published_with(bencher, nodes, published::costs_by_fenwick);
}

fn published_with(bencher: Bencher<'_, '_>, nodes: u32, table: fn(&PipelineTables, &[u32]) -> Vec<Vec<u64>>) {
    let problem = problem(nodes);
    let tables = PipelineTables::new(&problem).expect("a pipeline problem");
    let network = StageNetwork::new(&tables);
    let orders: Vec<Vec<u32>> = orders(&network).iter().map(|order| network.ops_in(order)).collect();
    bencher.counter(ORDERS).bench_local(|| {
        for order in &orders {
            black_box(published::dynamic_program(&table(&tables, black_box(order)), STAGES as usize));
        }
    });
}
