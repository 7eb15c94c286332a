//! `tails`, `module-tails` and `beam`: three bounds by dominance search ([`divvy_proof::frontier_search`]).
//!
//! * `tails`: for each op on each device, the longest path behind it and the area of its descendants. One backward
//!   pass.
//! * `module-tails`: raises these tails by exact or beam searches of the ops that follow each op, in growing windows.
//!   On a chain of modules with one tensor between neighbours this is the dynamic program over modules.
//! * `beam`: a beam search of the whole network with these tails. Its bound is the least value of a state that it
//!   dropped, or the optimum if it dropped none; the width grows from round to round.
//!
//! The evidence is the list of searches, which the verifier runs again in integers.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{Evidence, ProofStep};
use divvy_proof::frontier_search::recipe::{FrontierProof, MOST_WIDTH};
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::device_weights;
use crate::run::Run;

/// For each round: window and width of the searches for tails, and the width of the search of the whole network.
const ROUNDS: [(u32, u32, u32); 7] = [
    (36, 100, 300),
    (36, 400, 1_000),
    (48, 1_500, 15_000),
    (48, 5_000, 60_000),
    (60, 15_000, 200_000),
    (60, 30_000, 500_000),
    (60, 100_000, 2_000_000),
];
/// The most ops for searches.
const MOST_OPS: usize = 3_000;

pub(crate) struct TailBound;
pub(crate) struct ModuleTails;
pub(crate) struct Beam;

/// The name of the bound that the best evidence of a proof belongs to.
pub(crate) fn bound_name(evidence: &Evidence) -> &'static str {
    let Evidence::FrontierSearch { steps, .. } = evidence else { return "tails" };
    match steps.last() {
        None => "tails",
        Some(ProofStep::Tails { .. }) => "module-tails",
        Some(ProofStep::Whole { .. }) => "beam",
    }
}

impl Bound for TailBound {
    fn name(&self) -> &'static str {
        "tails"
    }

    fn about(&self) -> &'static str {
        "what must follow each op on each device: the longest path, and the area of its descendants"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn bound(&self, run: &mut Run<'_>) {
        if let Some(prover) = prover(run) {
            run.take(Proven::by_frontier_search(self.name(), &prover));
        }
    }
}

impl Bound for ModuleTails {
    fn name(&self) -> &'static str {
        "module-tails"
    }

    fn about(&self) -> &'static str {
        "the ops that follow each op, searched in growing windows"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        not_too_large(problem)
    }

    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Some(mut prover) = prover(run) else { return };
        for (window, width, _) in ROUNDS {
            let limit = run.outcome().value().unwrap_or(Time(NEVER));
            prover.raise_tails(window, width, limit, &mut || run.budget.is_spent());
            run.take(Proven::by_frontier_search(self.name(), &prover));
            if run.budget.is_spent() {
                break;
            }
        }
    }
}

impl Bound for Beam {
    fn name(&self) -> &'static str {
        "beam"
    }

    fn about(&self) -> &'static str {
        "a beam search of the whole network; the states that it drops limit the bound"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        not_too_large(problem)
    }

    fn runs(&self) -> When {
        When::Alone
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Some(mut prover) = prover(run) else { return };
        let mut limit = run.outcome().value().unwrap_or(Time(NEVER));
        for (window, tail_width, width) in ROUNDS {
            let half =
                run.budget.start.elapsed() + run.budget.time.saturating_sub(run.budget.start.elapsed()) / 2;
            prover.raise_tails(window, tail_width, limit, &mut || {
                run.budget.is_spent() || run.budget.start.elapsed() > half
            });
            let found = prover.search_whole(width.min(MOST_WIDTH), limit, &mut || run.budget.is_spent());
            run.take(Proven::by_frontier_search(self.name(), &prover));
            // The next search need not look for schedules longer than this one's.
            limit = limit.min(Time(found.best.map_or(NEVER, |(value, _)| value)));
            if run.budget.is_spent() || found.exact {
                break;
            }
        }
    }
}

fn prover(run: &Run<'_>) -> Option<FrontierProof> {
    let tables = LatencyTables::new(run.problem).ok()?;
    FrontierProof::new(run.problem, device_weights::weights(run.problem, &tables)).ok()
}

fn not_too_large(problem: &Problem) -> Result<(), String> {
    LatencyTables::new(problem)?;
    match problem.graph.op_count() {
        ops if ops > MOST_OPS => Err(format!("{ops} ops take too long to search, {MOST_OPS} is the most")),
        _ => Ok(()),
    }
}
