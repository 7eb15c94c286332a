//! The interval LP of a `latency` problem: rows that every schedule satisfies, and what a combination of them proves.
//!
//! Columns: the end C of the schedule, the start s_i of each op, and the fraction x_id of each op on each device that may run
//! it; all ≥ 0. Every schedule, with x = 1 on the op's device and 0 elsewhere, satisfies Σ_d x_id = 1 for each op and the rows
//!
//! * [`IntervalRow::Head`]: s_i ≥ Σ_d head(i, d)·x_id, a head being the least time before the op can start on that device;
//! * [`IntervalRow::Tail`]: C − s_i ≥ Σ_d tail(i, d)·x_id, with the tails of [`crate::frontier_search`];
//! * [`IntervalRow::Between`]: from the end of i (or the beginning) to the start of j (or the end C), device d runs the ops on
//!   paths between the two one after the other: s_j − s_i ≥ Σ_d' time(i, d')·x_id' + Σ_between time(k, d)·x_kd;
//! * [`IntervalRow::Gap`]: with T(u, v) the least time from the start of i on u to the start of a descendant j on v, any prices
//!   p, and q(v) = max_u p(u) − T(u, v): s_j − s_i ≥ Σ_u p(u)·x_iu − Σ_v q(v)·x_jv, since p(u) − q(v) ≤ T(u, v). With the
//!   best prices the right side is the transportation cost between the fractions of i and of j.
//!
//! Weak duality: add the rows with any multipliers ≥ 0. If no start keeps a factor above 0, the sum says that
//! c·C ≥ Σ_ops (a combination of the op's fractions) ≥ Σ_ops min over its devices, where c is the multiplier of C. Any
//! multipliers give a bound, and an optimal dual solution the best one.
//!
//! Complexity: one pass over the graph · devices² for each op that begins a `Gap` row, linear in the entries otherwise.
//! Invariant: sums fit `i128`, since rows ≤ 2²⁰, multipliers ≤ 2³², factors ≤ 2⁶².

use crate::evidence::{Evidence, IntervalRow, ProofStep, RowMultiple};
use crate::frontier_search::recipe::{FrontierProof, follow};
use crate::frontier_search::tails::Tails;
use crate::latency_tables::{LatencyTables, NEVER};
use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The coefficients of a row: their sum over the columns is ≥ 0 for every schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTerms {
    /// Of C.
    pub end: i8,
    /// Of starts: op, coefficient.
    pub starts: Vec<(usize, i8)>,
    /// Of fractions: op, device, coefficient.
    pub fractions: Vec<(usize, usize, i64)>,
}

/// The largest multiplier of a row: sums of products then fit.
pub const MOST_TIMES: u64 = 1 << 32;
/// The most rows.
const MOST_ROWS: usize = 1 << 20;
/// The most ops: their transitive closure is a table of bits.
pub const MOST_OPS: usize = 4000;
/// The most numbers in a [`StartGaps`].
const MOST_GAPS: usize = 1 << 25;

/// The rows of the interval LP of a problem, under given tails.
pub struct IntervalRows {
    tables: LatencyTables,
    tails: Tails,
    heads: Vec<u64>,
    /// The devices of each op with a finite head and tail.
    possible: Vec<Vec<u32>>,
    /// For each op, its descendants as bits.
    after: Vec<u64>,
    words: usize,
    horizon: u64,
    weights: Vec<Vec<u64>>,
    steps: Vec<ProofStep>,
}

/// T(u, v): the least times from the start of one op, on each of its devices, to the start of each descendant on each device.
pub struct StartGaps {
    from: usize,
    ops: usize,
    devices: usize,
    values: Vec<u64>,
}

impl StartGaps {
    /// The least time from the start of the op on `of` to the start of `to` on `on`.
    pub fn of(&self, of: usize, to: usize, on: usize) -> u64 {
        self.values[(of * self.ops + to) * self.devices + on]
    }
}

