//! The planners for `batch`, by name.

use std::time::Duration;

use crate::budget::{Budget, StopReason};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;

use crate::batch::annealing::Annealer;
use crate::batch::crossover::Crossover;
use crate::batch::device_string::StringSearch;
use crate::batch::dual_cost::DualCost;
use crate::batch::list_scheduling::{Listing, Measure, breadth_first, by_rank, partitions, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::BatchSchedule;
use crate::batch::tables::BatchTables;
use crate::batch::{supports, undivided};
use crate::planner::Planner;
use crate::run::Run;

/// The share of the time that goes to the problem with all inputs in one batch.
const WHOLE_SHARE: f64 = 0.15;
/// Temperatures as shares of the finish: at the beginning of an anneal of its own, of one that goes on from the best, and at
/// the end of each.
const TEMPERATURES: (f64, f64, f64) = (4e-3, 1e-3, 3e-5);
/// The same for one that goes on from parts of two.
const CROSSED_TEMPERATURE: f64 = 3e-4;
/// The same for chains, and where all their ops are by themselves afterwards.
const CHAIN_TEMPERATURES: (f64, f64) = (2e-3, 1e-4);
const LINK_TEMPERATURE: f64 = 1.5e-4;
/// The share of an anneal that is for chains.
const CHAIN_SHARE: f64 = 0.15;
/// Chains do not count where there are more than this part of the ops: what is divided at large is then settled with all ops.
const MOST_CHAINS: f64 = 0.55;
/// With fewer units than this, a unit is a larger share of the finish, and temperatures are higher by as much.
const USUAL_UNITS: f64 = 150.0;
/// How many anneals of their own there are where time allows as many, and the share of the time they take.
const LEAST_OWN: usize = 4;
const MOST_OWN: usize = 16;
const OWN_SHARE: f64 = 0.6;
/// How many go on from the best then, or for each of their own, from parts of two.
const ROUNDS: usize = 4;
const ROUNDS_FOR_EACH: f64 = 1.25;
/// What an anneal of its own takes at least for each unit: seconds, or moves where a run must not depend on the clock.
const LEAST_SECONDS: f64 = 0.012;
const LEAST_MOVES: f64 = 12_000.0;

pub(crate) struct Divisions;

impl Planner for Divisions {
    fn name(&self) -> &'static str {
        "divisions"
    }

    fn about(&self) -> &'static str {
        "the best schedule of whole batches, then divisions and order annealed together"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
        let memory = BatchMemory::new(run.problem, &tables);
        let goes_on = run.outcome().found_by.as_deref() == Some(self.name());
        let known = run.outcome().best.as_ref().filter(|_| goes_on).and_then(|(plan, score)| match plan {
            Plan::Batch(plan) => BatchSchedule::of_plan(&tables, plan, &score.starts),
            _ => None,
        });
        let starts = known.map_or_else(|| starts(run, &tables, &memory), |known| vec![known]);
        if starts.is_empty() {
            return StopReason::Finished;
        }
        let are_few = |chained: &BatchTables| chained.ops as f64 <= tables.ops as f64 * MOST_CHAINS;
        let chained = tables.by_chains().filter(are_few);
        let all = MoveGrain::new(run, &tables);
        let chains = chained.as_ref().map(|chained| MoveGrain::new(run, chained));
        anneal_divisions(run, &all, chains.as_ref(), &starts)
    }
}

/// What is annealed: all ops, or chains of them.
struct MoveGrain<'t> {
    tables: &'t BatchTables,
    memory: BatchMemory,
    potential: DualCost,
    /// By what temperatures are multiplied.
    warmth: f64,
}

