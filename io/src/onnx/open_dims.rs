//! Dimensions that a model leaves open: those of its inputs that are not numbers, each with a size that makes sense.
//!
//! Only inputs are asked for. Everything behind them is worked out, and dimensions named by a formula of others
//! (`dim_expression`) follow from those. A suggestion begins with what an axis is for, told by
//! names, element types and ranks: one input at a time, an image of 224 × 224, 128 tokens, a second of sound at 16 kHz.
//! The model itself decides: sizes are tried in the order of a list for each kind of axis, and the first wins with which
//! the fewest shapes contradict each other, which reshapes and anchors for one size of image tell from others.

use std::collections::{BTreeMap, HashMap};

use super::dim_expression::{dim_name, is_formula, settled};
use super::facts::{Facts, element};
use super::infer::infer;
use super::proto::{Dimension, DimensionValue, Graph, Model, TensorType, TypeValue};

/// A dimension of an input that the file does not fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDim {
    /// What `--dim` calls it: its name in the file, or `INPUT[AXIS]`.
    pub name: String,
    /// The first input that has it.
    pub input: String,
    /// Which dimension of that input.
    pub axis: usize,
    /// A size with which the model can be planned.
    pub suggested: u64,
}

/// How many nodes all trials may walk together.
const MOST_NODES_WALKED: usize = 4_000_000;

/// The dimensions of inputs that neither the file nor `given` fixes, in the order of the file.
pub fn open_dims(model: &Model, given: &BTreeMap<String, u64>) -> Vec<OpenDim> {
    let Some(graph) = &model.graph else { return Vec::new() };
    let mut search = Search::new(model, graph, given);
    if search.open.is_empty() {
        return Vec::new();
    }
    search.run();
    let Search { open, sizes, .. } = search;
    let suggested = |axis: &Axis| OpenDim {
        name: axis.name.clone(),
        input: axis.input.to_owned(),
        axis: axis.at,
        suggested: sizes[&axis.name],
    };
    open.iter().map(suggested).collect()
}

/// What an axis holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Inputs that are worked on at once.
    Batch,
    /// Colours.
    Channels,
    /// Height or width of an image.
    Side,
    /// The width of a line of text, whose height is fixed.
    LineWidth,
    /// Words or parts of words.
    Tokens,
    /// Samples of sound.
    Samples,
    /// Steps of a sequence of features.
    Steps,
}

impl Kind {
    /// Sizes to try, the most sensible first.
    fn sizes(self) -> &'static [u64] {
        match self {
            Kind::Batch => &[1, 2],
            Kind::Channels => &[3, 1],
            Kind::Side => &[
                224, 640, 320, 416, 512, 256, 300, 299, 384, 448, 480, 608, 768, 800, 1024, 128, 112, 96, 64,
                48, 32, 28,
            ],
            Kind::LineWidth => &[320, 192, 160, 256, 128, 100, 64, 512, 48, 32],
            Kind::Tokens => &[128, 64, 32, 77, 256, 512, 16, 8, 1],
            Kind::Samples => &[16_000, 512, 576, 1280, 1536, 8000, 32_000, 48_000, 480, 256, 128, 16, 1],
            Kind::Steps => &[100, 128, 96, 76, 64, 32, 16, 10, 8, 4, 1, 300, 3000],
        }
    }
}

/// An open dimension.
struct Axis<'a> {
    name: String,
    input: &'a str,
    at: usize,
    kind: Kind,
}

struct Search<'a> {
    model: &'a Model,
    graph: &'a Graph,
    open: Vec<Axis<'a>>,
    /// What was given and what is suggested so far.
    sizes: BTreeMap<String, u64>,
    nodes_left: usize,
}

impl<'a> Search<'a> {
    fn new(model: &'a Model, graph: &'a Graph, given: &BTreeMap<String, u64>) -> Search<'a> {
        let inputs = inputs(graph);
        let mut open: Vec<Axis<'a>> = Vec::new();
        let mut formulas: Vec<Axis<'a>> = Vec::new();
        for &(input, tensor) in &inputs {
            let dims = tensor.shape.as_ref().map_or(&[][..], |shape| &shape.dim);
            for (at, dim) in dims.iter().enumerate() {
                let Some(name) = dim_name(input, at, dim).filter(|name| !given.contains_key(name)) else {
                    continue;
                };
                let list = if is_formula(&name) { &mut formulas } else { &mut open };
                if list.iter().all(|axis| axis.name != name) {
                    let kind = kind(&name, input, at, tensor);
                    list.push(Axis { name, input, at, kind });
                }
            }
        }
        let mut sizes = given.clone();
        let first = |axis: &Axis<'_>| (axis.name.clone(), axis.kind.sizes()[0]);
        sizes.extend(open.iter().map(first));
        formulas.retain(|axis| settled(&axis.name, &sizes).is_none());
        sizes.extend(formulas.iter().map(first));
        open.extend(formulas);
        let mut search = Search { model, graph, open, sizes, nodes_left: MOST_NODES_WALKED };
        search.trust_metadata();
        search
    }

    /// Ultralytics and others note the size of images that a model was exported for.
    fn trust_metadata(&mut self) {
        let noted = self.model.metadata_props.iter().find(|entry| entry.key() == "imgsz");
        let numbers =
            noted.map(|entry| entry.value().split(|c: char| !c.is_ascii_digit())).into_iter().flatten();
        let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        let sides = self.open.iter().filter(|axis| axis.kind == Kind::Side);
        if let [height, width] = numbers[..]
            && (1..=16_384).contains(&height)
            && (1..=16_384).contains(&width)
        {
            for (i, axis) in sides.enumerate() {
                self.sizes.insert(axis.name.clone(), if i % 2 == 0 { height } else { width });
            }
        }
    }

    /// All sides of images together first, as most models want squares; then one axis after the other.
    fn run(&mut self) {
        let mut best = self.faults(&self.sizes.clone());
        let sides: Vec<usize> = (0..self.open.len()).filter(|&i| self.open[i].kind == Kind::Side).collect();
        let each = (0..self.open.len()).map(|i| vec![i]);
        let groups: Vec<Vec<usize>> =
            [sides].into_iter().filter(|sides| sides.len() > 1).chain(each).collect();
        for _ in 0..2 {
            for group in &groups {
                if best == 0 {
                    return;
                }
                for &size in self.open[group[0]].kind.sizes() {
                    let mut sizes = self.sizes.clone();
                    sizes.extend(group.iter().map(|&i| (self.open[i].name.clone(), size)));
                    let faults = self.faults(&sizes);
                    if faults < best {
                        (best, self.sizes) = (faults, sizes);
                    }
                }
            }
        }
    }

    /// How many values have no shape, an empty one, or one that the file denies.
    fn faults(&mut self, sizes: &BTreeMap<String, u64>) -> usize {
        let nodes = self.graph.node.len();
        if self.nodes_left < nodes {
            return usize::MAX;
        }
        self.nodes_left -= nodes;
        let facts = infer(self.model, sizes);
        facts.unknown.len() + empty(&facts) + denied(self.graph, &facts)
    }
}

