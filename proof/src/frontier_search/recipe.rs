//! Proofs by frontier search: a recipe of searches, and the lower bound that following it gives.
//!
//! Each step either raises tails, from the last op to the first, by searching the ops that follow next (a window), or
//! searches the whole network with the tails as they are. The recipe is the evidence: to check it is to follow it
//! again, here, in integers. Nothing that made the recipe need be believed.

use crate::evidence::{Evidence, ProofStep};
use crate::frontier_search::levels::{FrontierResult, SearchWidth, search};
use crate::frontier_search::subproblem::Subproblem;
use crate::frontier_search::tails::Tails;
use crate::latency_tables::{LatencyTables, NEVER};
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The most rows that a step may keep.
pub const MOST_ROWS: u32 = 1 << 20;
/// The most steps of a recipe.
const MOST_STEPS: usize = 200;

/// Searches that raise a lower bound, and what was done so far.
pub struct FrontierProof {
    dense: LatencyTables,
    tails: Tails,
    weights: Vec<Vec<u64>>,
    steps: Vec<ProofStep>,
    lower: u64,
    /// How the best bound came about.
    best: Vec<ProofStep>,
    /// Devices that cannot be told apart, by the first of each kind.
    alike: Vec<Vec<u32>>,
    /// From the beginning of everything to the end of each op on each device, at least.
    heads: Tails,
    /// Whether only ops that several others wait for are searched: what follows a single consumer is in its own tail.
    only_forks: bool,
}

impl FrontierProof {
    /// Starts from tails by chains and by areas under the given weights; each list has one weight for each device.
    pub fn new(problem: &Problem, weights: Vec<Vec<u64>>) -> Result<FrontierProof, String> {
        FrontierProof::of(problem, LatencyTables::new(problem)?, weights)
    }

    /// As [`FrontierProof::new`], as if all weights were resident: what it says of kernels holds for `cold-start` too. Ops are
    /// searched only where branches part, since those networks have thousands of ops in chains.
    pub fn of_kernels(problem: &Problem, weights: Vec<Vec<u64>>) -> Result<FrontierProof, String> {
        Ok(FrontierProof { only_forks: true, ..FrontierProof::of(problem, LatencyTables::of_kernels(problem)?, weights)? })
    }

    fn of(problem: &Problem, dense: LatencyTables, weights: Vec<Vec<u64>>) -> Result<FrontierProof, String> {
        let heaviest = dense.heaviest_weights();
        for weights in &weights {
            if weights.len() != dense.device_count() {
                return Err(format!("{} weights for {} devices", weights.len(), dense.device_count()));
            }
            if weights.iter().try_fold(0u64, |sum, &w| sum.checked_add(w)).is_none_or(|sum| sum > heaviest) {
                return Err(format!("weights that add up to more than {heaviest}"));
            }
        }
        let tails = Tails::new(&dense, &weights);
        let heads = Tails::new(&dense.reversed(), &weights);
        let alike = alike(problem);
        let (steps, best) = (Vec::new(), Vec::new());
        let mut prover =
            FrontierProof { dense, tails, weights, steps, lower: 0, best, alike, heads, only_forks: false };
        prover.take_tails();
        Ok(prover)
    }

    /// The problem in numbers.
    pub fn dense(&self) -> &LatencyTables {
        &self.dense
    }

    /// The tails as they are.
    pub fn tails(&self) -> &Tails {
        &self.tails
    }

    /// The weights of the devices.
    pub fn weights(&self) -> &[Vec<u64>] {
        &self.weights
    }

    /// What was done so far.
    pub fn steps(&self) -> &[ProofStep] {
        &self.steps
    }

    /// No schedule ends before this.
    pub fn lower(&self) -> Time {
        Time(self.lower)
    }

    /// How the bound came about.
    pub fn evidence(&self) -> Evidence {
        Evidence::FrontierSearch { weights: self.weights.clone(), steps: self.best.clone() }
    }

    /// Searches the `window` ops that follow each op, from the last op on; says how many ops it got to.
    pub fn raise_tails(
        &mut self,
        window: u32,
        width: u32,
        limit: Time,
        stop: &mut dyn FnMut() -> bool,
    ) -> u32 {
        let order: Vec<u32> = self.dense.order().iter().rev().copied().collect();
        let done = self.raise_some(&order, window, width, limit, stop);
        if done > 0 {
            self.steps.push(ProofStep::Tails { window, width, limit_ps: limit, ops: done });
            self.take_tails();
        }
        done
    }

