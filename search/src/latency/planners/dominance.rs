//! `dominance`: frontier searches of the whole network, from narrow to wide, with window search in between.
//!
//! Each round first sharpens the tails (what follows each op, searched in windows), then searches the whole network
//! with them; both grow from round to round as long as time is left. A wide search gives a plan and a bound at once,
//! and its bound is evidence that `core` can check. Window search improves the best plan meanwhile: in its share of
//! the time with one thread, all the time on the other threads with several. Ends when value and bound meet.
//!
//! Memory limits and colocation are not seen by the wide searches. Their bounds hold all the same; plans of theirs
//! that do not fit are passed over. Then most of the time goes to anneals of where ops run, which see them, as does
//! window search, which goes on from the best.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::budget::{Budget, StopReason};
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::division_lp::memory_prices::is_tight;
use divvy_proof::frontier_search::levels::FrontierResult;
use divvy_proof::frontier_search::recipe::{MOST_ROWS, FrontierProof};
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;

use crate::device_weights;
use crate::latency::baselines::annealing::anneal;
use crate::latency::bounds::frontier_search::bound_name;
use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::device_string::{DeviceString, StringSearch, WalkLimits};
use crate::latency::planners::heft::Heft;
use crate::latency::planners::milp::Milp;
use crate::latency::window_search::{Surroundings, Windows};
use crate::planner::Planner;
use crate::run::Run;

/// How tails are sharpened: how many ops each search looks at, and how many rows it keeps.
#[derive(Clone, Copy)]
struct Sharpening {
    window: u32,
    width: u32,
}

impl Sharpening {
    const fn of(window: u32, width: u32) -> Option<Sharpening> {
        Some(Sharpening { window, width })
    }

    /// The rows it looks at for each op and device, in proportion.
    fn size(self) -> f64 {
        f64::from(self.window) * f64::from(self.width)
    }
}

/// One round: how to sharpen the tails (none: as they are), and the width of the whole search.
struct Round {
    tails: Option<Sharpening>,
    width: u32,
}

/// From a blink to minutes. Where time is left that is too short for the next, searches as wide as it allows follow.
const ROUNDS: &[Round] = &[
    Round { tails: None, width: 4 },
    Round { tails: None, width: 20 },
    Round { tails: None, width: 200 },
    Round { tails: Sharpening::of(24, 40), width: 200 },
    Round { tails: Sharpening::of(36, 100), width: 300 },
    Round { tails: Sharpening::of(36, 400), width: 1_000 },
    Round { tails: Sharpening::of(48, 1_500), width: 4_000 },
    Round { tails: Sharpening::of(48, 5_000), width: 15_000 },
    Round { tails: Sharpening::of(60, 15_000), width: 60_000 },
    Round { tails: Sharpening::of(60, 50_000), width: 250_000 },
    Round { tails: Sharpening::of(60, 150_000), width: MOST_ROWS },
];

/// Past this many ops only windows are searched.
const MOST_OPS_AT_ONCE: usize = 3_000;
/// The share of the time left that sharpening tails may take: where searches add nothing to what the tails prove, and
/// where they do, so that a wide search is the better use of it.
const TAILS_SHARE: (f64, f64) = (0.6, 0.35);
/// How much of the gap that the tails leave a search must close to count.
const ADDS: f64 = 0.1;
/// The share of the time left that a search before the tails are sharpened may take.
const BLUNT_SHARE: f64 = 0.1;
/// The share of the time left that a last search of the whole network is made for.
const LAST_SHARE: f64 = 0.8;
/// How much wider than the widest so far a last search must be.
const WIDER: f64 = 1.5;
/// The share of the time that goes to windows, with one thread.
const WINDOW_SHARE: f64 = 0.2;
/// Windows without improvement, over the number of ops, after which the plan is left alone for the round.
const PATIENCE: usize = 2;
/// The shares of the time so far that anneals take, all together and the next, and of all the time that wide searches
/// have, where plans of the latter do not fit.
const ANNEALS_SHARE: f64 = 0.4;
const ANNEAL_SHARE: f64 = 0.5;
const WIDE_SHARE: f64 = 0.3;
/// The share of the time left, or of the nodes, that an anneal takes once wide searches have ended.
const LAST_ANNEAL_SHARE: f64 = 0.5;
const LEAST_ANNEAL: Duration = Duration::from_millis(20);
/// Windows without improvement, over the number of ops and at least, after which there is nothing left to try.
const LAST_PATIENCE: (usize, usize) = (40, 20);

pub(crate) struct Dominance;