/// Values without an element.
fn empty(facts: &Facts) -> usize {
    facts.values.values().filter(|fact| fact.shape.as_ref().is_some_and(|shape| shape.contains(&0))).count()
}

/// Values whose shape is another than the file declares.
fn denied(graph: &Graph, facts: &Facts) -> usize {
    let declared = graph.output.iter().chain(&graph.value_info);
    let differs = declared.filter(|info| {
        let Some(TypeValue::TensorType(tensor)) = info.r#type.as_ref().and_then(|t| t.value.as_ref()) else {
            return false;
        };
        let Some(shape) = facts.values.get(info.name()).and_then(|fact| fact.shape.as_ref()) else {
            return false;
        };
        let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
        dims.zip(shape).any(|(dim, &size)| match dim.value {
            Some(DimensionValue::DimValue(number)) if number > 0 => u64::try_from(number) != Ok(size),
            _ => false,
        })
    });
    differs.count()
}

/// The inputs that no initializer fills, with their types.
fn inputs(graph: &Graph) -> Vec<(&str, &TensorType)> {
    let filled: HashMap<&str, ()> = graph.initializer.iter().map(|tensor| (tensor.name(), ())).collect();
    let inputs = graph.input.iter().filter(|input| !filled.contains_key(input.name()));
    let typed = inputs.filter_map(|input| match input.r#type.as_ref()?.value.as_ref()? {
        TypeValue::TensorType(tensor) => Some((input.name(), tensor)),
        _ => None,
    });
    typed.collect()
}

/// What an axis holds, by its name and by what surrounds it.
fn kind(name: &str, input: &str, at: usize, tensor: &TensorType) -> Kind {
    let dims: Vec<Option<i64>> = tensor.shape.iter().flat_map(|shape| &shape.dim).map(number).collect();
    let whole_numbers = matches!(tensor.elem_type(), element::INT32 | element::INT64);
    let lower = name.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let colours = |at: usize| matches!(dims.get(at), Some(Some(1 | 3 | 4)));
    let state = ["state", "hidden", "cell", "cache"].iter().any(|word| input.to_lowercase().contains(word));
    // An unnamed dimension is called after its input, which says nothing of the axis.
    let named = !lower.ends_with(']');
    if named && (says(&["batch"]) || (at == 0 && ["n", "b", "bs"].contains(&lower.as_str()))) {
        return Kind::Batch;
    }
    if named && (says(&["height", "width"]) || ["h", "w"].contains(&lower.as_str())) {
        return side(&dims, at);
    }
    if named && says(&["sample", "audio", "wav"]) {
        return Kind::Samples;
    }
    if named && says(&["token", "seq", "past", "length"]) {
        return if dims.len() <= 2 && !whole_numbers { Kind::Samples } else { Kind::Tokens };
    }
    if named && says(&["time", "frame", "step"]) {
        return Kind::Steps;
    }
    match (dims.len(), at) {
        (0 | 1, _) => Kind::Batch,
        (_, 0) => Kind::Batch,
        (3, 1) if state => Kind::Batch,
        (4, 1) if !colours(3) => Kind::Channels,
        (4, 1 | 2) if colours(3) => side(&dims, at),
        (4, 3) if dims[1].is_none() && dims[2].is_some() && !colours(1) => Kind::Channels,
        (4, _) => side(&dims, at),
        (2, _) if whole_numbers => Kind::Tokens,
        (2, _) => Kind::Samples,
        (3, _) if whole_numbers => Kind::Tokens,
        _ => Kind::Steps,
    }
}

/// A side of an image; where the other one is fixed and small, it is a line of text.
fn side(dims: &[Option<i64>], at: usize) -> Kind {
    let colours = |at: usize| matches!(dims.get(at), Some(Some(1 | 3 | 4)));
    let (height, width) = if colours(3) && !colours(1) { (1, 2) } else { (2, 3) };
    match dims.get(height) {
        Some(&Some(2..=64)) if at == width => Kind::LineWidth,
        _ => Kind::Side,
    }
}

fn number(dim: &Dimension) -> Option<i64> {
    match dim.value {
        Some(DimensionValue::DimValue(number)) if number >= 0 => Some(number),
        _ => None,
    }
}
