//! `conflict-driven`: annealing for an incumbent, then a conflict-driven search that improves it or proves it optimal. The best
//! planner of `stream` without a limit of splits.
//!
//! First coarse programs for pairs of devices, or first fit where memory is too short for them, so that there is a plan in any
//! time. Then sweeps in the manner of `dominance`, wider and wider, which alone solve networks that are nearly chains, and programs
//! for every pair of devices ([`PairSearch`]). Then rounds of doubling effort, each of these steps:
//! * local search by such programs, for a part of the round's time that grows where it helps, and programs over groups of
//!   devices that refute thresholds ([`GroupSolver`]);
//! * annealing of the best plan ([`anneal`]);
//! * load packing, links and memory left out: a relaxation by classes of devices, local search ([`LoadRebalancer`]) and
//!   branch and bound ([`LoadPacking`]). Its refutations are bounds, and where links do not bind its placements are plans;
//! * local search with links ([`LinkRebalancer`]), from the best plan and from the best packing, if these differ;
//! * conflict-driven search ([`ConflictSearch`]) just below the best value, whose refutation proves optimality, and at thresholds
//!   between bound and value by bisection;
//! * where one link is on all routes, Lagrangian bounds and diving ([`LagrangianSolver`]).
//!
//! Before each threshold is searched, ops that must share a device within it are merged ([`ColocatedUnits`]); if that alone
//! refutes it, the proof is verified. What the searches refute is attested.

use std::time::{Duration, Instant};

use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;

use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use crate::stream::annealing::{anneal, relieve_busiest};
use crate::stream::colocation::ColocatedUnits;
use crate::stream::conflict_search::solver::{ConflictResult, ConflictSearch};
use crate::stream::device_prices::prices;
use crate::stream::dominance_sweep::DominanceSweep;
use crate::stream::first_fit::first_fit;
use crate::stream::group_solver::GroupSolver;
use crate::stream::lagrangian::LagrangianSolver;
use crate::stream::load_packing::instance::LoadPacking;
use crate::stream::load_packing::rebalance_loads::LoadRebalancer;
use crate::stream::pair_search::PairSearch;
use crate::stream::rebalance_links::LinkRebalancer;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// The width of the sweep that finds the first plan.
const FIRST_WIDTH: usize = 64;
/// The widths of those that follow, and the share of the time after which no wider one begins.
const WIDTHS: [usize; 2] = [256, 1024];
const SWEEPS_SHARE: f64 = 0.04;
/// The first local search by pairs takes this share of the time at most, later ones this share of a round if the last one
/// helped, and if not.
const FIRST_PAIRS_SHARE: f64 = 0.3;
/// Coarse programs before everything else take this share of the time that is left at most.
const QUICK_SHARE: f64 = 0.5;
const PAIRS_SHARE: f64 = 1.0;
const LESS_PAIRS_SHARE: f64 = 0.1;
/// Programs over groups of devices take this share of a round.
const GROUPS_SHARE: f64 = 0.5;
/// Nodes that one of them counts for, if nodes are limited.
const NODES_PER_GROUP_PROGRAM: u64 = 16;
/// Programs for each conflict of the effort, if nodes are limited, and nodes that each counts for.
const PROGRAMS_PER_CONFLICT: u64 = 1;
const NODES_PER_PROGRAM: u64 = 4;
/// The effort of the first round: conflicts at one threshold.
const FIRST_EFFORT: u64 = 64;
/// Moves of annealing for each conflict of the effort.
const MOVES_PER_CONFLICT: u64 = 200;
/// Just below the best value, up to so many times the effort if that takes no longer than the other steps of the round.
const MORE_CONFLICTS: u64 = 4;
/// Nodes of packing for each conflict of the effort.
const NODES_PER_CONFLICT: u64 = 64;
/// The factor by which nodes fall from one limit of packing to the next.
const PACKING_DECAY: u64 = 4;
/// Table entries of the local search for loads that count as one node.
const ENTRIES_PER_NODE: u64 = 100_000;
/// The factor by which that search is shorter if classes of devices did not help the last time.
const LESS_BY_CLASS: u64 = 8;
/// Steps of the local search with links for each conflict of the effort, if nodes are limited.
const STEPS_PER_CONFLICT: u64 = 4;
/// Otherwise its time, as a fraction 1 / n of that of annealing and packing; and at least this.
const REBALANCE_SHARE: u32 = 4;
const SHORTEST: Duration = Duration::from_millis(10);
/// The thresholds of diving, between bound (0) and best value (1).
const DIVES: [f64; 2] = [0.9, 0.5];
/// Factors of the effort for Lagrangian steps, if they helped the last time and if not.
const MORE_STEPS: u64 = 2;
const LESS_STEPS: u64 = 8;
/// The most placements of one packing that are tried as plans.
const MOST_PACKINGS: usize = 3;
/// The most thresholds that a round bisects, and the relative gap below which it does not.
const MOST_THRESHOLDS: u32 = 5;
const FINE: u64 = 5000;

