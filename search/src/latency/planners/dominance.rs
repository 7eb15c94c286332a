//! `dominance`, the best planner of `latency`: beam searches with dominance over the whole network, from narrow to wide, alternating with window
//! search.
//!
//! Each round raises the tails by dominance searches of the ops behind each op, then searches the whole network with
//! them ([`divvy_proof::frontier_search`]); window and width grow from round to round while time is left. A beam
//! search yields a schedule and a bound at once, and the bound is evidence that can be verified. Between the beam
//! searches, window search improves the best plan: in a share of the time on one thread, all the time on the other
//! threads. The planner ends when value and bound are equal.
//!
//! Beam searches do not see memory limits and colocation: their bounds are valid, but the check may refuse their
//! plans. After a refusal most of the time goes to annealing of device strings, which keeps both, followed by window
//! search, which does too.

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
use divvy_proof::frontier_search::recipe::{FrontierProof, MOST_WIDTH};
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;

use crate::device_weights;
use crate::latency::baselines::annealing::anneal;
use crate::latency::bounds::frontier_search::bound_name;
use crate::latency::device_string::{DeviceString, SearchLimits, StringSearch};
use crate::latency::placement_units::PlacementUnits;
use crate::latency::planners::heft::Heft;
use crate::latency::planners::milp::Milp;
use crate::latency::window_search::{WindowContext, WindowSearch};
use crate::planner::Planner;
use crate::run::Run;

/// The searches that raise tails: how many ops each of them schedules, and its beam width.
#[derive(Clone, Copy)]
struct TailSearch {
    window: u32,
    width: u32,
}

impl TailSearch {
    const fn of(window: u32, width: u32) -> Option<TailSearch> {
        Some(TailSearch { window, width })
    }

    /// Proportional to the time for each op and device.
    fn size(self) -> f64 {
        f64::from(self.window) * f64::from(self.width)
    }
}

/// A round: the searches that raise tails, if any, and the width of the beam search.
struct Round {
    tails: Option<TailSearch>,
    width: u32,
}

/// The rounds, from milliseconds to minutes. If the time left is too short for the next one, beam searches as wide as
/// it allows follow.
const ROUNDS: &[Round] = &[
    Round { tails: None, width: 4 },
    Round { tails: None, width: 20 },
    Round { tails: None, width: 200 },
    Round { tails: TailSearch::of(24, 40), width: 200 },
    Round { tails: TailSearch::of(36, 100), width: 300 },
    Round { tails: TailSearch::of(36, 400), width: 1_000 },
    Round { tails: TailSearch::of(48, 1_500), width: 4_000 },
    Round { tails: TailSearch::of(48, 5_000), width: 15_000 },
    Round { tails: TailSearch::of(60, 15_000), width: 60_000 },
    Round { tails: TailSearch::of(60, 50_000), width: 250_000 },
    Round { tails: TailSearch::of(60, 150_000), width: MOST_WIDTH },
];

/// The most ops for beam searches of the whole network; beyond, only windows are searched.
const MOST_OPS_IN_BEAM: usize = 3_000;
/// The share of the time left that raising tails may take: at first, and once a beam search has proved more than its
/// tails do.
const TAILS_SHARE: (f64, f64) = (0.6, 0.35);
/// The share of the gap left by the tails that such a beam search must close.
const LEAST_CLOSED: f64 = 0.1;
/// The share of the time left that a beam search with plain tails may take.
const PLAIN_SHARE: f64 = 0.1;
/// The share of the time left that the width of a beam search is chosen for.
const LAST_BEAM_SHARE: f64 = 0.8;
/// The least factor by which a beam search beyond the rounds is wider than the widest before.
const LEAST_WIDENING: f64 = 1.5;
/// The share of the time for window search, with one thread.
const WINDOW_SHARE: f64 = 0.2;
/// The number of windows without improvement, per op, after which window search ends for the round.
const PATIENCE: usize = 2;
/// Where plans of beam searches are refused: the share of the elapsed time that all annealing may take, that the next
/// annealing takes, and the share of the whole time for beam searches.
const ANNEALING_SHARE: f64 = 0.4;
const ANNEAL_SHARE: f64 = 0.5;
const BEAM_SHARE: f64 = 0.3;
/// The share of the time left, or of the nodes left, for one annealing after the beam searches.
const LAST_ANNEAL_SHARE: f64 = 0.5;
const LEAST_ANNEAL: Duration = Duration::from_millis(20);
/// The number of windows without improvement after which the planner ends: per op, and in addition.
const LAST_PATIENCE: (usize, usize) = (40, 20);

pub(crate) struct Dominance;

