//! Proofs by frontier search: a sequence of searches, and the lower bound that running it gives.
//!
//! Each step either raises tails, in reverse topological order, by a search of the ops that follow each op (a window), or
//! searches the whole network with the tails as they are. Invariant of [`FrontierProof`]: every tail is a valid lower bound,
//! so `lower` is one too. The steps are the evidence; checking it is running them again, in integers, without anything that
//! the run which found them kept.
//!
//! An op's tail is raised to the value of a search in which the op is pinned to the device and starts at time 0, its window
//! ends no later than at an op that all others lead to (what follows that one is in its own tail), and everything outside
//! counts by tails.

use crate::evidence::{Evidence, ProofStep};
use crate::frontier_search::levels::{FrontierResult, FrontierSettings, search};
use crate::frontier_search::subproblem::FrontierSubproblem;
use crate::frontier_search::tails::Tails;
use crate::latency_tables::{LatencyTables, NEVER};
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The largest width of a step.
pub const MOST_WIDTH: u32 = 1 << 20;
/// The most steps of a proof.
const MOST_STEPS: usize = 200;

/// Tails raised by searches, the lower bound they give, and the steps so far.
pub struct FrontierProof {
    tables: LatencyTables,
    tails: Tails,
    weights: Vec<Vec<u64>>,
    steps: Vec<ProofStep>,
    lower: u64,
    /// The steps that gave the best bound.
    best: Vec<ProofStep>,
    /// Interchangeable devices: one search does for all of a group.
    interchangeable: Vec<Vec<u32>>,
    /// Lower bounds from the beginning of the schedule to the end of each op on each device: tails of the reversed problem.
    heads: Tails,
    /// Whether only ops with several successors are searched: the tail of a single successor says what follows it.
    only_forks: bool,
}

impl FrontierProof {
    /// Starts from tails by paths and by areas under the given weights; each list has one weight for each device.
    pub fn new(problem: &Problem, weights: Vec<Vec<u64>>) -> Result<FrontierProof, String> {
        FrontierProof::of(problem, LatencyTables::new(problem)?, weights)
    }

    /// As [`FrontierProof::new`] with all weights resident, which relaxes `cold-start` too. Ops are searched only where paths
    /// fork, since those networks have thousands of ops in chains.
    pub fn with_resident_weights(problem: &Problem, weights: Vec<Vec<u64>>) -> Result<FrontierProof, String> {
        Ok(FrontierProof {
            only_forks: true,
            ..FrontierProof::of(problem, LatencyTables::with_resident_weights(problem)?, weights)?
        })
    }

    fn of(problem: &Problem, tables: LatencyTables, weights: Vec<Vec<u64>>) -> Result<FrontierProof, String> {
        let heaviest = tables.heaviest_weights();
        for weights in &weights {
            if weights.len() != tables.device_count() {
                return Err(format!("{} weights for {} devices", weights.len(), tables.device_count()));
            }
            if weights.iter().try_fold(0u64, |sum, &w| sum.checked_add(w)).is_none_or(|sum| sum > heaviest) {
                return Err(format!("weights that add up to more than {heaviest}"));
            }
        }
        let tails = Tails::new(&tables, &weights);
        let heads = Tails::new(&tables.reversed(), &weights);
        let interchangeable = interchangeable(problem);
        let (steps, best) = (Vec::new(), Vec::new());
        let mut proof = FrontierProof {
            tables,
            tails,
            weights,
            steps,
            lower: 0,
            best,
            interchangeable,
            heads,
            only_forks: false,
        };
        proof.bound_from_tails();
        Ok(proof)
    }

    /// The problem as tables.
    pub fn tables(&self) -> &LatencyTables {
        &self.tables
    }

    /// The tails as they are.
    pub fn tails(&self) -> &Tails {
        &self.tails
    }

    /// The device weights of the area estimates.
    pub fn weights(&self) -> &[Vec<u64>] {
        &self.weights
    }

    /// The steps so far.
    pub fn steps(&self) -> &[ProofStep] {
        &self.steps
    }

    /// The best lower bound so far.
    pub fn lower(&self) -> Time {
        Time(self.lower)
    }

    /// The evidence of the best bound.
    pub fn evidence(&self) -> Evidence {
        Evidence::FrontierSearch { weights: self.weights.clone(), steps: self.best.clone() }
    }

    /// Raises tails by searches of windows of `window` ops, from the last op on; returns the number of ops done.
    pub fn raise_tails(
        &mut self,
        window: u32,
        width: u32,
        limit: Time,
        stop: &mut dyn FnMut() -> bool,
    ) -> u32 {
        let order: Vec<u32> = self.tables.order().iter().rev().copied().collect();
        let done = self.raise_some(&order, window, width, limit, stop);
        if done > 0 {
            self.steps.push(ProofStep::Tails { window, width, limit_ps: limit, ops: done });
            self.bound_from_tails();
        }
        done
    }

