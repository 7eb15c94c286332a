//! `conflict-driven`: a plan by annealing, then a conflict-driven search for a better one until there is none.
//!
//! Ops that no links can keep apart within a threshold are one, and where that alone refutes it the proof is verified. Else
//! the search decides ([`ConflictSearch`]); what it refutes is attested. Just below the best plan a refutation is the proof of
//! optimality; thresholds between the bound and the best plan are tried by halving, since those far below are refuted sooner
//! and those that are not yield better plans. In between, the devices' time alone is shared out by kinds of devices, levelled
//! ([`LoadRebalancer`]) and searched ([`LoadPacking`]): where links are not the matter that is far quicker, and its placements are
//! plans. From the best plan and from what is packed best, loads are made even within what links carry ([`LinkRebalancer`]). Where all
//! devices share one medium, what they must be sent refutes thresholds, and prices lead to plans ([`LagrangianSplit`]). Every round
//! has twice the effort of the one before.

use std::time::{Duration, Instant};

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;

use crate::planner::Planner;
use crate::run::Run;
use crate::stream::annealing::{anneal, polish};
use crate::stream::colocation::ColocatedUnits;
use crate::stream::conflict_search::{ConflictSearch, ConflictResult};
use crate::stream::device_prices::prices;
use crate::stream::dominance_sweep::DominanceSweep;
use crate::stream::lagrangian::LagrangianSplit;
use crate::stream::load_packing::LoadPacking;
use crate::stream::load_packing::rebalance_loads::LoadRebalancer;
use crate::stream::rebalance_links::LinkRebalancer;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// Placements kept by the sweep that finds the first plan.
const WIDTH: usize = 64;
/// Contradictions in the first round, and moves of annealing for each of them.
const FIRST_EFFORT: u64 = 64;
const MOVES_PER_CONFLICT: u64 = 200;
/// So many times as much where that takes no longer than all else in the round, so that a proof does not wait for the rest.
const MORE_CONFLICTS: u64 = 4;
/// Nodes of packing likewise, and the share of them that thresholds further down get.
const NODES_PER_CONFLICT: u64 = 64;
const PROBE_SHARE: u64 = 4;
/// Entries of tables for levelling that take about as long as a node.
const ENTRIES_PER_NODE: u64 = 100_000;
/// How much less is levelled from what kinds of devices share out, where that led to nothing the last time.
const LESS_BY_KINDS: u64 = 8;
/// Tries of sharing units out between two devices for each contradiction, where nodes are limited. Else it takes this
/// part of the time of annealing and packing, from the best plan and again from what is packed best, but not less than that.
const TRIES_PER_CONFLICT: u64 = 4;
const SHARING: u32 = 4;
const SHORTEST: Duration = Duration::from_millis(10);
/// Where between bound and plan shares are put together; how much more is carved where that led to something, and how
/// much less where not.
const DIVES: [f64; 2] = [0.9, 0.5];
const MORE_CARVING: u64 = 2;
const LESS_CARVING: u64 = 8;
/// Placements of one packing that are tried as plans.
const MOST_PACKED: usize = 3;
/// Thresholds between bound and plan that a round tries, unless they are closer than this share of the bound.
const MOST_PROBES: u32 = 5;
const FINE: u64 = 5000;

pub(crate) struct ConflictDriven;

impl Planner for ConflictDriven {
    fn name(&self) -> &'static str {
        "conflict-driven"
    }

    fn about(&self) -> &'static str {
        "annealing, then a search that learns from contradictions until nothing better is left"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::support(problem)?;
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
        let weights = prices(&tables, run.budget);
        run.prove("area", Evidence::Area { weights: weights.clone() });
        let mut rng = Rng::new(run.budget.seed);
        let carving = LagrangianSplit::new(run.problem, &tables, &weights);
        let mut search = ThresholdSearch {
            weights,
            packing: None,
            least_packed: None,
            levelling: None,
            kinds_help: false,
            sharing: LinkRebalancer::new(Rng::new(rng.next_u64())),
            carving,
            carving_helps: true,
            tables,
            rng,
            spent: 0,
        };
        search.first_plan(run);
        let mut effort = FIRST_EFFORT;
        let mut pace = ConflictRate::default();
        while !run.is_solved() && run.outcome().value() != Some(Time::ZERO) {
            if search.is_over(run) {
                let is_cancelled = run.budget.is_cancelled();
                return if is_cancelled { StopReason::Cancelled } else { StopReason::OutOfBudget };
            }
            let begun = Instant::now();
            search.improve(run, MOVES_PER_CONFLICT * effort);
            search.pack(run, NODES_PER_CONFLICT * effort);
            let time = (begun.elapsed() / SHARING).max(SHORTEST);
            search.share(run, TRIES_PER_CONFLICT * effort, time);
            if run.is_solved() {
                break;
            }
            let below =
                run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0.saturating_sub(1));
            let conflicts = if run.budget.nodes.is_some() { 1 } else { pace.within(begun.elapsed()) };
            let conflicts = effort * conflicts.clamp(1, MORE_CONFLICTS * effort).div_ceil(effort);
            let (searching, before) = (Instant::now(), run.outcome().nodes);
            if search.try_threshold(run, below, conflicts) == Some(false) && run.outcome().best.is_none() {
                // There is no plan at all.
                return StopReason::Finished;
            }
            pace = ConflictRate { time: searching.elapsed(), conflicts: run.outcome().nodes - before };
            search.probe(run, effort);
            search.carve(run, effort);
            effort *= 2;
        }
        StopReason::Finished
    }
}

