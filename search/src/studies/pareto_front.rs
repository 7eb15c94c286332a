//! The trade-off of a stream between period, latency and energy: a set of plans that do not dominate each other.
//!
//! Epsilon-constraint method with simulated annealing: limits on latency (and on energy, if all power is known) are spaced
//! geometrically between the extremes of the fastest plan and the single devices; under each, the period is annealed with a
//! penalty for exceeding it. A move takes a run of consecutive ops to another device, or shifts a boundary. Every valid
//! placement is scored by `core` and kept if no other dominates it. The front is one of plans found; only the bound on the
//! period is proved.

use divvy_core::check;
use divvy_core::plan::Plan;
use divvy_core::problem::{Objective, Problem};
use divvy_core::rng::Rng;
use divvy_core::score::Score;
use divvy_core::units::Time;

use crate::budget::{Budget, StopReason};
use crate::outcome::Outcome;
use crate::request::{Refused, Request};
use crate::solve::{Solved, solve};
use crate::stream::tables::StreamTables;

/// The share of the time for the fastest plan.
const FASTEST_SHARE: f64 = 0.4;
/// The number of limits on latency, and on energy.
const LIMITS: u32 = 12;
/// The first and the last temperature, relative to the energy.
const HOT: f64 = 0.05;
const COLD: f64 = 0.0005;
/// The relative penalty for each unit of relative excess over a limit.
const PENALTY: f64 = 8.0;
/// The longest run of ops that one move changes.
const LONGEST_RUN: usize = 24;

/// A plan of the front.
#[derive(Clone, Debug)]
pub struct Point {
    /// The plan.
    pub plan: Plan,
    /// Its score.
    pub score: Score,
}

/// The front.
#[derive(Clone, Debug)]
pub struct Front {
    /// The plans that no other dominates, the shortest period first.
    pub points: Vec<Point>,
    /// The search for the fastest plan, with its bounds.
    pub fastest: Solved,
    /// The number of plans scored.
    pub scored: u64,
}

/// Upper limits on the other two objectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontLimits {
    /// The latency of one request by itself.
    pub latency: Option<Time>,
    /// The energy of one inference, in microjoules.
    pub energy_uj: Option<u64>,
}

impl FrontLimits {
    /// Whether a plan is within them.
    pub fn hold(&self, score: &Score) -> bool {
        self.latency.is_none_or(|most| score.latency <= most)
            && self.energy_uj.is_none_or(|most| score.energy_uj.is_some_and(|energy| energy <= most))
    }

    /// The total relative excess of a plan over them.
    fn excess(&self, score: &Score) -> f64 {
        let over = |value: f64, most: f64| (value / most.max(1.0) - 1.0).max(0.0);
        let latency = self.latency.map_or(0.0, |most| over(score.latency.0 as f64, most.0 as f64));
        let energy = |most: u64| score.energy_uj.map_or(1.0, |energy| over(energy as f64, most as f64));
        latency + self.energy_uj.map_or(0.0, energy)
    }
}

/// Computes the front of a `stream` problem; if limits are given, one more annealing observes them.
pub fn front(
    problem: &Problem,
    limits: FrontLimits,
    budget: &Budget,
    watch: &mut dyn FnMut(&Outcome),
) -> Result<Front, Refused> {
    if problem.objective != Objective::Stream {
        return Err(Refused {
            message: format!("`{}` has one goal", problem.objective.name()),
            fix: "the trade-off is about --objective stream".to_owned(),
            exists: true,
        });
    }
    StreamTables::supports(problem).map_err(|message| Refused {
        message,
        fix: "use fewer devices".to_owned(),
        exists: true,
    })?;
    let searching = Budget { time: budget.time.mul_f64(FASTEST_SHARE), ..budget.clone() };
    let fastest = solve(problem, &Request::default(), &searching, watch)?;
    let tables = StreamTables::new(problem);
    let mut search = FrontSearch {
        problem,
        positions: tables.positions(),
        units: tables.units(),
        tables,
        points: Vec::new(),
        rng: Rng::new(budget.seed),
        scored: 0,
    };
    let mut starts: Vec<Vec<u8>> = Vec::new();
    starts.extend(fastest.outcome.best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan)));
    starts.extend((0..search.tables.devices).map(|device| vec![device as u8; search.tables.ops]));
    starts.retain(|placement| search.score(placement).is_some());
    let mut rounds: Vec<FrontLimits> = Vec::new();
    if limits != FrontLimits::default() {
        rounds.push(limits);
    }
    let range = |pick: &dyn Fn(&Score) -> Option<u64>| {
        let all = || search.points.iter().filter_map(|point| pick(&point.score));
        all().min().zip(all().max()).filter(|(low, high)| low < high)
    };
    let between = |(low, high): (u64, u64), step: u32| {
        let share = f64::from(step) / f64::from(LIMITS);
        (low as f64 * (high as f64 / (low as f64).max(1.0)).powf(share)) as u64
    };
    let latencies = range(&|score| Some(score.latency.0));
    let energies = range(&|score| score.energy_uj);
    for step in 0..LIMITS {
        let latency = latencies.map(|ends| Time(between(ends, step)));
        rounds.extend(latency.map(|latency| FrontLimits { latency: Some(latency), energy_uj: None }));
        let energy = energies.map(|ends| between(ends, step));
        rounds.extend(energy.map(|energy| FrontLimits { latency: None, energy_uj: Some(energy) }));
    }
    let begun = budget.start.elapsed();
    let left = budget.time.saturating_sub(begun);
    for (number, round) in rounds.iter().enumerate() {
        let until = begun + left.mul_f64((number + 1) as f64 / rounds.len() as f64);
        search.anneal(
            round,
            &starts,
            begun + left.mul_f64(number as f64 / rounds.len() as f64),
            until,
            budget,
        );
    }
    search.points.sort_by_key(|point| (point.score.value, point.score.latency));
    let mut fastest = fastest;
    if budget.is_cancelled() {
        fastest.outcome.stop = StopReason::Cancelled;
    }
    Ok(Front { points: search.points, fastest, scored: search.scored })
}

