//! `column-generation`: how many stages within a threshold cover all units, at least, by the linear relaxation of set cover.
//!
//! At a threshold T, the least (fractional) number of convex sets of cost at most T that cover all units is a linear program
//! with one column for each set. Its dual,
//!
//! maximise Σ_u π_u subject to Σ_{u ∈ S} π_u ≤ 1 for every convex set S of cost at most T, π ≥ 0,
//!
//! refutes T if its value exceeds the number k of stages. The dual is solved by row generation: violated rows come from
//! annealing first ([`SetAnnealer`]), and from the exact search last ([`find_sets`]), whose tree proves that there are none.
//! Two stabilisations: each π_u stays in a box around the unit's share of the stage costs in the best plan, and pricing takes
//! place at points between the current dual and the best so far (smoothing, Wentges 1997). With unlike devices every kind has a
//! limit of its own in place of 1, and the sum of the limits of the best k devices takes the place of k.
//!
//! The exact search grows exponentially with T. So prices are optimised at a threshold where their sum exceeds k by a little,
//! and then proved at thresholds that rise towards it as fast as the time allows ([`ThresholdSteps`]).

use std::collections::HashSet;
use std::time::Instant;

use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::bit_set::Bits;
use divvy_proof::evidence::{Evidence, StageGroup};
use divvy_proof::pipeline::convex_sets::ConvexSets;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::relaxation_types::KindCosts;
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::bound::{Bound, When};
use crate::pipeline::bounds::bisection::BisectionLimits;
use crate::pipeline::bounds::branch_and_bound::{BranchResult, TreeLimits, find_sets};
use crate::pipeline::bounds::pricing::SetAnnealer;
use crate::pipeline::bounds::threshold_steps::ThresholdSteps;
use crate::pipeline::bounds::unreplicated_pipeline;
use crate::run::Run;

/// The most units: the linear program converges too slowly for more.
const MOST_UNITS: usize = 1500;
/// The box of a unit's price, relative to its cost in the best plan.
const LEAST_PART: f64 = 0.2;
const MOST_PART: f64 = 3.0;
/// Runs of annealing after each solve, and the steps of each: per unit, and at most.
const WALKS: usize = 12;
const STEPS_PER_UNIT: usize = 30;
const MOST_STEPS: usize = 4000;
/// The most solves at a threshold before the exact search.
const MOST_ROUNDS: usize = 400;
/// The sets that the exact search finds in one go, and the solves after it.
const MOST_EXACT_SETS: usize = 40;
const FEW_ROUNDS: usize = 3;
/// The share of the relative excess of Σ π over k by which sets may violate their limit.
const TOLERANCE: f64 = 0.4;
/// The shares of the remaining time for the first prices, and for prices at higher thresholds.
const PRICE_SHARE: f64 = 0.35;
const NEXT_PRICE_SHARE: f64 = 0.3;
/// The most thresholds at which prices are optimised in one go.
const MOST_THRESHOLDS: usize = 12;
/// A relative excess of Σ π over k from which a higher threshold is tried, and the excess aimed at.
const LARGE_EXCESS: f64 = 0.05;
const TARGET_EXCESS: f64 = 0.03;
/// The first threshold to prove, relative to the one that the prices are for.
const FIRST_ATTEMPT: f64 = 0.985;
/// The weight of the best prices so far in smoothing.
const SMOOTHING: f64 = 0.6;
/// The sets kept of one run of annealing, and the share of the limit from which sets are reported.
const SETS_PER_WALK: usize = 4;
const REPORTED_FROM: f64 = 0.98;
/// The least violation of a new row.
const VIOLATION: f64 = 1e-5;

pub(crate) struct ColumnGeneration;

