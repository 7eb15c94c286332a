//! The stages of a program: pieces of the model, and regroupings where a `batch` plan puts inputs together anew.
//!
//! Each group of inputs has stages of its own, whose values have a prefix. What a group takes from others is joined and
//! parted on the device that needs it first; values that one piece alone waits for come by one regrouping.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use divvy_core::ids::OpId;
use divvy_core::plan::BatchPlan;
use divvy_exec::backend::StageModel;
use divvy_exec::program::{DeviceSpec, StageSpec};
use divvy_io::onnx::batch::SizedModel;
use divvy_io::onnx::cut::{CutPiece, Piece, cut};
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::input_axis::InputAxes;
use divvy_io::onnx::pieces::{self, Cutting, Part};
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::onnx::quicker::quicker;
use divvy_io::onnx::regroup::{Regrouped, Stretch, regroup};
use divvy_io::onnx::symbolic::Outlines;
use divvy_io::plan_file::PlanFile;
use prost::Message;

use super::groups::Share;
use super::kernels::{Owners, marked, marked_as};
use super::prepare::{RUNNABLE, fault};
use crate::failure::Failure;

/// What stages are made from.
pub(super) struct Source<'a> {
    /// The name of the plan's file.
    pub(super) plan_path: &'a str,
    pub(super) plan: &'a PlanFile,
    /// The name of the model's file.
    pub(super) path: &'a str,
    pub(super) model: &'a Model,
    /// The model's inputs.
    pub(super) inputs: &'a [String],
    /// The model's outputs.
    pub(super) results: &'a [String],
    pub(super) devices: &'a [DeviceSpec],
    pub(super) owners: &'a Owners,
}

/// What a stage does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Ops of the problem, each once.
    pub(super) ops: Vec<OpId>,
    /// For how many inputs.
    pub(super) size: u32,
    /// The stage that it puts inputs together for, if that is all it does.
    pub(super) regroups_for: Option<usize>,
}

/// The stages of a program, in an order in which they can run.
#[derive(Default)]
pub(super) struct Stages {
    pub(super) plain: Vec<StageSpec>,
    /// The same with every node named by its position in the whole.
    pub(super) marked: Vec<StageSpec>,
    pub(super) work: Vec<Work>,
    /// What the program is fed.
    pub(super) inputs: Vec<Share>,
    /// What it gives.
    pub(super) results: Vec<Share>,
    /// How many groups of inputs there are.
    pub(super) groups: usize,
}

/// The stages of a plan for one input.
pub(super) fn of_one(source: &Source<'_>, cutting: Cutting) -> Result<Stages, Failure> {
    let (model, dims) = (source.model, &source.plan.reading.dims);
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let facts = infer(model, dims);
    let fixed = FixedShapes::new(graph, dims, &facts);
    let pieces = pieces::pieces(&source.plan.problem, &source.plan.plan, graph, &fixed, cutting)
        .map_err(|reason| fault(source.plan_path, reason, RUNNABLE))?;
    let outlines = Outlines::new(model, dims, &facts);
    let plain = source.cut(&fixed.write_down(model.clone(), &pieces), &pieces, &outlines)?;
    let named = source.cut(&fixed.write_down(marked(model.clone()), &pieces), &pieces, &outlines)?;
    let share = |(value, name): (usize, &String)| Share { name: name.clone(), value, inputs: vec![0] };
    Ok(Stages {
        work: plain.iter().map(|piece| source.work(piece, &pieces, Some, 1)).collect(),
        plain: plain.iter().map(|piece| source.stage(piece, "")).collect(),
        marked: named.iter().map(|piece| source.stage(piece, "")).collect(),
        inputs: source.inputs.iter().enumerate().map(share).collect(),
        results: source.results.iter().enumerate().map(share).collect(),
        groups: 1,
    })
}

