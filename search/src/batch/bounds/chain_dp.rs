//! `chain-dp`: when inputs can pass a chain of ops, however devices share them.
//!
//! `core` says what a chain with branches proves (`makespan/relaxations/passages/`); here both are chosen. The chain is the
//! longest path with all inputs on the fastest device. Ops beside it lie in windows, from the last op of the chain that
//! leads to them to the first that they lead to; windows that overlap are united. Within a window the ops are covered by
//! chains, the longest first. Within windows the work of devices counts by how fast they are, or the work of the fastest
//! device alone, for each part of what the ops around a window have. Along the whole chain it does not count, or as the dual
//! of `division-area` says, moved by factors for one device at a time. Which of these *ways* proves most depends on the
//! network: a glance tells whether work should count along the chain, then the way by parts goes on where the quick one ends.
//! What is dropped early makes the search quick, so the limit rises step by step from the bound known towards the best plan's
//! finish, further while everything up to it is refuted, and then in shorter steps. Then more lists of moments are kept.

use std::cmp::Reverse;
use std::time::Duration;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::batch::chain_dp::ChainDp as Argument;
use divvy_proof::evidence::{ChainProof, Evidence, ChainStage};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::division_lp::division_shapes::FEW_OPS;
use crate::run::Run;

/// The most lists of moments that are kept for a sharing, one after the other.
const WIDTHS: [u32; 7] = [4, 8, 16, 64, 256, 1024, 2048];
/// The place of the first width where work does not count along the chain. Few lists take longer there than many: what is kept
/// for several of them is given up later.
const UNCOUNTED_WIDTH: usize = 3;
/// The share of the time left by whose end all is over; the rest is for bounds behind it.
const TIME_SHARE: f64 = 0.85;
/// The share of all time by whose end it is through. A better plan only lowers how far its limit can rise.
const AHEAD: f64 = 0.5;
/// The share of its time for a glance at a way.
const GLANCE: f64 = 0.03;
/// The share of the time left that a single try may take.
const MOST_OF_TIME: f64 = 0.4;
/// Shares are moved until this share of its time is over, where there is time for so many tries.
const MOVED_UNTIL: f64 = 0.12;
const LEAST_MOVES: u32 = 10;
/// Where a plan takes less than this part of what the fastest device takes alone, devices work side by side all the time, and a
/// chain says little.
const LEAST_OF_ALONE: f64 = 0.75;
/// A way that proves less than this part of what another did will not overtake it.
const LEAST_PROMISE: f64 = 0.99;
/// A gap below this is not worth a search.
const SMALL_GAP: f64 = 1e-4;
/// The limit rises from the bound known to the best plan in so many strides, which grow; when they miss they become shorter, but
/// not below this part of the first.
const STRIDES: u64 = 16;
const SHORTEST: u64 = 8;
/// Where two limits are missed by far, these parts of the way to the higher one are tried.
const SPREAD: [f64; 3] = [0.75, 0.55, 0.9];
/// A try with the next width takes at least so many times as long as the last one, and a few of them are needed.
const WIDER_TAKES: u32 = 12;
/// By what a device's share is multiplied or divided.
const FACTORS: [f64; 3] = [1.5, 1.2, 1.08];
/// Shares are parts of this.
const PARTS: f64 = (1u64 << 16) as f64;
/// No limit is higher, so that sums stay in range.
const MOST_TIME: u64 = 1 << 56;
/// More ops than this are refused: which of them lead to which is kept as a table.
const MOST_OPS: usize = 3000;

pub(crate) struct ChainDp;

