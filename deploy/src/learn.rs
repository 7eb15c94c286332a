//! Op times that agree with what was measured, as a profile for planning again.
//!
//! A piece that took longer or less than its ops were thought to has its ops' times stretched alike; a hand-over counts
//! for the piece that waited for it, and so does putting inputs together anew. What the plan counts for pieces and for what
//! crosses between them is left out, as it will be counted again. Ops that were not run where a class has times keep them.

use std::collections::HashMap;
use std::path::Path;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::ids::OpId;
use divvy_core::problem::{Objective, Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_exec::executor::Report;
use divvy_exec::program::StageSpec;
use divvy_io::{file, problem_file};

use crate::error::DeployError;
use crate::prepared::{Prepared, StageWork};

/// At least this share of a piece's time is put down to its ops, whatever cuts are thought to cost.
const LEAST_SHARE: f64 = 0.1;

/// Writes the profile. `stage_times` is what an item took of each stage, undisturbed, in microseconds; `profiled_whole` is
/// what the whole model takes at the speed that these times are of, where that is known.
pub(crate) fn write(
    path: &Path,
    prepared: &Prepared,
    report: &Report,
    stage_times: &[f64],
    profiled_whole: &[(String, u32, Time)],
) -> Result<(), DeployError> {
    let problem = &prepared.problem;
    let profile = Profile {
        classes: learnt(prepared, report, stage_times),
        whole_model: profiled_whole.to_vec(),
        pieces: pieces(problem),
    };
    let mut spec = ProblemSpec {
        graph: problem.graph.spec().clone(),
        profile,
        hardware: None,
        objective: None,
        constraints: Default::default(),
    };
    let name = |op: &OpId| problem.graph.op_name(*op).to_owned();
    let together = &problem.constraints.colocate;
    spec.constraints.colocate = together.iter().map(|group| group.iter().map(name).collect()).collect();
    Ok(file::write(path, &format!("{}\n", problem_file::write(&spec)))?)
}

/// The times that the problem has, with those of ops that were run as measured.
fn learnt(prepared: &Prepared, report: &Report, stage_times: &[f64]) -> Vec<ClassCosts> {
    let mut classes = known(&prepared.problem);
    let shares = shares_of_ops(prepared);
    let beyond = beyond_ops(prepared);
    for stage in 0..prepared.spec.stages.len() {
        let device = prepared.devices[prepared.spec.stages[stage].device];
        let class = prepared.problem.hardware.class_of(device).index();
        let StageWork { ops, size, regroups_for } = &prepared.work[stage];
        if regroups_for.is_some() {
            continue;
        }
        let mut took = stage_times.get(stage).copied().unwrap_or(0.0);
        if took <= 0.0 {
            // No item came out.
            continue;
        }
        if !prepared.is_stream {
            let waited = if stage > 0 { report.handover.undisturbed() } else { 0.0 };
            took += waited + regrouping(prepared, stage_times, stage);
        }
        if let Some(index) = classes[class].batch_sizes.iter().position(|known| known == size) {
            let took = match &beyond {
                Some(beyond) => (took - beyond[stage]).max(LEAST_SHARE * took),
                None => took * shares[prepared.spec.stages[stage].device],
            };
            stretch(&mut classes[class].costs[index], ops, took);
        }
    }
    if matches!(prepared.problem.objective, Objective::Latency { .. }) {
        of_busy_devices(&prepared.problem, &mut classes);
    }
    classes.retain(|class| !class.batch_sizes.is_empty());
    classes
}

/// What each stage takes beyond its ops, in microseconds; none where items follow each other. A cut between devices of one
/// memory is a part of the pieces' own times, also for values that stay on the device: nothing else is done there.
fn beyond_ops(prepared: &Prepared) -> Option<Vec<f64>> {
    if prepared.is_stream || prepared.together > 1 {
        return None;
    }
    let problem = &prepared.problem;
    let stages = &prepared.spec.stages;
    let makers: HashMap<&str, usize> = (stages.iter().zip(0..))
        .flat_map(|(stage, i)| stage.model.outputs.iter().map(move |value| (value.as_str(), i)))
        .collect();
    let copied = |device, value: &String| {
        let bytes = prepared.bytes.get(value).copied().unwrap_or(0);
        problem.copy_time(device, bytes).as_us()
    };
    let beyond = |(i, stage): (usize, &StageSpec)| {
        let device = prepared.devices[stage.device];
        let read = stage.model.inputs.iter().filter(|value| makers.contains_key(value.as_str()));
        let is_read = |value: &&String| stages.iter().any(|stage| stage.model.inputs.contains(value));
        let left = stage.model.outputs.iter().filter(is_read);
        let copies: f64 = read.clone().chain(left).map(|value| copied(device, value)).sum();
        let makers = read.map(|value| prepared.devices[stages[makers[value.as_str()]].device]);
        let waits = makers.filter_map(|from| problem.hardware.route(from, device)).map(|route| route.latency);
        let waited = waits.max().filter(|_| i > 0).unwrap_or(Time::ZERO);
        problem.piece_cost(device).as_us() + copies + waited.as_us()
    };
    Some(stages.iter().enumerate().map(beyond).collect())
}

/// What pieces cost, for classes on which they cost anything.
fn pieces(problem: &Problem) -> Vec<(String, Time)> {
    let mut pieces: Vec<(String, Time)> = Vec::new();
    for device in problem.hardware.devices() {
        let (class, cost) = (&problem.hardware.class(device).name, problem.piece_cost(device));
        if cost > Time::ZERO && pieces.iter().all(|(known, _)| known != class) {
            pieces.push((class.clone(), cost));
        }
    }
    pieces
}

/// Makes times of devices that work alone those of devices that are all busy, of which a profile is.
fn of_busy_devices(problem: &Problem, classes: &mut [ClassCosts]) {
    let known = &problem.hardware.spec().classes;
    for class in classes {
        let Some(share) = known.iter().find(|known| known.name == class.class).and_then(|known| known.alone)
        else {
            continue;
        };
        for cost in class.costs.iter_mut().flatten().flatten() {
            cost.time = Time((cost.time.0 as f64 / share).round() as u64);
        }
    }
}

/// How long inputs were put together anew for a stage.
fn regrouping(prepared: &Prepared, stage_times: &[f64], stage: usize) -> f64 {
    let works = prepared.work.iter().zip(stage_times);
    works.filter(|(work, _)| work.regroups_for == Some(stage)).map(|(_, time)| time).sum()
}

/// For each device of the program, which share of what the plan counts for it is for ops rather than for cuts. A cut is a
/// part of the pieces' own times where devices have one memory: nothing else is done there.
fn shares_of_ops(prepared: &Prepared) -> Vec<f64> {
    let score = &prepared.score;
    let mut ops = vec![0.0; prepared.devices.len()];
    for (stage, spec) in prepared.spec.stages.iter().enumerate() {
        let device = prepared.devices[spec.device];
        let StageWork { ops: own, size, .. } = &prepared.work[stage];
        let times = own.iter().filter_map(|&op| prepared.problem.cost(op, device, *size));
        ops[spec.device] += times.map(|cost| cost.time.as_us()).sum::<f64>();
    }
    let in_one_memory = prepared.spec.links.is_empty();
    let moved: f64 = score.link_busy.iter().map(|time| time.as_us()).sum();
    // Under `latency` links carry what cuts cost; a stage of a pipeline has it in its own cost.
    let of_links = if in_one_memory && !prepared.is_stream { moved / ops.len().max(1) as f64 } else { 0.0 };
    let counted = |device: usize| {
        let busy = score.device_busy[prepared.devices[device].index()].as_us();
        let cuts = if in_one_memory { (busy - ops[device]).max(0.0) } else { 0.0 };
        ops[device] + cuts + of_links
    };
    let share = |device: usize| if ops[device] > 0.0 { ops[device] / counted(device) } else { 1.0 };
    (0..ops.len()).map(share).collect()
}

/// The times that the problem has, by class.
fn known(problem: &Problem) -> Vec<ClassCosts> {
    let mut classes: Vec<ClassCosts> = vec![ClassCosts::default(); problem.hardware.class_count()];
    for device in problem.hardware.devices() {
        let class = &mut classes[problem.hardware.class_of(device).index()];
        if !class.class.is_empty() {
            continue;
        }
        class.class.clone_from(&problem.hardware.class(device).name);
        class.batch_sizes = problem.batch_sizes(device).to_vec();
        let at = |&size: &u32| problem.graph.ops().map(|op| problem.cost(op, device, size)).collect();
        class.costs = class.batch_sizes.iter().map(at).collect();
    }
    classes
}

/// Makes the times of some ops add up to a time in microseconds; times that are all nothing become equal shares.
fn stretch(costs: &mut [Option<Cost>], ops: &[OpId], took: f64) {
    let of = |op: &OpId| costs[op.index()].map_or(0, |cost| cost.time.0) as f64;
    let sum: f64 = ops.iter().map(of).sum();
    let share = |op: &OpId| if sum > 0.0 { of(op) / sum } else { 1.0 / ops.len() as f64 };
    let times: Vec<f64> = ops.iter().map(|op| share(op) * took * 1e6).collect();
    for (op, time) in ops.iter().zip(times) {
        costs[op.index()] = Some(Cost { time: Time(time.round() as u64), origin: Origin::Measured });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_stretched_to_what_was_measured() {
        let cost = |time| Some(Cost { time: Time(time), origin: Origin::Estimated });
        let mut costs = [cost(1), cost(3), cost(9), None];
        stretch(&mut costs, &[OpId(0), OpId(1)], 8.0);
        let times: Vec<Option<u64>> = costs.iter().map(|cost| cost.map(|cost| cost.time.0)).collect();
        assert_eq!(times, [Some(2_000_000), Some(6_000_000), Some(9), None]);
        stretch(&mut costs, &[OpId(3)], 2.0);
        assert_eq!(costs[3].map(|cost| cost.time), Some(Time(2_000_000)));
    }
}
