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

use std::collections::HashMap;

use super::super::dense::NEVER;
use super::part::Part;

/// How to search.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
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
pub struct Found {
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

/// How many rows of a set each new row is compared with.
const MOST_COMPARED: usize = 4000;
/// How many rows are compared, over the width.
const UNCOMPARED: usize = 8;
/// How many of the ops with most to follow are poured together.
const POURED: [usize; 6] = [3, 6, 12, 24, 48, 96];
/// Rows made per level, over the width, before the worst are sorted out.
const SLACK: usize = 12;

/// Searches a part. `stop` is asked once per set of ops; if it says so, what the levels so far show is the result.
pub fn search(part: &Part, settings: &Settings<'_>, stop: &mut dyn FnMut() -> bool) -> Found {
    let mut search = Search::new(part, settings);
    let mut level = Level::default();
    let first = level.add(search.first_set());
    level.sets[first].rows.extend_from_slice(&part.free);
    level.sets[first].push(0, 0, Step { before: 0, op: 0, device: 0 });
    search.number(&mut level);
    let levels = part.ops.len().min(settings.levels);
    for done in 0..levels {
        let (dropped, exact) = (search.dropped, search.exact);
        let mut next = Level::default();
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

/// All rows with the same set of ops scheduled.
struct Set {
    scheduled: Box<[u64]>,
    /// Ops that may come next, and where in a row the tensors they read are.
    ready: Vec<(u32, Vec<u32>)>,
    /// Tensors still needed, in the order of their place in a row.
    ports: Vec<u32>,
    /// For each tensor still needed: who waits for it.
    waits: Vec<Wait>,
    /// For each device: the least `rest` of ops that are not ready and may run there.
    rest_on: Vec<u64>,
    /// For some of the ops still to come: what follows them at least, and their area under each of the weights.
    poured: Vec<(u64, Vec<u64>)>,
    rows: Vec<u64>,
    /// For each row: the least value of its completions.
    least: Vec<u64>,
    /// For each row: what the ops scheduled decide by themselves.
    decided: Vec<u64>,
    /// For each row: the number in the log of the row before it, the op and the device.
    steps: Vec<Step>,
    /// The number in the log of the first row, once the level is complete.
    first_number: u32,
}

impl Set {
    fn push(&mut self, least: u64, decided: u64, step: Step) {
        self.least.push(least);
        self.decided.push(decided);
        self.steps.push(step);
    }

    fn count(&self) -> usize {
        self.least.len()
    }

    fn retain(&mut self, keep: &[bool], devices: usize) {
        let length = (self.ports.len() + 1) * devices;
        let mut kept = 0;
        for row in (0..keep.len()).filter(|&row| keep[row]) {
            if row > kept {
                self.rows.copy_within(row * length..(row + 1) * length, kept * length);
                self.least[kept] = self.least[row];
                self.decided[kept] = self.decided[row];
                self.steps[kept] = self.steps[row];
            }
            kept += 1;
        }
        self.rows.truncate(kept * length);
        self.least.truncate(kept);
        self.decided.truncate(kept);
        self.steps.truncate(kept);
    }
}

/// From when on time would be idle that a ready op could have used: the earliest such time, the op (as a position in
/// the list of ready ones), and the earliest for any other op.
struct Idle {
    first: (u64, usize),
    second: u64,
}

impl Idle {
    /// No start of this op is of interest from here on.
    fn latest_start(&self, op: usize) -> u64 {
        if self.first.1 == op { self.second } else { self.first.0 }
    }
}

/// Who waits for a tensor.
struct Wait {
    /// Ready ops, as positions in the list of those.
    ready: Vec<u32>,
    /// The least `rest` of ops that are not ready: the time that the ops before them still take at least, once the
    /// first of all ready ops has ended.
    rest: u64,
}

/// Rows in outline: some of their cells in seven bits each, so that one subtraction rules out most comparisons.
struct Outlines {
    base: Vec<u64>,
    shift: u32,
}

impl Outlines {
    const CELLS: usize = 16;
    const GUARDS: u128 = u128::from_ne_bytes([0x80; 16]);

    fn new(rows: &[u64], length: usize) -> Outlines {
        let cells = length.min(Outlines::CELLS);
        let mut base = vec![u64::MAX; cells];
        let mut most = vec![0; cells];
        for row in rows.chunks_exact(length) {
            for ((base, most), &cell) in base.iter_mut().zip(&mut most).zip(row) {
                *base = (*base).min(cell);
                // What never arrives must not blur the rest.
                *most = if cell < NEVER { cell.max(*most) } else { *most };
            }
        }
        let range = base.iter().zip(&most).map(|(base, most)| most.saturating_sub(*base)).max().unwrap_or(0);
        Outlines { base, shift: (u64::BITS - range.leading_zeros()).saturating_sub(7) }
    }

    fn of(&self, row: &[u64]) -> u128 {
        let cells = self.base.iter().zip(row).map(|(base, cell)| ((cell - base) >> self.shift).min(127));
        cells.fold(0, |outline, cell| outline << 8 | u128::from(cell))
    }

    fn may_dominate(outline: u128, other: u128) -> bool {
        ((other | Outlines::GUARDS) - outline) & Outlines::GUARDS == Outlines::GUARDS
    }
}

/// How a row came about.
#[derive(Clone, Copy)]
struct Step {
    /// The row before.
    before: u32,
    op: u32,
    device: u32,
}

#[derive(Default)]
struct Level {
    sets: Vec<Set>,
    index: HashMap<Box<[u64]>, usize, std::hash::BuildHasherDefault<Fold>>,
}

impl Level {
    fn count(&self) -> usize {
        self.sets.iter().map(Set::count).sum()
    }

    fn add(&mut self, set: Set) -> usize {
        self.index.insert(set.scheduled.clone(), self.sets.len());
        self.sets.push(set);
        self.sets.len() - 1
    }
}

/// A fixed and quick hash for sets of bits.
#[derive(Default)]
struct Fold(u64);

impl std::hash::Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

struct Search<'a> {
    part: &'a Part,
    settings: &'a Settings<'a>,
    /// For each of the weights, for each op, its least weighted time.
    weighted: Vec<Vec<u64>>,
    /// For each op, its shortest time.
    shortest: Vec<u64>,
    /// Every row ever kept.
    log: Vec<Step>,
    dropped: u64,
    exact: bool,
    rows: u64,
    child: Vec<u64>,
    moved: Vec<Option<usize>>,
    filling: Vec<(u64, u64)>,
    starts: Vec<u64>,
}

impl<'a> Search<'a> {
    fn new(part: &'a Part, settings: &'a Settings<'a>) -> Search<'a> {
        let weighted = settings.weights.iter();
        let weighted = weighted
            .map(|weights| (0..part.ops.len()).map(|op| part.least_weighted(op, weights)).collect())
            .collect();
        let shortest = |op: usize| {
            let times = part.allowed[op].iter().map(|&device| part.time(op, device as usize));
            times.min().unwrap_or(0)
        };
        Search {
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
    fn set_after(&mut self, before: &Set, op: u32, level: &mut Level) -> usize {
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
    fn first_set(&self) -> Set {
        let ready = (0..self.part.ops.len() as u32).filter(|&op| self.part.reads[op as usize].is_empty());
        let all = self.weighted.iter().map(|weighted| weighted.iter().sum()).collect();
        let scheduled = vec![0; self.part.ops.len().div_ceil(64)].into();
        self.set(scheduled, Vec::new(), &ready.collect::<Vec<u32>>(), all)
    }

    /// A set without rows. `all` are the areas of all ops still to come.
    fn set(&self, scheduled: Box<[u64]>, ports: Vec<u32>, ready: &[u32], all: Vec<u64>) -> Set {
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
        Set {
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

    /// Adds every continuation of the rows of a set to the next level.
    fn expand(&mut self, set: &Set, next: &mut Level) {
        let devices = self.part.devices;
        let length = (set.ports.len() + 1) * devices;
        let idle: Vec<Idle> = set.rows.chunks_exact(length).map(|row| self.idle(set, row)).collect();
        for (i, (op, reads)) in set.ready.iter().enumerate() {
            let target = self.set_after(set, *op, next);
            let target = &mut next.sets[target];
            // Where in the row before each tensor of the row after is; none: the op makes it.
            let mut moved = std::mem::take(&mut self.moved);
            moved.clear();
            moved.extend(
                target
                    .ports
                    .iter()
                    .map(|port| set.ports.binary_search(port).ok().map(|place| (place + 1) * devices)),
            );
            for (row, (cells, idle)) in set.rows.chunks_exact(length).zip(&idle).enumerate() {
                for &device in &self.part.allowed[*op as usize] {
                    self.rows += 1;
                    let from = (set.least[row], set.decided[row], set.first_number + row as u32);
                    let latest = idle.latest_start(i);
                    self.extend(cells, from, *op as usize, reads, device as usize, latest, &moved, target);
                }
            }
            self.moved = moved;
        }
    }

    /// From when on a step leaves time idle that a ready op could have used: it would have ended by then, with its
    /// results everywhere no later than if it started after. Whatever follows such a step is as good, or better, with
    /// that op moved there, so the step need not be tried.
    fn idle(&mut self, set: &Set, row: &[u64]) -> Idle {
        let part = self.part;
        let devices = part.devices;
        let mut idle = Idle { first: (u64::MAX, usize::MAX), second: u64::MAX };
        for (i, (op, reads)) in set.ready.iter().enumerate() {
            let op = *op as usize;
            self.starts.clear();
            for device in 0..devices {
                let start = row[device].max(part.release[op * devices + device]);
                self.starts
                    .push(reads.iter().fold(start, |start, &place| start.max(row[place as usize + device])));
            }
            let used = |&device: &u32| {
                let device = device as usize;
                let start = self.starts[device];
                // It must start earlier, not merely as early: else two ops could each stand aside for the other.
                let mut from = (start + part.times[op * devices + device]).max(start + 1);
                for &instead in &part.allowed[op] {
                    let head_start = part.head_start[(op * devices + device) * devices + instead as usize];
                    let needed = start.saturating_add_signed(head_start);
                    if self.starts[instead as usize] < needed {
                        from = from.max(needed);
                    }
                }
                from
            };
            let from = part.allowed[op].iter().map(used).min().unwrap_or(u64::MAX);
            if from < idle.first.0 {
                idle.second = idle.first.0;
                idle.first = (from, i);
            } else {
                idle.second = idle.second.min(from);
            }
        }
        idle
    }

    /// One op on one device after a row.
    #[expect(
        clippy::too_many_arguments,
        reason = "the innermost step; its caller has looked all of these up"
    )]
    fn extend(
        &mut self,
        row: &[u64],
        (least, decided, before): (u64, u64, u32),
        op: usize,
        reads: &[u32],
        device: usize,
        latest: u64,
        moved: &[Option<usize>],
        target: &mut Set,
    ) {
        let part = self.part;
        let devices = part.devices;
        let cell = op * devices + device;
        let mut start = row[device].max(part.release[cell]);
        for &place in reads {
            start = start.max(row[place as usize + device]);
        }
        let least = least.max(start + part.tails[cell]);
        if least >= self.settings.limit || start >= latest || start >= NEVER {
            return;
        }
        let end = start + part.times[cell];
        self.child.clear();
        self.child.extend(row[..devices].iter().map(|&free| free.max(start)));
        self.child[device] = end;
        let mut fills = part.fills[op].iter();
        for place in moved {
            match place {
                Some(place) => {
                    for d in 0..devices {
                        let there = row[place + d].max(self.child[d]);
                        self.child.push(there);
                    }
                }
                None => {
                    let port = &part.ports[*fills.next().expect("one for each tensor made") as usize];
                    for d in 0..devices {
                        let there = (end + port.delays[device * devices + d]).max(self.child[d]);
                        self.child.push(there);
                    }
                }
            }
        }
        let least = self.estimate(least, target);
        if least >= self.settings.limit {
            return;
        }
        target.rows.extend_from_slice(&self.child);
        let step = Step { before, op: op as u32, device: device as u32 };
        target.push(least, decided.max(start + part.own[cell]), step);
    }

    /// The least value of the completions of the row in `child`.
    fn estimate(&mut self, mut least: u64, set: &Set) -> u64 {
        let part = self.part;
        let devices = part.devices;
        let limit = self.settings.limit;
        self.starts.clear();
        self.starts.resize(set.ready.len() * devices, u64::MAX);
        let mut first_end = u64::MAX;
        for (i, (op, reads)) in set.ready.iter().enumerate() {
            let mut best = u64::MAX;
            for &device in &part.allowed[*op as usize] {
                let device = device as usize;
                let cell = *op as usize * devices + device;
                let mut start = self.child[device].max(part.release[cell]);
                for &place in reads {
                    start = start.max(self.child[place as usize + device]);
                }
                best = best.min(start + part.tails[cell]);
                first_end = first_end.min(start + part.times[cell]);
                self.starts[i * devices + device] = start;
            }
            least = least.max(best);
            if least >= limit {
                return least;
            }
        }
        for (device, &tail) in part.device_tails.iter().enumerate().filter(|&(_, &tail)| tail > 0) {
            least = least.max(self.child[device] + tail);
        }
        for (after, areas) in &set.poured {
            for (weights, &area) in self.settings.weights.iter().zip(areas) {
                let room = least.saturating_sub(*after);
                let free = self.child[..devices].iter().zip(weights);
                let capacity: u64 = free.map(|(&free, &weight)| weight * room.saturating_sub(free)).sum();
                if capacity < area {
                    least = after + self.fill(weights, area);
                    if least >= limit {
                        return least;
                    }
                }
            }
        }
        if !set.ready.is_empty() {
            self.delay(first_end, set);
        }
        least
    }

    /// Raises the numbers of the row in `child` as far as makes no difference: a device is not needed before some op
    /// can start there, nor a tensor before some op that reads it can. More rows are equal then.
    fn delay(&mut self, first_end: u64, set: &Set) {
        let devices = self.part.devices;
        for device in (0..devices).filter(|&device| self.part.device_tails[device] == 0) {
            let ready = self.starts[device..].iter().step_by(devices).min().copied().unwrap_or(u64::MAX);
            let needed = ready.min(first_end.saturating_add(set.rest_on[device]));
            if needed < NEVER {
                self.child[device] = self.child[device].max(needed);
            }
        }
        for (place, wait) in set.waits.iter().enumerate() {
            let later = first_end.saturating_add(wait.rest);
            for device in 0..devices {
                let ready = wait.ready.iter().map(|&op| self.starts[op as usize * devices + device]);
                let needed = ready.min().unwrap_or(u64::MAX).min(later);
                if needed < NEVER {
                    let cell = &mut self.child[(place + 1) * devices + device];
                    *cell = (*cell).max(needed);
                }
            }
        }
    }

    /// When devices, each from when it is free in `child` and at its weight, have done `area`, at the earliest.
    fn fill(&mut self, weights: &[u64], area: u64) -> u64 {
        self.filling.clear();
        self.filling.extend(self.child[..self.part.devices].iter().copied().zip(weights.iter().copied()));
        self.filling.sort_unstable();
        let (mut rate, mut done, mut now) = (0, 0, 0);
        for &(free, weight) in &self.filling {
            let by_then = done + rate * (free - now);
            if rate > 0 && by_then >= area {
                break;
            }
            (done, now) = (by_then, free);
            rate += weight;
        }
        if rate == 0 { now } else { now + (area - done).div_ceil(rate) }
    }

    /// Forgets dominated rows, and drops those beyond the width.
    fn compact(&mut self, level: &mut Level) {
        // Comparing rows is the dear part, so the hopeless are dropped before it.
        self.drop_beyond(level, self.settings.width.saturating_mul(UNCOMPARED));
        for set in &mut level.sets {
            self.keep_undominated(set);
        }
        self.drop_beyond(level, self.settings.width);
        level.sets.retain(|set| set.count() > 0);
        level.index.clear();
        for (i, set) in level.sets.iter().enumerate() {
            level.index.insert(set.scheduled.clone(), i);
        }
    }

    /// Keeps the `width` rows that can have the least values.
    fn drop_beyond(&mut self, level: &mut Level, width: usize) {
        if level.count() <= width {
            return;
        }
        self.exact = false;
        let mut values: Vec<u64> = level.sets.iter().flat_map(|set| &set.least).copied().collect();
        let (_, &mut most, _) = values.select_nth_unstable(width - 1);
        // Of the rows that equal the last one kept, some are kept to make up the width.
        let mut equal = width - values.iter().filter(|&&value| value < most).count();
        for set in &mut level.sets {
            let mut keep = vec![true; set.count()];
            for (keep, &least) in keep.iter_mut().zip(&set.least) {
                let spare = least == most && equal > 0;
                equal -= usize::from(spare);
                *keep = least < most || spare;
                if !*keep {
                    self.dropped = self.dropped.min(least);
                }
            }
            set.retain(&keep, self.part.devices);
        }
    }

    fn keep_undominated(&mut self, set: &mut Set) {
        let count = set.count();
        if count < 2 {
            return;
        }
        let length = set.rows.len() / count;
        let row = |i: usize| &set.rows[i * length..(i + 1) * length];
        let outlines = Outlines::new(&set.rows, length);
        // A row that dominates another has the smaller sum.
        let sum = |i: u32| row(i as usize).iter().fold(0u64, |sum, &cell| sum.wrapping_add(cell));
        let mut order: Vec<(u64, u32)> = (0..count as u32).map(|i| (sum(i), i)).collect();
        order.sort_unstable();
        let mut kept: Vec<(u128, u32)> = Vec::new();
        let mut keep = vec![false; count];
        for (_, i) in order {
            let least = set.least[i as usize];
            let (i, outline) = (i as usize, outlines.of(row(i as usize)));
            let dominates = |&(other, j): &(u128, u32)| {
                Outlines::may_dominate(other, outline)
                    && set.decided[j as usize] <= least
                    && row(j as usize).iter().zip(row(i)).all(|(other, own)| other <= own)
            };
            let near = kept.len().saturating_sub(MOST_COMPARED);
            if !kept[near..].iter().any(dominates) {
                kept.push((outline, i as u32));
                keep[i] = true;
            }
        }
        if kept.len() < count {
            set.retain(&keep, self.part.devices);
        }
    }

    /// Writes the rows of a level into the log.
    fn number(&mut self, level: &mut Level) {
        for set in &mut level.sets {
            set.first_number = self.log.len() as u32;
            self.log.extend_from_slice(&set.steps);
        }
    }

    fn finish(self, level: &Level, levels: usize) -> Found {
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
        Found { lower, best, exact: complete && self.exact, levels, rows: self.rows }
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
