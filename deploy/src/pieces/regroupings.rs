//! Stages that make what a group of inputs takes from other groups.
//!
//! A value is joined and parted on the device that needs it first; values that one piece alone waits for come by one
//! stage.

use std::collections::{BTreeMap, BTreeSet};

use divvy_exec::backend::StageModel;
use divvy_exec::program::StageSpec;
use divvy_io::onnx::batch::SizedModel;
use divvy_io::onnx::cut::CutPiece;
use divvy_io::onnx::input_axis::InputAxes;
use divvy_io::onnx::pieces::GroupModel;
use divvy_io::onnx::regroup::{Regrouped, Stretch, regroup};

use crate::error::DeployError;
use crate::pieces::stage_source::StageSource;

/// What the values of a group begin with; nothing where there is only one group.
pub(super) fn prefix(group: usize, groups: usize) -> String {
    if groups > 1 { format!("group{group}:") } else { String::new() }
}

/// The stages that make what a group takes from others, each with the rank of the piece that waits for it.
pub(super) fn regroupings(
    source: &StageSource<'_>,
    parts: &[GroupModel],
    group: usize,
    pieces: &[CutPiece],
    models: &BTreeMap<u32, SizedModel>,
) -> Result<Vec<(usize, StageSpec)>, DeployError> {
    let part = &parts[group];
    let Some(axes) = InputAxes::new(models).filter(|_| !part.taken.is_empty()) else { return Ok(Vec::new()) };
    // By the pieces that wait for it; a value that several wait for must not wait for another.
    let mut waited_for: BTreeMap<(usize, Option<&String>), Vec<Regrouped>> = BTreeMap::new();
    for (value, makers) in &part.taken {
        let readers: BTreeSet<usize> = pieces
            .iter()
            .filter(|piece| piece.inputs.contains(value))
            .map(|piece| part.rank(piece))
            .collect();
        let Some(&first) = readers.first() else { continue };
        let alone = (readers.len() > 1).then_some(value);
        let regrouped = regrouped(source, parts, group, (value, makers.as_slice()), &axes, models)?;
        waited_for.entry((first, alone)).or_default().push(regrouped);
    }
    let stage = |((rank, _), values): ((usize, Option<&String>), Vec<Regrouped>)| {
        let (model, inputs) = regroup(&values);
        let reader = pieces.iter().find(|piece| part.rank(piece) == rank);
        let device = reader.map_or("", |piece| piece.device.as_str());
        let model = StageModel {
            name: format!("{}regroup{rank:03}-{device}", prefix(group, parts.len())),
            bytes: model.to_bytes(),
            inputs,
            outputs: values.into_iter().map(|value| value.name).collect(),
            ..StageModel::default()
        };
        (rank, StageSpec::new(model, source.device(device)))
    };
    Ok(waited_for.into_iter().map(stage).collect())
}

/// A value that a group takes, made from those of the groups that have its inputs.
fn regrouped(
    source: &StageSource<'_>,
    parts: &[GroupModel],
    group: usize,
    (value, makers): (&String, &[usize]),
    axes: &InputAxes<'_>,
    models: &BTreeMap<u32, SizedModel>,
) -> Result<Regrouped, DeployError> {
    let part = &parts[group];
    let name_in = |group: usize| format!("{}{value}", prefix(group, parts.len()));
    let at = axes.of(value).map_err(|reason| {
        let fix = "plan so that inputs stay together there, with `--planner one-device`, say";
        DeployError::cannot_run(source.plan_path, reason, fix)
    })?;
    let unknown = || source.fault(format!("`{value}` has no known shape"));
    let made = |&maker: &usize| {
        let shape = models[&parts[maker].size()].facts.values.get(value)?.shape.clone()?;
        Some((name_in(maker), shape, parts[maker].inputs.as_slice()))
    };
    let sources: Option<Vec<_>> = makers.iter().map(made).collect();
    let sources = sources.filter(|sources| !sources.is_empty()).ok_or_else(unknown)?;
    let stretches = match at {
        Some(at) => Regrouped::stretches(&part.inputs, &sources, at.entries).ok_or_else(unknown)?,
        // It is the same for every input.
        None => sources
            .into_iter()
            .take(1)
            .map(|(source, shape, _)| Stretch { source, shape, entries: None })
            .collect(),
    };
    let element = models[&part.size()].facts.values.get(value).map_or(0, |fact| fact.element);
    Ok(Regrouped { name: name_in(group), element, axis: at.map_or(0, |at| at.axis), stretches })
}
