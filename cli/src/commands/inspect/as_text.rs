//! What `inspect` prints for people.

use divvy::core::hardware::Hardware;
use divvy::core::problem::OwnHardware;
use divvy::core::units::{Time, counted, show_bytes, show_count, show_flops, show_number};
use divvy::io::onnx::import::dim_options;
use divvy::io::onnx::open_dims::OpenDim;
use divvy::io::onnx::trips::{EVERY_LOOP, Trips};
use divvy::io::onnx::weights::{Absent, AbsentFile};
use divvy::io::presets;

use super::{Facts, Measure};
use crate::analysis::Ranking;
use crate::view::percent::percent;

pub(super) fn hardware(hardware: &Hardware) -> String {
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

pub(super) fn network(facts: &Facts<'_>) -> String {
    let article = if facts.format.starts_with('O') { "an" } else { "a" };
    let mut lines = vec![format!("`{}`, {article} {}", facts.graph.name(), facts.format)];
    lines.extend(open_dimensions(facts.file.open));
    lines.extend(rounds(facts.file.trips));
    lines.extend(missing_weights(facts.file.absent));
    lines.extend(sizes(facts));
    lines.extend(times_and_hardware(facts));
    lines.extend(parallelism(facts));
    lines.extend(repeats(facts));
    for (measure, ranking) in &facts.rankings {
        lines.extend(shares(facts, measure, ranking));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// What is open, at which input and axis, and what the figures below it are for.
fn open_dimensions(open: &[OpenDim]) -> Vec<String> {
    if open.is_empty() {
        return Vec::new();
    }
    let place = |dim: &OpenDim| format!("`{}`: axis {} of input `{}`", dim.name, dim.axis, dim.input);
    let mut lines = labelled("open", open.iter().map(place));
    lines.push(
        "  sizes     suggested, and used for the figures below; to plan, give these or your own:".to_owned(),
    );
    lines.push(format!("            {}", dim_options(open)));
    lines
}

/// Weights in files that are not there, and what that means.
fn missing_weights(absent: &Absent) -> Vec<String> {
    let mut lines = Vec::new();
    if !absent.files.is_empty() {
        let named = absent.files.iter().take(MOST_FILES).map(|AbsentFile { file, tensors, bytes }| {
            let tensors =
                if *tensors == 1 { "1 tensor".to_owned() } else { format!("{} tensors", count(*tensors)) };
            format!("`{file}` with {tensors}, {}", show_bytes(*bytes))
        });
        let more = absent.files.len().saturating_sub(MOST_FILES);
        let more = (more > 0).then(|| format!("and {} more files with weights", count(more)));
        let needs = "to plan, sizes are enough; to run or profile, put the files beside the model, or numbers are made up";
        lines.extend(labelled("missing", named.chain(more).chain([needs.to_owned()])));
    }
    if let Some(first) = absent.faults.first() {
        let others = match absent.faults.len() - 1 {
            0 => String::new(),
            others => format!(" (and {} more tensors)", count(others)),
        };
        lines.extend(labelled("damaged", [format!("{first}{others}")]));
    }
    lines
}

/// Most files with weights that are named.
const MOST_FILES: usize = 5;

/// How often loops were said to run.
fn rounds(trips: &Trips) -> Vec<String> {
    let line = |(name, rounds): (&String, &u64)| {
        let rounds = show_count(u128::from(*rounds));
        match name.as_str() {
            EVERY_LOOP => format!("{rounds} for loops whose rounds depend on data"),
            name => format!("{rounds} for the loop `{name}`"),
        }
    };
    labelled("rounds", trips.iter().map(line))
}

fn count(number: usize) -> String {
    show_count(number as u128)
}

/// The label in front of the first line, blanks in front of the others.
fn labelled(label: &str, texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let label = |i: usize| if i == 0 { label } else { "" };
    texts.into_iter().enumerate().map(|(i, text)| format!("  {:8}  {text}", label(i))).collect()
}

fn sizes(facts: &Facts<'_>) -> Vec<String> {
    let graph = facts.graph;
    let folded = match facts.folded {
        0 => String::new(),
        folded => format!(
            " ({} of the source {} part of them)",
            counted(folded, "more node"),
            if folded == 1 { "is" } else { "are" }
        ),
    };
    let flops = match facts.flops() {
        (None, _) => "unknown".to_owned(),
        (Some(flops), 0) => show_flops(flops),
        (Some(flops), unknown) => format!("{} and {} unknown", show_flops(flops), counted(unknown, "op")),
    };
    let weights = show_bytes(graph.total_weight_bytes());
    let mut lines = vec![
        format!("  ops       {}{folded}", count(graph.op_count())),
        format!("  tensors   {}", count(graph.tensor_count())),
        format!("  weights   {weights} in {}", counted(graph.param_count(), "parameter")),
        format!("  FLOPs     {flops}"),
        format!("  depth     {}", count(graph.depth())),
        format!("  width     {}", count(graph.width())),
    ];
    let largest = facts.largest.iter().map(|(name, bytes)| format!("{:>10}  {name}", show_bytes(*bytes)));
    lines.extend(labelled("largest", largest));
    lines
}

fn times_and_hardware(facts: &Facts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for total in &facts.totals {
        let whole = total.whole.map_or(String::new(), |whole| format!(", the whole model {whole}"));
        let (class, size, sum, origin) = (&total.class, total.size, total.sum, total.origin);
        lines.push(format!("  {origin:9} {class} at batch {size}: sum of ops {sum}{whole}"));
    }
    if facts.totals.is_empty() && facts.on.is_none() {
        lines.push("  measured  nothing; --on estimates times from data sheets".to_owned());
    }
    lines.push(match (facts.on, &facts.spec.hardware) {
        (Some(name), _) => format!("  hardware  `{name}`, by --on"),
        (None, Some(OwnHardware::Given(hardware))) => {
            format!("  hardware  its own: `{}`, {}", hardware.name, counted(hardware.devices.len(), "device"))
        }
        (None, Some(OwnHardware::UniformPerStage { bandwidth })) => {
            format!("  hardware  its own: identical devices joined at {}/s", show_bytes(*bandwidth))
        }
        (None, None) => format!("  hardware  none; --on takes one of {}", presets::names().join(", ")),
    });
    lines.extend(labelled("device", devices(facts)));
    lines
}

/// Devices with more names than this are counted.
const MOST_DEVICES: usize = 4;

/// One line for each class: what its devices would take alone.
fn devices(facts: &Facts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (measure, ranking) in &facts.rankings {
        let Measure::Time(timing) = measure else { continue };
        let names = match timing.devices.as_slice() {
            [] => continue,
            few if few.len() <= MOST_DEVICES => few.join(", "),
            many => format!("{} and {} more", many[..MOST_DEVICES].join(", "), many.len() - MOST_DEVICES),
        };
        let each = if timing.devices.len() > 1 { "each " } else { "" };
        let cannot = match ranking.unknown {
            0 => String::new(),
            some => format!("; it cannot run {}", counted(some, "op")),
        };
        let (sum, origin) = (amount(measure, ranking.total), timing.origin());
        lines.push(format!("{names} ({}): {each}{sum} for all ops in turn, {origin}{cannot}", timing.class));
        if timing.piece > Time::ZERO {
            let piece = timing.piece;
            let ops = timing.ops_in_a_piece().map_or(String::new(), |ops| {
                format!(
                    ", as much as {} average: cut where whole stretches move",
                    counted(ops.round() as usize, "op")
                )
            });
            lines.push(format!("a piece on {names} costs {piece} besides its ops{ops}"));
        }
    }
    lines
}

/// Total work over the longest chain, by ops and by every figure that has a meaning along a chain.
fn parallelism(facts: &Facts<'_>) -> Vec<String> {
    let line = |ranking: &Ranking<'_>, total: String, chain: String| {
        let factor = show_number(ranking.parallelism()?, 3);
        Some(format!("{factor}: {total}, {chain} on the longest chain"))
    };
    let ops = &facts.op_counts;
    let by_ops = line(
        ops,
        counted(usize::try_from(ops.total).unwrap_or(usize::MAX), "op"),
        show_count(ops.longest_chain),
    );
    let others = facts.rankings.iter().filter_map(|(measure, ranking)| {
        let place = match measure {
            Measure::Flops => String::new(),
            Measure::Time(timing) => format!(" on {}", timing.class),
            Measure::WeightBytes | Measure::ActivationBytes => return None,
        };
        let total = format!("{}{place}", amount(measure, ranking.total));
        line(ranking, total, amount(measure, ranking.longest_chain))
    });
    labelled("parallel", by_ops.into_iter().chain(others))
}

fn repeats(facts: &Facts<'_>) -> Vec<String> {
    let name = |position: usize| facts.graph.op_name(facts.graph.order()[position]);
    let line = |repeat: &crate::analysis::Repeat| {
        let (first, last) = (name(repeat.start), name(repeat.start + repeat.ops - 1));
        let (times, ops) = (count(repeat.times), counted(repeat.ops, "op"));
        format!("{times} × the same block of {ops}, first `{first}` to `{last}`")
    };
    labelled("repeats", facts.repeats.iter().map(line))
}

fn amount(measure: &Measure<'_>, amount: u128) -> String {
    let fitting = u64::try_from(amount).unwrap_or(u64::MAX);
    match measure {
        Measure::Flops => show_flops(amount),
        Measure::WeightBytes | Measure::ActivationBytes => show_bytes(fitting),
        Measure::Time(_) => Time(fitting).to_string(),
    }
}

/// Kinds on the left, ops on the right, each with its share.
fn shares(facts: &Facts<'_>, measure: &Measure<'_>, ranking: &Ranking<'_>) -> Vec<String> {
    if ranking.ops.is_empty() {
        return Vec::new();
    }
    let what = match measure {
        Measure::Flops => "FLOPs".to_owned(),
        Measure::WeightBytes => "weights".to_owned(),
        Measure::ActivationBytes => "activations".to_owned(),
        Measure::Time(timing) if timing.batch_size == 1 => format!("time on {}", timing.class),
        Measure::Time(timing) => format!("time on {} at batch {}", timing.class, timing.batch_size),
    };
    let share = |amount: u128| percent(ranking.share(amount));
    let ops_of = |ops: usize| counted(ops, "op");
    let left: Vec<String> = (ranking.kinds.iter())
        .map(|kind| format!("{:>8}  {} ({})", share(kind.amount), kind.name, ops_of(kind.ops)))
        .collect();
    let right: Vec<String> = (ranking.ops.iter())
        .map(|&(op, sum)| {
            let spec = facts.graph.op(op);
            format!("{:>8}  {} ({})", share(sum), spec.name, spec.kind)
        })
        .collect();
    let width = left.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let mut lines =
        vec![String::new(), format!("  {what}: {}, by kind and by op", amount(measure, ranking.total))];
    for i in 0..left.len().max(right.len()) {
        let at = |list: &[String]| list.get(i).cloned().unwrap_or_default();
        lines.push(format!("  {:width$}   {}", at(&left), at(&right)).trim_end().to_owned());
    }
    lines
}