impl Bound for ChainDp {
    fn name(&self) -> &'static str {
        "chain-dp"
    }

    fn about(&self) -> &'static str {
        "when inputs can pass a chain of ops: a batch waits for the slowest part of what it puts together"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        if problem.graph.op_count() > MOST_OPS {
            return Err(format!("{} ops are too many, {MOST_OPS} is the most", problem.graph.op_count()));
        }
        Argument::new(problem).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn ahead(&self) -> Option<f64> {
        Some(AHEAD)
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(argument) = Argument::new(run.problem) else { return run.exhaust() };
        let Some(network) = ChainNetwork::new(run.problem) else { return run.exhaust() };
        let is_side_by_side = (run.outcome().value())
            .is_some_and(|value| (value.0 as f64) < network.alone as f64 * LEAST_OF_ALONE);
        // Where it is the only one, it is all there is.
        let has_company = run.outcome().certificates.iter().any(|known| known.bound != self.name());
        if is_side_by_side && has_company && run.problem.graph.op_count() > FEW_OPS {
            return run.exhaust();
        }
        let used = run.budget.start.elapsed();
        let left = run.budget.time.saturating_sub(used);
        let mut tries = Tries {
            argument: &argument,
            shares: network.shares(run),
            began: used,
            time: left.mul_f64(TIME_SHARE),
            count: 0,
            at_most: Time(network.alone),
        };
        let mut kinds = [true, false].map(|is_counted| network.ways(is_counted));
        for way in kinds.iter_mut().filter_map(|ways| ways.first_mut()) {
            let until = run.budget.start.elapsed() + tries.time.mul_f64(GLANCE);
            self.rise(run, &mut tries, way, until, true);
        }
        kinds.sort_by_key(|ways| Reverse(ways[0].reached));
        for (place, ways) in kinds.iter_mut().enumerate() {
            let proven = run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64);
            if place == 0 || ways[0].promises(proven) {
                self.go_on(run, &mut tries, ways);
            }
        }
    }
}

impl ChainDp {
    /// Follows ways in which work counts alike along the chain, the quick one first, as long as there is time.
    fn go_on(&self, run: &mut Run<'_>, tries: &mut Tries<'_>, ways: &mut [WorkMeasure]) {
        let until = tries.end();
        self.rise(run, tries, &mut ways[0], until, true);
        if ways[0].is_counted {
            self.move_shares(run, tries, &ways[0]);
        }
        let Some(last) = ways.last_mut() else { return };
        loop {
            self.rise(run, tries, last, until, false);
            let left = until.saturating_sub(run.budget.start.elapsed());
            let is_over = run.budget.nodes.is_none() && last.took * WIDER_TAKES > left;
            if is_over || tries.is_over(run, until) || run.is_solved() || !last.widen() {
                break;
            }
        }
    }

    /// Moves how much each device counts along the chain for as long as that proves more.
    fn move_shares(&self, run: &mut Run<'_>, tries: &mut Tries<'_>, way: &WorkMeasure) {
        let until = tries.began + tries.time.mul_f64(MOVED_UNTIL);
        let left = until.saturating_sub(run.budget.start.elapsed());
        if way.took * LEAST_MOVES > left {
            return;
        }
        let mut reached = way.reached;
        for factor in FACTORS {
            loop {
                let before = reached;
                for (moved, up) in (0..tries.shares.len()).flat_map(|moved| [(moved, true), (moved, false)]) {
                    let known = tries.shares.clone();
                    tries.shares[moved] *= if up { factor } else { 1.0 / factor };
                    let mut moved = WorkMeasure { missed: None, reached: None, ..way.clone() };
                    self.rise(run, tries, &mut moved, until, true);
                    if moved.reached > reached {
                        reached = moved.reached;
                    } else {
                        tries.shares = known;
                    }
                }
                if reached == before || tries.is_over(run, until) {
                    break;
                }
            }
        }
    }

