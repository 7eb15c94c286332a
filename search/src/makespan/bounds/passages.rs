//! `passages`: when inputs can pass a chain of ops, however devices share them.
//!
//! `core` says what a chain with branches proves (`makespan/relaxations/passages/`); here both are chosen. The chain is the
//! longest path with all inputs on the fastest device. Ops beside it lie in windows, from the last op of the chain that
//! leads to them to the first that they lead to; windows that overlap are united. Within a window the ops are covered by
//! chains, the longest first. Within windows the work of devices counts by how fast they are, or the work of the fastest
//! device alone, for each part of what the ops around a window have. Along the whole chain it does not count, or as the dual
//! of `division-area` says, moved by factors for one device at a time. Which of these *ways* proves most depends on the
//! network, so all are tried, first the quick ones; then of those that are not far behind always the one whose last try took the
//! least time keeps more lists of moments than before.
//! What is dropped early makes the search quick, so the limit rises step by step from the bound known towards the best plan's
//! finish, further while everything up to it is refuted, and then in shorter steps.

use std::time::Duration;

use divvy_core::certificate::{Evidence, Proven};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::makespan::relaxations::passages::{Course, Passages as Argument, Stage};
use divvy_core::problem::Problem;
use divvy_core::units::Time;

use crate::registry::{Bound, Runs};
use crate::run::Run;

/// The most lists of moments that are kept for a sharing: while shares are chosen, and afterwards.
const WIDTHS: [u32; 7] = [4, 8, 16, 64, 256, 1024, 2048];
/// The shares of the time left by whose end shares are moved, and all is over; the rest is for bounds behind it.
const TIME_SHARES: [f64; 2] = [0.12, 0.85];
/// The share of all time by whose end it is through. A better plan only lowers how far its limit can rise.
const AHEAD: f64 = 0.5;
/// The share of the time left that goes to a first look, where nothing is known.
const FIRST_LOOK: f64 = 0.12;
/// The shares of the time left that the first try of a way may take, and a later one.
const MOST_OF_TIME: [f64; 2] = [0.7, 0.3];
/// The share that a try may take before shares are moved: of a way that was behind before, of any, of one that was ahead; and the
/// place of its width. Where work does not count along the chain, few lists can take longer than many: what is kept for several
/// of them is given up later.
const GLANCES: [f64; 3] = [0.02, 0.25, 0.5];
const GLANCE_WIDTH: usize = 3;
/// Where a plan takes less than this part of what the fastest device takes alone, devices work side by side all the time, and a
/// chain says little.
const LEAST_OF_ALONE: f64 = 0.75;
/// A way that proves less than this part of what another did will not overtake it.
const LEAST_PROMISE: f64 = 0.99;
/// When a way did not end its limit is halved as many times; if it does not end then, it is given up.
const CAUTION: u32 = 3;
/// A gap below this is not worth a search.
const SMALL_GAP: f64 = 1e-4;
/// The limit rises from the bound known to the best plan in so many strides, which grow; when they miss they become shorter, but
/// not below this part of the first.
const STRIDES: u64 = 16;
const SHORTEST: u64 = 16;
/// A try that takes less than so many times as long as the one before is as quick.
const AS_QUICK: f64 = 1.5;
/// Few tries are fewer than this.
const FEW_TRIES: u32 = 10;
/// A try with the next width takes at least so many times as long as the last one.
const WIDER_TAKES: u32 = 4;
/// By what a device's share is multiplied or divided.
const FACTORS: [f64; 3] = [1.5, 1.2, 1.08];
/// Shares are parts of this.
const PARTS: f64 = (1u64 << 16) as f64;
/// No limit is higher, so that sums stay in range.
const MOST_TIME: u64 = 1 << 56;
/// More ops than this are refused: which of them lead to which is kept as a table.
const MOST_OPS: usize = 3000;

pub(super) struct Passages;

impl Bound for Passages {
    fn name(&self) -> &'static str {
        "passages"
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

    fn runs(&self) -> Runs {
        Runs::Last
    }

