//! What is worse off seldom comes out better: without a device, with less memory, with slower links, `auto` finds no plan
//! that is better by more than half a per cent than what it found before, but for one comparison in so many.
//!
//! Runs have a budget of nodes, so that they do not depend on the clock. `DIVVY_CASES=10` runs ten times as many problems.

use std::time::Duration;

use divvy_core::hardware::{DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_search::{Budget, Outcome, Request, solve};
use divvy_testing::cases::{self, Case};
use divvy_testing::describe::describe;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::random_hardware;
use divvy_testing::random_problems::{self as random, Draw};
use divvy_testing::stretched::stretch;

/// How much better a plan may be, as a part of its value: one in so many.
const TOLERANCE: u64 = 200;
/// One comparison in so many may find a better plan all the same: searches end early here.
const SELDOM: usize = 40;

/// A node is a conflict, a state, a move, or a whole descent.
fn planned(kind: ProblemKind, case: &Case) -> Outcome {
    let nodes = match kind {
        ProblemKind::Pipeline => 100,
        ProblemKind::ColdStart => 200,
        _ => 3000,
    };
    let budget = Budget { nodes: Some(nodes), ..Budget::new(Duration::from_secs(60)) };
    solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("a plain request").outcome
}

/// Some ops on some devices, all joined with each other or by one bus, so that no route changes when a device goes.
fn draw(kind: ProblemKind, rng: &mut Rng) -> Draw {
    let devices = 3 + rng.below(2);
    let mut hardware = random_hardware::star(rng, kind, devices);
    if kind != ProblemKind::ColdStart && rng.chance(0.5) {
        join_all(&mut hardware);
    }
    let ops = 8 + rng.below(9);
    let mut draw = random::draw_on(kind, rng, ops, hardware);
    // What names a device cannot lose it.
    draw.constraints.pin.clear();
    draw.constraints.forbid.clear();
    draw.constraints.input_at = None;
    draw.constraints.output_at = None;
    draw.constraints.min_splits = None;
    stretch(draw, rng)
}

/// A link for every pair of devices, each like one that leads to the first.
fn join_all(hardware: &mut HardwareSpec) {
    let Some(like) = hardware.links.first().cloned() else { return };
    let names: Vec<String> = hardware.devices.iter().map(|device| device.name.clone()).collect();
    hardware.links.clear();
    for (i, a) in names.iter().enumerate() {
        for b in &names[i + 1..] {
            hardware.links.push(LinkSpec { between: [a.clone(), b.clone()], ..like.clone() });
        }
    }
    for device in &mut hardware.devices {
        *device = DeviceSpec { node: None, on_host: false, relay: false, ..device.clone() };
    }
    hardware.nodes.clear();
}

/// The same without one device.
fn without_device(draw: &Draw, rng: &mut Rng) -> Draw {
    let mut less = draw.clone();
    let gone = rng.pick(&draw.hardware.devices).name.clone();
    less.hardware.devices.retain(|device| device.name != gone);
    less.hardware.links.retain(|link| !link.between.contains(&gone));
    less.constraints.memory_limit.remove(&gone);
    less
}

/// The same with less memory on one device than the best plan took there.
fn with_less_memory(draw: &Draw, outcome: &Outcome, rng: &mut Rng) -> Draw {
    let mut less = draw.clone();
    let Some((_, score)) = &outcome.best else { return less };
    let device = rng.below(draw.hardware.devices.len());
    let name = draw.hardware.devices[device].name.clone();
    let held = score.memory.get(device).copied().unwrap_or(0) / 10 * (5 + rng.below(5) as u64);
    let limit = less.constraints.memory_limit.entry(name).or_insert(held);
    *limit = held.min(*limit);
    less
}

/// The same with all links slower, so that routes stay as they are.
fn with_slower_links(draw: &Draw, rng: &mut Rng) -> Draw {
    let mut less = draw.clone();
    let part = 1 + rng.below(3) as u64;
    less.hardware.links.iter_mut().for_each(|link| link.bandwidth = link.bandwidth / 4 * part);
    less.hardware.buses.iter_mut().for_each(|bus| bus.bandwidth = bus.bandwidth / 4 * part);
    less
}

fn poorer_is_no_better(kind: ProblemKind, wanted: usize) {
    let (mut failed, mut compared, mut better) = (Vec::new(), 0, 0);
    cases::for_draws(
        wanted,
        |rng| draw(kind, rng),
        |case| {
            let outcome = planned(kind, case);
            let mut rng = Rng::new(case.seed);
            let poorer = [
                ("without a device", without_device(&case.draw, &mut rng)),
                ("with less memory", with_less_memory(&case.draw, &outcome, &mut rng)),
                ("with slower links", with_slower_links(&case.draw, &mut rng)),
            ];
            for (how, draw) in poorer {
                // Ops that no device is left for make an input error.
                let Some(other) = Case::from_draw(case.seed, draw) else { continue };
                let Some(value) = planned(kind, &other).value() else { continue };
                compared += 1;
                let before = outcome.value().unwrap_or(Time(u64::MAX));
                better += u32::from(value < before);
                if value.0 < before.0 - before.0 / TOLERANCE {
                    let by = (before.0 - value.0) as f64 / before.0 as f64 * 100.0;
                    failed.push((
                        by,
                        format!(
                            "{how}: {value:?}, before {:?}, bound {:?}\n{}",
                            outcome.value(),
                            outcome.lower_bound(),
                            describe(case)
                        ),
                    ));
                }
            }
        },
    );
    failed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: Vec<String> = failed.iter().map(|(by, _)| format!("{by:.2}")).collect();
    eprintln!(
        "{kind:?}: {compared} compared, {better} better at all, {} by more than 0.5 %: {all:?}",
        failed.len()
    );
    assert!(
        failed.len() * SELDOM <= compared,
        "{} of {compared}, the worst by {:.2} %:\n{}",
        failed.len(),
        failed[0].0,
        failed[0].1
    );
}

macro_rules! kinds {
    ($($test:ident: $kind:ident, $wanted:literal;)*) => {
        $(
            #[test]
            fn $test() {
                poorer_is_no_better(ProblemKind::$kind, $wanted);
            }
        )*
    };
}

kinds! {
    latency: Latency, 30;
    latency_with_links_in_turn: LatencyInTurn, 20;
    batch: Batch, 20;
    pipeline: Pipeline, 10;
    stream: Stream, 30;
    cold_start: ColdStart, 15;
}
