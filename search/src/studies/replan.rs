//! A plan for a stream whose devices have changed, which moves few weights.
//!
//! Candidates are the old placement with the lost ops repaired, the same improved by descent and by annealing, and the best
//! plan of a search from scratch. From each candidate within the slack of the best value, ops are moved back to where they were
//! as long as the value stays within the slack. The result moves the fewest bytes of weights; ties are broken by the number of
//! ops moved.

use divvy_core::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::budget::Budget;
use crate::outcome::Outcome;
use crate::request::{Refused, Request};
use crate::solve::{Solved, solve};
use crate::stream::annealing::{anneal, relieve_busiest};
use crate::stream::tables::StreamTables;
use crate::studies::keep_in_place::{keep_in_place, repair};

/// The share of the time for the search from scratch.
const SEARCH_SHARE: f64 = 0.7;
/// Moves of annealing.
const MOVES: u64 = 400_000;

/// A plan for changed devices.
#[derive(Clone, Debug)]
pub struct Replanned {
    /// The plan that moves the least, and the bounds found.
    pub solved: Solved,
    /// The value of the fastest plan found, whatever it moves.
    pub fastest: Option<Time>,
}

/// Plans again. `before` is the old device of each op, if that still exists; the value may exceed that of the fastest plan by the
/// relative `slack`.
pub fn replan(
    problem: &Problem,
    before: &[Option<DeviceId>],
    slack: f64,
    budget: &Budget,
    watch: &mut dyn FnMut(&Outcome),
) -> Result<Replanned, Refused> {
    let searching = Budget { time: budget.time.mul_f64(SEARCH_SHARE), ..budget.clone() };
    let mut solved = solve(problem, &Request::default(), &searching, watch)?;
    let support = StreamTables::supports(problem).map_err(|message| Refused {
        message: format!("cannot plan anew: {message}"),
        fix: "plan from scratch with `divvy plan`".to_owned(),
        exists: true,
    });
    support?;
    let tables = StreamTables::new(problem);
    let before: Vec<Option<u8>> =
        before.iter().map(|device| device.and_then(|device| u8::try_from(device.0).ok())).collect();
    let weights: Vec<u64> = (0..tables.ops).map(|op| problem.graph.weight_bytes(OpId::new(op))).collect();
    let mut candidates: Vec<Vec<u8>> = Vec::new();
    candidates.extend(solved.outcome.best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan)));
    if let Some(repaired) = repair(&tables, &before) {
        let mut is_over = || budget.is_spent();
        candidates.extend(relieve_busiest(&tables, &repaired, &mut is_over).map(|(_, placement)| placement));
        let mut rng = Rng::new(budget.seed);
        let annealed = anneal(&tables, &repaired, MOVES, &mut rng, &mut is_over);
        candidates.extend(annealed.map(|(_, placement)| placement));
        candidates.push(repaired);
    }
    let value = |placement: &Vec<u8>| {
        let score = check::check(problem, &tables.plan(placement)).ok()?;
        Some(score.value)
    };
    let fastest = candidates.iter().filter_map(value).min();
    let Some(fastest) = fastest else { return Ok(Replanned { solved, fastest: None }) };
    let limit = Time(fastest.0.saturating_add((fastest.0 as f64 * slack) as u64));
    let moved = |placement: &Vec<u8>| {
        let is_moved = |op: &usize| before[*op] != Some(placement[*op]);
        let ops = || (0..tables.ops).filter(is_moved);
        (ops().map(|op| weights[op]).sum::<u64>(), ops().count())
    };
    let kept = candidates
        .iter()
        .filter(|placement| value(placement).is_some_and(|value| value <= limit))
        .map(|placement| keep_in_place(&tables, placement, &before, &weights, limit.0))
        .min_by_key(|placement| (moved(placement), value(placement)));
    if let Some(kept) = kept {
        let plan = tables.plan(&kept);
        if let Ok(score) = check::check(problem, &plan) {
            solved.outcome.best = Some((plan, score));
            solved.outcome.found_by = Some("replan".to_owned());
        }
    }
    Ok(Replanned { solved, fastest: Some(fastest) })
}