impl Planner for Dominance {
    fn name(&self) -> &'static str {
        "dominance"
    }

    fn about(&self) -> &'static str {
        "partial schedules compared by what they leave to do, and windows of the best plan solved anew"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        if run.outcome().best.is_none() {
            Heft.plan(run);
        }
        let Ok(dense) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let weights = device_weights::weights(run.problem, &dense);
        let Ok(prover) = FrontierProof::new(run.problem, weights.clone()) else { return StopReason::Finished };
        let tails = prover.tails().clone();
        let units = ColocatedUnits::new(run.problem, &dense);
        let surroundings = Surroundings { dense: &dense, tails: &tails, weights: &weights, units: &units };
        let wide = Wide::new(prover);
        let seed = run.budget.seed;
        let mut rounds = Rounds {
            run,
            wide,
            surroundings,
            on_windows: Duration::ZERO,
            on_anneals: Duration::ZERO,
            is_passed_over: false,
            in_vain: 0,
            rows: 0,
            seed,
        };
        rounds.all();
        let out_of_rows = rounds.is_out_of_rows();
        if run.budget.is_cancelled() {
            StopReason::Cancelled
        } else if run.budget.is_spent() || out_of_rows {
            StopReason::OutOfBudget
        } else {
            StopReason::Finished
        }
    }
}

/// Searches of the whole network.
struct Wide {
    prover: FrontierProof,
    /// Seconds for each row of the width, by the last search of the whole network.
    pace: Option<f64>,
    /// Seconds for sharpening the tails, over its size, by the last time.
    tails_pace: Option<f64>,
    /// The share of the time left that sharpening the tails may take.
    tails_share: f64,
    /// The widest search with the tails as they are.
    widest: u32,
    /// Whether wider searches are of no use: one was exact, or as wide as time allows.
    exhausted: bool,
}

impl Wide {
    fn new(prover: FrontierProof) -> Wide {
        Wide { prover, pace: None, tails_pace: None, tails_share: TAILS_SHARE.0, widest: 0, exhausted: false }
    }

    /// Whether there is time for a round, by what is known of the pace.
    fn has_time_for(&self, round: &Round, budget: &Budget) -> bool {
        match round.tails {
            Some(tails) => {
                self.tails_pace.map_or(0.0, |pace| pace * tails.size()) <= self.tails_share * left(budget)
            }
            None => self.pace.map_or(0.0, |pace| pace * f64::from(round.width)) <= BLUNT_SHARE * left(budget),
        }
    }

    /// A round, or else a search as wide as the time left allows.
    fn next(&mut self, round: Option<&Round>, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        match round {
            Some(round) => self.round(round, limit, budget),
            None => self.last(limit, budget),
        }
    }

    /// Sharper tails, if the round says so, and a search of the whole network.
    fn round(&mut self, round: &Round, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        if let Some(tails) = round.tails {
            let began = Instant::now();
            let most = Duration::from_secs_f64(self.tails_share * left(budget));
            let mut stop = || budget.is_spent() || began.elapsed() > most;
            let done = self.prover.raise_tails(tails.window, tails.width, limit, &mut stop);
            let share = f64::from(done.max(1)) / self.prover.dense().op_count() as f64;
            self.tails_pace = Some(began.elapsed().as_secs_f64() / share / tails.size());
            self.widest = 0;
        }
        let before = self.prover.lower();
        let found = self.search(round.width.min(self.affordable(budget)), limit, budget);
        if round.tails.is_some() {
            let (gained, gap) = (self.prover.lower().0 - before.0, limit.0.saturating_sub(before.0));
            let adds = gained as f64 > ADDS * gap as f64;
            self.tails_share = if adds { TAILS_SHARE.1 } else { TAILS_SHARE.0 };
        }
        found
    }

    /// A search as wide as the time left allows, if it is worth it.
    fn last(&mut self, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        let width = self.affordable(budget);
        self.exhausted |= f64::from(width) < WIDER * f64::from(self.widest);
        if self.exhausted { None } else { self.search(width, limit, budget) }
    }

    fn search(&mut self, width: u32, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        let width = width.clamp(1, MOST_ROWS);
        let began = Instant::now();
        let found = self.prover.search_whole(width, limit, &mut || budget.is_spent());
        self.pace = Some(began.elapsed().as_secs_f64() / f64::from(width));
        self.widest = self.widest.max(width);
        self.exhausted |= found.exact;
        Some(found)
    }

