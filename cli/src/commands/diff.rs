//! `divvy diff`: two plans for one network, what moved from where to where, and what it gained.
//!
//! Ops are matched by name and devices by name, so plans on different hardware can be compared as far as names agree; what
//! differs besides the plan is said first. Plans of different networks, or of one network read at different
//! granularities, have different ops and are refused.

pub(super) mod moves;

use divvy::core::costs::ClassCosts;
use divvy::core::problem::Problem;
use divvy::core::units::{Time, show_number};
use divvy::io::file::{self, read_once};
use divvy::io::plan_file::{PlanFile, Verdict};
use serde_json::{Value, json};

use crate::args::DiffArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::show;
use crate::view::percent::percent;
use divvy::core::units::counted;
use moves::Moves;

/// A plan that was checked.
struct Checked {
    path: String,
    file: PlanFile,
    verdict: Verdict,
}

impl Checked {
    fn read(path: &str) -> Result<Checked, Failure> {
        let file = PlanFile::read(&file::load(path)?)?;
        let progress = Progress::about("following the proofs: it may take as long as it took to find them");
        let checked = file.check();
        drop(progress);
        match checked {
            Ok(verdict) => Ok(Checked { path: path.to_owned(), file, verdict }),
            Err(violations) => {
                let first = violations.first().map_or(String::new(), ToString::to_string);
                let fix = format!("`divvy check {path}` says more; plan anew");
                Err(Failure::option("PLAN", format!("`{path}` is not valid: {first}"), fix))
            }
        }
    }

    fn value(&self) -> Time {
        self.verdict.score.value
    }

    /// What pieces cost besides their ops, all together.
    fn pieces_cost(&self) -> Time {
        let pieces = self.verdict.score.pieces.iter();
        pieces.map(|piece| self.file.problem.piece_cost(piece.device)).sum()
    }

    fn gap(&self) -> Option<f64> {
        let bound = self.verdict.lower_bound.filter(|bound| bound.0 > 0)?;
        Some((self.value().0 as f64 - bound.0 as f64) / bound.0 as f64)
    }
}

pub(crate) fn run(args: &DiffArgs) -> Result<String, Failure> {
    read_once([args.before.as_str(), args.after.as_str()].into_iter())?;
    let (before, after) = (Checked::read(&args.before)?, Checked::read(&args.after)?);
    refuse_other_network(&before, &after)?;
    let differs = differences(&before.file.problem, &after.file.problem);
    let moves = Moves::between(&before.file, &after.file);
    Ok(if args.json {
        format!("{}\n", in_json(&before, &after, &differs, &moves))
    } else {
        in_words(&before, &after, &differs, &moves, args.top)
    })
}

/// Plans can be compared if they are about the same ops.
fn refuse_other_network(before: &Checked, after: &Checked) -> Result<(), Failure> {
    let [one, other] = [before, after].map(|plan| &plan.file.problem.graph);
    let missing =
        one.ops().find(|&op| other.op_named(one.op_name(op)).is_none()).map(|op| (one.op_name(op), after));
    let missing = missing.or_else(|| {
        other
            .ops()
            .find(|&op| one.op_named(other.op_name(op)).is_none())
            .map(|op| (other.op_name(op), before))
    });
    let Some((op, lacking)) = missing else { return Ok(()) };
    let common = one.ops().filter(|&op| other.op_named(one.op_name(op)).is_some()).count();
    let message = format!(
        "`{}` is for `{}` with {}, `{}` for `{}` with {}; {common} have the same name, and `{op}` is not in `{}`",
        before.path,
        one.name(),
        counted(one.op_count(), "op"),
        after.path,
        other.name(),
        counted(other.op_count(), "op"),
        lacking.path
    );
    Err(Failure::option("PLAN", message, "compare plans for one network, read with the same --granularity"))
}

/// What differs between the problems, apart from the plans.
fn differences(before: &Problem, after: &Problem) -> Vec<String> {
    let mut found = Vec::new();
    let (one, other) = (show::objective(before), show::objective(after));
    if before.objective != after.objective {
        found.push(format!("the objectives differ: {one}, then {other}"));
    }
    if before.hardware.name() != after.hardware.name() {
        found.push(format!(
            "the hardware differs: `{}`, then `{}`",
            before.hardware.name(),
            after.hardware.name()
        ));
    } else if before.hardware.spec() != after.hardware.spec() {
        found.push(format!("`{}` is not described alike", before.hardware.name()));
    }
    if before.hardware.spec() == after.hardware.spec() && times_differ(before.costs(), after.costs()) {
        found.push("op times differ".to_owned());
    }
    if before.constraints.spec() != after.constraints.spec() {
        found.push("constraints differ".to_owned());
    }
    if before.graph.spec() != after.graph.spec() {
        found.push("the networks have the same ops, but not the same sizes or edges".to_owned());
    }
    found
}

/// Whether op times differ at a batch size that both have: with fewer inputs, some sizes are of no use.
fn times_differ(before: &[ClassCosts], after: &[ClassCosts]) -> bool {
    let differs = |(one, other): (&ClassCosts, &ClassCosts)| {
        one.batch_sizes.iter().any(|&size| other.at(size).is_some_and(|costs| one.at(size) != Some(costs)))
    };
    before.len() != after.len() || before.iter().zip(after).any(differs)
}

