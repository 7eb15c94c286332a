//! The model of one piece.
//!
//! A piece holds what its nodes need and nothing more. An output of the whole that no node makes (an input passed on,
//! or a weight) goes to the first piece that reads it, else to the first piece.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::wiring::Wiring;
use super::{CutPiece, Fault, PIECE_KEY, Piece};
use crate::onnx::proto::{
    Dimension, DimensionValue, ElementType, Entry, Graph, Model, Shape, Tensor, TensorType, Type, TypeValue,
    ValueInfo,
};
use crate::onnx::symbolic::{Size, SymbolicShape, SymbolicShapes};

/// What all pieces share.
pub(super) struct Builder<'m> {
    model: &'m Model,
    graph: &'m Graph,
    symbolic_shapes: &'m SymbolicShapes,
    wiring: Wiring<'m>,
    /// Values that one piece makes and another reads.
    crossing: HashSet<&'m str>,
    /// The outputs of the whole.
    results: HashSet<&'m str>,
    /// Outputs of the whole that no node makes, by the piece that gives them.
    passed_on: HashMap<usize, Vec<&'m str>>,
    /// What the model says of a value, where it says most.
    declared: HashMap<&'m str, &'m ValueInfo>,
    /// Positions in the list of intermediate values.
    value_info: HashMap<&'m str, usize>,
    /// Positions in the list of quantization annotations.
    annotations: HashMap<&'m str, Vec<usize>>,
}

/// The positions of what a piece takes from the whole, and the names of what it is connected by.
#[derive(Default)]
struct Parts<'m> {
    inputs: BTreeSet<usize>,
    fed: BTreeSet<(usize, usize, &'m str)>,
    initializers: BTreeSet<usize>,
    sparse: BTreeSet<usize>,
    annotations: BTreeSet<usize>,
    value_info: BTreeSet<usize>,
    outputs: Vec<&'m str>,
}

