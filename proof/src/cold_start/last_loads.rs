//! Last loads: what must have crossed the buses of a `cold-start` before the last τ of the schedule.
//!
//! For weights w ≥ 0 of links and buses, Σ w·busy ≤ C · Σ w, because each of them does one thing at a time. An op with a tail ≥ τ
//! starts no later than C − τ. By then each of its parameters was loaded to some device; or the op reads in place, holds the
//! links of its host route, and ends no later than C minus what follows its end, so all but the excess of that time lies before
//! C − τ too. So C ≥ τ + Σ_ops min(in-place time · w(route), Σ_params load time · w(route)) / Σ w, each minimised over devices.
//! τ = 0 counts all parameters. With contention as in the paper, reads in place hold no bus.
//!
//! The tail of an op on a device is the longest path of ops behind it, each on its best device, with copies between devices
//! paid: whichever op pays for a copy, every reader there ends after it. Frontier searches with all weights resident may raise
//! tails, since branches cannot all run at once where copies take time. A parameter with several readers counts for one of
//! them. An op that may run in host memory may need no bus and counts 0.
//!
//! Complexity: edges · devices² for the tails, then linear in parameters and devices for each τ.

use crate::evidence::{Evidence, ProofStep};
use crate::frontier_search::recipe::{FrontierProof, follow_with};
use crate::latency_tables::way_out;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::problem::{Contention, Objective, Problem};
use divvy_core::units::Time;

/// With more devices than this, copies between them count 0.
const EXACT_PAIRS: usize = 16;

/// The tails of the ops of a problem, from which the bound of any τ and any weights follows.
pub struct LastLoadArgument<'a> {
    problem: &'a Problem,
    contention: Contention,
    /// The device weights and the steps of the searches that raised tails.
    searches: (Vec<Vec<u64>>, Vec<ProofStep>),
    in_host: Vec<bool>,
    /// For each op and device that may run it, a lower bound from its end to the end of the schedule.
    behind_end: Vec<Vec<Option<u64>>>,
    /// For each op, a lower bound from its start to the end of the schedule.
    behind_start: Vec<u64>,
}

impl<'a> LastLoadArgument<'a> {
    /// Computes the tails; fails for other objectives, and where an op has no device from which the schedule can end.
    pub fn new(problem: &'a Problem) -> Result<LastLoadArgument<'a>, String> {
        LastLoadArgument::with_searches(problem, None)
    }

    /// As [`LastLoadArgument::new`], with the tails of a frontier proof with all weights resident.
    pub fn with_searches(
        problem: &'a Problem,
        proof: Option<&FrontierProof>,
    ) -> Result<LastLoadArgument<'a>, String> {
        let Objective::ColdStart { contention, .. } = problem.objective else {
            return Err("weights are resident except under cold-start".to_owned());
        };
        let graph = &problem.graph;
        let hardware = &problem.hardware;
        let in_host = |d: DeviceId| hardware.host_route(d).is_some_and(|route| route.bandwidth.is_none());
        let mut all = LastLoadArgument {
            problem,
            contention,
            searches: proof.map_or_else(Default::default, |p| (p.weights().to_vec(), p.steps().to_vec())),
            in_host: hardware.devices().map(in_host).collect(),
            behind_end: vec![vec![None; hardware.device_count()]; graph.op_count()],
            behind_start: vec![0; graph.op_count()],
        };
        for &op in graph.order().iter().rev() {
            let mut least = None;
            for (device, time) in problem.times_of(op) {
                let Some(behind) = all.after(op, device) else { continue };
                let tail = proof.map_or(0, |proof| proof.tails().of(op.index(), device.index()));
                let behind = behind.max(tail.saturating_sub(time.0));
                all.behind_end[op.index()][device.index()] = Some(behind);
                let whole = behind + time.0;
                least = Some(least.map_or(whole, |least: u64| least.min(whole)));
            }
            let stuck = || format!("`{}` has no device from which the plan could go on", graph.op_name(op));
            all.behind_start[op.index()] = least.ok_or_else(stuck)?;
        }
        Ok(all)
    }

    /// A lower bound from the end of an op on a device to the end of the schedule.
    fn after(&self, op: OpId, device: DeviceId) -> Option<u64> {
        let problem = self.problem;
        let graph = &problem.graph;
        let mut longest = way_out(problem, op, device)?.0;
        let exact = problem.hardware.device_count() <= EXACT_PAIRS;
        for &tensor in graph.outputs(op) {
            let bytes = graph.tensor_bytes(tensor);
            for &reader in graph.consumers(tensor) {
                let ends = problem.times_of(reader).filter_map(|(to, time)| {
                    let copy = if to == device || !exact {
                        problem.hardware.route(device, to).map(|_| 0)
                    } else {
                        problem.peer_copy_time(bytes, device, to).map(|copy| copy.0)
                    };
                    Some(copy? + time.0 + self.behind_end[reader.index()][to.index()]?)
                });
                longest = longest.max(ends.min()?);
            }
        }
        Some(longest)
    }