    /// Raises the limit while more is refuted, in strides that grow until one misses, then in shorter ones; or to the first miss.
    fn rise(
        &self,
        run: &mut Run<'_>,
        tries: &mut Tries<'_>,
        way: &mut WorkMeasure,
        until: Duration,
        to_first_miss: bool,
    ) {
        let most = run.outcome().value().unwrap_or(tries.at_most).0.min(MOST_TIME);
        let mut refuted = run.outcome().lower_bound().map_or(0, |bound| bound.0).min(most);
        let first = ((most - refuted) / STRIDES).max(1);
        let (mut stride, mut has_missed) = (first, false);
        let (mut highest, mut spread) = (0, SPREAD.iter());
        while refuted < most && !tries.is_over(run, until) && !run.is_solved() {
            // What missed once is not reached but by halves.
            let half = way.missed.map_or(most, |missed| missed.saturating_sub(refuted) / 2);
            let limit = (refuted + stride.min(half)).min(most);
            if limit <= refuted + first / SHORTEST || (to_first_miss && (has_missed || way.missed.is_some()))
            {
                break;
            }
            // A higher limit takes no less time.
            let began = run.budget.start.elapsed();
            let share = tries.end().saturating_sub(began).mul_f64(MOST_OF_TIME);
            if way.took > share && run.budget.nodes.is_none() {
                break;
            }
            let value = self.follow(run, tries, way, Time(limit), until.min(began + share));
            let took = run.budget.start.elapsed() - began;
            way.took = value.map_or(way.took, |_| took);
            way.reached = way.reached.max(value);
            refuted = refuted.max(value.map_or(0, |value| value.0));
            let is_far = value.is_some_and(|value| value.0 < limit.saturating_sub(stride / 2));
            if refuted >= limit {
                stride = if has_missed { stride } else { stride.saturating_mul(2) };
            } else if is_far && !to_first_miss && limit < most {
                // What is kept depends on chance, so that more is sometimes proved up to a higher limit, or to one between.
                highest = limit.max(highest);
                stride = if has_missed {
                    let Some(part) = spread.next() else { break };
                    ((highest - refuted) as f64 * part) as u64
                } else {
                    (limit - refuted) + stride / 2
                };
            } else {
                stride = (limit - refuted) / 2;
                // What had no time may have it later.
                way.missed = value.map(|_| limit).or(way.missed);
            }
            has_missed |= refuted < limit;
        }
    }

    /// What a way proves up to a limit; none if there was no time.
    fn follow(
        &self,
        run: &mut Run<'_>,
        tries: &mut Tries<'_>,
        way: &WorkMeasure,
        limit: Time,
        until: Duration,
    ) -> Option<Time> {
        tries.count += 1;
        let shares = if way.is_counted { whole_shares(&tries.shares) } else { Vec::new() };
        let mut stages = way.stages.clone();
        // The work that counts along the chain counts between two ops of it too.
        for stage in stages.iter_mut().filter(|stage| way.is_counted && !stage.weights.is_empty()) {
            stage.weights.push(shares.clone());
        }
        let course = ChainProof { stages, limit_ps: limit, width: WIDTHS[way.width], shares };
        let mut stop = || tries.is_over(run, until);
        let proven = Proven::by_passages(self.name(), tries.argument, &course, &mut stop)?;
        let value = proven.value();
        run.take(proven);
        Some(value)
    }
}

/// What tries have in common.
struct Tries<'a> {
    argument: &'a Argument<'a>,
    /// How much the work of devices counts along the chain, where it does.
    shares: Vec<f64>,
    /// When they began, and how long they go on.
    began: Duration,
    time: Duration,
    count: u64,
    /// Where no plan is known, no more is tried for.
    at_most: Time,
}

impl Tries<'_> {
    fn end(&self) -> Duration {
        self.began + self.time
    }

    fn is_over(&self, run: &Run<'_>, until: Duration) -> bool {
        let spent = run.budget.nodes.is_some_and(|nodes| self.count > nodes);
        spent || run.budget.is_spent() || run.budget.start.elapsed() >= until
    }
}

/// How work counts, and how far this was followed.
#[derive(Clone)]
struct WorkMeasure {
    stages: Vec<ChainStage>,
    /// Whether it counts along the chain.
    is_counted: bool,
    /// The place of its width.
    width: usize,
    /// How long the last try took that ended.
    took: Duration,
    /// The most that it proved.
    reached: Option<Time>,
    /// The last limit up to which not everything was refuted with this width.
    missed: Option<u64>,
}

impl WorkMeasure {
    /// Takes the next width; false if there is none.
    fn widen(&mut self) -> bool {
        self.missed = None;
        self.width += 1;
        self.width < WIDTHS.len()
    }

