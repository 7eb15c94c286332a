//! `divisions`, the best planner of `batch`: simulated annealing of divisions and order from several starts, with crossover.
//!
//! 1. *Starts*: list schedules with the divisions of b-HEFT and with every uniform partition of the inputs, and the
//!    best plan of the `latency` problem with all inputs in one batch. The best few are kept.
//! 2. *Independent annealings* from the starts. If serial chains make the network much smaller, each begins with an
//!    annealing of the contracted network.
//! 3. *Restarts* at a lower temperature, from the best schedule or from a crossover of it with others. After each
//!    annealing the best schedule is improved by local search with [`Crossover`].
//!
//! How many there are and what share of the budget they have follows from the budget and the size of the network
//! ([`AnnealingPlan`]). With a node budget a node is one move. The planner continues from its own best plan when it
//! is called again.

use std::time::Duration;

use crate::budget::{Budget, StopReason};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;

use crate::batch::annealing::Annealer;
use crate::batch::crossover::Crossover;
use crate::batch::device_string::DivisionSearch;
use crate::batch::dual_cost::DualCost;
use crate::batch::list_scheduling::{ListSettings, Measure, breadth_first, by_rank, partitions, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::BatchSchedule;
use crate::batch::tables::{BatchTables, supports};
use crate::batch::undivided;
use crate::planner::Planner;
use crate::run::Run;

/// The share of the time for the problem with all inputs in one batch.
const UNDIVIDED_SHARE: f64 = 0.15;
/// Temperatures as shares of the makespan: at the beginning of an independent annealing, of a restart from the best
/// schedule, and at the end of both.
const TEMPERATURES: (f64, f64, f64) = (4e-3, 1e-3, 3e-5);
/// The temperature at the beginning of a restart from a crossover.
const CROSSOVER_TEMPERATURE: f64 = 3e-4;
/// The temperatures of an annealing of the contracted network, and the first one of the expanded network after it.
const CHAIN_TEMPERATURES: (f64, f64) = (2e-3, 1e-4);
const EXPANDED_TEMPERATURE: f64 = 1.5e-4;
/// The share of an independent annealing for the contracted network.
const CHAIN_SHARE: f64 = 0.15;
/// The most chains, as a share of the ops, for which the contracted network is annealed.
const MOST_CHAIN_SHARE: f64 = 0.55;
/// With fewer units than this, a unit is a larger share of the makespan, and temperatures are proportionally higher.
const REFERENCE_UNITS: f64 = 150.0;
/// The least and the most independent annealings of a long budget, and their share of the time.
const LEAST_INDEPENDENT: usize = 4;
const MOST_INDEPENDENT: usize = 16;
const INDEPENDENT_SHARE: f64 = 0.6;
/// The number of restarts from the best schedule; and from crossovers, for each independent annealing.
const RESTARTS: usize = 4;
const RESTARTS_PER_INDEPENDENT: f64 = 1.25;
/// The least budget of an independent annealing, for each unit: seconds, or moves with a node budget.
const SECONDS_PER_UNIT: f64 = 0.012;
const MOVES_PER_UNIT: f64 = 12_000.0;

pub(crate) struct Divisions;

impl Planner for Divisions {
    fn name(&self) -> &'static str {
        "divisions"
    }

    fn about(&self) -> &'static str {
        "simulated annealing of divisions and order, from list schedules and whole batches"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
        let memory = BatchMemory::new(run.problem, &tables);
        let continues = run.outcome().found_by.as_deref() == Some(self.name());
        let known = run.outcome().best.as_ref().filter(|_| continues).and_then(|(plan, score)| match plan {
            Plan::Batch(plan) => BatchSchedule::of_plan(&tables, plan, &score.starts),
            _ => None,
        });
        let starts = known.map_or_else(|| starts(run, &tables, &memory), |known| vec![known]);
        if starts.is_empty() {
            return StopReason::Finished;
        }
        let are_few =
            |contracted: &BatchTables| contracted.ops as f64 <= tables.ops as f64 * MOST_CHAIN_SHARE;
        let contracted = tables.contract_chains().filter(are_few);
        let all = Granularity::new(run, &tables);
        let chains = contracted.as_ref().map(|contracted| Granularity::new(run, contracted));
        anneal_divisions(run, &all, chains.as_ref(), &starts)
    }
}

/// The network that is annealed: all ops, or the contracted one.
struct Granularity<'t> {
    tables: &'t BatchTables,
    memory: BatchMemory,
    dual_cost: DualCost,
    /// The factor of temperatures.
    temperature_factor: f64,
}