impl Planner for Dominance {
    fn name(&self) -> &'static str {
        "dominance"
    }

    fn about(&self) -> &'static str {
        "beam search with dominance over partial schedules, and window search on the best plan"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        if run.outcome().best.is_none() {
            Heft.plan(run);
        }
        let Ok(tables) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let weights = device_weights::weights(run.problem, &tables);
        let Ok(prover) = FrontierProof::new(run.problem, weights.clone()) else {
            return StopReason::Finished;
        };
        let tails = prover.tails().clone();
        let units = PlacementUnits::new(run.problem, &tables);
        let context = WindowContext { tables: &tables, tails: &tails, weights: &weights, units: &units };
        let beam = BeamSearches::new(prover);
        let seed = run.budget.seed;
        let mut dominance = DominanceRun {
            run,
            beam,
            context,
            window_time: Duration::ZERO,
            annealing_time: Duration::ZERO,
            is_refused: false,
            windows_without_gain: 0,
            states: 0,
            seed,
        };
        dominance.run_all();
        let out_of_nodes = dominance.is_out_of_nodes();
        if run.budget.is_cancelled() {
            StopReason::Cancelled
        } else if run.budget.is_spent() || out_of_nodes {
            StopReason::OutOfBudget
        } else {
            StopReason::Finished
        }
    }
}

/// Beam searches of the whole network, and estimates of their time.
struct BeamSearches {
    prover: FrontierProof,
    /// Seconds of the last beam search divided by its width.
    seconds_per_width: Option<f64>,
    /// Seconds of the last searches for tails divided by their size.
    seconds_per_tail_size: Option<f64>,
    /// The share of the time left that raising tails may take.
    tails_share: f64,
    /// The width of the widest beam search with the present tails.
    widest: u32,
    /// Whether a wider search is of no use or impossible: one was exact, or as wide as time allows.
    exhausted: bool,
}

impl BeamSearches {
    fn new(prover: FrontierProof) -> BeamSearches {
        BeamSearches {
            prover,
            seconds_per_width: None,
            seconds_per_tail_size: None,
            tails_share: TAILS_SHARE.0,
            widest: 0,
            exhausted: false,
        }
    }

    /// Whether a round is estimated to fit in the time left.
    fn has_time_for(&self, round: &Round, budget: &Budget) -> bool {
        match round.tails {
            Some(tails) => {
                self.seconds_per_tail_size.map_or(0.0, |seconds| seconds * tails.size())
                    <= self.tails_share * left(budget)
            }
            None => {
                self.seconds_per_width.map_or(0.0, |seconds| seconds * f64::from(round.width))
                    <= PLAIN_SHARE * left(budget)
            }
        }
    }

    /// A round if there is one, else a beam search as wide as the time left allows.
    fn next(&mut self, round: Option<&Round>, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        match round {
            Some(round) => self.round(round, limit, budget),
            None => self.last(limit, budget),
        }
    }

    /// Raises tails if the round says so, then searches the whole network.
    fn round(&mut self, round: &Round, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        if let Some(tails) = round.tails {
            let began = Instant::now();
            let most = Duration::from_secs_f64(self.tails_share * left(budget));
            let mut stop = || budget.is_spent() || began.elapsed() > most;
            let done = self.prover.raise_tails(tails.window, tails.width, limit, &mut stop);
            let share = f64::from(done.max(1)) / self.prover.tables().op_count() as f64;
            self.seconds_per_tail_size = Some(began.elapsed().as_secs_f64() / share / tails.size());
            self.widest = 0;
        }
        let before = self.prover.lower();
        let found = self.search(round.width.min(self.affordable_width(budget)), limit, budget);
        if round.tails.is_some() {
            let (gained, gap) = (self.prover.lower().0 - before.0, limit.0.saturating_sub(before.0));
            let closes_gap = gained as f64 > LEAST_CLOSED * gap as f64;
            self.tails_share = if closes_gap { TAILS_SHARE.1 } else { TAILS_SHARE.0 };
        }
        found
    }

    /// A beam search as wide as the time left allows, if that is wide enough to be of use.
    fn last(&mut self, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        let width = self.affordable_width(budget);
        self.exhausted |= f64::from(width) < LEAST_WIDENING * f64::from(self.widest);
        if self.exhausted { None } else { self.search(width, limit, budget) }
    }

    fn search(&mut self, width: u32, limit: Time, budget: &Budget) -> Option<FrontierResult> {
        let width = width.clamp(1, MOST_WIDTH);
        let began = Instant::now();
        let found = self.prover.search_whole(width, limit, &mut || budget.is_spent());
        self.seconds_per_width = Some(began.elapsed().as_secs_f64() / f64::from(width));
        self.widest = self.widest.max(width);
        self.exhausted |= found.exact;
        Some(found)
    }

