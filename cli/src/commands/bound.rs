//! `divvy bound`: everything that `plan` does, except to plan.

use crate::args::PlanArgs;
use crate::failure::Failure;
use crate::show;

pub(crate) fn run(args: &PlanArgs) -> Result<String, Failure> {
    if args.output.is_some() || args.planner.is_some() {
        return Err(Failure::option("--output, --planner", "`bound` makes no plan", "use `divvy plan`"));
    }
    let (assembled, solved, seconds) = super::plan::search(args, true)?;
    Ok(if args.json {
        format!("{}\n", show::json(&assembled.problem, &solved, seconds))
    } else {
        show::text(&assembled.problem, &solved, false)
    })
}
