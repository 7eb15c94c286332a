//! `interval-lp`: the linear program of [`divvy_proof::latency::interval_lp`], solved by cutting planes, its dual
//! proved exactly.
//!
//! The program has O(ops² · devices) rows, of which few are binding. It starts with heads, tails, precedence and the
//! load of each device. After every solve the most violated rows are added: the work of a device between two ops, and
//! gaps between the starts of two ops, whose prices are the duals of the transportation problem from one op's shares
//! to the other's. Before the first solve tails are raised by dominance search for a part of the time. After every
//! solve the duals are rounded to integers, and the verifier computes what they prove. With a node budget a node is
//! one solve.

use std::collections::HashSet;
use std::time::Duration;

use crate::budget::Budget;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{IntervalRow, RowMultiple};
use divvy_proof::frontier_search::recipe::FrontierProof;
use divvy_proof::latency::interval_lp::IntervalRows;
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;
use divvy_solver::{Column, Options, Program, Solver, Status};

use crate::bound::{Bound, When};
use crate::device_weights;
use crate::latency::transportation;
use crate::run::Run;

/// The most ops: separation looks at all pairs.
const MOST_OPS: usize = 1500;
/// The most ops for which gaps are separated for all pairs; beyond, for producer and consumer only.
const MOST_OPS_WITH_ALL_GAPS: usize = 400;
/// The most rows added after a solve, for each op.
const ROWS_PER_OP: usize = 3;
/// The least violation of a row, as a share of the makespan.
const LEAST_VIOLATION: f64 = 1e-6;
/// Duals are rounded to multiples of 1 / this.
const DUAL_SCALE: f64 = (1u64 << 30) as f64;
/// The searches that raise tails: window and width.
const TAILS: [(u32, u32); 2] = [(12, 200), (24, 600)];
/// The share of the time left that they may take.
const TAILS_SHARE: f64 = 0.3;
/// The share of the run's time by whose end it is to be done, where a planner waits for the rest.
const DEADLINE_SHARE: f64 = 0.2;
/// With less time than this, which a fifth of 5 s is, a planner that waits has all of it: it gains more.
const LEAST_TIME: Duration = Duration::from_secs(1);
/// A planner that waits has its time back once this many solves raised the optimum by less than this share of it.
const SOLVES_TO_RISE: usize = 8;
const LEAST_RISE: f64 = 1e-3;

pub(crate) struct IntervalLp;

impl Bound for IntervalLp {
    fn name(&self) -> &'static str {
        "interval-lp"
    }

    fn about(&self) -> &'static str {
        "a linear program of starts and shares, solved by HiGHS, its dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        let tables = LatencyTables::new(problem)?;
        if tables.op_count() > MOST_OPS {
            return Err(format!(
                "the program for {} ops is too large, {MOST_OPS} is the most; coarsen the network",
                tables.op_count()
            ));
        }
        let prover = FrontierProof::new(problem, device_weights::weights(problem, &tables))?;
        IntervalRows::new(&prover).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn deadline_share(&self) -> Option<f64> {
        Some(DEADLINE_SHARE)
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.has_planner_waiting() && run.budget.nodes.is_none() && run.budget.time < LEAST_TIME {
            return run.exhaust();
        }
        let Some(prover) = raise_tails(run) else { return run.exhaust() };
        // The tails are a bound by themselves, even if there is no time for a solve.
        run.take(Proven::by_frontier_search(self.name(), &prover));
        let Ok(interval) = IntervalRows::new(&prover) else { return run.exhaust() };
        let Ok(mut program) = IntervalProgram::new(&interval, run.budget) else { return run.exhaust() };
        let mut best = prover.lower();
        // The optimum after every solve.
        let mut optima: Vec<f64> = Vec::new();
        let most_solves = run.budget.nodes.map_or(usize::MAX, |nodes| nodes as usize);
        while !run.budget.is_spent() && !run.is_solved() && optima.len() < most_solves {
            let Some(solved) = program.solve(run.budget) else { break };
            let proven = program.multiples(&solved.duals);
            let proven = proven.and_then(|rows| Proven::by_interval_lp(self.name(), &interval, rows));
            if let Some(proven) = proven.filter(|proven| proven.value() > best) {
                best = proven.value();
                run.take(proven);
            }
            optima.push(solved.values[program.end.index()]);
            let is_worth_it = !run.has_planner_waiting() || rises(&optima);
            if !is_worth_it || !program.separate(&solved.values, run.budget) {
                return run.exhaust();
            }
        }
    }
}

