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

use crate::bit_set::Bits;
use crate::pipeline::relaxation::{MOST_KINDS, PipelineRelaxation};
use crate::pipeline::units::DeviceKind;

/// The most units: every beginning takes a bit for each.
const MOST_UNITS: usize = 1 << 13;
/// The most beginnings, and the most ways to add a unit to one.
const MOST_BEGINNINGS: usize = 1 << 18;
const MOST_MOVES: usize = 1 << 21;
/// The most steps between beginnings that are looked at.
pub const MOST_STEPS: u64 = 1 << 31;

/// Beginnings, by size, and the units that each can be lengthened by.
pub struct DownSets<'a> {
    relaxed: &'a PipelineRelaxation,
    /// For each, where its moves begin.
    starts: Vec<u32>,
    /// Unit and the beginning with it.
    moves: Vec<(u32, u32)>,
    /// One of the moves to each: unit and the beginning without it.
    last: Vec<(u32, u32)>,
    /// What the stages after each cost at least, together: work, and what comes in from the beginning.
    left: Vec<u64>,
}

/// Devices of each kind that some stages use.
type Used = [u16; MOST_KINDS];

/// Stages that lead to a beginning: what they use, and the beginning before the last.
#[derive(Clone, Copy)]
struct DownSetStep {
    used: Used,
    from: u32,
}

/// What stages within a threshold reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The end: the units of each stage.
    End(Vec<Vec<usize>>),
    /// Not the end.
    Short,
}

