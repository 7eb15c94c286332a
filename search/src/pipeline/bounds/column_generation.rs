//! `column-generation`: prices of units such that no stage within a threshold can hold its share of them.
//!
//! At a threshold T the fewest sets within T that cover the network, in parts if need be, are a linear program with a
//! column for every set; its dual gives each unit a price such that no set holds more than 1, and all prices add up to
//! that number. If they add up to more than k, no plan takes T or less. The dual is solved here, row by row: rows come
//! from annealing first ([`crate::pipeline::bounds::pricing`]), from the exact search last ([`crate::pipeline::bounds::branch_and_bound`]), whose tree is the evidence.
//! Prices are kept near what each unit costs in the best plan known, without which they jump about for too long. With
//! unlike devices each kind has a most that its sets hold, and these, the best devices first, take the place of k.
//!
//! A low threshold leaves the search much room to prune, and every step up takes it so many times as long. Prices are
//! looked for at a threshold where they add up to a little more than they must, then that is climbed to as
//! fast as the time left allows.

use std::collections::HashSet;
use std::time::Instant;

use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::bit_set::Bits;
use divvy_proof::evidence::{Evidence, StageGroup};
use divvy_proof::pipeline::convex_sets::Sets;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::units::DeviceKind;
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::bound::{Bound, When};
use crate::pipeline::bounds::bisection::BisectionLimits;
use crate::pipeline::bounds::branch_and_bound::{SearchLimit, BranchResult, find_sets};
use crate::pipeline::bounds::only_pipeline;
use crate::pipeline::bounds::pricing::Walker;
use crate::pipeline::bounds::threshold_steps::ThresholdSteps;
use crate::run::Run;

/// Past this many units prices take too long to settle.
const MOST_UNITS: usize = 1500;
/// Prices stay between these parts of a unit's cost in the best plan.
const LEAST_PART: f64 = 0.2;
const MOST_PART: f64 = 3.0;
/// Walks of annealing after each solve, and the steps of each: for every unit, and at most.
const WALKS: usize = 12;
const STEPS_PER_UNIT: usize = 30;
const MOST_STEPS: usize = 4000;
/// Rounds of annealing without anything new before the exact search.
const MOST_ROUNDS: usize = 400;
/// Sets that the exact search finds at once, and rounds of annealing after it.
const AT_ONCE: usize = 40;
const FEW_ROUNDS: usize = 3;
/// Of what prices add up to beyond the stages, the part by which a set may pass its limit.
const TOLERANCE: f64 = 0.4;
/// The part of the time left in which prices are looked for at first, and again above what they proved.
const SETTLING: f64 = 0.35;
const SETTLING_AGAIN: f64 = 0.3;
/// The most thresholds that prices are looked for at.
const MOST_THRESHOLDS: usize = 12;
/// Prices that add up to more than this part beyond the stages are worth another look at a higher threshold, and what
/// they should add up to.
const MUCH: f64 = 0.05;
const AIM: f64 = 0.03;
/// The first attempt is this part of the threshold that the prices are for.
const FIRST_ATTEMPT: f64 = 0.985;
/// How near to the best prices so far sets are looked for.
const SMOOTHING: f64 = 0.6;
/// Sets kept of one walk, and how near to their limit they are looked at.
const KEPT: usize = 4;
const NEARLY: f64 = 0.98;
/// A set must pass its limit by this to be worth a row.
const WORTH: f64 = 1e-5;

pub(crate) struct ColumnGeneration;

impl Bound for ColumnGeneration {
    fn name(&self) -> &'static str {
        "column-generation"
    }

    fn about(&self) -> &'static str {
        "prices of ops of which no stage can hold its share, by column generation"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        only_pipeline(problem)
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
        let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let work: u64 = relaxed.least().work.iter().flatten().sum();
        // Without a plan, what may be reached is a guess.
        let guess = relaxed.picoseconds(work).min(low + low / 4 + 1);
        let high = run.outcome().value().map_or(guess, |value| value.0);
        if high <= low {
            return;
        }
        let mut generator = Generator::new(run, &relaxed);
        let mut climb = ThresholdSteps::new(low);
        let mut effort = limits.effort(SETTLING);
        while let Some((at, mut master)) = generator.settle_highest(climb.proved(), high, effort) {
            // Prices that are good at one threshold are good below it too, with room to spare.
            climb.reach_for(at);
            while let Some(threshold) = climb.next(FIRST_ATTEMPT, limits.left().as_secs_f64()) {
                if limits.left().is_zero() || run.is_solved() {
                    return;
                }
                let start = Instant::now();
                let proof = generator.attempt(&mut master, at, threshold, limits.effort(climb.share()));
                match proof {
                    Some((prices, groups)) => {
                        let threshold_ps = Time(threshold);
                        run.prove(self.name(), Evidence::SetCover { merged, threshold_ps, prices, groups });
                        climb.succeed(threshold, start.elapsed().as_secs_f64());
                    }
                    None => climb.fail(threshold, start.elapsed().as_secs_f64()),
                }
            }
            // Prices that have proved all they can are looked for again, higher.
            if climb.proved() <= at || climb.proved() >= high {
                return;
            }
            effort = limits.effort(SETTLING_AGAIN);
        }
    }
}

