//! Parts of schedules exchanged.
//!
//! The ops in the order of the network, cut at two places where few results pass: what lies between is divided and ordered
//! as in one schedule, what lies before and behind as in another. Anneals of the same network are good in different parts of
//! it, so what comes of two is often better than both. Groups of inputs have no names of their own: those of each part are
//! renamed so that results which pass a cut are on the same devices on both sides of it. What is a little worse at first may be
//! better once it is annealed again, so parts are put in for that as well.

use divvy_core::rng::Rng;

use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{Item, BatchSchedule};
use crate::batch::tables::{Division, DevicePart, BatchTables};

/// The most places to cut at.
const MOST_CUTS: usize = 32;
/// The most batches that are looked at for all pairs of cuts together.
const MOST_BATCHES: usize = 200_000;
/// How many parts are tried before one is put in, how much worse what comes of it may be, and which share of all units it has
/// to divide anew at least.
const TRIES: usize = 60;
const MOST_WORSE: f64 = 0.02;
const LEAST_CHANGED: f64 = 0.05;

/// Where schedules of a network are cut.
pub(crate) struct Crossover {
    /// For each unit, the place of its first op in the order.
    places: Vec<usize>,
    cuts: Vec<CrossoverPoint>,
}

/// A place in the order of ops.
struct CrossoverPoint {
    place: usize,
    /// The ops before it whose results are read behind it.
    passing: Vec<u32>,
}

impl Crossover {
    /// The places where schedules of about so many batches are cut.
    pub(crate) fn new(tables: &BatchTables, batches: usize) -> Crossover {
        let count = tables.ops;
        let mut place_of = vec![0; count];
        tables.order.iter().enumerate().for_each(|(place, &op)| place_of[op as usize] = place);
        let first = |members: &Vec<u32>| members.iter().map(|&op| place_of[op as usize]).min().unwrap_or(0);
        let last_reader = |&op: &u32| {
            let readers = tables.outputs[op as usize].iter().map(|edge| place_of[edge.op as usize]);
            readers.max().unwrap_or(place_of[op as usize])
        };
        // How many results pass each place.
        let mut widths = vec![0i64; count + 2];
        for (place, op) in tables.order.iter().enumerate() {
            widths[place + 1] += 1;
            widths[last_reader(op) + 1] -= 1;
        }
        for place in 1..=count {
            widths[place] += widths[place - 1];
        }
        // No wider than the places beside it.
        let is_narrow = |&place: &usize| {
            let mut beside =
                [place - 1, place + 1].into_iter().filter(|&beside| 0 < beside && beside < count);
            beside.all(|beside| widths[place] <= widths[beside])
        };
        let mut places: Vec<usize> = (1..count).filter(is_narrow).collect();
        places.sort_by_key(|&place| widths[place]);
        // As many pairs as there is time for.
        let most = (2.0 * MOST_BATCHES as f64 / batches.max(1) as f64).sqrt() as usize;
        places.truncate(most.saturating_sub(2).min(MOST_CUTS));
        places.sort_unstable();
        let cut = |place: usize| {
            let before = tables.order[..place].iter();
            CrossoverPoint { place, passing: before.filter(|op| last_reader(op) >= place).copied().collect() }
        };
        let cuts = std::iter::once(0).chain(places).chain([count]).map(cut).collect();
        Crossover { places: tables.members.iter().map(first).collect(), cuts }
    }

