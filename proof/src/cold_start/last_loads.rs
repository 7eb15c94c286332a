//! What must have crossed the buses of a cold start by the time when so much is still to do.
//!
//! An op with at least τ behind its start starts no later than τ before the end, so by then its parameters have
//! landed. If it reads in place it holds the buses to its device instead, and it ends no later than what is behind its
//! end before the end of the plan, so that all but the rest of its time lies before that moment too. Weights for links
//! and buses make one sum of it, as for the bytes of the whole network (`certificate/bus.rs`), which is the case τ = 0:
//! the plan takes at least τ plus that sum over the sum of the weights.
//!
//! What is behind an op on a device is the longest chain of kernels behind it, each on the device that suits it best
//! with copies between devices paid: whichever op pays for a copy, every reader there ends after it. A parameter with
//! several readers is counted for one of them. An op that may run in host memory may need no bus at all. Searches of
//! what follows each op (`frontier`), with all weights resident, may say that more is behind it: branches cannot all
//! run at once where copies between devices take time.

use crate::evidence::{Evidence, ProofStep};
use crate::frontier_search::recipe::{FrontierProof, follow_with};
use crate::latency_tables::way_out;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::problem::{Contention, Objective, Problem};
use divvy_core::units::Time;

/// Past this many devices copies between them are not counted.
const EXACT_PAIRS: usize = 16;

/// What some op must have got over the buses.
pub struct Demand {
    /// For each of its parameters, the time to load it to each device.
    pub loads: Vec<Vec<(DeviceId, Time)>>,
    /// How long it holds the buses to each device before the moment if it reads in place instead.
    pub reads: Vec<(DeviceId, Time)>,
}

/// The chains behind the ops of a problem.
pub struct LastLoadArgument<'a> {
    problem: &'a Problem,
    contention: Contention,
    /// The weights of the devices and the steps of the searches that raised what is behind.
    searches: (Vec<Vec<u64>>, Vec<ProofStep>),
    in_host: Vec<bool>,
    /// For each op and device that may run it, the least time from its end to the end of the plan.
    behind_end: Vec<Vec<Option<u64>>>,
    /// For each op, the least time from its start to the end of the plan.
    behind_start: Vec<u64>,
}

