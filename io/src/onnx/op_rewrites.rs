//! Operators that runtimes are slow at, written as quicker ones that compute the same.
//!
//! ONNX Runtime raises every element of an `LRN` to a power one by one, which takes a third of the time of networks that
//! have it. The exponent is nearly always 3/4, and s^(3/4) = √s · √√s; the sums over neighbouring channels are a
//! convolution of one by one with a band of weights. All terms are positive, so results differ by rounding only (but an
//! infinite or undefined element spreads to all channels of its place, not to the nearest alone).

use std::collections::{BTreeMap, HashMap};

use super::facts::element;
use super::infer::infer;
use super::proto::{Attribute, Model, Node, Tensor};

/// With more channels than this the convolution does so much more than is needed that it saves nothing.
const MOST_CHANNELS: u64 = 1024;

/// The model with quicker nodes in place of slow ones. The new nodes' names begin with that of the one they stand for.
pub fn rewrite_ops(mut model: Model) -> Model {
    let is_slow = |node: &Node| node.op_type() == "LRN" && matches!(node.domain(), "" | "ai.onnx");
    if !model.graph.iter().flat_map(|graph| &graph.node).any(is_slow) {
        return model;
    }
    let values = infer(&model, &BTreeMap::new()).values;
    // Of images alone: convolutions have as many dimensions as what they are of.
    let channels: HashMap<String, u64> = values
        .into_iter()
        .filter(|(_, fact)| fact.element == element::FLOAT)
        .filter_map(|(name, fact)| Some((name, fact.shape.filter(|shape| shape.len() == 4)?[1])))
        .collect();
    if let Some(graph) = &mut model.graph {
        let nodes = std::mem::take(&mut graph.node);
        for node in nodes {
            let normalisation = if is_slow(&node) { Normalisation::of(&node, &channels) } else { None };
            match normalisation {
                Some(normalisation) => graph.node.extend(normalisation.nodes(&node)),
                None => graph.node.push(node),
            }
        }
    }
    model
}

/// x / (bias + alpha / size · sum of the squares of `size` channels around it) ^ beta.
struct Normalisation {
    channels: usize,
    size: usize,
    alpha: f32,
    bias: f32,
}

impl Normalisation {
    fn of(node: &Node, channels: &HashMap<String, u64>) -> Option<Normalisation> {
        let number = |name: &str, usual: f32| {
            let given = node.attribute.iter().find(|attribute| attribute.name() == name);
            given.map_or(usual, |attribute| attribute.f())
        };
        let size = node.attribute.iter().find(|attribute| attribute.name() == "size")?.i();
        let channels = *channels.get(node.input.first()?)?;
        let fits = number("beta", 0.75) == 0.75 && (1..=MOST_CHANNELS).contains(&channels) && size > 0;
        fits.then(|| Normalisation {
            channels: channels as usize,
            size: size as usize,
            alpha: number("alpha", 1e-4),
            bias: number("bias", 1.0),
        })
    }

    fn nodes(&self, node: &Node) -> Vec<Node> {
        let (x, y) = (node.input[0].as_str(), node.output[0].as_str());
        let value = |what: &str| format!("{y}/divvy.{what}");
        let [square, band, bias] = ["square", "band", "bias"].map(value);
        let [sum, root, fourth, power] = ["sum", "root", "fourth", "power"].map(value);
        let of = |kind: &str, input: &[&str], output: &str| Node {
            name: node.name.as_ref().map(|name| format!("{name}/{output}")),
            op_type: Some(kind.to_owned()),
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..Node::default()
        };
        // A node and not a weight of the graph: in old files weights must be inputs too.
        let constant = |output: &str, dims: Vec<usize>, float_data: Vec<f32>| {
            let dims = dims.into_iter().map(|size| size as i64).collect();
            let tensor = Tensor { dims, data_type: Some(element::FLOAT), float_data, ..Tensor::default() };
            // Attributes say of which type they are; 4 is a tensor.
            let (name, t) = (Some("value".to_owned()), Some(Box::new(tensor)));
            let attribute = vec![Attribute { name, r#type: Some(4), t, ..Attribute::default() }];
            Node { attribute, ..of("Constant", &[], output) }
        };
        vec![
            constant(&band, vec![self.channels, self.channels, 1, 1], self.band()),
            constant(&bias, vec![self.channels], vec![self.bias; self.channels]),
            of("Mul", &[x, x], &square),
            of("Conv", &[&square, &band, &bias], &sum),
            of("Sqrt", &[&sum], &root),
            of("Sqrt", &[&root], &fourth),
            of("Mul", &[&root, &fourth], &power),
            of("Div", &[x, &power], y),
        ]
    }

    /// For each channel, the weight of each channel's square.
    fn band(&self) -> Vec<f32> {
        let (before, after) = ((self.size - 1) / 2, self.size / 2);
        let weight = |(of, other): (usize, usize)| {
            if other + before >= of && other <= of + after { self.alpha / self.size as f32 } else { 0.0 }
        };
        let pairs = (0..self.channels).flat_map(|of| (0..self.channels).map(move |other| (of, other)));
        pairs.map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_of_the_operator() {
        // For a size of 4: one channel before, two after.
        let band = Normalisation { channels: 4, size: 4, alpha: 4.0, bias: 1.0 }.band();
        let rows: Vec<Vec<f32>> = band.chunks(4).map(<[f32]>::to_vec).collect();
        assert_eq!(rows[0], [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(rows[1], [1.0, 1.0, 1.0, 1.0]);
        assert_eq!(rows[3], [0.0, 0.0, 1.0, 1.0]);
    }
}