    /// The width of a beam search that is estimated to fit in the time left.
    fn affordable_width(&self, budget: &Budget) -> u32 {
        let width = self
            .seconds_per_width
            .map_or(u32::MAX, |seconds| (left(budget) * LAST_BEAM_SHARE / seconds) as u32);
        width.min(MOST_WIDTH)
    }
}

/// The time left, in seconds.
fn left(budget: &Budget) -> f64 {
    budget.time.saturating_sub(budget.start.elapsed()).as_secs_f64()
}

/// The state of the planner during a run.
struct DominanceRun<'r, 'a, 's> {
    run: &'r mut Run<'a>,
    beam: BeamSearches,
    context: WindowContext<'s>,
    window_time: Duration,
    annealing_time: Duration,
    /// Whether the check refused the last plan of a beam search.
    is_refused: bool,
    /// The number of windows since the last improvement.
    windows_without_gain: usize,
    /// States and strings looked at: the nodes of the budget.
    states: u64,
    seed: u64,
}

/// The messages of worker threads to the thread that holds the run.
enum ThreadMessage<'s> {
    Better(Box<WindowSearch<'s>>),
    Searched(Option<FrontierResult>),
}

impl<'s> DominanceRun<'_, '_, 's> {
    fn run_all(&mut self) {
        self.prove();
        let is_small_enough = self.context.tables.op_count() <= MOST_OPS_IN_BEAM;
        let mut rounds = ROUNDS.iter().peekable();
        if !is_small_enough {
            self.is_refused = is_tight(self.run.problem, 1);
        }
        while is_small_enough && !self.is_over() && !self.beam.exhausted && !self.is_time_to_anneal() {
            let has_time = |round: &&Round| self.beam.has_time_for(round, self.run.budget);
            while rounds.next_if(|round| round.tails.is_none() && !has_time(round)).is_some() {}
            let round = rounds.next_if(has_time);
            let share = self.run.budget.start.elapsed().mul_f64(WINDOW_SHARE);
            match self.window_search().filter(|_| self.run.budget.threads > 1) {
                Some(windows) => self.search_in_parallel(round, &windows),
                None => {
                    self.improve(share.saturating_sub(self.window_time));
                    let limit = self.limit();
                    let found = self.beam.next(round, limit, self.run.budget);
                    self.take(found);
                }
            }
            let elapsed = self.run.budget.start.elapsed();
            if self.is_refused && self.annealing_time < elapsed.mul_f64(ANNEALING_SHARE) {
                self.anneal(elapsed.mul_f64(ANNEAL_SHARE));
            }
        }
        let (each, least) = LAST_PATIENCE;
        let patience = least + each * self.context.tables.op_count();
        // Small problems are left to `milp`, which comes next.
        let keeps_annealing = self.is_refused && !Milp.helps_auto(self.run.problem);
        while !self.is_over()
            && (keeps_annealing || self.windows_without_gain < patience)
            && self.run.outcome().best.is_some()
        {
            if keeps_annealing {
                let left = self.run.budget.time.saturating_sub(self.run.budget.start.elapsed());
                self.anneal(left.mul_f64(LAST_ANNEAL_SHARE).max(LEAST_ANNEAL));
            }
            self.improve(Duration::from_secs(1));
        }
    }

    /// Whether beam searches have had their share of the time, which is limited if their plans are refused.
    fn is_time_to_anneal(&self) -> bool {
        let budget = self.run.budget;
        let is_late = match budget.nodes {
            Some(nodes) => self.states as f64 > BEAM_SHARE * nodes as f64,
            None => budget.start.elapsed() > budget.time.mul_f64(BEAM_SHARE),
        };
        self.is_refused && is_late
    }

    /// Annealing of a device string, for some time.
    fn anneal(&mut self, time: Duration) {
        let began = self.run.budget.start.elapsed();
        self.seed += 1;
        let WindowContext { tables, units, .. } = self.context;
        let string = DeviceString::fastest(self.run.problem, tables, units, self.seed);
        if let Some(mut string) = string.filter(|string| string.len() > 0) {
            let left = |nodes: u64| nodes.saturating_sub(self.states) as f64;
            let nodes = self.run.budget.nodes.map(|nodes| (left(nodes) * LAST_ANNEAL_SHARE).ceil() as u64);
            let mut search =
                StringSearch::within(SearchLimits { time: began + time, nodes }, self.run, &string);
            anneal(&mut string, &mut search, &mut Rng::new(self.seed));
            self.states += search.evaluations();
            search.end();
        }
        self.annealing_time += self.run.budget.start.elapsed().saturating_sub(began);
    }