pub(crate) struct ConflictDriven;

impl Planner for ConflictDriven {
    fn name(&self) -> &'static str {
        "conflict-driven"
    }

    fn about(&self) -> &'static str {
        "annealing, then conflict-driven search for a better plan or a proof that there is none"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::supports(problem)?;
        let hardware = &problem.hardware;
        if hardware.devices().any(|device| hardware.class(device).transfer_bandwidth.is_some()) {
            return Err("it does not count copies between network and memory; `dominance` does".to_owned());
        }
        match (problem.constraints.min_splits, problem.constraints.max_splits) {
            (None, None) => Ok(()),
            _ => Err("it does not count splits; `dominance` does".to_owned()),
        }
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let tables = StreamTables::new(run.problem);
        quick_plan(run, &tables);
        if run.outcome().best.is_none() {
            fill_devices(run, &tables);
        }
        let weights = prices(&tables, run.budget);
        run.prove("area", Evidence::Area { weights: weights.clone() });
        let mut rng = Rng::new(run.budget.seed);
        let lagrangian = LagrangianSolver::new(run.problem, &tables, &weights);
        let groups = GroupSolver::new(run.problem, &weights);
        let mut search = ThresholdSearch {
            weights,
            packing: None,
            best_packing: None,
            load_rebalancer: None,
            classes_help: false,
            link_rebalancer: LinkRebalancer::new(Rng::new(rng.next_u64())),
            pairs: PairSearch::new(Rng::new(rng.next_u64())),
            pairs_help: true,
            groups,
            lagrangian,
            lagrangian_helps: true,
            tables,
            rng,
            spent: 0,
        };
        search.first_plan(run);
        let first = run.budget.time.mul_f64(FIRST_PAIRS_SHARE);
        search.search_pairs(run, FIRST_EFFORT, first);
        search.refute_by_groups(run, FIRST_EFFORT, first);
        search.wider_sweeps(run);
        let mut effort = FIRST_EFFORT;
        let mut rate = ConflictRate::default();
        while !run.is_solved() && run.outcome().value() != Some(Time::ZERO) {
            if search.is_over(run) {
                let is_cancelled = run.budget.is_cancelled();
                return if is_cancelled { StopReason::Cancelled } else { StopReason::OutOfBudget };
            }
            let begun = Instant::now();
            search.improve(run, MOVES_PER_CONFLICT * effort);
            search.pack(run, NODES_PER_CONFLICT * effort);
            let time = (begun.elapsed() / REBALANCE_SHARE).max(SHORTEST);
            search.rebalance_links(run, STEPS_PER_CONFLICT * effort, time);
            let share = if search.pairs_help { PAIRS_SHARE } else { LESS_PAIRS_SHARE };
            search.search_pairs(run, effort, begun.elapsed().mul_f64(share).max(SHORTEST));
            search.refute_by_groups(run, effort, begun.elapsed().mul_f64(GROUPS_SHARE).max(SHORTEST));
            if run.is_solved() {
                break;
            }
            let below =
                run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0.saturating_sub(1));
            let conflicts = if run.budget.nodes.is_some() { 1 } else { rate.within(begun.elapsed()) };
            let conflicts = effort * conflicts.clamp(1, MORE_CONFLICTS * effort).div_ceil(effort);
            let (searching, before) = (Instant::now(), run.outcome().nodes);
            if search.try_threshold(run, below, conflicts) == Some(false) && run.outcome().best.is_none() {
                // There is no plan at all.
                return StopReason::Finished;
            }
            rate = ConflictRate { time: searching.elapsed(), conflicts: run.outcome().nodes - before };
            search.bisect(run, effort);
            search.dual_ascent(run, effort);
            effort *= 2;
        }
        StopReason::Finished
    }
}