    /// A lower bound from the end of an op on a device to the end of the schedule; none where it may not run.
    pub(super) fn behind_end(&self, op: OpId, device: DeviceId) -> Option<u64> {
        self.behind_end[op.index()][device.index()]
    }

    /// The least of these over all devices.
    pub(super) fn least_behind_end(&self, op: OpId) -> u64 {
        self.behind_end[op.index()].iter().flatten().copied().min().unwrap_or(0)
    }

    /// The evidence of link weights at a τ.
    pub fn evidence(&self, weights: Vec<u64>, left_ps: Time) -> Evidence {
        let (shares, steps) = self.searches.clone();
        Evidence::LastLoads { weights, left_ps, shares, steps }
    }

    /// The values of τ worth trying: the tail of some op, and 0.
    pub fn candidate_times_left(&self) -> Vec<Time> {
        let mut times: Vec<Time> = self.behind_start.iter().map(|&time| Time(time)).collect();
        times.push(Time::ZERO);
        times.sort_unstable();
        times.dedup();
        times
    }

    /// The bound of link weights at τ = `left`.
    pub fn proven(&self, weights: &[u64], left: Time) -> Result<Time, String> {
        const MOST_WEIGHT: u64 = 1 << 32;
        let links = self.problem.hardware.links().len();
        if weights.len() != links || weights.iter().any(|&w| w > MOST_WEIGHT) {
            return Err(format!("it needs one weight up to {MOST_WEIGHT} for each of {links} links"));
        }
        let divisor: u128 = weights.iter().map(|&w| u128::from(w)).sum();
        if divisor == 0 {
            return Err("all weights are zero".to_owned());
        }
        if self.behind_start.iter().all(|&behind| behind < left.0) {
            return Err("no op has so long a tail".to_owned());
        }
        let weight_to: Vec<Option<u128>> = (self.problem.hardware.devices())
            .map(|d| {
                let route = self.problem.hardware.host_route(d).filter(|route| route.bandwidth.is_some())?;
                Some(route.media().map(|link| u128::from(weights[link.index()])).sum())
            })
            .collect();
        let mut loads = vec![0u128; self.problem.graph.op_count()];
        for param in self.problem.graph.params() {
            if let Some(reader) = self.reader(param, left) {
                loads[reader.index()] += self.load(param, &weight_to);
            }
        }
        let mut sum = 0u128;
        for op in self.problem.graph.ops().filter(|op| loads[op.index()] > 0) {
            if self.problem.devices_for(op).any(|d| self.in_host[d.index()]) {
                continue;
            }
            sum += loads[op.index()].min(self.read(op, left, &weight_to));
        }
        let value = sum.div_ceil(divisor) + u128::from(left.0);
        u64::try_from(value).map(Time).map_err(|_| "it proves a time out of range".to_owned())
    }

    /// The reader that a parameter counts for: of those with a tail ≥ τ, the one that reads most in place.
    fn reader(&self, param: ParamId, left: Time) -> Option<OpId> {
        let graph = &self.problem.graph;
        let readers = graph.readers(param).iter().copied();
        let bytes = |op: OpId| graph.op(op).in_place_bytes.unwrap_or_else(|| graph.weight_bytes(op));
        readers.filter(|op| self.behind_start[op.index()] >= left.0).max_by_key(|&op| (bytes(op), op))
    }

    /// The least weighted time of a load.
    fn load(&self, param: ParamId, weight_to: &[Option<u128>]) -> u128 {
        let times = self.problem.hardware.devices().filter_map(|via| {
            let weight = weight_to[via.index()]?;
            Some(u128::from(self.problem.load_time(param, via)?.0.0) * weight)
        });
        times.min().unwrap_or(0)
    }

    /// The least weighted time for which an op that reads in place holds buses before C − τ.
    fn read(&self, op: OpId, left: Time, weight_to: &[Option<u128>]) -> u128 {
        let reads = self.problem.devices_for(op).filter_map(|device| {
            let weight = weight_to[device.index()]?;
            Some(u128::from(self.held_before(op, device, left)?) * weight)
        });
        reads.min().unwrap_or(if self.contention == Contention::Paper { 0 } else { u128::MAX })
    }

    /// How long an op that reads in place on a device holds its buses before C − τ.
    fn held_before(&self, op: OpId, device: DeviceId, left: Time) -> Option<u64> {
        if self.contention == Contention::Paper {
            return Some(0);
        }
        let (whole, _) = self.problem.in_place_time(op, device)?;
        let behind = self.behind_end[op.index()][device.index()]?;
        Some((whole.0 + behind).saturating_sub(left.0).min(whole.0))
    }
}

/// The bound of link weights at τ = `left`, with tails raised by searches.
pub(crate) fn proven(
    problem: &Problem,
    weights: &[u64],
    left: Time,
    shares: &[Vec<u64>],
    steps: &[ProofStep],
) -> Result<Time, String> {
    if steps.is_empty() {
        return LastLoadArgument::new(problem)?.proven(weights, left);
    }
    let proof = follow_with(FrontierProof::with_resident_weights(problem, shares.to_vec())?, steps)?;
    LastLoadArgument::with_searches(problem, Some(&proof))?.proven(weights, left)
}