    /// Whether it may come to prove more than what is proven.
    fn promises(&self, proven: f64) -> bool {
        self.reached.is_some_and(|reached| reached.0 as f64 >= proven * LEAST_PROMISE)
    }
}

/// Shares in whole numbers.
fn whole_shares(shares: &[f64]) -> Vec<u64> {
    let sum = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let whole: Vec<u64> = shares.iter().map(|share| (share / sum * PARTS) as u64).collect();
    if whole.iter().all(|&share| share == 0) { vec![1; shares.len()] } else { whole }
}

/// Ops between two of the chain.
struct ChainWindow {
    /// Places in the chain.
    from: usize,
    to: usize,
    /// The chain's own ops are the first branch.
    branches: Vec<Vec<usize>>,
    /// How fast each device is at all of them.
    speeds: Vec<f64>,
}

struct ChainNetwork {
    chain: Vec<usize>,
    windows: Vec<ChainWindow>,
    /// All ops one after the other, all inputs on the fastest device.
    alone: u64,
    /// One for the fastest device, none for the others.
    fastest: Vec<u64>,
}

impl ChainNetwork {
    /// None if there are no ops.
    fn new(problem: &Problem) -> Option<ChainNetwork> {
        let graph = &problem.graph;
        let count = graph.op_count();
        let order: Vec<usize> = graph.order().iter().map(|op| op.index()).collect();
        let before: Vec<Vec<usize>> =
            graph.ops().map(|op| graph.predecessors(op).map(|from| from.index()).collect()).collect();
        let devices: Vec<DeviceId> = problem.hardware.devices().collect();
        let fastest = *devices.iter().min_by_key(|&&device| {
            graph.ops().map(|op| u128::from(whole_time(problem, op, device).unwrap_or(1 << 50))).sum::<u128>()
        })?;
        let weights: Vec<u64> = graph
            .ops()
            .map(|op| {
                let others = devices.iter().filter_map(|&device| whole_time(problem, op, device));
                whole_time(problem, op, fastest).or(others.min()).unwrap_or(0)
            })
            .collect();
        let chain = longest(&order, &before, &weights);
        let mut reach = vec![vec![false; count]; count];
        for &op in &order {
            for &from in &before[op] {
                let further = reach[from].clone();
                reach[op].iter_mut().zip(further).for_each(|(known, new)| *known |= new);
                reach[op][from] = true;
            }
        }
        // For each op beside the chain, between which of its places it lies.
        let mut beside: Vec<(usize, usize, usize)> = Vec::new();
        for &op in order.iter().filter(|op| !chain.contains(op)) {
            let from = chain.iter().rposition(|&passed| reach[op][passed]);
            let to = chain.iter().position(|&passed| reach[passed][op]);
            beside.extend(from.zip(to).map(|(from, to)| (from, to, op)));
        }
        beside.sort_unstable();
        let mut windows: Vec<ChainWindow> = Vec::new();
        let mut inside: Vec<Vec<usize>> = Vec::new();
        for (from, to, op) in beside {
            match windows.last_mut().zip(inside.last_mut()) {
                Some((window, ops)) if from < window.to => {
                    window.to = window.to.max(to);
                    ops.push(op);
                }
                _ => {
                    windows.push(ChainWindow { from, to, branches: Vec::new(), speeds: Vec::new() });
                    inside.push(vec![op]);
                }
            }
        }
        for (window, ops) in windows.iter_mut().zip(inside) {
            window.branches.push(chain[window.from + 1..window.to].to_vec());
            let mut left: Vec<usize> = order.iter().copied().filter(|op| ops.contains(op)).collect();
            while !left.is_empty() {
                let branch = longest(&left, &before, &weights);
                left.retain(|op| !branch.contains(op));
                window.branches.push(branch);
            }
            let time = |device: DeviceId| {
                let ops = window.branches.iter().flatten().map(|&op| OpId::new(op));
                ops.map(|op| whole_time(problem, op, device).map(|time| time as f64)).sum::<Option<f64>>()
            };
            window.speeds =
                devices.iter().map(|&device| time(device).map_or(0.0, |t| 1.0 / t.max(1.0))).collect();
        }
        (!chain.is_empty()).then(|| ChainNetwork {
            chain,
            windows,
            alone: weights.iter().fold(0, |sum, &time| sum.saturating_add(time)),
            fastest: devices.iter().map(|&device| u64::from(device == fastest)).collect(),
        })
    }

