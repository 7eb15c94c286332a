//! Tests on random networks of modules.

use std::time::Duration;

use smallvec::smallvec;

use super::*;
use crate::budget::Budget;
use crate::outcome::Outcome;
use divvy_core::generate::{RwnnOptions, rwnn};
use divvy_core::graph::Graph;
use divvy_core::ids::DeviceId;
use divvy_core::problem::{Objective, OwnHardware, Problem};

/// A problem as an annealer sees it.
struct Case {
    tables: BatchTables,
    memory: BatchMemory,
    dual_cost: DualCost,
}

impl Case {
    fn new(problem: &Problem) -> Case {
        Case::with(problem, BatchTables::new(problem).expect("a batch problem"))
    }

    fn with(problem: &Problem, tables: BatchTables) -> Case {
        let memory = BatchMemory::new(problem, &tables);
        let dual_cost = DualCost::new(problem, &tables, &Outcome::default());
        Case { tables, memory, dual_cost }
    }

    fn annealer_from(&self, start: &BatchSchedule, seed: u64) -> Annealer<'_> {
        Annealer::new(&self.tables, &self.memory, &self.dual_cost, start, seed).expect("memory holds")
    }

    /// An annealer that starts with every unit on a single device, by the number of the seed.
    fn annealer(&self, seed: u64) -> Annealer<'_> {
        let whole = |unit: usize| {
            let choices = &self.tables.choices[unit];
            let device = choices[seed as usize % choices.len()].device;
            smallvec![DevicePart { device, groups: self.tables.all_groups() }]
        };
        let divisions = (0..self.tables.members.len()).map(whole).collect();
        self.annealer_from(&BatchSchedule::new(&self.tables, divisions, &self.tables.order), seed)
    }
}

fn random_problem(seed: u64) -> Problem {
    let (modules, nodes) = (1 + seed as u32 % 3, 3 + seed as u32 % 7);
    let communication_factor = [0.1, 1.0, 5.0][seed as usize % 3];
    let options =
        RwnnOptions { modules, nodes, communication_factor, seed, batches: true, ..RwnnOptions::default() };
    let mut spec = rwnn(&options).expect("valid options");
    let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("its own hardware") };
    if seed % 2 == 1 {
        let device = |number: usize| Some(hardware.devices[number % hardware.devices.len()].name.clone());
        spec.constraints.input_at = device(seed as usize / 2);
        spec.constraints.output_at = device(seed as usize / 3);
    }
    let graph = Graph::new(spec.graph).expect("a valid graph");
    let objective = Objective::Batch { inputs: 16 };
    Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).expect("a valid problem")
}

/// The schedule with the present move, evaluated from scratch.
fn evaluated_anew(annealer: &Annealer<'_>) -> BatchSchedule {
    let mut whole = annealer.current.clone();
    whole
        .list
        .splice(annealer.segment.from..annealer.segment.until, annealer.segment.batches.iter().copied());
    whole.evaluate(annealer.tables, 0, u64::MAX - 1);
    whole
}

/// The evaluation of a segment accepts, and times, exactly what an evaluation from scratch does, and all facts after
/// it are those of the new schedule.
#[test]
fn a_segment_is_evaluated_as_the_whole_schedule_is() {
    let (mut tried, mut kept, mut late, mut overloaded) = (0, 0, 0, 0);
    for seed in 0..40 {
        let case = Case::new(&random_problem(seed));
        let mut annealer = case.annealer(seed);
        for step in 0..1000 {
            let Some(is_divided) = annealer.propose_move() else {
                annealer.finish_move(false);
                continue;
            };
            if is_divided {
                annealer.build_segment();
                if step % 2 == 0 {
                    annealer.insert_batch();
                }
            }
            let former = annealer.current.clone();
            let full = evaluated_anew(&annealer);
            let slack = annealer.rng.below(former.value() as usize / 10) as u64;
            let limit = match step % 3 {
                0 => former.value() + slack / 10,
                1 => former.value() - slack,
                _ => full.value() - u64::from(annealer.rng.chance(0.5)),
            };
            let too_much = !annealer.loads_are_within(limit);
            assert!(!too_much || full.value() > limit, "seed {seed}, step {step}");
            overloaded += u32::from(too_much);
            let list_before = annealer.current.list.clone();
            let is_kept = annealer.try_segment(limit);
            assert_eq!(is_kept, full.value() <= limit, "seed {seed}, step {step}");
            late += u32::from(!annealer.positions_are_known);
            tried += 1;
            let expected = if is_kept { &full } else { &former };
            assert_eq!(annealer.current.value(), expected.value(), "seed {seed}, step {step}");
            assert_eq!(annealer.current.list, expected.list, "seed {seed}, step {step}");
            for &batch in &expected.list {
                assert_eq!(
                    annealer.current.end(batch),
                    expected.end(batch),
                    "seed {seed}, step {step}: {batch:?}"
                );
            }
            annealer.finish_move(is_kept);
            let anew = case.annealer_from(&annealer.current, seed);
            assert_eq!(annealer.loads, anew.loads, "seed {seed}, step {step}");
            assert!(is_kept || annealer.current.list == list_before);
            let anew = ScheduleFacts::new(&case.tables, &annealer.current);
            for (position, &batch) in annealer.current.list.iter().enumerate() {
                assert_eq!(
                    annealer.facts.position(&annealer.current, batch),
                    position,
                    "seed {seed}, step {step}"
                );
                let (tail, expected) =
                    (annealer.facts.tail(&annealer.current, batch), anew.tail(&annealer.current, batch));
                assert_eq!(tail, expected, "seed {seed}, step {step}: {batch:?}");
            }
            let same_queues = (0..case.tables.devices).all(|device| {
                (0..=annealer.current.list.len()).all(|position| {
                    annealer.facts.last_before(device, position) == anew.last_before(device, position)
                })
            });
            assert!(same_queues, "seed {seed}, step {step}");
            kept += u32::from(is_kept);
        }
    }
    assert!(tried > 10_000 && kept > 3_000 && late > 10, "{tried} tried, {kept} kept, {late} late");
    assert!(overloaded > 100, "{overloaded}");
}

