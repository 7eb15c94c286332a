//! A plan and its model to what the executor runs.

use std::collections::{BTreeSet, HashMap};

use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::plan::{BusItem, ColdStartPlan, Plan};
use divvy_core::problem::{Objective, Problem};
use divvy_exec::backend::{StageModel, Weight, WeightsAre};
use divvy_exec::cold_start::spec::{
    BusStep, BusWork, ColdDevice, ColdPiece, ColdSpec, Place, ValueSpec, WeightAt, WeightUse,
};
use divvy_exec::cores::Cores;
use divvy_exec::tensor::Element;
use divvy_io::onnx::cut::{CutPiece, Piece, cut};
use divvy_io::onnx::facts::Facts;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::op_rewrites::rewrite_ops;
use divvy_io::onnx::pieces::{ops_of_nodes, pieces};
use divvy_io::onnx::proto::Model;
use divvy_io::onnx::symbolic::SymbolicShapes;

use super::places::DevicePlace;
use super::weights::{into_inputs, take_out};

/// What all ways share.
pub(crate) struct Source<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) model: &'a Model,
    pub(crate) facts: &'a Facts,
    pub(crate) fixed: &'a FixedShapes,
    pub(crate) symbolic_shapes: &'a SymbolicShapes,
    pub(crate) places: &'a [DevicePlace],
    /// For each device, its cores.
    pub(crate) cores: &'a [Cores],
    /// Large weights.
    pub(crate) weights: &'a [Weight],
    pub(crate) inputs: &'a [String],
    pub(crate) results: &'a [String],
}

/// What the executor runs, and what it is of.
pub(crate) struct Assembled {
    pub(crate) spec: ColdSpec,
    /// For each piece, its ops.
    pub(crate) ops: Vec<Vec<OpId>>,
}

/// Names of values to their positions, and the values so far.
struct Values<'a> {
    facts: &'a Facts,
    by_name: HashMap<String, usize>,
    list: Vec<ValueSpec>,
}

impl Values<'_> {
    fn position(&mut self, name: &str) -> Result<usize, String> {
        if let Some(&known) = self.by_name.get(name) {
            return Ok(known);
        }
        let fact = self.facts.values.get(name);
        let element = fact.and_then(|fact| Element::of_onnx(fact.element));
        let element =
            element.ok_or_else(|| format!("the type of `{name}` is not known, or none that can be moved"))?;
        let shape = fact.and_then(|fact| fact.shape.clone()).ok_or_else(|| {
            format!(
                "the shape of `{name}` is known only once it runs, and a card needs a place for it before"
            )
        })?;
        let shape = shape.iter().map(|&size| size as usize).collect();
        self.list.push(ValueSpec { name: name.to_owned(), element, shape });
        self.by_name.insert(name.to_owned(), self.list.len() - 1);
        Ok(self.list.len() - 1)
    }
}

