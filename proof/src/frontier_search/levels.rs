//! The level-by-level search over rows.
//!
//! Level `n` holds, for each set of `n` ops that can have been scheduled, rows: when each device is free, and when each
//! tensor still needed can be on each device (never before the device is free, since nobody could use it). From a row,
//! any ready op may come next on any device; it starts no earlier than the op before it did. With each row goes the
//! least value that its completions can have: the larger of what its past decided and of three estimates of what is
//! to come (a ready op and its tail; the ops whose end is followed by much, poured into the devices by weighted area;
//! what must still run on a device). Rows that cannot end below the limit are dropped at once, and rows that another
//! of the same set dominates.
//!
//! Time and memory are proportional to the width times the number of ops, apart from comparing rows.

mod dominance;
mod estimate;
mod expand;
mod states;

use crate::frontier_search::levels::states::{StateLevel, StatesOfSet, Origin, Wait};
use crate::frontier_search::subproblem::Subproblem;

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchWidth<'a> {
    /// How many rows to keep on each level. The least value that others could have had limits the bound.
    pub width: usize,
    /// Schedules that do not end below this are of no interest.
    pub limit: u64,
    /// Weights of the devices for areas.
    pub weights: &'a [Vec<u64>],
    /// After how many ops to end at the latest.
    pub levels: usize,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct FrontierResult {
    /// No schedule of the part ends before this, or before the limit.
    pub lower: u64,
    /// The best schedule below the limit: its value, and ops (as numbered in the part) with their devices in the order
    /// of their starts.
    pub best: Option<(u64, Vec<(u32, u32)>)>,
    /// Whether the search was complete and nothing was dropped.
    pub exact: bool,
    /// How many levels were searched.
    pub levels: usize,
    /// Rows looked at.
    pub rows: u64,
}

/// How many of the ops with most to follow are poured together.
const POURED: [usize; 6] = [3, 6, 12, 24, 48, 96];
/// Rows made per level, over the width, before the worst are sorted out.
const SLACK: usize = 12;

