//! Who solves a module: the seam between splitting a network and solving its parts.

use std::ops::ControlFlow;

use divvy_proof::frontier_search;
use divvy_proof::frontier_search::levels::{SearchWidth, search};
use divvy_proof::frontier_search::tails::Tails;
use divvy_proof::latency_tables::NEVER;

use crate::highs::attested_by;
use crate::latency::mip;
use crate::latency::mip::{MipLimits, MipResult};
use crate::latency::subproblem::Subproblem;

/// Solves parts exactly, given time.
pub(crate) trait ModuleSolver: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// Who vouches for its bounds.
    fn attested_by(&self) -> String;
    /// The best schedule and the best bound for a part within the limits. Schedules longer than `cutoff` are of no
    /// interest: a bound that reaches it is as good as any.
    fn solve(&self, part: &Subproblem<'_>, cutoff: Option<u64>, limits: &MipLimits<'_>) -> MipResult;
}

/// All there are; the first is the default.
pub(crate) const INNER: &[&dyn ModuleSolver] = &[&Highs, &Exact];

/// Their names.
pub(crate) fn names() -> Vec<&'static str> {
    INNER.iter().map(|solver| solver.name()).collect()
}

/// The solver of a name; the default for none.
pub(crate) fn inner(name: Option<&str>) -> Option<&'static dyn ModuleSolver> {
    INNER.iter().copied().find(|solver| name.is_none_or(|name| name == solver.name()))
}

struct Highs;

impl ModuleSolver for Highs {
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

/// The frontier search of divvy, wide enough to drop nothing. It does not see memory limits and colocation; where those
/// bind, it leaves the part to HiGHS.
struct Exact;

/// Widths tried one after the other.
const WIDTHS: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

impl ModuleSolver for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn attested_by(&self) -> String {
        "divvy dominance search".to_owned()
    }

    fn solve(&self, part: &Subproblem<'_>, cutoff: Option<u64>, limits: &MipLimits<'_>) -> MipResult {
        if !part.together.is_empty() || part.memory.limits.iter().any(Option::is_some) {
            return Highs.solve(part, cutoff, limits);
        }
        let surrounded = surrounded(part);
        let mut solved = MipResult { best: None, bound: 0, finished: false };
        let beyond = cutoff.map_or(NEVER, |cutoff| cutoff.saturating_add(1).min(NEVER));
        for width in WIDTHS {
            let limit = solved.best.as_ref().map_or(beyond, |best| best.value);
            let settings = SearchWidth { width, limit, weights: &[], levels: usize::MAX };
            let found = search(&surrounded, &settings, &mut || limits.are_spent());
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

/// The part with its releases and tails, as the frontier search takes it.
fn surrounded(part: &Subproblem<'_>) -> frontier_search::subproblem::Subproblem {
    let tails = Tails::new(part.dense, &[]);
    let mut surrounded = frontier_search::subproblem::Subproblem::new(part.dense, &tails, part.ops.clone());
    for (op, allowed) in part.allowed.iter().enumerate() {
        surrounded.restrict(op, |device| allowed.contains(&device));
    }
    surrounded.set_releases(|op, device| part.release[op][device]);
    let own = |op: usize, device: usize| {
        part.time(op, device as u32).saturating_add(part.tail[op][device]).min(NEVER)
    };
    let devices = part.device_count();
    surrounded.set_surroundings(vec![0; devices], own, vec![0; devices]);
    surrounded
}
