//! A planner of one's own, raced against those of divvy: it puts the first ops of the canonical order on one device and the
//! others on another, and tries every place to cut.
//!
//! `cargo run --release --example planner`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use divvy::core::ids::DeviceId;
use divvy::core::plan::LatencyPlan;
use divvy::{Budget, Objective, Plan, Planner, Problem, ProblemOptions, Request, Run, StopReason};

struct OneCut;

impl Planner for OneCut {
    fn name(&self) -> &'static str {
        "one-cut"
    }

    fn about(&self) -> &'static str {
        "the network cut once along its canonical order"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        matches!(problem.objective, Objective::Latency { .. }).then_some(()).ok_or("it is for latency".into())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let ops = run.problem.graph.order().to_vec();
        let devices: Vec<DeviceId> = run.problem.hardware.devices().collect();
        for cut in 0..=ops.len() {
            for (&first, &second) in devices.iter().flat_map(|a| devices.iter().map(move |b| (a, b))) {
                let mut order = vec![Vec::new(); devices.len()];
                order[first.index()].extend_from_slice(&ops[..cut]);
                order[second.index()].extend_from_slice(&ops[cut..]);
                // Plans that break a rule are refused, and the run keeps the best of the others.
                let _ = run.offer(Plan::Latency(LatencyPlan { order, ..LatencyPlan::default() }));
            }
        }
        StopReason::Finished
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/er10-wdep2-5-modules.json.gz");
    let problem = divvy::assemble(model, &ProblemOptions::default())?.problem;
    let budget = Budget::new(Duration::from_secs(1));
    let own = divvy::solve_with(&problem, &[&OneCut], &[], &budget, &mut |_| {});
    println!("one-cut: {:?}", own.outcome.value());
    for name in ["heft", "auto"] {
        let request = Request { planner: Some(name.to_owned()), ..Request::default() };
        let budget = Budget::new(Duration::from_secs(1));
        let solved = divvy::solve(&problem, &request, &budget, &mut |_| {}).map_err(|r| r.message)?;
        println!("{name}: {:?}, at least {:?}", solved.outcome.value(), solved.outcome.lower_bound());
    }
    Ok(())
}
