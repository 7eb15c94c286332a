//! A finished planning run as a plan file.

use divvy_io::assemble::Assembled;
use divvy_io::plan_file::{Claim, PlanFile};
use divvy_io::source::Source;
use divvy_search::Solved;

/// The plan file of a run: plan, bounds with their evidence, problem and sources, whose paths are made absolute. None where no
/// plan was found.
pub fn plan_file(assembled: &Assembled, solved: &Solved) -> Option<PlanFile> {
    let (plan, score) = solved.outcome.best.clone()?;
    Some(PlanFile {
        problem: assembled.problem.clone(),
        plan,
        planner: solved.planner.clone(),
        found_by: solved.outcome.found_by.clone(),
        sources: assembled.sources.iter().map(absolute).collect(),
        reading: assembled.reading.clone(),
        claim: Claim::of(&score),
        certificates: solved.outcome.certificates.clone(),
        history: solved.outcome.history.clone(),
    })
}

/// A source that is found from any folder; standard input and what is built in stay as they are.
fn absolute(source: &Source) -> Source {
    match (&source.sha256, std::path::absolute(&source.path)) {
        (Some(_), Ok(path)) if source.path != "-" => {
            Source { path: path.display().to_string(), ..source.clone() }
        }
        _ => source.clone(),
    }
}
