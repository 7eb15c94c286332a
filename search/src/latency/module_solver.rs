//! The solvers of subproblems that MILP-SPLIT and LBound choose from by `--inner`.

use std::ops::ControlFlow;

use divvy_proof::frontier_search;
use divvy_proof::frontier_search::levels::{FrontierSettings, search};
use divvy_proof::frontier_search::tails::Tails;
use divvy_proof::latency_tables::NEVER;

use crate::highs::attested_by;
use crate::latency::mip;
use crate::latency::mip::{MipLimits, MipResult};
use crate::latency::subproblem::Subproblem;

/// An exact solver of subproblems, given time.
pub(crate) trait ModuleSolver: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// To whom its bounds are attested.
    fn attested_by(&self) -> String;
    /// The best schedule and bound of a subproblem within the limits. Schedules longer than `cutoff` are not sought:
    /// a bound that reaches it ends the solve.
    fn solve(&self, part: &Subproblem<'_>, cutoff: Option<u64>, limits: &MipLimits<'_>) -> MipResult;
}

/// All solvers; the first is the default.
const SOLVERS: &[&dyn ModuleSolver] = &[&HighsSolver, &DominanceSolver];

/// Their names.
pub(crate) fn names() -> Vec<&'static str> {
    SOLVERS.iter().map(|solver| solver.name()).collect()
}

/// The solver with a name; the default for no name.
pub(crate) fn solver_named(name: Option<&str>) -> Option<&'static dyn ModuleSolver> {
    SOLVERS.iter().copied().find(|solver| name.is_none_or(|name| name == solver.name()))
}

/// DiviML's mixed-integer program.
struct HighsSolver;

impl ModuleSolver for HighsSolver {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn attested_by(&self) -> String {
        attested_by()
    }

    fn solve(&self, part: &Subproblem<'_>, cutoff: Option<u64>, limits: &MipLimits<'_>) -> MipResult {
        mip::solve(part, None, cutoff, limits, &mut |_| ControlFlow::Continue(()))
    }
}

/// Dominance search, as wide as it takes to drop nothing. It does not see memory limits and colocation: subproblems
/// with either go to HiGHS.
struct DominanceSolver;

/// The beam widths, tried one after the other.
const WIDTHS: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

impl ModuleSolver for DominanceSolver {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn attested_by(&self) -> String {
        "divvy dominance search".to_owned()
    }

    fn solve(&self, part: &Subproblem<'_>, cutoff: Option<u64>, limits: &MipLimits<'_>) -> MipResult {
        if !part.colocated.is_empty() || part.memory.limits.iter().any(Option::is_some) {
            return HighsSolver.solve(part, cutoff, limits);
        }
        let frontier_part = to_frontier_subproblem(part);
        let mut solved = MipResult { best: None, bound: 0, finished: false };
        let beyond = cutoff.map_or(NEVER, |cutoff| cutoff.saturating_add(1).min(NEVER));
        for width in WIDTHS {
            let limit = solved.best.as_ref().map_or(beyond, |best| best.value);
            let settings = FrontierSettings { width, limit, weights: &[], levels: usize::MAX };
            let found = search(&frontier_part, &settings, &mut || limits.are_spent());
            solved.bound = solved.bound.max(found.lower);
            if let Some((_, steps)) = found.best {
                let mut device = vec![0; part.op_count()];
                steps.iter().for_each(|&(op, d)| device[op as usize] = d);
                let sequence: Vec<usize> = steps.iter().map(|&(op, _)| op as usize).collect();
                let better = part.schedule(&device, &sequence);
                solved.best = better.into_iter().chain(solved.best).min_by_key(|schedule| schedule.value);
            }
            solved.finished = found.exact;
            if found.exact || limits.are_spent() {
                break;
            }
        }
        solved
    }
}

/// A subproblem as the dominance search takes it: ops, releases and tails.
fn to_frontier_subproblem(part: &Subproblem<'_>) -> frontier_search::subproblem::FrontierSubproblem {
    let tails = Tails::new(part.tables, &[]);
    let mut frontier_part =
        frontier_search::subproblem::FrontierSubproblem::new(part.tables, &tails, part.ops.clone());
    for (op, allowed) in part.allowed.iter().enumerate() {
        frontier_part.restrict(op, |device| allowed.contains(&device));
    }
    frontier_part.set_releases(|op, device| part.release[op][device]);
    let own = |op: usize, device: usize| {
        part.time(op, device as u32).saturating_add(part.tail[op][device]).min(NEVER)
    };
    let devices = part.device_count();
    frontier_part.set_surroundings(vec![0; devices], own, vec![0; devices]);
    frontier_part
}
