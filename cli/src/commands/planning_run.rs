//! One planning run: what `plan`, `bound` and the number of stages share.

use crate::args::{PlanArgs, SearchArgs};
use crate::failure::Failure;
use crate::output::tell;
use crate::progress::{Progress, cancel_on_interrupt};
use divvy::io::assemble::{Assembled, assemble};
use divvy::io::file;
use divvy::plan_file;
use divvy::search::{Budget, Request, Solved, solve};
use std::path::Path;
use std::time::Instant;

/// Says what became of a file that was asked for; whether it is there now.
pub(crate) fn settle(
    args: &PlanArgs,
    path: &Path,
    made: Result<bool, Failure>,
    line: &str,
    text: &mut String,
) -> bool {
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
pub(crate) fn not_written(path: &Path) -> String {
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
pub(crate) fn refuse_to_overwrite(args: &PlanArgs, option: &str, output: &Path) -> Result<(), Failure> {
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
    let assembled = assemble(&args.file, &args.problem.options()?)?;
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
pub(crate) fn write(path: &Path, assembled: &Assembled, solved: &Solved) -> Result<bool, Failure> {
    let Some(plan) = plan_file(assembled, solved) else { return Ok(false) };
    file::write(path, &plan.write())?;
    Ok(true)
}
