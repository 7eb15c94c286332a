//! All beginnings of a network, where they are few, and how few stages reach each.
//!
//! A *beginning* holds with a unit all that leads to it. The stages of a plan, along the data, lead from beginning to
//! beginning, and each costs what the units between two of them do. Networks that are nearly chains, as most real ones are,
//! have few beginnings; then all steps from one to another within a threshold can be taken, and if as many stages as
//! there are do not reach the end, no plan takes the threshold or less. With unlike devices, what counts is how many of
//! each kind were used; of two ways to a beginning, one that used no less of any kind is dropped.
//!
//! The time is that of all steps: pairs of beginnings with a threshold's work between them.

use std::collections::HashMap;

use super::bits::Bits;
use super::relaxed::{Kind, Relaxed};

/// The most units: every beginning takes a bit for each.
const MOST_UNITS: usize = 1 << 13;
/// The most beginnings, and the most ways to add a unit to one.
const MOST_BEGINNINGS: usize = 1 << 20;
const MOST_MOVES: usize = 1 << 23;
/// The most steps between beginnings that are looked at.
pub const MOST_STEPS: u64 = 1 << 31;

/// Beginnings, by size, and the units that each can be lengthened by.
pub struct Beginnings<'a> {
    relaxed: &'a Relaxed,
    /// For each, where its moves begin.
    starts: Vec<u32>,
    /// Unit and the beginning with it.
    moves: Vec<(u32, u32)>,
}

/// Devices of each kind that some stages use.
type Used = Vec<u16>;