/// Prices and why no set holds too much of them.
type Proof = (Vec<u64>, Vec<StageGroup>);

/// Sets found so far.
struct Generator<'a> {
    relaxed: &'a PipelineRelaxation,
    kinds: Vec<&'a DeviceKind>,
    /// What each unit costs in the best plan.
    usual: Vec<f64>,
    /// Kind, set, cost.
    pool: Vec<(usize, Bits, u64)>,
    known: HashSet<(usize, Bits)>,
    rng: Rng,
}

impl<'a> Generator<'a> {
    fn new(run: &Run<'_>, relaxed: &'a PipelineRelaxation) -> Generator<'a> {
        let kinds: Vec<&DeviceKind> =
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
        let usual = usual(relaxed, &stages);
        let rng = Rng::new(run.budget.seed);
        let mut generator = Generator { relaxed, kinds, usual, pool: Vec::new(), known: HashSet::new(), rng };
        for kind in 0..generator.kinds.len() {
            for stage in &stages {
                generator.add(kind, stage.clone());
            }
            for unit in 0..relaxed.units() {
                let mut set = Bits::none(relaxed.units());
                set.add(unit);
                generator.add(kind, set);
            }
        }
        generator
    }

    fn add(&mut self, kind: usize, set: Bits) -> Option<usize> {
        let cost = self.relaxed.cost(self.kinds[kind], &set)?;
        self.known.insert((kind, set.clone())).then(|| {
            self.pool.push((kind, set, cost));
            self.pool.len() - 1
        })
    }

    /// The highest threshold at which prices settle that prove something, as far as annealing can tell.
    fn settle_highest(&mut self, low: u64, high: u64, effort: SearchLimit<'_>) -> Option<(u64, Master)> {
        let mut threshold = low + (high - low) / 2;
        let mut step = 0.3;
        let stages = f64::from(self.relaxed.stages());
        let mut best: Option<(u64, Master)> = None;
        for _ in 0..MOST_THRESHOLDS {
            let budget = self.relaxed.budget(1, threshold);
            let mut master = Master::new(self, budget).ok()?;
            match self.settle(&mut master, MOST_ROUNDS, effort) {
                Settled::Prices(prices) => {
                    let over = prices.total() / stages - 1.0;
                    best = Some((threshold, master));
                    let higher = (threshold as f64 * (1.0 + 0.7 * (over - AIM))) as u64;
                    let higher = higher.min(high.saturating_sub(1));
                    if over < MUCH || higher <= threshold {
                        return best;
                    }
                    (threshold, step) = (higher, 0.1);
                }
                Settled::Low => {
                    let known = best.as_ref().map_or(low, |(settled, _)| *settled);
                    threshold -= ((threshold - known) as f64 * step) as u64;
                    if threshold - known <= threshold / 500 {
                        return best;
                    }
                }
                // Not quite settled; the exact search will tell.
                Settled::Spent(_) => return best.or(Some((threshold, master))),
            }
        }
        best
    }

    /// Tries to prove that no plan takes a threshold or less, with prices of a higher threshold.
    fn attempt(&mut self, master: &mut Master, at: u64, threshold: u64, effort: SearchLimit<'_>) -> Option<Proof> {
        let (scale, budget) = (self.relaxed.budget(1, at), self.relaxed.budget(1, threshold));
        loop {
            let (Settled::Prices(prices) | Settled::Spent(prices)) = self.settle(master, FEW_ROUNDS, effort)
            else {
                return None;
            };
            if effort.is_spent() {
                return None;
            }
            let whole: Vec<u64> = prices.units.iter().map(|&price| (price * scale as f64) as u64).collect();
            let groups = groups(self.relaxed, &self.kinds, &prices, &whole, scale)?;
            match self.close(&whole, groups, budget, effort) {
                Closed::Proved(groups) => return Some((whole, groups)),
                Closed::Sets(kind, sets) => {
                    let new: Vec<usize> = sets.into_iter().filter_map(|set| self.add(kind, set)).collect();
                    master.add_rows(&self.pool, new).ok()?;
                }
                Closed::Unknown => return None,
            }
        }
    }

    /// Prices that annealing finds no more sets against. Sets are looked for at prices between the present ones and the
    /// best so far, which jump about less.
    fn settle(&mut self, master: &mut Master, rounds_left: usize, effort: SearchLimit<'_>) -> Settled {
        let stages = f64::from(self.relaxed.stages());
        let (mut center, mut best_ratio): (Option<UnitPrices>, f64) = (None, 0.0);
        let mut smooth = true;
        for round in 1..=rounds_left {
            let Some(prices) = master.solve() else { return Settled::Low };
            if prices.total() <= stages * (1.0 + 1e-7) {
                return Settled::Low;
            }
            if effort.is_spent() || round == rounds_left {
                return Settled::Spent(prices);
            }
            let between = match &center {
                Some(center) if smooth => prices.between(center),
                _ => prices.clone(),
            };
            let (new, fullest) = self.walk(&between, master.budget);
            let ratio = between.total() / fullest.max(1.0);
            if ratio > best_ratio {
                (best_ratio, center) = (ratio, Some(between));
            }
            // Sets that hold a little more than their limit do no harm where prices add up to more than needed.
            let spare = 1.0 + TOLERANCE * (prices.total() / stages - 1.0);
            if !smooth && fullest <= spare {
                return Settled::Prices(prices);
            }
            smooth &= fullest > spare;
            let worth = |(kind, set): &(usize, Bits)| prices.of(set) > prices.limits[*kind] + WORTH;
            let new: Vec<(usize, Bits)> = new.into_iter().filter(worth).collect();
            let added: Vec<usize> = new.into_iter().filter_map(|(kind, set)| self.add(kind, set)).collect();
            if added.is_empty() {
                if !smooth || center.is_none() {
                    return Settled::Prices(prices);
                }
                smooth = false;
                continue;
            }
            smooth |= fullest > spare;
            if master.add_rows(&self.pool, added).is_err() {
                return Settled::Low;
            }
        }
        Settled::Low
    }

    /// Sets that annealing finds, and how full the fullest is of its limit.
    fn walk(&mut self, prices: &UnitPrices, budget: u64) -> (Vec<(usize, Bits)>, f64) {
        let mut new: Vec<(usize, Bits)> = Vec::new();
        let mut fullest = 0.0f64;
        for kind in 0..self.kinds.len() {
            // The fullest sets known are where to look for fuller ones.
            let fitting = self.pool.iter().filter(|(k, _, cost)| *k == kind && *cost <= budget);
            let mut starts: Vec<(f64, &Bits)> = fitting.map(|(_, set, _)| (prices.of(set), set)).collect();
            starts.sort_by(|a, b| b.0.total_cmp(&a.0));
            starts.truncate(4 * WALKS);
            let starts: Vec<Bits> = starts.into_iter().map(|(_, set)| set.clone()).collect();
            let mut walker = Walker::new(self.relaxed, self.kinds[kind], &prices.units, budget);
            let limit = prices.limits[kind].max(1e-9);
            let steps = (STEPS_PER_UNIT * self.relaxed.units()).min(MOST_STEPS) as u32;
            for _ in 0..WALKS {
                if starts.is_empty() || self.rng.below(4) == 0 {
                    walker.restart(&Bits::none(self.relaxed.units()));
                } else {
                    walker.restart(self.rng.pick(&starts));
                }
                let mut last: [Option<Bits>; KEPT] = [const { None }; KEPT];
                let mut heard = 0;
                walker.walk(steps, limit * NEARLY, &mut self.rng, &mut |set, price| {
                    last[heard % KEPT] = Some(set.clone());
                    heard += 1;
                    fullest = fullest.max(price / limit);
                });
                new.extend(last.into_iter().flatten().map(|set| (kind, set)));
            }
        }
        (new, fullest)
    }

    /// Proves that no set passes its limit, or finds some that do.
    fn close(&self, prices: &[u64], mut groups: Vec<StageGroup>, budget: u64, effort: SearchLimit<'_>) -> Closed {
        for (kind, group) in groups.iter_mut().enumerate() {
            let mut sets = Sets::new(self.relaxed, self.kinds[kind], budget, prices, group.limit);
            match find_sets(&mut sets, AT_ONCE, effort) {
                BranchResult::Nothing(tree) => group.tree = tree,
                BranchResult::Sets(sets) => return Closed::Sets(kind, sets),
                BranchResult::Unknown => return Closed::Unknown,
            }
        }
        Closed::Proved(groups)
    }
}

