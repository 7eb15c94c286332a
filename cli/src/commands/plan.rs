//! `divvy plan`.

use std::path::Path;
use std::time::Instant;

use divvy_core::outcome::Budget;
use divvy_io::file;
use divvy_io::plan_file::{Claim, PlanFile, Source};
use divvy_search::{Request, Solved, solve};

use crate::args::{PlanArgs, SearchArgs};
use crate::assemble::{Assembled, assemble};
use crate::failure::Failure;
use crate::progress::{Progress, cancel_on_interrupt};
use crate::show;

pub(crate) fn run(args: &PlanArgs) -> Result<String, Failure> {
    refuse_to_overwrite(args)?;
    let (assembled, solved, seconds) = search(&args.search, args.planner.as_deref(), false)?;
    let problem = &assembled.problem;
    let reading = &assembled.reading;
    let mut text = if args.search.json {
        format!("{}\n", show::json(problem, &solved, reading, seconds))
    } else {
        show::text(problem, &solved, reading, true)
    };
    if let Some(path) = &args.output {
        let written = write(path, &assembled, &solved)?;
        if !written && !args.search.quiet {
            eprintln!("note: there is no plan, so `{}` was not written", path.display());
        } else if written && !args.search.json {
            text.push_str(&format!(
                "  written to {}; `divvy check {}` proves it\n",
                path.display(),
                path.display()
            ));
        }
    }
    Ok(text)
}

/// A plan written over the model it is for would destroy the model.
fn refuse_to_overwrite(args: &PlanArgs) -> Result<(), Failure> {
    let Some(output) = &args.output else { return Ok(()) };
    let files =
        [Some(&args.search.file), args.search.problem.on.as_ref(), args.search.problem.profile.as_ref()];
    let same = |file: &String| match (std::fs::canonicalize(file), std::fs::canonicalize(output)) {
        (Ok(input), Ok(output)) => input == output,
        _ => false,
    };
    match files.into_iter().flatten().find(|file| same(file)) {
        Some(file) => {
            Err(Failure::option("--output", format!("it would overwrite `{file}`"), "name another file"))
        }
        None => Ok(()),
    }
}

/// Puts the problem together and runs the search on it.
pub(super) fn search(
    args: &SearchArgs,
    planner: Option<&str>,
    bound_only: bool,
) -> Result<(Assembled, Solved, f64), Failure> {
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
        planner: planner.map(str::to_owned),
        bounds: (!args.bound.is_empty()).then(|| args.bound.clone()),
        inner: args.inner.clone(),
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
