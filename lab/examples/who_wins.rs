//! Which planner found the final value and which bound proved it, over many problems: what `auto` would lose without each.
//!
//! `cargo run --release -p divvy-lab --example who_wins -- SECONDS SEEDED FILE...` plans the problems of plan files and as many
//! seeded ones, with memory limits, pins, bans and uneven links, and prints for every name how often it was the last to help,
//! and the most that it was better than all others by.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use divvy_core::costs::Profile;
use divvy_core::generate::{RegalFamily, RegalOptions, RwnnOptions, Wiring, regal, rwnn};
use divvy_core::graph::Graph;
use divvy_core::hardware::HardwareSpec;
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, OwnHardware, Problem, ProblemSpec};
use divvy_core::rng::Rng;
use divvy_io::plan_file::PlanFile;
use divvy_io::{file, presets};
use divvy_proof::certificate::Standing;
use divvy_proof::verify::verify;
use divvy_search::{Budget, Request, solve};

/// What one name did over all problems of an objective.
#[derive(Default)]
struct Record {
    /// Where it was the last to help.
    wins: usize,
    /// The most by which it was better than all others.
    most: f64,
    /// The problem where that was.
    at: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("usage: who_wins SECONDS SEEDED FILE...");
    let (seconds, seeded): (f64, u64) = (next()?.parse()?, next()?.parse()?);
    let mut records: BTreeMap<(String, &str, String), Record> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut study = |name: &str, problem: &Problem| -> Result<(), String> {
        let budget = Budget::new(Duration::from_secs_f64(seconds));
        let solved = solve(problem, &Request::default(), &budget, &mut |_| ()).map_err(|r| r.message)?;
        let outcome = solved.outcome;
        let objective = problem.objective.name();
        *counts.entry(objective).or_default() += 1;
        let mut note = |kind: &'static str, by: &str, margin: f64| {
            let record = records.entry((objective.to_owned(), kind, by.to_owned())).or_default();
            record.wins += 1;
            if margin > record.most || record.at.is_empty() {
                (record.most, record.at) = (margin, name.to_owned());
            }
        };
        if let (Some(value), Some(by)) = (outcome.value(), &outcome.found_by) {
            // The best that was there before this planner first helped.
            let values = outcome.history.iter().filter(|p| p.value.is_some());
            let before =
                values.clone().take_while(|p| p.by.as_ref() != Some(by)).filter_map(|p| p.value).min();
            note(
                "planner",
                by,
                before.map_or(f64::INFINITY, |before| before.0 as f64 / value.0.max(1) as f64 - 1.0),
            );
        }
        let verified =
            |c: &&divvy_proof::certificate::Certificate| verify(problem, c) == Ok(Standing::Verified);
        let mut bounds: Vec<_> = outcome.certificates.iter().filter(verified).collect();
        bounds.sort_by_key(|c| std::cmp::Reverse(c.value_ps));
        if let Some(best) = bounds.first() {
            let second = bounds.get(1).map_or(0.0, |c| c.value_ps.0 as f64);
            note("bound", &best.bound, best.value_ps.0 as f64 / second.max(1.0) - 1.0);
        }
        Ok(())
    };
    for path in args {
        let read = PlanFile::read(&file::load(&path)?)?;
        study(&path, &read.problem)?;
    }
    for seed in 0..seeded {
        let Some(problem) = seeded_problem(seed) else { continue };
        study(&format!("seed {seed}"), &problem)?;
    }
    let mut out = std::io::stdout();
    for (objective, count) in &counts {
        writeln!(out, "{objective}: {count} problems")?;
    }
    for ((objective, kind, name), record) in &records {
        let Record { wins, most, at } = record;
        writeln!(
            out,
            "{objective:<11} {kind:<8} {name:<20} {wins:>4} wins, at most {:>9.3} % ({at})",
            100.0 * most
        )?;
    }
    Ok(())
}

/// A random problem of some dozens of ops, with limits.
fn seeded_problem(seed: u64) -> Option<Problem> {
    let rng = &mut Rng::new(seed);
    let objective = [
        Objective::Latency { links: LinkUse::Delay },
        Objective::Batch { inputs: 4 },
        Objective::ColdStart { contention: Default::default(), resident: 0 },
        Objective::Pipeline { stages: 3 },
        Objective::Stream,
    ][(seed % 5) as usize];
    let spec = match objective {
        Objective::Pipeline { .. } => regal(&RegalOptions {
            family: if rng.chance(0.5) { RegalFamily::Er } else { RegalFamily::Ws },
            nodes: rng.between(20, 120) as u32,
            seed,
        }),
        _ => rwnn(&RwnnOptions {
            modules: rng.between(1, 6) as u32,
            nodes: rng.between(4, 12) as u32,
            channels: rng.between(1, 3) as u32,
            wiring: *rng.pick(&[Wiring::Sdep, Wiring::Wdep, Wiring::Wfree]),
            seed,
            communication_factor: *rng.pick(&[0.2, 1.0, 4.0]),
            batches: matches!(objective, Objective::Batch { .. }),
            ..RwnnOptions::default()
        }),
    };
    let spec = spec.ok()?;
    let mut hardware = hardware(&spec, objective)?;
    for link in &mut hardware.links {
        link.bandwidth = (link.bandwidth as f64 * *rng.pick(&[0.1, 0.5, 1.0, 4.0])).max(1.0) as u64;
    }
    let constraints = limits(&spec, &hardware, rng);
    let graph = Graph::new(spec.graph).ok()?;
    let profile: &Profile = &spec.profile;
    Problem::new(graph, profile, hardware, &presets::catalogue(), objective, &constraints).ok()
}

fn hardware(spec: &ProblemSpec, objective: Objective) -> Option<HardwareSpec> {
    match (&spec.hardware, objective) {
        (_, Objective::ColdStart { .. }) => presets::hardware("cpu-t4-a100")?.ok(),
        (Some(OwnHardware::Given(own)), _) => Some((**own).clone()),
        (Some(OwnHardware::UniformPerStage { bandwidth }), _) => {
            Some(presets::uniform_devices(3, *bandwidth))
        }
        (None, _) => None,
    }
}

/// Pins, bans, colocation and memory limits at random, each in a part of the problems.
fn limits(spec: &ProblemSpec, hardware: &HardwareSpec, rng: &mut Rng) -> ConstraintsSpec {
    let mut constraints = ConstraintsSpec::default();
    let ops: Vec<String> = spec.graph.ops.iter().map(|op| op.name.clone()).collect();
    let devices: Vec<String> = hardware.devices.iter().map(|device| device.name.clone()).collect();
    for op in &ops {
        if rng.chance(0.04) {
            constraints.pin.insert(op.clone(), rng.pick(&devices).clone());
        } else if rng.chance(0.08) {
            constraints.forbid.insert(op.clone(), vec![rng.pick(&devices).clone()]);
        }
    }
    if rng.chance(0.3) {
        constraints.colocate.push((0..3).map(|_| rng.pick(&ops).clone()).collect());
    }
    if rng.chance(0.4) {
        let bytes: u64 = spec.graph.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>()
            + spec.graph.params.iter().map(|param| param.bytes).sum::<u64>();
        let share = rng.between(40, 120);
        constraints.memory_limit.insert(rng.pick(&devices).clone(), bytes * share / 100);
    }
    constraints
}