impl<'a> Beginnings<'a> {
    /// All beginnings; an error if there are too many.
    pub fn new(relaxed: &'a Relaxed) -> Result<Beginnings<'a>, String> {
        let units = relaxed.units();
        let too_many = || format!("the network has more than {MOST_BEGINNINGS} beginnings");
        if units > MOST_UNITS {
            return Err(format!("{units} units are too many, {MOST_UNITS} is the most"));
        }
        let first: Vec<u32> =
            (0..units as u32).filter(|&unit| relaxed.read(unit as usize).is_empty()).collect();
        // Those of one size, each with the units that can follow it.
        let mut level = vec![(Bits::none(units), first)];
        let (mut starts, mut moves) = (vec![0], Vec::new());
        let mut count = 0;
        while !level.is_empty() {
            count += level.len();
            let (mut longer, mut known): (Vec<(Bits, Vec<u32>)>, HashMap<Bits, u32>) = Default::default();
            for (here, ready) in &level {
                for &unit in ready {
                    let mut with = here.clone();
                    with.add(unit as usize);
                    let id = *known.entry(with).or_insert_with_key(|with| {
                        longer.push((with.clone(), follow(relaxed, with, ready, unit)));
                        (count + longer.len() - 1) as u32
                    });
                    moves.push((unit, id));
                }
                starts.push(moves.len() as u32);
                if count + longer.len() > MOST_BEGINNINGS || moves.len() > MOST_MOVES {
                    return Err(too_many());
                }
            }
            level = longer;
        }
        Ok(Beginnings { relaxed, starts, moves })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether stages within a threshold reach the end; none if that takes too many steps, or `go_on` says no.
    pub fn reach(&self, threshold: u64, go_on: &mut dyn FnMut() -> bool) -> Option<bool> {
        let kinds: Vec<&Kind> = if self.relaxed.kinds().is_empty() {
            vec![self.relaxed.least()]
        } else {
            self.relaxed.kinds().iter().collect()
        };
        let budget = self.relaxed.budget(1, threshold);
        let last = self.count() - 1;
        let mut used: Vec<Vec<Used>> = vec![Vec::new(); self.count()];
        used[0].push(vec![0; kinds.len()]);
        let mut walk = Walk::new(self.relaxed, self.count());
        let mut steps = 0u64;
        for from in 0..last {
            let ways = std::mem::take(&mut used[from]);
            for (k, kind) in kinds.iter().enumerate() {
                let can = |way: &&Used| {
                    let all: u32 = way.iter().map(|&count| u32::from(count)).sum();
                    u32::from(way[k]) < kind.devices && all < self.relaxed.stages()
                };
                let longer: Vec<Used> = ways.iter().filter(can).map(|way| with_one(way, k)).collect();
                if longer.is_empty() {
                    continue;
                }
                walk.from(self, from, kind, budget, &mut |to| {
                    longer.iter().for_each(|way| keep(&mut used[to], way));
                });
                steps += std::mem::take(&mut walk.steps);
                if steps > MOST_STEPS || !go_on() {
                    return None;
                }
            }
        }
        Some(!used[last].is_empty())
    }
}

/// The units that can follow a beginning whose last unit is `unit`, given those that could before.
fn follow(relaxed: &Relaxed, beginning: &Bits, ready: &[u32], unit: u32) -> Vec<u32> {
    let mut follow: Vec<u32> = ready.iter().copied().filter(|&other| other != unit).collect();
    for &t in relaxed.made(unit as usize) {
        for &consumer in &relaxed.tensors()[t as usize].consumers {
            let made = |&t: &u32| beginning.has(relaxed.tensors()[t as usize].producer as usize);
            if relaxed.read(consumer as usize).iter().all(made) && !follow.contains(&consumer) {
                follow.push(consumer);
            }
        }
    }
    follow
}

fn with_one(way: &Used, kind: usize) -> Used {
    let mut way = way.clone();
    way[kind] += 1;
    way
}

/// Adds a way unless another uses no more.
fn keep(ways: &mut Vec<Used>, new: &Used) {
    let no_more = |a: &Used, b: &Used| a.iter().zip(b).all(|(a, b)| a <= b);
    if ways.iter().any(|way| no_more(way, new)) {
        return;
    }
    ways.retain(|way| !no_more(new, way));
    ways.push(new.clone());
}

/// A walk over all beginnings after one, with the cost of what is between.
struct Walk<'a> {
    relaxed: &'a Relaxed,
    /// In which walk each beginning was seen last.
    seen: Vec<u32>,
    walks: u32,
    inside: Vec<bool>,
    /// Of each tensor, how many of its consumers are between.
    count: Vec<u32>,
    path: Vec<(usize, usize, u32)>,
    steps: u64,
}

/// What the units between cost.
#[derive(Clone, Copy, Default)]
struct Costs {
    /// Work, and tensors that come in: never falls as units are added.
    sure: u64,
    /// Tensors that go out.
    out: u64,
}

impl<'a> Walk<'a> {
    fn new(relaxed: &'a Relaxed, beginnings: usize) -> Walk<'a> {
        Walk {
            relaxed,
            seen: vec![0; beginnings],
            walks: 0,
            inside: vec![false; relaxed.units()],
            count: vec![0; relaxed.tensors().len()],
            path: Vec::new(),
            steps: 0,
        }
    }

    /// Tells `reach` of every beginning that one stage leads to.
    fn from(
        &mut self,
        all: &Beginnings<'_>,
        from: usize,
        kind: &Kind,
        budget: u64,
        reach: &mut dyn FnMut(usize),
    ) {
        self.walks += 1;
        self.path.clear();
        let mut costs = vec![Costs::default()];
        // Beginning, its next move, the unit that led to it.
        self.path.push((from, all.starts[from] as usize, u32::MAX));
        while let Some(&mut (here, ref mut next, unit)) = self.path.last_mut() {
            if *next == all.starts[here + 1] as usize {
                self.path.pop();
                costs.pop();
                if unit != u32::MAX {
                    self.remove(unit as usize);
                }
                continue;
            }
            let (unit, to) = all.moves[*next];
            *next += 1;
            let to = to as usize;
            if self.seen[to] == self.walks {
                continue;
            }
            self.steps += 1;
            let Some(work) = kind.work[unit as usize] else { continue };
            let mut cost = costs[costs.len() - 1];
            cost.sure += work;
            if cost.sure > budget {
                continue;
            }
            self.seen[to] = self.walks;
            self.add(unit as usize, kind, &mut cost);
            if cost.sure > budget {
                self.remove(unit as usize);
                continue;
            }
            if cost.sure + cost.out <= budget {
                reach(to);
            }
            costs.push(cost);
            self.path.push((to, all.starts[to] as usize, unit));
        }
    }

    fn add(&mut self, unit: usize, kind: &Kind, cost: &mut Costs) {
        self.inside[unit] = true;
        // No consumer of what a unit makes comes before it.
        cost.out += self.relaxed.made(unit).iter().map(|&t| kind.out[t as usize]).sum::<u64>();
        for &t in self.relaxed.read(unit) {
            let t = t as usize;
            self.count[t] += 1;
            let tensor = &self.relaxed.tensors()[t];
            if self.inside[tensor.producer as usize] {
                if self.count[t] as usize == tensor.consumers.len() {
                    cost.out -= kind.out[t];
                }
            } else if self.count[t] == 1 {
                cost.sure += kind.into[t];
            }
        }
    }

    fn remove(&mut self, unit: usize) {
        self.inside[unit] = false;
        for &t in self.relaxed.read(unit) {
            self.count[t as usize] -= 1;
        }
    }
}
