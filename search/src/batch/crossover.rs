//! Two-point crossover of schedules.
//!
//! The canonical order of the ops is cut at two positions that few tensors cross. The section between the cuts has
//! the divisions and the order of one schedule, the sections before and behind it those of another. Groups of inputs
//! are interchangeable within a division, so the groups of each section are relabelled to agree with those of the
//! section before it on as many devices of crossing ops as possible (a greedy assignment). Batches are ordered by
//! start, each section shifted by the mean lateness of the crossing ops.

use divvy_core::rng::Rng;

use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{BatchId, BatchSchedule};
use crate::batch::tables::{BatchTables, DevicePart, Division};

/// The most cuts.
const MOST_CUTS: usize = 32;
/// The most batches to evaluate for all pairs of cuts together.
const MOST_BATCHES: usize = 200_000;
/// For a random crossover: the number of trials, how much worse the result may be, and the least share of units whose
/// division changes.
const TRIALS: usize = 60;
const MOST_WORSE: f64 = 0.02;
const LEAST_CHANGED: f64 = 0.05;

/// The cuts of a network.
pub(crate) struct Crossover {
    /// For each unit, the position of its first op in the order.
    positions: Vec<usize>,
    cuts: Vec<CrossoverPoint>,
}

/// A cut at a position of the canonical order.
struct CrossoverPoint {
    position: usize,
    /// The ops before it with readers behind it.
    crossing_ops: Vec<u32>,
}

impl Crossover {
    /// The narrowest cuts, so many that all pairs of them can be tried on schedules of about `batches` batches.
    pub(crate) fn new(tables: &BatchTables, batches: usize) -> Crossover {
        let count = tables.ops;
        let mut position_of = vec![0; count];
        tables.order.iter().enumerate().for_each(|(position, &op)| position_of[op as usize] = position);
        let first =
            |members: &Vec<u32>| members.iter().map(|&op| position_of[op as usize]).min().unwrap_or(0);
        let last_reader = |&op: &u32| {
            let readers = tables.outputs[op as usize].iter().map(|edge| position_of[edge.op as usize]);
            readers.max().unwrap_or(position_of[op as usize])
        };
        // For each position, the number of ops before it with readers behind it.
        let mut widths = vec![0i64; count + 2];
        for (position, op) in tables.order.iter().enumerate() {
            widths[position + 1] += 1;
            widths[last_reader(op) + 1] -= 1;
        }
        for position in 1..=count {
            widths[position] += widths[position - 1];
        }
        // A local minimum of the width.
        let is_narrow = |&position: &usize| {
            let mut beside =
                [position - 1, position + 1].into_iter().filter(|&beside| 0 < beside && beside < count);
            beside.all(|beside| widths[position] <= widths[beside])
        };
        let mut positions: Vec<usize> = (1..count).filter(is_narrow).collect();
        positions.sort_by_key(|&position| widths[position]);
        // The number of pairs times batches is limited.
        let most = (2.0 * MOST_BATCHES as f64 / batches.max(1) as f64).sqrt() as usize;
        positions.truncate(most.saturating_sub(2).min(MOST_CUTS));
        positions.sort_unstable();
        let cut = |position: usize| {
            let before = tables.order[..position].iter();
            CrossoverPoint {
                position,
                crossing_ops: before.filter(|op| last_reader(op) >= position).copied().collect(),
            }
        };
        let cuts = std::iter::once(0).chain(positions).chain([count]).map(cut).collect();
        Crossover { positions: tables.members.iter().map(first).collect(), cuts }
    }

    /// The best schedule found by local search with two-point crossover: sections of the others replace those of the
    /// present best while that improves it. The first `tried` of the others are known not to improve `one`.
    pub(crate) fn combine(
        &self,
        tables: &BatchTables,
        memory: &BatchMemory,
        one: &BatchSchedule,
        others: &[BatchSchedule],
        tried: usize,
    ) -> BatchSchedule {
        let mut best = one.clone();
        let mut trial = one.clone();
        let mut since = tried;
        for other in others.iter().cycle().skip(tried) {
            if since == others.len() {
                break;
            }
            since += 1;
            for from in 0..self.cuts.len() - 1 {
                for until in from + 1..self.cuts.len() {
                    let Some(limit) = best.value().checked_sub(1) else { return best };
                    if self.cross(tables, &best, other, from, until, limit, &mut trial)
                        && memory.can_hold(&trial.divisions)
                    {
                        std::mem::swap(&mut best, &mut trial);
                        since = 0;
                    }
                }
            }
        }
        best
    }

