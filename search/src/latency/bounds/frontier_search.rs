//! `tails`, `module-tails` and `beam`: what frontier searches prove, from a blink to all the time there is.
//!
//! `tails` counts, from the start of each op on each device, what must follow: chains with their transfers, and the area
//! of all ops after it. `module-tails` searches what follows each op exactly or nearly so, in growing windows; on
//! networks of modules in a row with one tensor between them that is the dynamic program over modules. `beam` searches
//! the whole network with those tails, wider and wider: the least value that a partial schedule it dropped could
//! have had is a bound. All are checked by `core`, which follows the same steps.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{Evidence, ProofStep};
use divvy_proof::frontier_search::recipe::{MOST_ROWS, FrontierProof};
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::device_weights;
use crate::run::Run;

/// Windows and widths for tails, and the width of the search of the whole.
const ROUNDS: [(u32, u32, u32); 7] = [
    (36, 100, 300),
    (36, 400, 1_000),
    (48, 1_500, 15_000),
    (48, 5_000, 60_000),
    (60, 15_000, 200_000),
    (60, 30_000, 500_000),
    (60, 100_000, 2_000_000),
];
/// Past this many ops nothing but plain tails is worked out.
const MOST_OPS: usize = 3_000;

pub(crate) struct TailBound;
pub(crate) struct ModuleTails;
pub(crate) struct Beam;

/// The name of the bound that a prover's best evidence belongs to.
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
        "what must follow each op on each device: chains with transfers, and the area of all that follows"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn bound(&self, run: &mut Run<'_>) {
        if let Some(prover) = prover(run) {
            run.take(Proven::by_searches(self.name(), &prover));
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
            run.take(Proven::by_searches(self.name(), &prover));
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
        "the whole network, searched wider and wider; what was dropped limits the bound"
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
            let found = prover.search_whole(width.min(MOST_ROWS), limit, &mut || run.budget.is_spent());
            run.take(Proven::by_searches(self.name(), &prover));
            // What one search found is what the next need not look beyond.
            limit = limit.min(Time(found.best.map_or(NEVER, |(value, _)| value)));
            if run.budget.is_spent() || found.exact {
                break;
            }
        }
    }
}

fn prover(run: &Run<'_>) -> Option<FrontierProof> {
    let dense = LatencyTables::new(run.problem).ok()?;
    FrontierProof::new(run.problem, device_weights::weights(run.problem, &dense)).ok()
}

fn not_too_large(problem: &Problem) -> Result<(), String> {
    LatencyTables::new(problem)?;
    match problem.graph.op_count() {
        ops if ops > MOST_OPS => Err(format!("{ops} ops take too long to search, {MOST_OPS} is the most")),
        _ => Ok(()),
    }
}
