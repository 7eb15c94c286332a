//! A dynamic program over all down-sets of the units, where they are few: f(D) is the least number of stages of cost at most T
//! that cover exactly D.
//!
//! A *down-set* holds with a unit all its ancestors. The stages of a plan, in topological order, lead from the empty down-set
//! to the whole network, each adding the units of one stage. Networks that are nearly chains have few down-sets; then every
//! pair D ⊂ D' with cost(D' ∖ D) ≤ T can be listed, and T is refuted if no chain of at most k such steps reaches the whole
//! network. With unlike devices a label counts the devices used of each kind, and a label that uses no fewer of any kind than
//! another one is dominated.
//!
//! Stages are pruned by work and incoming tensors, which grow with the stage; outgoing tensors do not. The remaining units
//! bound how many stages must still follow. Complexity: proportional to the pairs of down-sets with at most T of work
//! between them. On identical devices the answer is exact for the relaxation.

use std::collections::HashMap;

use crate::bit_set::Bits;
use crate::pipeline::relaxation::{MOST_KINDS, PipelineRelaxation, refuted};
use crate::pipeline::relaxation_types::KindCosts;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The most units: every down-set takes a bit for each.
const MOST_UNITS: usize = 1 << 13;
/// The most down-sets.
const MOST_DOWN_SETS: usize = 1 << 18;
/// The most pairs of a down-set and a unit that extends it.
const MOST_EXTENSIONS: usize = 1 << 21;
/// The most steps between down-sets that are looked at.
pub const MOST_STEPS: u64 = 1 << 31;

/// All down-sets, by size, and the units that extend each.
pub struct DownSets<'a> {
    relaxed: &'a PipelineRelaxation,
    /// For each down-set, where its extensions begin.
    starts: Vec<u32>,
    /// A unit, and the down-set with it.
    extensions: Vec<(u32, u32)>,
    /// One extension that leads to each down-set: the unit, and the down-set without it.
    reached_by: Vec<(u32, u32)>,
    /// A lower bound on the cost of all stages after each: work, and the tensors that enter from the down-set.
    remaining: Vec<u64>,
}

/// Devices of each kind that some stages use.
type KindCounts = [u16; MOST_KINDS];

/// A chain of stages that leads to a down-set: the devices it uses, and the down-set before its last stage.
#[derive(Clone, Copy)]
struct DownSetLabel {
    used: KindCounts,
    from: u32,
}

/// Whether stages within a threshold can hold the whole network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThresholdDecision {
    /// They can: the units of each stage.
    Feasible(Vec<Vec<usize>>),
    /// They cannot: the threshold is refuted.
    Infeasible,
}

