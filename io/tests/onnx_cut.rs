//! Cut models are sound: pieces run in order, have all they need and nothing more, and give what the whole gives.
//!
//! Bundled models are the same after reading and writing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "onnx_cut/build.rs"]
mod build;
#[path = "onnx_cut/weights.rs"]
mod weights;

use std::collections::BTreeMap;

use divvy_io::onnx::cut::{CutPiece, Fault, Piece, annotate, cut};
use divvy_io::onnx::facts::{Fact, Facts, declared};
use divvy_io::onnx::proto::{Graph, Model, SparseTensor, TensorAnnotation, TypeValue};
use divvy_io::onnx::symbolic::SymbolicShapes;
use prost::Message;

use crate::build::{assert_sound, entry, graph, model, node, pieces, value, values, weight, with_body};

fn cut_soundly(model: &Model, pieces: &[Piece]) -> Vec<CutPiece> {
    let cut = cut(model, pieces, &SymbolicShapes::default()).unwrap();
    assert_sound(model, &cut);
    cut
}

fn faults(model: &Model, pieces: &[Piece]) -> Vec<Fault> {
    cut(model, pieces, &SymbolicShapes::default()).unwrap_err().faults
}

fn graph_of(piece: &CutPiece) -> &Graph {
    piece.model.graph.as_ref().unwrap()
}

fn weights_of(piece: &CutPiece) -> Vec<&str> {
    graph_of(piece).initializer.iter().map(|tensor| tensor.name()).collect()
}

fn chain() -> Model {
    model(graph("Relu x > a\nAdd a w > b\nMul b w > c\nNeg c > y", "x", "y", "w unused"))
}

#[test]
fn a_chain_is_cut_where_asked() {
    let cut = cut_soundly(&chain(), &pieces(&[&[1, 0], &[2, 3]]));
    assert_eq!(cut[0].inputs, ["x"]);
    assert_eq!(cut[0].outputs, ["b"]);
    assert_eq!(cut[0].results, [""; 0]);
    assert_eq!(cut[1].inputs, ["b"]);
    assert_eq!(cut[1].results, ["y"]);
    assert_eq!([cut[0].stage, cut[1].stage], [0, 1]);
    // Shared weights go to both, unused ones to none.
    assert_eq!([weights_of(&cut[0]), weights_of(&cut[1])], [["w"], ["w"]]);
}

#[test]
fn a_piece_keeps_what_the_model_says_of_itself() {
    let whole = chain();
    let cut = cut_soundly(&whole, &pieces(&[&[0, 1], &[2, 3]]));
    for piece in &cut {
        assert_eq!(piece.model.ir_version, whole.ir_version);
        assert_eq!(piece.model.opset_import, whole.opset_import);
        assert_eq!(piece.model.producer_name, whole.producer_name);
        assert_eq!(piece.model.doc_string, whole.doc_string);
        let own = entry("divvy.piece", &piece.name);
        assert_eq!(piece.model.metadata_props, [entry("author", "someone"), own]);
    }
    // A piece can be cut again.
    let again = cut_soundly(&cut[1].model, &pieces(&[&[1], &[0]]));
    assert_eq!(again[0].name, "p1");
    assert_eq!(again[0].model.metadata_props.len(), 2);
}

#[test]
fn one_piece_is_the_whole() {
    let whole = chain();
    let cut = cut_soundly(&whole, &pieces(&[&[0, 1, 2, 3]]));
    assert_eq!(graph_of(&cut[0]).node, whole.graph.as_ref().unwrap().node);
    assert_eq!(graph_of(&cut[0]).value_info.len(), 3);
}

#[test]
fn pieces_come_in_running_order_with_stages() {
    let diamond = model(graph("Relu x > a\nNeg a > b\nAbs a > c\nAdd b c > y", "x", "y", ""));
    let cut = cut_soundly(&diamond, &pieces(&[&[3], &[2], &[1], &[0]]));
    let order: Vec<(&str, usize)> = cut.iter().map(|piece| (piece.name.as_str(), piece.stage)).collect();
    assert_eq!(order, [("p3", 0), ("p1", 1), ("p2", 1), ("p0", 2)]);
    assert_eq!(cut[3].inputs, ["b", "c"]);
}

