//! YOLOv2, layer by layer, for the `stream` objective.
//!
//! Source: the `yolov2.cfg` of Darknet (Redmon and Farhadi, "YOLO9000", CVPR 2017) for the 80 classes of COCO. Batch
//! normalisation is folded into the convolutions, which leaves 52 ops: 23 convolutions, 22 leaky activations, 5
//! pools, the reordering of the passthrough and the concatenation. Everything is fp32. Work counts two operations per
//! multiplication with addition, one per element of an activation, four per element that a pool makes, and none
//! for moving data.

use super::draft::{Draft, DraftTensor};
use super::options::check_range;
use crate::graph::{GraphSpec, OpSpec};
use crate::input_error::{Code, InputErrors};
use crate::problem::{ConstraintsSpec, MemoryRule, Objective, ProblemSpec};

/// What [`yolov2`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yolov2Options {
    /// Width and height of the image, a multiple of 32.
    pub size: u32,
    /// Whether to make the edge paper's instance. That has 49 layers, so the passthrough's convolution, activation and
    /// reordering are folded into the concatenation, which takes over their work and weights and reads the
    /// passthrough's source itself. Then the bytes of every tensor, the network's input and output too, are
    /// multiplied by one factor, such that the smallest cut has 1.64e-3 bytes per floating-point operation of
    /// the whole network. A cut is made between two consecutive ops and counts every tensor from before to after it,
    /// each once. Work and weights keep their true size, and memory counts weights alone.
    pub paper_scale: bool,
}

impl Default for Yolov2Options {
    fn default() -> Yolov2Options {
        Yolov2Options { size: 416, paper_scale: false }
    }
}

/// Bytes in the smallest cut per 100 000 floating-point operations, in the edge paper.
const PAPER_BYTES_PER_100K_FLOPS: u128 = 164;
const LEAST_SIZE: u32 = 32;
const MOST_SIZE: u32 = 32_768;
const BYTES: u64 = 4;
/// Five boxes with four coordinates, one objectness and 80 classes each.
const PREDICTIONS: u64 = 5 * (4 + 1 + 80);

/// A layer of the trunk.
enum Layer {
    /// A square kernel and its number of filters, followed by a leaky activation.
    Conv(u64, u64),
    /// Halves width and height.
    Pool,
    /// Here the passthrough branches off.
    Branch,
}
use Layer::{Branch, Conv, Pool};

#[rustfmt::skip]
const TRUNK: [Layer; 26] = [
    Conv(3, 32), Pool,
    Conv(3, 64), Pool,
    Conv(3, 128), Conv(1, 64), Conv(3, 128), Pool,
    Conv(3, 256), Conv(1, 128), Conv(3, 256), Pool,
    Conv(3, 512), Conv(1, 256), Conv(3, 512), Conv(1, 256), Conv(3, 512), Branch, Pool,
    Conv(3, 1024), Conv(1, 512), Conv(3, 1024), Conv(1, 512), Conv(3, 1024),
    Conv(3, 1024), Conv(3, 1024),
];