    /// The best of some random crossovers of one schedule with others; none if all are much worse or hardly differ.
    pub(crate) fn random_crossover(
        &self,
        tables: &BatchTables,
        memory: &BatchMemory,
        one: &BatchSchedule,
        others: &[BatchSchedule],
        rng: &mut Rng,
    ) -> Option<BatchSchedule> {
        if others.is_empty() {
            return None;
        }
        let mut limit = (one.value() as f64 * (1.0 + MOST_WORSE)) as u64;
        let least = tables.members.len() as f64 * LEAST_CHANGED;
        let (mut best, mut trial) = (None, one.clone());
        for _ in 0..TRIALS {
            let (a, b) = (rng.below(self.cuts.len()), rng.below(self.cuts.len()));
            let is_whole = a.abs_diff(b) == self.cuts.len() - 1;
            if a == b || is_whole {
                continue;
            }
            let other = rng.pick(others);
            let is_valid = self.cross(tables, one, other, a.min(b), a.max(b), limit, &mut trial)
                && memory.can_hold(&trial.divisions);
            let changed =
                trial.divisions.iter().zip(&one.divisions).filter(|(new, old)| !are_alike(new, old)).count();
            if is_valid && changed as f64 >= least {
                limit = trial.value();
                best = Some(trial.clone());
            }
        }
        best
    }

    /// Evaluates the crossover of two schedules at two cuts in `trial`. False if no division changes or the limit is
    /// exceeded.
    #[expect(clippy::too_many_arguments, reason = "two schedules, two cuts, and where the result goes")]
    fn cross(
        &self,
        tables: &BatchTables,
        one: &BatchSchedule,
        other: &BatchSchedule,
        from: usize,
        until: usize,
        limit: u64,
        trial: &mut BatchSchedule,
    ) -> bool {
        let [first, last] = [from, until].map(|cut| &self.cuts[cut]);
        let section = |unit: usize| {
            usize::from(self.positions[unit] >= first.position)
                + usize::from(self.positions[unit] >= last.position)
        };
        trial.divisions.clone_from(&one.divisions);
        let labels = relabelling(tables, &first.crossing_ops, &one.divisions, &other.divisions);
        let units = 0..trial.divisions.len();
        for unit in units.clone().filter(|&unit| section(unit) == 1) {
            trial.divisions[unit] = relabelled(&other.divisions[unit], &labels);
        }
        if trial.divisions == one.divisions {
            return false;
        }
        let labels = relabelling(tables, &last.crossing_ops, &trial.divisions, &one.divisions);
        for unit in units.filter(|&unit| section(unit) == 2) {
            trial.divisions[unit] = relabelled(&one.divisions[unit], &labels);
        }
        // By start, each section shifted by the lateness of its producers.
        let later = lateness(tables, &first.crossing_ops, one, other);
        let shifts = [0, later, later + lateness(tables, &last.crossing_ops, other, one)];
        let mut starts: Vec<(i64, usize, BatchId)> = Vec::with_capacity(one.list.len());
        for (schedule, is_between) in [(one, false), (other, true)] {
            for (position, &batch) in schedule.list.iter().enumerate() {
                let section = section(tables.unit_of[batch.op as usize] as usize);
                if (section == 1) == is_between {
                    starts.push((schedule.start(tables, batch) as i64 + shifts[section], position, batch));
                }
            }
        }
        starts.sort_unstable_by_key(|&(start, position, _)| (start, position));
        trial.list.clear();
        trial.list.extend(starts.into_iter().map(|(.., batch)| batch));
        trial.evaluate(tables, 0, limit)
    }
}

/// The mean by which some ops end later in one schedule than in another.
fn lateness(tables: &BatchTables, ops: &[u32], one: &BatchSchedule, other: &BatchSchedule) -> i64 {
    let end = |schedule: &BatchSchedule, op: u32| {
        let count = schedule.divisions[tables.unit_of[op as usize] as usize].len();
        let ends = (0..count as u32).map(|part| schedule.end(BatchId { op, part }) as i64);
        ends.sum::<i64>() / count.max(1) as i64
    };
    let sum: i64 = ops.iter().map(|&op| end(one, op) - end(other, op)).sum();
    sum / ops.len().max(1) as i64
}