/// The stages of a plan for several inputs.
pub(super) fn of_groups(source: &Source<'_>, plan: &BatchPlan) -> Result<Stages, Failure> {
    let sized = |size| {
        let model = SizedModel::new(source.model, size, &source.plan.reading.dims).map_err(|reason| {
            fault(
                source.path,
                reason,
                "batch plans need a model whose inputs begin with a dimension of inputs",
            )
        })?;
        Ok((size, model))
    };
    let sizes: BTreeSet<u32> = plan.batches.iter().map(|batch| batch.size()).collect();
    let mut models: BTreeMap<u32, SizedModel> =
        sizes.iter().map(|&size| sized(size)).collect::<Result<_, Failure>>()?;
    let parts = pieces::parts(&source.plan.problem, plan, &models)
        .map_err(|reason| fault(source.plan_path, reason, RUNNABLE))?;
    if parts.iter().any(|part| !part.taken.is_empty()) {
        // What grows with the number of inputs shows in two sizes at least.
        for size in [1, 2].into_iter().filter(|size| !sizes.contains(size)) {
            models.extend([sized(size)?]);
        }
    }
    let mut found: Vec<Found> = Vec::new();
    let mut stages = Stages { groups: parts.len(), ..Stages::default() };
    for (group, part) in parts.iter().enumerate() {
        let outlines = &models[&part.size()].outlines;
        let plain = source.cut(&part.model, &part.pieces, outlines)?;
        let named = marked_as(part.model.clone(), |node| part.nodes[node]);
        let named = source.cut(&named, &part.pieces, outlines)?;
        let prefix = prefix(group, parts.len());
        for (piece, named) in plain.iter().zip(&named) {
            found.push(Found {
                rank: (part.rank(piece), 1),
                plain: source.stage(piece, &prefix),
                marked: source.stage(named, &prefix),
                work: source.work(piece, &part.pieces, |node| part.nodes[node], part.size()),
            });
        }
        found.extend(regroupings(source, &parts, group, &plain, &models)?);
        let is_read = |name: &String| plain.iter().any(|piece| piece.inputs.contains(name));
        let given = |name: &String| part.results.contains(name);
        stages.inputs.extend(shares(part, &prefix, source.inputs, is_read));
        stages.results.extend(shares(part, &prefix, source.results, given));
    }
    // A regrouping comes right before the piece that waits for it.
    found.sort_by_key(|stage| stage.rank);
    for stage in &found {
        let reader = || found.iter().position(|other| other.rank == (stage.rank.0, 1));
        let regroups_for = if stage.rank.1 == 0 { reader() } else { None };
        stages.work.push(Work { regroups_for, ..stage.work.clone() });
    }
    for stage in found {
        stages.plain.push(stage.plain);
        stages.marked.push(stage.marked);
    }
    Ok(stages)
}

/// A stage and its place: the number of its piece, and 0 for what comes before the piece itself.
struct Found {
    rank: (usize, u8),
    plain: StageSpec,
    marked: StageSpec,
    work: Work,
}

fn prefix(group: usize, groups: usize) -> String {
    if groups > 1 { format!("group{group}:") } else { String::new() }
}

fn shares(part: &Part, prefix: &str, names: &[String], wanted: impl Fn(&String) -> bool) -> Vec<Share> {
    let inputs: Vec<usize> = part.inputs.iter().map(|&input| input as usize).collect();
    let share = |(value, name): (usize, &String)| {
        let name = format!("{prefix}{name}");
        Share { name, value, inputs: inputs.clone() }
    };
    names.iter().enumerate().filter(|(_, name)| wanted(name)).map(share).collect()
}

