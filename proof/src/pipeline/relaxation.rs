//! The overflow-free relaxation of a `pipeline` problem: what every plan costs at least.
//!
//! *Units* are ops that share a stage in every plan: colocated ops, and the strongly connected components that contracting
//! them makes (their quotient graph must be acyclic). A *kind* is a group of devices on which every stage costs the same: the
//! sum of its units' times, plus for every tensor that enters or leaves the least time over any route from or to such a
//! device (0 where peers copy). Overflow, memory, and transfers from `input_at` and to `output_at` are left out; all of them
//! only add to a stage. The *least* kind has the minimum of every figure over all kinds. On identical devices without
//! overflow and constraints the costs are exact.
//!
//! With more than `MOST_KINDS` kinds everything is bounded on the least kind. Figures are divided by a power of two,
//! rounded down, where their sum would not fit the integers of a minimum cut; budgets are divided likewise, so a bound on the
//! scaled problem is one on the original.
//!
//! [`PipelineRelaxation::merged`] also contracts units that share a stage in some optimal plan of the least kind
//! ([`crate::pipeline::kernelisation`]). What it refutes is refuted for an optimal plan, hence for all.

use crate::bit_set::Bits;
use crate::pipeline::kernelisation;
use crate::pipeline::relaxation_types::{KindCosts, MOST_UNITS, TransitiveClosure, UnitTensor};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// The relaxed problem.
#[derive(Clone, Debug)]
pub struct PipelineRelaxation {
    stages: u32,
    /// All figures are divided by two to this.
    shift: u32,
    unit_of: Vec<u32>,
    tensors: Vec<UnitTensor>,
    made: Vec<Vec<u32>>,
    read: Vec<Vec<u32>>,
    least: KindCosts,
    kinds: Vec<KindCosts>,
    order: Option<TransitiveClosure>,
}

/// Sums of all figures stay below two to this.
const MOST_BITS: u32 = 43;

/// With more kinds than this the least kind stands for all.
pub(super) const MOST_KINDS: usize = 4;

impl PipelineRelaxation {
    /// The relaxation of a problem.
    pub fn new(problem: &Problem) -> Result<PipelineRelaxation, String> {
        PipelineRelaxation::build(problem, false)
    }

    /// The relaxation with the least kind only, and units contracted that share a stage in some optimal plan.
    pub fn merged(problem: &Problem) -> Result<PipelineRelaxation, String> {
        PipelineRelaxation::build(problem, true)
    }

    /// [`PipelineRelaxation::merged`] if `merge`, else [`PipelineRelaxation::new`].
    pub(super) fn build(problem: &Problem, merge: bool) -> Result<PipelineRelaxation, String> {
        let Objective::Pipeline { stages } = problem.objective else {
            return Err("it speaks of pipeline stages".to_owned());
        };
        let mut unit_of = colocated_units(problem);
        let (mut tensors, groups) = tensors_between(problem, &unit_of);
        let kinds = kinds(problem, &unit_of, &groups);
        let mut least = least(&kinds, stages);
        let mut kinds = if kinds.len() > MOST_KINDS || merge { Vec::new() } else { kinds };
        if merge {
            kernelisation::merge(&mut unit_of, &mut tensors, &mut least);
        }
        let shift = kinds.iter().chain([&least]).map(|kind| shift(kind, &tensors)).max().unwrap_or(0);
        for kind in kinds.iter_mut().chain([&mut least]) {
            kind.work.iter_mut().flatten().for_each(|time| *time >>= shift);
            kind.out.iter_mut().chain(&mut kind.into).for_each(|time| *time >>= shift);
        }
        if kinds.len() == 1 {
            // One kind is the least kind.
            kinds.clear();
        }
        let units = least.work.len();
        let (mut made, mut read) = (vec![Vec::new(); units], vec![Vec::new(); units]);
        for (t, tensor) in tensors.iter().enumerate() {
            made[tensor.producer as usize].push(t as u32);
            for &consumer in &tensor.consumers {
                read[consumer as usize].push(t as u32);
            }
        }
        let order = (units <= MOST_UNITS).then(|| TransitiveClosure::new(units, &tensors));
        Ok(PipelineRelaxation { stages, shift, unit_of, tensors, made, read, least, kinds, order })
    }

    /// The most stages.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// How many units there are.
    #[inline]
    pub fn units(&self) -> usize {
        self.least.work.len()
    }

    /// The unit of an op.
    pub fn unit_of(&self, op: OpId) -> usize {
        self.unit_of[op.index()] as usize
    }