impl<'a> LastLoadArgument<'a> {
    /// Works out the chains; fails for other objectives, and where no device can run an op so that its output arrives.
    pub fn new(problem: &'a Problem) -> Result<LastLoadArgument<'a>, String> {
        LastLoadArgument::with_searches(problem, None)
    }

    /// As [`LastLoadArgument::new`], with the tails of a prover that works as if all weights were resident.
    pub fn with_searches(problem: &'a Problem, prover: Option<&FrontierProof>) -> Result<LastLoadArgument<'a>, String> {
        let Objective::ColdStart { contention, .. } = problem.objective else {
            return Err("weights are resident except under cold-start".to_owned());
        };
        let graph = &problem.graph;
        let hardware = &problem.hardware;
        let in_host = |d: DeviceId| hardware.host_route(d).is_some_and(|route| route.bandwidth.is_none());
        let mut all = LastLoadArgument {
            problem,
            contention,
            searches: prover.map_or_else(Default::default, |p| (p.weights().to_vec(), p.steps().to_vec())),
            in_host: hardware.devices().map(in_host).collect(),
            behind_end: vec![vec![None; hardware.device_count()]; graph.op_count()],
            behind_start: vec![0; graph.op_count()],
        };
        for &op in graph.order().iter().rev() {
            let mut least = None;
            for (device, time) in problem.times_of(op) {
                let Some(behind) = all.after(op, device) else { continue };
                let tail = prover.map_or(0, |prover| prover.tails().of(op.index(), device.index()));
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

    /// The least time from the end of an op on a device to the end of the plan.
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

    /// The least time from the end of an op on a device to the end of the plan; none where it may not run.
    pub(super) fn behind_end(&self, op: OpId, device: DeviceId) -> Option<u64> {
        self.behind_end[op.index()][device.index()]
    }

    /// The least of them over all devices.
    pub(super) fn least_behind_end(&self, op: OpId) -> u64 {
        self.behind_end[op.index()].iter().flatten().copied().min().unwrap_or(0)
    }

    /// The evidence for what weights for the links prove of a moment.
    pub fn evidence(&self, weights: Vec<u64>, left_ps: Time) -> Evidence {
        let (shares, steps) = self.searches.clone();
        Evidence::LastLoads { weights, left_ps, shares, steps }
    }

    /// What must have crossed the buses at the moment `left` before the end: the rows of the program of bus capacities.
    /// Each demand is met by loading all its parameters, in parts over any bus, or by reading in place. A dual solution
    /// of it, one weight for each link, is what [`LastLoadArgument::proven`] takes.
    pub fn demands(&self, left: Time) -> Vec<Demand> {
        let graph = &self.problem.graph;
        let mut params: Vec<Vec<ParamId>> = vec![Vec::new(); graph.op_count()];
        for param in graph.params() {
            if let Some(reader) = self.reader(param, left) {
                params[reader.index()].push(param);
            }
        }
        let buses = |d: &DeviceId| {
            self.problem.hardware.host_route(*d).is_some_and(|route| route.bandwidth.is_some())
        };
        let ways = |param: &ParamId| {
            let devices = self.problem.hardware.devices().filter(buses);
            devices.filter_map(|d| Some((d, self.problem.load_time(*param, d)?.0))).collect::<Vec<_>>()
        };
        let counted = graph.ops().filter(|&op| {
            let in_host = self.problem.devices_for(op).any(|d| self.in_host[d.index()]);
            !params[op.index()].is_empty() && !in_host
        });
        let demand = |op: OpId| Demand {
            loads: params[op.index()].iter().map(ways).collect(),
            reads: (self.problem.devices_for(op).filter(buses))
                .filter_map(|device| Some((device, Time(self.held_before(op, device, left)?))))
                .collect(),
        };
        counted.map(demand).collect()
    }

    /// Times that are behind the start of some op: the moments worth a look.
    pub fn moments(&self) -> Vec<Time> {
        let mut moments: Vec<Time> = self.behind_start.iter().map(|&time| Time(time)).collect();
        moments.push(Time::ZERO);
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// What weights for the links prove of the moment `left` before the end.
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
            return Err("nothing has so much behind it".to_owned());
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

    /// The reader that a parameter is counted for: of those with enough behind them, the one that reads most in place.
    fn reader(&self, param: ParamId, left: Time) -> Option<OpId> {
        let graph = &self.problem.graph;
        let readers = graph.readers(param).iter().copied();
        let bytes = |op: OpId| graph.op(op).in_place_bytes.unwrap_or_else(|| graph.weight_bytes(op));
        readers.filter(|op| self.behind_start[op.index()] >= left.0).max_by_key(|&op| (bytes(op), op))
    }

    /// The least weighted time of a load.
    fn load(&self, param: ParamId, weight_to: &[Option<u128>]) -> u128 {
        let ways = self.problem.hardware.devices().filter_map(|via| {
            let weight = weight_to[via.index()]?;
            Some(u128::from(self.problem.load_time(param, via)?.0.0) * weight)
        });
        ways.min().unwrap_or(0)
    }

    /// The least weighted time that an op in place holds buses before the moment.
    fn read(&self, op: OpId, left: Time, weight_to: &[Option<u128>]) -> u128 {
        let reads = self.problem.devices_for(op).filter_map(|device| {
            let weight = weight_to[device.index()]?;
            Some(u128::from(self.held_before(op, device, left)?) * weight)
        });
        reads.min().unwrap_or(if self.contention == Contention::Paper { 0 } else { u128::MAX })
    }

    /// How long an op in place on a device holds its buses before the moment.
    fn held_before(&self, op: OpId, device: DeviceId, left: Time) -> Option<u64> {
        if self.contention == Contention::Paper {
            return Some(0);
        }
        let (whole, _) = self.problem.in_place_time(op, device)?;
        let behind = self.behind_end[op.index()][device.index()]?;
        Some((whole.0 + behind).saturating_sub(left.0).min(whole.0))
    }
}

/// What weights for the links prove of the moment `left` before the end of every plan.
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
    let prover = follow_with(FrontierProof::of_kernels(problem, shares.to_vec())?, steps)?;
    LastLoadArgument::with_searches(problem, Some(&prover))?.proven(weights, left)
}
