//! `csv`: one row for each op and device, by start; fields as RFC 4180 has them.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score, Span};

use super::origin;
use crate::critical_path::critical;

const HEAD: &str = "op,kind,module,device,stage,inputs,start_us,duration_us,end_us,flops,weight_bytes,output_bytes,time,critical";

/// What runs where and when, as a table.
pub fn csv(problem: &Problem, plan: &Plan, score: &Score) -> String {
    let marks = critical(problem, score);
    let mut spans: HashMap<(OpId, DeviceId), (Span, bool)> = HashMap::new();
    for (span, mark) in score.trace.spans.iter().zip(marks) {
        if let (Activity::Op(op, _), Lane::Device(device)) = (span.what, span.lane) {
            spans.insert((op, device), (*span, mark));
        }
    }
    let stages = stages(problem, plan);
    let mut rows = Vec::new();
    for (op, device, inputs) in plan.placements() {
        // Devices that share a stage run as its first one does.
        let first = match plan {
            Plan::Pipeline(plan) => plan.stages[stages[op.index()].unwrap_or(0)].device,
            _ => device,
        };
        let Some(&(span, mark)) = spans.get(&(op, first)) else { continue };
        let (spec, graph) = (problem.graph.op(op), &problem.graph);
        let optional = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let outputs: u64 = graph.outputs(op).iter().map(|&tensor| graph.tensor_bytes(tensor)).sum();
        let fields = [
            quoted(&spec.name),
            quoted(&spec.kind),
            optional(spec.module.map(u64::from)),
            quoted(problem.hardware.device_name(device)),
            optional(stages[op.index()].map(|stage| stage as u64)),
            inputs.to_string(),
            span.start.as_us().to_string(),
            (span.end - span.start).as_us().to_string(),
            span.end.as_us().to_string(),
            optional(spec.flops),
            graph.weight_bytes(op).to_string(),
            outputs.to_string(),
            problem.cost(op, device, inputs).map_or("", |cost| origin(cost.origin)).to_owned(),
            u8::from(mark).to_string(),
        ];
        rows.push(((span.start, device, op), fields.join(",")));
    }
    rows.sort();
    let mut text = format!("{HEAD}\r\n");
    for (_, row) in rows {
        text.push_str(&row);
        text.push_str("\r\n");
    }
    text
}

/// The stage of each op, for pipelines.
fn stages(problem: &Problem, plan: &Plan) -> Vec<Option<usize>> {
    let mut stages = vec![None; problem.graph.op_count()];
    if let Plan::Pipeline(plan) = plan {
        for (i, stage) in plan.stages.iter().enumerate() {
            stage.ops.iter().for_each(|op| stages[op.index()] = Some(i));
        }
    }
    stages
}

/// A text field; in quotes where it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;

    #[test]
    fn every_placement_has_a_row_of_its_own() {
        for name in ["latency.json", "batch.json", "cold-start.json", "pipeline.json", "stream.json"] {
            let (file, score) = test_plans::plan(name);
            let text = csv(&file.problem, &file.plan, &score);
            let rows: Vec<&str> = text.split("\r\n").collect();
            // The head, and nothing after the last break.
            assert_eq!(rows.len(), file.plan.placements().len() + 2, "{name}");
            assert_eq!((rows[0], rows[rows.len() - 1]), (HEAD, ""));
            let columns = HEAD.split(',').count();
            assert!(rows[1..rows.len() - 1].iter().all(|row| row.split(',').count() == columns), "{text}");
        }
    }

    #[test]
    fn names_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
