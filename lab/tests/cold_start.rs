//! Cold starts of a real model on the paper's servers: what a good plan looks like, and what the planners promise.

use std::time::Duration;

use divvy_core::ProblemSpec;
use divvy_core::check::check;
use divvy_core::generate::{TransformerOptions, llama};
use divvy_core::ids::DeviceId;
use divvy_core::plan::{ColdStartPlan, Landing, Plan};
use divvy_core::problem::{Objective, Problem};
use divvy_core::score::Score;
use divvy_core::units::Time;
use divvy_io::assemble::put_together;
use divvy_io::{file, hardware_source, import};
use divvy_search::{Budget, Request, solve};

fn problem(hardware: &str, objective: Objective) -> Problem {
    let path = format!("{}/../models/gpt2-large-1x32.json.gz", env!("CARGO_MANIFEST_DIR"));
    let spec = import::import_problem(&file::load(&path).expect("a bundled model")).expect("it can be read");
    on(hardware, spec, objective)
}

fn on(hardware: &str, spec: ProblemSpec, objective: Objective) -> Problem {
    let (mut hardware, _) = hardware_source::find(hardware).expect("built-in hardware");
    hardware.set_piece_cost(Time::ZERO);
    put_together(spec, hardware, objective).expect("a problem")
}

/// The plan of a planner, with so many hundreds of evaluations and no clock.
fn plan(problem: &Problem, planner: &str, nodes: u64) -> (ColdStartPlan, Score, Option<f64>) {
    let request = Request { planner: Some(planner.to_owned()), ..Request::default() };
    let budget = Budget { nodes: Some(nodes), ..Budget::new(Duration::from_secs(3600)) };
    let solved = solve(problem, &request, &budget, &mut |_| {}).expect("it plans cold starts");
    let gap = solved.outcome.gap();
    let Some((Plan::ColdStart(plan), score)) = solved.outcome.best else { panic!("{planner} has no plan") };
    (plan, score, gap)
}

fn device(problem: &Problem, name: &str) -> DeviceId {
    problem.hardware.device_named(name).expect("it is there")
}

#[test]
fn slow_gpus_of_the_mixed_server_carry_weights_rather_than_kernels() {
    // A long prompt, so that kernels matter; with a short one they hide behind the loads wherever they run.
    let size = TransformerOptions {
        layers: Some(6),
        hidden: Some(3200),
        heads: Some(32),
        sequence: 512,
        ..TransformerOptions::default()
    };
    let spec = llama(&size).expect("a network");
    let problem = on("dgx-v100-mixed", spec, Objective::COLD_START);
    let (plan, score, _) = plan(&problem, "interleave", 300);
    let slow = ["gpu2", "gpu3"].map(|name| device(&problem, name));
    let kernels: usize = slow.iter().map(|d| plan.order[d.index()].len()).sum();
    assert!(10 * kernels < problem.graph.op_count(), "slow GPUs run {kernels} ops");
    let carried = plan.landings.iter().filter(|l| slow.contains(&l.via) && !slow.contains(&l.reader)).count();
    assert!(carried > kernels, "they forward {carried} weights, and run {kernels} ops");
    buses_are_used_to_the_end(&score);
}

/// Both buses, whichever GPUs the weights land on.
fn buses_are_used_to_the_end(score: &Score) {
    let buses: Vec<u64> = score.link_busy.iter().map(|busy| busy.0).filter(|&busy| busy > 0).collect();
    assert!(buses.iter().filter(|&&busy| 10 * busy > 8 * score.value.0).count() >= 2, "{buses:?}");
}