/// The front found so far.
struct FrontSearch<'p> {
    problem: &'p Problem,
    tables: StreamTables,
    /// By op, its position in the canonical order.
    positions: Vec<usize>,
    units: Vec<Vec<usize>>,
    points: Vec<Point>,
    rng: Rng,
    scored: u64,
}

impl FrontSearch<'_> {
    /// Scores a placement, and keeps it if no plan kept dominates it; none if it is invalid.
    fn score(&mut self, placement: &[u8]) -> Option<Score> {
        let plan = self.tables.plan(placement);
        let score = check::check(self.problem, &plan).ok()?;
        self.scored += 1;
        let objectives = |score: &Score| (score.value, score.latency, score.energy_uj.unwrap_or(0));
        let dominates = |one: &Score, other: &Score| {
            let (one, other) = (objectives(one), objectives(other));
            one.0 <= other.0 && one.1 <= other.1 && one.2 <= other.2
        };
        if !self.points.iter().any(|point| dominates(&point.score, &score)) {
            self.points.retain(|point| !dominates(&score, &point.score));
            self.points.push(Point { plan, score: score.clone() });
        }
        Some(score)
    }

    /// Anneals the period under limits between two times, from the best placement known.
    fn anneal(
        &mut self,
        limits: &FrontLimits,
        starts: &[Vec<u8>],
        from: std::time::Duration,
        until: std::time::Duration,
        budget: &Budget,
    ) {
        let cost = |score: &Score| score.value.0 as f64 * (1.0 + PENALTY * limits.excess(score));
        let known: Vec<Vec<u8>> =
            self.points.iter().filter_map(|p| StreamTables::placement(&p.plan)).collect();
        let mut now: Option<(f64, Vec<u8>)> = None;
        for start in starts.iter().chain(&known) {
            if let Some(score) = self.score(start)
                && now.as_ref().is_none_or(|(best, _)| cost(&score) < *best)
            {
                now = Some((cost(&score), start.clone()));
            }
        }
        let Some((mut energy, mut placement)) = now else { return };
        let span = until.saturating_sub(from).as_secs_f64().max(1e-9);
        while !budget.is_cancelled() {
            let gone = budget.start.elapsed();
            if gone >= until {
                return;
            }
            let share = (gone.saturating_sub(from).as_secs_f64() / span).min(1.0);
            let temperature = energy * HOT * (COLD / HOT).powf(share);
            let next = self.neighbour(&placement);
            let Some(score) = self.score(&next) else { continue };
            let after = cost(&score);
            if after <= energy || self.rng.unit() < ((energy - after) / temperature.max(1e-9)).exp() {
                (energy, placement) = (after, next);
            }
        }
    }

    /// A random neighbour of a placement.
    fn neighbour(&mut self, placement: &[u8]) -> Vec<u8> {
        let mut next = placement.to_vec();
        let unit = self.rng.below(self.units.len());
        let at = self.positions[*self.rng.pick(&self.units[unit])];
        let order = &self.tables.order;
        let (from, length, device) = if self.rng.chance(0.5) {
            (at, 1 + self.rng.below(LONGEST_RUN.min(order.len())), self.rng.below(self.tables.devices) as u8)
        } else {
            // The run before it is extended.
            let before = at.saturating_sub(1);
            (at, 1 + self.rng.below(4), placement[order[before]])
        };
        for &op in order[from..].iter().take(length) {
            match self.tables.group_of[op] {
                Some(group) => self.tables.groups[group].iter().for_each(|&op| next[op] = device),
                None => next[op] = device,
            }
        }
        next
    }
}