    fn ahead(&self) -> Option<f64> {
        Some(AHEAD)
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(argument) = Argument::new(run.problem) else { return run.exhaust() };
        let Some(network) = Network::new(run.problem) else { return run.exhaust() };
        if run.outcome().value().is_some_and(|value| (value.0 as f64) < network.alone as f64 * LEAST_OF_ALONE)
        {
            return run.exhaust();
        }
        // Where nothing is known, a short time tells which way to spend the rest on.
        if is_best_counted(run).is_none() && run.budget.nodes.is_none() {
            self.try_ways(run, &argument, &network, FIRST_LOOK);
        }
        self.try_ways(run, &argument, &network, 1.0);
    }
}

impl Passages {
    /// Tries all ways, for a share of the time left.
    fn try_ways(&self, run: &mut Run<'_>, argument: &Argument<'_>, network: &Network, share: f64) {
        let used = run.budget.start.elapsed();
        let left = run.budget.time.saturating_sub(used).mul_f64(share);
        let [moved, all] = TIME_SHARES.map(|share| used + left.mul_f64(share));
        let mut tries = Tries {
            argument,
            shares: network.shares(run),
            until: all,
            last_took: Duration::ZERO,
            count: 0,
            at_most: Time(network.alone),
        };
        let mut ways = network.ways();
        // What proved most before is likely to again.
        let is_counted = is_best_counted(run);
        let is_behind = |way: &Way| is_counted.is_some_and(|is_counted| is_counted != way.is_counted);
        let glance = |way: &Way| match is_counted {
            Some(is_counted) if is_counted == way.is_counted => GLANCES[2],
            Some(_) => GLANCES[0],
            None => GLANCES[1],
        };
        for way in ways.iter_mut().filter(|way| !way.is_counted) {
            way.next = GLANCE_WIDTH;
            let share = glance(way);
            if !self.widen(run, &mut tries, way, share) && way.reached.is_none() {
                way.next = if is_behind(way) { WIDTHS.len() } else { 0 };
            }
        }
        if let Some(way) = ways.iter().find(|way| way.is_counted && !way.is_by_parts) {
            tries.until = moved;
            self.move_shares(run, &mut tries, way);
            tries.until = all;
        }
        loop {
            let proven = run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64);
            let left = tries.until.saturating_sub(run.budget.start.elapsed());
            let goes_on = |way: &&mut Way| {
                way.width().is_some() && way.promises(proven) && way.took * WIDER_TAKES <= left
            };
            let next = ways.iter_mut().filter(goes_on).min_by_key(|way| (way.caution, way.took));
            let Some(way) = next else { break };
            let is_first = way.reached.is_none();
            let most = MOST_OF_TIME[usize::from(!is_first)];
            let share = if is_first && is_behind(way) { glance(way) } else { most };
            if !self.widen(run, &mut tries, way, share) {
                // What did not end will not with more to follow, but perhaps up to a lower limit.
                if way.reached.is_none() || way.caution > 0 {
                    way.next = WIDTHS.len();
                }
                way.caution = CAUTION;
            }
        }
    }

    /// Follows a way with the next width, for a share of the time left; false if it did not end.
    fn widen(&self, run: &mut Run<'_>, tries: &mut Tries<'_>, way: &mut Way, share: f64) -> bool {
        let Some(width) = way.width() else { return false };
        let (began, until) = (run.budget.start.elapsed(), tries.until);
        tries.until = began + until.saturating_sub(began).mul_f64(share);
        way.reached = way.reached.max(self.rise(run, tries, way, width));
        let has_ended = !tries.is_over(run);
        tries.until = until;
        if has_ended {
            // Where the run must not depend on the clock, widths rise in turns.
            let turn = Duration::from_nanos(way.next as u64);
            way.took = if run.budget.nodes.is_some() { turn } else { tries.last_took };
            way.next += 1;
        }
        has_ended
    }

    /// Moves how much each device counts along the chain for as long as that proves more.
    fn move_shares(&self, run: &mut Run<'_>, tries: &mut Tries<'_>, way: &Way) {
        let mut reached = self.rise(run, tries, way, WIDTHS[0]);
        for factor in FACTORS {
            loop {
                let before = reached;
                for (moved, up) in (0..tries.shares.len()).flat_map(|moved| [(moved, true), (moved, false)]) {
                    let known = tries.shares.clone();
                    tries.shares[moved] *= if up { factor } else { 1.0 / factor };
                    let new = self.rise(run, tries, way, WIDTHS[0]);
                    if new > reached {
                        reached = new;
                    } else {
                        tries.shares = known;
                    }
                }
                if reached == before {
                    break;
                }
            }
        }
    }

    /// Raises the limit while more is refuted, in strides that grow, then in shorter ones; what was reached, none if nothing.
    fn rise(&self, run: &mut Run<'_>, tries: &mut Tries<'_>, way: &Way, width: u32) -> Option<Time> {
        let most = run.outcome().value().unwrap_or(tries.at_most).0.min(MOST_TIME);
        let mut refuted = run.outcome().lower_bound().map_or(0, |bound| bound.0).min(most);
        let first = (((most - refuted) / STRIDES) >> way.caution).max(1);
        let (mut short, mut stride, mut misses) = (first, first, 0);
        let mut reached = None;
        let mut took_before = Duration::MAX;
        while refuted < most && short > first / SHORTEST && !tries.is_over(run) && !run.is_solved() {
            let limit = refuted.saturating_add(stride).min(most);
            let began = run.budget.start.elapsed();
            let Some(value) = self.follow(run, tries, way, width, Time(limit)) else { break };
            let took = run.budget.start.elapsed() - began;
            tries.last_took = took;
            reached = reached.max(Some(value));
            if value.0 >= limit {
                // Where a higher limit takes no longer, and few will be tried, it rises to the end at once.
                let is_as_quick = took_before != Duration::MAX && took < took_before.mul_f64(AS_QUICK);
                let is_long = took * FEW_TRIES > tries.until.saturating_sub(began);
                let can_leap = misses == 0 && is_as_quick && is_long && run.budget.nodes.is_none();
                stride = if can_leap { most } else { stride.saturating_mul(2) };
            } else if value.0 > refuted + short / 4 {
                stride = short;
            } else {
                misses += 1;
                // What is kept depends on chance, so that more is sometimes proved up to a higher limit.
                let is_first = misses % 2 == 1;
                short = if is_first { short } else { short / 2 };
                stride = if is_first { 2 * short } else { short };
            }
            refuted = refuted.max(value.0);
            took_before = took;
        }
        reached
    }

    /// What a way proves up to a limit; none if there was no time.
    fn follow(
        &self,
        run: &mut Run<'_>,
        tries: &mut Tries<'_>,
        way: &Way,
        width: u32,
        limit: Time,
    ) -> Option<Time> {
        tries.count += 1;
        let shares = if way.is_counted { whole_shares(&tries.shares) } else { Vec::new() };
        let mut stages = way.stages.clone();
        // The work that counts along the chain counts between two ops of it too.
        for stage in stages.iter_mut().filter(|stage| way.is_counted && !stage.weights.is_empty()) {
            stage.weights.push(shares.clone());
        }
        let course = Course { stages, limit_ps: limit, width, shares };
        let mut stop = || tries.is_over(run);
        let proven = Proven::by_passages(self.name(), tries.argument, &course, &mut stop)?;
        let value = proven.value();
        run.take(proven);
        Some(value)
    }
}

