//! One piece of the model to one stage of the program.

use std::collections::HashSet;

use divvy_exec::backend::{StageModel, WeightsAre};
use divvy_exec::program::{DeviceSpec, StageSpec};
use divvy_io::onnx::cut::{CutPiece, Piece, cut};
use divvy_io::onnx::op_rewrites::rewrite_ops;
use divvy_io::onnx::proto::Model;
use divvy_io::onnx::symbolic::SymbolicShapes;
use divvy_io::plan_file::PlanFile;

use crate::cold_start::weights::{into_inputs, take_out};
use crate::error::DeployError;
use crate::kernel_owners::Owners;
use crate::pieces::shares::Share;
use crate::prepared::StageWork;

/// What to do with a plan that cannot be run.
pub(crate) const RUNNABLE: &str = "run a latency, batch, pipeline or stream plan that can be cut";

/// What stages are made from.
pub(crate) struct StageSource<'a> {
    /// The name of the plan's file.
    pub(crate) plan_path: &'a str,
    pub(crate) plan: &'a PlanFile,
    /// The name of the model's file.
    pub(crate) model_path: &'a str,
    pub(crate) model: &'a Model,
    /// The model's inputs.
    pub(crate) inputs: &'a [String],
    /// The model's outputs.
    pub(crate) results: &'a [String],
    pub(crate) devices: &'a [DeviceSpec],
    pub(crate) owners: &'a Owners,
}

/// The stages of a program, in an order in which they can run.
#[derive(Default)]
pub(crate) struct Stages {
    pub(crate) plain: Vec<StageSpec>,
    /// The same with every node named by its position in the whole.
    pub(crate) marked: Vec<StageSpec>,
    pub(crate) work: Vec<StageWork>,
    /// What the program is fed.
    pub(crate) inputs: Vec<Share>,
    /// What it gives.
    pub(crate) results: Vec<Share>,
    /// How many groups of inputs there are.
    pub(crate) groups: usize,
}

impl StageSource<'_> {
    /// A plan that cannot be run.
    pub(super) fn fault(&self, reason: String) -> DeployError {
        DeployError::cannot_run(self.plan_path, reason, RUNNABLE)
    }

    /// The pieces as models of their own; those that nobody reads are left out.
    pub(super) fn cut(
        &self,
        model: &Model,
        pieces: &[Piece],
        symbolic_shapes: &SymbolicShapes,
    ) -> Result<Vec<CutPiece>, DeployError> {
        let cut = cut(model, pieces, symbolic_shapes);
        let refused = |error| DeployError::cannot_run(self.model_path, error, "choose another plan");
        let mut cut = cut.map_err(|error| refused(error.to_string()))?;
        cut.retain(|piece| !piece.outputs.is_empty());
        Ok(cut)
    }

    /// A position in the list of devices.
    pub(super) fn device(&self, name: &str) -> usize {
        self.devices.iter().position(|device| device.name == name).unwrap_or(0)
    }

    /// The stage of a piece; `prefix` tells its values from those of another copy of the model.
    pub(super) fn stage(&self, piece: &CutPiece, prefix: &str) -> StageSpec {
        let model = StageModel { name: format!("{prefix}{}", piece.name), ..stage_model(piece) };
        StageSpec { model, device: self.device(&piece.device), prefix: prefix.to_owned() }
    }

    /// What a piece does, if its nodes are at these positions in the whole.
    pub(super) fn work(
        &self,
        piece: &CutPiece,
        pieces: &[Piece],
        position: impl Fn(usize) -> Option<usize>,
        size: u32,
    ) -> StageWork {
        let found = pieces.iter().find(|other| other.name == piece.name);
        let mut seen = HashSet::new();
        let nodes = found.map_or(&[][..], |piece| &piece.nodes).iter().filter_map(|&node| position(node));
        let ops = nodes.filter_map(|node| self.owners.of_nodes()[node]).filter(|op| seen.insert(*op));
        StageWork { ops: ops.collect(), size, regroups_for: None }
    }
}

/// A piece as what a backend loads.
pub(crate) fn stage_model(piece: &CutPiece) -> StageModel {
    fed_model(piece, WeightsAre::Constants)
}

/// The same with weights given otherwise, as in a cold start.
pub(crate) fn fed_model(piece: &CutPiece, weights_are: WeightsAre) -> StageModel {
    let model = rewrite_ops(piece.model.clone());
    whole_model(&piece.name, model, piece.inputs.clone(), piece.outputs.clone(), weights_are)
}

/// A model as what a backend loads: its large weights stay where they are in memory.
pub(crate) fn whole_model(
    name: &str,
    mut model: Model,
    inputs: Vec<String>,
    outputs: Vec<String>,
    weights_are: WeightsAre,
) -> StageModel {
    let weights = match weights_are {
        WeightsAre::Constants => take_out(&mut model),
        WeightsAre::Inputs | WeightsAre::InPlace => into_inputs(&mut model, |_| true),
    };
    let (name, bytes) = (name.to_owned(), model.to_bytes());
    StageModel { name, bytes, weights, weights_are, inputs, outputs }
}
