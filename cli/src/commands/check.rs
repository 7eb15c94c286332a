//! `divvy check`.

use divvy::core::units::Time;
use divvy::core::violation::Violation;
use divvy::io::assemble::{ProblemOptions, assemble};
use divvy::io::file::{self, read_once};
use divvy::io::plan_file::{PlanFile, Verdict};
use serde_json::json;

use crate::args::CheckArgs;
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
    if let Some(model) = &args.against {
        let real = assemble(model, &same_question(&plan, args))?;
        let differences = plan.check_against(&real.problem, &real.sources);
        if !differences.is_empty() {
            let mut all = result.err().unwrap_or_default();
            all.extend(differences);
            result = Err(all);
        }
    }
    let passed = result.is_ok();
    let text = if args.json { in_json(&plan, args, &result) } else { in_words(&plan, args, &result) };
    Ok(Done { text, passed })
}

/// The objective of the plan, asked anew of the real files. Constraints are the plan's own: they are part of the
/// question, not of the files, and do not change network, hardware or costs.
fn same_question(plan: &PlanFile, args: &CheckArgs) -> ProblemOptions {
    ProblemOptions {
        read: plan.reading.clone(),
        hardware: args.on.clone(),
        profile: args.profile.clone(),
        objective: plan.problem.objective.into(),
        ..ProblemOptions::default()
    }
}

fn in_json(plan: &PlanFile, args: &CheckArgs, result: &Result<Verdict, Vec<Violation>>) -> String {
    let us = |time: Option<Time>| time.map(Time::as_us);
    let object = match result {
        Ok(verdict) => json!({
            "valid": true, "objective": plan.problem.objective.name(),
            "question": plan.problem.objective, "constraints": plan.problem.constraints.spec(),
            "reading": plan.reading, "against": args.against, "unit": "us",
            "value": verdict.score.value.as_us(), "value_ps": verdict.score.value,
            "lower_bound": us(verdict.lower_bound), "lower_bound_ps": verdict.lower_bound,
            "verified_lower_bound": us(verdict.verified_lower_bound), "violations": [],
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
            text.extend(show::granularity_line(&plan.reading).map(|line| format!("  {line}\n")));
            let constraints = plan.problem.constraints.spec();
            if *constraints != Default::default() {
                text.push_str(&format!("  under the constraints {}\n", json!(constraints)));
            }
            text.push_str(match args.against {
                Some(_) => "  the embedded problem is the one that the files give\n",
                None => "  of the problem in the file; --against MODEL makes sure that it is the real one\n",
            });
            text
        }
    }
}