/// YOLOv2 without times or hardware.
pub fn yolov2(options: &Yolov2Options) -> Result<ProblemSpec, InputErrors> {
    let mut errors = InputErrors::default();
    check_range("--size", options.size, LEAST_SIZE, MOST_SIZE, &mut errors);
    if !options.size.is_multiple_of(32) {
        let message = format!("{} is not a multiple of 32", options.size);
        errors.add(Code::Option, "--size", message, "the network halves the image five times; 416 is usual");
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut graph = Layers::new(options).build(options.paper_scale);
    if options.paper_scale {
        scale_to_paper(&mut graph);
    }
    // Bytes that were multiplied say nothing of memory, and the paper limits none.
    let memory_rule = if options.paper_scale { MemoryRule::Weights } else { MemoryRule::All };
    let constraints = ConstraintsSpec { memory_rule, ..ConstraintsSpec::default() };
    Ok(ProblemSpec { graph, objective: Some(Objective::Stream), constraints, ..ProblemSpec::default() })
}

/// An image between layers.
#[derive(Clone, Copy)]
struct Image {
    tensor: DraftTensor,
    channels: u64,
    side: u64,
}

impl Image {
    fn elements(self) -> u64 {
        self.channels * self.side * self.side
    }
}

struct Layers {
    draft: Draft,
    input: Image,
    convolutions: u32,
    pools: u32,
}

impl Layers {
    fn new(options: &Yolov2Options) -> Layers {
        let suffix = if options.paper_scale { "-paper" } else { "" };
        let mut draft = Draft::new(format!("yolov2-{}{suffix}", options.size), Some("fp32"));
        let side = u64::from(options.size);
        let tensor = draft.input("image", BYTES * 3 * side * side);
        Layers { draft, input: Image { tensor, channels: 3, side }, convolutions: 0, pools: 0 }
    }

    fn build(mut self, fold_passthrough: bool) -> GraphSpec {
        let mut image = self.input;
        let mut branch = image;
        for layer in &TRUNK {
            match *layer {
                Conv(kernel, filters) => image = self.conv_and_leaky(image, kernel, filters),
                Pool => image = self.pool(image),
                Branch => branch = image,
            }
        }
        let joined = if fold_passthrough {
            self.folded_concat(image, branch)
        } else {
            self.passthrough(image, branch)
        };
        let image = self.conv_and_leaky(joined, 3, 1024);
        self.conv(image, 1, PREDICTIONS);
        self.draft.finish()
    }

    fn op(&mut self, name: &str, kind: &str, flops: u64, inputs: &[Image], made: (u64, u64)) -> (u32, Image) {
        let tensors: Vec<DraftTensor> = inputs.iter().map(|image| image.tensor).collect();
        let spec = OpSpec { name: name.into(), kind: kind.into(), flops: Some(flops), ..OpSpec::default() };
        let op = self.draft.op(spec, &tensors);
        let (channels, side) = made;
        let tensor = self.draft.output_of(op, format!("{name}.out"), BYTES * channels * side * side);
        (op, Image { tensor, channels, side })
    }

    fn conv(&mut self, image: Image, kernel: u64, filters: u64) -> Image {
        self.convolutions += 1;
        let name = format!("conv{}", self.convolutions);
        let flops = conv_flops(image, kernel, filters);
        let (op, out) = self.op(&name, "Conv2d", flops, &[image], (filters, image.side));
        self.draft.param(op, format!("{name}.weights"), conv_weight_bytes(image, kernel, filters));
        out
    }

    fn leaky(&mut self, image: Image) -> Image {
        let name = format!("leaky{}", self.convolutions);
        self.op(&name, "LeakyReLU", image.elements(), &[image], (image.channels, image.side)).1
    }

    fn conv_and_leaky(&mut self, image: Image, kernel: u64, filters: u64) -> Image {
        let image = self.conv(image, kernel, filters);
        self.leaky(image)
    }

    fn pool(&mut self, image: Image) -> Image {
        self.pools += 1;
        // Four comparisons per element made are one per element read.
        let made = (image.channels, image.side / 2);
        self.op(&format!("pool{}", self.pools), "MaxPool2d", image.elements(), &[image], made).1
    }

    fn passthrough(&mut self, image: Image, branch: Image) -> Image {
        let branch = self.conv_and_leaky(branch, 1, 64);
        let reordered = (4 * branch.channels, branch.side / 2);
        let branch = self.op("reorg", "Reorg", 0, &[branch], reordered).1;
        let made = (image.channels + branch.channels, image.side);
        self.op("concat", "Concat", 0, &[branch, image], made).1
    }

    /// The concatenation with the passthrough's other ops in it.
    fn folded_concat(&mut self, image: Image, branch: Image) -> Image {
        self.convolutions += 1;
        let number = self.convolutions;
        let flops = conv_flops(branch, 1, 64) + 64 * branch.side * branch.side;
        let made = (image.channels + 4 * 64, image.side);
        let (op, out) = self.op("concat", "Concat", flops, &[branch, image], made);
        let members = [format!("conv{number}"), format!("leaky{number}"), "reorg".into(), "concat".into()];
        self.draft.spec.ops[op as usize].members = members.into();
        self.draft.param(op, format!("conv{number}.weights"), conv_weight_bytes(branch, 1, 64));
        out
    }
}

fn conv_flops(image: Image, kernel: u64, filters: u64) -> u64 {
    2 * kernel * kernel * image.elements() * filters
}

/// Weights and one bias per filter.
fn conv_weight_bytes(image: Image, kernel: u64, filters: u64) -> u64 {
    BYTES * filters * (kernel * kernel * image.channels + 1)
}

fn total_flops(graph: &GraphSpec) -> u64 {
    graph.ops.iter().filter_map(|op| op.flops).sum()
}

/// Bytes that cross from the ops before to the ops after, where they are fewest.
fn smallest_cut(graph: &GraphSpec) -> u64 {
    let crossing = |cut: u32| -> u64 {
        let crosses =
            |producer: u32, consumers: &[u32]| producer < cut && consumers.iter().any(|&c| c >= cut);
        let tensors = graph.tensors.iter();
        tensors.filter(|t| t.producer.is_some_and(|p| crosses(p, &t.consumers))).map(|t| t.bytes).sum()
    };
    (1..graph.ops.len() as u32).map(crossing).min().unwrap_or(0)
}

fn scale_to_paper(graph: &mut GraphSpec) {
    let wanted = PAPER_BYTES_PER_100K_FLOPS * u128::from(total_flops(graph));
    let present = 100_000 * u128::from(smallest_cut(graph));
    for tensor in &mut graph.tensors {
        tensor.bytes = ((u128::from(tensor.bytes) * wanted + present / 2) / present) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(paper_scale: bool) -> GraphSpec {
        yolov2(&Yolov2Options { paper_scale, ..Yolov2Options::default() }).unwrap().graph
    }

    fn count(graph: &GraphSpec, kind: &str) -> usize {
        graph.ops.iter().filter(|op| op.kind == kind).count()
    }

    #[test]
    fn it_has_the_published_layers_work_and_weights() {
        let graph = make(false);
        assert_eq!(graph.ops.len(), 52);
        let kinds = ["Conv2d", "LeakyReLU", "MaxPool2d", "Reorg", "Concat"];
        assert_eq!(kinds.map(|kind| count(&graph, kind)), [23, 22, 5, 1, 1]);
        let giga = total_flops(&graph) as f64 / 1e9;
        assert!((giga / 29.47 - 1.0).abs() < 0.01, "{giga}");
        let weights: u64 = graph.params.iter().map(|p| p.bytes).sum();
        // What Darknet's file of weights holds, less the three further numbers of batch normalisation for each filter.
        assert_eq!(weights / BYTES, 50_983_561 - 3 * 10_336);
        let output = graph.tensors.iter().find(|t| t.output).unwrap();
        assert_eq!(output.bytes, BYTES * 13 * 13 * 425);
    }

    #[test]
    fn the_passthrough_joins_the_trunk() {
        let graph = make(false);
        let op = |name: &str| graph.ops.iter().position(|op| op.name == name).unwrap() as u32;
        let inputs = |name: &str| -> Vec<u64> {
            graph
                .tensors
                .iter()
                .filter(|t| t.consumers.contains(&op(name)))
                .map(|t| t.bytes / BYTES)
                .collect()
        };
        assert_eq!(inputs("concat"), [13 * 13 * 1024, 13 * 13 * 256]);
        assert_eq!(inputs("conv21"), [26 * 26 * 512]);
        assert_eq!(inputs("conv22"), [13 * 13 * 1280]);
    }

    #[test]
    fn the_paper_scale_has_49_layers_and_the_paper_ratio() {
        let (plain, scaled) = (make(false), make(true));
        assert_eq!(scaled.ops.len(), 49);
        assert_eq!(total_flops(&plain), total_flops(&scaled));
        let weights = |graph: &GraphSpec| graph.params.iter().map(|p| p.bytes).sum::<u64>();
        assert_eq!(weights(&plain), weights(&scaled));
        let ratio = smallest_cut(&scaled) as f64 / total_flops(&scaled) as f64;
        assert!((ratio / 1.64e-3 - 1.0).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn odd_sizes_are_refused() {
        for size in [0, 415, 33_000, u32::MAX] {
            let errors = yolov2(&Yolov2Options { size, ..Yolov2Options::default() }).unwrap_err();
            assert_eq!(errors.kept()[0].place, "--size");
        }
        assert!(yolov2(&Yolov2Options { size: MOST_SIZE, paper_scale: true }).is_ok());
    }
}
