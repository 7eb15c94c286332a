//! The interval program of a `latency` problem.
//!
//! Columns: the end C of the schedule, the start s of each op, and the share x of each op on each device that may run
//! it; all at least 0. Every schedule, with x = 1 on the op's device and 0 elsewhere, satisfies
//!
//! * for each op, Σ x = 1;
//! * [`IntervalRow::Head`]: s ≥ Σ head·x, where a head is the least time before the op can start on that device;
//! * [`IntervalRow::Tail`]: C − s ≥ Σ tail·x, with the tails of [`crate::frontier_search`];
//! * [`IntervalRow::Between`]: from the end of one op to the start of another, or from the beginning, or to the end, a device
//!   runs the ops between the two one after the other;
//! * [`IntervalRow::Gap`]: let T(u, v) be the least time from the start of an op on u to the start of a later one on v. For any
//!   prices p of the devices, and q(v) = max over u of p(u) − T(u, v), the time between the two starts is at least
//!   Σ p·x of the earlier op less Σ q·x of the later one: with the two on u and v that is p(u) − q(v) ≤ T(u, v). The
//!   best prices make it the cost of moving the shares of the one to those of the other.
//!
//! Weak duality: add rows up with any factors ≥ 0. If no start is left with a factor above 0, what is left says that
//! (factor of C) · C ≥ Σ over ops of some combination of its shares, which is at least the least of its devices. Any
//! factors give a bound, and the dual solution the best one; whoever found them need not be believed.

use crate::evidence::{Evidence, RowMultiple, ProofStep, IntervalRow};
use crate::frontier_search::recipe::{FrontierProof, follow};
use crate::frontier_search::tails::Tails;
use crate::latency_tables::{LatencyTables, NEVER};
use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The factors of a row; their sum with the columns is at least 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTerms {
    /// Of the end.
    pub end: i8,
    /// Of starts of ops.
    pub starts: Vec<(usize, i8)>,
    /// Of shares: op, device, factor.
    pub shares: Vec<(usize, usize, i64)>,
}

/// The most times that a row may be added: sums of products then fit.
pub const MOST_TIMES: u64 = 1 << 32;
/// The most rows.
const MOST_ROWS: usize = 1 << 20;
/// The most ops: which of them lead to which is kept as a table of bits.
pub const MOST_OPS: usize = 4000;

/// The most numbers in [`Gaps`].
const MOST_GAPS: usize = 1 << 25;

/// The program.
pub struct Interval {
    dense: LatencyTables,
    tails: Tails,
    heads: Vec<u64>,
    /// The devices that can run an op in a schedule that ends.
    possible: Vec<Vec<u32>>,
    /// For each op, the ops that it leads to, as bits.
    after: Vec<u64>,
    words: usize,
    horizon: u64,
    weights: Vec<Vec<u64>>,
    steps: Vec<ProofStep>,
}

/// Times from the start of one op: for each of its devices, to the start of each op on each device.
pub struct Gaps {
    from: usize,
    ops: usize,
    devices: usize,
    values: Vec<u64>,
}

impl Gaps {
    /// The least time from the start of the op on `of` to the start of `to` on `on`.
    pub fn of(&self, of: usize, to: usize, on: usize) -> u64 {
        self.values[(of * self.ops + to) * self.devices + on]
    }
}

impl Interval {
    /// The program with the tails that a prover has raised so far.
    pub fn new(prover: &FrontierProof) -> Result<Interval, String> {
        let dense = prover.dense().clone();
        let count = dense.op_count();
        if count > MOST_OPS {
            return Err(format!("a program for {count} ops is too large, {MOST_OPS} is the most"));
        }
        if count * dense.device_count().pow(2) > MOST_GAPS {
            return Err(format!("{count} ops on {} devices are too many", dense.device_count()));
        }
        let tails = prover.tails().clone();
        let heads = heads(&dense);
        let can = |op: usize, device: u32| {
            heads[op * dense.device_count() + device as usize] < NEVER
                && tails.of(op, device as usize) < NEVER
        };
        let possible: Vec<Vec<u32>> = (0..count)
            .map(|op| dense.allowed(op).iter().copied().filter(|&d| can(op, d)).collect())
            .collect();
        if let Some(op) = possible.iter().position(Vec::is_empty) {
            return Err(format!("no device can run op {op} in a schedule that ends"));
        }
        let words = count.div_ceil(64);
        let mut after = vec![0u64; count * words];
        for &op in dense.order().iter().rev() {
            for edge in dense.outputs(op as usize) {
                let next = edge.op as usize;
                for word in 0..words {
                    after[op as usize * words + word] |= after[next * words + word];
                }
                after[op as usize * words + next / 64] |= 1 << (next % 64);
            }
        }
        let horizon = dense.horizon().unwrap_or(NEVER);
        let is_tails = |step: &&ProofStep| matches!(step, ProofStep::Tails { .. });
        let steps = prover.steps().iter().filter(is_tails).cloned().collect();
        let weights = prover.weights().to_vec();
        Ok(Interval { dense, tails, heads, possible, after, words, horizon, weights, steps })
    }