#[test]
fn skips_cross_once_and_reach_every_reader() {
    let skip = model(graph("Relu x > a\nNeg a > b\nAdd a b > c\nAdd c a > y", "x", "y", ""));
    let cut = cut_soundly(&skip, &pieces(&[&[0], &[1], &[2], &[3]]));
    assert_eq!(cut[0].outputs, ["a"]);
    assert_eq!(cut[3].inputs, ["a", "c"]);
}

#[test]
fn only_outputs_that_are_read_elsewhere_cross() {
    let split = model(graph("Split x > a b - c\nRelu a > d\nAdd d b > e\nNeg e > y", "x", "y c", ""));
    let cut = cut_soundly(&split, &pieces(&[&[0, 1], &[2, 3]]));
    assert_eq!(cut[0].outputs, ["b", "c", "d"]);
    assert_eq!(cut[0].results, ["c"]);
    assert_eq!(cut[1].inputs, ["b", "d"]);
}

#[test]
fn values_left_out_are_not_values() {
    let lstm = model(graph("Relu x > a\nLSTM a w - - h > - b\nNeg b > y", "x h", "y", "w"));
    let cut = cut_soundly(&lstm, &pieces(&[&[0], &[1], &[2]]));
    assert_eq!(cut[1].inputs, ["h", "a"]);
}

#[test]
fn bodies_bring_in_what_they_take_from_around_them() {
    let inner = graph("Add b w > i", "", "i", "");
    let mut body = graph("Mul a it > m\nAdd m own > n", "it", "n", "own");
    body.node.push(with_body(node("If n > o"), inner));
    let mut whole = graph("Relu x > a\nNeg x > b\nAbs x > s\n", "x", "y", "w");
    whole.node.push(with_body(node("Loop s > y"), body));
    let cut = cut_soundly(&model(whole), &pieces(&[&[0], &[1], &[2], &[3]]));
    assert_eq!(cut[3].inputs, ["a", "b", "s"]);
    assert_eq!(weights_of(&cut[3]), ["w"]);
    assert_eq!(cut[0].outputs, ["a"]);
}

