//! `divvy plan --stages auto`: throughput and proven bound against the number of stages, and where more stop paying.
//!
//! The number doubles from 1 to the number of devices (to 64 where the model brings as many as are asked for). The
//! *knee* is the last number up to which every step raised throughput by at least half of what so many more devices
//! could give at best. The plan that is shown and written is the one at the knee.

use divvy::core::problem::{Objective, OwnHardware};
use divvy::core::units::{Time, show_number};
use divvy::io::assemble::{Assembled, assemble};
use divvy::io::file;
use divvy::io::import::import_problem;
use divvy::search::studies::stage_count::{MOST_OWN, StageCounts, stage_counts};
use divvy::search::{Outcome, Solved};
use serde_json::json;

use super::planning_run;
use crate::args::{SearchArgs, Stages};
use crate::failure::Failure;
use crate::show;
use crate::view::percent::percent;

/// Plans for one number of stages after the other, each with an equal share of the time.
pub(super) fn search(
    args: &SearchArgs,
    planner: Option<&str>,
) -> Result<(Assembled, Solved, String), Failure> {
    let plan = |stages, time| {
        let mut one = args.clone();
        one.problem.stages = Some(Stages::AtMost(stages));
        one.time = time;
        planning_run::search(&one, planner, false)
    };
    let StageCounts { mut results, knee } =
        stage_counts(most_stages(args)?, args.time, plan, |(_, solved, _)| &solved.outcome)?;
    let seconds: f64 = results.iter().map(|(_, (_, _, seconds))| seconds).sum();
    let rows: Vec<Row> =
        results.iter().map(|(count, (_, solved, _))| Row::of(*count, &solved.outcome)).collect();
    let (count, (assembled, solved, _)) = results.swap_remove(knee);
    let text = if args.json {
        let mut object = show::json(&assembled, &solved, seconds);
        object["stages"] = rows.iter().map(Row::json).collect();
        object["knee"] = json!(count);
        format!("{object}\n")
    } else {
        format!("{}\n{}", table(&rows, count), show::text(&assembled, &solved, true))
    };
    Ok((assembled, solved, text))
}

/// The most stages there can be: the number of devices, or of ops where the model brings as many devices as are asked for.
fn most_stages(args: &SearchArgs) -> Result<u32, Failure> {
    if args.file == "-" {
        let message =
            "auto reads the model once for each number of stages, standard input can be read only once";
        return Err(Failure::option("--stages", message, "give the model as a file"));
    }
    let own = match args.problem.on {
        None => Some(import_problem(&file::load(&args.file)?)?),
        Some(_) => None,
    };
    if let Some(spec) = own
        && matches!(spec.hardware, Some(OwnHardware::UniformPerStage { .. }))
    {
        return Ok(MOST_OWN.min(spec.graph.ops.len() as u32));
    }
    let mut one = args.problem.clone();
    one.stages = Some(Stages::AtMost(1));
    let problem = assemble(&args.file, &one.options()?)?.problem;
    if !matches!(problem.objective, Objective::Pipeline { .. }) {
        let message = format!("auto belongs to pipeline, the objective is {}", problem.objective.name());
        return Err(Failure::option("--stages", message, "add --objective pipeline"));
    }
    Ok(problem.hardware.device_count() as u32)
}

/// What is said of one number of stages.
struct Row {
    stages: u32,
    value: Option<f64>,
    bound: Option<f64>,
    gap: Option<f64>,
}

impl Row {
    fn of(stages: u32, outcome: &Outcome) -> Row {
        let us = |time: Option<Time>| time.map(Time::as_us);
        Row { stages, value: us(outcome.value()), bound: us(outcome.lower_bound()), gap: outcome.gap() }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "stages": self.stages, "value": self.value, "lower_bound": self.bound, "gap": self.gap,
            "throughput_per_s": self.value.map(|us| 1e6 / us),
            "highest_throughput_per_s": self.bound.filter(|&us| us > 0.0).map(|us| 1e6 / us),
        })
    }
}

fn table(rows: &[Row], knee: u32) -> String {
    let mut text =
        format!("{:>7} {:>15} {:>19} {:>10}\n", "stages", "per second", "at most per second", "gap");
    for row in rows {
        let rate =
            |us: Option<f64>| us.filter(|&us| us > 0.0).map_or("-".to_owned(), |us| show_number(1e6 / us, 4));
        let gap = row.gap.map_or("-".to_owned(), percent);
        let mark = if row.stages == knee { "  <- knee: beyond it stages pay less than half" } else { "" };
        let (value, bound) = (rate(row.value), rate(row.bound));
        text.push_str(&format!("{:>7} {value:>15} {bound:>19} {gap:>10}{mark}\n", row.stages));
    }
    text
}