    /// The problem in numbers.
    pub fn dense(&self) -> &LatencyTables {
        &self.dense
    }

    /// The devices that can run an op in a schedule that ends.
    pub fn possible(&self, op: usize) -> &[u32] {
        &self.possible[op]
    }

    /// Whether an op leads to another.
    pub fn leads(&self, from: usize, to: usize) -> bool {
        self.after[from * self.words + to / 64] >> (to % 64) & 1 == 1
    }

    /// The least times from the start of an op to the starts of those that it leads to, along chains.
    pub fn gaps(&self, from: usize) -> Gaps {
        let (ops, devices) = (self.dense.op_count(), self.dense.device_count());
        let mut gaps = Gaps { from, ops, devices, values: vec![0; devices * ops * devices] };
        for &of in &self.possible[from] {
            let of = of as usize;
            let done = self.dense.time(from, of);
            for &to in self.dense.order() {
                let to = to as usize;
                if !self.leads(from, to) {
                    continue;
                }
                for &on in &self.possible[to] {
                    let arrival = |edge: &crate::latency_tables::Edge| {
                        let producer = edge.op as usize;
                        if producer == from {
                            return Some(done + self.dense.delay(edge.size, of, on as usize));
                        }
                        let ways = self.possible[producer].iter().filter(|_| self.leads(from, producer));
                        let way = |&at: &u32| {
                            let at = at as usize;
                            let end = gaps.of(of, producer, at) + self.dense.time(producer, at);
                            end + self.dense.delay(edge.size, at, on as usize)
                        };
                        ways.map(way).min()
                    };
                    let latest = self.dense.inputs(to).iter().filter_map(arrival).max().unwrap_or(0);
                    // What takes longer than any schedule never happens, so any time is true of it.
                    gaps.values[(of * ops + to) * devices + on as usize] = latest.min(self.horizon);
                }
            }
        }
        gaps
    }

