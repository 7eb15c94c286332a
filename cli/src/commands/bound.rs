//! `divvy bound`: everything that `plan` does, except to plan.

use crate::args::SearchArgs;
use crate::failure::Failure;
use crate::show;

pub(crate) fn run(args: &SearchArgs) -> Result<String, Failure> {
    let (assembled, solved, seconds) = crate::commands::planning_run::search(args, None, true)?;
    Ok(if args.json {
        format!("{}\n", show::json(&assembled, &solved, seconds))
    } else {
        show::text(&assembled, &solved, false)
    })
}
