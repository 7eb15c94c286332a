//! `divvy report`, and the report of `divvy plan --report`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy::core::problem::Problem;
use divvy::core::units::Time;
use divvy::io::assemble::Assembled;
use divvy::io::file::{self, Kind, read_once};
use divvy::io::plan_file::PlanFile;
use divvy::io::report::{OneDevice, Report};
use divvy::io::source::Source;
use divvy::io::times_basis::{TimesBasis, next_commands};
use divvy::io::trace_file;
use divvy::proof::certificate::Certificate;
use divvy::proof::evidence::Evidence;
use divvy::search::{Baseline, Budget, Solved, baseline};

use crate::args::ReportArgs;
use crate::commands::next_steps::Origins;
use crate::failure::Failure;
use crate::output::Done;
use crate::progress::Progress;
use crate::show;

/// The best of all single devices is looked for so long; the first that can do it counts anyway.
const BASELINE_TIME: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &ReportArgs) -> Result<Done, Failure> {
    read_once([Some(&args.plan), args.measured.as_ref()].into_iter().flatten().map(String::as_str))?;
    let output = output(args)?;
    refuse_packed("--output", &output)?;
    file::check_replaceable(&output, Kind::Report, args.force)?;
    let plan = PlanFile::read(&file::load(&args.plan)?)?;
    let measured = match &args.measured {
        Some(path) => Some(trace_file::read(&file::load(path)?, &plan.problem)?),
        None => None,
    };
    let progress = Progress::about("following the proof: it may take as long as it took to find");
    let checked = plan.check();
    drop(progress);
    let verdict = match checked {
        Ok(verdict) => verdict,
        Err(violations) => {
            let mut text = format!("{}: the check failed, so there is nothing to report\n", args.plan);
            violations.iter().take(10).for_each(|violation| text.push_str(&format!("  {violation}\n")));
            text.push_str(&format!("  hint: `divvy check {}` lists everything; plan anew\n", args.plan));
            return Ok(Done { text, passed: false });
        }
    };
    let progress = Progress::about("working out what moving each op would cost");
    let (one_device, _) = baseline(&plan.problem, &Budget::new(BASELINE_TIME));
    let basis = TimesBasis::of(&plan.problem, Some(&plan.plan));
    let best_proof = verified_bound(&plan.certificates);
    let origins = Origins {
        problem: &plan.problem,
        score: &verdict.score,
        sources: &plan.sources,
        reading: &plan.reading,
        plan: Some(Path::new(&args.plan)).filter(|_| args.plan != "-"),
        optimal: best_proof == Some(verdict.score.value),
    };
    let report = Report {
        problem: &plan.problem,
        plan: &plan.plan,
        score: &verdict.score,
        certificates: &plan.certificates,
        history: &plan.history,
        one_device: as_one_device(&one_device),
        found_by: plan.found_by.as_ref().unwrap_or(&plan.planner),
        notes: notes(&plan.problem, &one_device, show::caveats_of(&plan.problem, &plan.reading)),
        to_measure: next_commands(&plan.problem, &basis, &plan.sources, &plan.reading),
        sources: sources(&plan.sources),
        measured: measured.as_ref(),
        next: origins.next(),
        if_lost: origins.if_lost(),
        every_move: args.all_moves,
    };
    let html = report.html();
    drop(progress);
    file::write(&output, &html)?;
    Ok(Done { text: written(&output), passed: true })
}

/// The best bound that is more than attested.
fn verified_bound(certificates: &[Certificate]) -> Option<Time> {
    let attested = |one: &&Certificate| matches!(one.evidence, Evidence::Attested { .. });
    certificates.iter().filter(|one| !attested(one)).map(|one| one.value_ps).max()
}

/// Writes the report of a run that has just ended, whose plan goes to `kept`; false if there is no plan.
pub(super) fn of_run(
    path: &Path,
    kept: Option<&Path>,
    assembled: &Assembled,
    solved: &Solved,
) -> Result<bool, Failure> {
    let Some((plan, score)) = &solved.outcome.best else { return Ok(false) };
    let origins = Origins {
        problem: &assembled.problem,
        score,
        sources: &assembled.sources,
        reading: &assembled.reading,
        plan: kept,
        optimal: verified_bound(&solved.outcome.certificates) == Some(score.value),
    };
    let progress = Progress::about("working out what moving each op would cost");
    let basis = TimesBasis::of(&assembled.problem, Some(plan));
    let report = Report {
        problem: &assembled.problem,
        plan,
        score,
        certificates: &solved.outcome.certificates,
        history: &solved.outcome.history,
        one_device: as_one_device(&solved.baseline),
        found_by: solved.outcome.found_by.as_ref().unwrap_or(&solved.planner),
        notes: notes(&assembled.problem, &solved.baseline, show::caveats(assembled)),
        to_measure: next_commands(&assembled.problem, &basis, &assembled.sources, &assembled.reading),
        sources: sources(&assembled.sources),
        measured: None,
        next: origins.next(),
        if_lost: origins.if_lost(),
        every_move: false,
    };
    let html = report.html();
    drop(progress);
    file::write(path, &html)?;
    Ok(true)
}

/// What is said of a report that was written.
pub(super) fn written(path: &Path) -> String {
    format!("  report in {}; open it in a browser\n", path.display())
}

/// Browsers do not unpack files from disk.
pub(super) fn refuse_packed(option: &str, path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending == "gz") {
        return Err(Failure::option(
            option,
            "browsers do not open packed reports",
            "end the name with .html",
        ));
    }
    Ok(())
}

/// Where the report goes: as given, else beside the plan.
fn output(args: &ReportArgs) -> Result<PathBuf, Failure> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None if args.plan == "-" => {
            let message = "a plan on standard input has no place beside it";
            return Err(Failure::option("--output", message, "name a file with --output"));
        }
        None => {
            let path = Path::new(&args.plan);
            let unpacked = if path.extension().is_some_and(|e| e == "gz") {
                path.with_extension("")
            } else {
                path.into()
            };
            unpacked.with_extension("html")
        }
    };
    let same = match (std::fs::canonicalize(&args.plan), std::fs::canonicalize(&path)) {
        (Ok(plan), Ok(report)) => plan == report,
        _ => false,
    };
    if same {
        return Err(Failure::option("--output", "it would overwrite the plan", "name another file"));
    }
    Ok(path)
}

fn as_one_device(baseline: &Baseline) -> OneDevice {
    match baseline {
        Baseline::Device { device, value, .. } => OneDevice::Best { device: *device, value: *value },
        Baseline::None { reason } => OneDevice::Impossible { reason: reason.clone() },
    }
}

/// Caveats, which devices cannot be the best single one, and what that has to keep too.
fn notes(problem: &Problem, one_device: &Baseline, mut notes: Vec<String>) -> Vec<String> {
    if let Baseline::Device { impossible_on, .. } = one_device
        && !impossible_on.is_empty()
    {
        let devices = show::named(problem, impossible_on);
        notes.push(format!("the best single device is not one of {devices}: not all ops can run there"));
    }
    let kept = show::limits_of_the_baseline(problem);
    if !kept.is_empty() {
        notes.push(format!("the best single device keeps the {} too", kept.join(" and ")));
    }
    notes
}

fn sources(sources: &[Source]) -> Vec<(String, String)> {
    sources.iter().map(|source| (source.role.clone(), source.path.clone())).collect()
}
