//! Tests on random networks of modules.

use std::time::Duration;

use crate::batch::annealing::*;
use crate::budget::Budget;
use crate::outcome::Outcome;
use divvy_core::generate::{RwnnOptions, rwnn};
use divvy_core::graph::Graph;
use divvy_core::ids::DeviceId;
use divvy_core::problem::{Objective, OwnHardware, Problem};

/// A problem, with all that a climb needs of it.
struct Case {
    tables: Tables,
    memory: Memory,
    potential: Potential,
}

impl Case {
    fn new(problem: &Problem) -> Case {
        Case::with(problem, Tables::new(problem).expect("a batch problem"))
    }

    fn with(problem: &Problem, tables: Tables) -> Case {
        let memory = Memory::new(problem, &tables);
        let potential = Potential::new(problem, &tables, &Outcome::default());
        Case { tables, memory, potential }
    }

    fn climb_from(&self, start: &Schedule, seed: u64) -> Annealer<'_> {
        Annealer::new(&self.tables, &self.memory, &self.potential, start, seed).expect("memory holds")
    }

    /// A climb from every unit whole on a device of the same number.
    fn climb(&self, seed: u64) -> Annealer<'_> {
        let whole = |unit: usize| {
            let choices = &self.tables.choices[unit];
            let device = choices[seed as usize % choices.len()].device;
            smallvec![Piece { device, groups: self.tables.all_groups() }]
        };
        let pieces = (0..self.tables.members.len()).map(whole).collect();
        self.climb_from(&Schedule::new(&self.tables, pieces, &self.tables.order), seed)
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

/// The whole schedule with the move at hand.
fn worked_out(climb: &Annealer<'_>) -> Schedule {
    let mut whole = climb.current.clone();
    whole.list.splice(climb.stretch.from..climb.stretch.until, climb.stretch.items.iter().copied());
    whole.evaluate(climb.tables, 0, u64::MAX - 1);
    whole
}

/// What a change makes of the finish, and whether it is kept, is what the whole schedule worked out anew says, and
/// all that is known after it is as if found anew.
#[test]
fn a_stretch_tells_what_the_whole_schedule_tells() {
    let (mut tried, mut kept, mut late, mut overloaded) = (0, 0, 0, 0);
    for seed in 0..40 {
        let case = Case::new(&random_problem(seed));
        let mut climb = case.climb(seed);
        for step in 0..1000 {
            let Some(is_divided) = climb.propose_move() else {
                climb.settle(false);
                continue;
            };
            if is_divided {
                climb.place_changed();
                if step % 2 == 0 {
                    climb.insert_one();
                }
            }
            let former = climb.current.clone();
            let full = worked_out(&climb);
            let slack = climb.rng.below(former.value() as usize / 10) as u64;
            let limit = match step % 3 {
                0 => former.value() + slack / 10,
                1 => former.value() - slack,
                _ => full.value() - u64::from(climb.rng.chance(0.5)),
            };
            let too_much = !climb.devices_have_time(limit);
            assert!(!too_much || full.value() > limit, "seed {seed}, step {step}");
            overloaded += u32::from(too_much);
            let known_before = climb.current.list.clone();
            let is_kept = climb.try_stretch(limit);
            assert_eq!(is_kept, full.value() <= limit, "seed {seed}, step {step}");
            late += u32::from(!climb.places_are_known);
            tried += 1;
            let expected = if is_kept { &full } else { &former };
            assert_eq!(climb.current.value(), expected.value(), "seed {seed}, step {step}");
            assert_eq!(climb.current.list, expected.list, "seed {seed}, step {step}");
            for &item in &expected.list {
                assert_eq!(climb.current.end(item), expected.end(item), "seed {seed}, step {step}: {item:?}");
            }
            climb.settle(is_kept);
            let anew = case.climb_from(&climb.current, seed);
            assert_eq!(climb.loads, anew.loads, "seed {seed}, step {step}");
            assert!(is_kept || climb.current.list == known_before);
            let anew = Known::new(&case.tables, &climb.current);
            for (place, &item) in climb.current.list.iter().enumerate() {
                assert_eq!(climb.known.place(&climb.current, item), place, "seed {seed}, step {step}");
                let (rest, right) = (climb.known.rest(&climb.current, item), anew.rest(&climb.current, item));
                assert_eq!(rest, right, "seed {seed}, step {step}: {item:?}");
            }
            let same_lanes = (0..case.tables.devices).all(|device| {
                (0..=climb.current.list.len())
                    .all(|place| climb.known.last_before(device, place) == anew.last_before(device, place))
            });
            assert!(same_lanes, "seed {seed}, step {step}");
            kept += u32::from(is_kept);
        }
    }
    assert!(tried > 10_000 && kept > 3_000 && late > 10, "{tried} tried, {kept} kept, {late} late");
    assert!(overloaded > 100, "{overloaded}");
}

