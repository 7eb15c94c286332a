//! Annealing divisions and the order of batches: so many moves on ten modules.
//!
//! Run with `cargo bench -p divvy-search --bench divisions`. Networks are those of `divvy generate rwnn --batches`, 16 inputs, and
//! the number of moves does not depend on the clock.

use std::time::Duration;

use divan::{Bencher, black_box};
use divvy_core::generate::{RwnnOptions, rwnn};
use divvy_core::graph::Graph;
use divvy_core::problem::{Objective, OwnHardware, Problem};
use divvy_search::{Budget, Request, solve};

const MOVES: u64 = 5_000_000;

fn main() {
    divan::main();
}

fn problem(channels: u32) -> Problem {
    let options = RwnnOptions { channels, batches: true, ..RwnnOptions::default() };
    let spec = rwnn(&options).expect("sound options");
    let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("its own hardware") };
    let graph = Graph::new(spec.graph).expect("a sound graph");
    let objective = Objective::Batch { inputs: 16 };
    Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).expect("sound")
}

/// All moves of a run, from one start to the end.
#[divan::bench(args = [1, 2, 4], sample_count = 2)]
fn moves(bencher: Bencher<'_, '_>, channels: u32) {
    let problem = problem(channels);
    let request =
        Request { planner: Some("divisions".to_owned()), bounds: Some(Vec::new()), ..Request::default() };
    bencher.counter(MOVES).bench_local(|| {
        let budget = Budget { nodes: Some(MOVES), ..Budget::new(Duration::from_secs(20)) };
        black_box(solve(&problem, &request, &budget, &mut |_| {})).expect("a planner of that name");
    });
}
