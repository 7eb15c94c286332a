//! `divvy reproduce`.

use divvy::core::units::counted;
use std::path::Path;

use divvy::core::did_you_mean::closest;
use divvy_lab::{EXPERIMENTS, Event, Experiment, Mode, Report, Settings, Stopped, experiment, results_index};
use serde_json::json;

use crate::args::ReproduceArgs;
use crate::failure::Failure;
use crate::output::{Done, tell};
use crate::progress::{Steps, cancel_on_interrupt_saying};

pub(crate) fn run(args: &ReproduceArgs) -> Result<Done, Failure> {
    let Some(name) = &args.name else { return Ok(Done { text: list(args.json), passed: true }) };
    let chosen = choose(name)?;
    for folder in [Some(&args.models), args.workloads.as_ref()].into_iter().flatten() {
        if !folder.is_dir() {
            let message = format!("there is no folder `{}`", folder.display());
            let fix = "run this in the folder of the project, or say where the models are with --models";
            let option = if *folder == args.models { "--models" } else { "--workloads" };
            return Err(Failure::option(option, message, fix));
        }
    }
    let mode = if args.full { Mode::Full } else { Mode::Quick };
    let settings =
        Settings::new(mode, args.time, &args.models, args.workloads.as_deref()).within(args.within);
    let cancelled =
        cancel_on_interrupt_saying("stopping; what is done is kept (Ctrl-C again to quit at once)");
    let mut reports = Vec::new();
    for one in chosen {
        let mut steps = None;
        let mut watch = |event: Event<'_>| watch(event, args.quiet, &mut steps);
        let report = divvy_lab::reproduce(one, &settings, &args.output, args.fresh, &cancelled, &mut watch);
        drop(steps);
        match report {
            Ok(report) => {
                if !args.quiet {
                    tell(&format!("{}: written to {}", report.experiment, report.path.display()));
                }
                reports.push(report);
            }
            Err(Stopped::Cancelled { done, all }) => {
                tell(&format!(
                    "{}: stopped with {done} of {all} runs done\n  hint: the same command goes on from there; --fresh starts \
                     over",
                    one.name()
                ));
                return Ok(Done { text: text(&reports, args.json), passed: false });
            }
            Err(Stopped::Unwritable(path, cause)) => return Err(unwritable(&path, cause)),
        }
    }
    results_index(&args.output).map_err(|cause| unwritable(&args.output, cause))?;
    Ok(Done { text: text(&reports, args.json), passed: true })
}

fn choose(name: &str) -> Result<Vec<&'static dyn Experiment>, Failure> {
    if name == "all" {
        return Ok(EXPERIMENTS.to_vec());
    }
    if let Some(found) = experiment(name) {
        return Ok(vec![found]);
    }
    let known: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name()).chain(["all"]).collect();
    let near = closest(name, &known).map_or(String::new(), |near| format!("did you mean `{near}`? Or "));
    let fix = format!("{near}use one of {}", known.join(", "));
    Err(Failure::option("NAME", format!("there is no experiment `{name}`"), fix))
}

fn watch(event: Event<'_>, quiet: bool, steps: &mut Option<Steps>) {
    match event {
        Event::Begin { experiment, to_run, stored } => {
            if !quiet && stored > 0 {
                tell(&format!("{experiment}: {} there already, {to_run} to go", counted(stored, "run")));
            }
            *steps = Some(Steps::start(quiet, to_run));
        }
        Event::Cell(cell) => steps.iter().for_each(|steps| steps.show(&cell.label())),
        Event::Done => steps.iter().for_each(Steps::step),
    }
}

fn unwritable(path: &Path, cause: std::io::Error) -> Failure {
    divvy::io::Error::Unwritable { path: path.display().to_string(), cause }.into()
}

fn text(reports: &[Report], as_json: bool) -> String {
    if as_json {
        let experiments: Vec<_> = reports.iter().map(|report| &report.json).collect();
        return format!("{}\n", json!({"experiments": experiments}));
    }
    let pages: Vec<&str> = reports.iter().map(|report| report.markdown.as_str()).collect();
    pages.join("\n")
}

/// What there is to run again.
fn list(as_json: bool) -> String {
    if as_json {
        let one = |one: &&dyn Experiment| {
            json!({
                "name": one.name(), "paper": one.paper(), "about": one.about(),
                "quick": one.duration(Mode::Quick), "full": one.duration(Mode::Full),
            })
        };
        return format!("{}\n", json!({"experiments": EXPERIMENTS.iter().map(one).collect::<Vec<_>>()}));
    }
    let mut text = format!("{:16} {:18} {:>6} {:>7}  what it shows\n", "name", "paper", "quick", "--full");
    for one in EXPERIMENTS {
        let (quick, full) = (one.duration(Mode::Quick), one.duration(Mode::Full));
        text.push_str(&format!(
            "{:16} {:18} {quick:>6} {full:>7}  {}\n",
            one.name(),
            one.paper(),
            one.about()
        ));
    }
    text.push_str(
        "\n`divvy reproduce NAME` runs one, `divvy reproduce all` all. Times are rough, and at most.\n",
    );
    text
}