    /// A row's factors; an error if it is not a row of this program.
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
        let count = self.dense.op_count();
        if op.index() < count { Ok(op.index()) } else { Err(format!("op {} of {count}", op.0)) }
    }

    fn plain_terms(&self, row: &IntervalRow) -> Result<RowTerms, String> {
        let times = |terms: &mut RowTerms, op: usize, factor: &dyn Fn(usize) -> u64| {
            for &device in &self.possible[op] {
                terms.shares.push((op, device as usize, -(factor(device as usize) as i64)));
            }
        };
        let mut terms = RowTerms::default();
        match *row {
            IntervalRow::Head { op } => {
                let op = self.check_op(op)?;
                terms.starts.push((op, 1));
                times(&mut terms, op, &|device| self.heads[op * self.dense.device_count() + device]);
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
                if device >= self.dense.device_count() {
                    return Err(format!("device {device} of {}", self.dense.device_count()));
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
                    times(&mut terms, from, &|device| self.dense.time(from, device));
                }
                for op in self.between(from, to) {
                    if self.possible[op].contains(&(device as u32)) {
                        terms.shares.push((op, device, -(self.dense.time(op, device) as i64)));
                    }
                }
            }
            IntervalRow::Gap { .. } => unreachable!("it has terms of its own"),
        }
        Ok(terms)
    }

    fn gap_terms(&self, row: &IntervalRow, gaps: &Gaps) -> Result<RowTerms, String> {
        let IntervalRow::Gap { to, prices, .. } = row else { return self.plain_terms(row) };
        let (from, to) = (gaps.from, self.check_op(*to)?);
        if !self.leads(from, to) {
            return Err(format!("op {from} does not lead to op {to}"));
        }
        if prices.len() != self.dense.device_count() || prices.iter().any(|&price| price > NEVER) {
            return Err(format!(
                "a gap needs a price up to {NEVER} for each of {} devices",
                self.dense.device_count()
            ));
        }
        let mut terms = RowTerms { starts: vec![(to, 1), (from, -1)], ..RowTerms::default() };
        for &of in &self.possible[from] {
            terms.shares.push((from, of as usize, -(prices[of as usize] as i64)));
        }
        for &on in &self.possible[to] {
            let worth = |&of: &u32| prices[of as usize] as i64 - gaps.of(of as usize, to, on as usize) as i64;
            let most = self.possible[from].iter().map(worth).max().unwrap_or(0);
            terms.shares.push((to, on as usize, most));
        }
        Ok(terms)
    }

    /// The ops strictly between two, of which none stands for the beginning or the end.
    pub fn between(&self, from: Option<usize>, to: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..self.dense.op_count()).filter(move |&op| {
            from.is_none_or(|from| self.leads(from, op)) && to.is_none_or(|to| self.leads(op, to))
        })
    }

    /// What rows, so many times each, prove.
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
        let devices = self.dense.device_count();
        let least = |(op, possible): (usize, &Vec<u32>)| {
            possible.iter().map(|&device| -sums.shares[op * devices + device as usize]).min().unwrap_or(0)
        };
        let mut totals = self.possible.iter().enumerate().map(least);
        let total = totals.try_fold(0i128, |sum, least| sum.checked_add(least));
        let total = total.ok_or("the rows add up to more than can be counted")?.max(0);
        let value = total / sums.end + i128::from(total % sums.end != 0);
        u64::try_from(value).map(Time).map_err(|_| "it proves a time out of range".to_owned())
    }

    /// The sum of the rows. It fits: rows ≤ 2²⁰, times ≤ 2³², factors ≤ 2⁶².
    fn sums(&self, rows: &[RowMultiple]) -> Result<Sums, String> {
        let devices = self.dense.device_count();
        let count = self.dense.op_count();
        let mut sums = Sums { end: 0, starts: vec![0; count], shares: vec![0; count * devices] };
        let mut sorted: Vec<&RowMultiple> = rows.iter().collect();
        sorted.sort_by_key(|multiple| match multiple.row {
            IntervalRow::Gap { from, .. } => Some(from),
            _ => None,
        });
        let mut gaps: Option<Gaps> = None;
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
            for (op, device, factor) in terms.shares {
                sums.shares[op * devices + device] += times * i128::from(factor);
            }
        }
        Ok(sums)
    }

    /// Adds heads and tails so that no start is left over: small errors in the factors then cost little.
    pub fn complete(&self, rows: &mut Vec<RowMultiple>) -> Result<(), String> {
        for (op, left) in self.sums(rows)?.starts.into_iter().enumerate() {
            let op_id = OpId(op as u32);
            let row = if left > 0 { IntervalRow::Tail { op: op_id } } else { IntervalRow::Head { op: op_id } };
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

/// What rows prove, with the tails that a recipe raises.
pub(crate) fn proven(
    problem: &Problem,
    weights: &[Vec<u64>],
    steps: &[ProofStep],
    rows: &[RowMultiple],
) -> Result<Time, String> {
    Interval::new(&follow(problem, weights, steps)?)?.proven(rows)
}

struct Sums {
    end: i128,
    starts: Vec<i128>,
    shares: Vec<i128>,
}

/// For each op and device, the least time before it can start there, along chains.
fn heads(dense: &LatencyTables) -> Vec<u64> {
    let devices = dense.device_count();
    let mut heads = vec![NEVER; dense.op_count() * devices];
    for &op in dense.order() {
        let op = op as usize;
        for &on in dense.allowed(op) {
            let arrival = |edge: &crate::latency_tables::Edge| {
                let producer = edge.op as usize;
                let way = |&at: &u32| {
                    let at = at as usize;
                    let end = heads[producer * devices + at] + dense.time(producer, at);
                    end + dense.delay(edge.size, at, on as usize)
                };
                dense.allowed(producer).iter().map(way).min().unwrap_or(NEVER)
            };
            let latest = dense.inputs(op).iter().map(arrival).max().unwrap_or(0);
            heads[op * devices + on as usize] = latest.max(dense.release(op, on as usize)).min(NEVER);
        }
    }
    heads
}
