//! `divvy plan --stages auto`: throughput and proven bound against the number of stages, and where more stop paying.
//!
//! The number doubles from 1 to the number of devices (to 64 where the model brings as many as are asked for). The
//! *knee* is the last number up to which every step raised throughput by at least half of what so many more devices
//! could give at best. The plan that is shown and written is the one at the knee.

use std::time::Duration;

use divvy_core::problem::{Objective, OwnHardware};
use divvy_core::units::show_number;
use divvy_io::{file, import};
use divvy_search::{Outcome, Solved};
use serde_json::json;

use crate::args::{SearchArgs, Stages};
use crate::assemble::{Assembled, assemble};
use crate::failure::Failure;
use crate::show;

/// The most stages that are tried where the model brings its own devices, as many as are asked for.
const MOST_OWN: u32 = 64;
/// A step pays if throughput rises by at least this share of what the devices it adds could give.
const PAYS: f64 = 0.5;

/// Plans for one number of stages after the other, each with an equal share of the time.
pub(super) fn search(
    args: &SearchArgs,
    planner: Option<&str>,
) -> Result<(Assembled, Solved, String), Failure> {
    let counts = counts(args)?;
    let share = Duration::from_secs_f64(args.time.as_secs_f64() / counts.len() as f64);
    let mut results = Vec::new();
    let mut seconds = 0.0;
    for &count in &counts {
        let mut one = args.clone();
        one.problem.stages = Some(Stages::AtMost(count));
        one.time = share;
        let (assembled, solved, took) = super::plan::search(&one, planner, false)?;
        seconds += took;
        results.push((count, assembled, solved));
    }
    let throughputs: Vec<(u32, f64)> =
        results.iter().map(|(count, _, solved)| (*count, throughput(&solved.outcome))).collect();
    let knee = knee(&throughputs);
    let rows: Vec<Row> = results.iter().map(|(count, _, solved)| Row::of(*count, &solved.outcome)).collect();
    let (count, assembled, solved) = results.swap_remove(knee);
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

/// 1, 2, 4, … and the most there can be.
fn counts(args: &SearchArgs) -> Result<Vec<u32>, Failure> {
    if args.file == "-" {
        let message =
            "auto reads the model once for each number of stages, standard input can be read only once";
        return Err(Failure::option("--stages", message, "give the model as a file"));
    }
    let own = match args.problem.on {
        None => Some(import::import_problem(&file::load(&args.file)?)?),
        Some(_) => None,
    };
    let most = match own {
        Some(spec) if matches!(spec.hardware, Some(OwnHardware::UniformPerStage { .. })) => {
            MOST_OWN.min(spec.graph.ops.len() as u32)
        }
        _ => {
            let mut one = args.problem.clone();
            one.stages = Some(Stages::AtMost(1));
            let problem = assemble(&args.file, &one)?.problem;
            if !matches!(problem.objective, Objective::Pipeline { .. }) {
                let message =
                    format!("auto belongs to pipeline, the objective is {}", problem.objective.name());
                return Err(Failure::option("--stages", message, "add --objective pipeline"));
            }
            problem.hardware.device_count() as u32
        }
    };
    let mut counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.push(most.max(1));
    Ok(counts)
}

/// Requests per second; 0 without a plan.
fn throughput(outcome: &Outcome) -> f64 {
    outcome.value().filter(|value| value.0 > 0).map_or(0.0, |value| 1.0 / value.as_seconds())
}

/// The place of the last count up to which every step pays.
fn knee(throughputs: &[(u32, f64)]) -> usize {
    let pays = |pair: &[(u32, f64)]| {
        let ((few, slow), (many, fast)) = (pair[0], pair[1]);
        // From nothing to a plan always pays.
        slow == 0.0 || fast / slow - 1.0 >= PAYS * (f64::from(many) / f64::from(few) - 1.0)
    };
    throughputs.windows(2).take_while(|pair| pays(pair)).count()
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
        let us = |time: Option<divvy_core::units::Time>| time.map(|time| time.as_us());
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
        let gap = row.gap.map_or("-".to_owned(), show::percent);
        let mark = if row.stages == knee { "  <- knee: beyond it stages pay less than half" } else { "" };
        let (value, bound) = (rate(row.value), rate(row.bound));
        text.push_str(&format!("{:>7} {value:>15} {bound:>19} {gap:>10}{mark}\n", row.stages));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_steps_stop_paying() {
        assert_eq!(knee(&[(1, 1.0), (2, 1.9), (4, 3.4), (8, 4.0)]), 2);
        assert_eq!(knee(&[(1, 1.0), (2, 1.4), (4, 4.0)]), 0);
        // One device cannot hold it: the first plan counts.
        assert_eq!(knee(&[(1, 0.0), (2, 1.0), (3, 1.4)]), 2);
        assert_eq!(knee(&[(1, 2.0)]), 0);
    }
}