/// How long contradictions took the last time.
#[derive(Default)]
struct ConflictRate {
    time: Duration,
    conflicts: u64,
}

impl ConflictRate {
    /// So many take as long.
    fn within(&self, time: Duration) -> u64 {
        if self.conflicts == 0 {
            0
        } else {
            (time.as_secs_f64() / self.time.as_secs_f64() * self.conflicts as f64) as u64
        }
    }
}

struct ThresholdSearch<'p> {
    tables: StreamTables,
    /// The problem without links, as it was packed last, and the best placement that is known of it.
    packing: Option<LoadPacking>,
    least_packed: Option<(u64, Vec<u8>)>,
    levelling: Option<LoadRebalancer>,
    /// Whether taking devices of a kind as one led to anything the last time.
    kinds_help: bool,
    sharing: LinkRebalancer,
    /// Where one medium is on all ways.
    carving: Option<LagrangianSplit<'p>>,
    /// Whether it led to anything the last time.
    carving_helps: bool,
    weights: Vec<u64>,
    rng: Rng,
    /// Contradictions and moves so far, against the limit of nodes.
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

    fn first_plan(&mut self, run: &mut Run<'_>) {
        let rest = WaterFilling::new(&self.tables);
        let mut sweeps = DominanceSweep::new(&self.tables, &rest, 0);
        let budget = run.budget;
        let limit = run.outcome().value().map_or(u64::MAX, |value| value.0);
        let mut is_over = |nodes| budget.is_spent() || budget.nodes.is_some_and(|most| nodes > most);
        let swept = sweeps.sweep(limit, WIDTH, &mut is_over);
        run.count(sweeps.nodes);
        if let Some((_, device_of)) = swept.and_then(|swept| swept.best) {
            self.offer(run, &device_of);
        }
    }

    /// Anneals the best plan.
    fn improve(&mut self, run: &mut Run<'_>, moves: u64) {
        let start = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        start.into_iter().for_each(|start| self.improve_from(run, &start, moves));
    }

    /// Anneals a placement that is a plan.
    fn improve_from(&mut self, run: &mut Run<'_>, start: &[u8], moves: u64) {
        let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
        let moves = moves.min(left);
        self.spent += moves;
        let budget = run.budget;
        let mut is_over = || budget.is_spent();
        let annealed = anneal(&self.tables, start, moves, &mut self.rng, &mut is_over);
        let Some((_, device_of)) = annealed else { return };
        let (_, device_of) = polish(&self.tables, &device_of, &mut is_over).unwrap_or((0, device_of));
        self.offer(run, &device_of);
    }

    /// Places ops within the time of the devices alone, as well as it can, and proves how well that can be done.
    fn pack(&mut self, run: &mut Run<'_>, nodes: u64) {
        let mut nodes = nodes;
        let mut limit = self.below_packed(run);
        for round in 0..MOST_PROBES {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            if limit < low || self.is_over(run) || run.outcome().best.is_none() {
                break;
            }
            let Some(mut packing) = self.packing_within(run, limit) else { break };
            let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
            if round == 0 {
                self.share_by_kinds(run, &packing, nodes);
                limit = self.below_packed(run);
                if run.outcome().lower_bound().is_some_and(|low| limit < low.0) {
                    self.packing = Some(packing);
                    break;
                }
            }
            let mut placements: Vec<(u64, Vec<u8>)> = Vec::new();
            let budget = run.budget;
            let packed =
                packing.search(limit, nodes.min(left), &mut || budget.is_spent(), &mut |most, device_of| {
                    placements.push((most, device_of.to_vec()));
                });
            self.spent += packed.nodes;
            run.count(packed.nodes);
            if packed.is_refuted {
                // Beyond the limit links may keep apart what is united here.
                let refuted = packed.limit.min(limit);
                run.attest("packing", Time(refuted + 1), "divvy packing search".to_owned());
            }
            self.offer_packed(run, placements);
            if round == 0 && !packed.is_refuted && self.level(run, &packing, nodes) {
                limit = self.below_packed(run);
            }
            self.packing = Some(packing);
            // What is too hard is tried half as far from the bound, with less effort.
            nodes = (nodes / PROBE_SHARE).max(1);
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            limit = u64::midpoint(low, if packed.is_refuted { self.below_packed(run) } else { limit });
        }
    }

    /// Just below what the devices' time alone is known to allow.
    fn below_packed(&self, run: &Run<'_>) -> u64 {
        let value = run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0);
        let packed = self.least_packed.as_ref().map_or(u64::MAX, |(least, _)| *least);
        value.min(packed).saturating_sub(1)
    }

    /// Takes devices of a kind as one, which bounds all placements, and begins to level from what that leads to.
    fn share_by_kinds(&mut self, run: &mut Run<'_>, packing: &LoadPacking, nodes: u64) {
        let high = self.below_packed(run);
        let Some(shared) = packing.by_kinds(high, &mut self.rng) else { return };
        let bound = shared.bound.min(high.saturating_add(1));
        run.attest("packing", Time(bound), "divvy packing search".to_owned());
        if let Some(device_of) = shared.device_of {
            self.levelling = Some(LoadRebalancer::new(device_of, Rng::new(self.rng.next_u64())));
            let nodes = if self.kinds_help { nodes } else { nodes / LESS_BY_KINDS };
            self.kinds_help = self.level(run, packing, nodes);
        }
    }

    /// Makes the devices' loads even. Whether that led to anything better.
    fn level(&mut self, run: &mut Run<'_>, packing: &LoadPacking, nodes: u64) -> bool {
        let start = || run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        let known = self.levelling.take();
        let known = known.or_else(|| Some(LoadRebalancer::new(start()?, Rng::new(self.rng.next_u64()))));
        let Some(mut levelling) = known else { return false };
        let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
        let entries = nodes.min(left).saturating_mul(ENTRIES_PER_NODE);
        let mut placements: Vec<(u64, Vec<u8>)> = Vec::new();
        let budget = run.budget;
        let range = (low, self.below_packed(run).saturating_add(1));
        let made = packing.level(
            &mut levelling,
            range,
            entries,
            &mut || budget.is_spent(),
            &mut |most, device_of| {
                placements.push((most, device_of.to_vec()));
            },
        );
        self.spent += made / ENTRIES_PER_NODE;
        self.levelling = Some(levelling);
        let found = !placements.is_empty();
        self.offer_packed(run, placements);
        found
    }

    /// Makes loads even where links allow it, from the best plan and from what is packed best. If the best plan is what is
    /// packed best, links are not the matter.
    fn share(&mut self, run: &mut Run<'_>, tries: u64, time: Duration) {
        for is_packed in [false, true] {
            let Some(value) = run.outcome().value().filter(|_| !self.is_over(run) && !run.is_solved()) else {
                break;
            };
            if self.least_packed.as_ref().is_none_or(|(least, _)| *least >= value.0) {
                break;
            }
            let start = if is_packed {
                self.least_packed.as_ref().map(|(_, device_of)| device_of.clone())
            } else {
                run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan))
            };
            let Some(start) = start else { continue };
            let Some((_, tables)) = self.unite(run, value.0.saturating_sub(1)) else { break };
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let budget = run.budget;
            let tries = budget.nodes.map_or(u64::MAX, |most| tries.min(most.saturating_sub(self.spent)));
            let begun = Instant::now();
            let mut is_over = || budget.is_spent() || budget.nodes.is_none() && begun.elapsed() >= time;
            let mut best = None;
            self.spent += self.sharing.share(
                &tables,
                &start,
                (low, value.0),
                tries,
                &mut is_over,
                &mut |_, device_of| {
                    best = Some(device_of.to_vec());
                },
            );
            best.into_iter().for_each(|best| self.offer(run, &best));
        }
    }

    /// Takes placements within the time of the devices for plans, where links allow it.
    fn offer_packed(&mut self, run: &mut Run<'_>, placements: Vec<(u64, Vec<u8>)>) {
        let budget = run.budget;
        // The last are the best, and those before them differ in little.
        for (most, device_of) in placements.into_iter().rev().take(MOST_PACKED) {
            if self.least_packed.as_ref().is_none_or(|(least, _)| most < *least) {
                self.least_packed = Some((most, device_of.clone()));
            }
            if let Some((value, device_of)) = polish(&self.tables, &device_of, &mut || budget.is_spent())
                && run.outcome().value().is_none_or(|best| value < best.0)
            {
                self.offer(run, &device_of);
            }
        }
    }

    /// Refutes thresholds by what devices must be sent, and takes plans from the prices that this leads to.
    fn carve(&mut self, run: &mut Run<'_>, effort: u64) {
        let Some(mut carving) = self.carving.take() else { return };
        let budget = run.budget;
        let before = (run.outcome().lower_bound(), run.outcome().value());
        let steps = if self.carving_helps { MORE_CARVING * effort } else { (effort / LESS_CARVING).max(1) };
        if let (Some(low), Some(value)) = before
            && !self.is_over(run)
        {
            let climbed = carving.climb(low.0, value.0.saturating_sub(1), steps, &mut || budget.is_spent());
            self.spent += climbed.steps;
            climbed.evidence.into_iter().for_each(|evidence| run.prove("link-prices", evidence));
        }
        for part in DIVES {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let Some(value) = run.outcome().value().filter(|_| !self.is_over(run) && !run.is_solved()) else {
                break;
            };
            let threshold = low + (part * value.0.saturating_sub(low) as f64) as u64;
            let each = (steps / DIVES.len() as u64 / self.tables.devices as u64).max(1);
            self.spent += each * self.tables.devices as u64;
            let dived = carving.dive(&self.tables, threshold, each, &mut || budget.is_spent());
            if let Some(device_of) = dived
                && run.offer(self.tables.plan(&device_of)).is_ok()
            {
                self.improve_from(run, &device_of, MOVES_PER_CONFLICT * steps);
            }
        }
        self.carving_helps = before != (run.outcome().lower_bound(), run.outcome().value());
        self.carving = Some(carving);
    }

    /// What is to be packed within a limit: ops that no links can keep apart within it are one. It has the experience
    /// of the last time where units are the same. None where nothing keeps the limit, which is then proved, or
    /// where times are too long.
    fn packing_within(&mut self, run: &mut Run<'_>, limit: u64) -> Option<LoadPacking> {
        let (_, tables) = self.unite(run, limit)?;
        let packing = LoadPacking::new(&tables)?;
        Some(match self.packing.take() {
            Some(before) => packing.with_experience(before),
            None => packing,
        })
    }

    /// Ops that no links can keep apart within a limit are one. None where that refutes the limit, which is then proved.
    fn unite<'r>(&self, run: &mut Run<'r>, limit: u64) -> Option<(Option<ColocatedUnits<'r>>, StreamTables)> {
        let (problem, budget) = (run.problem, run.budget);
        let united = if limit <= Time::LONGEST_INPUT.0 {
            ColocatedUnits::new(problem, Time(limit), &mut || budget.is_spent())
        } else {
            None
        };
        if let Some(evidence) = united.as_ref().and_then(|united| united.proof(&self.weights)) {
            run.prove("colocation", evidence);
            return None;
        }
        let tables = StreamTables::new(problem);
        let tables = match &united {
            Some(united) => tables.united(&united.clusters),
            None => tables,
        };
        Some((united, tables))
    }

    /// Looks for plans within a threshold. Whether there are any, if that becomes known.
    fn try_threshold(&mut self, run: &mut Run<'_>, threshold: u64, effort: u64) -> Option<bool> {
        let budget = run.budget;
        let Some((inseparable, tables)) = self.unite(run, threshold) else { return Some(false) };
        let start = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
        let start = start.unwrap_or_else(|| vec![0; tables.ops]);
        let longest = inseparable.as_ref().map_or_else(
            || vec![u64::MAX; tables.devices],
            |inseparable| inseparable.clusters.longest_loads(),
        );
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
                    let (value, placement) = polish(&self.tables, &placement, &mut || budget.is_spent())
                        .unwrap_or((threshold, placement));
                    self.offer(run, &placement);
                    let best = run.outcome().value().map_or(value, |best| best.0).min(value);
                    if best == 0 {
                        break None;
                    }
                    threshold = threshold.min(best - 1);
                    conflicts.prefer(&placement);
                    conflicts.lower(threshold);
                }
                ConflictResult::Nothing => {
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

    /// Tries thresholds between the bound and the best plan.
    fn probe(&mut self, run: &mut Run<'_>, effort: u64) {
        let mut hard = u64::MAX;
        for _ in 0..MOST_PROBES {
            let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
            let Some(value) = run.outcome().value() else { return };
            let high = hard.min(value.0.saturating_sub(1));
            if self.is_over(run) || run.is_solved() || high <= low || high - low < low / FINE {
                return;
            }
            let threshold = u64::midpoint(low, high);
            if self.try_threshold(run, threshold, effort).is_none() {
                hard = threshold;
            }
        }
    }
}