    /// The tensors.
    #[inline]
    pub fn tensors(&self) -> &[UnitTensor] {
        &self.tensors
    }

    /// Tensors that a unit makes, by their place in [`PipelineRelaxation::tensors`].
    #[inline]
    pub fn made(&self, unit: usize) -> &[u32] {
        &self.made[unit]
    }

    /// Tensors that a unit reads from others.
    #[inline]
    pub fn read(&self, unit: usize) -> &[u32] {
        &self.read[unit]
    }

    /// The kind with the least of all figures.
    #[inline]
    pub fn least(&self) -> &KindCosts {
        &self.least
    }

    /// The kinds; none where the least kind stands for all.
    pub fn kinds(&self) -> &[KindCosts] {
        &self.kinds
    }

    /// The ancestors of a unit. Only where [`PipelineRelaxation::knows_order`].
    #[inline]
    pub fn before(&self, unit: usize) -> &Bits {
        &self.order.as_ref().expect("asked before").before[unit]
    }

    /// The descendants of a unit. Only where [`PipelineRelaxation::knows_order`].
    #[inline]
    pub fn after(&self, unit: usize) -> &Bits {
        &self.order.as_ref().expect("asked before").after[unit]
    }

    /// Whether the transitive closure is stored: not where there are more than [`MOST_UNITS`] units.
    pub fn knows_order(&self) -> bool {
        self.order.is_some()
    }

    /// What a group of `stages` stages may cost, in scaled figures, if each costs at most `time` picoseconds.
    pub fn budget(&self, stages: u32, time: u64) -> u64 {
        let total = (u128::from(stages) * u128::from(time)) >> self.shift;
        u64::try_from(total.min(1 << (MOST_BITS + 1))).expect("it is small")
    }

    /// A scaled time in picoseconds, rounded down.
    pub fn picoseconds(&self, time: u64) -> u64 {
        time << self.shift
    }

    /// What a set of units costs as a stage; none if some unit cannot run.
    pub fn cost(&self, kind: &KindCosts, set: &Bits) -> Option<u64> {
        let mut cost = 0;
        for unit in set.iter() {
            cost += kind.work[unit]?;
            let leaves =
                |t: &&u32| self.tensors[**t as usize].consumers.iter().any(|&c| !set.has(c as usize));
            cost += self.made[unit].iter().filter(leaves).map(|&t| kind.out[t as usize]).sum::<u64>();
        }
        let enters = |tensor: &UnitTensor| {
            !set.has(tensor.producer as usize) && tensor.consumers.iter().any(|&c| set.has(c as usize))
        };
        let entering = self.tensors.iter().zip(&kind.into).filter(|(tensor, _)| enters(tensor));
        Some(cost + entering.map(|(_, &time)| time).sum::<u64>())
    }
}

/// The bound T + 1 of a threshold T that is refuted.
pub(super) fn refuted(threshold: Time) -> Result<Time, String> {
    threshold.0.checked_add(1).map(Time).ok_or_else(|| "a threshold out of range".to_owned())
}

/// For each op its unit: colocated ops, contracted with their strongly connected component. Units are in topological order,
/// ties broken by the first op in the canonical order.
fn colocated_units(problem: &Problem) -> Vec<u32> {
    let graph = &problem.graph;
    let mut group: Vec<u32> = (0..graph.op_count() as u32).collect();
    for ops in &problem.constraints.colocate {
        for op in ops {
            group[op.index()] = ops[0].0;
        }
    }
    let edges = || graph.ops().flat_map(|op| graph.successors(op).map(move |next| (op, next)));
    let links: Vec<(u32, u32)> = edges().map(|(a, b)| (group[a.index()], group[b.index()])).collect();
    let component = kernelisation::components(graph.op_count(), &links);
    for unit in &mut group {
        *unit = component[*unit as usize];
    }
    let links: Vec<(u32, u32)> = edges().map(|(a, b)| (group[a.index()], group[b.index()])).collect();
    let position = |op: OpId| graph.position(op) as u32;
    let mut first = vec![u32::MAX; graph.op_count()];
    for op in graph.ops() {
        let first = &mut first[group[op.index()] as usize];
        *first = (*first).min(position(op));
    }
    kernelisation::renumber(&mut group, &first, &links);
    group
}

