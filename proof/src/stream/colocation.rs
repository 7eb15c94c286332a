//! Colocation: ops whose tensors exceed what links carry within T must share a device; if the resulting clusters do not fit
//! the devices, no `stream` plan has period T.
//!
//! Suppose some plan has a period ≤ T. Then a link carries at most T · bandwidth, and two clusters of ops must share a device
//!
//! * *by bytes*: if for every two devices that the clusters may be on, the tensors between them exceed what some link on the
//!   routes between these devices carries within T;
//! * *by a cut*: the ops on one cluster's device exchange with all others at most what the links next to that device carry
//!   within T, yet every set of clusters that holds the one and not the other exchanges more: a minimum hypergraph cut, in
//!   which a tensor counts once if it has ends on both sides.
//!
//! Such clusters are united, pair by pair. A cluster may be on a device if all its ops may run there, take at most T together,
//! fit the memory, and the links carry what comes from `input_at` and goes to `output_at`.
//!
//! T is refuted if a cluster has no device, or if the clusters exceed the capacity of the devices: for weights w and a dual
//! feasible function f (Σ f(tᵢ) ≤ f(T) whenever Σ tᵢ ≤ T), Σ_clusters min_d w_d·f(time) > Σ_d w_d·f(T). With at most S splits
//! only S + 1 devices have any load, so the S + 1 largest terms stand for the right side. f with k ≥ 1 is that of Fekete and
//! Schepers ("New Classes of Fast Lower Bounds for Bin Packing Problems", 2001): with x = t / T, f = x if (k + 1)·x is an
//! integer, else ⌊(k + 1)·x⌋ / k. With the identity, the largest subset sum of cluster times up to T stands for a device's T.
//!
//! Complexity: one minimum cut or a pass over device pairs for each union; subset sums in steps of T / 2²⁰.

use crate::evidence::ForcedPair;
use crate::min_cut::{CutNetwork, Fixing, INFINITE};
use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::problem::{MemoryRule, Objective, Problem};
use divvy_core::units::Time;

/// Weights are integers up to this, so that sums of products fit.
const MOST_WEIGHT: u64 = 1 << 32;
/// Steps into which the threshold is divided for subset sums.
const STEPS: u64 = 1 << 20;
/// With more clusters than this nearly every subset sum occurs, so they are not computed.
const MOST_LISTED: usize = 100;
/// The largest k of a dual feasible function.
pub const MOST_ROUNDING: u32 = 64;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// A partition of the ops into clusters that share a device in every plan within the threshold.
#[derive(Clone, Debug)]
pub struct Clusters<'p> {
    problem: &'p Problem,
    threshold: Time,
    /// For each op, the smallest op of its cluster.
    leader: Vec<usize>,
    /// For each leader, all ops of its cluster.
    members: Vec<Vec<OpId>>,
    /// For each leader, the devices that its cluster may be on.
    places: Vec<Vec<DeviceId>>,
}

impl<'p> Clusters<'p> {
    /// Every op by itself, except where constraints colocate ops; an error for other objectives.
    pub fn new(problem: &'p Problem, threshold: Time) -> Result<Clusters<'p>, String> {
        if problem.objective != Objective::Stream {
            return Err("it is about `stream`".to_owned());
        }
        let ops = problem.graph.op_count();
        let mut clusters = Clusters {
            problem,
            threshold,
            leader: (0..ops).collect(),
            members: problem.graph.ops().map(|op| vec![op]).collect(),
            places: vec![Vec::new(); ops],
        };
        for op in 0..ops {
            clusters.places[op] = clusters.find_places(op);
        }
        for group in &problem.constraints.colocate {
            group[1..].iter().for_each(|&op| clusters.unite(group[0], op));
        }
        Ok(clusters)
    }

    /// Whether two ops are in one cluster.
    pub fn are_united(&self, one: OpId, other: OpId) -> bool {
        self.leader[one.index()] == self.leader[other.index()]
    }

    /// The first op of an op's cluster.
    pub fn leader(&self, op: OpId) -> OpId {
        OpId::new(self.leader[op.index()])
    }

    /// The devices that the cluster of an op may be on.
    pub fn places(&self, op: OpId) -> &[DeviceId] {
        &self.places[self.leader[op.index()]]
    }

    /// The first op of every cluster.
    pub fn leaders(&self) -> impl Iterator<Item = OpId> + '_ {
        (0..self.leader.len()).filter(|&op| self.leader[op] == op).map(OpId::new)
    }

    /// The time of an op's cluster on a device that it may be on.
    pub fn time(&self, op: OpId, device: DeviceId) -> u64 {
        let ops = &self.members[self.leader[op.index()]];
        ops.iter().filter_map(|&op| self.problem.time(op, device)).map(|time| time.0).sum()
    }