/// A plan by coarse programs for pairs of devices, before anything else: where time is short, it is the only one.
fn quick_plan(run: &mut Run<'_>, tables: &StreamTables) {
    let budget = run.budget;
    if budget.nodes.is_some() || run.is_solved() {
        return;
    }
    let begun = Instant::now();
    let most = budget.left().mul_f64(QUICK_SHARE);
    let mut is_over = || budget.is_spent() || begun.elapsed() >= most;
    if let Some(device_of) = PairSearch::quick(tables, &mut is_over) {
        let offered = run.offer(tables.plan(&device_of));
        debug_assert!(offered.is_ok(), "it was placed by the rules: {offered:?}");
    }
}

/// A plan where memory is too short for those before.
fn fill_devices(run: &mut Run<'_>, tables: &StreamTables) {
    let budget = run.budget;
    if let Some(device_of) = first_fit(tables, &mut || budget.is_cancelled()) {
        let offered = run.offer(tables.plan(&device_of));
        debug_assert!(offered.is_ok(), "it was placed by the rules: {offered:?}");
    }
}

/// Conflicts and their time in the last round.
#[derive(Default)]
struct ConflictRate {
    time: Duration,
    conflicts: u64,
}

impl ConflictRate {
    /// The number of conflicts expected within a time; 0 if nothing is known.
    fn within(&self, time: Duration) -> u64 {
        if self.conflicts == 0 {
            0
        } else {
            (time.as_secs_f64() / self.time.as_secs_f64() * self.conflicts as f64) as u64
        }
    }
}

/// The state of all steps.
struct ThresholdSearch<'p> {
    tables: StreamTables,
    /// The instance packed last, with its pseudocosts.
    packing: Option<LoadPacking>,
    /// The best packing, with its largest load.
    best_packing: Option<(u64, Vec<u8>)>,
    load_rebalancer: Option<LoadRebalancer>,
    /// Whether the split by classes of devices improved the packing the last time.
    classes_help: bool,
    link_rebalancer: LinkRebalancer,
    pairs: PairSearch,
    /// Whether programs for pairs of devices improved the plan the last time.
    pairs_help: bool,
    /// None if too many tensors are alive at a time.
    groups: Option<GroupSolver<'p>>,
    /// None if no link is on all routes.
    lagrangian: Option<LagrangianSolver<'p>>,
    /// Whether it improved bound or value the last time.
    lagrangian_helps: bool,
    /// Prices of device time.
    weights: Vec<u64>,
    rng: Rng,
    /// Nodes so far, of all steps, against the limit of the budget.
    spent: u64,
}

impl<'p> ThresholdSearch<'p> {
    fn is_over(&self, run: &Run<'_>) -> bool {
        run.budget.is_spent() || run.budget.nodes.is_some_and(|most| self.spent >= most)
    }

    fn offer(&self, run: &mut Run<'_>, device_of: &[u8]) {
        let offered = run.offer(self.tables.plan(device_of));
        debug_assert!(offered.is_ok(), "it was placed by the rules: {offered:?}");
    }

    /// The best plan of a narrow dominance sweep.
    fn first_plan(&mut self, run: &mut Run<'_>) {
        let budget = run.budget;
        self.sweep(run, FIRST_WIDTH, &mut || budget.is_spent());
    }