    /// How much the work of each device counts along the chain at first: by the dual of the least work of all ops, else alike.
    fn shares(&self, run: &Run<'_>) -> Vec<f64> {
        let area = run.outcome().certificates.iter().find_map(|certificate| match &certificate.evidence {
            Evidence::DivisionLp { weights, flows, windows, .. } if flows.is_empty() && windows.is_empty() => {
                Some(weights.iter().map(|&weight| weight as f64).collect())
            }
            _ => None,
        });
        area.unwrap_or_else(|| vec![1.0; self.fastest.len()])
    }

    /// The ways in which work can count within windows, the quickest first.
    fn ways(&self, is_counted: bool) -> Vec<WorkMeasure> {
        let ways = [false, true].into_iter().filter(|is_by_parts| !is_by_parts || !self.windows.is_empty());
        let way = |is_by_parts: bool| WorkMeasure {
            stages: if is_by_parts { self.stages_by_parts() } else { self.stages() },
            is_counted,
            width: if is_counted { 0 } else { UNCOUNTED_WIDTH },
            took: Duration::ZERO,
            reached: None,
            missed: None,
        };
        ways.map(way).collect()
    }

    /// The stages, with the work of the fastest device between parts.
    fn stages_by_parts(&self) -> Vec<ChainStage> {
        let mut stages = self.stages();
        for stage in stages.iter_mut().filter(|stage| !stage.branches.is_empty()) {
            stage.shares.clear();
            stage.weights.push(self.fastest.clone());
        }
        stages
    }

    /// The stages, devices counted by how fast they are.
    fn stages(&self) -> Vec<ChainStage> {
        let mut stages = Vec::new();
        let mut place = 0;
        while place < self.chain.len() {
            let window = self.windows.iter().find(|window| window.to == place && place > 0);
            let op = OpId::new(self.chain[place]);
            let mut stage = ChainStage { op, branches: Vec::new(), shares: Vec::new(), weights: Vec::new() };
            if let Some(window) = window {
                let ids = |branch: &Vec<usize>| branch.iter().map(|&op| OpId::new(op)).collect();
                stage.branches = window.branches.iter().map(ids).collect();
                stage.shares = whole_shares(&window.speeds);
            }
            stages.push(stage);
            let next = self.windows.iter().find(|window| window.from == place);
            place = next.map_or(place + 1, |window| window.to);
        }
        stages
    }
}

/// The time of an op for all inputs in one batch, or of as many as a device takes.
fn whole_time(problem: &Problem, op: OpId, device: DeviceId) -> Option<u64> {
    let inputs = problem.objective.inputs();
    let size = problem.batch_sizes_of(op, device).into_iter().rfind(|&size| size <= inputs)?;
    let cost = problem.cost(op, device, size).filter(|_| problem.may_run(op, device))?;
    Some(cost.time.0.saturating_mul(u64::from(inputs)) / u64::from(size))
}

/// The longest path among some ops, which are in order.
fn longest(ops: &[usize], before: &[Vec<usize>], weights: &[u64]) -> Vec<usize> {
    let mut best: Vec<Option<(u64, Option<usize>)>> = vec![None; before.len()];
    let mut end: Option<(u64, usize)> = None;
    for &op in ops {
        let way = before[op].iter().filter_map(|&from| Some((best[from]?.0, from))).max();
        let length = way.map_or(0, |way| way.0).saturating_add(weights[op]);
        best[op] = Some((length, way.map(|way| way.1)));
        end = end.max(Some((length, op)));
    }
    let mut path = Vec::new();
    let mut at = end.map(|end| end.1);
    while let Some(op) = at {
        path.push(op);
        at = best[op].and_then(|known| known.1);
    }
    path.reverse();
    path
}