impl Source<'_> {
    /// What the executor runs for a plan; fails with the reason.
    pub(crate) fn assemble(&self, plan: &Plan) -> Result<Assembled, String> {
        let Plan::ColdStart(cold) = plan else { return Err("it is no cold-start plan".into()) };
        let empty = divvy_io::onnx::proto::Graph::default();
        let graph = self.model.graph.as_ref().unwrap_or(&empty);
        let pieces = pieces(self.problem, plan, graph, self.fixed)?;
        let written = self.fixed.write_down(self.model.clone(), &pieces);
        let mut cut = cut(&written, &pieces, self.symbolic_shapes).map_err(|error| error.to_string())?;
        cut.retain(|piece| !piece.outputs.is_empty());
        let hardware = &self.problem.hardware;
        let devices = hardware.devices().map(|device| ColdDevice {
            name: hardware.device_name(device).to_owned(),
            place: match self.places[device.index()] {
                DevicePlace::Cores => Place::Cores(self.cores[device.index()].clone()),
                _ => Place::Card,
            },
        });
        let devices: Vec<ColdDevice> = devices.collect();
        let mut values = Values { facts: self.facts, by_name: HashMap::new(), list: Vec::new() };
        let by_name: HashMap<&str, usize> =
            self.weights.iter().enumerate().map(|(i, weight)| (weight.name.as_str(), i)).collect();
        let owners = ops_of_nodes(self.problem, graph);
        let readers = Readers::new(self.problem, cold, &pieces, &owners);
        let mut assembled = Vec::new();
        let mut ops = Vec::new();
        for piece in &cut {
            let device = hardware.device_named(&piece.device).ok_or("a piece has no device")?;
            let nodes =
                pieces.iter().find(|other| other.name == piece.name).map_or(&[][..], |other| &other.nodes);
            let own: BTreeSet<OpId> = nodes.iter().filter_map(|&node| owners[node]).collect();
            ops.push(own.into_iter().collect());
            assembled.push(self.piece(
                piece,
                device,
                devices[device.index()].is_card(),
                &readers,
                &by_name,
                &mut values,
            )?);
        }
        let used: BTreeSet<(usize, usize)> = assembled
            .iter()
            .flat_map(|piece| piece.weights.iter())
            .filter_map(|used| match used.at {
                WeightAt::Loaded { via } => Some((used.weight, via)),
                WeightAt::InPlace => None,
            })
            .collect();
        let bus = self.bus(cold, &readers, &cut, &by_name, &used);
        let resident = match self.problem.objective {
            Objective::ColdStart { resident, .. } => f64::from(resident) / 100.0,
            _ => 0.0,
        };
        let inputs = self.inputs.iter().map(|name| values.position(name)).collect::<Result<_, _>>()?;
        let results = self.results.iter().map(|name| values.position(name)).collect::<Result<_, _>>()?;
        let spec = ColdSpec {
            devices,
            weights: self.weights.to_vec(),
            values: values.list,
            pieces: assembled,
            bus,
            inputs,
            results,
            resident,
        };
        Ok(Assembled { spec, ops })
    }

    fn piece(
        &self,
        piece: &CutPiece,
        device: DeviceId,
        is_card: bool,
        readers: &Readers,
        by_name: &HashMap<&str, usize>,
        values: &mut Values<'_>,
    ) -> Result<ColdPiece, String> {
        let mut model = rewrite_ops(piece.model.clone());
        let in_place = readers.in_place.contains_key(piece.name.as_str());
        let (mut fed, mut uses) = (Vec::new(), Vec::new());
        if is_card {
            let via = |name: &str| {
                let param = *readers.params.get(name)?;
                readers.via.get(&(param, device)).copied()
            };
            let wanted = |name: &str| by_name.contains_key(name) && (in_place || via(name).is_some());
            for taken in into_inputs(&mut model, wanted) {
                let weight = by_name[taken.name.as_str()];
                let at = match via(&taken.name).filter(|_| !in_place) {
                    Some(via) => WeightAt::Loaded { via: via.index() },
                    None => WeightAt::InPlace,
                };
                uses.push(WeightUse { weight, at });
                fed.push(taken);
            }
        }
        // What is left and large is a constant that lies elsewhere in memory.
        let constants = if fed.is_empty() { take_out(&mut model) } else { Vec::new() };
        let weights_are = if fed.is_empty() { WeightsAre::Constants } else { WeightsAre::Inputs };
        let weights = if fed.is_empty() { constants } else { fed };
        Ok(ColdPiece {
            device: device.index(),
            values: piece.inputs.iter().map(|name| values.position(name)).collect::<Result<_, _>>()?,
            outputs: piece.outputs.iter().map(|name| values.position(name)).collect::<Result<_, _>>()?,
            model: StageModel {
                name: piece.name.clone(),
                bytes: model.to_bytes(),
                weights,
                weights_are,
                inputs: piece.inputs.clone(),
                outputs: piece.outputs.clone(),
            },
            weights: uses,
        })
    }

    /// What buses carry, in order, without loads that no piece waits for: weights so small that pieces have them themselves.
    fn bus(
        &self,
        plan: &ColdStartPlan,
        readers: &Readers,
        cut: &[CutPiece],
        by_name: &HashMap<&str, usize>,
        used: &BTreeSet<(usize, usize)>,
    ) -> Vec<BusStep> {
        let graph = &self.problem.graph;
        let mut last: HashMap<usize, usize> = HashMap::new();
        let mut steps: Vec<BusStep> = Vec::new();
        for item in &plan.bus {
            let (what, device) = match *item {
                BusItem::Load { param, to } => {
                    let Some(&weight) = by_name.get(graph.param_name(param)) else { continue };
                    if !used.contains(&(weight, to.index())) {
                        continue;
                    }
                    (BusWork::Load { weight, device: to.index() }, to)
                }
                BusItem::Read { op } => {
                    let name =
                        readers.in_place.iter().find(|(_, reader)| **reader == op).map(|(name, _)| name);
                    let piece = name.and_then(|name| cut.iter().position(|piece| piece.name == *name));
                    let Some(piece) = piece else { continue };
                    (BusWork::Read { piece }, readers.device_of[op.index()])
                }
            };
            let links: Vec<usize> = self
                .problem
                .hardware
                .host_route(device)
                .map(|route| route.media().map(|link| link.index()).collect())
                .unwrap_or_default();
            let after: BTreeSet<usize> = links.iter().filter_map(|link| last.get(link).copied()).collect();
            last.extend(links.iter().map(|&link| (link, steps.len())));
            steps.push(BusStep { what, after: after.into_iter().collect() });
        }
        steps
    }
}

/// Who reads what, and how it gets there.
struct Readers {
    /// Parameters by name.
    params: HashMap<String, ParamId>,
    via: HashMap<(ParamId, DeviceId), DeviceId>,
    /// Pieces that read in place, by name, and their op.
    in_place: HashMap<String, OpId>,
    device_of: Vec<DeviceId>,
}

impl Readers {
    fn new(problem: &Problem, plan: &ColdStartPlan, pieces: &[Piece], ops: &[Option<OpId>]) -> Readers {
        let graph = &problem.graph;
        let params = graph.params().map(|param| (graph.param_name(param).to_owned(), param)).collect();
        let landings = plan.landings.iter();
        let via = landings.map(|landing| ((landing.param, landing.reader), landing.via)).collect();
        let mut in_place = HashMap::new();
        for item in &plan.bus {
            let BusItem::Read { op } = *item else { continue };
            let holds = |piece: &&Piece| piece.nodes.iter().any(|&node| ops[node] == Some(op));
            if let Some(piece) = pieces.iter().find(holds) {
                in_place.insert(piece.name.clone(), op);
            }
        }
        let mut device_of = vec![DeviceId::new(0); graph.op_count()];
        for (device, list) in plan.order.iter().enumerate() {
            list.iter().for_each(|op| device_of[op.index()] = DeviceId::new(device));
        }
        Readers { params, via, in_place, device_of }
    }
}
