//! A second engine in Rust alone, to compare the first one's results with. It is plain rather than fast.
//!
//! It runs the operators of the usual convolutional networks in 32-bit floats, each written from its definition in the ONNX
//! standard, one after another, and nothing else: an operator, attribute or type that it does not know is an error, not a
//! guess. Sums are kept in 64 bits, so its results are nearer to the exact ones than those of a fast engine.

pub(crate) mod array;
mod ops;
mod proto;

use std::collections::HashMap;

use prost::Message;

use crate::backend::{Backend, Device, Stage, StageModel};
use crate::backends::reference::array::Array;
use crate::cores::Cores;
use crate::stage_error::StageError;
use crate::tensor::{Data, HostTensor, Tensor};

/// The engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Backend for Reference {
    fn name(&self) -> String {
        "reference".into()
    }

    fn open(&self, _: &Cores) -> Result<Box<dyn Device>, StageError> {
        Ok(Box::new(Reference))
    }

    fn take_in(&self, value: HostTensor) -> Result<Tensor, StageError> {
        Ok(Tensor::new(value))
    }
}

impl Device for Reference {
    fn load(&mut self, model: &StageModel) -> Result<Box<dyn Stage>, StageError> {
        let fault = |cause: String| StageError::new(cause);
        let read = proto::Model::decode(model.bytes.as_slice()).map_err(|error| fault(error.to_string()))?;
        let graph = read.graph.ok_or_else(|| fault("the model has no graph".into()))?;
        let version = read.opset_import.iter().find(|set| set.domain.is_empty()).map_or(1, |set| set.version);
        let mut weights = HashMap::new();
        for tensor in &graph.initializer {
            weights.insert(tensor.name.clone(), tensor.array().map_err(fault)?);
        }
        let (inputs, outputs) = (model.inputs.clone(), model.outputs.clone());
        Ok(Box::new(ReferenceStage { nodes: graph.node, weights, inputs, outputs, version }))
    }

    fn works_in_its_thread(&self) -> bool {
        true
    }
}

struct ReferenceStage {
    nodes: Vec<proto::Node>,
    weights: HashMap<String, Array>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    version: i64,
}

impl Stage for ReferenceStage {
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, StageError> {
        let mut values: HashMap<&str, Array> = HashMap::new();
        for (name, input) in self.inputs.iter().zip(inputs) {
            let host = input.stored().to_host()?;
            let Data::F32(data) = host.data else {
                return Err(StageError::new(format!("`{name}` is not of 32-bit floats")));
            };
            values.insert(name, Array::floats(host.shape, data));
        }
        for node in &self.nodes {
            let about = if node.name.is_empty() { node.output.first() } else { Some(&node.name) };
            let failed = |cause: String| StageError {
                op: about.cloned(),
                cause: format!("{} of the reference engine: {cause}", node.op_type),
            };
            let find = |name: &String| values.get(name.as_str()).or_else(|| self.weights.get(name));
            let given: Vec<Option<&Array>> = node.input.iter().map(find).collect();
            if let Some(absent) =
                node.input.iter().zip(&given).find(|(name, value)| !name.is_empty() && value.is_none())
            {
                return Err(failed(format!("`{}` is not there", absent.0)));
            }
            let made = ops::run(node, &given, self.version).map_err(failed)?;
            if let Some(name) = node.output.first() {
                values.insert(name, made);
            }
        }
        let take = |name: &String| {
            let value = values.get(name.as_str()).or_else(|| self.weights.get(name));
            let absent = || StageError::new(format!("the model does not give `{name}`"));
            value.ok_or_else(absent).map(|value| Tensor::new(value.clone().into_host()))
        };
        self.outputs.iter().map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(op: &str, inputs: usize) -> StageModel {
        let names: Vec<String> = (0..inputs).map(|i| format!("x{i}")).collect();
        let node = proto::Node {
            op_type: op.into(),
            name: "it".into(),
            input: names.clone(),
            output: vec!["y".into()],
            ..Default::default()
        };
        let graph = proto::Graph { node: vec![node], ..Default::default() };
        let bytes = proto::Model { graph: Some(graph), ..Default::default() }.encode_to_vec();
        StageModel {
            name: op.into(),
            bytes,
            inputs: names,
            outputs: vec!["y".into()],
            ..StageModel::default()
        }
    }

    #[test]
    fn what_it_does_not_know_is_refused_by_name() {
        let mut loaded = Reference.load(&stage("Einsum", 1)).unwrap();
        let input = Tensor::new(HostTensor { shape: vec![1], data: Data::F32(vec![1.0]) });
        let error = loaded.run(&[input]).unwrap_err();
        assert_eq!(error.op.as_deref(), Some("it"));
        assert!(error.cause.contains("not known"), "{error}");
        assert!(Reference.load(&StageModel { bytes: vec![255; 9], ..stage("Relu", 1) }).is_err());
    }
}
