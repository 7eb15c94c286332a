//! `divvy plan`.

use std::path::Path;
use std::time::Instant;

use divvy_core::outcome::Budget;
use divvy_io::file;
use divvy_io::plan_file::{Claim, PlanFile, Source};
use divvy_search::{Request, Solved, solve};

use crate::args::PlanArgs;
use crate::assemble::{Assembled, assemble};
use crate::failure::Failure;
use crate::progress::{Progress, cancel_on_interrupt};
use crate::show;

pub(crate) fn run(args: &PlanArgs) -> Result<String, Failure> {
    let (assembled, solved, seconds) = search(args, false)?;
    let problem = &assembled.problem;
    let mut text = if args.json {
        format!("{}\n", show::json(problem, &solved, seconds))
    } else {
        show::text(problem, &solved, true)
    };
    if let Some(path) = &args.output {
        let written = write(path, &assembled, &solved)?;
        if !written && !args.quiet {
            eprintln!("note: there is no plan, so `{}` was not written", path.display());
        } else if written && !args.json {
            text.push_str(&format!(
                "  written to {}; `divvy check {}` proves it\n",
                path.display(),
                path.display()
            ));
        }
    }
    Ok(text)
}

/// Puts the problem together and runs the search on it.
pub(super) fn search(args: &PlanArgs, bound_only: bool) -> Result<(Assembled, Solved, f64), Failure> {
    let start = Instant::now();
    let assembled = assemble(&args.file, &args.problem)?;
    if !args.quiet {
        assembled.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    let budget = Budget {
        start,
        seed: args.seed,
        threads: args.threads,
        cancelled: cancel_on_interrupt(),
        ..Budget::new(args.time)
    };
    let request = Request {
        planner: args.planner.clone(),
        bounds: (!args.bound.is_empty()).then(|| args.bound.clone()),
        bound_only,
    };
    let progress = Progress::start(args.quiet, args.time);
    let solved = solve(&assembled.problem, &request, &budget, &mut |outcome| progress.update(outcome))?;
    drop(progress);
    Ok((assembled, solved, start.elapsed().as_secs_f64()))
}

/// Writes the plan file; false if there is no plan.
fn write(path: &Path, assembled: &Assembled, solved: &Solved) -> Result<bool, Failure> {
    let Some((plan, score)) = &solved.outcome.best else { return Ok(false) };
    let absolute = |source: &Source| match (&source.sha256, std::path::absolute(&source.path)) {
        (Some(_), Ok(path)) if source.path != "-" => {
            Source { path: path.display().to_string(), ..source.clone() }
        }
        _ => source.clone(),
    };
    let plan_file = PlanFile {
        problem: assembled.problem.clone(),
        plan: plan.clone(),
        planner: solved.planner.clone(),
        sources: assembled.sources.iter().map(absolute).collect(),
        reading: assembled.reading.clone(),
        claim: Claim { value_ps: score.value, starts_ps: score.starts.clone() },
        certificates: solved.outcome.certificates.clone(),
        history: solved.outcome.history.clone(),
    };
    file::write(path, &plan_file.write())?;
    Ok(true)
}
