//! `divvy inspect`.

use divvy_core::costs::{Origin, Profile};
use divvy_core::graph::Graph;
use divvy_core::hardware::Hardware;
use divvy_core::problem::{OwnHardware, ProblemSpec};
use divvy_core::units::{Time, show_bytes, show_flops};
use divvy_io::import::{Imported, import_with};
use divvy_io::plan_file::PlanFile;
use divvy_io::{file, presets};
use serde_json::{Value, json};

use crate::args::InspectArgs;
use crate::assemble::{dims, to_granularity};
use crate::failure::Failure;

pub(crate) fn run(args: &InspectArgs) -> Result<String, Failure> {
    let loaded = file::load(&args.file)?;
    let dims = dims(&args.reading.dim)?;
    let about = |errors| Failure::Input(args.file.clone(), errors);
    if args.values {
        return super::values::list(&loaded, &dims, args.json);
    }
    match import_with(&loaded, &dims)? {
        Imported::Hardware(spec) => {
            let hardware = Hardware::new(*spec).map_err(about)?;
            Ok(show_hardware(&hardware, args.json))
        }
        Imported::Plan => {
            let plan = PlanFile::read(&loaded)?;
            let spec = plan.problem.to_spec();
            let format = format!("divvy plan ({} by {})", plan.plan.objective_name(), plan.planner);
            Ok(show_problem(&format, &plan.problem.graph, &spec, args))
        }
        Imported::Problem { format, mut spec, warnings } => {
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            if let Some(granularity) = args.reading.granularity {
                *spec = to_granularity(*spec, granularity.into()).map_err(about)?;
            }
            let graph = Graph::new(spec.graph.clone()).map_err(about)?;
            Ok(show_problem(format, &graph, &spec, args))
        }
    }
}

fn show_hardware(hardware: &Hardware, json: bool) -> String {
    if json {
        let names: Vec<&str> = hardware.devices().map(|d| hardware.device_name(d)).collect();
        return format!("{}\n", json!({"format": "hardware", "name": hardware.name(), "devices": names}));
    }
    let mut text = format!("hardware `{}`: {}\n", hardware.name(), hardware.spec().description);
    text.push_str(&format!("  devices   {}\n", hardware.device_count()));
    for device in hardware.devices().take(20) {
        let class = &hardware.class(device).name;
        text.push_str(&format!("            {} ({class})\n", hardware.device_name(device)));
    }
    for link in hardware.links().iter().take(20) {
        text.push_str(&format!("  link      {} at {}/s\n", link.name, show_bytes(link.bandwidth.0)));
    }
    text
}

/// What there is to say of a network.
struct Facts<'a> {
    graph: &'a Graph,
    flops: Option<u128>,
    unknown_flops: usize,
    folded: usize,
    largest: Vec<(&'a str, u64)>,
}

fn facts<'a>(graph: &'a Graph, top: usize) -> Facts<'a> {
    let known: Vec<u64> = graph.ops().filter_map(|op| graph.op(op).flops).collect();
    let mut largest: Vec<(&str, u64)> =
        graph.tensors().map(|t| (graph.tensor_name(t), graph.tensor_bytes(t))).collect();
    largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    largest.truncate(top);
    Facts {
        graph,
        flops: (!known.is_empty()).then(|| known.iter().map(|&flops| u128::from(flops)).sum()),
        unknown_flops: graph.op_count() - known.len(),
        folded: graph.ops().map(|op| graph.op(op).members.len()).sum(),
        largest,
    }
}

fn show_problem(format: &str, graph: &Graph, spec: &ProblemSpec, args: &InspectArgs) -> String {
    let facts = facts(graph, args.top);
    if args.json { format!("{}\n", as_json(format, &facts, spec)) } else { as_text(format, &facts, spec) }
}