/// Batches that are inserted let everything end earlier than those that take the place of old ones, more often than not.
#[test]
fn batches_go_where_their_devices_can_run_them() {
    let (mut better, mut worse) = (0, 0);
    for seed in 0..40 {
        let case = Case::new(&random_problem(seed));
        let mut climb = case.climb(seed);
        for _ in 0..500 {
            climb.step(climb.current.value() as f64 / 100.0);
            if climb.propose_move() == Some(true) {
                climb.place_changed();
                let replaced = worked_out(&climb).value();
                climb.insert_one();
                let inserted = worked_out(&climb).value();
                better += u32::from(inserted < replaced);
                worse += u32::from(inserted > replaced);
            }
            climb.settle(false);
        }
    }
    assert!(better > 200 && better > 2 * worse, "{better} are better, {worse} worse");
}

/// A climb that may pass memory limits does so on its way, and comes back; what devices hold is as if counted anew.
#[test]
fn limits_are_passed_on_the_way_only() {
    let mut passed = 0;
    for (seed, may_exceed) in (0..30).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut problem = random_problem(seed);
        let needed: u64 = problem.graph.ops().map(|op| problem.graph.activation_bytes(op)).sum();
        problem.constraints.memory_limits.push((DeviceId::new(0), needed * 16 / 4));
        let case = Case::new(&problem);
        // From a device without a limit.
        let mut climb = case.climb(3 * seed + 1).exceeding(may_exceed);
        for step in 0..20_000 {
            climb.step(climb.current.value() as f64 * 1e-2 * 1e-3f64.powf(f64::from(step) / 2e4));
            assert!(may_exceed || climb.keeps_limits(), "seed {seed}, step {step}");
            passed += u32::from(!climb.keeps_limits());
        }
        assert!(climb.keeps_limits(), "seed {seed}");
        let mut anew = case.memory.clone();
        (climb.current.pieces.iter().enumerate()).for_each(|(unit, pieces)| anew.put(unit, pieces));
        assert_eq!(climb.memory.excess(), anew.excess(), "seed {seed}");
    }
    assert!(passed > 5_000, "{passed} steps end beyond a limit");
}

/// A schedule of chains is the schedule of all their ops, as the check says too, and is found again from it.
#[test]
fn a_schedule_of_chains_is_one_of_all_ops() {
    let (mut with_chains, mut with_ends) = (0, 0);
    for seed in 0..60 {
        let problem = random_problem(seed);
        let tables = Tables::new(&problem).expect("a batch problem");
        let Some(chained) = tables.by_chains() else { continue };
        with_chains += 1;
        with_ends += u32::from(!chained.ends_out.is_empty());
        assert!(chained.ops < tables.ops);
        let mut ops: Vec<u32> = chained.chains.concat();
        ops.sort_unstable();
        assert!(ops.into_iter().eq(0..tables.ops as u32), "seed {seed}: every op is in one chain");
        let case = Case::with(&problem, chained);
        let mut climb = case.climb(seed);
        for _ in 0..400 {
            climb.step(climb.schedule().value() as f64 / 300.0);
        }
        let schedule = climb.schedule();
        let all = schedule.unchained(&tables, &case.tables);
        assert_eq!(all.value(), schedule.value(), "seed {seed}");
        let again = all.by_chains(&tables, &case.tables);
        assert_eq!((&again.pieces, again.value()), (&schedule.pieces, schedule.value()), "seed {seed}");
        for plan in [schedule.to_plan(&problem, &case.tables), all.to_plan(&problem, &tables)] {
            let mut outcome = Outcome::default();
            let budget = Budget::new(Duration::from_secs(1));
            outcome.offer(&problem, plan, "chains", &budget).expect("a plan that holds");
            assert_eq!(outcome.value().map(|value| value.0), Some(schedule.value()), "seed {seed}");
        }
        let memory = Memory::new(&problem, &tables);
        assert_eq!(memory.can_hold(&all.pieces), case.memory.can_hold(&schedule.pieces), "seed {seed}");
    }
    assert!(with_chains > 20 && with_ends > 5, "{with_chains} with chains, {with_ends} of them with ends");
}