impl Bound for ColumnGeneration {
    fn name(&self) -> &'static str {
        "column-generation"
    }

    fn about(&self) -> &'static str {
        "dual prices at which no stage can hold its share of the ops, by column generation"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        unreplicated_pipeline(problem)
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(plain) = PipelineRelaxation::new(run.problem) else { return };
        let merged = plain.kinds().is_empty();
        let relaxed = if merged { PipelineRelaxation::merged(run.problem) } else { Ok(plain) };
        let Ok(relaxed) = relaxed else { return };
        if !relaxed.knows_order() || relaxed.units() > MOST_UNITS {
            return;
        }
        let limits = BisectionLimits::of(run.budget, 0.95);
        let low = run.relaxed_bound().map_or(0, |bound| bound.0);
        let work: u64 = relaxed.least().work.iter().flatten().sum();
        // Without a plan the upper end is a guess.
        let guess = relaxed.picoseconds(work).min(low + low / 4 + 1);
        let high = run.relaxed_value().map_or(guess, |value| value.0);
        if high <= low {
            return;
        }
        let mut columns = ColumnGenerator::new(run, &relaxed);
        let mut steps = ThresholdSteps::new(low);
        let mut tree_limits = limits.for_attempt(PRICE_SHARE);
        while let Some((at, mut master)) = columns.highest_prices(steps.proved(), high, tree_limits) {
            // Prices for one threshold also refute those below it, with a larger excess.
            steps.set_highest(at);
            while let Some(threshold) = steps.next(FIRST_ATTEMPT, limits.left().as_secs_f64()) {
                if limits.left().is_zero() || run.is_solved() {
                    return;
                }
                let start = Instant::now();
                let proof = columns.attempt(&mut master, at, threshold, limits.for_attempt(steps.share()));
                match proof {
                    Some((prices, groups)) => {
                        let threshold_ps = Time(threshold);
                        run.prove(self.name(), Evidence::SetCover { merged, threshold_ps, prices, groups });
                        steps.succeed(threshold, start.elapsed().as_secs_f64());
                    }
                    None => steps.fail(threshold, start.elapsed().as_secs_f64()),
                }
            }
            // If they proved all that was asked, prices are optimised again at a higher threshold.
            if steps.proved() <= at || steps.proved() >= high {
                return;
            }
            tree_limits = limits.for_attempt(NEXT_PRICE_SHARE);
        }
    }
}

/// Integer prices, and the trees that prove that no set exceeds its limit.
type Proof = (Vec<u64>, Vec<StageGroup>);

/// The rows generated so far, for all thresholds.
struct ColumnGenerator<'a> {
    relaxed: &'a PipelineRelaxation,
    kinds: Vec<&'a KindCosts>,
    /// By unit, its share of the stage costs in the best plan.
    unit_costs: Vec<f64>,
    /// Kind, set and cost of each row.
    pool: Vec<(usize, Bits, u64)>,
    known: HashSet<(usize, Bits)>,
    rng: Rng,
}