/// A bijection from the groups of other divisions to those of `one`, greedily by the number of ops that run both
/// groups on the same device.
fn relabelling(tables: &BatchTables, ops: &[u32], one: &[Division], other: &[Division]) -> Vec<usize> {
    let groups = tables.groups;
    let of = |mask: u64| (0..groups).filter(move |group| mask >> group & 1 == 1);
    // By group of the other divisions, then of `one`.
    let mut matches = vec![0u32; groups * groups];
    for &op in ops {
        let unit = tables.unit_of[op as usize] as usize;
        for ours in &one[unit] {
            for theirs in other[unit].iter().filter(|theirs| theirs.device == ours.device) {
                for group in of(theirs.groups) {
                    of(ours.groups).for_each(|name| matches[group * groups + name] += 1);
                }
            }
        }
    }
    let mut pairs: Vec<usize> = (0..groups * groups).collect();
    pairs.sort_by_key(|&pair| std::cmp::Reverse(matches[pair]));
    let mut relabelling = vec![usize::MAX; groups];
    let mut is_taken = vec![false; groups];
    for pair in pairs {
        let (group, name) = (pair / groups, pair % groups);
        if relabelling[group] == usize::MAX && !is_taken[name] {
            relabelling[group] = name;
            is_taken[name] = true;
        }
    }
    relabelling
}

/// Whether two divisions have the same devices with the same numbers of groups.
fn are_alike(one: &[DevicePart], other: &[DevicePart]) -> bool {
    let has_same = |part: &DevicePart| {
        other.iter().any(|other| (other.device, other.count()) == (part.device, part.count()))
    };
    one.len() == other.len() && one.iter().all(has_same)
}

