//! What it gains to plan in pieces: plans made as if pieces cost nothing, and plans that count what they cost, side by side.
//!
//! `cargo run --release -p divvy-lab --example pieces -- SECONDS > docs/results/pieces.md` plans the bundled models on built-in
//! hardware of real machines, under every objective, each once for so many seconds. A plan made without the cost is cut as it
//! has to be, and gets its value anew with the cost. Two plans are made at a time.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use divvy_core::check::check;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_io::assemble::{ObjectiveKind, ObjectiveOptions, ProblemOptions, assemble};
use divvy_search::{Budget, Outcome, Request, solve};

const MODELS: [&str; 6] = [
    "googlenet.json.gz",
    "gpt2-large-1x32.json.gz",
    "googlenet.onnx",
    "mobilenet_v2.onnx",
    "resnet50.onnx",
    "layered-54.json.gz",
];
const HARDWARE: [&str; 4] = ["h200-cpu", "rtx4090-2", "jetson-orin-nano", "two-pcs-ethernet"];
const OBJECTIVES: [(&str, ObjectiveKind); 5] = [
    ("latency", ObjectiveKind::Latency),
    ("batch", ObjectiveKind::Batch),
    ("pipeline", ObjectiveKind::Pipeline),
    ("stream", ObjectiveKind::Stream),
    ("cold-start", ObjectiveKind::ColdStart),
];
/// Inputs of a `batch`.
const INPUTS: u32 = 4;

/// A model on hardware under an objective.
struct Case {
    model: &'static str,
    hardware: &'static str,
    objective: &'static str,
    free: Problem,
    real: Problem,
}

/// What came of it.
struct Row {
    /// Pieces and value of the plan that was made as if pieces cost nothing, with what they cost.
    before: (usize, Time),
    /// Those of the plan that counts it.
    after: (usize, Time),
    gaps: [Option<f64>; 2],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args().nth(1).ok_or("usage: pieces SECONDS")?.parse()?;
    let cases = cases();
    let next = Mutex::new(0..cases.len());
    let take = || next.lock().ok().and_then(|mut next| next.next());
    let rows: Mutex<BTreeMap<usize, Row>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(i) = take() {
                    if let (Some(row), Ok(mut rows)) = (row(&cases[i], seconds), rows.lock()) {
                        rows.insert(i, row);
                    }
                }
            });
        }
    });
    let rows = rows.into_inner()?;
    let text = page(&cases, &rows, seconds);
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// All that can be asked of the models: some have no times for such a batch.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for model in MODELS {
        for hardware in HARDWARE {
            for (objective, kind) in OBJECTIVES {
                let inputs = (kind == ObjectiveKind::Batch).then_some(INPUTS);
                let options = |piece_cost| ProblemOptions {
                    hardware: Some(hardware.to_owned()),
                    piece_cost,
                    objective: ObjectiveOptions { kind: Some(kind), inputs, ..ObjectiveOptions::default() },
                    ..ProblemOptions::default()
                };
                let path = format!("models/{model}");
                let of = |cost| assemble(&path, &options(cost)).ok().map(|assembled| assembled.problem);
                if let (Some(free), Some(real)) = (of(Some(Time::ZERO)), of(None)) {
                    cases.push(Case { model, hardware, objective, free, real });
                }
            }
        }
    }
    cases
}

fn row(case: &Case, seconds: f64) -> Option<Row> {
    let plan = |problem: &Problem| {
        let budget = Budget::new(Duration::from_secs_f64(seconds));
        Some(solve(problem, &Request::default(), &budget, &mut |_| ()).ok()?.outcome)
    };
    let (free, real) = (plan(&case.free)?, plan(&case.real)?);
    let before = check(&case.real, &uncut(free.best.as_ref()?.0.clone())).ok()?;
    let after = &real.best.as_ref()?.1;
    let gap = |outcome: &Outcome| outcome.gap();
    Some(Row {
        before: (before.pieces.len(), before.value),
        after: (after.pieces.len(), after.value),
        gaps: [gap(&free), gap(&real)],
    })
}