#[test]
fn dequantisers_go_along_with_their_readers() {
    let nodes =
        "QuantizeLinear x s > q\nDequantizeLinear q s > d\nRelu d > a\nNeg d > b\nAbs d > c\nSum a b c > y";
    let whole = model(graph(nodes, "x", "y", "s"));
    let parts = pieces(&[&[0, 1, 2], &[3, 4], &[5]]);
    let mut facts = Facts::default();
    facts.values.insert("q".into(), Fact { element: 2, ..Default::default() });
    let cut = cut(&whole, &parts, &(&facts).into()).unwrap();
    assert_eq!(cut[0].outputs, ["q", "a"]);
    assert_eq!(cut[1].inputs, ["q"]);
    let made = |piece: &CutPiece| {
        graph_of(piece).node.iter().map(|node| node.op_type().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(made(&cut[1]), ["DequantizeLinear", "Neg", "Abs"], "one for both");
    assert_eq!(weights_of(&cut[1]), ["s"]);
    assert_eq!(made(&cut[2]), ["Sum"]);
    // Of what type it is given must be known.
    let as_it_is = divvy_io::onnx::cut::cut(&whole, &parts, &SymbolicShapes::default()).unwrap();
    assert_eq!(as_it_is[1].inputs, ["d"]);
}

#[test]
fn outputs_that_no_node_makes_come_from_one_piece() {
    let whole = model(graph("Relu x > a\nAdd a w > y", "x u", "y u w x", "w"));
    let cut = cut_soundly(&whole, &pieces(&[&[0], &[1]]));
    assert_eq!(cut[0].inputs, ["x", "u"]);
    assert_eq!(cut[0].outputs, ["a", "u", "x"]);
    assert_eq!(cut[1].outputs, ["y", "w"]);

    let nothing = model(graph("", "x", "x", ""));
    assert_eq!(cut_soundly(&nothing, &pieces(&[&[]]))[0].outputs, ["x"]);
    assert_eq!(faults(&nothing, &[]), [Fault::NoPiece { value: "x".into() }]);
}

#[test]
fn weights_listed_as_inputs_stay_so() {
    let mut whole = model(graph("Relu x > a\nAdd a w > y", "w x", "y", "w"));
    whole.ir_version = Some(3);
    let cut = cut_soundly(&whole, &pieces(&[&[0], &[1]]));
    assert_eq!(cut[0].inputs, ["x"]);
    assert_eq!(cut[1].inputs, ["a"]);
    let listed: Vec<&str> = graph_of(&cut[1]).input.iter().map(|input| input.name()).collect();
    assert_eq!(listed, ["w", "a"]);
}

#[test]
fn sparse_weights_and_quantization_come_along() {
    let mut whole = graph("Relu x > a\nAdd a s > b\nNeg b > y", "x", "y", "scale");
    whole.sparse_initializer.push(SparseTensor {
        values: Some(weight("s")),
        indices: Some(weight("")),
        dims: vec![4],
    });
    let quantized = |name: &str, scale: &str| TensorAnnotation {
        tensor_name: Some(name.into()),
        quant_parameter_tensor_names: vec![entry("SCALE_TENSOR", scale)],
    };
    whole.quantization_annotation = vec![quantized("b", "scale"), quantized("x", "y")];
    let cut = cut(&model(whole), &pieces(&[&[0], &[1], &[2]]), &SymbolicShapes::default()).unwrap();
    let counts = |piece: &CutPiece| {
        let graph = graph_of(piece);
        [graph.sparse_initializer.len(), graph.quantization_annotation.len(), graph.initializer.len()]
    };
    // `b` is in two pieces; what describes `x` is made elsewhere.
    assert_eq!([counts(&cut[0]), counts(&cut[1]), counts(&cut[2])], [[0, 0, 0], [1, 1, 1], [0, 1, 1]]);
}

#[test]
fn nodes_out_of_order_are_put_in_order() {
    let whole = model(graph("Neg c > y\nAdd a a > c\nRelu x > a", "x", "y", ""));
    cut_soundly(&whole, &pieces(&[&[0, 1, 2]]));
    cut_soundly(&whole, &pieces(&[&[0], &[1, 2]]));
}

#[test]
fn types_come_from_the_model_then_from_facts() {
    let mut whole = chain();
    let list = &mut whole.graph.as_mut().unwrap().value_info;
    list.retain(|info| info.name() != "b");
    let halves = pieces(&[&[0, 1], &[2, 3]]);
    let no_type = |piece: &str| Fault::NoType { value: "b".into(), piece: piece.into() };
    assert_eq!(faults(&whole, &halves), [no_type("p0"), no_type("p1")]);

    let mut facts = Facts::default();
    let tensor = |facts: &Facts| {
        let cut = cut(&whole, &halves, &facts.into()).unwrap();
        assert_sound(&whole, &cut);
        let known = graph_of(&cut[1]).input[0].r#type.as_ref().and_then(|known| known.value.clone());
        let Some(TypeValue::TensorType(tensor)) = known else { panic!("not a tensor") };
        tensor
    };
    facts.values.insert("b".into(), Fact { element: 1, ..Default::default() });
    assert_eq!(tensor(&facts).shape, None);
    facts.values.insert("b".into(), Fact { element: 1, shape: Some(vec![2, u64::MAX]), content: None });
    let dims = tensor(&facts).shape.unwrap().dim;
    assert_eq!(dims.len(), 2);
    assert_eq!(dims[1].value, None);
}

#[test]
fn declared_facts_are_those_of_the_model() {
    let facts = declared(&chain());
    assert_eq!(facts.values["x"], Fact { element: 1, shape: None, content: None });
    assert_eq!(facts.values["w"].shape, Some(vec![2]));
    assert!(facts.unset_dims.contains("N"));
}

#[test]
fn circles_are_refused_by_name() {
    let whole = model(graph("Relu x > a\nNeg a > b\nAbs b > c\nAdd c a > y", "x", "y", ""));
    let found = faults(&whole, &pieces(&[&[0, 2], &[1], &[3]]));
    assert_eq!(found, [Fault::PieceCycle { pieces: vec!["p0".into(), "p1".into()] }]);

    let circle = model(graph("Add x b > a\nNeg a > b", "x", "b", ""));
    let found = faults(&circle, &pieces(&[&[0, 1]]));
    assert!(matches!(&found[..], [Fault::NodeCycle { nodes }] if nodes.len() == 2), "{found:?}");
}

#[test]
fn every_fault_is_reported_at_once() {
    let whole = model(graph("Relu x > a\nNeg a > a\nAbs z > y\nNeg y > x", "x", "y q", "w w"));
    let mut wrong = pieces(&[&[0, 9], &[0, 2], &[3]]);
    wrong[2].name = "p0".into();
    let found = faults(&whole, &wrong);
    let twice = |value: &str| Fault::MadeTwice { value: value.into() };
    for expected in [
        Fault::SameName { name: "p0".into() },
        Fault::NoSuchNode { piece: "p0".into(), position: 9, nodes: 4 },
        Fault::PlacedTwice { node: "node 0 (Relu)".into(), first: "p0".into(), second: "p1".into() },
        Fault::NotPlaced { node: "node 1 (Neg)".into() },
        twice("a"),
        twice("x"),
        twice("w"),
        Fault::NotMade { value: "z".into(), reader: "node 2 (Abs)".into() },
        Fault::NotMade { value: "q".into(), reader: "the list of outputs".into() },
    ] {
        assert!(found.contains(&expected), "{expected} not in {found:#?}");
    }
    assert_eq!(faults(&Model::default(), &[]), [Fault::NoGraph]);
    assert_eq!(faults(&chain(), &pieces(&[&[0, 1, 2, 3], &[]])), [Fault::Empty { piece: "p1".into() }]);
}

#[test]
fn annotations_say_device_and_stage() {
    let split = model(graph("Split x > a - b\nNeg a > c\nAdd b c > y", "x", "y", ""));
    let annotated = annotate(&split, &pieces(&[&[0], &[1], &[2]]), "plan");
    assert_eq!(annotated.ir_version, Some(11));
    assert_eq!(annotated.configuration[0].device, ["d0", "d1"]);
    assert_eq!(annotated.configuration[0].num_devices, Some(2));
    let nodes = &annotated.graph.as_ref().unwrap().node;
    let told: Vec<(i32, &str, i64)> = nodes
        .iter()
        .flat_map(|node| &node.device_configurations)
        .flat_map(|on| {
            on.sharding_spec.iter().map(|spec| (on.pipeline_stage(), spec.tensor_name(), spec.device[0]))
        })
        .collect();
    assert_eq!(told, [(0, "a", 0), (0, "b", 0), (1, "c", 1), (2, "y", 0)]);
    // A second run replaces the first, another name stands beside it.
    assert_eq!(annotate(&annotated, &pieces(&[&[0], &[1], &[2]]), "plan"), annotated);
    let both = annotate(&annotated, &pieces(&[&[0, 1, 2]]), "other");
    assert_eq!(both.graph.unwrap().node[0].device_configurations.len(), 2);
    // Pieces that cannot run have no stages; positions that do not exist are passed over.
    let circular = annotate(&split, &pieces(&[&[0, 2, 7], &[1]]), "plan");
    assert_eq!(circular.graph.unwrap().node[0].device_configurations[0].pipeline_stage, None);
}

/// A seeded generator (SplitMix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A graph in which each node reads a few earlier values, and random pieces of it.
fn random(rng: &mut Rng) -> (Model, Vec<Piece>) {
    let (nodes, count) = (1 + rng.below(12), 1 + rng.below(4));
    let mut there: Vec<String> = ["x", "u", "w"].map(str::to_owned).to_vec();
    let mut text = String::new();
    let mut placed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in 0..nodes {
        let read: Vec<&str> = (0..1 + rng.below(3)).map(|_| there[rng.below(there.len())].as_str()).collect();
        text += &format!("Op {} > v{at} - t{at}\n", read.join(" "));
        there.extend([format!("v{at}"), format!("t{at}")]);
        placed.entry(rng.below(count)).or_default().push(at);
    }
    let mut outputs: Vec<&str> = there.iter().filter(|_| rng.below(4) == 0).map(String::as_str).collect();
    outputs.dedup();
    let whole = model(graph(&text, "x u", &outputs.join(" "), "w"));
    let placed: Vec<&[usize]> = placed.values().map(Vec::as_slice).collect();
    (whole, pieces(&placed))
}

/// Whether pieces need each other in a circle: by the closure of who feeds whom.
fn has_circle(whole: &Model, pieces: &[Piece]) -> bool {
    let nodes = &whole.graph.as_ref().unwrap().node;
    let owner = |node: usize| pieces.iter().position(|piece| piece.nodes.contains(&node)).unwrap();
    let mut feeds = vec![vec![false; pieces.len()]; pieces.len()];
    for (reader, maker) in (0..nodes.len()).flat_map(|r| (0..nodes.len()).map(move |m| (r, m))) {
        if owner(reader) != owner(maker)
            && nodes[reader].input.iter().any(|name| nodes[maker].output.contains(name))
        {
            feeds[owner(maker)][owner(reader)] = true;
        }
    }
    for through in 0..pieces.len() {
        for from in 0..pieces.len() {
            for to in 0..pieces.len() {
                feeds[from][to] |= feeds[from][through] && feeds[through][to];
            }
        }
    }
    (0..pieces.len()).any(|piece| feeds[piece][piece])
}

#[test]
fn random_pieces_are_cut_soundly_or_refused_for_a_circle() {
    let (mut sound, mut refused) = (0, 0);
    for seed in 0..2000 {
        let (whole, pieces) = random(&mut Rng(seed));
        match cut(&whole, &pieces, &SymbolicShapes::default()) {
            Ok(cut) => {
                assert!(!has_circle(&whole, &pieces), "seed {seed}");
                assert_sound(&whole, &cut);
                sound += 1;
            }
            Err(error) => {
                assert!(matches!(&error.faults[..], [Fault::PieceCycle { .. }]), "seed {seed}: {error}");
                assert!(has_circle(&whole, &pieces), "seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(sound > 300 && refused > 300, "{sound} sound, {refused} refused");
}

#[test]
fn damaged_models_never_panic() {
    for seed in 0..3000 {
        let mut rng = Rng(seed);
        let (mut whole, pieces) = random(&mut rng);
        whole.graph.as_mut().unwrap().value_info.extend(values("x v0"));
        whole.graph.as_mut().unwrap().output.push(value("v0"));
        let mut bytes = whole.encode_to_vec();
        for _ in 0..1 + rng.below(6) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.below(256) as u8;
        }
        let Ok(damaged) = Model::decode(bytes.as_slice()) else { continue };
        let _ = cut(&damaged, &pieces, &(&declared(&damaged)).into());
        let _ = annotate(&damaged, &pieces, "plan");
    }
}

#[test]
fn files_survive_reading_and_writing() {
    for name in ["googlenet", "mobilenet_v2", "resnet50"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../models");
        let bytes = std::fs::read(format!("{path}/{name}.onnx")).unwrap();
        let model = Model::decode(bytes::Bytes::from(bytes.clone())).unwrap();
        assert!(model.encode_to_vec() == bytes, "{name} changed");
    }
}