impl<'m> Builder<'m> {
    /// Prepares for pieces that run in the order of `sequence`, with the piece of each node in `owner`.
    pub(super) fn new(
        model: &'m Model,
        graph: &'m Graph,
        symbolic_shapes: &'m SymbolicShapes,
        wiring: Wiring<'m>,
        owner: &[usize],
        sequence: &[usize],
    ) -> Result<Builder<'m>, Fault> {
        let mut place = vec![0; sequence.len()];
        for (position, &piece) in sequence.iter().enumerate() {
            place[piece] = position;
        }
        let mut crossing = HashSet::new();
        let mut first_reader: HashMap<&str, usize> = HashMap::new();
        for (reader, read) in wiring.reads.iter().enumerate() {
            for &value in read {
                match wiring.maker.get(value) {
                    Some(&(maker, _)) if owner[maker] != owner[reader] => {
                        crossing.insert(value);
                    }
                    Some(_) => {}
                    None => {
                        let first = first_reader.entry(value).or_insert(owner[reader]);
                        if place[owner[reader]] < place[*first] {
                            *first = owner[reader];
                        }
                    }
                }
            }
        }
        let mut passed_on: HashMap<usize, Vec<&str>> = HashMap::new();
        for &value in wiring.outputs.iter().filter(|value| !wiring.maker.contains_key(*value)) {
            let piece = first_reader.get(value).or(sequence.first());
            let &piece = piece.ok_or_else(|| Fault::NoPiece { value: value.to_owned() })?;
            passed_on.entry(piece).or_default().push(value);
        }
        let mut declared: HashMap<&str, &ValueInfo> = HashMap::new();
        for info in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
            let best = declared.entry(info.name()).or_insert(info);
            if told(info) > told(best) {
                *best = info;
            }
        }
        let value_info = graph.value_info.iter().enumerate().map(|(at, info)| (info.name(), at)).collect();
        let mut annotations: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, annotation) in graph.quantization_annotation.iter().enumerate() {
            annotations.entry(annotation.tensor_name()).or_default().push(at);
        }
        let results = wiring.outputs.iter().copied().collect();
        Ok(Builder {
            model,
            graph,
            symbolic_shapes,
            wiring,
            crossing,
            results,
            passed_on,
            declared,
            value_info,
            annotations,
        })
    }

    /// The model of one piece.
    pub(super) fn build(&self, position: usize, piece: &Piece, stage: usize) -> Result<CutPiece, Vec<Fault>> {
        let mut nodes = piece.nodes.clone();
        nodes.sort_unstable_by_key(|&node| self.wiring.rank[node]);
        let parts = self.parts(position, &nodes);
        if nodes.is_empty() && parts.outputs.is_empty() {
            return Err(vec![Fault::Empty { piece: piece.name.clone() }]);
        }

        let graph = self.graph;
        let mut faults = Vec::new();
        let mut typed = |name: &str| self.typed(name, &piece.name).map_err(|fault| faults.push(fault)).ok();
        let is_weight = |at: &usize| self.wiring.is_weight(graph.input[*at].name());
        let mut input = Vec::new();
        let mut inputs = Vec::new();
        for at in &parts.inputs {
            input.extend(typed(graph.input[*at].name()));
            if !is_weight(at) {
                inputs.push(graph.input[*at].name().to_owned());
            }
        }
        for (_, _, name) in &parts.fed {
            input.extend(typed(name));
            inputs.push((*name).to_owned());
        }
        let output = parts.outputs.iter().filter_map(|name| typed(name)).collect();
        if !faults.is_empty() {
            return Err(faults);
        }

        let name = graph.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| piece.name.clone());
        let outputs: Vec<String> = parts.outputs.iter().map(|&name| name.to_owned()).collect();
        let results = parts.outputs.iter().filter(|name| self.results.contains(*name));
        let results = results.map(|&name| name.to_owned()).collect();
        let graph = Graph {
            node: nodes.iter().map(|&node| graph.node[node].clone()).collect(),
            name: Some(name),
            initializer: parts.initializers.iter().map(|&at| graph.initializer[at].clone()).collect(),
            sparse_initializer: parts.sparse.iter().map(|&at| graph.sparse_initializer[at].clone()).collect(),
            doc_string: graph.doc_string.clone(),
            input,
            output,
            value_info: parts.value_info.iter().map(|&at| graph.value_info[at].clone()).collect(),
            quantization_annotation: {
                parts.annotations.iter().map(|&at| graph.quantization_annotation[at].clone()).collect()
            },
            metadata_props: graph.metadata_props.clone(),
        };
        let model = self.wrap(graph, &piece.name);
        let (name, device) = (piece.name.clone(), piece.device.clone());
        let shape =
            |name: &String| Some((name.clone(), self.symbolic_shapes.values.get(name)?.planned.clone()?));
        let planned = inputs.iter().chain(&outputs).filter_map(shape).collect();
        Ok(CutPiece { name, device, stage, model, inputs, outputs, results, planned })
    }

    /// What a piece with these nodes, in running order, takes from the whole.
    fn parts(&self, position: usize, nodes: &[usize]) -> Parts<'m> {
        let mut parts = Parts::default();
        let graph = self.graph;
        let mut made: HashSet<&str> = HashSet::new();
        for &node in nodes {
            for name in graph.node[node].output.iter().map(String::as_str).filter(|name| !name.is_empty()) {
                made.insert(name);
                if self.crossing.contains(name) || self.results.contains(name) {
                    parts.outputs.push(name);
                } else {
                    parts.value_info.extend(self.value_info.get(name));
                }
            }
        }
        let passed_on = self.passed_on.get(&position).map_or(&[][..], Vec::as_slice);
        parts.outputs.extend(passed_on);
        let read: HashSet<&str> = nodes.iter().flat_map(|&node| &self.wiring.reads[node]).copied().collect();
        let mut taken: HashSet<&str> =
            read.difference(&made).copied().chain(passed_on.iter().copied()).collect();

        // Annotations may bring in weights that no node reads: scales and zero points.
        let annotated = made.iter().chain(&taken).filter_map(|name| self.annotations.get(name)).flatten();
        let mut parameters_taken = Vec::new();
        for &at in annotated {
            let parameters = &graph.quantization_annotation[at].quant_parameter_tensor_names;
            let parameters = parameters.iter().map(|entry| entry.value());
            let at_hand =
                |name: &str| made.contains(name) || taken.contains(name) || self.wiring.is_weight(name);
            if parameters.clone().all(at_hand) {
                parts.annotations.insert(at);
                parameters_taken.extend(parameters.filter(|name| !made.contains(name)));
            }
        }
        taken.extend(parameters_taken);

        for name in taken {
            let wiring = &self.wiring;
            parts.initializers.extend(wiring.initializers.get(name));
            parts.sparse.extend(wiring.sparse.get(name));
            parts.inputs.extend(wiring.inputs.get(name));
            if let Some(&(maker, output)) = wiring.maker.get(name) {
                parts.fed.insert((wiring.rank[maker], output, name));
            } else if !wiring.inputs.contains_key(name) && !self.results.contains(name) {
                parts.value_info.extend(self.value_info.get(name));
            }
        }
        parts
    }

    /// The model around a graph: all that the whole says of itself, and which piece this is.
    fn wrap(&self, graph: Graph, piece: &str) -> Model {
        let model = self.model;
        let kept = model.metadata_props.iter().filter(|entry| entry.key() != PIECE_KEY).cloned();
        let own = Entry { key: Some(PIECE_KEY.to_owned()), value: Some(piece.to_owned()) };
        Model {
            ir_version: model.ir_version,
            opset_import: model.opset_import.clone(),
            producer_name: model.producer_name.clone(),
            producer_version: model.producer_version.clone(),
            domain: model.domain.clone(),
            model_version: model.model_version,
            doc_string: model.doc_string.clone(),
            graph: Some(graph),
            metadata_props: kept.chain([own]).collect(),
            training_info: Vec::new(),
            functions: model.functions.clone(),
            configuration: model.configuration.clone(),
        }
    }

    /// Name and type of a value that enters or leaves a piece.
    fn typed(&self, name: &str, piece: &str) -> Result<ValueInfo, Fault> {
        let mut info = self.declared.get(name).copied().cloned().unwrap_or_default();
        info.name = Some(name.to_owned());
        let weight = self.wiring.initializers.get(name).map(|&at| of_tensor(&self.graph.initializer[at]));
        let symbolic_shape = weight.as_ref().or_else(|| self.symbolic_shapes.values.get(name));
        let known = complete(info.r#type.take(), symbolic_shape);
        info.r#type = Some(known.ok_or(Fault::NoType { value: name.to_owned(), piece: piece.to_owned() })?);
        Ok(info)
    }
}

