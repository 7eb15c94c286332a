//! `divvy run`: a plan, run on this machine and compared with what was predicted.

mod cold_start;
pub(super) mod report;

use divvy::core::plan::Plan;
use divvy::deploy::{FinishedRun, LoadedPlan, prepare, runtime};
use divvy::io::file::{self, Kind};
use divvy::io::plan_file::PlanFile;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::output::{Done, tell};
use crate::progress::{Progress, cancel_on_interrupt_saying};

pub(crate) fn run(args: &RunArgs) -> Result<Done, Failure> {
    let outputs =
        [(&args.output, Kind::Npz), (&args.trace, Kind::Json("trace")), (&args.learn, Kind::Json("problem"))];
    for (path, kind) in outputs {
        path.iter().try_for_each(|path| file::check_replaceable(path, kind, args.force))?;
    }
    let plan = PlanFile::read(&file::load(&args.plan)?)?;
    let is_cold = matches!(plan.plan, Plan::ColdStart(_));
    if is_cold && args.learn.is_some() {
        let fix = "profile again with `divvy profile --cold-start`";
        return Err(Failure::option("--learn", "a cold start times pieces, not ops", fix));
    }
    let (runtime, options) = (runtime(args.onnxruntime.as_deref())?, args.options());
    if is_cold {
        return cold_start::run(args, &plan, &runtime, &options);
    }
    let progress = Progress::about("cutting the model and loading its pieces");
    let prepared = prepare(&args.plan, &plan, &options)?;
    prepared.warnings.iter().for_each(|warning| progress.tell(&format!("warning: {warning}")));
    let told = prepared.warnings.len();
    let mut loaded = LoadedPlan::new(prepared, &plan, runtime, &options)?;
    let more = loaded.prepared().warnings.iter().skip(told);
    more.for_each(|warning| progress.tell(&format!("warning: {warning}")));
    drop(progress);
    let cancelled = cancel_on_interrupt_saying(
        "stopping when the items under way are done (Ctrl-C again to quit at once)",
    );
    loaded.warm_up(&cancelled)?;
    let progress = Progress::about("running");
    let mut finished = loaded.run(&cancelled)?;
    drop(progress);
    if finished.report().cancelled {
        tell("warning: the run was stopped early; what is shown and written is of the items that came out");
    }
    let notes = write_files(args, &mut finished)?;
    let compared = finished.comparison();
    let text = if args.json {
        report::json(&finished, &compared)
    } else {
        report::text(&finished, &compared, &notes)
    };
    Ok(Done { text, passed: !finished.report().cancelled })
}

/// Writes what is asked for; returns a line about each file.
fn write_files(args: &RunArgs, finished: &mut FinishedRun) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    if let Some(path) = &args.trace {
        finished.write_trace(path)?;
    }
    if let Some(path) = &args.output {
        finished.write_results(path)?;
        notes.push(format!("results of the first item in {}", path.display()));
    }
    if let Some(path) = &args.learn {
        finished.write_learnt(path)?;
        notes.push(format!("op times as measured in {}; plan again with --profile", path.display()));
    }
    if let Some(path) = &args.trace {
        let (plan, shown) = (&args.plan, path.display());
        notes.push(format!(
            "trace in {shown}; `divvy report {plan} --measured {shown}` lays it over the plan"
        ));
    }
    Ok(notes)
}