/// Whether work counts along the chain in what proved most so far; none if nothing proved anything.
fn is_best_counted(run: &Run<'_>) -> Option<bool> {
    let all = run.outcome().certificates.iter().filter_map(|known| match &known.evidence {
        Evidence::Passages { shares, .. } => Some((known.value_ps, !shares.is_empty())),
        _ => None,
    });
    all.max_by_key(|(value, _)| *value).map(|(_, is_counted)| is_counted)
}

/// What tries have in common.
struct Tries<'a> {
    argument: &'a Argument<'a>,
    /// How much the work of devices counts along the chain, where it does.
    shares: Vec<f64>,
    /// How long they go on.
    until: Duration,
    /// How long the last one took.
    last_took: Duration,
    count: u64,
    /// Where no plan is known, no more is tried for.
    at_most: Time,
}

impl Tries<'_> {
    fn is_over(&self, run: &Run<'_>) -> bool {
        let spent = run.budget.nodes.is_some_and(|nodes| self.count > nodes);
        spent || run.budget.is_spent() || run.budget.start.elapsed() >= self.until
    }
}

/// How work counts, and how far this was followed.
struct Way {
    stages: Vec<Stage>,
    is_by_parts: bool,
    /// Whether it counts along the chain.
    is_counted: bool,
    /// The place of the next width.
    next: usize,
    /// How long a try with the last one took.
    took: Duration,
    /// The most that it proved.
    reached: Option<Time>,
    /// How many times the limit is halved that it is tried up to.
    caution: u32,
}