impl IntervalRows {
    /// The rows with the tails that a proof has raised so far; an error if the problem is too large or no schedule ends.
    pub fn new(proof: &FrontierProof) -> Result<IntervalRows, String> {
        let tables = proof.tables().clone();
        let count = tables.op_count();
        if count > MOST_OPS {
            return Err(format!("a program for {count} ops is too large, {MOST_OPS} is the most"));
        }
        if count * tables.device_count().pow(2) > MOST_GAPS {
            return Err(format!("{count} ops on {} devices are too many", tables.device_count()));
        }
        let tails = proof.tails().clone();
        let heads = heads(&tables);
        let can = |op: usize, device: u32| {
            heads[op * tables.device_count() + device as usize] < NEVER
                && tails.of(op, device as usize) < NEVER
        };
        let possible: Vec<Vec<u32>> = (0..count)
            .map(|op| tables.allowed(op).iter().copied().filter(|&d| can(op, d)).collect())
            .collect();
        if let Some(op) = possible.iter().position(Vec::is_empty) {
            return Err(format!("no device can run op {op} in a schedule that ends"));
        }
        let words = count.div_ceil(64);
        let mut after = vec![0u64; count * words];
        for &op in tables.order().iter().rev() {
            for edge in tables.outputs(op as usize) {
                let next = edge.op as usize;
                for word in 0..words {
                    after[op as usize * words + word] |= after[next * words + word];
                }
                after[op as usize * words + next / 64] |= 1 << (next % 64);
            }
        }
        let horizon = tables.horizon().unwrap_or(NEVER);
        let is_tails = |step: &&ProofStep| matches!(step, ProofStep::Tails { .. });
        let steps = proof.steps().iter().filter(is_tails).cloned().collect();
        let weights = proof.weights().to_vec();
        Ok(IntervalRows { tables, tails, heads, possible, after, words, horizon, weights, steps })
    }

    /// The problem as tables.
    pub fn tables(&self) -> &LatencyTables {
        &self.tables
    }

    /// The devices of an op with a finite head and tail.
    pub fn possible(&self, op: usize) -> &[u32] {
        &self.possible[op]
    }

    /// Whether one op is an ancestor of another.
    pub fn leads(&self, from: usize, to: usize) -> bool {
        self.after[from * self.words + to / 64] >> (to % 64) & 1 == 1
    }

    /// The least times from the start of an op to the starts of its descendants, along paths.
    pub fn gaps(&self, from: usize) -> StartGaps {
        let (ops, devices) = (self.tables.op_count(), self.tables.device_count());
        let mut gaps = StartGaps { from, ops, devices, values: vec![0; devices * ops * devices] };
        for &of in &self.possible[from] {
            let of = of as usize;
            let done = self.tables.time(from, of);
            for &to in self.tables.order() {
                let to = to as usize;
                if !self.leads(from, to) {
                    continue;
                }
                for &on in &self.possible[to] {
                    let arrival = |edge: &crate::latency_tables::Edge| {
                        let producer = edge.op as usize;
                        if producer == from {
                            return Some(done + self.tables.delay(edge.size, of, on as usize));
                        }
                        let devices = self.possible[producer].iter().filter(|_| self.leads(from, producer));
                        let arrival_from = |&at: &u32| {
                            let at = at as usize;
                            let end = gaps.of(of, producer, at) + self.tables.time(producer, at);
                            end + self.tables.delay(edge.size, at, on as usize)
                        };
                        devices.map(arrival_from).min()
                    };
                    let latest = self.tables.inputs(to).iter().filter_map(arrival).max().unwrap_or(0);
                    // A device pair that takes longer than any schedule never occurs, so any time is valid for it.
                    gaps.values[(of * ops + to) * devices + on as usize] = latest.min(self.horizon);
                }
            }
        }
        gaps
    }

    /// The coefficients of a row; an error if it is not a row of this problem.
    pub fn terms(&self, row: &IntervalRow) -> Result<RowTerms, String> {
        match row {
            IntervalRow::Gap { from, .. } => {
                self.check_op(*from)?;
                self.gap_terms(row, &self.gaps(from.index()))
            }
            _ => self.plain_terms(row),
        }
    }

    fn check_op(&self, op: OpId) -> Result<usize, String> {
        let count = self.tables.op_count();
        if op.index() < count { Ok(op.index()) } else { Err(format!("op {} of {count}", op.0)) }
    }