    /// How wide a search there is time for, by what is known of the pace.
    fn affordable(&self, budget: &Budget) -> u32 {
        let width = self.pace.map_or(u32::MAX, |pace| (left(budget) * LAST_SHARE / pace) as u32);
        width.min(MOST_ROWS)
    }
}

/// Seconds left.
fn left(budget: &Budget) -> f64 {
    budget.time.saturating_sub(budget.start.elapsed()).as_secs_f64()
}

struct Rounds<'r, 'a, 's> {
    run: &'r mut Run<'a>,
    wide: Wide,
    surroundings: Surroundings<'s>,
    on_windows: Duration,
    on_anneals: Duration,
    /// Whether the last plan of a wide search did not fit.
    is_passed_over: bool,
    /// Windows since the last improvement.
    in_vain: usize,
    /// Rows looked at, which are the nodes of this search.
    rows: u64,
    seed: u64,
}

/// What threads tell the one that keeps the outcome.
enum ThreadMessage<'s> {
    Better(Box<Windows<'s>>),
    Searched(Option<FrontierResult>),
}

impl<'s> Rounds<'_, '_, 's> {
    fn all(&mut self) {
        self.prove();
        let at_once = self.surroundings.dense.op_count() <= MOST_OPS_AT_ONCE;
        let mut rounds = ROUNDS.iter().peekable();
        if !at_once {
            self.is_passed_over = is_tight(self.run.problem, 1);
        }
        while at_once && !self.is_over() && !self.wide.exhausted && !self.is_time_for_anneals() {
            let has_time = |round: &&Round| self.wide.has_time_for(round, self.run.budget);
            while rounds.next_if(|round| round.tails.is_none() && !has_time(round)).is_some() {}
            let round = rounds.next_if(has_time);
            let share = self.run.budget.start.elapsed().mul_f64(WINDOW_SHARE);
            match self.windows().filter(|_| self.run.budget.threads > 1) {
                Some(windows) => self.search_beside(round, &windows),
                None => {
                    self.improve(share.saturating_sub(self.on_windows));
                    let limit = self.limit();
                    let found = self.wide.next(round, limit, self.run.budget);
                    self.take(found);
                }
            }
            let elapsed = self.run.budget.start.elapsed();
            if self.is_passed_over && self.on_anneals < elapsed.mul_f64(ANNEALS_SHARE) {
                self.anneal(elapsed.mul_f64(ANNEAL_SHARE));
            }
        }
        let (each, least) = LAST_PATIENCE;
        let patience = least + each * self.surroundings.dense.op_count();
        // What is small is better left to who follows.
        let goes_on = self.is_passed_over && !Milp.helps_auto(self.run.problem);
        while !self.is_over() && (goes_on || self.in_vain < patience) && self.run.outcome().best.is_some() {
            if goes_on {
                let left = self.run.budget.time.saturating_sub(self.run.budget.start.elapsed());
                self.anneal(left.mul_f64(LAST_ANNEAL_SHARE).max(LEAST_ANNEAL));
            }
            self.improve(Duration::from_secs(1));
        }
    }

    /// Whether wide searches have had their time, since their plans do not fit.
    fn is_time_for_anneals(&self) -> bool {
        let budget = self.run.budget;
        let is_late = match budget.nodes {
            Some(nodes) => self.rows as f64 > WIDE_SHARE * nodes as f64,
            None => budget.start.elapsed() > budget.time.mul_f64(WIDE_SHARE),
        };
        self.is_passed_over && is_late
    }

    /// Anneals where ops run, for some time.
    fn anneal(&mut self, time: Duration) {
        let began = self.run.budget.start.elapsed();
        self.seed += 1;
        let Surroundings { dense, units, .. } = self.surroundings;
        let string = DeviceString::fastest(self.run.problem, dense, units, self.seed);
        if let Some(mut string) = string.filter(|string| string.len() > 0) {
            let left = |nodes: u64| nodes.saturating_sub(self.rows) as f64;
            let nodes = self.run.budget.nodes.map(|nodes| (left(nodes) * LAST_ANNEAL_SHARE).ceil() as u64);
            let mut walk = StringSearch::within(WalkLimits { time: began + time, nodes }, self.run, &string);
            anneal(&mut string, &mut walk, &mut Rng::new(self.seed));
            self.rows += walk.evaluations();
            walk.end();
        }
        self.on_anneals += self.run.budget.start.elapsed().saturating_sub(began);
    }

    fn is_over(&self) -> bool {
        self.run.budget.is_spent() || self.run.is_solved() || self.is_out_of_rows()
    }

    fn is_out_of_rows(&self) -> bool {
        self.run.budget.nodes.is_some_and(|nodes| self.rows >= nodes)
    }