/// Inserting a batch at its best position gives a smaller makespan than the position of an old batch, more often than
/// not.
#[test]
fn inserted_batches_shorten_schedules() {
    let (mut better, mut worse) = (0, 0);
    for seed in 0..40 {
        let case = Case::new(&random_problem(seed));
        let mut annealer = case.annealer(seed);
        for _ in 0..500 {
            annealer.step(annealer.current.value() as f64 / 100.0);
            if annealer.propose_move() == Some(true) {
                annealer.build_segment();
                let replaced = evaluated_anew(&annealer).value();
                annealer.insert_batch();
                let inserted = evaluated_anew(&annealer).value();
                better += u32::from(inserted < replaced);
                worse += u32::from(inserted > replaced);
            }
            annealer.finish_move(false);
        }
    }
    assert!(better > 200 && better > 2 * worse, "{better} are better, {worse} worse");
}

/// With soft limits an annealing exceeds them on the way and keeps them in the end; memory is counted correctly
/// throughout.
#[test]
fn soft_limits_are_kept_in_the_end() {
    let mut passed = 0;
    for (seed, may_exceed) in (0..30).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut problem = random_problem(seed);
        let needed: u64 = problem.graph.ops().map(|op| problem.graph.activation_bytes(op)).sum();
        problem.constraints.memory_limits.push((DeviceId::new(0), needed * 16 / 4));
        let case = Case::new(&problem);
        // From a device without a limit.
        let mut annealer = case.annealer(3 * seed + 1).with_soft_limits(may_exceed);
        for step in 0..20_000 {
            annealer.step(annealer.current.value() as f64 * 1e-2 * 1e-3f64.powf(f64::from(step) / 2e4));
            assert!(may_exceed || annealer.is_within_limits(), "seed {seed}, step {step}");
            passed += u32::from(!annealer.is_within_limits());
        }
        assert!(annealer.is_within_limits(), "seed {seed}");
        let mut anew = case.memory.clone();
        (annealer.current.divisions.iter().enumerate()).for_each(|(unit, division)| anew.put(unit, division));
        assert_eq!(annealer.memory.excess(), anew.excess(), "seed {seed}");
    }
    assert!(passed > 5_000, "{passed} steps exceed a limit");
}

/// A schedule of contracted chains expands to one of all ops with the same value, which contracts to it again.
#[test]
fn contracted_chains_expand_to_the_same_schedule() {
    let (mut with_chains, mut with_ends) = (0, 0);
    for seed in 0..60 {
        let problem = random_problem(seed);
        let tables = BatchTables::new(&problem).expect("a batch problem");
        let Some(contracted) = tables.contract_chains() else { continue };
        with_chains += 1;
        with_ends += u32::from(!contracted.delivering_ops.is_empty());
        assert!(contracted.ops < tables.ops);
        let mut ops: Vec<u32> = contracted.chains.concat();
        ops.sort_unstable();
        assert!(ops.into_iter().eq(0..tables.ops as u32), "seed {seed}: every op is in one chain");
        let case = Case::with(&problem, contracted);
        let mut annealer = case.annealer(seed);
        for _ in 0..400 {
            annealer.step(annealer.schedule().value() as f64 / 300.0);
        }
        let schedule = annealer.schedule();
        let all = schedule.expand_chains(&tables, &case.tables);
        assert_eq!(all.value(), schedule.value(), "seed {seed}");
        let again = all.contract_chains(&tables, &case.tables);
        assert_eq!((&again.divisions, again.value()), (&schedule.divisions, schedule.value()), "seed {seed}");
        for plan in [schedule.to_plan(&problem, &case.tables), all.to_plan(&problem, &tables)] {
            let mut outcome = Outcome::default();
            let budget = Budget::new(Duration::from_secs(1));
            outcome.offer(&problem, plan, "chains", &budget).expect("a plan that holds");
            assert_eq!(outcome.value().map(|value| value.0), Some(schedule.value()), "seed {seed}");
        }
        let memory = BatchMemory::new(&problem, &tables);
        assert_eq!(memory.can_hold(&all.divisions), case.memory.can_hold(&schedule.divisions), "seed {seed}");
    }
    assert!(with_chains > 20 && with_ends > 5, "{with_chains} with chains, {with_ends} of them with ends");
}