impl<'t> MoveGrain<'t> {
    fn new(run: &Run<'_>, tables: &'t BatchTables) -> MoveGrain<'t> {
        MoveGrain {
            tables,
            memory: BatchMemory::new(run.problem, tables),
            potential: DualCost::new(run.problem, tables, run.outcome()),
            warmth: (USUAL_UNITS / tables.members.len().max(1) as f64).max(1.0),
        }
    }

    /// A search from a schedule; none if it breaks a memory limit.
    fn climb(&self, start: &BatchSchedule, seed: u64) -> Option<Annealer<'_>> {
        Annealer::new(self.tables, &self.memory, &self.potential, start, seed)
    }

    /// Lets a search cool down from one temperature to another while a walk makes its progress, and tells of each schedule
    /// within memory limits that it comes to; false if the walk is over.
    fn cool(
        &self,
        climb: &mut Annealer<'_>,
        walk: &mut StringSearch<'_, '_, '_>,
        (hot, cold): (f64, f64),
        (begin, end): (f64, f64),
        mut tell: impl FnMut(&mut StringSearch<'_, '_, '_>, &BatchSchedule),
    ) -> bool {
        let scale = climb.schedule().value() as f64 * self.warmth;
        let (mut progress, mut temperature) = (f64::NAN, 0.0);
        while walk.goes_on() {
            if walk.progress() != progress {
                progress = walk.progress();
                let share = ((progress - begin) / (end - begin)).max(0.0);
                // All that is left belongs to the last one.
                if share >= 1.0 && end < 1.0 {
                    return true;
                }
                temperature = scale * hot * (cold / hot).powf(share);
            }
            if climb.step(temperature) && climb.keeps_limits() {
                tell(walk, climb.schedule());
            }
        }
        false
    }
}

/// How time is shared by anneals of their own, from the given starts, and rounds that go on from what these lead to.
struct AnnealingPlan {
    own: usize,
    own_share: f64,
    rounds: usize,
    /// Whether a round begins with a part of another schedule in the best one, or with the best one itself.
    is_crossed: bool,
    /// Temperatures at the beginning of both, as shares of the finish.
    first: f64,
    again: f64,
}

impl AnnealingPlan {
    fn new(budget: &Budget, units: usize, has_chains: bool, starts: usize) -> AnnealingPlan {
        let left = budget.time.saturating_sub(budget.start.elapsed()).as_secs_f64();
        let work = budget.nodes.map_or(left / LEAST_SECONDS, |nodes| nodes as f64 / LEAST_MOVES);
        let own = ((OWN_SHARE * work / units.max(1) as f64) as usize).min(MOST_OWN);
        let (first, again, _) = TEMPERATURES;
        let one = AnnealingPlan { own: 1, own_share: OWN_SHARE, rounds: ROUNDS, is_crossed: false, first, again };
        match (own >= LEAST_OWN, starts) {
            // What chains lead to needs little.
            _ if has_chains => {
                AnnealingPlan { own: LEAST_OWN, first: LINK_TEMPERATURE, again: LINK_TEMPERATURE, ..one }
            }
            (true, _) => AnnealingPlan {
                own,
                rounds: (own as f64 * ROUNDS_FOR_EACH) as usize,
                is_crossed: true,
                again: CROSSED_TEMPERATURE,
                ..one
            },
            // In less time one, or if there are several starts a colder one from each.
            (false, 0 | 1) => one,
            (false, own) => {
                AnnealingPlan { own, own_share: own as f64 / (own + ROUNDS) as f64, first: again, ..one }
            }
        }
    }

    fn count(&self) -> usize {
        self.own + self.rounds
    }

    /// By which share of the time a part of it begins.
    fn begin(&self, part: usize) -> f64 {
        match part.checked_sub(self.own) {
            None => self.own_share * part as f64 / self.own as f64,
            Some(round) => self.own_share + (1.0 - self.own_share) * round as f64 / self.rounds as f64,
        }
    }
}