impl<'t> Granularity<'t> {
    fn new(run: &Run<'_>, tables: &'t BatchTables) -> Granularity<'t> {
        Granularity {
            tables,
            memory: BatchMemory::new(run.problem, tables),
            dual_cost: DualCost::new(run.problem, tables, run.outcome()),
            temperature_factor: (REFERENCE_UNITS / tables.members.len().max(1) as f64).max(1.0),
        }
    }

    /// An annealing from a schedule; none if that exceeds a memory limit.
    fn annealer(&self, start: &BatchSchedule, seed: u64) -> Option<Annealer<'_>> {
        Annealer::new(self.tables, &self.memory, &self.dual_cost, start, seed)
    }

    /// Anneals with temperatures from `hot` to `cold` while the progress of the search goes from `begin` to `end`,
    /// and passes each accepted schedule within memory limits to `accept`; false if the search is over.
    fn cool(
        &self,
        annealer: &mut Annealer<'_>,
        search: &mut DivisionSearch<'_, '_, '_>,
        (hot, cold): (f64, f64),
        (begin, end): (f64, f64),
        mut accept: impl FnMut(&mut DivisionSearch<'_, '_, '_>, &BatchSchedule),
    ) -> bool {
        let scale = annealer.schedule().value() as f64 * self.temperature_factor;
        let (mut progress, mut temperature) = (f64::NAN, 0.0);
        while search.begin_evaluation() {
            if search.progress() != progress {
                progress = search.progress();
                let share = ((progress - begin) / (end - begin)).max(0.0);
                // The last annealing has all that is left.
                if share >= 1.0 && end < 1.0 {
                    return true;
                }
                temperature = scale * hot * (cold / hot).powf(share);
            }
            if annealer.step(temperature) && annealer.is_within_limits() {
                accept(search, annealer.schedule());
            }
        }
        false
    }
}

/// The numbers of independent annealings and of restarts, and their shares of the budget.
struct AnnealingPlan {
    independent: usize,
    independent_share: f64,
    restarts: usize,
    /// Whether restarts begin with crossovers, or with the best schedule itself.
    has_crossover: bool,
    /// The first temperatures of both, as shares of the makespan.
    first: f64,
    again: f64,
}

impl AnnealingPlan {
    fn new(budget: &Budget, units: usize, has_chains: bool, starts: usize) -> AnnealingPlan {
        let left = budget.time.saturating_sub(budget.start.elapsed()).as_secs_f64();
        let work = budget.nodes.map_or(left / SECONDS_PER_UNIT, |nodes| nodes as f64 / MOVES_PER_UNIT);
        let independent = ((INDEPENDENT_SHARE * work / units.max(1) as f64) as usize).min(MOST_INDEPENDENT);
        let (first, again, _) = TEMPERATURES;
        let one = AnnealingPlan {
            independent: 1,
            independent_share: INDEPENDENT_SHARE,
            restarts: RESTARTS,
            has_crossover: false,
            first,
            again,
        };
        match (independent >= LEAST_INDEPENDENT, starts) {
            // Expanded schedules need a low temperature only.
            _ if has_chains => AnnealingPlan {
                independent: LEAST_INDEPENDENT,
                first: EXPANDED_TEMPERATURE,
                again: EXPANDED_TEMPERATURE,
                ..one
            },
            (true, _) => AnnealingPlan {
                independent,
                restarts: (independent as f64 * RESTARTS_PER_INDEPENDENT) as usize,
                has_crossover: true,
                again: CROSSOVER_TEMPERATURE,
                ..one
            },
            // With a short budget one, or a colder one from each of several starts.
            (false, 0 | 1) => one,
            (false, independent) => AnnealingPlan {
                independent,
                independent_share: independent as f64 / (independent + RESTARTS) as f64,
                first: again,
                ..one
            },
        }
    }

    fn count(&self) -> usize {
        self.independent + self.restarts
    }

    /// The share of the budget at which an annealing begins, by number.
    fn begin(&self, number: usize) -> f64 {
        match number.checked_sub(self.independent) {
            None => self.independent_share * number as f64 / self.independent as f64,
            Some(restart) => {
                self.independent_share
                    + (1.0 - self.independent_share) * restart as f64 / self.restarts as f64
            }
        }
    }
}

/// Runs all annealings of a plan.
fn anneal_divisions(
    run: &mut Run<'_>,
    all: &Granularity<'_>,
    chains: Option<&Granularity<'_>>,
    starts: &[BatchSchedule],
) -> StopReason {
    let Granularity { tables, memory, .. } = all;
    let seed = run.budget.seed;
    let mut rng = Rng::new(seed);
    let annealing_plan = AnnealingPlan::new(run.budget, tables.members.len(), chains.is_some(), starts.len());
    let mut search = DivisionSearch::new(run, tables, &starts[0]);
    let crossover = Crossover::new(tables, starts[0].list.len());
    let mut known: Vec<BatchSchedule> = Vec::new();
    // The best makespan that no crossover with the known schedules improves.
    let mut local_optimum = None;
    for number in 0..annealing_plan.count() {
        let seed = seed.wrapping_add(1000 * number as u64);
        let is_independent = number < annealing_plan.independent;
        let (mut begin, end) = (annealing_plan.begin(number), annealing_plan.begin(number + 1));
        let (mut start, hot) = if is_independent {
            (starts[number % starts.len()].clone(), annealing_plan.first)
        } else {
            let others = if annealing_plan.has_crossover { &known[..] } else { &[] };
            let child = crossover.random_crossover(tables, memory, search.best(), others, &mut rng);
            (child.unwrap_or_else(|| search.best().clone()), annealing_plan.again)
        };
        if let Some(chains) = chains.filter(|_| is_independent) {
            let contracted = start.contract_chains(tables, chains.tables);
            if let Some(annealer) = chains.annealer(&contracted, seed) {
                let until = begin + CHAIN_SHARE * (end - begin);
                let mut annealer = annealer.with_soft_limits(true);
                if !chains.cool(&mut annealer, &mut search, CHAIN_TEMPERATURES, (begin, until), |_, _| ()) {
                    break;
                }
                if annealer.is_within_limits() {
                    start = annealer.schedule().expand_chains(tables, chains.tables);
                }
                begin = until;
            }
        }
        let Some(annealer) = all.annealer(&start, seed) else { continue };
        let mut annealer = annealer.with_soft_limits(is_independent);
        let note = |search: &mut DivisionSearch<'_, '_, '_>, schedule: &BatchSchedule| {
            search.note(schedule);
        };
        if !all.cool(&mut annealer, &mut search, (hot, TEMPERATURES.2), (begin, end), note) {
            break;
        }
        let tried = if local_optimum == Some(search.best().value()) { known.len() } else { 0 };
        known.push(annealer.schedule().clone());
        let improved = crossover.combine(tables, memory, search.best(), &known, tried);
        search.note(&improved);
        local_optimum = Some(search.best().value());
    }
    search.end()
}

