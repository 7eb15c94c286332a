//! `divvy check`.

use divvy::core::units::Time;
use divvy::core::violation::{Rule, Violation};
use divvy::io::assemble::{ProblemOptions, assemble};
use divvy::io::file::{self, read_once};
use divvy::io::onnx::trips::EVERY_LOOP;
use divvy::io::plan_file::{PlanFile, Verdict};
use divvy::io::read_options::{ReadOptions, dim_option, parameter_option, trips_option};
use serde_json::json;

use crate::args::{CheckArgs, piece_cost};
use crate::failure::Failure;
use crate::output::Done;
use crate::progress::Progress;
use crate::show;

pub(crate) fn run(args: &CheckArgs) -> Result<Done, Failure> {
    let files = [Some(&args.plan), args.against.as_ref(), args.on.as_ref(), args.profile.as_ref()];
    read_once(files.into_iter().flatten().map(String::as_str))?;
    let loaded = file::load(&args.plan)?;
    let plan = PlanFile::read(&loaded)?;
    let progress = Progress::about("following the proof: it may take as long as it took to find");
    let mut result = plan.check();
    drop(progress);
    let given = args.reading.options()?;
    if let Some(model) = &args.against {
        let mut differences = unnamed(&plan.reading, &given);
        if differences.is_empty() {
            let real = assemble(model, &same_question(&plan, args)?)?;
            differences = plan.check_against(&real.problem, &real.sources);
        }
        if !differences.is_empty() {
            let mut all = result.err().unwrap_or_default();
            all.extend(differences);
            result = Err(all);
        }
    } else if given != ReadOptions::default() {
        let fix = "name the model with --against MODEL, or leave them out";
        return Err(Failure::option(
            "--dim, --trips, --parameter, --granularity",
            "they say how a model is read",
            fix,
        ));
    }
    let passed = result.is_ok();
    let text = if args.json { in_json(&plan, args, &result) } else { in_words(&plan, args, &result) };
    Ok(Done { text, passed })
}

/// What the plan's model was read with and the caller did not ask for. A plan made with `--parameter '*'`, say, is for a
/// network whose inputs cost nothing to bring in: whoever checks it must know.
fn unnamed(recorded: &ReadOptions, given: &ReadOptions) -> Vec<Violation> {
    let named =
        |message: &str, option: String| format!("{message}; if that is the question, check with {option}");
    let mut faults = Vec::new();
    for (name, size) in recorded.dims.iter().filter(|(name, size)| given.dims.get(*name) != Some(size)) {
        let option = dim_option(name, *size);
        faults.push(named(&format!("the plan is for {size} as the size of `{name}`"), option));
    }
    for (name, trips) in recorded.trips.iter().filter(|(name, trips)| given.trips.get(*name) != Some(trips)) {
        let what = if name == EVERY_LOOP { "loops".to_owned() } else { format!("`{name}`") };
        faults.push(named(&format!("the plan counts {trips} rounds of {what}"), trips_option(name, *trips)));
    }
    for pattern in recorded.parameters.iter().filter(|pattern| !given.parameters.contains(pattern)) {
        let option = parameter_option(pattern);
        faults.push(named(&format!("the plan takes inputs like `{pattern}` for parameters"), option));
    }
    let dims = given.dims.keys().filter(|name| !recorded.dims.contains_key(*name));
    let patterns = given.parameters.iter().filter(|pattern| !recorded.parameters.contains(pattern));
    let trips = given.trips.keys().filter(|name| !recorded.trips.contains_key(*name));
    faults.extend(
        dims.chain(trips).chain(patterns).map(|name| format!("the plan was made without a word on `{name}`")),
    );
    if let (Some(own), Some(asked)) = (recorded.granularity, given.granularity)
        && own != asked
    {
        let option = format!("--granularity {}", own.name());
        faults.push(named(&format!("the plan's ops are those of granularity {}", own.name()), option));
    }
    let violation = |message| Violation { rule: Rule::Problem, place: "reading".to_owned(), message };
    faults.into_iter().map(violation).collect()
}