    /// The best of all that comes of putting parts of other schedules into one, as long as it gets better. The first `tried` of
    /// the others are known to be no help to it as it is.
    pub(crate) fn put_together(
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
                        && memory.can_hold(&trial.pieces)
                    {
                        std::mem::swap(&mut best, &mut trial);
                        since = 0;
                    }
                }
            }
        }
        best
    }

    /// A schedule with a random part of some other in it, the best of a few; none if they are all far worse, or hardly differ.
    pub(crate) fn put_in(
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
        for _ in 0..TRIES {
            let (a, b) = (rng.below(self.cuts.len()), rng.below(self.cuts.len()));
            let is_all = a.abs_diff(b) == self.cuts.len() - 1;
            if a == b || is_all {
                continue;
            }
            let other = rng.pick(others);
            let is_sound = self.cross(tables, one, other, a.min(b), a.max(b), limit, &mut trial)
                && memory.can_hold(&trial.pieces);
            let changed =
                trial.pieces.iter().zip(&one.pieces).filter(|(new, old)| !are_alike(new, old)).count();
            if is_sound && changed as f64 >= least {
                limit = trial.value();
                best = Some(trial.clone());
            }
        }
        best
    }

    /// Puts the part of another schedule between two cuts into one. False if it is divided alike or the limit is passed.
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
        let part = |unit: usize| {
            usize::from(self.places[unit] >= first.place) + usize::from(self.places[unit] >= last.place)
        };
        trial.pieces.clone_from(&one.pieces);
        let new_names = names(tables, &first.passing, &one.pieces, &other.pieces);
        let units = 0..trial.pieces.len();
        for unit in units.clone().filter(|&unit| part(unit) == 1) {
            trial.pieces[unit] = renamed(&other.pieces[unit], &new_names);
        }
        if trial.pieces == one.pieces {
            return false;
        }
        let new_names = names(tables, &last.passing, &trial.pieces, &one.pieces);
        for unit in units.filter(|&unit| part(unit) == 2) {
            trial.pieces[unit] = renamed(&one.pieces[unit], &new_names);
        }
        // The order of starts, each part as much later as what it reads.
        let later = lateness(tables, &first.passing, one, other);
        let shifts = [0, later, later + lateness(tables, &last.passing, other, one)];
        let mut starts: Vec<(i64, usize, Item)> = Vec::with_capacity(one.list.len());
        for (schedule, is_between) in [(one, false), (other, true)] {
            for (place, &item) in schedule.list.iter().enumerate() {
                let part = part(tables.unit_of[item.op as usize] as usize);
                if (part == 1) == is_between {
                    starts.push((schedule.start(tables, item) as i64 + shifts[part], place, item));
                }
            }
        }
        starts.sort_unstable_by_key(|&(start, place, _)| (start, place));
        trial.list.clear();
        trial.list.extend(starts.into_iter().map(|(.., item)| item));
        trial.evaluate(tables, 0, limit)
    }
}

/// How much later some ops end in one schedule than in another.
fn lateness(tables: &BatchTables, ops: &[u32], one: &BatchSchedule, other: &BatchSchedule) -> i64 {
    let end = |schedule: &BatchSchedule, op: u32| {
        let count = schedule.pieces[tables.unit_of[op as usize] as usize].len();
        let ends = (0..count as u32).map(|piece| schedule.end(Item { op, piece }) as i64);
        ends.sum::<i64>() / count.max(1) as i64
    };
    let sum: i64 = ops.iter().map(|&op| end(one, op) - end(other, op)).sum();
    sum / ops.len().max(1) as i64
}

/// For each group of other divisions, one that is like it: the same devices have it of most ops.
fn names(tables: &BatchTables, ops: &[u32], one: &[Division], other: &[Division]) -> Vec<usize> {
    let groups = tables.groups;
    let of = |mask: u64| (0..groups).filter(move |group| mask >> group & 1 == 1);
    // By group of the other divisions and of the one.
    let mut alike = vec![0u32; groups * groups];
    for &op in ops {
        let unit = tables.unit_of[op as usize] as usize;
        for ours in &one[unit] {
            for theirs in other[unit].iter().filter(|theirs| theirs.device == ours.device) {
                for group in of(theirs.groups) {
                    of(ours.groups).for_each(|name| alike[group * groups + name] += 1);
                }
            }
        }
    }
    let mut pairs: Vec<usize> = (0..groups * groups).collect();
    pairs.sort_by_key(|&pair| std::cmp::Reverse(alike[pair]));
    let mut names = vec![usize::MAX; groups];
    let mut is_taken = vec![false; groups];
    for pair in pairs {
        let (group, name) = (pair / groups, pair % groups);
        if names[group] == usize::MAX && !is_taken[name] {
            names[group] = name;
            is_taken[name] = true;
        }
    }
    names
}

/// Whether devices have as many groups in one division as in another.
fn are_alike(one: &[DevicePart], other: &[DevicePart]) -> bool {
    let has_same = |piece: &DevicePart| {
        other.iter().any(|other| (other.device, other.count()) == (piece.device, piece.count()))
    };
    one.len() == other.len() && one.iter().all(has_same)
}