/// How much a declaration tells: nothing, a type, a type with its shape.
fn told(info: &ValueInfo) -> u8 {
    match info.r#type.as_ref().and_then(|known| known.value.as_ref()) {
        None => 0,
        Some(TypeValue::TensorType(tensor)) => match (tensor.elem_type(), &tensor.shape) {
            (0, _) => 0,
            (_, None) => 1,
            (_, Some(_)) => 2,
        },
        Some(_) => 2,
    }
}

/// A declared type, with what it leaves open filled in; none where the element type stays unknown.
fn complete(declared: Option<Type>, symbolic_shape: Option<&SymbolicShape>) -> Option<Type> {
    let mut known = declared.unwrap_or_default();
    if known.value.is_none()
        && let Some(symbolic_shape) =
            symbolic_shape.filter(|symbolic_shape| symbolic_shape.is_sequence && symbolic_shape.element != 0)
    {
        let tensor = TensorType { elem_type: Some(symbolic_shape.element), shape: None };
        let member = Type { value: Some(TypeValue::TensorType(tensor)), denotation: None };
        let sequence = ElementType { elem_type: Some(Box::new(member)) };
        known.value = Some(TypeValue::SequenceType(Box::new(sequence)));
        return Some(known);
    }
    let tensor = match known.value.get_or_insert_with(|| TypeValue::TensorType(TensorType::default())) {
        TypeValue::TensorType(tensor) => tensor,
        _ => return Some(known),
    };
    if tensor.elem_type() == 0 {
        tensor.elem_type = Some(symbolic_shape.map(|known| known.element).filter(|&element| element != 0)?);
    }
    if let Some(sizes) = symbolic_shape.and_then(|symbolic_shape| symbolic_shape.shape.as_ref()) {
        let open = || Shape { dim: vec![Dimension::default(); sizes.len()] };
        let shape = tensor.shape.get_or_insert_with(open);
        if shape.dim.len() == sizes.len() {
            for (dimension, size) in shape.dim.iter_mut().zip(sizes) {
                if dimension.value.is_none() {
                    dimension.value = value_of(size);
                }
            }
        }
    }
    Some(known)
}

fn value_of(size: &Size) -> Option<DimensionValue> {
    match size {
        Size::Fixed(dim) => i64::try_from(*dim).ok().map(DimensionValue::DimValue),
        Size::Symbol(name) => Some(DimensionValue::DimParam(name.clone())),
        Size::Open => None,
    }
}

fn of_tensor(tensor: &Tensor) -> SymbolicShape {
    let dims: Option<Vec<u64>> = tensor.dims.iter().map(|&dim| u64::try_from(dim).ok()).collect();
    let shape = dims.as_ref().map(|dims| dims.iter().map(|&dim| Size::Fixed(dim)).collect());
    SymbolicShape { element: tensor.data_type(), is_sequence: false, planned: dims, shape }
}