impl<'a> ColumnGenerator<'a> {
    fn new(run: &Run<'_>, relaxed: &'a PipelineRelaxation) -> ColumnGenerator<'a> {
        let kinds: Vec<&KindCosts> =
            if relaxed.kinds().is_empty() { vec![relaxed.least()] } else { relaxed.kinds().iter().collect() };
        let stages: Vec<Bits> = match &run.outcome().best {
            Some((Plan::Pipeline(plan), _)) => (plan.stages.iter())
                .map(|stage| {
                    let mut set = Bits::none(relaxed.units());
                    stage.ops.iter().for_each(|&op| set.add(relaxed.unit_of(op)));
                    set
                })
                .collect(),
            _ => even_stages(relaxed),
        };
        let unit_costs = unit_costs(relaxed, &stages);
        let rng = Rng::new(run.budget.seed);
        let mut columns =
            ColumnGenerator { relaxed, kinds, unit_costs, pool: Vec::new(), known: HashSet::new(), rng };
        for kind in 0..columns.kinds.len() {
            for stage in &stages {
                columns.add(kind, stage.clone());
            }
            for unit in 0..relaxed.units() {
                let mut set = Bits::none(relaxed.units());
                set.add(unit);
                columns.add(kind, set);
            }
        }
        columns
    }

    /// Adds a set to the pool; its index if it is new.
    fn add(&mut self, kind: usize, set: Bits) -> Option<usize> {
        let cost = self.relaxed.cost(self.kinds[kind], &set)?;
        self.known.insert((kind, set.clone())).then(|| {
            self.pool.push((kind, set, cost));
            self.pool.len() - 1
        })
    }

    /// Prices for a high threshold at which, as far as annealing can tell, Σ π exceeds k.
    fn highest_prices(
        &mut self,
        low: u64,
        high: u64,
        tree_limits: TreeLimits<'_>,
    ) -> Option<(u64, DualMaster)> {
        let mut threshold = low + (high - low) / 2;
        let mut step = 0.3;
        let stages = f64::from(self.relaxed.stages());
        let mut best: Option<(u64, DualMaster)> = None;
        for _ in 0..MOST_THRESHOLDS {
            let budget = self.relaxed.budget(1, threshold);
            let mut master = DualMaster::new(self, budget).ok()?;
            match self.find_prices(&mut master, MOST_ROUNDS, tree_limits) {
                PriceSearch::Converged(prices) => {
                    let over = prices.total() / stages - 1.0;
                    best = Some((threshold, master));
                    let higher = (threshold as f64 * (1.0 + 0.7 * (over - TARGET_EXCESS))) as u64;
                    let higher = higher.min(high.saturating_sub(1));
                    if over < LARGE_EXCESS || higher <= threshold {
                        return best;
                    }
                    (threshold, step) = (higher, 0.1);
                }
                PriceSearch::TooLow => {
                    let known = best.as_ref().map_or(low, |(converged, _)| *converged);
                    threshold -= ((threshold - known) as f64 * step) as u64;
                    if threshold - known <= threshold / 500 {
                        return best;
                    }
                }
                // Not converged; the exact search decides.
                PriceSearch::Spent(_) => return best.or(Some((threshold, master))),
            }
        }
        best
    }

    /// Tries to refute a threshold with prices for the threshold `at`, which is higher.
    fn attempt(
        &mut self,
        master: &mut DualMaster,
        at: u64,
        threshold: u64,
        tree_limits: TreeLimits<'_>,
    ) -> Option<Proof> {
        let (scale, budget) = (self.relaxed.budget(1, at), self.relaxed.budget(1, threshold));
        loop {
            let (PriceSearch::Converged(prices) | PriceSearch::Spent(prices)) =
                self.find_prices(master, FEW_ROUNDS, tree_limits)
            else {
                return None;
            };
            if tree_limits.is_spent() {
                return None;
            }
            let integers: Vec<u64> =
                prices.units.iter().map(|&price| (price * scale as f64) as u64).collect();
            let groups = groups(self.relaxed, &self.kinds, &prices, &integers, scale)?;
            match self.price_exactly(&integers, groups, budget, tree_limits) {
                ExactPricing::Proved(groups) => return Some((integers, groups)),
                ExactPricing::Sets(kind, sets) => {
                    let new: Vec<usize> = sets.into_iter().filter_map(|set| self.add(kind, set)).collect();
                    master.add_rows(&self.pool, new).ok()?;
                }
                ExactPricing::Unknown => return None,
            }
        }
    }

    /// Generates rows by annealing until no violated ones are found, with smoothing at first.
    fn find_prices(
        &mut self,
        master: &mut DualMaster,
        rounds_left: usize,
        tree_limits: TreeLimits<'_>,
    ) -> PriceSearch {
        let stages = f64::from(self.relaxed.stages());
        let (mut center, mut best_ratio): (Option<UnitPrices>, f64) = (None, 0.0);
        let mut smooth = true;
        for round in 1..=rounds_left {
            let Some(prices) = master.solve() else { return PriceSearch::TooLow };
            if prices.total() <= stages * (1.0 + 1e-7) {
                return PriceSearch::TooLow;
            }
            if tree_limits.is_spent() || round == rounds_left {
                return PriceSearch::Spent(prices);
            }
            let smoothed = match &center {
                Some(center) if smooth => prices.smoothed(center),
                _ => prices.clone(),
            };
            let (new, fullest) = self.price_by_annealing(&smoothed, master.budget);
            let ratio = smoothed.total() / fullest.max(1.0);
            if ratio > best_ratio {
                (best_ratio, center) = (ratio, Some(smoothed));
            }
            // Small violations do no harm if Σ π exceeds what is needed.
            let spare = 1.0 + TOLERANCE * (prices.total() / stages - 1.0);
            if !smooth && fullest <= spare {
                return PriceSearch::Converged(prices);
            }
            smooth &= fullest > spare;
            let is_violated = |(kind, set): &(usize, Bits)| prices.of(set) > prices.limits[*kind] + VIOLATION;
            let new: Vec<(usize, Bits)> = new.into_iter().filter(is_violated).collect();
            let added: Vec<usize> = new.into_iter().filter_map(|(kind, set)| self.add(kind, set)).collect();
            if added.is_empty() {
                if !smooth || center.is_none() {
                    return PriceSearch::Converged(prices);
                }
                smooth = false;
                continue;
            }
            smooth |= fullest > spare;
            if master.add_rows(&self.pool, added).is_err() {
                return PriceSearch::TooLow;
            }
        }
        PriceSearch::TooLow
    }

    /// Heuristic pricing: sets that annealing finds, and the largest ratio of a set's price to its limit.
    fn price_by_annealing(&mut self, prices: &UnitPrices, budget: u64) -> (Vec<(usize, Bits)>, f64) {
        let mut new: Vec<(usize, Bits)> = Vec::new();
        let mut fullest = 0.0f64;
        for kind in 0..self.kinds.len() {
            // Starts are the sets of the pool with the highest prices.
            let fitting = self.pool.iter().filter(|(k, _, cost)| *k == kind && *cost <= budget);
            let mut starts: Vec<(f64, &Bits)> = fitting.map(|(_, set, _)| (prices.of(set), set)).collect();
            starts.sort_by(|a, b| b.0.total_cmp(&a.0));
            starts.truncate(4 * WALKS);
            let starts: Vec<Bits> = starts.into_iter().map(|(_, set)| set.clone()).collect();
            let mut annealer = SetAnnealer::new(self.relaxed, self.kinds[kind], &prices.units, budget);
            let limit = prices.limits[kind].max(1e-9);
            let steps = (STEPS_PER_UNIT * self.relaxed.units()).min(MOST_STEPS) as u32;
            for _ in 0..WALKS {
                if starts.is_empty() || self.rng.below(4) == 0 {
                    annealer.restart(&Bits::none(self.relaxed.units()));
                } else {
                    annealer.restart(self.rng.pick(&starts));
                }
                let mut last: [Option<Bits>; SETS_PER_WALK] = [const { None }; SETS_PER_WALK];
                let mut reported = 0;
                annealer.anneal(steps, limit * REPORTED_FROM, &mut self.rng, &mut |set, price| {
                    last[reported % SETS_PER_WALK] = Some(set.clone());
                    reported += 1;
                    fullest = fullest.max(price / limit);
                });
                new.extend(last.into_iter().flatten().map(|set| (kind, set)));
            }
        }
        (new, fullest)
    }

    /// Exact pricing: proves that no set exceeds its limit, or finds some that do.
    fn price_exactly(
        &self,
        prices: &[u64],
        mut groups: Vec<StageGroup>,
        budget: u64,
        tree_limits: TreeLimits<'_>,
    ) -> ExactPricing {
        for (kind, group) in groups.iter_mut().enumerate() {
            let mut sets = ConvexSets::new(self.relaxed, self.kinds[kind], budget, prices, group.limit);
            match find_sets(&mut sets, MOST_EXACT_SETS, tree_limits) {
                BranchResult::NoneExists(tree) => group.tree = tree,
                BranchResult::Sets(sets) => return ExactPricing::Sets(kind, sets),
                BranchResult::Unknown => return ExactPricing::Unknown,
            }
        }
        ExactPricing::Proved(groups)
    }
}