/// A division with relabelled groups.
fn relabelled(division: &[DevicePart], relabelling: &[usize]) -> Division {
    let rename = |part: &DevicePart| {
        let groups = relabelling.iter().enumerate().filter(|(group, _)| part.groups >> group & 1 == 1);
        DevicePart { device: part.device, groups: groups.fold(0, |groups, (_, name)| groups | 1 << name) }
    };
    division.iter().map(rename).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::generate::{RwnnOptions, Wiring, rwnn};
    use divvy_core::graph::Graph;
    use std::time::Duration;

    use crate::budget::Budget;
    use crate::outcome::Outcome;
    use divvy_core::problem::{Objective, OwnHardware, Problem};
    use smallvec::smallvec;

    use crate::batch::annealing::Annealer;
    use crate::batch::dual_cost::DualCost;

    fn modules(seed: u64) -> Problem {
        let wiring = [Wiring::Sdep, Wiring::Wdep][seed as usize % 2];
        let channels = 1 + seed as u32 % 3;
        let options = RwnnOptions {
            modules: 4,
            nodes: 4,
            seed,
            wiring,
            channels,
            batches: true,
            ..RwnnOptions::default()
        };
        let spec = rwnn(&options).expect("valid options");
        let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("its own hardware") };
        let graph = Graph::new(spec.graph).expect("a valid graph");
        let objective = Objective::Batch { inputs: 16 };
        Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints)
            .expect("a valid problem")
    }

    /// A schedule after some moves from whole batches on random devices.
    fn some_schedule(
        tables: &BatchTables,
        memory: &BatchMemory,
        dual_cost: &DualCost,
        seed: u64,
    ) -> BatchSchedule {
        let mut rng = Rng::new(seed);
        let mut whole = |unit: usize| {
            let device = rng.pick(&tables.choices[unit]).device;
            smallvec![DevicePart { device, groups: tables.all_groups() }]
        };
        let divisions = (0..tables.members.len()).map(&mut whole).collect();
        let start = BatchSchedule::new(tables, divisions, &tables.order);
        let mut annealer = Annealer::new(tables, memory, dual_cost, &start, seed).expect("memory holds");
        for _ in 0..400 {
            annealer.step(start.value() as f64 / 300.0);
        }
        annealer.schedule().clone()
    }

    fn some_schedules(
        problem: &Problem,
        tables: &BatchTables,
        memory: &BatchMemory,
        seed: u64,
    ) -> Vec<BatchSchedule> {
        let dual_cost = DualCost::new(problem, tables, &Outcome::default());
        (0..4).map(|n| some_schedule(tables, memory, &dual_cost, 4 * seed + n)).collect()
    }

    /// Every division is valid, and the value of the plan is the makespan of the schedule.
    fn assert_holds(problem: &Problem, tables: &BatchTables, schedule: &BatchSchedule) {
        for (unit, division) in schedule.divisions.iter().enumerate() {
            assert!(tables.is_division(unit, division), "unit {unit} is divided as {division:?}");
        }
        let mut outcome = Outcome::default();
        let budget = Budget::new(Duration::from_secs(1));
        let plan = schedule.to_plan(problem, tables);
        outcome.offer(problem, plan, "crossover", &budget).expect("a plan that holds");
        assert_eq!(outcome.value().map(|value| value.0), Some(schedule.value()));
    }

    /// The result of the local search is a schedule, and no worse than its start.
    #[test]
    fn crossovers_of_schedules_improve_them() {
        let mut better = 0;
        for seed in 0..60 {
            let problem = modules(seed);
            let tables = BatchTables::new(&problem).expect("a batch problem");
            let memory = BatchMemory::new(&problem, &tables);
            let known = some_schedules(&problem, &tables, &memory, seed);
            let best = known.iter().min_by_key(|schedule| schedule.value()).expect("four schedules");
            let crossover = Crossover::new(&tables, best.list.len());
            assert!(crossover.cuts.len() >= 4, "{} cuts of four modules", crossover.cuts.len());
            let combined = crossover.combine(&tables, &memory, best, &known, 0);
            assert!(
                combined.value() <= best.value(),
                "seed {seed}: {} after {}",
                combined.value(),
                best.value()
            );
            better += u32::from(combined.value() < best.value());
            assert_holds(&problem, &tables, &combined);
            // No other schedule improves the result, so none need be tried again.
            for tried in [0, known.len()] {
                let again = crossover.combine(&tables, &memory, &combined, &known, tried);
                assert_eq!(again.value(), combined.value(), "seed {seed}");
            }
        }
        assert!(better > 30, "{better} of 60 are better than their parents");
    }

    /// A random crossover is a schedule, differs from its parent, and is not much worse.
    #[test]
    fn random_crossovers_are_schedules() {
        let mut count = 0;
        for seed in 0..60 {
            let problem = modules(seed);
            let tables = BatchTables::new(&problem).expect("a batch problem");
            let memory = BatchMemory::new(&problem, &tables);
            let known = some_schedules(&problem, &tables, &memory, seed);
            let crossover = Crossover::new(&tables, known[0].list.len());
            let mut rng = Rng::new(seed);
            let Some(new) = crossover.random_crossover(&tables, &memory, &known[0], &known[1..], &mut rng)
            else {
                continue;
            };
            count += 1;
            assert!(new.value() as f64 <= known[0].value() as f64 * (1.0 + MOST_WORSE), "seed {seed}");
            assert_ne!(new.divisions, known[0].divisions, "seed {seed}");
            assert_holds(&problem, &tables, &new);
            assert!(
                crossover.random_crossover(&tables, &memory, &known[0], &known[..1], &mut rng).is_none(),
                "seed {seed}: itself"
            );
        }
        assert!(count > 20, "{count} of 60 had a crossover");
    }

    /// Any permutation of the groups is inverted.
    #[test]
    fn groups_are_relabelled() {
        let problem = modules(0);
        let tables = BatchTables::new(&problem).expect("a batch problem");
        let whole: Division = smallvec![DevicePart { device: 0, groups: 0b1111 }];
        let mut one = vec![whole; tables.members.len()];
        one[0] =
            smallvec![DevicePart { device: 0, groups: 0b0111 }, DevicePart { device: 1, groups: 0b1000 }];
        one[1] =
            smallvec![DevicePart { device: 2, groups: 0b0001 }, DevicePart { device: 0, groups: 0b1110 }];
        let permutation = [2, 0, 3, 1];
        let other: Vec<Division> = one.iter().map(|division| relabelled(division, &permutation)).collect();
        let relabelling = relabelling(&tables, &[0, 1], &one, &other);
        let back: Vec<Division> = other.iter().map(|division| relabelled(division, &relabelling)).collect();
        assert_eq!(back, one);
    }
}
