//! The stages of a plan for several inputs, which go through the model in groups.
//!
//! Each group of inputs has stages of its own, whose values have a prefix. What a group takes from others is put together
//! by [`regroupings`], each right before the piece that waits for it.

use std::collections::{BTreeMap, BTreeSet};

use divvy_core::plan::BatchPlan;
use divvy_exec::program::StageSpec;
use divvy_io::onnx::batch::SizedModel;
use divvy_io::onnx::pieces::{GroupModel, group_models};

use crate::error::DeployError;
use crate::kernel_owners::marked_as;
use crate::pieces::regroupings::{prefix, regroupings};
use crate::pieces::shares::Share;
use crate::pieces::stage_source::{StageSource, Stages};
use crate::prepared::StageWork;

/// A stage and its place: the number of its piece, and 0 for what comes before the piece itself.
struct RankedStage {
    rank: (usize, u8),
    plain: StageSpec,
    marked: StageSpec,
    work: StageWork,
}

/// The stages of a plan for several inputs.
pub(crate) fn stages(source: &StageSource<'_>, plan: &BatchPlan) -> Result<Stages, DeployError> {
    let sizes: BTreeSet<u32> = plan.batches.iter().map(|batch| batch.size()).collect();
    let mut models: BTreeMap<u32, SizedModel> =
        sizes.iter().map(|&size| sized(source, size)).collect::<Result<_, DeployError>>()?;
    let parts = group_models(&source.plan.problem, plan, &models).map_err(|reason| source.fault(reason))?;
    if parts.iter().any(|part| !part.taken.is_empty()) {
        // What grows with the number of inputs shows in two sizes at least.
        for size in [1, 2].into_iter().filter(|size| !sizes.contains(size)) {
            models.extend([sized(source, size)?]);
        }
    }
    let mut found: Vec<RankedStage> = Vec::new();
    let mut stages = Stages { groups: parts.len(), ..Stages::default() };
    for (group, part) in parts.iter().enumerate() {
        let symbolic_shapes = &models[&part.size()].symbolic_shapes;
        let plain = source.cut(&part.model, &part.pieces, symbolic_shapes)?;
        let named = marked_as(part.model.clone(), |node| part.nodes[node]);
        let named = source.cut(&named, &part.pieces, symbolic_shapes)?;
        let prefix = prefix(group, parts.len());
        for (piece, named) in plain.iter().zip(&named) {
            found.push(RankedStage {
                rank: (part.rank(piece), 1),
                plain: source.stage(piece, &prefix),
                marked: source.stage(named, &prefix),
                work: source.work(piece, &part.pieces, |node| part.nodes[node], part.size()),
            });
        }
        for (rank, stage) in regroupings(source, &parts, group, &plain, &models)? {
            let work = StageWork { size: part.size(), ..StageWork::default() };
            found.push(RankedStage { rank: (rank, 0), plain: stage.clone(), marked: stage, work });
        }
        let is_read = |name: &String| plain.iter().any(|piece| piece.inputs.contains(name));
        let given = |name: &String| part.results.contains(name);
        stages.inputs.extend(shares(part, &prefix, source.inputs, is_read));
        stages.results.extend(shares(part, &prefix, source.results, given));
    }
    put_in_order(found, &mut stages);
    Ok(stages)
}

/// The model for so many inputs at once.
fn sized(source: &StageSource<'_>, size: u32) -> Result<(u32, SizedModel), DeployError> {
    let model = SizedModel::new(source.model, size, &source.plan.reading.dims).map_err(|reason| {
        let fix = "batch plans need a model whose inputs begin with a dimension of inputs";
        DeployError::cannot_run(source.model_path, reason, fix)
    })?;
    Ok((size, model))
}

/// Brings each regrouping right before the piece that waits for it.
fn put_in_order(mut found: Vec<RankedStage>, stages: &mut Stages) {
    found.sort_by_key(|stage| stage.rank);
    for stage in &found {
        let reader = || found.iter().position(|other| other.rank == (stage.rank.0, 1));
        let regroups_for = if stage.rank.1 == 0 { reader() } else { None };
        stages.work.push(StageWork { regroups_for, ..stage.work.clone() });
    }
    for stage in found {
        stages.plain.push(stage.plain);
        stages.marked.push(stage.marked);
    }
}

fn shares(part: &GroupModel, prefix: &str, names: &[String], wanted: impl Fn(&String) -> bool) -> Vec<Share> {
    let inputs: Vec<usize> = part.inputs.iter().map(|&input| input as usize).collect();
    let share = |(value, name): (usize, &String)| {
        let name = format!("{prefix}{name}");
        Share { name, value, inputs: inputs.clone() }
    };
    names.iter().enumerate().filter(|(_, name)| wanted(name)).map(share).collect()
}