impl<'a> DownSets<'a> {
    /// All beginnings; an error if there are too many.
    pub fn new(relaxed: &'a PipelineRelaxation) -> Result<DownSets<'a>, String> {
        let units = relaxed.units();
        let too_many = || format!("the network has more than {MOST_BEGINNINGS} beginnings");
        if units > MOST_UNITS {
            return Err(format!("{units} units are too many, {MOST_UNITS} is the most"));
        }
        let first: Vec<u32> =
            (0..units as u32).filter(|&unit| relaxed.read(unit as usize).is_empty()).collect();
        // Those of one size, each with the units that can follow it.
        let mut level = vec![(Bits::none(units), first)];
        let (mut starts, mut moves, mut last) = (vec![0], Vec::new(), vec![(0, 0)]);
        let mut left = vec![relaxed.least().work.iter().flatten().sum::<u64>()];
        while !level.is_empty() {
            let mut longer: Vec<(Bits, Vec<u32>)> = Vec::new();
            let mut known: HashMap<Bits, u32> = HashMap::new();
            for (here, ready) in &level {
                let now = starts.len() - 1;
                let now_left = left[now];
                for &unit in ready {
                    let mut with = here.clone();
                    with.add(unit as usize);
                    let id = *known.entry(with).or_insert_with_key(|with| {
                        longer.push((with.clone(), follow(relaxed, with, ready, unit)));
                        left.push(left_with(relaxed, with, unit as usize, now_left));
                        last.push((unit, now as u32));
                        left.len() as u32 - 1
                    });
                    moves.push((unit, id));
                }
                starts.push(moves.len() as u32);
                if left.len() > MOST_BEGINNINGS || moves.len() > MOST_MOVES {
                    return Err(too_many());
                }
            }
            level = longer;
        }
        Ok(DownSets { relaxed, starts, moves, last, left })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// What stages within a threshold reach; none if that takes too many steps, or `go_on` says no.
    pub fn reach(&self, threshold: u64, go_on: &mut dyn FnMut() -> bool) -> Option<Reach> {
        let kinds: Vec<&DeviceKind> = if self.relaxed.kinds().is_empty() {
            vec![self.relaxed.least()]
        } else {
            self.relaxed.kinds().iter().collect()
        };
        let budget = self.relaxed.budget(1, threshold);
        let end = self.count() - 1;
        let mut all: Vec<Vec<DownSetStep>> = vec![Vec::new(); self.count()];
        all[0].push(DownSetStep { used: Used::default(), from: 0 });
        let mut walks: Vec<DownSetWalk<'_>> =
            kinds.iter().map(|kind| DownSetWalk::new(self.relaxed, kind, self.count())).collect();
        let mut steps = 0u64;
        for from in 0..end {
            // Stages that the rest takes at least.
            let rest = self.left[from].div_ceil(budget.max(1)).max(1);
            for (k, kind) in kinds.iter().enumerate() {
                let can = |way: &&DownSetStep| {
                    let used: u64 = way.used.iter().map(|&count| u64::from(count)).sum();
                    u32::from(way.used[k]) < kind.devices && used + rest <= u64::from(self.relaxed.stages())
                };
                let longer: Vec<DownSetStep> = (all[from].iter().filter(can))
                    .map(|way| DownSetStep { used: with_one(way.used, k), from: from as u32 })
                    .collect();
                if longer.is_empty() {
                    continue;
                }
                walks[k].from(self, from, budget, |to| {
                    longer.iter().for_each(|way| keep(&mut all[to], way));
                });
                steps += std::mem::take(&mut walks[k].steps);
                if steps > MOST_STEPS || !go_on() {
                    return None;
                }
            }
        }
        Some(if all[end].is_empty() { Reach::Short } else { Reach::End(self.stages(&all)) })
    }

    /// The stages of a way to the end.
    fn stages(&self, all: &[Vec<DownSetStep>]) -> Vec<Vec<usize>> {
        let mut here = self.count() - 1;
        let mut way = all[here][0];
        let mut stages = Vec::new();
        while here != 0 {
            let from = way.from as usize;
            let before = self.units_of(from);
            stages.push(self.units_of(here).both(&before, |now, before| now & !before).collect());
            let leads = |other: &&DownSetStep| (0..MOST_KINDS).any(|k| with_one(other.used, k) == way.used);
            way = *all[from].iter().find(leads).expect("a way of one stage less led here");
            here = from;
        }
        stages.reverse();
        stages
    }

    fn units_of(&self, mut beginning: usize) -> Bits {
        let mut units = Bits::none(self.relaxed.units());
        while beginning != 0 {
            let (unit, without) = self.last[beginning];
            units.add(unit as usize);
            beginning = without as usize;
        }
        units
    }
}

/// What the stages after a beginning whose last unit is `unit` cost at least, given that without it.
fn left_with(relaxed: &PipelineRelaxation, beginning: &Bits, unit: usize, without: u64) -> u64 {
    let least = relaxed.least();
    let comes_in = |tensors: &[u32]| tensors.iter().map(|&t| least.into[t as usize]).sum::<u64>();
    let is_done = |t: &&u32| {
        let mut consumers = relaxed.tensors()[**t as usize].consumers.iter();
        consumers.all(|&consumer| beginning.has(consumer as usize))
    };
    let done: u64 = relaxed.read(unit).iter().filter(is_done).map(|&t| least.into[t as usize]).sum();
    without - least.work[unit].unwrap_or(0) + comes_in(relaxed.made(unit)) - done
}

/// The units that can follow a beginning whose last unit is `unit`, given those that could before.
fn follow(relaxed: &PipelineRelaxation, beginning: &Bits, ready: &[u32], unit: u32) -> Vec<u32> {
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

fn with_one(mut used: Used, kind: usize) -> Used {
    used[kind] += 1;
    used
}

/// Adds a way unless another uses no more.
#[inline]
fn keep(ways: &mut Vec<DownSetStep>, new: &DownSetStep) {
    let no_more = |a: &DownSetStep, b: &DownSetStep| a.used.iter().zip(&b.used).all(|(a, b)| a <= b);
    if ways.iter().any(|way| no_more(way, new)) {
        return;
    }
    ways.retain(|way| !no_more(new, way));
    ways.push(*new);
}

/// A walk over all beginnings after one, with the cost of what is between.
struct DownSetWalk<'a> {
    kind: &'a DeviceKind,
    /// What each unit makes costs so much to send.
    sends: Vec<u64>,
    /// Tensors that each unit reads: from here to the next.
    starts: Vec<u32>,
    reads: Vec<u32>,
    tensors: Vec<Passing>,
    /// In which walk each beginning was seen last.
    seen: Vec<u32>,
    walks: u32,
    inside: Vec<bool>,
    path: Vec<WalkPosition>,
    steps: u64,
}

/// A tensor.
struct Passing {
    producer: u32,
    /// Consumers that are not between.
    missing: u32,
    consumers: u32,
    out: u64,
    into: u64,
}

/// Where a walk is.
struct WalkPosition {
    beginning: u32,
    next_move: u32,
    /// The unit that led here.
    unit: u32,
    cost: Costs,
}

/// What the units between cost.
#[derive(Clone, Copy, Default)]
struct Costs {
    /// Work, and tensors that come in: never falls as units are added.
    sure: u64,
    /// Tensors that go out.
    out: u64,
}

/// In place of the unit that led to where a walk starts.
const NO_UNIT: u32 = u32::MAX;

impl<'a> DownSetWalk<'a> {
    fn new(relaxed: &PipelineRelaxation, kind: &'a DeviceKind, beginnings: usize) -> DownSetWalk<'a> {
        let units = relaxed.units();
        let sends = |unit| relaxed.made(unit).iter().map(|&t| kind.out[t as usize]).sum();
        let (mut starts, mut reads) = (vec![0], Vec::new());
        for unit in 0..units {
            reads.extend_from_slice(relaxed.read(unit));
            starts.push(reads.len() as u32);
        }
        let passing = relaxed.tensors().iter().enumerate().map(|(t, tensor)| {
            let consumers = tensor.consumers.len() as u32;
            let (out, into) = (kind.out[t], kind.into[t]);
            Passing { producer: tensor.producer, missing: consumers, consumers, out, into }
        });
        DownSetWalk {
            kind,
            sends: (0..units).map(sends).collect(),
            starts,
            reads,
            tensors: passing.collect(),
            seen: vec![0; beginnings],
            walks: 0,
            inside: vec![false; units],
            path: Vec::new(),
            steps: 0,
        }
    }

    /// Tells `reach` of every beginning that one stage leads to.
    fn from(&mut self, all: &DownSets<'_>, from: usize, budget: u64, mut reach: impl FnMut(usize)) {
        self.walks += 1;
        let place = |beginning: usize, unit: u32, cost: Costs| WalkPosition {
            beginning: beginning as u32,
            next_move: all.starts[beginning],
            unit,
            cost,
        };
        self.path.clear();
        self.path.push(place(from, NO_UNIT, Costs::default()));
        while let Some(here) = self.path.last_mut() {
            if here.next_move == all.starts[here.beginning as usize + 1] {
                let unit = here.unit;
                self.path.pop();
                if unit != NO_UNIT {
                    self.remove(unit as usize);
                }
                continue;
            }
            let (unit, to) = all.moves[here.next_move as usize];
            here.next_move += 1;
            let to = to as usize;
            if self.seen[to] == self.walks {
                continue;
            }
            self.steps += 1;
            let Some(work) = self.kind.work[unit as usize] else { continue };
            let mut cost = here.cost;
            cost.sure += work;
            if cost.sure > budget {
                continue;
            }
            self.seen[to] = self.walks;
            self.add(unit as usize, &mut cost);
            if cost.sure > budget {
                self.remove(unit as usize);
                continue;
            }
            if cost.sure + cost.out <= budget {
                reach(to);
            }
            self.path.push(place(to, unit, cost));
        }
    }

    #[inline]
    fn add(&mut self, unit: usize, cost: &mut Costs) {
        self.inside[unit] = true;
        // No consumer of what a unit makes comes before it.
        cost.out += self.sends[unit];
        for &t in &self.reads[self.starts[unit] as usize..self.starts[unit + 1] as usize] {
            let tensor = &mut self.tensors[t as usize];
            tensor.missing -= 1;
            if self.inside[tensor.producer as usize] {
                if tensor.missing == 0 {
                    cost.out -= tensor.out;
                }
            } else if tensor.missing + 1 == tensor.consumers {
                cost.sure += tensor.into;
            }
        }
    }

    #[inline]
    fn remove(&mut self, unit: usize) {
        self.inside[unit] = false;
        for &t in &self.reads[self.starts[unit] as usize..self.starts[unit + 1] as usize] {
            self.tensors[t as usize].missing += 1;
        }
    }
}