/// How the model was read, as options; empty where nothing was asked for.
fn read_with(reading: &ReadOptions) -> String {
    let all = ReadOptions { granularity: None, ..reading.clone() }.as_options();
    if all.is_empty() { String::new() } else { format!(", read with {}", all.join(" ")) }
}

/// The objective of the plan, asked anew of the real files. Constraints are the plan's own: they are part of the
/// question, not of the files, and do not change network, hardware or costs.
fn same_question(plan: &PlanFile, args: &CheckArgs) -> Result<ProblemOptions, Failure> {
    Ok(ProblemOptions {
        read: plan.reading.clone(),
        hardware: args.on.clone(),
        profile: args.profile.clone(),
        piece_cost: args.piece_cost.as_deref().map(piece_cost).transpose()?,
        objective: plan.problem.objective.into(),
        ..ProblemOptions::default()
    })
}

fn in_json(plan: &PlanFile, args: &CheckArgs, result: &Result<Verdict, Vec<Violation>>) -> String {
    let us = |time: Option<Time>| time.map(Time::as_us);
    let (times_basis, times_error) = show::basis_json(&plan.problem);
    let object = match result {
        Ok(verdict) => json!({
            "valid": true, "objective": plan.problem.objective.name(),
            "question": plan.problem.objective, "constraints": plan.problem.constraints.spec(),
            "reading": plan.reading, "against": args.against, "unit": "us",
            "value": verdict.score.value.as_us(), "value_ps": verdict.score.value,
            "lower_bound": us(verdict.lower_bound), "lower_bound_ps": verdict.lower_bound,
            "verified_lower_bound": us(verdict.verified_lower_bound), "violations": [],
            "times_basis": times_basis, "times_error": times_error,
        }),
        Err(violations) => {
            let list: Vec<_> = violations
                .iter()
                .map(|v| json!({"rule": v.rule.as_str(), "place": v.place, "message": v.message}))
                .collect();
            json!({"valid": false, "objective": plan.problem.objective.name(), "violations": list})
        }
    };
    format!("{object}\n")
}

fn in_words(plan: &PlanFile, args: &CheckArgs, result: &Result<Verdict, Vec<Violation>>) -> String {
    match result {
        Err(violations) => {
            let mut text = format!("{}: the check failed\n", args.plan);
            for violation in violations.iter().take(50) {
                text.push_str(&format!("  {violation}\n"));
            }
            if violations.len() > 50 {
                text.push_str(&format!("  and {} more\n", violations.len() - 50));
            }
            text
        }
        Ok(verdict) => {
            let mut text = format!(
                "{}: valid. {} of `{}` on `{}`: {} by {}\n",
                args.plan,
                show::objective(&plan.problem),
                plan.problem.graph.name(),
                plan.problem.hardware.name(),
                verdict.score.value,
                plan.found_by.as_ref().unwrap_or(&plan.planner)
            );
            let bound = |name: &str, bound: Option<Time>| match bound {
                Some(bound) => format!("  {name} {bound}\n"),
                None => format!("  {name} none\n"),
            };
            text.push_str(&bound("verified lower bound", verdict.verified_lower_bound));
            if verdict.lower_bound != verdict.verified_lower_bound {
                text.push_str(&bound("attested lower bound", verdict.lower_bound));
            }
            text.extend(show::basis_note(&plan.problem).map(|note| format!("  {note}\n")));
            text.extend(show::granularity_line(&plan.reading).map(|line| format!("  {line}\n")));
            let constraints = plan.problem.constraints.spec();
            if *constraints != Default::default() {
                text.push_str(&format!("  under the constraints {}\n", json!(constraints)));
            }
            let reading = read_with(&plan.reading);
            text.push_str(&match args.against {
                Some(_) => format!("  the embedded problem is the one that the files give{reading}\n"),
                None => format!("  of the problem in the file{reading}; --against MODEL makes sure that it is the real one\n"),
            });
            text
        }
    }
}