    /// Wider and wider sweeps; one that drops nothing for lack of width has found the best plan of all.
    fn wider_sweeps(&mut self, run: &mut Run<'_>) {
        let budget = run.budget;
        let begun = Instant::now();
        let most_time = budget.time.mul_f64(SWEEPS_SHARE);
        for width in WIDTHS {
            let is_late = |time: Duration| budget.nodes.is_none() && begun.elapsed() > time;
            let over = run.is_solved() || is_late(most_time);
            if over || !self.sweep(run, width, &mut || budget.is_spent() || is_late(4 * most_time)) {
                break;
            }
        }
    }

    /// A dominance sweep: its best plan, and what it proves. Whether it came to its end.
    fn sweep(&mut self, run: &mut Run<'_>, width: usize, is_over: &mut dyn FnMut() -> bool) -> bool {
        let water = WaterFilling::new(&self.tables);
        let mut sweeps = DominanceSweep::new(&self.tables, &water, 0);
        let limit = run.outcome().value().map_or(u64::MAX, |value| value.0);
        let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
        let result = sweeps.sweep(limit, width, &mut |nodes| nodes > left || is_over());
        run.count(sweeps.nodes);
        if width > FIRST_WIDTH {
            self.spent += sweeps.nodes;
        }
        let Some(result) = result else { return false };
        if let Some((_, device_of)) = &result.best {
            self.offer(run, device_of);
        }
        if run.outcome().best.is_some() {
            run.attest("dominance", result.proven(limit), "divvy dominance search".to_owned());
        }
        true
    }

    /// Programs over groups of devices.
    fn refute_by_groups(&mut self, run: &mut Run<'_>, effort: u64, time: Duration) {
        let Some(mut groups) = self.groups.take() else { return };
        let budget = run.budget;
        let begun = Instant::now();
        let mut made = 0;
        while !self.is_over(run) && !run.is_solved() && !groups.is_through() {
            let is_late = match budget.nodes {
                None => begun.elapsed() >= time,
                Some(_) => made >= effort / NODES_PER_GROUP_PROGRAM,
            };
            let Some(value) = run.outcome().value().filter(|_| !is_late) else { break };
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let mut stop = || budget.is_spent() || budget.nodes.is_none() && begun.elapsed() >= 2 * time;
            let proven = groups.raise(low, value.0.saturating_sub(1), &mut stop);
            proven.into_iter().for_each(|proven| run.take(proven));
            made += groups.take_programs();
        }
        self.spent += made * NODES_PER_GROUP_PROGRAM;
        self.groups = Some(groups);
    }