/// Searches a part. `stop` is asked once per set of ops; if it says so, what the levels so far show is the result.
pub fn search(part: &Subproblem, settings: &SearchWidth<'_>, stop: &mut dyn FnMut() -> bool) -> FrontierResult {
    let mut search = FrontierSearch::new(part, settings);
    let mut level = StateLevel::default();
    let first = level.add(search.first_set());
    level.sets[first].rows.extend_from_slice(&part.free);
    level.sets[first].push(0, 0, Origin { before: 0, op: 0, device: 0 });
    search.number(&mut level);
    let levels = part.ops.len().min(settings.levels);
    for done in 0..levels {
        let (dropped, exact) = (search.dropped, search.exact);
        let mut next = StateLevel::default();
        for set in &level.sets {
            if stop() {
                // The next level is not complete, so what was dropped from it does not count either.
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
    part: &'a Subproblem,
    settings: &'a SearchWidth<'a>,
    /// For each of the weights, for each op, its least weighted time.
    weighted: Vec<Vec<u64>>,
    /// For each op, its shortest time.
    shortest: Vec<u64>,
    /// Every row ever kept.
    log: Vec<Origin>,
    dropped: u64,
    exact: bool,
    rows: u64,
    child: Vec<u64>,
    moved: Vec<Option<usize>>,
    filling: Vec<(u64, u64)>,
    starts: Vec<u64>,
}

impl<'a> FrontierSearch<'a> {
    fn new(part: &'a Subproblem, settings: &'a SearchWidth<'a>) -> FrontierSearch<'a> {
        let weighted = settings.weights.iter();
        let weighted = weighted
            .map(|weights| (0..part.ops.len()).map(|op| part.least_weighted(op, weights)).collect())
            .collect();
        let shortest = |op: usize| {
            let times = part.allowed[op].iter().map(|&device| part.time(op, device as usize));
            times.min().unwrap_or(0)
        };
        FrontierSearch {
            part,
            settings,
            weighted,
            shortest: (0..part.ops.len()).map(shortest).collect(),
            log: Vec::new(),
            dropped: u64::MAX,
            exact: true,
            rows: 0,
            child: Vec::new(),
            moved: Vec::new(),
            filling: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// The set of a level in which `op` follows the ops of `before`; made if there is none yet.
    fn set_after(&mut self, before: &StatesOfSet, op: u32, level: &mut StateLevel) -> usize {
        let mut scheduled = before.scheduled.clone();
        scheduled[op as usize / 64] |= 1 << (op % 64);
        if let Some(&set) = level.index.get(&scheduled) {
            return set;
        }
        let part = self.part;
        let done = |op: u32| scheduled[op as usize / 64] >> (op % 64) & 1 == 1;
        let is_needed = |port: &u32| part.ports[*port as usize].consumers.iter().any(|&next| !done(next));
        let is_ready =
            |op: u32| part.reads[op as usize].iter().all(|&port| done(part.ports[port as usize].producer));
        let fills = &part.fills[op as usize];
        let mut ports: Vec<u32> = before.ports.iter().chain(fills).copied().filter(is_needed).collect();
        ports.sort_unstable();
        let mut ready: Vec<u32> =
            before.ready.iter().map(|&(ready, _)| ready).filter(|&ready| ready != op).collect();
        let next = fills.iter().flat_map(|&port| &part.ports[port as usize].consumers);
        ready.extend(next.copied().filter(|&next| is_ready(next)));
        ready.sort_unstable();
        ready.dedup();
        let all = before.poured.last().map(|(_, areas)| areas.iter().zip(&self.weighted));
        let all = all.into_iter().flatten().map(|(area, weighted)| area - weighted[op as usize]).collect();
        let set = self.set(scheduled, ports, &ready, all);
        level.add(set)
    }

    /// The set with nothing scheduled.
    fn first_set(&self) -> StatesOfSet {
        let ready = (0..self.part.ops.len() as u32).filter(|&op| self.part.reads[op as usize].is_empty());
        let all = self.weighted.iter().map(|weighted| weighted.iter().sum()).collect();
        let scheduled = vec![0; self.part.ops.len().div_ceil(64)].into();
        self.set(scheduled, Vec::new(), &ready.collect::<Vec<u32>>(), all)
    }

    /// A set without rows. `all` are the areas of all ops still to come.
    fn set(&self, scheduled: Box<[u64]>, ports: Vec<u32>, ready: &[u32], all: Vec<u64>) -> StatesOfSet {
        let part = self.part;
        let done = |op: u32| scheduled[op as usize / 64] >> (op % 64) & 1 == 1;
        let place = |port: &u32| {
            let place = ports.binary_search(port).expect("what a ready op reads is there");
            ((place + 1) * part.devices) as u32
        };
        let waiting = ports.iter().flat_map(|&port| &part.ports[port as usize].consumers).copied();
        let (rests, rest_on) = self.rests(ready, waiting.max().unwrap_or(0), done);
        let wait = |port: &u32| {
            let mut wait = Wait { ready: Vec::new(), rest: u64::MAX };
            for &consumer in part.ports[*port as usize].consumers.iter().filter(|&&op| !done(op)) {
                match ready.binary_search(&consumer) {
                    Ok(place) => wait.ready.push(place as u32),
                    Err(_) => wait.rest = wait.rest.min(rests[consumer as usize]),
                }
            }
            wait
        };
        let waits = ports.iter().map(wait).collect();
        let reads = |op: u32| part.reads[op as usize].iter().map(place).collect();
        let ready = ready.iter().map(|&op| (op, reads(op))).collect();
        let poured = self.pour(all, done);
        StatesOfSet {
            scheduled,
            ready,
            ports,
            waits,
            rest_on,
            poured,
            rows: Vec::new(),
            least: Vec::new(),
            decided: Vec::new(),
            steps: Vec::new(),
            first_number: 0,
        }
    }

    /// For each op up to `last` that is neither scheduled nor ready, the shortest times of the longest chain before it,
    /// without the ready op that starts the chain, and the largest number for others; and for each device, the least of
    /// all ops that may run there.
    fn rests(&self, ready: &[u32], last: u32, done: impl Fn(u32) -> bool) -> (Vec<u64>, Vec<u64>) {
        let part = self.part;
        let mut rests = vec![u64::MAX; part.ops.len()];
        let mut rest_on = vec![u64::MAX; part.devices];
        let first = ready.first().map_or(part.ops.len(), |&op| op as usize);
        for op in first..part.ops.len() {
            if op > last as usize && rest_on.iter().all(|&rest| rest == 0) {
                break;
            }
            if done(op as u32) || ready.binary_search(&(op as u32)).is_ok() {
                continue;
            }
            let before = part.reads[op].iter().map(|&port| part.ports[port as usize].producer);
            let rest = before.map(|before| match rests[before as usize] {
                u64::MAX => 0,
                rest => rest + self.shortest[before as usize],
            });
            let rest = rest.max().unwrap_or(0);
            rests[op] = rest;
            for &device in &part.allowed[op] {
                rest_on[device as usize] = rest_on[device as usize].min(rest);
            }
        }
        (rests, rest_on)
    }

    /// What the ops still to come take: some of those with most to follow, and all of them, whose areas are `all`.
    fn pour(&self, all: Vec<u64>, done: impl Fn(u32) -> bool) -> Vec<(u64, Vec<u64>)> {
        let most = POURED[POURED.len() - 1];
        let mut poured = Vec::new();
        let mut areas = vec![0u64; self.weighted.len()];
        let mut last = None;
        for (count, &op) in self.part.by_after.iter().filter(|&&op| !done(op)).take(most + 1).enumerate() {
            if POURED.contains(&count) {
                poured.extend(last.map(|after| (after, areas.clone())));
            }
            for (area, weighted) in areas.iter_mut().zip(&self.weighted) {
                *area += weighted[op as usize];
            }
            last = Some(self.part.after[op as usize]);
        }
        let last = self.part.by_after.iter().rev().find(|&&op| !done(op));
        poured.extend(last.map(|&op| (self.part.after[op as usize], all)));
        poured
    }

    /// Writes the rows of a level into the log.
    fn number(&mut self, level: &mut StateLevel) {
        for set in &mut level.sets {
            set.first_number = self.log.len() as u32;
            self.log.extend_from_slice(&set.steps);
        }
    }

    fn finish(self, level: &StateLevel, levels: usize) -> FrontierResult {
        let complete = levels == self.part.ops.len();
        let mut lower = self.dropped.min(self.settings.limit);
        let mut best: Option<(u64, Vec<(u32, u32)>)> = None;
        for set in &level.sets {
            for (row, &least) in set.least.iter().enumerate() {
                lower = lower.min(least);
                if complete && best.as_ref().is_none_or(|(value, _)| least < *value) {
                    best = Some((least, self.way_to(set.first_number + row as u32)));
                }
            }
        }
        FrontierResult { lower, best, exact: complete && self.exact, levels, rows: self.rows }
    }

    fn way_to(&self, mut number: u32) -> Vec<(u32, u32)> {
        let mut way = Vec::new();
        while number != 0 {
            let step = self.log[number as usize];
            way.push((step.op, step.device));
            number = step.before;
        }
        way.reverse();
        way
    }
}