fn as_json(format: &str, facts: &Facts<'_>, spec: &ProblemSpec) -> Value {
    let graph = facts.graph;
    let largest: Vec<Value> =
        facts.largest.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect();
    let profile: Vec<Value> = (totals(&spec.profile).iter())
        .map(|total| {
            json!({
                "class": total.class, "batch_size": total.size, "sum_of_ops_us": total.sum.as_us(),
                "whole_model_us": total.whole.map(Time::as_us),
            })
        })
        .collect();
    json!({
        "format": format, "name": graph.name(), "ops": graph.op_count(), "folded_ops": facts.folded,
        "tensors": graph.tensor_count(), "params": graph.param_count(),
        "weight_bytes": graph.total_weight_bytes(),
        "flops": facts.flops.map_or(json!("unknown"), |flops| json!(flops as f64)),
        "ops_of_unknown_flops": facts.unknown_flops, "depth": graph.depth(), "width": graph.width(),
        "largest_tensors": largest, "profile": profile,
        "objective": spec.objective.map(|objective| objective.name()),
    })
}

fn as_text(format: &str, facts: &Facts<'_>, spec: &ProblemSpec) -> String {
    let graph = facts.graph;
    let folded = if facts.folded > 0 {
        format!(" ({} more nodes of the source are part of them)", facts.folded)
    } else {
        String::new()
    };
    let flops = match (facts.flops, facts.unknown_flops) {
        (None, _) => "unknown".to_owned(),
        (Some(flops), 0) => show_flops(flops),
        (Some(flops), unknown) => format!("{} and {unknown} ops unknown", show_flops(flops)),
    };
    let article = if format.starts_with('O') { "an" } else { "a" };
    let mut text = format!("`{}`, {article} {format}\n", graph.name());
    text.push_str(&format!("  ops       {}{folded}\n", graph.op_count()));
    text.push_str(&format!("  tensors   {}\n", graph.tensor_count()));
    text.push_str(&format!(
        "  weights   {} in {} parameters\n",
        show_bytes(graph.total_weight_bytes()),
        graph.param_count()
    ));
    text.push_str(&format!("  FLOPs     {flops}\n"));
    text.push_str(&format!("  depth     {}\n", graph.depth()));
    text.push_str(&format!("  width     {}\n", graph.width()));
    for (i, (name, bytes)) in facts.largest.iter().enumerate() {
        let label = if i == 0 { "largest" } else { "" };
        text.push_str(&format!("  {label:8}  {:>10}  {name}\n", show_bytes(*bytes)));
    }
    for total in totals(&spec.profile) {
        let whole = total.whole.map_or(String::new(), |whole| format!(", the whole model {whole}"));
        let (class, size, sum) = (&total.class, total.size, total.sum);
        let origin = total.origin;
        text.push_str(&format!("  {origin:9} {class} at batch {size}: sum of ops {sum}{whole}\n"));
    }
    if spec.profile.classes.is_empty() {
        text.push_str("  measured  nothing; times will be estimated from data sheets\n");
    }
    text.push_str(&match &spec.hardware {
        Some(OwnHardware::Given(hardware)) => {
            format!("  hardware  its own: `{}`, {} devices\n", hardware.name, hardware.devices.len())
        }
        Some(OwnHardware::UniformPerStage { bandwidth }) => {
            format!("  hardware  its own: identical devices joined at {}/s\n", show_bytes(*bandwidth))
        }
        None => format!("  hardware  none; plan with --on and one of {}\n", presets::names().join(", ")),
    });
    text
}

/// The ops of a network, one after the other, on a class at a batch size.
struct Total {
    class: String,
    size: u32,
    sum: Time,
    whole: Option<Time>,
    /// How the figures came about, by the least certain of them.
    origin: &'static str,
}

fn totals(profile: &Profile) -> Vec<Total> {
    let mut totals = Vec::new();
    for class in &profile.classes {
        for (&size, list) in class.batch_sizes.iter().zip(&class.costs) {
            let sum: u64 = list.iter().flatten().map(|cost| cost.time.0).fold(0, u64::saturating_add);
            let whole = profile.whole_model.iter().find(|(c, s, _)| *c == class.class && *s == size);
            let whole = whole.map(|(_, _, time)| *time);
            let origin = match list.iter().flatten().map(|cost| cost.origin).max() {
                None | Some(Origin::Measured) => "measured",
                Some(Origin::Scaled) => "scaled",
                Some(Origin::Estimated) => "estimated",
            };
            totals.push(Total { class: class.class.clone(), size, sum: Time(sum), whole, origin });
        }
    }
    totals
}