/// The shares of the ops with a finer partition than the rest, if memory is limited.
const EARLY_SHARES: [f64; 4] = [0.15, 0.25, 0.35, 0.5];
/// The most starts.
const MOST_STARTS: usize = 3;
/// How much worse than the best start another may be, as a share.
const MOST_WORSE: f64 = 0.02;

/// The best few starts, the best first: list schedules for every uniform partition, of b-HEFT, and of whole batches.
fn starts(run: &mut Run<'_>, tables: &BatchTables, memory: &BatchMemory) -> Vec<BatchSchedule> {
    // The best schedule of each partition.
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
            let settings = ListSettings {
                order,
                measure: Measure::Finish,
                inserts: true,
                sizes: sizes.as_deref(),
                early: None,
            };
            keep(schedule(tables, memory, &settings, run.budget), sizes.clone(), run);
        }
    }
    // If memory allows more copies of some weights only, the first ops have a finer partition than the rest.
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
            let settings =
                ListSettings { order, measure: Measure::Finish, inserts: true, sizes: Some(coarse), early };
            let sizes = Some([&fine[..], &coarse[..]].concat());
            keep(schedule(tables, memory, &settings, run.budget), sizes, run);
        }
    }
    let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
    let time = left.mul_f64(UNDIVIDED_SHARE).max(Duration::from_millis(1));
    let budget = Budget { start: std::time::Instant::now(), time, ..run.budget.clone() };
    if let Some(problem) = undivided::problem(run.problem) {
        let schedule = undivided::schedule(&problem, tables, run, &budget);
        keep(schedule, Some(vec![tables.groups as u32]), run);
    }
    best.sort_by_key(|(_, schedule)| schedule.value());
    let least = best.first().map_or(0, |(_, schedule)| schedule.value());
    let is_near = |schedule: &BatchSchedule| schedule.value() as f64 <= least as f64 * (1.0 + MOST_WORSE);
    best.into_iter().map(|(_, schedule)| schedule).filter(is_near).take(MOST_STARTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annealing_plan(moves: u64, has_chains: bool, starts: usize) -> AnnealingPlan {
        let budget = Budget { nodes: Some(moves), ..Budget::new(Duration::from_secs(1)) };
        AnnealingPlan::new(&budget, 100, has_chains, starts)
    }

    /// Each annealing begins where the one before it ends, and the last one ends with the budget.
    #[test]
    fn plans_share_all_time() {
        for moves in [0, 1_000_000, 10_000_000, 1_000_000_000] {
            for (has_chains, starts) in [(false, 1), (false, 3), (true, 1)] {
                let annealing_plan = annealing_plan(moves, has_chains, starts);
                let begins: Vec<f64> =
                    (0..=annealing_plan.count()).map(|part| annealing_plan.begin(part)).collect();
                assert!(begins.is_sorted_by(|a, b| a < b), "{begins:?}");
                assert!(
                    begins[0] == 0.0 && (begins[annealing_plan.count()] - 1.0).abs() < 1e-9,
                    "{begins:?}"
                );
                assert!(
                    (begins[annealing_plan.independent] - annealing_plan.independent_share).abs() < 1e-9,
                    "{begins:?}"
                );
            }
        }
    }

    /// With more time there are more annealings; with little, one from each start.
    #[test]
    fn plans_have_more_annealings_in_more_time() {
        assert_eq!(annealing_plan(0, false, 1).independent, 1);
        assert_eq!(annealing_plan(0, false, 3).independent, 3);
        assert_eq!(annealing_plan(1_000_000_000, false, 1).independent, MOST_INDEPENDENT);
        let some = annealing_plan(15_000_000, false, 1);
        assert!(
            LEAST_INDEPENDENT < some.independent && some.independent < MOST_INDEPENDENT && some.has_crossover,
            "{}",
            some.independent
        );
        assert!(some.restarts > some.independent);
    }
}