    /// As [`FrontierProof::raise_tails`], for the ops of `order`, without a step.
    fn raise_some(
        &mut self,
        order: &[u32],
        window: u32,
        width: u32,
        limit: Time,
        stop: &mut dyn FnMut() -> bool,
    ) -> u32 {
        let interchangeable = self.interchangeable.clone();
        for (done, &op) in order.iter().enumerate() {
            let before = self.tails.all_of(op as usize).to_vec();
            self.tails.refresh(&self.tables, op as usize);
            if self.only_forks && self.tables.outputs(op as usize).len() < 2 {
                continue;
            }
            let ops = self.following(op, window as usize);
            for devices in &interchangeable {
                if self.tables.time(op as usize, devices[0] as usize) >= NEVER {
                    continue;
                }
                // A tail above the limit less the head changes nothing.
                let head = self.heads.of(op as usize, devices[0] as usize)
                    - self.tables.time(op as usize, devices[0] as usize);
                let limit = limit.0.saturating_sub(head);
                if self.tails.of(op as usize, devices[0] as usize) >= limit {
                    continue;
                }
                let mut subproblem = FrontierSubproblem::new(&self.tables, &self.tails, ops.clone());
                subproblem.set_releases(|_, _| 0);
                subproblem.pin(0, devices[0]);
                let settings = FrontierSettings {
                    width: width as usize,
                    limit,
                    weights: &self.weights,
                    levels: usize::MAX,
                };
                let found = search(&subproblem, &settings, stop);
                if found.levels < ops.len() {
                    // The step says how many ops were done, so this one must not count.
                    self.tails.restore(op as usize, &before);
                    return done as u32;
                }
                for &device in devices {
                    self.tails.raise(op as usize, device as usize, found.lower);
                }
            }
        }
        order.len() as u32
    }

    /// The window of an op: it and the next ops, in canonical order, that depend on it, up to one that all others lead to.
    fn following(&self, op: u32, count: usize) -> Vec<u32> {
        let mut follows = vec![false; self.tables.op_count()];
        follows[op as usize] = true;
        let mut ops = vec![op];
        let order = self.tables.order();
        let first = order.iter().position(|&other| other == op).map_or(0, |place| place + 1);
        for &next in &order[first..] {
            if ops.len() >= count {
                break;
            }
            if self.tables.inputs(next as usize).iter().any(|edge| follows[edge.op as usize]) {
                follows[next as usize] = true;
                ops.push(next);
                let leads_on = |op: &u32| {
                    self.tables.outputs(*op as usize).iter().any(|edge| !follows[edge.op as usize])
                };
                if ops.iter().filter(|&op| leads_on(op)).all(|&op| op == next) {
                    break;
                }
            }
        }
        ops
    }

    /// Searches the whole network, or as many levels as `stop` allows.
    pub fn search_whole(
        &mut self,
        width: u32,
        limit: Time,
        stop: &mut dyn FnMut() -> bool,
    ) -> FrontierResult {
        self.search_levels(width, limit, usize::MAX, stop)
    }

    fn search_levels(
        &mut self,
        width: u32,
        limit: Time,
        levels: usize,
        stop: &mut dyn FnMut() -> bool,
    ) -> FrontierResult {
        let subproblem = FrontierSubproblem::new(&self.tables, &self.tails, self.tables.order().to_vec());
        let settings =
            FrontierSettings { width: width as usize, limit: limit.0, weights: &self.weights, levels };
        let found = search(&subproblem, &settings, stop);
        if found.lower > self.lower {
            self.lower = found.lower;
            self.best = self.steps.clone();
            let levels = found.levels as u32;
            self.best.push(ProofStep::Whole { width, limit_ps: limit, levels });
        }
        found
    }

    /// Takes the bound that the tails give by themselves: the largest, over ops, of the least release + tail.
    fn bound_from_tails(&mut self) {
        let start = |op: usize| {
            let devices = self.tables.allowed(op).iter().map(|&d| d as usize);
            devices.map(|d| self.tables.release(op, d).saturating_add(self.tails.of(op, d))).min()
        };
        let lower =
            (0..self.tables.op_count()).filter_map(start).filter(|&lower| lower < NEVER).max().unwrap_or(0);
        if lower > self.lower {
            self.lower = lower;
            self.best = self.steps.clone();
        }
    }
}

/// The bound of a sequence of searches.
pub(crate) fn proven(problem: &Problem, weights: &[Vec<u64>], steps: &[ProofStep]) -> Result<Time, String> {
    follow(problem, weights, steps).map(|proof| proof.lower())
}

/// Runs a sequence of searches from the initial tails.
pub(crate) fn follow(
    problem: &Problem,
    weights: &[Vec<u64>],
    steps: &[ProofStep],
) -> Result<FrontierProof, String> {
    follow_with(FrontierProof::new(problem, weights.to_vec())?, steps)
}

/// Runs a sequence of searches on top of a proof.
pub(crate) fn follow_with(mut proof: FrontierProof, steps: &[ProofStep]) -> Result<FrontierProof, String> {
    if steps.len() > MOST_STEPS {
        return Err(format!("a proof of more than {MOST_STEPS} steps"));
    }
    for step in steps {
        let (ProofStep::Tails { width, limit_ps, .. } | ProofStep::Whole { width, limit_ps, .. }) = step;
        if !(1..=MOST_WIDTH).contains(width) || limit_ps.0 > NEVER {
            return Err("a step whose width or limit is out of range".to_owned());
        }
        match *step {
            ProofStep::Tails { window, width, limit_ps, ops } => {
                let order: Vec<u32> = proof.tables.order().iter().rev().take(ops as usize).copied().collect();
                proof.raise_some(&order, window, width, limit_ps, &mut || false);
                proof.bound_from_tails();
            }
            ProofStep::Whole { width, limit_ps, levels } => {
                proof.search_levels(width, limit_ps, levels as usize, &mut || false);
            }
        }
    }
    Ok(proof)
}

/// Groups of interchangeable devices; every device by itself where a constraint names one.
fn interchangeable(problem: &Problem) -> Vec<Vec<u32>> {
    let constraints = &problem.constraints;
    let told_apart = !constraints.pins.is_empty()
        || !constraints.forbids.is_empty()
        || constraints.input_at.is_some()
        || constraints.output_at.is_some();
    if told_apart {
        return problem.hardware.devices().map(|device| vec![device.0]).collect();
    }
    let groups = problem.hardware.interchangeable().into_iter();
    groups.map(|group| group.into_iter().map(|device| device.0).collect()).collect()
}