#[test]
fn slow_gpus_run_nothing_that_fast_ones_could_run_as_well() {
    // Kernels of a short prompt hide behind the loads wherever they run: of plans that take as long, one is chosen whose
    // slow GPUs carry weights alone.
    let problem = problem("dgx-v100-mixed", Objective::COLD_START);
    let (plan, score, _) = plan(&problem, "auto", 300);
    let slow = ["gpu2", "gpu3"].map(|name| device(&problem, name));
    let busy: u64 = slow.iter().map(|d| score.device_busy[d.index()].0).sum();
    let all: u64 = score.device_busy.iter().map(|busy| busy.0).sum();
    assert!(100 * busy < all, "slow GPUs are busy for {busy} of {all} ps");
    let carried = plan.landings.iter().filter(|l| slow.contains(&l.via) && !slow.contains(&l.reader)).count();
    assert!(carried > 20, "they forward {carried} weights");
    buses_are_used_to_the_end(&score);
}

#[test]
fn the_pair_with_nvlink_is_preferred() {
    let problem = problem("a6000-3", Objective::COLD_START);
    let (plan, score, _) = plan(&problem, "interleave", 3000);
    let alone = device(&problem, "gpu1");
    // Weights that one GPU forwards to another go over NVLink, but for few; most kernels run where it is.
    let is_forwarded = |landing: &&Landing| landing.via != landing.reader;
    let (mut pair, mut others) = (0, 0);
    for landing in plan.landings.iter().filter(is_forwarded) {
        let beyond = [landing.via, landing.reader].contains(&alone);
        *if beyond { &mut others } else { &mut pair } += problem.graph.param_bytes(landing.param);
    }
    let all: u64 = problem.graph.params().map(|param| problem.graph.param_bytes(param)).sum();
    assert!(others <= pair.max(all / 1000), "{pair} bytes are forwarded within the pair, {others} beyond it");
    let busy = |name: &str| score.device_busy[device(&problem, name).index()].0;
    let (alone, pair) = (busy("gpu1"), busy("gpu2") + busy("gpu3"));
    assert!(pair > 2 * alone, "kernels take {pair} ps on the pair, {alone} on the other GPU");
}

#[test]
fn auto_is_no_worse_than_any_other_planner_and_near_its_bound() {
    for server in ["dgx-v100", "a6000-3"] {
        let problem = problem(server, Objective::COLD_START);
        let (_, auto, gap) = plan(&problem, "auto", 300);
        for other in ["one-gpu", "one-gpu-overlapped", "deepplan"] {
            let (_, score, _) = plan(&problem, other, 300);
            assert!(auto.value <= score.value, "{other} is better on {server}");
        }
        assert!(gap.is_some_and(|gap| gap < 0.05), "{server}: {gap:?}");
    }
}

#[test]
fn one_gpu_without_overlap_takes_as_long_as_all_loads_and_all_kernels() {
    let problem = problem("dgx-v100", Objective::COLD_START);
    let (plan, score, _) = plan(&problem, "one-gpu", 1);
    let used: Vec<usize> = (0..plan.order.len()).filter(|&d| !plan.order[d].is_empty()).collect();
    let [gpu] = used[..] else { panic!("it uses {used:?}") };
    let gpu = DeviceId::new(gpu);
    let loads: u64 =
        problem.graph.params().filter_map(|p| problem.load_time(p, gpu)).map(|(time, _)| time.0).sum();
    let kernels: u64 = problem.graph.ops().filter_map(|op| problem.time(op, gpu)).map(|time| time.0).sum();
    assert_eq!(score.value.0, loads + kernels);
}

#[test]
fn weights_that_are_all_resident_leave_the_kernels() {
    let resident = Objective::ColdStart { contention: divvy_core::problem::Contention::Bus, resident: 100 };
    let problem = problem("dgx-v100", resident);
    let (plan, score, _) = plan(&problem, "one-gpu-overlapped", 1);
    let again = check(&problem, &Plan::ColdStart(plan)).expect("a valid plan");
    assert_eq!(again.value, score.value);
    let gpu = device(&problem, "gpu1");
    let kernels: u64 = problem.graph.ops().filter_map(|op| problem.time(op, gpu)).map(|time| time.0).sum();
    assert_eq!(score.value.0, kernels);
}