/// What came of looking for prices at a threshold.
enum Settled {
    /// Annealing finds no set against these.
    Prices(UnitPrices),
    /// The sets known cover the network within the threshold, in parts.
    Low,
    /// The effort was spent on these.
    Spent(UnitPrices),
}

enum Closed {
    Proved(Vec<StageGroup>),
    Sets(usize, Vec<Bits>),
    Unknown,
}

/// The units in their order, in stages of like work.
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

/// What each unit costs in a plan: its work, and its part of the tensors that it shares with others of its stage.
fn usual(relaxed: &PipelineRelaxation, stages: &[Bits]) -> Vec<f64> {
    let least = relaxed.least();
    let mut usual: Vec<f64> = least.work.iter().map(|work| work.unwrap_or(0) as f64).collect();
    for stage in stages {
        for (t, tensor) in relaxed.tensors().iter().enumerate() {
            let ends = || tensor.consumers.iter().copied().chain([tensor.producer]);
            let inside: Vec<u32> = ends().filter(|&unit| stage.has(unit as usize)).collect();
            if inside.is_empty() || inside.len() == tensor.consumers.len() + 1 {
                continue;
            }
            let time = if stage.has(tensor.producer as usize) { least.out[t] } else { least.into[t] };
            inside.iter().for_each(|&unit| usual[unit as usize] += time as f64 / inside.len() as f64);
        }
    }
    usual
}