/// Whether both values are of one kind, so that one can be better than the other.
fn comparable(before: &Checked, after: &Checked) -> bool {
    let [one, other] = [before, after].map(|plan| plan.file.problem.objective);
    std::mem::discriminant(&one) == std::mem::discriminant(&other) && one.inputs() == other.inputs()
}

fn in_json(before: &Checked, after: &Checked, differs: &[String], moves: &Moves) -> Value {
    let side = |plan: &Checked| {
        let us = |time: Option<Time>| time.map(Time::as_us);
        json!({
            "plan": plan.path, "objective": plan.file.problem.objective.name(),
            "found_by": plan.file.found_by, "value": plan.value().as_us(), "value_ps": plan.value(),
            "lower_bound": us(plan.verdict.lower_bound), "verified_lower_bound": us(plan.verdict.verified_lower_bound),
            "gap": plan.gap(), "piece_count": plan.verdict.score.pieces.len(), "pieces_cost": plan.pieces_cost().as_us(),
        })
    };
    let speedup = comparable(before, after).then(|| before.value().0 as f64 / after.value().0.max(1) as f64);
    json!({
        "unit": "us", "before": side(before), "after": side(after), "differs": differs, "speedup": speedup,
        "ops": before.file.problem.graph.op_count(), "moved": moves.json(),
        "devices": moves::devices_json(&before.file, &before.verdict, &after.file, &after.verdict),
    })
}

fn in_words(before: &Checked, after: &Checked, differs: &[String], moves: &Moves, top: usize) -> String {
    let mut lines = Vec::new();
    for (name, plan) in [("before", before), ("after", after)] {
        let problem = &plan.file.problem;
        lines.push(format!(
            "{name:6}  {} of `{}` on `{}`: {} by {}, {}",
            show::objective(problem),
            problem.graph.name(),
            problem.hardware.name(),
            plan.value(),
            plan.file.found_by.as_ref().unwrap_or(&plan.file.planner),
            bound(plan)
        ));
    }
    lines.extend(differs.iter().map(|line| format!("note    {line}")));
    lines.push(format!("gain    {}", gain(before, after)));
    lines.push(format!("pieces  {}, then {}", pieces(before), pieces(after)));
    lines.push(String::new());
    lines.extend(moves.lines(before.file.problem.graph.op_count(), top));
    lines.push(String::new());
    lines.extend(moves::device_lines(&before.file, &before.verdict, &after.file, &after.verdict));
    lines.push(String::new());
    lines.join("\n")
}

/// How many pieces, and what they cost.
fn pieces(plan: &Checked) -> String {
    let count = plan.verdict.score.pieces.len();
    match plan.pieces_cost() {
        Time::ZERO => count.to_string(),
        cost => format!("{count} at {cost} in all"),
    }
}

fn bound(plan: &Checked) -> String {
    match (plan.verdict.lower_bound, plan.gap()) {
        (Some(bound), _) if bound == plan.value() => {
            let proved = plan.verdict.verified_lower_bound == Some(bound);
            if proved { "optimal, proved".to_owned() } else { "optimal (attested)".to_owned() }
        }
        (Some(bound), Some(gap)) => format!("bound {bound}, gap {}", percent(gap)),
        _ => "no bound".to_owned(),
    }
}

fn gain(before: &Checked, after: &Checked) -> String {
    let (one, other) = (before.value(), after.value());
    if !comparable(before, after) {
        return "not comparable: the values are of different objectives".to_owned();
    }
    let factor = |more: Time, less: Time| show_number(more.0 as f64 / less.0.max(1) as f64, 3);
    match one.cmp(&other) {
        std::cmp::Ordering::Equal => "none: both have the same value".to_owned(),
        std::cmp::Ordering::Greater => format!("{} times faster, {} less", factor(one, other), one - other),
        std::cmp::Ordering::Less => format!("{} times slower, {} more", factor(other, one), other - one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy::core::problem::Objective;

    fn batch(inputs: u32) -> Checked {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans/valid/batch.json");
        let mut plan = Checked::read(path).unwrap_or_else(|_| panic!("{path} is valid"));
        plan.file.problem.objective = Objective::Batch { inputs };
        plan
    }

    /// A smaller job that takes less time is no faster.
    #[test]
    fn batches_of_different_inputs_are_not_compared() {
        assert!(comparable(&batch(4), &batch(4)));
        assert!(!comparable(&batch(4), &batch(2)));
    }

    #[test]
    fn times_differ_where_both_have_them() {
        let problem = batch(4).file.problem;
        let all = problem.costs();
        let first = |class: &ClassCosts| ClassCosts {
            class: class.class.clone(),
            batch_sizes: class.batch_sizes[..1].to_vec(),
            costs: class.costs[..1].to_vec(),
        };
        let mut some: Vec<ClassCosts> = all.iter().map(first).collect();
        assert!(!times_differ(all, &some));
        some[0].costs[0][0] = None;
        assert!(times_differ(all, &some));
    }
}
