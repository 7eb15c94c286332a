//! The level-by-level search over states.
//!
//! Level n holds, for each set of n ops that can have been scheduled, states. A state is a row of numbers: when each device is
//! free, and when each tensor still needed can be on each device (never before the device is free, since no op could use it).
//! From a state any ready op may come next on any device; it starts no earlier than the op before it. With each state goes a
//! lower bound on its completions, the largest of
//!
//! * what its past decides;
//! * for each ready op, the least earliest start + tail over devices;
//! * for the ops with the longest continuations, their area under the device weights, filled into the devices;
//! * for each device, when it is free + its device tail.
//!
//! States at or above the limit are dropped, and so are dominated ones. Time and memory are proportional to the width times
//! the number of ops, apart from comparing states.
//!
//! | file | what |
//! |---|---|
//! | `states` | a level: sets of ops and their states |
//! | `expand` | the successors of a state |
//! | `estimate` | the lower bound of a state |
//! | `dominance` | which states are kept |

mod dominance;
mod estimate;
mod expand;
mod states;

use crate::frontier_search::levels::states::{BackPointer, StateLevel, StatesOfSet, WaitingOps};
use crate::frontier_search::subproblem::FrontierSubproblem;

/// The limits of a search.
#[derive(Clone, Debug)]
pub struct FrontierSettings<'a> {
    /// The most states kept on each level. The least estimate of a dropped one limits the bound.
    pub width: usize,
    /// Schedules that end at this or later are of no interest.
    pub limit: u64,
    /// Device weights of the area estimates.
    pub weights: &'a [Vec<u64>],
    /// The most levels.
    pub levels: usize,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct FrontierResult {
    /// A lower bound on every schedule of the subproblem, no larger than the limit.
    pub lower: u64,
    /// The best schedule below the limit: its value, and ops (as numbered in the subproblem) with their devices, in the order
    /// of their starts.
    pub best: Option<(u64, Vec<(u32, u32)>)>,
    /// Whether the search was complete and no state was dropped.
    pub exact: bool,
    /// How many levels were searched.
    pub levels: usize,
    /// States looked at.
    pub states: u64,
}

/// Sizes of the sets of ops with the longest continuations whose area is estimated.
const AREA_SETS: [usize; 6] = [3, 6, 12, 24, 48, 96];
/// States made per level, as a multiple of the width, before the worst are dropped.
const SLACK: usize = 12;

/// Searches a subproblem. `stop` is asked once per set of ops; if it says so, the result is that of the complete levels.
pub fn search(
    subproblem: &FrontierSubproblem,
    settings: &FrontierSettings<'_>,
    stop: &mut dyn FnMut() -> bool,
) -> FrontierResult {
    let mut search = FrontierSearch::new(subproblem, settings);
    let mut level = StateLevel::default();
    let first = level.add(search.first_set());
    level.sets[first].rows.extend_from_slice(&subproblem.free);
    level.sets[first].push(0, 0, BackPointer { before: 0, op: 0, device: 0 });
    search.number(&mut level);
    let levels = subproblem.ops.len().min(settings.levels);
    for done in 0..levels {
        let (dropped, exact) = (search.dropped, search.exact);
        let mut next = StateLevel::default();
        for set in &level.sets {
            if stop() {
                // The next level is incomplete, so what was dropped from it does not count either.
                (search.dropped, search.exact) = (dropped, exact);
                return search.finish(&level, done);
            }
            search.expand(set, &mut next);
            if next.count() > settings.width.saturating_mul(SLACK).max(10_000) {
                search.compact(&mut next);
            }
        }
        search.compact(&mut next);
        search.number(&mut next);
        level = next;
    }
    search.finish(&level, levels)
}

struct FrontierSearch<'a> {
    subproblem: &'a FrontierSubproblem,
    settings: &'a FrontierSettings<'a>,
    /// For each list of weights, the least weighted time of each op.
    weighted: Vec<Vec<u64>>,
    /// For each op, its shortest time.
    shortest: Vec<u64>,
    /// Every state ever kept, by the step that led to it.
    log: Vec<BackPointer>,
    /// The least estimate of a dropped state.
    dropped: u64,
    /// Whether no state was dropped.
    exact: bool,
    /// States looked at.
    states: u64,
    /// Scratch: the state under construction.
    child: Vec<u64>,
    /// Scratch: for each port of the next set, its place in the state before.
    moved: Vec<Option<usize>>,
    /// Scratch: devices by when they are free, with their weights.
    filling: Vec<(u64, u64)>,
    /// Scratch: the earliest start of each ready op on each device.
    starts: Vec<u64>,
}