fn renamed(division: &[DevicePart], names: &[usize]) -> Division {
    let rename = |piece: &DevicePart| {
        let groups = names.iter().enumerate().filter(|(group, _)| piece.groups >> group & 1 == 1);
        DevicePart { device: piece.device, groups: groups.fold(0, |groups, (_, name)| groups | 1 << name) }
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
    fn some_schedule(tables: &BatchTables, memory: &BatchMemory, potential: &DualCost, seed: u64) -> BatchSchedule {
        let mut rng = Rng::new(seed);
        let mut whole = |unit: usize| {
            let device = rng.pick(&tables.choices[unit]).device;
            smallvec![DevicePart { device, groups: tables.all_groups() }]
        };
        let pieces = (0..tables.members.len()).map(&mut whole).collect();
        let start = BatchSchedule::new(tables, pieces, &tables.order);
        let mut climb = Annealer::new(tables, memory, potential, &start, seed).expect("memory holds");
        for _ in 0..400 {
            climb.step(start.value() as f64 / 300.0);
        }
        climb.schedule().clone()
    }

    fn some_schedules(problem: &Problem, tables: &BatchTables, memory: &BatchMemory, seed: u64) -> Vec<BatchSchedule> {
        let potential = DualCost::new(problem, tables, &Outcome::default());
        (0..4).map(|n| some_schedule(tables, memory, &potential, 4 * seed + n)).collect()
    }

    /// Every unit is divided as it may be, and the plan is worth what the schedule says.
    fn assert_holds(problem: &Problem, tables: &BatchTables, schedule: &BatchSchedule) {
        for (unit, pieces) in schedule.pieces.iter().enumerate() {
            assert!(tables.is_division(unit, pieces), "unit {unit} is divided as {pieces:?}");
        }
        let mut outcome = Outcome::default();
        let budget = Budget::new(Duration::from_secs(1));
        let plan = schedule.to_plan(problem, tables);
        outcome.offer(problem, plan, "crossing", &budget).expect("a plan that holds");
        assert_eq!(outcome.value().map(|value| value.0), Some(schedule.value()));
    }

    /// What is put together is a schedule, and no worse than what it began with.
    #[test]
    fn parts_of_schedules_make_better_ones() {
        let mut better = 0;
        for seed in 0..60 {
            let problem = modules(seed);
            let tables = BatchTables::new(&problem).expect("a batch problem");
            let memory = BatchMemory::new(&problem, &tables);
            let known = some_schedules(&problem, &tables, &memory, seed);
            let best = known.iter().min_by_key(|schedule| schedule.value()).expect("four schedules");
            let crossing = Crossover::new(&tables, best.list.len());
            assert!(crossing.cuts.len() >= 4, "{} cuts of four modules", crossing.cuts.len());
            let united = crossing.put_together(&tables, &memory, best, &known, 0);
            assert!(united.value() <= best.value(), "seed {seed}: {} after {}", united.value(), best.value());
            better += u32::from(united.value() < best.value());
            assert_holds(&problem, &tables, &united);
            // None of them is of help any more, so none need be tried again.
            for tried in [0, known.len()] {
                let again = crossing.put_together(&tables, &memory, &united, &known, tried);
                assert_eq!(again.value(), united.value(), "seed {seed}");
            }
        }
        assert!(better > 30, "{better} of 60 are better than all they were made of");
    }

    /// What a part is put in is a schedule, differs from what it was, and is not far worse.
    #[test]
    fn parts_are_put_in() {
        let mut count = 0;
        for seed in 0..60 {
            let problem = modules(seed);
            let tables = BatchTables::new(&problem).expect("a batch problem");
            let memory = BatchMemory::new(&problem, &tables);
            let known = some_schedules(&problem, &tables, &memory, seed);
            let crossing = Crossover::new(&tables, known[0].list.len());
            let mut rng = Rng::new(seed);
            let Some(new) = crossing.put_in(&tables, &memory, &known[0], &known[1..], &mut rng) else {
                continue;
            };
            count += 1;
            assert!(new.value() as f64 <= known[0].value() as f64 * (1.0 + MOST_WORSE), "seed {seed}");
            assert_ne!(new.pieces, known[0].pieces, "seed {seed}");
            assert_holds(&problem, &tables, &new);
            assert!(
                crossing.put_in(&tables, &memory, &known[0], &known[..1], &mut rng).is_none(),
                "seed {seed}: itself"
            );
        }
        assert!(count > 20, "{count} of 60 had a part that fits");
    }

    /// Groups that are the same but for their names are found, whatever their names.
    #[test]
    fn groups_are_renamed() {
        let problem = modules(0);
        let tables = BatchTables::new(&problem).expect("a batch problem");
        let whole: Division = smallvec![DevicePart { device: 0, groups: 0b1111 }];
        let mut one = vec![whole; tables.members.len()];
        one[0] = smallvec![DevicePart { device: 0, groups: 0b0111 }, DevicePart { device: 1, groups: 0b1000 }];
        one[1] = smallvec![DevicePart { device: 2, groups: 0b0001 }, DevicePart { device: 0, groups: 0b1110 }];
        let names_before = [2, 0, 3, 1];
        let other: Vec<Division> = one.iter().map(|division| renamed(division, &names_before)).collect();
        let names = names(&tables, &[0, 1], &one, &other);
        let back: Vec<Division> = other.iter().map(|division| renamed(division, &names)).collect();
        assert_eq!(back, one);
    }
}