    /// Unites two clusters.
    fn unite(&mut self, one: OpId, other: OpId) {
        let (a, b) = (self.leader[one.index()], self.leader[other.index()]);
        if a == b {
            return;
        }
        let (keep, gone) = (a.min(b), a.max(b));
        let moved = std::mem::take(&mut self.members[gone]);
        moved.iter().for_each(|op| self.leader[op.index()] = keep);
        self.members[keep].extend(moved);
        self.places[keep] = self.find_places(keep);
    }

    /// Unites two clusters if the reason given holds, and says whether it does.
    pub fn try_unite(&mut self, union: ForcedPair) -> bool {
        let ForcedPair { one, other, by_cut } = union;
        let holds =
            if by_cut { self.must_share_by_cut(one, other) } else { self.must_share_by_bytes(one, other) };
        if holds {
            self.unite(one, other);
        }
        holds
    }

    /// Whether a link carries some bytes within the threshold.
    fn carries(&self, link: LinkId, bytes: u128) -> bool {
        let bandwidth = self.problem.hardware.links()[link.index()].bandwidth;
        Time::of_many_bytes(bytes, bandwidth).is_some_and(|time| time <= self.threshold)
    }

    /// Whether all links carry some transfers, each given as from, to, bytes, within the threshold.
    fn carry(&self, transfers: &[(DeviceId, DeviceId, u128)]) -> bool {
        let mut loads: Vec<(LinkId, u128)> = Vec::new();
        for &(from, to, bytes) in transfers.iter().filter(|(from, to, _)| from != to) {
            let Some(route) = self.problem.hardware.route(from, to) else {
                return false;
            };
            for &link in route.links.iter().filter(|_| route.bandwidth.is_some()) {
                match loads.iter_mut().find(|(known, _)| *known == link) {
                    Some((_, load)) => *load += bytes,
                    None => loads.push((link, bytes)),
                }
            }
        }
        loads.into_iter().all(|(link, load)| self.carries(link, load))
    }

    /// The devices that a cluster may be on.
    fn find_places(&self, leader: usize) -> Vec<DeviceId> {
        let (problem, graph) = (self.problem, &self.problem.graph);
        let ops = &self.members[leader];
        let (mut from_inputs, mut to_outputs) = (Vec::new(), 0u128);
        if problem.constraints.input_at.is_some() {
            let inputs = ops.iter().flat_map(|&op| graph.inputs(op)).copied();
            from_inputs = inputs.filter(|&t| graph.producer(t).is_none()).collect();
            from_inputs.sort_unstable();
            from_inputs.dedup();
        }
        // A tensor of 0 bytes needs a route too.
        let needs_input = !from_inputs.is_empty();
        let input_bytes: u128 = from_inputs.iter().map(|&t| u128::from(graph.tensor_bytes(t))).sum();
        let outputs = ops.iter().flat_map(|&op| graph.outputs(op)).filter(|&&t| graph.is_output(t));
        let needs_output = outputs.clone().next().is_some();
        outputs.for_each(|&t| to_outputs += u128::from(graph.tensor_bytes(t)));
        let activations = |op: &OpId| {
            if problem.constraints.memory_rule == MemoryRule::All { graph.activation_bytes(*op) } else { 0 }
        };
        let mut params: Vec<_> = ops.iter().flat_map(|&op| graph.params_of(op)).copied().collect();
        params.sort_unstable();
        params.dedup();
        let memory: u64 = ops.iter().map(activations).sum::<u64>()
            + params.iter().map(|&param| graph.param_bytes(param)).sum::<u64>();
        let may_be = |&device: &DeviceId| {
            let may_run =
                ops.iter().all(|&op| problem.may_run(op, device) && problem.time(op, device).is_some());
            let mut transfers = Vec::new();
            transfers.extend(
                problem.constraints.input_at.filter(|_| needs_input).map(|from| (from, device, input_bytes)),
            );
            transfers.extend(
                problem.constraints.output_at.filter(|_| needs_output).map(|to| (device, to, to_outputs)),
            );
            may_run
                && problem.memory_limit(device).is_none_or(|limit| memory <= limit)
                && self.time(OpId::new(leader), device) <= self.threshold.0
                && self.carry(&transfers)
        };
        problem.hardware.devices().filter(may_be).collect()
    }

    /// Bytes of the tensors that one cluster makes and another reads, and whether there are any.
    fn bytes_between(&self, from: usize, to: usize) -> (u128, bool) {
        let graph = &self.problem.graph;
        let (mut bytes, mut any) = (0, false);
        for &tensor in self.members[from].iter().flat_map(|&op| graph.outputs(op)) {
            if graph.consumers(tensor).iter().any(|op| self.leader[op.index()] == to) {
                bytes += u128::from(graph.tensor_bytes(tensor));
                any = true;
            }
        }
        (bytes, any)
    }