/// Anneals from several starts and then from the best, or from parts of two; where there are chains, these before each start.
fn anneal_divisions(
    run: &mut Run<'_>,
    all: &MoveGrain<'_>,
    chains: Option<&MoveGrain<'_>>,
    starts: &[BatchSchedule],
) -> StopReason {
    let MoveGrain { tables, memory, .. } = all;
    let seed = run.budget.seed;
    let mut rng = Rng::new(seed);
    let course = AnnealingPlan::new(run.budget, tables.members.len(), chains.is_some(), starts.len());
    let mut walk = StringSearch::new(run, tables, &starts[0]);
    let crossing = Crossover::new(tables, starts[0].list.len());
    let mut known: Vec<BatchSchedule> = Vec::new();
    // The best finish to which parts of all those known have nothing to give.
    let mut settled = None;
    for part in 0..course.count() {
        let seed = seed.wrapping_add(1000 * part as u64);
        let is_own = part < course.own;
        let (mut begin, end) = (course.begin(part), course.begin(part + 1));
        let (mut start, hot) = if is_own {
            (starts[part % starts.len()].clone(), course.first)
        } else {
            let others = if course.is_crossed { &known[..] } else { &[] };
            let crossed = crossing.put_in(tables, memory, walk.best(), others, &mut rng);
            (crossed.unwrap_or_else(|| walk.best().clone()), course.again)
        };
        if let Some(chains) = chains.filter(|_| is_own) {
            let taken = start.by_chains(tables, chains.tables);
            if let Some(climb) = chains.climb(&taken, seed) {
                let until = begin + CHAIN_SHARE * (end - begin);
                let mut climb = climb.exceeding(true);
                if !chains.cool(&mut climb, &mut walk, CHAIN_TEMPERATURES, (begin, until), |_, _| ()) {
                    break;
                }
                if climb.keeps_limits() {
                    start = climb.schedule().unchained(tables, chains.tables);
                }
                begin = until;
            }
        }
        let Some(climb) = all.climb(&start, seed) else { continue };
        let mut climb = climb.exceeding(is_own);
        let note = |walk: &mut StringSearch<'_, '_, '_>, schedule: &BatchSchedule| {
            walk.note(schedule);
        };
        if !all.cool(&mut climb, &mut walk, (hot, TEMPERATURES.2), (begin, end), note) {
            break;
        }
        let tried = if settled == Some(walk.best().value()) { known.len() } else { 0 };
        known.push(climb.schedule().clone());
        let united = crossing.put_together(tables, memory, walk.best(), &known, tried);
        walk.note(&united);
        settled = Some(walk.best().value());
    }
    walk.end()
}

/// Shares of the ops that are divided further than the rest, where memory is limited.
const EARLY_SHARES: [f64; 4] = [0.15, 0.25, 0.35, 0.5];
/// How many starts are annealed.
const MOST_STARTS: usize = 3;
/// How much worse than the best start another may be: those far behind it only cost time.
const MOST_BEHIND: f64 = 0.02;

