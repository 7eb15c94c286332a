//! `divvy plan`.

use std::path::Path;
use std::time::Instant;

use divvy_io::file;
use divvy_io::plan_file::{Claim, PlanFile, Source};
use divvy_search::{Budget, Request, Solved, solve};

use crate::args::{PlanArgs, SearchArgs, Stages};
use crate::assemble::{Assembled, assemble};
use crate::failure::Failure;
use crate::progress::{Progress, cancel_on_interrupt};
use crate::{Done, show, tell};

pub(crate) fn run(args: &PlanArgs) -> Result<Done, Failure> {
    for (option, path) in [("--output", &args.output), ("--report", &args.report)] {
        let Some(path) = path else { continue };
        refuse_to_overwrite(args, option, path)?;
        // Better now than after minutes of planning.
        file::check_writable(path)?;
    }
    if let Some(path) = &args.report {
        super::report::refuse_packed("--report", path)?;
        if args.output.as_ref() == Some(path) {
            let message = "plan and report would be the same file";
            return Err(Failure::option("--report", message, "name another file"));
        }
    }
    let (assembled, solved, mut text) = if args.search.problem.stages == Some(Stages::Auto) {
        super::stages::search(&args.search, args.planner.as_deref())?
    } else {
        let (assembled, solved, seconds) = search(&args.search, args.planner.as_deref(), false)?;
        let text = if args.search.json {
            format!("{}\n", show::json(&assembled, &solved, seconds))
        } else {
            show::text(&assembled, &solved, true)
        };
        (assembled, solved, text)
    };
    let mut passed = true;
    if let Some(path) = &args.output {
        let shown = path.display();
        let line = format!("  written to {shown}; `divvy check {shown}` checks it\n");
        passed &= settle(args, path, write(path, &assembled, &solved), &line, &mut text);
    }
    if let Some(path) = &args.report {
        let line = super::report::written(path);
        let made = super::report::of_run(path, &assembled, &solved);
        passed &= settle(args, path, made, &line, &mut text);
    }
    Ok(Done { text, passed })
}

/// Says what became of a file that was asked for; whether it is there now.
fn settle(args: &PlanArgs, path: &Path, made: Result<bool, Failure>, line: &str, text: &mut String) -> bool {
    match made {
        Ok(true) => {
            if !args.search.json {
                text.push_str(line);
            }
            true
        }
        // Whoever goes on with the file must not take an old one for the answer, so this is said even if quiet.
        Ok(false) => {
            tell(&not_written(path));
            false
        }
        // What was found is shown all the same.
        Err(failure) => {
            tell(failure.text().trim_end());
            false
        }
    }
}

/// Says that there is no plan to write, and what that means for the file.
fn not_written(path: &Path) -> String {
    let path_shown = path.display();
    if path.exists() {
        format!(
            "warning: there is no plan to write: `{path_shown}` is from an earlier run and was left as it is\n  \
             hint: remove it, or do not read it as the answer to this question"
        )
    } else {
        format!("warning: there is no plan to write: `{path_shown}` was not made")
    }
}

/// A plan written over the model it is for would destroy the model.
fn refuse_to_overwrite(args: &PlanArgs, option: &str, output: &Path) -> Result<(), Failure> {
    let files =
        [Some(&args.search.file), args.search.problem.on.as_ref(), args.search.problem.profile.as_ref()];
    let same = |file: &String| match (std::fs::canonicalize(file), std::fs::canonicalize(output)) {
        (Ok(input), Ok(output)) => input == output,
        _ => false,
    };
    match files.into_iter().flatten().find(|file| same(file)) {
        Some(file) => {
            Err(Failure::option(option, format!("it would overwrite `{file}`"), "name another file"))
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
    let progress = Progress::start(args.quiet, args.time);
    let assembled = assemble(&args.file, &args.problem)?;
    if !args.quiet {
        assembled.warnings.iter().for_each(|warning| progress.tell(&format!("warning: {warning}")));
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
        paper_bound: args.paper_bound,
        symmetry: args.symmetry.clone(),
    };
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
        found_by: solved.outcome.found_by.clone(),
        sources: assembled.sources.iter().map(absolute).collect(),
        reading: assembled.reading.clone(),
        claim: Claim { value_ps: score.value, starts_ps: score.starts.clone() },
        certificates: solved.outcome.certificates.clone(),
        history: solved.outcome.history.clone(),
    };
    file::write(path, &plan_file.write())?;
    Ok(true)
}