    /// The finish to beat, and to prove that nothing beats.
    fn limit(&self) -> Time {
        self.run.outcome().value().unwrap_or(Time(NEVER))
    }

    /// Window search from the best plan so far.
    fn windows(&mut self) -> Option<Windows<'s>> {
        let Some((Plan::Latency(plan), _)) = &self.run.outcome().best else { return None };
        self.seed += 1;
        Some(Windows::new(self.run.problem, self.surroundings, plan, self.seed))
    }

    /// Window search for some time, or until nothing seems to be left to gain.
    fn improve(&mut self, share: Duration) {
        let Some(mut windows) = self.windows().filter(|_| share > Duration::ZERO) else { return };
        let began = Instant::now();
        let budget = self.run.budget;
        let mut stop = || budget.is_spent() || began.elapsed() > share;
        let lower = self.run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let before = windows.value();
        let best = self.run.outcome().value();
        let (mut in_vain, mut tried) = (0, 0);
        while !stop() && in_vain < PATIENCE * windows.op_count() && windows.value() > lower {
            in_vain = if windows.improve_some(&mut stop) { 0 } else { in_vain + 1 };
            tried += 1;
        }
        self.rows += windows.rows();
        if windows.value() < before {
            offer(self.run, windows.plan(self.run.problem));
        }
        // With links in turn a schedule that windows take for better may be none, and one at the bound not be there.
        let is_better = self.run.outcome().value() < best;
        self.in_vain = match () {
            () if windows.value() <= lower => usize::MAX,
            () if is_better => in_vain,
            () => self.in_vain.saturating_add(tried),
        };
        self.on_windows += began.elapsed();
    }

    /// A round on one thread, window search on the others.
    fn search_beside(&mut self, round: Option<&Round>, windows: &Windows<'s>) {
        let limit = self.limit();
        let budget = self.run.budget;
        let done = AtomicBool::new(false);
        let least = AtomicU64::new(windows.value());
        let (sender, news) = mpsc::channel();
        let threads = budget.threads - 1;
        let seeds = self.seed..self.seed + u64::from(threads);
        self.seed = seeds.end;
        let wide = &mut self.wide;
        let run = &mut *self.run;
        let found = std::thread::scope(|scope| {
            for seed in seeds {
                let (mut windows, sender, done, least) =
                    (windows.with_seed(seed), sender.clone(), &done, &least);
                scope.spawn(move || {
                    let mut stop = || done.load(Ordering::Relaxed) || budget.is_spent();
                    while !stop() {
                        let better = windows.improve_some(&mut stop);
                        if better && windows.value() < least.fetch_min(windows.value(), Ordering::Relaxed) {
                            let _ = sender.send(ThreadMessage::Better(Box::new(windows.clone())));
                        }
                    }
                });
            }
            scope.spawn(move || {
                let found = wide.next(round, limit, budget);
                let _ = sender.send(ThreadMessage::Searched(found));
            });
            loop {
                match news.recv() {
                    Ok(ThreadMessage::Better(windows)) => offer(run, windows.plan(run.problem)),
                    Ok(ThreadMessage::Searched(found)) => {
                        done.store(true, Ordering::Relaxed);
                        return found;
                    }
                    Err(_) => return None,
                }
            }
        });
        self.take(found);
    }

    fn take(&mut self, found: Option<FrontierResult>) {
        self.rows += found.as_ref().map_or(0, |found| found.rows);
        if let Some((_, steps)) = found.and_then(|found| found.best) {
            let dense = self.surroundings.dense;
            let sequence: Vec<OpId> = steps.iter().map(|&(op, _)| OpId(dense.order()[op as usize])).collect();
            let mut device_of = vec![DeviceId(0); dense.op_count()];
            for (op, &(_, device)) in sequence.iter().zip(&steps) {
                device_of[op.index()] = DeviceId(device);
            }
            if let Ok(plan) = default_plan::plan_in_order(self.run.problem, &device_of, &sequence) {
                self.is_passed_over = self.run.offer(plan).is_err();
            }
        }
        self.prove();
    }

    fn prove(&mut self) {
        let name = bound_name(&self.wide.prover.evidence());
        self.run.take(Proven::by_searches(name, &self.wide.prover));
    }
}

fn offer(run: &mut Run<'_>, plan: Option<Plan>) {
    if let Some(plan) = plan {
        let offered = run.offer(plan);
        debug_assert!(offered.is_ok(), "windows see every limit: {offered:?}");
    }
}