/// The best few of list schedules for every way to divide all ops alike, of b-HEFT, and of whole batches, the best first.
fn starts(run: &mut Run<'_>, tables: &BatchTables, memory: &BatchMemory) -> Vec<BatchSchedule> {
    // For each way to divide, the best schedule.
    let mut best: Vec<(Option<Vec<u32>>, BatchSchedule)> = Vec::new();
    let mut keep = |new: Option<BatchSchedule>, sizes: Option<Vec<u32>>, run: &mut Run<'_>| {
        let Some(new) = new.filter(|new| new.value() < NEVER) else { return };
        if run.outcome().value().is_none_or(|value| new.value() < value.0) {
            let offered = run.offer(new.to_plan(run.problem, tables));
            debug_assert!(offered.is_ok(), "{offered:?}");
        }
        match best.iter_mut().find(|(known, _)| *known == sizes) {
            Some((_, known)) if known.value() <= new.value() => {}
            Some((_, known)) => *known = new,
            None => best.push((sizes, new)),
        }
    };
    let orders = [by_rank(tables), breadth_first(tables)];
    let mut patterns: Vec<Option<Vec<u32>>> = vec![None];
    if let Some(unit) = (0..tables.members.len()).max_by_key(|&unit| tables.choices[unit].len()) {
        patterns.extend(partitions(tables, unit).into_iter().take(24).map(Some));
    }
    for order in &orders {
        for sizes in &patterns {
            if run.budget.is_spent() && run.outcome().best.is_some() {
                break;
            }
            let listing = Listing {
                order,
                measure: Measure::Finish,
                inserts: true,
                sizes: sizes.as_deref(),
                early: None,
            };
            keep(schedule(tables, memory, &listing, run.budget), sizes.clone(), run);
        }
    }
    // Where memory allows more copies of some weights only, the first ops are divided further than the rest.
    let order = &orders[1];
    for (fine, coarse) in
        patterns.iter().flatten().flat_map(|a| patterns.iter().flatten().map(move |b| (a, b)))
    {
        if !memory.is_limited() || fine.len() <= coarse.len() {
            continue;
        }
        for share in EARLY_SHARES {
            if run.budget.is_spent() && run.outcome().best.is_some() {
                break;
            }
            let early = Some(((tables.ops as f64 * share) as usize, &fine[..]));
            let listing =
                Listing { order, measure: Measure::Finish, inserts: true, sizes: Some(coarse), early };
            let sizes = Some([&fine[..], &coarse[..]].concat());
            keep(schedule(tables, memory, &listing, run.budget), sizes, run);
        }
    }
    let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
    let time = left.mul_f64(WHOLE_SHARE).max(Duration::from_millis(1));
    let budget = Budget { start: std::time::Instant::now(), time, ..run.budget.clone() };
    if let Some(whole) = undivided::problem(run.problem) {
        let schedule = undivided::schedule(&whole, tables, run, &budget);
        keep(schedule, Some(vec![tables.groups as u32]), run);
    }
    best.sort_by_key(|(_, schedule)| schedule.value());
    let least = best.first().map_or(0, |(_, schedule)| schedule.value());
    let is_near = |schedule: &BatchSchedule| schedule.value() as f64 <= least as f64 * (1.0 + MOST_BEHIND);
    best.into_iter().map(|(_, schedule)| schedule).filter(is_near).take(MOST_STARTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(moves: u64, has_chains: bool, starts: usize) -> AnnealingPlan {
        let budget = Budget { nodes: Some(moves), ..Budget::new(Duration::from_secs(1)) };
        AnnealingPlan::new(&budget, 100, has_chains, starts)
    }

    /// One part begins where the last one ends, and the last one ends with the time.
    #[test]
    fn courses_share_all_time() {
        for moves in [0, 1_000_000, 10_000_000, 1_000_000_000] {
            for (has_chains, starts) in [(false, 1), (false, 3), (true, 1)] {
                let course = course(moves, has_chains, starts);
                let begins: Vec<f64> = (0..=course.count()).map(|part| course.begin(part)).collect();
                assert!(begins.is_sorted_by(|a, b| a < b), "{begins:?}");
                assert!(begins[0] == 0.0 && (begins[course.count()] - 1.0).abs() < 1e-9, "{begins:?}");
                assert!((begins[course.own] - course.own_share).abs() < 1e-9, "{begins:?}");
            }
        }
    }

    /// With more time there are more anneals; with little, one from each start.
    #[test]
    fn courses_have_more_parts_in_more_time() {
        assert_eq!(course(0, false, 1).own, 1);
        assert_eq!(course(0, false, 3).own, 3);
        assert_eq!(course(1_000_000_000, false, 1).own, MOST_OWN);
        let some = course(15_000_000, false, 1);
        assert!(LEAST_OWN < some.own && some.own < MOST_OWN && some.is_crossed, "{}", some.own);
        assert!(some.rounds > some.own);
    }
}