    /// The coefficients of a row that is no gap.
    fn plain_terms(&self, row: &IntervalRow) -> Result<RowTerms, String> {
        let times = |terms: &mut RowTerms, op: usize, factor: &dyn Fn(usize) -> u64| {
            for &device in &self.possible[op] {
                terms.fractions.push((op, device as usize, -(factor(device as usize) as i64)));
            }
        };
        let mut terms = RowTerms::default();
        match *row {
            IntervalRow::Head { op } => {
                let op = self.check_op(op)?;
                terms.starts.push((op, 1));
                times(&mut terms, op, &|device| self.heads[op * self.tables.device_count() + device]);
            }
            IntervalRow::Tail { op } => {
                let op = self.check_op(op)?;
                terms.end = 1;
                terms.starts.push((op, -1));
                times(&mut terms, op, &|device| self.tails.of(op, device));
            }
            IntervalRow::Between { from, to, device } => {
                let from = from.map(|op| self.check_op(op)).transpose()?;
                let to = to.map(|op| self.check_op(op)).transpose()?;
                let device = device.index();
                if device >= self.tables.device_count() {
                    return Err(format!("device {device} of {}", self.tables.device_count()));
                }
                match to {
                    Some(to) => terms.starts.push((to, 1)),
                    None => terms.end = 1,
                }
                if let Some(from) = from {
                    if to.is_some_and(|to| !self.leads(from, to)) {
                        return Err(format!("op {from} does not lead to where the row ends"));
                    }
                    terms.starts.push((from, -1));
                    times(&mut terms, from, &|device| self.tables.time(from, device));
                }
                for op in self.between(from, to) {
                    if self.possible[op].contains(&(device as u32)) {
                        terms.fractions.push((op, device, -(self.tables.time(op, device) as i64)));
                    }
                }
            }
            IntervalRow::Gap { .. } => unreachable!("gaps have coefficients of their own"),
        }
        Ok(terms)
    }

    fn gap_terms(&self, row: &IntervalRow, gaps: &StartGaps) -> Result<RowTerms, String> {
        let IntervalRow::Gap { to, prices, .. } = row else { return self.plain_terms(row) };
        let (from, to) = (gaps.from, self.check_op(*to)?);
        if !self.leads(from, to) {
            return Err(format!("op {from} does not lead to op {to}"));
        }
        if prices.len() != self.tables.device_count() || prices.iter().any(|&price| price > NEVER) {
            return Err(format!(
                "a gap needs a price up to {NEVER} for each of {} devices",
                self.tables.device_count()
            ));
        }
        let mut terms = RowTerms { starts: vec![(to, 1), (from, -1)], ..RowTerms::default() };
        for &of in &self.possible[from] {
            terms.fractions.push((from, of as usize, -(prices[of as usize] as i64)));
        }
        for &on in &self.possible[to] {
            let worth = |&of: &u32| prices[of as usize] as i64 - gaps.of(of as usize, to, on as usize) as i64;
            let most = self.possible[from].iter().map(worth).max().unwrap_or(0);
            terms.fractions.push((to, on as usize, most));
        }
        Ok(terms)
    }