/// The plan without cuts of its own, which is then cut where it must be.
fn uncut(mut plan: Plan) -> Plan {
    match &mut plan {
        Plan::Latency(plan) => plan.cuts = None,
        Plan::Batch(plan) => plan.cuts = None,
        Plan::ColdStart(plan) => plan.cuts = None,
        Plan::Pipeline(_) | Plan::Stream(_) => {}
    }
    plan
}

fn page(cases: &[Case], rows: &BTreeMap<usize, Row>, seconds: f64) -> String {
    let mut lines = vec![
        "# What planning in pieces gains".to_owned(),
        String::new(),
        format!(
            "Made by `cargo run --release -p divvy-lab --example pieces -- {seconds}`, two plans at a time. The bundled models on \
             built-in hardware of real machines, with what a piece costs there (`[piece]` in `divvy hardware show`). *Before*: \
             planned as if pieces cost nothing, cut where it must be, and scored with what they cost. *After*: planned with it. \
             *Gain* is the first value over the second. A *gap* is the distance to the best bound: of the plan as if pieces cost \
             nothing, and of the one that counts them."
        ),
        String::new(),
        "Where gaps are wider, it is the bounds. They count one piece for each device that is used at all, the call of the \
         busiest stage, and a call for whatever reads from another device. What they do not count: that a branch which goes to \
         another device and back takes two pieces of it, that pieces of a device wait for all they read at once, and that a cold \
         start which overlaps finely has many pieces. That weighs where the whole network takes as long as a few pieces do: \
         `layered-54` two of them on a GPU, GoogLeNet 16. For GPT-2 large the gaps are about those without the cost. A \
         `cold-start` plan without the cost is cut behind every op, hence the gain; a `pipeline` has a piece a stage either way."
            .to_owned(),
        String::new(),
    ];
    for (objective, _) in OBJECTIVES {
        let of: Vec<(&Case, &Row)> = rows
            .iter()
            .map(|(&i, row)| (&cases[i], row))
            .filter(|(case, _)| case.objective == objective)
            .collect();
        if of.is_empty() {
            continue;
        }
        let gain = |row: &Row| row.before.1.0 as f64 / row.after.1.0.max(1) as f64;
        let mean = (of.iter().map(|(_, row)| gain(row).ln()).sum::<f64>() / of.len() as f64).exp();
        let worst = of.iter().map(|(_, row)| gain(row)).fold(f64::INFINITY, f64::min);
        let wider = of.iter().filter(|(_, row)| widened(row).is_some_and(|points| points > 2.0)).count();
        lines.extend([
            format!("## {objective}"),
            String::new(),
            format!(
                "{} cases: gain {mean:.3} in the geometric mean, {worst:.3} at worst. The gap is more than 2 points wider in {wider}.",
                of.len()
            ),
            String::new(),
            "| model | on | pieces before | after | value before | after | gain | gap at cost 0 | gap |".to_owned(),
            "|---|---|---|---|---|---|---|---|---|".to_owned(),
        ]);
        for (case, row) in of {
            let percent =
                |gap: Option<f64>| gap.map_or("–".to_owned(), |gap| format!("{:.2} %", 100.0 * gap));
            lines.push(format!(
                "| {} | {} | {} | {} | {} | {} | {:.3} | {} | {} |",
                case.model,
                case.hardware,
                row.before.0,
                row.after.0,
                row.before.1,
                row.after.1,
                gain(row),
                percent(row.gaps[0]),
                percent(row.gaps[1])
            ));
        }
        lines.push(String::new());
    }
    lines.join("\n")
}

/// By how many percentage points the gap is wider with what pieces cost.
fn widened(row: &Row) -> Option<f64> {
    Some(100.0 * (row.gaps[1]? - row.gaps[0]?))
}