/// The tensors between units, and for each the sizes of the problem's tensors that it stands for.
fn tensors_between(problem: &Problem, unit_of: &[u32]) -> (Vec<UnitTensor>, Vec<Vec<u64>>) {
    let graph = &problem.graph;
    let mut found: std::collections::BTreeMap<UnitTensor, Vec<u64>> = std::collections::BTreeMap::new();
    for tensor in graph.tensors() {
        let Some(producer) = graph.producer(tensor) else { continue };
        let producer = unit_of[producer.index()];
        let mut consumers: Vec<u32> = graph.consumers(tensor).iter().map(|op| unit_of[op.index()]).collect();
        consumers.retain(|&unit| unit != producer);
        consumers.sort_unstable();
        consumers.dedup();
        if !consumers.is_empty() {
            found.entry(UnitTensor { producer, consumers }).or_default().push(graph.tensor_bytes(tensor));
        }
    }
    found.into_iter().unzip()
}

/// Latency and bandwidth of each route; empty if one of them is free.
type RouteTimes = Vec<(u64, u64)>;

/// The routes from a device (or to it), each pair of latency and bandwidth once.
fn routes_of(problem: &Problem, device: DeviceId, outward: bool) -> RouteTimes {
    let hardware = &problem.hardware;
    let others = hardware.devices().filter(|&other| other != device);
    let routes = others.filter_map(|other| {
        if outward { hardware.route(device, other) } else { hardware.route(other, device) }
    });
    let mut times = RouteTimes::new();
    for route in routes {
        match route.bandwidth {
            None => return RouteTimes::new(),
            Some(bandwidth) => {
                let time = (route.latency.0, bandwidth.0);
                if !times.contains(&time) {
                    times.push(time);
                }
            }
        }
    }
    times.sort_unstable();
    times
}

/// The least time of some bytes over any of the routes.
fn least_time(routes: &RouteTimes, bytes: u64) -> u64 {
    let time = |&(latency, width): &(u64, u64)| {
        let carried = (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(width));
        latency + u64::try_from(carried).expect("a validated problem keeps transfers in range")
    };
    routes.iter().map(time).min().unwrap_or(0)
}

/// The kinds of devices, and what stages cost on each.
fn kinds(problem: &Problem, unit_of: &[u32], tensors: &[Vec<u64>]) -> Vec<KindCosts> {
    let units = unit_of.iter().max().map_or(0, |&last| last as usize + 1);
    let mut kinds: Vec<(KindCosts, (divvy_core::ids::ClassId, RouteTimes, RouteTimes))> = Vec::new();
    for device in problem.hardware.devices() {
        let (outward, inward) = if problem.hardware.device(device).peer_copies {
            (RouteTimes::new(), RouteTimes::new())
        } else {
            (routes_of(problem, device, true), routes_of(problem, device, false))
        };
        let key = (problem.hardware.class_of(device), outward, inward);
        let mut work = vec![Some(0u64); units];
        for op in problem.graph.ops() {
            let time = problem.time(op, device).filter(|_| problem.may_run(op, device));
            let unit = &mut work[unit_of[op.index()] as usize];
            *unit = unit.zip(time).map(|(sum, time)| sum + time.0);
        }
        if let Some((kind, _)) = kinds.iter_mut().find(|(kind, k)| *k == key && kind.work == work) {
            kind.devices += 1;
            continue;
        }
        let time = |routes: &RouteTimes| {
            tensors.iter().map(|all| all.iter().map(|&b| least_time(routes, b)).sum()).collect()
        };
        let kind = KindCosts { devices: 1, work, out: time(&key.1), into: time(&key.2) };
        kinds.push((kind, key));
    }
    kinds.into_iter().map(|(kind, _)| kind).collect()
}

/// The least kind.
fn least(kinds: &[KindCosts], stages: u32) -> KindCosts {
    let mut least = kinds[0].clone();
    least.devices = stages;
    for kind in &kinds[1..] {
        for (a, b) in least.work.iter_mut().zip(&kind.work) {
            *a = a.iter().chain(b).copied().min();
        }
        for (a, b) in least.out.iter_mut().zip(&kind.out).chain(least.into.iter_mut().zip(&kind.into)) {
            *a = (*a).min(*b);
        }
    }
    least
}

/// How often the figures of a kind must be halved for their sum to stay below two to [`MOST_BITS`].
fn shift(kind: &KindCosts, tensors: &[UnitTensor]) -> u32 {
    let work: u128 = kind.work.iter().map(|time| u128::from(time.unwrap_or(0))).sum();
    let carried = tensors.iter().zip(kind.out.iter().zip(&kind.into));
    let carried: u128 = carried
        .map(|(tensor, (&out, &into))| u128::from(out) + u128::from(into) * tensor.consumers.len() as u128)
        .sum();
    let total = work + carried;
    (u128::BITS - total.leading_zeros()).saturating_sub(MOST_BITS)
}