/// The stages that make what a group takes from others.
fn regroupings(
    source: &Source<'_>,
    parts: &[Part],
    group: usize,
    pieces: &[CutPiece],
    models: &BTreeMap<u32, SizedModel>,
) -> Result<Vec<Found>, Failure> {
    let part = &parts[group];
    let Some(axes) = InputAxes::new(models).filter(|_| !part.taken.is_empty()) else { return Ok(Vec::new()) };
    let prefix_of = |group: usize| prefix(group, parts.len());
    // By the pieces that wait for it; a value that several wait for must not wait for another.
    let mut waited_for: BTreeMap<(usize, Option<&String>), Vec<Regrouped>> = BTreeMap::new();
    for (value, makers) in &part.taken {
        let readers: BTreeSet<usize> = pieces
            .iter()
            .filter(|piece| piece.inputs.contains(value))
            .map(|piece| part.rank(piece))
            .collect();
        let Some(&first) = readers.first() else { continue };
        let at = axes.of(value).map_err(|reason| {
            let fix = "plan so that inputs stay together there, with `--planner one-device`, say";
            fault(source.plan_path, reason, fix)
        })?;
        let unknown = || fault(source.plan_path, format!("`{value}` has no known shape"), RUNNABLE);
        let made = |&maker: &usize| {
            let shape = models[&parts[maker].size()].facts.values.get(value)?.shape.clone()?;
            Some((format!("{}{value}", prefix_of(maker)), shape, parts[maker].inputs.as_slice()))
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
        let (name, axis) = (format!("{}{value}", prefix_of(group)), at.map_or(0, |at| at.axis));
        let alone = (readers.len() > 1).then_some(value);
        waited_for.entry((first, alone)).or_default().push(Regrouped { name, element, axis, stretches });
    }
    let stage = |((rank, _), values): ((usize, Option<&String>), Vec<Regrouped>)| {
        let (model, inputs) = regroup(&values);
        let reader = pieces.iter().find(|piece| part.rank(piece) == rank);
        let device = reader.map_or("", |piece| piece.device.as_str());
        let model = StageModel {
            name: format!("{}regroup{rank:03}-{device}", prefix_of(group)),
            bytes: model.encode_to_vec(),
            inputs,
            outputs: values.into_iter().map(|value| value.name).collect(),
        };
        let stage = StageSpec::new(model, source.device(device));
        let work = Work { size: part.size(), ..Work::default() };
        Found { rank: (rank, 0), plain: stage.clone(), marked: stage, work }
    };
    Ok(waited_for.into_iter().map(stage).collect())
}

impl Source<'_> {
    fn cut(&self, model: &Model, pieces: &[Piece], outlines: &Outlines) -> Result<Vec<CutPiece>, Failure> {
        let cut = cut(model, pieces, outlines);
        let mut cut = cut.map_err(|error| fault(self.path, error.to_string(), "choose another plan"))?;
        cut.retain(|piece| !piece.outputs.is_empty());
        Ok(cut)
    }

    /// A position in the list of devices.
    fn device(&self, name: &str) -> usize {
        self.devices.iter().position(|device| device.name == name).unwrap_or(0)
    }

    fn stage(&self, piece: &CutPiece, prefix: &str) -> StageSpec {
        let model = StageModel {
            name: format!("{prefix}{}", piece.name),
            bytes: quicker(piece.model.clone()).encode_to_vec(),
            inputs: piece.inputs.clone(),
            outputs: piece.outputs.clone(),
        };
        StageSpec { model, device: self.device(&piece.device), prefix: prefix.to_owned() }
    }

    /// What a piece does, if its nodes are at these positions in the whole.
    fn work(
        &self,
        piece: &CutPiece,
        pieces: &[Piece],
        position: impl Fn(usize) -> Option<usize>,
        size: u32,
    ) -> Work {
        let found = pieces.iter().find(|other| other.name == piece.name);
        let mut seen = HashSet::new();
        let nodes = found.map_or(&[][..], |piece| &piece.nodes).iter().filter_map(|&node| position(node));
        let ops = nodes.filter_map(|node| self.owners.of_nodes()[node]).filter(|op| seen.insert(*op));
        Work { ops: ops.collect(), size, regroups_for: None }
    }
}