    /// The ops strictly between two; `None` stands for the beginning and the end of the schedule.
    pub fn between(&self, from: Option<usize>, to: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..self.tables.op_count()).filter(move |&op| {
            from.is_none_or(|from| self.leads(from, op)) && to.is_none_or(|to| self.leads(op, to))
        })
    }

    /// The bound of a linear combination of rows.
    pub fn proven(&self, rows: &[RowMultiple]) -> Result<Time, String> {
        if rows.len() > MOST_ROWS || rows.iter().any(|row| row.times > MOST_TIMES) {
            return Err(format!("more than {MOST_ROWS} rows, or one of them more than {MOST_TIMES} times"));
        }
        let sums = self.sums(rows)?;
        if let Some(op) = sums.starts.iter().position(|&factor| factor > 0) {
            return Err(format!("the rows leave the start of op {op} with a factor above 0"));
        }
        if sums.end <= 0 {
            return Err("the rows do not speak of the end".to_owned());
        }
        let devices = self.tables.device_count();
        let least = |(op, possible): (usize, &Vec<u32>)| {
            possible.iter().map(|&device| -sums.fractions[op * devices + device as usize]).min().unwrap_or(0)
        };
        let mut totals = self.possible.iter().enumerate().map(least);
        let total = totals.try_fold(0i128, |sum, least| sum.checked_add(least));
        let total = total.ok_or("the rows add up to more than can be counted")?.max(0);
        let value = total / sums.end + i128::from(total % sums.end != 0);
        u64::try_from(value).map(Time).map_err(|_| "it proves a time out of range".to_owned())
    }

    /// The linear combination of the rows. Rows with the same earlier op share its gaps, so they are sorted by it.
    fn sums(&self, rows: &[RowMultiple]) -> Result<RowSums, String> {
        let devices = self.tables.device_count();
        let count = self.tables.op_count();
        let mut sums = RowSums { end: 0, starts: vec![0; count], fractions: vec![0; count * devices] };
        let mut sorted: Vec<&RowMultiple> = rows.iter().collect();
        sorted.sort_by_key(|multiple| match multiple.row {
            IntervalRow::Gap { from, .. } => Some(from),
            _ => None,
        });
        let mut gaps: Option<StartGaps> = None;
        for RowMultiple { times, row } in sorted {
            let terms = match row {
                IntervalRow::Gap { from, .. } => {
                    let from = self.check_op(*from)?;
                    let known = gaps.take().filter(|gaps| gaps.from == from);
                    self.gap_terms(row, gaps.insert(known.unwrap_or_else(|| self.gaps(from))))?
                }
                _ => self.plain_terms(row)?,
            };
            let times = i128::from(*times);
            sums.end += times * i128::from(terms.end);
            for (op, factor) in terms.starts {
                sums.starts[op] += times * i128::from(factor);
            }
            for (op, device, factor) in terms.fractions {
                sums.fractions[op * devices + device] += times * i128::from(factor);
            }
        }
        Ok(sums)
    }

    /// Adds head and tail rows so that every start cancels: rounding errors in the multipliers then cost little.
    pub fn complete(&self, rows: &mut Vec<RowMultiple>) -> Result<(), String> {
        for (op, left) in self.sums(rows)?.starts.into_iter().enumerate() {
            let op_id = OpId(op as u32);
            let row =
                if left > 0 { IntervalRow::Tail { op: op_id } } else { IntervalRow::Head { op: op_id } };
            let times = u64::try_from(left.unsigned_abs()).unwrap_or(u64::MAX);
            if times > 0 {
                rows.push(RowMultiple { times, row });
            }
        }
        Ok(())
    }

    /// Rows as evidence.
    pub fn evidence(&self, rows: Vec<RowMultiple>) -> Evidence {
        Evidence::IntervalLp { weights: self.weights.clone(), steps: self.steps.clone(), rows }
    }
}

/// The bound of rows under the tails that a sequence of searches raises.
pub(crate) fn proven(
    problem: &Problem,
    weights: &[Vec<u64>],
    steps: &[ProofStep],
    rows: &[RowMultiple],
) -> Result<Time, String> {
    IntervalRows::new(&follow(problem, weights, steps)?)?.proven(rows)
}

/// The coefficients of a linear combination of rows.
struct RowSums {
    end: i128,
    starts: Vec<i128>,
    fractions: Vec<i128>,
}

/// For each op and device, the least time before it can start there, along paths.
fn heads(tables: &LatencyTables) -> Vec<u64> {
    let devices = tables.device_count();
    let mut heads = vec![NEVER; tables.op_count() * devices];
    for &op in tables.order() {
        let op = op as usize;
        for &on in tables.allowed(op) {
            let arrival = |edge: &crate::latency_tables::Edge| {
                let producer = edge.op as usize;
                let arrival_from = |&at: &u32| {
                    let at = at as usize;
                    let end = heads[producer * devices + at] + tables.time(producer, at);
                    end + tables.delay(edge.size, at, on as usize)
                };
                tables.allowed(producer).iter().map(arrival_from).min().unwrap_or(NEVER)
            };
            let latest = tables.inputs(op).iter().map(arrival).max().unwrap_or(0);
            heads[op * devices + on as usize] = latest.max(tables.release(op, on as usize)).min(NEVER);
        }
    }
    heads
}