    /// Whether two clusters must share a device by bytes.
    fn must_share_by_bytes(&self, one: OpId, other: OpId) -> bool {
        let (a, b) = (self.leader[one.index()], self.leader[other.index()]);
        let (there, back) = (self.bytes_between(a, b), self.bytes_between(b, a));
        let can_be_apart = |p: DeviceId, q: DeviceId| {
            let mut transfers = Vec::new();
            transfers.extend(there.1.then_some((p, q, there.0)));
            transfers.extend(back.1.then_some((q, p, back.0)));
            p != q && self.carry(&transfers)
        };
        a != b && !self.places[a].iter().any(|&p| self.places[b].iter().any(|&q| can_be_apart(p, q)))
    }

    /// The most bytes that a device exchanges with all others within the threshold; none if there is no limit.
    fn capacity(&self, device: DeviceId) -> Option<u128> {
        let hardware = &self.problem.hardware;
        let mut next_to: Vec<LinkId> = Vec::new();
        for other in hardware.devices().filter(|&other| other != device) {
            let out = hardware.route(device, other).map(|route| (route, route.links.first()));
            let back = hardware.route(other, device).map(|route| (route, route.links.last()));
            for (route, link) in out.into_iter().chain(back) {
                route.bandwidth?;
                next_to.push(*link?);
            }
        }
        next_to.sort_unstable();
        next_to.dedup();
        let carried = |link: &LinkId| {
            u128::from(hardware.links()[link.index()].bandwidth.0) * u128::from(self.threshold.0)
                / PS_PER_SECOND
        };
        Some(next_to.iter().map(carried).sum())
    }

    /// Whether two clusters must share a device by a cut.
    fn must_share_by_cut(&self, one: OpId, other: OpId) -> bool {
        let (a, b) = (self.leader[one.index()], self.leader[other.index()]);
        // The cut bounds what the device of either cluster exchanges, so the smaller of the two limits applies.
        let most = |cluster: usize| {
            let capacities = self.places[cluster].iter().map(|&device| self.capacity(device));
            capacities.collect::<Option<Vec<_>>>().map(|all| all.into_iter().max().unwrap_or(0))
        };
        let Some(most) = most(a).into_iter().chain(most(b)).min() else { return false };
        let Ok(most) = i64::try_from(most) else { return false };
        a != b && most < INFINITE && self.cut_exceeds(a, b, most)
    }

    /// Whether every set of clusters with `a` and without `b` exchanges more than `most` with the others.
    fn cut_exceeds(&self, a: usize, b: usize, most: i64) -> bool {
        let graph = &self.problem.graph;
        let mut network = CutNetwork::default();
        let nodes: Vec<_> = self.leader.iter().map(|_| network.node()).collect();
        let mut total = 0i64;
        for tensor in graph.tensors() {
            let mut ends: Vec<usize> =
                graph.consumers(tensor).iter().map(|op| self.leader[op.index()]).collect();
            let Some(producer) = graph.producer(tensor) else { continue };
            ends.push(self.leader[producer.index()]);
            ends.sort_unstable();
            ends.dedup();
            let bytes = graph.tensor_bytes(tensor);
            let fits = i64::try_from(bytes).ok().and_then(|bytes| total.checked_add(bytes));
            let Some(sum) = fits.filter(|&sum| sum < INFINITE) else { return false };
            total = sum;
            match ends[..] {
                [_] => {}
                [x, y] => drop(network.arc(nodes[x], nodes[y], bytes as i64, bytes as i64)),
                _ => {
                    // `any` is chosen if some end is, `all` only if all ends are.
                    let (any, all) = (network.node(), network.node());
                    network.arc(any, all, bytes as i64, 0);
                    for &end in &ends {
                        network.arc(nodes[end], any, INFINITE, 0);
                        network.arc(all, nodes[end], INFINITE, 0);
                    }
                }
            }
        }
        network.lay_out();
        network.set_fixing(nodes[a], Fixing::In);
        network.set_fixing(nodes[b], Fixing::Out);
        network.solve(most).is_some_and(|cut| cut > most)
    }

    /// For each device, an upper bound on its load within the threshold: the largest subset sum of the times of clusters that
    /// may be there. Times are rounded down to steps, and all remainders are added back.
    pub fn longest_loads(&self) -> Vec<u64> {
        // Devices with equal times share one computation.
        let mut known: Vec<(Vec<u64>, u64)> = Vec::new();
        let longest = |device: DeviceId| {
            let here = self.leaders().filter(|&op| self.places(op).contains(&device));
            let times: Vec<u64> = here.map(|op| self.time(op, device)).collect();
            if let Some((_, longest)) = known.iter().find(|(other, _)| *other == times) {
                return *longest;
            }
            let longest = self.longest_load(&times);
            known.push((times, longest));
            longest
        };
        self.problem.hardware.devices().map(longest).collect()
    }

