//! `divvy bound`: everything that `plan` does, except to plan.

use crate::args::SearchArgs;
use crate::failure::Failure;
use crate::show;

pub(crate) fn run(args: &SearchArgs) -> Result<String, Failure> {
    let (assembled, solved, seconds) = super::plan::search(args, None, true)?;
    let (problem, reading) = (&assembled.problem, &assembled.reading);
    Ok(if args.json {
        format!("{}\n", show::json(problem, &solved, reading, seconds))
    } else {
        show::text(problem, &solved, reading, false)
    })
}