    /// Local search by programs for pairs of devices.
    fn search_pairs(&mut self, run: &mut Run<'_>, effort: u64, time: Duration) {
        if self.is_over(run) || run.is_solved() {
            return;
        }
        let best = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        let budget = run.budget;
        let left = budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent) / NODES_PER_PROGRAM);
        let most = budget.nodes.map_or(u64::MAX, |_| left.min(PROGRAMS_PER_CONFLICT * effort));
        let begun = Instant::now();
        let mut is_over = || budget.is_spent() || budget.nodes.is_none() && begun.elapsed() >= time;
        let before = run.outcome().value();
        let mut better: Vec<Vec<u8>> = Vec::new();
        let made = self.pairs.search(&self.tables, best.as_deref(), most, &mut is_over, &mut |device_of| {
            better.push(device_of.to_vec());
        });
        self.spent += made * NODES_PER_PROGRAM;
        better.iter().for_each(|device_of| self.offer(run, device_of));
        self.pairs_help = before != run.outcome().value();
    }

    /// Anneals the best plan.
    fn improve(&mut self, run: &mut Run<'_>, moves: u64) {
        let start = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        start.into_iter().for_each(|start| self.improve_from(run, &start, moves));
    }

    /// Anneals a valid placement and offers the result.
    fn improve_from(&mut self, run: &mut Run<'_>, start: &[u8], moves: u64) {
        let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
        let moves = moves.min(left);
        self.spent += moves;
        let budget = run.budget;
        let mut is_over = || budget.is_spent();
        let annealed = anneal(&self.tables, start, moves, &mut self.rng, &mut is_over);
        let Some((_, device_of)) = annealed else { return };
        let (_, device_of) =
            relieve_busiest(&self.tables, &device_of, &mut is_over).unwrap_or((0, device_of));
        self.offer(run, &device_of);
    }

    /// Packs loads at limits from just below the best packing or plan, by bisection towards the bound.
    fn pack(&mut self, run: &mut Run<'_>, nodes: u64) {
        let mut nodes = nodes;
        let mut limit = self.packing_limit(run);
        for round in 0..MOST_THRESHOLDS {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            if limit < low || self.is_over(run) || run.outcome().best.is_none() {
                break;
            }
            let Some(mut packing) = self.packing_within(run, limit) else { break };
            let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
            if round == 0 {
                self.split_by_class(run, &packing, nodes);
                limit = self.packing_limit(run);
                if run.outcome().lower_bound().is_some_and(|low| limit < low.0) {
                    self.packing = Some(packing);
                    break;
                }
            }
            let mut placements: Vec<(u64, Vec<u8>)> = Vec::new();
            let budget = run.budget;
            let result =
                packing.search(limit, nodes.min(left), &mut || budget.is_spent(), &mut |most, device_of| {
                    placements.push((most, device_of.to_vec()));
                });
            self.spent += result.nodes;
            run.count(result.nodes);
            if result.is_refuted {
                // Units were merged for this limit; at a larger one they may be apart.
                let refuted = result.limit.min(limit);
                run.attest("packing", Time(refuted + 1), "divvy packing search".to_owned());
            }
            self.offer_packings(run, placements);
            if round == 0 && !result.is_refuted && self.rebalance_loads(run, &packing, nodes) {
                limit = self.packing_limit(run);
            }
            self.packing = Some(packing);
            // Halfway to the bound, with less effort.
            nodes = (nodes / PACKING_DECAY).max(1);
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            limit = u64::midpoint(low, if result.is_refuted { self.packing_limit(run) } else { limit });
        }
    }

    /// Just below the best plan and the best packing.
    fn packing_limit(&self, run: &Run<'_>) -> u64 {
        let value = run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0);
        let packed = self.best_packing.as_ref().map_or(u64::MAX, |(least, _)| *least);
        value.min(packed).saturating_sub(1)
    }

    /// Solves the relaxation by classes of devices: a bound, and a start for the local search for loads.
    fn split_by_class(&mut self, run: &mut Run<'_>, packing: &LoadPacking, nodes: u64) {
        let high = self.packing_limit(run);
        let Some(split) = packing.split_by_class(high, &mut self.rng) else { return };
        let bound = split.bound.min(high.saturating_add(1));
        run.attest("packing", Time(bound), "divvy packing search".to_owned());
        if let Some(device_of) = split.device_of {
            self.load_rebalancer = Some(LoadRebalancer::new(device_of, Rng::new(self.rng.next_u64())));
            let nodes = if self.classes_help { nodes } else { nodes / LESS_BY_CLASS };
            self.classes_help = self.rebalance_loads(run, packing, nodes);
        }
    }

    /// Local search for loads. Whether it found a better packing.
    fn rebalance_loads(&mut self, run: &mut Run<'_>, packing: &LoadPacking, nodes: u64) -> bool {
        let start = || run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        let known = self.load_rebalancer.take();
        let known = known.or_else(|| Some(LoadRebalancer::new(start()?, Rng::new(self.rng.next_u64()))));
        let Some(mut load_rebalancer) = known else { return false };
        let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
        let entries = nodes.min(left).saturating_mul(ENTRIES_PER_NODE);
        let mut placements: Vec<(u64, Vec<u8>)> = Vec::new();
        let budget = run.budget;
        let range = (low, self.packing_limit(run).saturating_add(1));
        let made = packing.rebalance(
            &mut load_rebalancer,
            range,
            entries,
            &mut || budget.is_spent(),
            &mut |most, device_of| {
                placements.push((most, device_of.to_vec()));
            },
        );
        self.spent += made / ENTRIES_PER_NODE;
        self.load_rebalancer = Some(load_rebalancer);
        let found = !placements.is_empty();
        self.offer_packings(run, placements);
        found
    }

    /// Local search with links, from the best plan and from the best packing. Nothing to gain if the plan is as good as that.
    fn rebalance_links(&mut self, run: &mut Run<'_>, steps: u64, time: Duration) {
        for is_packed in [false, true] {
            let Some(value) = run.outcome().value().filter(|_| !self.is_over(run) && !run.is_solved()) else {
                break;
            };
            if self.best_packing.as_ref().is_none_or(|(least, _)| *least >= value.0) {
                break;
            }
            let start = if is_packed {
                self.best_packing.as_ref().map(|(_, device_of)| device_of.clone())
            } else {
                run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan))
            };
            let Some(start) = start else { continue };
            let Some((_, tables)) = self.colocate(run, value.0.saturating_sub(1)) else { break };
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let budget = run.budget;
            let steps = budget.nodes.map_or(u64::MAX, |most| steps.min(most.saturating_sub(self.spent)));
            let begun = Instant::now();
            let mut is_over = || budget.is_spent() || budget.nodes.is_none() && begun.elapsed() >= time;
            let mut best = None;
            self.spent += self.link_rebalancer.rebalance(
                &tables,
                &start,
                (low, value.0),
                steps,
                &mut is_over,
                &mut |_, device_of| {
                    best = Some(device_of.to_vec());
                },
            );
            best.into_iter().for_each(|best| self.offer(run, &best));
        }
    }

    /// Keeps the best packing, and offers those that are better plans.
    fn offer_packings(&mut self, run: &mut Run<'_>, placements: Vec<(u64, Vec<u8>)>) {
        let budget = run.budget;
        // The last ones are the best, and those before them differ little.
        for (most, device_of) in placements.into_iter().rev().take(MOST_PACKINGS) {
            if self.best_packing.as_ref().is_none_or(|(least, _)| most < *least) {
                self.best_packing = Some((most, device_of.clone()));
            }
            if let Some((value, device_of)) =
                relieve_busiest(&self.tables, &device_of, &mut || budget.is_spent())
                && run.outcome().value().is_none_or(|best| value < best.0)
            {
                self.offer(run, &device_of);
            }
        }
    }

    /// Refutes thresholds by the Lagrangian bound, and dives for plans from its prices.
    fn dual_ascent(&mut self, run: &mut Run<'_>, effort: u64) {
        let Some(mut lagrangian) = self.lagrangian.take() else { return };
        let budget = run.budget;
        let before = (run.outcome().lower_bound(), run.outcome().value());
        let steps = if self.lagrangian_helps { MORE_STEPS * effort } else { (effort / LESS_STEPS).max(1) };
        if let (Some(low), Some(value)) = before
            && !self.is_over(run)
        {
            let most = value.0.saturating_sub(1);
            let ascent = lagrangian.raise_threshold(low.0, most, steps, &mut || budget.is_spent());
            self.spent += ascent.steps;
            ascent.evidence.into_iter().for_each(|evidence| run.prove("link-prices", evidence));
        }
        for part in DIVES {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let Some(value) = run.outcome().value().filter(|_| !self.is_over(run) && !run.is_solved()) else {
                break;
            };
            let threshold = low + (part * value.0.saturating_sub(low) as f64) as u64;
            let each = (steps / DIVES.len() as u64 / self.tables.devices as u64).max(1);
            self.spent += each * self.tables.devices as u64;
            let dived = lagrangian.dive(&self.tables, threshold, each, &mut || budget.is_spent());
            if let Some(device_of) = dived
                && run.offer(self.tables.plan(&device_of)).is_ok()
            {
                self.improve_from(run, &device_of, MOVES_PER_CONFLICT * steps);
            }
        }
        self.lagrangian_helps = before != (run.outcome().lower_bound(), run.outcome().value());
        self.lagrangian = Some(lagrangian);
    }

    /// The load packing of the units merged at a limit, with the pseudocosts of the last instance if its units are the same. None
    /// if merging refutes the limit, which is then proved, or if sums of times are not exact.
    fn packing_within(&mut self, run: &mut Run<'_>, limit: u64) -> Option<LoadPacking> {
        let (_, tables) = self.colocate(run, limit)?;
        let packing = LoadPacking::new(&tables)?;
        Some(match self.packing.take() {
            Some(before) => packing.with_experience(before),
            None => packing,
        })
    }

    /// The tables with the ops merged that must share a device within a limit. None if merging refutes the limit, which is then
    /// proved.
    fn colocate<'r>(
        &self,
        run: &mut Run<'r>,
        limit: u64,
    ) -> Option<(Option<ColocatedUnits<'r>>, StreamTables)> {
        let (problem, budget) = (run.problem, run.budget);
        let colocated = if limit <= Time::LONGEST_INPUT.0 {
            ColocatedUnits::new(problem, Time(limit), &mut || budget.is_spent())
        } else {
            None
        };
        if let Some(evidence) = colocated.as_ref().and_then(|colocated| colocated.proof(&self.weights)) {
            run.prove("colocation", evidence);
            return None;
        }
        let tables = StreamTables::new(problem);
        let tables = match &colocated {
            Some(colocated) => tables.with_clusters(&colocated.clusters),
            None => tables,
        };
        Some((colocated, tables))
    }

    /// Conflict-driven search for plans within a threshold. Whether there are any, if that becomes known.
    fn try_threshold(&mut self, run: &mut Run<'_>, threshold: u64, effort: u64) -> Option<bool> {
        let budget = run.budget;
        let Some((colocated, tables)) = self.colocate(run, threshold) else { return Some(false) };
        let start = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        let start = start.unwrap_or_else(|| vec![0; tables.ops]);
        let longest = colocated
            .as_ref()
            .map_or_else(|| vec![u64::MAX; tables.devices], |colocated| colocated.clusters.longest_loads());
        let mut conflicts =
            ConflictSearch::new(&tables, threshold, &start, &self.weights, &longest, self.rng.next_u64());
        let mut found_any = false;
        let mut threshold = threshold;
        let known = loop {
            let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
            let before = conflicts.conflicts();
            let allowed = effort.saturating_sub(before).min(left);
            let found = conflicts.search(allowed, &mut || budget.is_spent());
            self.spent += conflicts.conflicts() - before;
            run.count(conflicts.conflicts() - before);
            match found {
                ConflictResult::Placement(placement) => {
                    found_any = true;
                    let (value, placement) =
                        relieve_busiest(&self.tables, &placement, &mut || budget.is_spent())
                            .unwrap_or((threshold, placement));
                    self.offer(run, &placement);
                    let best = run.outcome().value().map_or(value, |best| best.0).min(value);
                    if best == 0 {
                        break None;
                    }
                    threshold = threshold.min(best - 1);
                    conflicts.set_phases(&placement);
                    conflicts.lower_threshold(threshold);
                }
                ConflictResult::Refuted => {
                    let bound = Time(threshold.saturating_add(1));
                    if run.outcome().best.is_some() {
                        run.attest(ConflictDriven.name(), bound, "divvy conflict-driven search".to_owned());
                    }
                    break Some(false);
                }
                ConflictResult::Unknown => break None,
            }
        };
        if found_any { Some(true) } else { known }
    }

    /// Searches thresholds between the bound and the best plan, halfway each time; one that stays open counts as an upper end.
    fn bisect(&mut self, run: &mut Run<'_>, effort: u64) {
        let mut open = u64::MAX;
        for _ in 0..MOST_THRESHOLDS {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let Some(value) = run.outcome().value() else { return };
            let high = open.min(value.0.saturating_sub(1));
            if self.is_over(run) || run.is_solved() || high <= low || high - low < low / FINE {
                return;
            }
            let threshold = u64::midpoint(low, high);
            if self.try_threshold(run, threshold, effort).is_none() {
                open = threshold;
            }
        }
    }
}