    fn longest_load(&self, times: &[u64]) -> u64 {
        if times.len() > MOST_LISTED {
            return self.threshold.0;
        }
        let step = self.threshold.0.div_ceil(STEPS).max(1);
        let most = self.threshold.0 / step;
        let mut reached = vec![0u64; most as usize / 64 + 1];
        reached[0] = 1;
        let mut rounded_off = 0u64;
        for &time in times {
            rounded_off = rounded_off.saturating_add(time % step);
            shift_and_add(&mut reached, time / step);
        }
        let is_reached = |&sum: &u64| reached[sum as usize / 64] >> (sum % 64) & 1 == 1;
        let highest = (0..=most).rev().find(is_reached).unwrap_or(0);
        highest.saturating_mul(step).saturating_add(rounded_off).min(self.threshold.0)
    }

    /// Whether the threshold is refuted: a cluster has no device, or the clusters exceed the capacity of the devices, whose
    /// largest loads are given.
    pub fn exceed_capacity(&self, weights: &[u64], rounding: u32, longest_loads: &[u64]) -> bool {
        if self.leaders().any(|op| self.places(op).is_empty()) {
            return true;
        }
        let limit = u128::from(self.threshold.0);
        let steps = u128::from(rounding) + 1;
        let rounded = |time: u64| {
            let scaled = u128::from(time) * steps;
            match rounding {
                0 => u128::from(time),
                _ if limit == 0 => 0,
                _ if scaled.is_multiple_of(limit) => u128::from(time) * u128::from(rounding),
                _ => scaled / limit * limit,
            }
        };
        let least = |op: OpId| {
            let weighted =
                |&device: &DeviceId| rounded(self.time(op, device)) * u128::from(weights[device.index()]);
            self.places(op).iter().map(weighted).min().unwrap_or(0)
        };
        let needed: u128 = self.leaders().map(least).sum();
        let capacity = |(&weight, &load): (&u64, &u64)| match rounding {
            0 => u128::from(weight) * u128::from(load),
            k => u128::from(weight) * limit * u128::from(k),
        };
        let mut capacities: Vec<u128> = weights.iter().zip(longest_loads).map(capacity).collect();
        capacities.sort_unstable_by(|a, b| b.cmp(a));
        let used =
            self.problem.constraints.max_splits.map_or(usize::MAX, |most| most as usize).saturating_add(1);
        needed > capacities.iter().take(used).sum()
    }
}

/// Adds to a set of sums (as bits) every sum plus an amount; sums past the end are dropped.
fn shift_and_add(reached: &mut [u64], amount: u64) {
    let (words, bits) = (amount as usize / 64, amount % 64);
    for to in (words..reached.len()).rev() {
        let from = to - words;
        let mut shifted = reached[from] << bits;
        if bits > 0 && from > 0 {
            shifted |= reached[from - 1] >> (64 - bits);
        }
        reached[to] |= shifted;
    }
}

/// The bound T + 1, if unions and weights refute T.
pub(crate) fn proven(
    problem: &Problem,
    threshold: Time,
    unions: &[ForcedPair],
    weights: &[u64],
    rounding: u32,
) -> Result<Time, String> {
    let (ops, devices) = (problem.graph.op_count(), problem.hardware.device_count());
    if weights.len() != devices || weights.iter().any(|&w| w > MOST_WEIGHT) {
        return Err(format!("it needs one weight up to {MOST_WEIGHT} for each of {devices} devices"));
    }
    if rounding > MOST_ROUNDING || threshold > Time::LONGEST_INPUT {
        return Err("its rounding or its threshold is out of range".to_owned());
    }
    if unions.len() >= ops.max(1) {
        return Err("there are fewer unions than ops".to_owned());
    }
    let mut clusters = Clusters::new(problem, threshold)?;
    for (number, union) in unions.iter().enumerate() {
        let known = union.one.index() < ops && union.other.index() < ops;
        if !known || !clusters.try_unite(*union) {
            return Err(format!("union {number} does not follow"));
        }
    }
    if !clusters.exceed_capacity(weights, rounding, &clusters.longest_loads()) {
        return Err("the clusters still fit the devices".to_owned());
    }
    Ok(Time(threshold.0 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_reached_with_and_without_each_amount() {
        let mut reached = vec![1u64, 0, 0];
        for amount in [3, 64, 70] {
            shift_and_add(&mut reached, amount);
        }
        let sums: Vec<usize> = (0..192).filter(|&i| reached[i / 64] >> (i % 64) & 1 == 1).collect();
        assert_eq!(sums, [0, 3, 64, 67, 70, 73, 134, 137]);
    }
}