/// A solution of the dual.
#[derive(Clone)]
struct UnitPrices {
    units: Vec<f64>,
    /// For each kind, the most that a set known holds.
    limits: Vec<f64>,
}

impl UnitPrices {
    fn total(&self) -> f64 {
        self.units.iter().sum()
    }

    fn of(&self, set: &Bits) -> f64 {
        set.iter().map(|unit| self.units[unit]).sum()
    }

    /// Nearer to others.
    fn between(&self, other: &UnitPrices) -> UnitPrices {
        let mix = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).map(|(a, b)| (1.0 - SMOOTHING) * a + SMOOTHING * b).collect()
        };
        UnitPrices { units: mix(&self.units, &other.units), limits: mix(&self.limits, &other.limits) }
    }
}

/// Whole limits that together stay below all prices; none if they cannot.
fn groups(
    relaxed: &PipelineRelaxation,
    kinds: &[&DeviceKind],
    prices: &UnitPrices,
    whole: &[u64],
    budget: u64,
) -> Option<Vec<StageGroup>> {
    let total: u64 = whole.iter().sum();
    let stages = u64::from(relaxed.stages());
    let group = |count: u32, limit: u64| StageGroup { stages: 1, count, limit, tree: Vec::new() };
    if kinds.len() == 1 {
        return (total > 0).then(|| vec![group(relaxed.stages(), (total - 1) / stages)]);
    }
    let spare = prices.total() / f64::from(relaxed.stages());
    let limit = |kind: usize| (prices.limits[kind] * spare * (1.0 - 1e-9) * budget as f64) as u64;
    let groups = kinds.iter().enumerate().map(|(i, kind)| {
        let limit = limit(i).saturating_sub(whole.len() as u64);
        group(kind.devices, limit)
    });
    Some(groups.collect())
}

/// The dual with the rows found so far.
struct Master {
    solver: Solver,
    units: Vec<Column>,
    limits: Vec<Column>,
    budget: u64,
}

impl Master {
    fn new(generator: &Generator<'_>, budget: u64) -> Result<Master, divvy_solver::SolverError> {
        let mut program = Program::new();
        let scale = 1.0 / budget.max(1) as f64;
        let units: Vec<Column> = (generator.usual.iter())
            .map(|&usual| program.column(LEAST_PART * usual * scale, (MOST_PART * usual + 1.0) * scale, -1.0))
            .collect();
        let limits: Vec<Column> =
            generator.kinds.iter().map(|_| program.column(0.0, f64::INFINITY, 0.0)).collect();
        // The limits of the best devices, as many as stages, add up to no more than the stages.
        let stages = f64::from(generator.relaxed.stages());
        let all = program.column(0.0, f64::INFINITY, 0.0);
        let mut sum = vec![(all, stages)];
        for (kind, &limit) in generator.kinds.iter().zip(&limits) {
            let more = program.column(0.0, f64::INFINITY, 0.0);
            program.at_least(0.0, &[(all, 1.0), (more, 1.0), (limit, -1.0)]);
            sum.push((more, f64::from(kind.devices)));
        }
        program.at_most(&sum, stages);
        let solver = Solver::new(&program, &Options::default())?;
        let mut master = Master { solver, units, limits, budget };
        master.add_rows(&generator.pool, 0..generator.pool.len())?;
        Ok(master)
    }

    /// Rows for those of some sets that fit the budget.
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