/// Whether the last solves raised the optimum enough.
fn rises(optima: &[f64]) -> bool {
    let Some(before) = optima.len().checked_sub(1 + SOLVES_TO_RISE) else { return true };
    let last = optima[optima.len() - 1];
    last - optima[before] >= last * LEAST_RISE
}

/// Tails raised by dominance search within its share of the time.
fn raise_tails(run: &Run<'_>) -> Option<FrontierProof> {
    let tables = LatencyTables::new(run.problem).ok()?;
    let mut prover = FrontierProof::new(run.problem, device_weights::weights(run.problem, &tables)).ok()?;
    let budget = run.budget;
    let limit = run.outcome().value().unwrap_or(Time(NEVER));
    let until =
        budget.start.elapsed() + budget.time.saturating_sub(budget.start.elapsed()).mul_f64(TAILS_SHARE);
    // With a node budget the clock has no say, and the wider searches would.
    let searches = if budget.nodes.is_some() { &TAILS[..1] } else { &TAILS[..] };
    for &(window, width) in searches {
        let mut stop = || budget.is_spent() || budget.nodes.is_none() && budget.start.elapsed() > until;
        if stop() {
            break;
        }
        prover.raise_tails(window, width, limit, &mut stop);
    }
    Some(prover)
}

/// A primal and a dual solution.
struct LpSolution {
    values: Vec<f64>,
    duals: Vec<f64>,
}

/// The program in HiGHS, with the rows added so far.
struct IntervalProgram<'a> {
    interval: &'a IntervalRows,
    solver: Solver,
    /// The unit of time of the program, in picoseconds.
    unit: f64,
    end: Column,
    starts: Vec<Column>,
    /// For each op and device that is possible for it.
    shares: Vec<Option<Column>>,
    /// The rows behind those by which the shares of each op sum to 1.
    rows: Vec<IntervalRow>,
    known: HashSet<IntervalRow>,
}