impl Way {
    /// The next width; none if all were tried.
    fn width(&self) -> Option<u32> {
        WIDTHS.get(self.next).copied()
    }

    /// Whether it may come to prove more than what is proven.
    fn promises(&self, proven: f64) -> bool {
        self.reached.is_none_or(|reached| reached.0 as f64 >= proven * LEAST_PROMISE)
    }
}

/// Shares in whole numbers.
fn whole_shares(shares: &[f64]) -> Vec<u64> {
    let sum = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let whole: Vec<u64> = shares.iter().map(|share| (share / sum * PARTS) as u64).collect();
    if whole.iter().all(|&share| share == 0) { vec![1; shares.len()] } else { whole }
}

/// Ops between two of the chain.
struct Window {
    /// Places in the chain.
    from: usize,
    to: usize,
    /// The chain's own ops are the first branch.
    branches: Vec<Vec<usize>>,
    /// How fast each device is at all of them.
    speeds: Vec<f64>,
}

struct Network {
    chain: Vec<usize>,
    windows: Vec<Window>,
    /// All ops one after the other, all inputs on the fastest device.
    alone: u64,
    /// One for the fastest device, none for the others.
    fastest: Vec<u64>,
}

impl Network {
    /// None if there are no ops.
    fn new(problem: &Problem) -> Option<Network> {
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
        let mut windows: Vec<Window> = Vec::new();
        let mut inside: Vec<Vec<usize>> = Vec::new();
        for (from, to, op) in beside {
            match windows.last_mut().zip(inside.last_mut()) {
                Some((window, ops)) if from < window.to => {
                    window.to = window.to.max(to);
                    ops.push(op);
                }
                _ => {
                    windows.push(Window { from, to, branches: Vec::new(), speeds: Vec::new() });
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
        (!chain.is_empty()).then(|| Network {
            chain,
            windows,
            alone: weights.iter().fold(0, |sum, &time| sum.saturating_add(time)),
            fastest: devices.iter().map(|&device| u64::from(device == fastest)).collect(),
        })
    }

    /// How much the work of each device counts along the chain at first: by the dual of the least work of all ops, else alike.
    fn shares(&self, run: &Run<'_>) -> Vec<f64> {
        let area = run.outcome().certificates.iter().find_map(|certificate| match &certificate.evidence {
            Evidence::Divisions { weights, flows, windows } if flows.is_empty() && windows.is_empty() => {
                Some(weights.iter().map(|&weight| weight as f64).collect())
            }
            _ => None,
        });
        area.unwrap_or_else(|| vec![1.0; self.fastest.len()])
    }

    /// All ways in which work can count.
    fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        for is_by_parts in
            [false, true].into_iter().filter(|is_by_parts| !is_by_parts || !self.windows.is_empty())
        {
            for is_counted in [is_by_parts, !is_by_parts] {
                let stages = if is_by_parts { self.stages_by_parts() } else { self.stages() };
                ways.push(Way {
                    stages,
                    is_by_parts,
                    is_counted,
                    next: 0,
                    took: Duration::ZERO,
                    reached: None,
                    caution: 0,
                });
            }
        }
        ways
    }

    /// The stages, with the work of the fastest device between parts.
    fn stages_by_parts(&self) -> Vec<Stage> {
        let mut stages = self.stages();
        for stage in stages.iter_mut().filter(|stage| !stage.branches.is_empty()) {
            stage.shares.clear();
            stage.weights.push(self.fastest.clone());
        }
        stages
    }

    /// The stages, devices counted by how fast they are.
    fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::new();
        let mut place = 0;
        while place < self.chain.len() {
            let window = self.windows.iter().find(|window| window.to == place && place > 0);
            let op = OpId::new(self.chain[place]);
            let mut stage = Stage { op, branches: Vec::new(), shares: Vec::new(), weights: Vec::new() };
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