impl<'a> DownSets<'a> {
    /// All down-sets; an error if there are too many.
    pub fn new(relaxed: &'a PipelineRelaxation) -> Result<DownSets<'a>, String> {
        let units = relaxed.units();
        let too_many = || format!("the network has more than {MOST_DOWN_SETS} down-sets");
        if units > MOST_UNITS {
            return Err(format!("{units} units are too many, {MOST_UNITS} is the most"));
        }
        let first: Vec<u32> =
            (0..units as u32).filter(|&unit| relaxed.read(unit as usize).is_empty()).collect();
        // The down-sets of one size, each with the units that extend it.
        let mut level = vec![(Bits::none(units), first)];
        let (mut starts, mut extensions, mut reached_by) = (vec![0], Vec::new(), vec![(0, 0)]);
        let mut remaining = vec![relaxed.least().work.iter().flatten().sum::<u64>()];
        while !level.is_empty() {
            let mut longer: Vec<(Bits, Vec<u32>)> = Vec::new();
            let mut known: HashMap<Bits, u32> = HashMap::new();
            for (here, ready) in &level {
                let now = starts.len() - 1;
                let remaining_here = remaining[now];
                for &unit in ready {
                    let mut with = here.clone();
                    with.add(unit as usize);
                    let id = *known.entry(with).or_insert_with_key(|with| {
                        longer.push((with.clone(), ready_after(relaxed, with, ready, unit)));
                        remaining.push(remaining_after(relaxed, with, unit as usize, remaining_here));
                        reached_by.push((unit, now as u32));
                        remaining.len() as u32 - 1
                    });
                    extensions.push((unit, id));
                }
                starts.push(extensions.len() as u32);
                if remaining.len() > MOST_DOWN_SETS || extensions.len() > MOST_EXTENSIONS {
                    return Err(too_many());
                }
            }
            level = longer;
        }
        Ok(DownSets { relaxed, starts, extensions, reached_by, remaining })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether stages within a threshold can hold the whole network; none if that takes too many steps, or `go_on` says no.
    pub fn decide_threshold(
        &self,
        threshold: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<ThresholdDecision> {
        let kinds: Vec<&KindCosts> = if self.relaxed.kinds().is_empty() {
            vec![self.relaxed.least()]
        } else {
            self.relaxed.kinds().iter().collect()
        };
        let budget = self.relaxed.budget(1, threshold);
        let end = self.count() - 1;
        let mut labels: Vec<Vec<DownSetLabel>> = vec![Vec::new(); self.count()];
        labels[0].push(DownSetLabel { used: KindCounts::default(), from: 0 });
        let mut walks: Vec<DownSetWalk<'_>> =
            kinds.iter().map(|kind| DownSetWalk::new(self.relaxed, kind, self.count())).collect();
        let mut steps = 0u64;
        for from in 0..end {
            // The fewest stages that can hold the remaining units.
            let stages_left = self.remaining[from].div_ceil(budget.max(1)).max(1);
            for (k, kind) in kinds.iter().enumerate() {
                let can = |label: &&DownSetLabel| {
                    let used: u64 = label.used.iter().map(|&count| u64::from(count)).sum();
                    u32::from(label.used[k]) < kind.devices
                        && used + stages_left <= u64::from(self.relaxed.stages())
                };
                let longer: Vec<DownSetLabel> = (labels[from].iter().filter(can))
                    .map(|label| DownSetLabel { used: with_one(label.used, k), from: from as u32 })
                    .collect();
                if longer.is_empty() {
                    continue;
                }
                walks[k].visit_from(self, from, budget, |to| {
                    longer.iter().for_each(|label| insert_label(&mut labels[to], label));
                });
                steps += std::mem::take(&mut walks[k].steps);
                if steps > MOST_STEPS || !go_on() {
                    return None;
                }
            }
        }
        Some(if labels[end].is_empty() {
            ThresholdDecision::Infeasible
        } else {
            ThresholdDecision::Feasible(self.stages(&labels))
        })
    }

    /// The stages of a label of the whole network.
    fn stages(&self, labels: &[Vec<DownSetLabel>]) -> Vec<Vec<usize>> {
        let mut here = self.count() - 1;
        let mut label = labels[here][0];
        let mut stages = Vec::new();
        while here != 0 {
            let from = label.from as usize;
            let before = self.units_of(from);
            stages.push(self.units_of(here).both(&before, |now, before| now & !before).collect());
            let leads =
                |other: &&DownSetLabel| (0..MOST_KINDS).any(|k| with_one(other.used, k) == label.used);
            label = *labels[from].iter().find(leads).expect("a label of one stage less led here");
            here = from;
        }
        stages.reverse();
        stages
    }

    fn units_of(&self, mut down_set: usize) -> Bits {
        let mut units = Bits::none(self.relaxed.units());
        while down_set != 0 {
            let (unit, without) = self.reached_by[down_set];
            units.add(unit as usize);
            down_set = without as usize;
        }
        units
    }
}

/// The remaining cost after a down-set whose last unit is `unit`, given that of the down-set without it.
fn remaining_after(relaxed: &PipelineRelaxation, down_set: &Bits, unit: usize, without: u64) -> u64 {
    let least = relaxed.least();
    let comes_in = |tensors: &[u32]| tensors.iter().map(|&t| least.into[t as usize]).sum::<u64>();
    let is_done = |t: &&u32| {
        let mut consumers = relaxed.tensors()[**t as usize].consumers.iter();
        consumers.all(|&consumer| down_set.has(consumer as usize))
    };
    let done: u64 = relaxed.read(unit).iter().filter(is_done).map(|&t| least.into[t as usize]).sum();
    without - least.work[unit].unwrap_or(0) + comes_in(relaxed.made(unit)) - done
}

/// The units that extend a down-set whose last unit is `unit`, given those that extended it without that unit.
fn ready_after(relaxed: &PipelineRelaxation, down_set: &Bits, ready: &[u32], unit: u32) -> Vec<u32> {
    let mut after: Vec<u32> = ready.iter().copied().filter(|&other| other != unit).collect();
    for &t in relaxed.made(unit as usize) {
        for &consumer in &relaxed.tensors()[t as usize].consumers {
            let made = |&t: &u32| down_set.has(relaxed.tensors()[t as usize].producer as usize);
            if relaxed.read(consumer as usize).iter().all(made) && !after.contains(&consumer) {
                after.push(consumer);
            }
        }
    }
    after
}

fn with_one(mut used: KindCounts, kind: usize) -> KindCounts {
    used[kind] += 1;
    used
}

/// Adds a label unless another one dominates it.
#[inline]
fn insert_label(labels: &mut Vec<DownSetLabel>, new: &DownSetLabel) {
    let no_more = |a: &DownSetLabel, b: &DownSetLabel| a.used.iter().zip(&b.used).all(|(a, b)| a <= b);
    if labels.iter().any(|label| no_more(label, new)) {
        return;
    }
    labels.retain(|label| !no_more(new, label));
    labels.push(*new);
}

/// A depth-first walk over all down-sets that contain a given one, with the cost of the units between.
struct DownSetWalk<'a> {
    kind: &'a KindCosts,
    /// For each unit, what it costs to send all its tensors.
    sends: Vec<u64>,
    /// For each unit, where the tensors that it reads begin.
    starts: Vec<u32>,
    reads: Vec<u32>,
    tensors: Vec<PendingTensor>,
    /// The walk in which each down-set was seen last.
    seen: Vec<u32>,
    walks: u32,
    inside: Vec<bool>,
    path: Vec<WalkPosition>,
    steps: u64,
}

/// A tensor, and how many of its consumers the walk has not added.
struct PendingTensor {
    producer: u32,
    /// Consumers that are not among the units added.
    missing: u32,
    consumers: u32,
    out: u64,
    into: u64,
}

/// A down-set on the current path of a walk.
struct WalkPosition {
    down_set: u32,
    next_extension: u32,
    /// The unit that led here.
    unit: u32,
    cost: Costs,
}

/// What the units added by a walk cost as a stage.
#[derive(Clone, Copy, Default)]
struct Costs {
    /// Work and incoming tensors: never falls as units are added.
    certain: u64,
    /// Outgoing tensors.
    out: u64,
}

/// In place of a unit, at the down-set where a walk starts.
const NO_UNIT: u32 = u32::MAX;

impl<'a> DownSetWalk<'a> {
    fn new(relaxed: &PipelineRelaxation, kind: &'a KindCosts, down_sets: usize) -> DownSetWalk<'a> {
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
            PendingTensor { producer: tensor.producer, missing: consumers, consumers, out, into }
        });
        DownSetWalk {
            kind,
            sends: (0..units).map(sends).collect(),
            starts,
            reads,
            tensors: passing.collect(),
            seen: vec![0; down_sets],
            walks: 0,
            inside: vec![false; units],
            path: Vec::new(),
            steps: 0,
        }
    }

    /// Calls `reach` with every down-set that one stage leads to.
    fn visit_from(&mut self, all: &DownSets<'_>, from: usize, budget: u64, mut reach: impl FnMut(usize)) {
        self.walks += 1;
        let place = |down_set: usize, unit: u32, cost: Costs| WalkPosition {
            down_set: down_set as u32,
            next_extension: all.starts[down_set],
            unit,
            cost,
        };
        self.path.clear();
        self.path.push(place(from, NO_UNIT, Costs::default()));
        while let Some(here) = self.path.last_mut() {
            if here.next_extension == all.starts[here.down_set as usize + 1] {
                let unit = here.unit;
                self.path.pop();
                if unit != NO_UNIT {
                    self.remove(unit as usize);
                }
                continue;
            }
            let (unit, to) = all.extensions[here.next_extension as usize];
            here.next_extension += 1;
            let to = to as usize;
            if self.seen[to] == self.walks {
                continue;
            }
            self.steps += 1;
            let Some(work) = self.kind.work[unit as usize] else { continue };
            let mut cost = here.cost;
            cost.certain += work;
            if cost.certain > budget {
                continue;
            }
            self.seen[to] = self.walks;
            self.add(unit as usize, &mut cost);
            if cost.certain > budget {
                self.remove(unit as usize);
                continue;
            }
            if cost.certain + cost.out <= budget {
                reach(to);
            }
            self.path.push(place(to, unit, cost));
        }
    }

    #[inline]
    fn add(&mut self, unit: usize, cost: &mut Costs) {
        self.inside[unit] = true;
        // Units are added in topological order, so no consumer of this unit's tensors is there yet.
        cost.out += self.sends[unit];
        for &t in &self.reads[self.starts[unit] as usize..self.starts[unit + 1] as usize] {
            let tensor = &mut self.tensors[t as usize];
            tensor.missing -= 1;
            if self.inside[tensor.producer as usize] {
                if tensor.missing == 0 {
                    cost.out -= tensor.out;
                }
            } else if tensor.missing + 1 == tensor.consumers {
                cost.certain += tensor.into;
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

/// The bound T + 1, if the stages within T cannot hold the whole network.
pub(crate) fn proven(problem: &Problem, merged: bool, threshold: Time) -> Result<Time, String> {
    let relaxed = PipelineRelaxation::build(problem, merged)?;
    match DownSets::new(&relaxed)?.decide_threshold(threshold.0, &mut || true) {
        Some(ThresholdDecision::Infeasible) => refuted(threshold),
        Some(ThresholdDecision::Feasible(_)) => Err(format!("stages of {} ps may do", threshold.0)),
        None => Err(format!("it takes more than {MOST_STEPS} steps")),
    }
}
