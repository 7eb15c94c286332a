//! `divvy plan`.

use divvy::io::file::{self, Kind};

use crate::args::{PlanArgs, Stages};
use crate::commands::planning_run::{refuse_to_overwrite, search, settle, write};
use crate::failure::Failure;
use crate::output::Done;
use crate::show;

pub(crate) fn run(args: &PlanArgs) -> Result<Done, Failure> {
    let outputs = [("--output", &args.output, Kind::Json("plan")), ("--report", &args.report, Kind::Report)];
    for (option, path, kind) in outputs {
        let Some(path) = path else { continue };
        refuse_to_overwrite(args, option, path)?;
        // Better now than after minutes of planning.
        file::check_replaceable(path, kind, args.force)?;
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
        let made = super::report::of_run(path, args.output.as_deref(), &assembled, &solved);
        passed &= settle(args, path, made, &line, &mut text);
    }
    Ok(Done { text, passed })
}