impl<'a> FrontierSearch<'a> {
    fn new(subproblem: &'a FrontierSubproblem, settings: &'a FrontierSettings<'a>) -> FrontierSearch<'a> {
        let weighted = settings.weights.iter();
        let weighted = weighted
            .map(|weights| {
                (0..subproblem.ops.len()).map(|op| subproblem.least_weighted(op, weights)).collect()
            })
            .collect();
        let shortest = |op: usize| {
            let times = subproblem.allowed[op].iter().map(|&device| subproblem.time(op, device as usize));
            times.min().unwrap_or(0)
        };
        FrontierSearch {
            subproblem,
            settings,
            weighted,
            shortest: (0..subproblem.ops.len()).map(shortest).collect(),
            log: Vec::new(),
            dropped: u64::MAX,
            exact: true,
            states: 0,
            child: Vec::new(),
            moved: Vec::new(),
            filling: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// The set of a level that consists of the ops of `before` and `op`; made if there is none yet.
    fn set_after(&mut self, before: &StatesOfSet, op: u32, level: &mut StateLevel) -> usize {
        let mut scheduled = before.scheduled.clone();
        scheduled[op as usize / 64] |= 1 << (op % 64);
        if let Some(&set) = level.index.get(&scheduled) {
            return set;
        }
        let subproblem = self.subproblem;
        let done = |op: u32| scheduled[op as usize / 64] >> (op % 64) & 1 == 1;
        let is_needed =
            |port: &u32| subproblem.ports[*port as usize].consumers.iter().any(|&next| !done(next));
        let is_ready = |op: u32| {
            subproblem.reads[op as usize].iter().all(|&port| done(subproblem.ports[port as usize].producer))
        };
        let fills = &subproblem.fills[op as usize];
        let mut ports: Vec<u32> = before.ports.iter().chain(fills).copied().filter(is_needed).collect();
        ports.sort_unstable();
        let mut ready: Vec<u32> =
            before.ready.iter().map(|&(ready, _)| ready).filter(|&ready| ready != op).collect();
        let next = fills.iter().flat_map(|&port| &subproblem.ports[port as usize].consumers);
        ready.extend(next.copied().filter(|&next| is_ready(next)));
        ready.sort_unstable();
        ready.dedup();
        let all = before.area_sets.last().map(|(_, areas)| areas.iter().zip(&self.weighted));
        let all = all.into_iter().flatten().map(|(area, weighted)| area - weighted[op as usize]).collect();
        let set = self.set(scheduled, ports, &ready, all);
        level.add(set)
    }

    /// The empty set.
    fn first_set(&self) -> StatesOfSet {
        let ready =
            (0..self.subproblem.ops.len() as u32).filter(|&op| self.subproblem.reads[op as usize].is_empty());
        let all = self.weighted.iter().map(|weighted| weighted.iter().sum()).collect();
        let scheduled = vec![0; self.subproblem.ops.len().div_ceil(64)].into();
        self.set(scheduled, Vec::new(), &ready.collect::<Vec<u32>>(), all)
    }

    /// A set without states. `all` are the areas of all ops not scheduled.
    fn set(&self, scheduled: Box<[u64]>, ports: Vec<u32>, ready: &[u32], all: Vec<u64>) -> StatesOfSet {
        let subproblem = self.subproblem;
        let done = |op: u32| scheduled[op as usize / 64] >> (op % 64) & 1 == 1;
        let place = |port: &u32| {
            let place = ports.binary_search(port).expect("a ready op's inputs are in the state");
            ((place + 1) * subproblem.devices) as u32
        };
        let waiting = ports.iter().flat_map(|&port| &subproblem.ports[port as usize].consumers).copied();
        let (rests, rest_on) = self.rests(ready, waiting.max().unwrap_or(0), done);
        let wait = |port: &u32| {
            let mut wait = WaitingOps { ready: Vec::new(), rest: u64::MAX };
            for &consumer in subproblem.ports[*port as usize].consumers.iter().filter(|&&op| !done(op)) {
                match ready.binary_search(&consumer) {
                    Ok(place) => wait.ready.push(place as u32),
                    Err(_) => wait.rest = wait.rest.min(rests[consumer as usize]),
                }
            }
            wait
        };
        let waits = ports.iter().map(wait).collect();
        let reads = |op: u32| subproblem.reads[op as usize].iter().map(place).collect();
        let ready = ready.iter().map(|&op| (op, reads(op))).collect();
        let area_sets = self.area_sets(all, done);
        StatesOfSet {
            scheduled,
            ready,
            ports,
            waits,
            rest_on,
            area_sets,
            rows: Vec::new(),
            least: Vec::new(),
            decided: Vec::new(),
            steps: Vec::new(),
            first_number: 0,
        }
    }

    /// For each op up to `last` that is neither scheduled nor ready, the length of the longest path of unscheduled ops before
    /// it in shortest times, without the ready op that starts the path (`u64::MAX` for other ops); and for each device, the
    /// least of these over the ops that may run there.
    fn rests(&self, ready: &[u32], last: u32, done: impl Fn(u32) -> bool) -> (Vec<u64>, Vec<u64>) {
        let subproblem = self.subproblem;
        let mut rests = vec![u64::MAX; subproblem.ops.len()];
        let mut rest_on = vec![u64::MAX; subproblem.devices];
        let first = ready.first().map_or(subproblem.ops.len(), |&op| op as usize);
        for op in first..subproblem.ops.len() {
            if op > last as usize && rest_on.iter().all(|&rest| rest == 0) {
                break;
            }
            if done(op as u32) || ready.binary_search(&(op as u32)).is_ok() {
                continue;
            }
            let before = subproblem.reads[op].iter().map(|&port| subproblem.ports[port as usize].producer);
            let rest = before.map(|before| match rests[before as usize] {
                u64::MAX => 0,
                rest => rest + self.shortest[before as usize],
            });
            let rest = rest.max().unwrap_or(0);
            rests[op] = rest;
            for &device in &subproblem.allowed[op] {
                rest_on[device as usize] = rest_on[device as usize].min(rest);
            }
        }
        (rests, rest_on)
    }

    /// For some sets of unscheduled ops, the least continuation behind them and their areas; the last set is all of them, whose
    /// areas are `all`.
    fn area_sets(&self, all: Vec<u64>, done: impl Fn(u32) -> bool) -> Vec<(u64, Vec<u64>)> {
        let most = AREA_SETS[AREA_SETS.len() - 1];
        let mut sets = Vec::new();
        let mut areas = vec![0u64; self.weighted.len()];
        let mut last = None;
        for (count, &op) in
            self.subproblem.by_after.iter().filter(|&&op| !done(op)).take(most + 1).enumerate()
        {
            if AREA_SETS.contains(&count) {
                sets.extend(last.map(|after| (after, areas.clone())));
            }
            for (area, weighted) in areas.iter_mut().zip(&self.weighted) {
                *area += weighted[op as usize];
            }
            last = Some(self.subproblem.after[op as usize]);
        }
        let last = self.subproblem.by_after.iter().rev().find(|&&op| !done(op));
        sets.extend(last.map(|&op| (self.subproblem.after[op as usize], all)));
        sets
    }

    /// Appends the states of a level to the log.
    fn number(&mut self, level: &mut StateLevel) {
        for set in &mut level.sets {
            set.first_number = self.log.len() as u32;
            self.log.extend_from_slice(&set.steps);
        }
    }

    fn finish(self, level: &StateLevel, levels: usize) -> FrontierResult {
        let complete = levels == self.subproblem.ops.len();
        let mut lower = self.dropped.min(self.settings.limit);
        let mut best: Option<(u64, Vec<(u32, u32)>)> = None;
        for set in &level.sets {
            for (row, &least) in set.least.iter().enumerate() {
                lower = lower.min(least);
                if complete && best.as_ref().is_none_or(|(value, _)| least < *value) {
                    best = Some((least, self.steps_to(set.first_number + row as u32)));
                }
            }
        }
        FrontierResult { lower, best, exact: complete && self.exact, levels, states: self.states }
    }

    /// The ops and devices of the state with this number.
    fn steps_to(&self, mut number: u32) -> Vec<(u32, u32)> {
        let mut steps = Vec::new();
        while number != 0 {
            let step = self.log[number as usize];
            steps.push((step.op, step.device));
            number = step.before;
        }
        steps.reverse();
        steps
    }
}