/// The result of optimising prices at a threshold.
enum PriceSearch {
    /// Annealing finds no violated row.
    Converged(UnitPrices),
    /// Σ π does not exceed the number of stages.
    TooLow,
    /// The limits were reached at these prices.
    Spent(UnitPrices),
}

/// The result of exact pricing.
enum ExactPricing {
    /// No set exceeds its limit; the trees prove it.
    Proved(Vec<StageGroup>),
    /// Sets of a kind that do.
    Sets(usize, Vec<Bits>),
    Unknown,
}

/// The units in their order, in stages of about equal work.
fn even_stages(relaxed: &PipelineRelaxation) -> Vec<Bits> {
    let stages = u128::from(relaxed.stages());
    let work = |unit: usize| u128::from(relaxed.least().work[unit].unwrap_or(0));
    let total = (0..relaxed.units()).map(work).sum::<u128>().max(1);
    let mut sets = vec![Bits::none(relaxed.units()); relaxed.stages() as usize];
    let mut done = 0;
    for unit in 0..relaxed.units() {
        sets[(done * stages / total).min(stages - 1) as usize].add(unit);
        done += work(unit);
    }
    sets
}

/// By unit, its share of the stage costs: its work, and an equal share of each tensor it has in common with others of its stage.
fn unit_costs(relaxed: &PipelineRelaxation, stages: &[Bits]) -> Vec<f64> {
    let least = relaxed.least();
    let mut costs: Vec<f64> = least.work.iter().map(|work| work.unwrap_or(0) as f64).collect();
    for stage in stages {
        for (t, tensor) in relaxed.tensors().iter().enumerate() {
            let ends = || tensor.consumers.iter().copied().chain([tensor.producer]);
            let inside: Vec<u32> = ends().filter(|&unit| stage.has(unit as usize)).collect();
            if inside.is_empty() || inside.len() == tensor.consumers.len() + 1 {
                continue;
            }
            let time = if stage.has(tensor.producer as usize) { least.out[t] } else { least.into[t] };
            inside.iter().for_each(|&unit| costs[unit as usize] += time as f64 / inside.len() as f64);
        }
    }
    costs
}

/// A solution of the dual.
#[derive(Clone)]
struct UnitPrices {
    units: Vec<f64>,
    /// By kind, the limit of its sets.
    limits: Vec<f64>,
}