    fn raise_some(
        &mut self,
        order: &[u32],
        window: u32,
        width: u32,
        limit: Time,
        stop: &mut dyn FnMut() -> bool,
    ) -> u32 {
        let alike = self.alike.clone();
        for (done, &op) in order.iter().enumerate() {
            let before = self.tails.all_of(op as usize).to_vec();
            self.tails.refresh(&self.dense, op as usize);
            if self.only_forks && self.dense.outputs(op as usize).len() < 2 {
                continue;
            }
            let ops = self.following(op, window as usize);
            for devices in &alike {
                if self.dense.time(op as usize, devices[0] as usize) >= NEVER {
                    continue;
                }
                // An op that cannot start early enough for the limit needs no longer tail.
                let head = self.heads.of(op as usize, devices[0] as usize)
                    - self.dense.time(op as usize, devices[0] as usize);
                let limit = limit.0.saturating_sub(head);
                if self.tails.of(op as usize, devices[0] as usize) >= limit {
                    continue;
                }
                let mut part = Subproblem::new(&self.dense, &self.tails, ops.clone());
                part.set_releases(|_, _| 0);
                part.pin(0, devices[0]);
                let settings =
                    SearchWidth { width: width as usize, limit, weights: &self.weights, levels: usize::MAX };
                let found = search(&part, &settings, stop);
                if found.levels < ops.len() {
                    // What counts is what the recipe says.
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

    /// An op and the next ops, in canonical order, that depend on it; no further than to one that all the others lead to,
    /// since what follows that one is in its own tail.
    fn following(&self, op: u32, count: usize) -> Vec<u32> {
        let mut follows = vec![false; self.dense.op_count()];
        follows[op as usize] = true;
        let mut ops = vec![op];
        let order = self.dense.order();
        let first = order.iter().position(|&other| other == op).map_or(0, |place| place + 1);
        for &next in &order[first..] {
            if ops.len() >= count {
                break;
            }
            if self.dense.inputs(next as usize).iter().any(|edge| follows[edge.op as usize]) {
                follows[next as usize] = true;
                ops.push(next);
                let leads_on =
                    |op: &u32| self.dense.outputs(*op as usize).iter().any(|edge| !follows[edge.op as usize]);
                if ops.iter().filter(|&op| leads_on(op)).all(|&op| op == next) {
                    break;
                }
            }
        }
        ops
    }

    /// Searches the whole network, or as much of it as it has time for.
    pub fn search_whole(&mut self, width: u32, limit: Time, stop: &mut dyn FnMut() -> bool) -> FrontierResult {
        self.search_levels(width, limit, usize::MAX, stop)
    }

    fn search_levels(
        &mut self,
        width: u32,
        limit: Time,
        levels: usize,
        stop: &mut dyn FnMut() -> bool,
    ) -> FrontierResult {
        let part = Subproblem::new(&self.dense, &self.tails, self.dense.order().to_vec());
        let settings = SearchWidth { width: width as usize, limit: limit.0, weights: &self.weights, levels };
        let found = search(&part, &settings, stop);
        if found.lower > self.lower {
            self.lower = found.lower;
            self.best = self.steps.clone();
            let levels = found.levels as u32;
            self.best.push(ProofStep::Whole { width, limit_ps: limit, levels });
        }
        found
    }

    /// The best bound that the tails give by themselves.
    fn take_tails(&mut self) {
        let start = |op: usize| {
            let devices = self.dense.allowed(op).iter().map(|&d| d as usize);
            devices.map(|d| self.dense.release(op, d).saturating_add(self.tails.of(op, d))).min()
        };
        let lower =
            (0..self.dense.op_count()).filter_map(start).filter(|&lower| lower < NEVER).max().unwrap_or(0);
        if lower > self.lower {
            self.lower = lower;
            self.best = self.steps.clone();
        }
    }
}

/// What following a recipe proves.
pub(crate) fn proven(problem: &Problem, weights: &[Vec<u64>], steps: &[ProofStep]) -> Result<Time, String> {
    follow(problem, weights, steps).map(|prover| prover.lower())
}

/// Follows a recipe.
pub(crate) fn follow(problem: &Problem, weights: &[Vec<u64>], steps: &[ProofStep]) -> Result<FrontierProof, String> {
    follow_with(FrontierProof::new(problem, weights.to_vec())?, steps)
}

/// Follows a recipe from where a prover is.
pub(crate) fn follow_with(mut prover: FrontierProof, steps: &[ProofStep]) -> Result<FrontierProof, String> {
    if steps.len() > MOST_STEPS {
        return Err(format!("a recipe of more than {MOST_STEPS} steps"));
    }
    for step in steps {
        let (ProofStep::Tails { width, limit_ps, .. } | ProofStep::Whole { width, limit_ps, .. }) = step;
        if !(1..=MOST_ROWS).contains(width) || limit_ps.0 > NEVER {
            return Err("a step whose width or limit is out of range".to_owned());
        }
        match *step {
            ProofStep::Tails { window, width, limit_ps, ops } => {
                let order: Vec<u32> = prover.dense.order().iter().rev().take(ops as usize).copied().collect();
                prover.raise_some(&order, window, width, limit_ps, &mut || false);
                prover.take_tails();
            }
            ProofStep::Whole { width, limit_ps, levels } => {
                prover.search_levels(width, limit_ps, levels as usize, &mut || false);
            }
        }
    }
    Ok(prover)
}

/// Groups of devices that cannot be told apart, where no constraint tells them apart either.
fn alike(problem: &Problem) -> Vec<Vec<u32>> {
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