impl<'a> IntervalProgram<'a> {
    fn new(interval: &'a IntervalRows, budget: &Budget) -> Result<IntervalProgram<'a>, String> {
        let tables = interval.tables();
        let (ops, devices) = (tables.op_count(), tables.device_count());
        let mut program = Program::new();
        let end = program.column(0.0, f64::INFINITY, 1.0);
        let starts: Vec<Column> = (0..ops).map(|_| program.column(0.0, f64::INFINITY, 0.0)).collect();
        let mut shares = vec![None; ops * devices];
        let mut longest: u64 = 1;
        for op in 0..ops {
            let mut all = Vec::new();
            for &device in interval.possible(op) {
                let column = program.column(0.0, f64::INFINITY, 0.0);
                shares[op * devices + device as usize] = Some(column);
                all.push((column, 1.0));
                longest = longest.max(tables.time(op, device as usize));
            }
            program.row(1.0, &all, 1.0);
        }
        let options = Options { threads: 1, seed: budget.seed, ..Options::default() };
        let solver = Solver::new(&program, &options).map_err(|error| error.to_string())?;
        let unit = longest as f64 / 100.0;
        let (rows, known) = (Vec::new(), HashSet::new());
        let mut relaxed = IntervalProgram { interval, solver, unit, end, starts, shares, rows, known };
        relaxed.add(relaxed.first_rows())?;
        Ok(relaxed)
    }

    /// Heads, tails, precedence, and the load of each device.
    fn first_rows(&self) -> Vec<IntervalRow> {
        let tables = self.interval.tables();
        let mut rows = Vec::new();
        for op in 0..tables.op_count() {
            let id = OpId(op as u32);
            rows.extend([IntervalRow::Head { op: id }, IntervalRow::Tail { op: id }]);
            let price = |&time: &u64| if time < NEVER { time } else { 0 };
            let prices: Vec<u64> = tables.times(op).iter().map(price).collect();
            let to = |edge: &divvy_proof::latency_tables::Edge| OpId(edge.op);
            rows.extend(tables.outputs(op).iter().map(|e| IntervalRow::Gap {
                from: id,
                to: to(e),
                prices: prices.clone(),
            }));
        }
        let devices = DeviceId::all(tables.device_count());
        rows.extend(devices.map(|device| IntervalRow::Between { from: None, to: None, device }));
        rows
    }

    fn share(&self, op: usize, device: usize) -> Option<Column> {
        self.shares[op * self.interval.tables().device_count() + device]
    }

    fn add(&mut self, rows: Vec<IntervalRow>) -> Result<(), String> {
        let mut written: Vec<Vec<(Column, f64)>> = Vec::with_capacity(rows.len());
        for row in rows {
            if !self.known.insert(row.clone()) {
                continue;
            }
            let terms = self.interval.terms(&row)?;
            let mut columns = Vec::new();
            if terms.end != 0 {
                columns.push((self.end, f64::from(terms.end)));
            }
            columns.extend(terms.starts.iter().map(|&(op, factor)| (self.starts[op], f64::from(factor))));
            for (op, device, factor) in terms.fractions {
                columns.extend(self.share(op, device).map(|share| (share, factor as f64 / self.unit)));
            }
            written.push(columns);
            self.rows.push(row);
        }
        self.solver
            .add_rows(written.iter().map(|terms| (0.0, &terms[..], f64::INFINITY)))
            .map_err(|error| error.to_string())
    }

    /// None if the time is up or HiGHS fails.
    fn solve(&mut self, budget: &Budget) -> Option<LpSolution> {
        let left = budget.time.saturating_sub(budget.start.elapsed());
        self.solver.set_time(left.max(Duration::from_millis(1))).ok()?;
        let solution = self.solver.solve().ok().filter(|solution| solution.status == Status::Optimal)?;
        let (_, values) = solution.best?;
        Some(LpSolution { values, duals: solution.row_duals })
    }

    /// The duals as integer multiples of rows.
    fn multiples(&self, duals: &[f64]) -> Option<Vec<RowMultiple>> {
        let duals = &duals[self.interval.tables().op_count()..];
        let mut multiples: Vec<RowMultiple> = Vec::new();
        for (row, dual) in self.rows.iter().zip(duals) {
            let times = (dual * DUAL_SCALE).round();
            if times >= 1.0 {
                multiples.push(RowMultiple { times: times as u64, row: row.clone() });
            }
        }
        self.interval.complete(&mut multiples).ok()?;
        Some(multiples)
    }

    /// Adds the rows that a solution violates most; false if there is none.
    fn separate(&mut self, values: &[f64], budget: &Budget) -> bool {
        let mut found = self.work_between(values, budget);
        found.extend(self.gaps(values, budget));
        found.retain(|(_, row)| !self.known.contains(row));
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        found.truncate(ROWS_PER_OP * self.starts.len().max(30));
        let any = !found.is_empty();
        any && self.add(found.into_iter().map(|(_, row)| row).collect()).is_ok()
    }

    fn least_violation(&self, values: &[f64]) -> f64 {
        values[self.end.index()] * LEAST_VIOLATION
    }

    /// Violated rows of the work of a device between two ops, or an op and an end of the schedule, with their
    /// violation.
    fn work_between(&self, values: &[f64], budget: &Budget) -> Vec<(f64, IntervalRow)> {
        let tables = self.interval.tables();
        let (ops, devices) = (tables.op_count(), tables.device_count());
        let least = self.least_violation(values);
        let mut loads = vec![0.0; ops * devices];
        for op in 0..ops {
            for &device in self.interval.possible(op) {
                let share = self.share(op, device as usize).map_or(0.0, |share| values[share.index()]);
                loads[op * devices + device as usize] =
                    share * tables.time(op, device as usize) as f64 / self.unit;
            }
        }
        let start = |op: usize| values[self.starts[op].index()];
        let ended = |op: usize| start(op) + loads[op * devices..][..devices].iter().sum::<f64>();
        let mut found = Vec::new();
        let mut check = |from: Option<usize>, to: Option<usize>, between: &[usize]| {
            let available = to.map_or(values[self.end.index()], start) - from.map_or(0.0, ended);
            for device in 0..devices {
                let load: f64 = between.iter().map(|&op| loads[op * devices + device]).sum();
                if load - available > least {
                    let id = |op: usize| OpId(op as u32);
                    let device = DeviceId(device as u32);
                    found.push((
                        load - available,
                        IntervalRow::Between { from: from.map(id), to: to.map(id), device },
                    ));
                }
            }
        };
        let all: Vec<usize> = (0..ops).collect();
        let mut between = Vec::new();
        for from in std::iter::once(None).chain((0..ops).map(Some)) {
            let follows: Vec<usize> = all
                .iter()
                .copied()
                .filter(|&op| from.is_none_or(|from| self.interval.leads(from, op)))
                .collect();
            check(from, None, &follows);
            for &to in &follows {
                between.clear();
                between.extend(follows.iter().copied().filter(|&op| self.interval.leads(op, to)));
                if !between.is_empty() {
                    check(from, Some(to), &between);
                }
            }
            if budget.is_spent() {
                break;
            }
        }
        found
    }

    /// Violated rows of the gap between two starts, each at its best prices, with their violation.
    fn gaps(&self, values: &[f64], budget: &Budget) -> Vec<(f64, IntervalRow)> {
        let tables = self.interval.tables();
        let ops = tables.op_count();
        let least = self.least_violation(values);
        let shares = |op: usize| -> Vec<f64> {
            let share = |&d: &u32| self.share(op, d as usize).map_or(0.0, |share| values[share.index()]);
            self.interval.possible(op).iter().map(share).collect()
        };
        let mut found = Vec::new();
        for from in 0..ops {
            if budget.is_spent() {
                break;
            }
            let targets: Vec<usize> = if ops <= MOST_OPS_WITH_ALL_GAPS {
                (0..ops).filter(|&to| self.interval.leads(from, to)).collect()
            } else {
                tables.outputs(from).iter().map(|edge| edge.op as usize).collect()
            };
            let gaps = self.interval.gaps(from);
            let leaving = shares(from);
            let sources = self.interval.possible(from);
            for to in targets {
                let sinks = self.interval.possible(to);
                let time = |u: usize, v: usize| {
                    gaps.of(sources[u] as usize, to, sinks[v] as usize) as f64 / self.unit
                };
                let arriving = shares(to);
                let prices = transportation::prices(&leaving, &arriving, &time);
                let worth: f64 = prices.iter().zip(&leaving).map(|(price, share)| price * share).sum();
                let taken = |v: usize| {
                    let worths = prices.iter().enumerate().map(|(u, price)| price - time(u, v));
                    worths.fold(f64::NEG_INFINITY, f64::max)
                };
                let cost = arriving.iter().enumerate().map(|(v, share)| taken(v) * share).sum::<f64>();
                let available = values[self.starts[to].index()] - values[self.starts[from].index()];
                if worth - cost - available > least {
                    let mut whole = vec![0; tables.device_count()];
                    for (&device, price) in sources.iter().zip(&prices) {
                        whole[device as usize] = ((price * self.unit).round() as u64).min(NEVER);
                    }
                    let (from, to) = (OpId(from as u32), OpId(to as u32));
                    found.push((worth - cost - available, IntervalRow::Gap { from, to, prices: whole }));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use divvy_core::generate::{RwnnOptions, Wiring, rwnn};
    use divvy_core::graph::Graph;
    use divvy_core::problem::{LinkUse, Objective, OwnHardware};

    use super::*;

    fn network(wiring: Wiring, seed: u64) -> Problem {
        let options =
            RwnnOptions { modules: 2, nodes: 4, channels: 2, wiring, seed, ..RwnnOptions::default() };
        let spec = rwnn(&options).unwrap();
        let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("it brings its devices") };
        let graph = Graph::new(spec.graph).unwrap();
        let objective = Objective::Latency { links: LinkUse::Delay };
        Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap()
    }

    /// After every solve the rounded duals prove HiGHS's optimum up to rounding, and added rows raise it.
    #[test]
    fn the_dual_proves_the_optimum_of_the_program() {
        let mut raised = 0;
        for wiring in [Wiring::Sdep, Wiring::Wdep, Wiring::Wfree] {
            for seed in 0..3 {
                let problem = network(wiring, seed);
                let tables = LatencyTables::new(&problem).unwrap();
                let prover =
                    FrontierProof::new(&problem, device_weights::weights(&problem, &tables)).unwrap();
                let interval = IntervalRows::new(&prover).unwrap();
                let budget = Budget::new(Duration::from_secs(60));
                let mut program = IntervalProgram::new(&interval, &budget).unwrap();
                let mut ends = Vec::new();
                for _ in 0..10 {
                    let solved = program.solve(&budget).unwrap();
                    let end = solved.values[program.end.index()] * program.unit;
                    let rows = program.multiples(&solved.duals).unwrap();
                    let proven = interval.proven(&rows).unwrap().0 as f64;
                    assert!((proven - end).abs() <= end * 1e-6 + 1.0, "{proven} {end} {wiring:?} {seed}");
                    ends.push(end);
                    if !program.separate(&solved.values, &budget) {
                        break;
                    }
                }
                assert!(ends.windows(2).all(|pair| pair[1] >= pair[0] * (1.0 - 1e-6)), "{ends:?}");
                assert!(ends[0] >= prover.lower().0 as f64 * (1.0 - 1e-6), "{ends:?}");
                raised += usize::from(ends[ends.len() - 1] > ends[0] * 1.001);
            }
        }
        assert!(raised > 3, "{raised}");
    }
}