impl UnitPrices {
    fn total(&self) -> f64 {
        self.units.iter().sum()
    }

    /// The price of a set.
    fn of(&self, set: &Bits) -> f64 {
        set.iter().map(|unit| self.units[unit]).sum()
    }

    /// A convex combination with other prices.
    fn smoothed(&self, other: &UnitPrices) -> UnitPrices {
        let mix = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).map(|(a, b)| (1.0 - SMOOTHING) * a + SMOOTHING * b).collect()
        };
        UnitPrices { units: mix(&self.units, &other.units), limits: mix(&self.limits, &other.limits) }
    }
}

/// Integer limits whose sum over the best devices stays below Σ π; none if Σ π is 0.
fn groups(
    relaxed: &PipelineRelaxation,
    kinds: &[&KindCosts],
    prices: &UnitPrices,
    integers: &[u64],
    budget: u64,
) -> Option<Vec<StageGroup>> {
    let total: u64 = integers.iter().sum();
    let stages = u64::from(relaxed.stages());
    let group = |count: u32, limit: u64| StageGroup { stages: 1, count, limit, tree: Vec::new() };
    if kinds.len() == 1 {
        return (total > 0).then(|| vec![group(relaxed.stages(), (total - 1) / stages)]);
    }
    let excess = prices.total() / f64::from(relaxed.stages());
    let limit = |kind: usize| (prices.limits[kind] * excess * (1.0 - 1e-9) * budget as f64) as u64;
    let groups = kinds.iter().enumerate().map(|(i, kind)| {
        let limit = limit(i).saturating_sub(integers.len() as u64);
        group(kind.devices, limit)
    });
    Some(groups.collect())
}

/// The dual of the restricted master program, at one threshold.
struct DualMaster {
    solver: Solver,
    units: Vec<Column>,
    /// By kind.
    limits: Vec<Column>,
    /// The cost of a set at the threshold, in the relaxation's unit.
    budget: u64,
}

impl DualMaster {
    fn new(columns: &ColumnGenerator<'_>, budget: u64) -> Result<DualMaster, divvy_solver::SolverError> {
        let mut program = Program::new();
        let scale = 1.0 / budget.max(1) as f64;
        let units: Vec<Column> = (columns.unit_costs.iter())
            .map(|&unit_costs| {
                program.column(LEAST_PART * unit_costs * scale, (MOST_PART * unit_costs + 1.0) * scale, -1.0)
            })
            .collect();
        let limits: Vec<Column> =
            columns.kinds.iter().map(|_| program.column(0.0, f64::INFINITY, 0.0)).collect();
        // The sum of the k largest limits is at most k, as the linear program of that sum.
        let stages = f64::from(columns.relaxed.stages());
        let all = program.column(0.0, f64::INFINITY, 0.0);
        let mut sum = vec![(all, stages)];
        for (kind, &limit) in columns.kinds.iter().zip(&limits) {
            let more = program.column(0.0, f64::INFINITY, 0.0);
            program.at_least(0.0, &[(all, 1.0), (more, 1.0), (limit, -1.0)]);
            sum.push((more, f64::from(kind.devices)));
        }
        program.at_most(&sum, stages);
        let solver = Solver::new(&program, &Options::default())?;
        let mut master = DualMaster { solver, units, limits, budget };
        master.add_rows(&columns.pool, 0..columns.pool.len())?;
        Ok(master)
    }

    /// Adds the rows of those sets whose cost is within the budget.
    fn add_rows(
        &mut self,
        pool: &[(usize, Bits, u64)],
        which: impl IntoIterator<Item = usize>,
    ) -> Result<(), divvy_solver::SolverError> {
        let fitting = which.into_iter().map(|i| &pool[i]).filter(|(_, _, cost)| *cost <= self.budget);
        let rows: Vec<Vec<(Column, f64)>> = fitting
            .map(|(kind, set, _)| {
                let prices = set.iter().map(|unit| (self.units[unit], 1.0));
                prices.chain([(self.limits[*kind], -1.0)]).collect()
            })
            .collect();
        self.solver.add_rows(rows.iter().map(|row| (f64::NEG_INFINITY, &row[..], 0.0)))
    }

    fn solve(&mut self) -> Option<UnitPrices> {
        let solution = self.solver.solve().ok()?;
        let (_, values) = solution.best.filter(|_| solution.status == Status::Optimal)?;
        let read =
            |columns: &[Column]| columns.iter().map(|column| values[column.index()].max(0.0)).collect();
        Some(UnitPrices { units: read(&self.units), limits: read(&self.limits) })
    }
}