    fn is_over(&self) -> bool {
        self.run.budget.is_spent() || self.run.is_solved() || self.is_out_of_nodes()
    }

    fn is_out_of_nodes(&self) -> bool {
        self.run.budget.nodes.is_some_and(|nodes| self.states >= nodes)
    }

    /// The value to improve on, and to prove optimal.
    fn limit(&self) -> Time {
        self.run.outcome().value().unwrap_or(Time(NEVER))
    }

    /// A window search that starts at the best plan.
    fn window_search(&mut self) -> Option<WindowSearch<'s>> {
        let Some((Plan::Latency(plan), _)) = &self.run.outcome().best else { return None };
        self.seed += 1;
        Some(WindowSearch::new(self.run.problem, self.context, plan, self.seed))
    }

    /// Window search for some time, or until many windows bring no improvement.
    fn improve(&mut self, share: Duration) {
        let Some(mut windows) = self.window_search().filter(|_| share > Duration::ZERO) else { return };
        let began = Instant::now();
        let budget = self.run.budget;
        let mut stop = || budget.is_spent() || began.elapsed() > share;
        let lower = self.run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let before = windows.value();
        let best = self.run.outcome().value();
        let (mut windows_without_gain, mut tried) = (0, 0);
        while !stop() && windows_without_gain < PATIENCE * windows.op_count() && windows.value() > lower {
            windows_without_gain =
                if windows.improve_window(&mut stop) { 0 } else { windows_without_gain + 1 };
            tried += 1;
        }
        self.states += windows.rows();
        if windows.value() < before {
            offer(self.run, windows.plan(self.run.problem));
        }
        // With links used in turn a better schedule of window search may be a worse plan.
        let is_better = self.run.outcome().value() < best;
        self.windows_without_gain = match () {
            () if windows.value() <= lower => usize::MAX,
            () if is_better => windows_without_gain,
            () => self.windows_without_gain.saturating_add(tried),
        };
        self.window_time += began.elapsed();
    }

    /// A round on one thread, and window search on the others until it ends.
    fn search_in_parallel(&mut self, round: Option<&Round>, windows: &WindowSearch<'s>) {
        let limit = self.limit();
        let budget = self.run.budget;
        let done = AtomicBool::new(false);
        let least = AtomicU64::new(windows.value());
        let (sender, messages) = mpsc::channel();
        let threads = budget.threads - 1;
        let seeds = self.seed..self.seed + u64::from(threads);
        self.seed = seeds.end;
        let beam = &mut self.beam;
        let run = &mut *self.run;
        let found = std::thread::scope(|scope| {
            for seed in seeds {
                let (mut windows, sender, done, least) =
                    (windows.with_seed(seed), sender.clone(), &done, &least);
                scope.spawn(move || {
                    let mut stop = || done.load(Ordering::Relaxed) || budget.is_spent();
                    while !stop() {
                        let better = windows.improve_window(&mut stop);
                        if better && windows.value() < least.fetch_min(windows.value(), Ordering::Relaxed) {
                            let _ = sender.send(ThreadMessage::Better(Box::new(windows.clone())));
                        }
                    }
                });
            }
            scope.spawn(move || {
                let found = beam.next(round, limit, budget);
                let _ = sender.send(ThreadMessage::Searched(found));
            });
            loop {
                match messages.recv() {
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

    /// Offers the schedule of a beam search, and its proof.
    fn take(&mut self, found: Option<FrontierResult>) {
        self.states += found.as_ref().map_or(0, |found| found.states);
        if let Some((_, steps)) = found.and_then(|found| found.best) {
            let tables = self.context.tables;
            let sequence: Vec<OpId> =
                steps.iter().map(|&(op, _)| OpId(tables.order()[op as usize])).collect();
            let mut device_of = vec![DeviceId(0); tables.op_count()];
            for (op, &(_, device)) in sequence.iter().zip(&steps) {
                device_of[op.index()] = DeviceId(device);
            }
            if let Ok(plan) = default_plan::plan_in_order(self.run.problem, &device_of, &sequence) {
                self.is_refused = self.run.offer(plan).is_err();
            }
        }
        self.prove();
    }

    /// Takes the best bound so far, under the name of the bound that it belongs to.
    fn prove(&mut self) {
        let name = bound_name(&self.beam.prover.evidence());
        self.run.take(Proven::by_frontier_search(name, &self.beam.prover));
    }
}

fn offer(run: &mut Run<'_>, plan: Option<Plan>) {
    if let Some(plan) = plan {
        let offered = run.offer(plan);
        debug_assert!(offered.is_ok(), "window search keeps every limit: {offered:?}");
    }
}
