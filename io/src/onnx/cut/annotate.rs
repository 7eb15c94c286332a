//! The whole model with ONNX multi-device annotations (IR 11 and later).
//!
//! The model lists the devices of a configuration; each node says by the name of the configuration in which pipeline
//! stage it runs, and on which device each of its outputs is. Nothing is divided: every tensor is whole on one device.

use std::collections::HashMap;

use super::wiring::Wiring;
use super::{Piece, order};
use crate::onnx::proto::{DeviceConfiguration, Graph, Model, NodeDeviceConfiguration, ShardingSpec};

/// The first version of the IR with device annotations.
const FIRST_IR_WITH_DEVICES: i64 = 11;

/// The model with each node's device and pipeline stage under the name of a configuration; an earlier configuration of
/// that name is replaced. Nodes of no piece, and positions that do not exist, are passed over. Where the pieces cannot
/// run one after another, there are no stages.
pub fn annotate(model: &Model, pieces: &[Piece], configuration: &str) -> Model {
    let mut annotated = model.clone();
    annotated.ir_version = Some(model.ir_version().max(FIRST_IR_WITH_DEVICES));

    let mut devices: Vec<String> = Vec::new();
    let mut index: HashMap<&str, i64> = HashMap::new();
    for piece in pieces {
        index.entry(&piece.device).or_insert_with(|| {
            devices.push(piece.device.clone());
            devices.len() as i64 - 1
        });
    }
    annotated.configuration.retain(|other| other.name() != configuration);
    annotated.configuration.push(DeviceConfiguration {
        name: Some(configuration.to_owned()),
        num_devices: Some(i32::try_from(devices.len()).unwrap_or(i32::MAX)),
        device: devices,
    });

    let Some(graph) = annotated.graph.as_mut() else { return annotated };
    for node in &mut graph.node {
        node.device_configurations.retain(|other| other.configuration_id() != configuration);
    }
    let stages = stages(model.graph.as_ref(), pieces);
    for (position, piece) in pieces.iter().enumerate() {
        let stage = stages.as_ref().and_then(|stages| stages.get(position));
        let device = index.get(piece.device.as_str()).copied().unwrap_or(0);
        for &node in &piece.nodes {
            let Some(node) = graph.node.get_mut(node) else { continue };
            let on_device = |name: &String| ShardingSpec {
                tensor_name: Some(name.clone()),
                device: vec![device],
                ..Default::default()
            };
            let sharding_spec = node.output.iter().filter(|name| !name.is_empty()).map(on_device).collect();
            node.device_configurations.push(NodeDeviceConfiguration {
                configuration_id: Some(configuration.to_owned()),
                sharding_spec,
                pipeline_stage: stage.and_then(|&stage| i32::try_from(stage).ok()),
            });
        }
    }
    annotated
}

/// The stage of each piece; none where the graph or the pieces are at fault.
fn stages(graph: Option<&Graph>, pieces: &[Piece]) -> Option<Vec<usize>> {
    let graph = graph?;
    let owner = super::place(graph, pieces).ok()?;
    let feeds = Wiring::new(graph).ok()?.feeds(&owner, pieces.len());
    order::order(&feeds).ok().map(|order| order.stage)
}
