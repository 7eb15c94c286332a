//! `conflict-driven`: a plan by annealing, then a conflict-driven search for a better one until there is none.
//!
//! Ops that no links can keep apart within a threshold are one, and where that alone refutes it the proof is verified. Else
//! the search decides ([`Conflicts`]); what it refutes is attested. Just below the best plan a refutation is the proof of
//! optimality; thresholds between the bound and the best plan are tried by halving, since those far below are refuted sooner
//! and those that are not yield better plans. Every round has twice the effort of the one before.

use divvy_core::certificate::Evidence;
use divvy_core::outcome::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::period::placement::{Conflicts, Found, Rest, Sweeps, Tables, United, anneal, polish, prices};
use crate::registry::Planner;
use crate::run::Run;

/// Placements kept by the sweep that finds the first plan.
const WIDTH: usize = 64;
/// Contradictions in the first round, and moves of annealing for each of them.
const FIRST_EFFORT: u64 = 64;
const MOVES_PER_CONFLICT: u64 = 200;
/// Thresholds between bound and plan that a round tries, unless they are closer than this share of the bound.
const MOST_PROBES: u32 = 5;
const FINE: u64 = 5000;

pub(super) struct ConflictDriven;

impl Planner for ConflictDriven {
    fn name(&self) -> &'static str {
        "conflict-driven"
    }

    fn about(&self) -> &'static str {
        "annealing, then a search that learns from contradictions until nothing better is left"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        Tables::support(problem)?;
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
        let tables = Tables::new(run.problem);
        let weights = prices(&tables, run.budget);
        run.prove("area", Evidence::Area { weights: weights.clone() });
        let mut search = Search { weights, tables, rng: Rng::new(run.budget.seed), spent: 0 };
        search.first_plan(run);
        let mut effort = FIRST_EFFORT;
        while !run.is_solved() && run.outcome().value() != Some(Time::ZERO) {
            if search.is_over(run) {
                let is_cancelled = run.budget.is_cancelled();
                return if is_cancelled { StopReason::Cancelled } else { StopReason::OutOfBudget };
            }
            search.improve(run, MOVES_PER_CONFLICT * effort);
            let below =
                run.outcome().value().map_or(Time::LONGEST_INPUT.0, |value| value.0.saturating_sub(1));
            if search.try_threshold(run, below, effort) == Some(false) && run.outcome().best.is_none() {
                // There is no plan at all.
                return StopReason::Finished;
            }
            search.probe(run, effort);
            effort *= 2;
        }
        StopReason::Finished
    }
}

struct Search {
    tables: Tables,
    weights: Vec<u64>,
    rng: Rng,
    /// Contradictions and moves so far, against the limit of nodes.
    spent: u64,
}

impl Search {
    fn is_over(&self, run: &Run<'_>) -> bool {
        run.budget.is_spent() || run.budget.nodes.is_some_and(|most| self.spent >= most)
    }

    fn offer(&self, run: &mut Run<'_>, device_of: &[u8]) {
        let offered = run.offer(self.tables.plan(device_of));
        debug_assert!(offered.is_ok(), "it was placed by the rules: {offered:?}");
    }

    fn first_plan(&mut self, run: &mut Run<'_>) {
        let rest = Rest::new(&self.tables);
        let mut sweeps = Sweeps::new(&self.tables, &rest, 0);
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
        let start = run.outcome().best.as_ref().and_then(|(plan, _)| Tables::placement(plan));
        let Some(start) = start else { return };
        let left = run.budget.nodes.map_or(u64::MAX, |most| most.saturating_sub(self.spent));
        let moves = moves.min(left);
        self.spent += moves;
        let budget = run.budget;
        let mut is_over = || budget.is_spent();
        let annealed = anneal(&self.tables, &start, moves, &mut self.rng, &mut is_over);
        let Some((_, device_of)) = annealed else { return };
        let (_, device_of) = polish(&self.tables, &device_of, &mut is_over).unwrap_or((0, device_of));
        self.offer(run, &device_of);
    }

    /// Looks for plans within a threshold. Whether there are any, if that becomes known.
    fn try_threshold(&mut self, run: &mut Run<'_>, threshold: u64, effort: u64) -> Option<bool> {
        let budget = run.budget;
        let inseparable = if threshold <= Time::LONGEST_INPUT.0 {
            United::new(run.problem, Time(threshold), &mut || budget.is_spent())
        } else {
            None
        };
        if let Some(evidence) = inseparable.as_ref().and_then(|united| united.proof(&self.weights)) {
            run.prove("united", evidence);
            return Some(false);
        }
        let tables = Tables::new(run.problem);
        let tables = match &inseparable {
            Some(inseparable) => tables.united(&inseparable.clusters),
            None => tables,
        };
        let start = run.outcome().best.as_ref().and_then(|(plan, _)| Tables::placement(plan));
        let start = start.unwrap_or_else(|| vec![0; tables.ops]);
        let longest = inseparable.as_ref().map_or_else(
            || vec![u64::MAX; tables.devices],
            |inseparable| inseparable.clusters.longest_loads(),
        );
        let mut conflicts =
            Conflicts::new(&tables, threshold, &start, &self.weights, &longest, self.rng.next_u64());
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
                Found::Placement(placement) => {
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
                Found::Nothing => {
                    let bound = Time(threshold.saturating_add(1));
                    if run.outcome().best.is_some() {
                        run.attest(ConflictDriven.name(), bound, "divvy conflict-driven search".to_owned());
                    }
                    break Some(false);
                }
                Found::Unknown => break None,
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
