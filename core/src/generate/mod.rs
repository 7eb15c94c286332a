//! Seeded generators: problems of the kinds that the papers use, made from a few options.
//!
//! * [`rwnn()`]: randomly wired networks on three unlike devices, as in DiviML.
//! * [`regal()`]: random computation graphs for pipelines, as in REGAL and the MTPP paper.
//! * [`yolov2()`]: the layers of YOLOv2, which the edge paper splits.
//! * [`gpt`] and [`llama`]: op graphs of transformers, of published or free sizes.
//!
//! The same options always give the same problem: all chance comes from one seeded stream. Options are validated
//! before anything is built; every fault is reported.

mod random_graphs;
mod regal;
mod rwnn;
mod transformer;
mod transformer_sizes;
mod yolov2;

pub use random_graphs::RandomModel;
pub use regal::{RegalFamily, RegalOptions, regal};
pub use rwnn::{RwnnOptions, Wiring, rwnn};
pub use transformer::{gpt, llama};
pub use transformer_sizes::TransformerOptions;
pub use yolov2::{Yolov2Options, yolov2};

use std::fmt::Display;

use crate::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
use crate::input_error::{Code, InputError, InputErrors};

/// More ops than this are refused, so that a slip of the keyboard does not fill the memory.
const MOST_OPS: u64 = 2_000_000;

/// More random draws than this, one for each edge or each pair of ops, are refused for the same reason.
const MOST_DRAWS: u64 = 10_000_000;

/// Reports `value` if it is not within `least` and `most`.
fn check_range<T: PartialOrd + Display + Copy>(
    option: &str,
    value: T,
    least: T,
    most: T,
    errors: &mut InputErrors,
) {
    // Written so that NaN is out of range.
    if !(value >= least && value <= most) {
        let fix = format!("give a value from {least} to {most}");
        errors.add(Code::Range, option, format!("{value} is out of range"), fix);
    }
}

/// Reports that the options together ask for too much.
fn check_size(option: &str, what: &str, count: u64, most: u64, errors: &mut InputErrors) {
    if count > most {
        let message = format!("this makes {count} {what}, and at most {most} are generated");
        errors.add(Code::Range, option, message, "ask for a smaller network");
    }
}

/// The choice called `name`; case, hyphens and underscores do not matter.
fn choose<T: Copy>(option: &str, name: &str, choices: &[(&str, T)]) -> Result<T, InputErrors> {
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let found = choices.iter().find(|(choice, _)| plain(choice) == plain(name));
    found.map(|&(_, value)| value).ok_or_else(|| {
        let known: Vec<&str> = choices.iter().map(|&(choice, _)| choice).collect();
        let fix = format!("choose one of {}", known.join(", "));
        InputError::new(Code::UnknownName, option, format!("there is no `{name}`"), fix).into()
    })
}

/// A graph whose ops make one tensor each: op `i` makes `bytes[i]`, and every edge leads from producer to consumer.
fn graph_of_edges(name: String, bytes: &[u64], edges: &[(u32, u32)]) -> GraphSpec {
    let mut draft = Draft::new(name, None);
    for (i, &bytes) in bytes.iter().enumerate() {
        let op = draft.op(OpSpec { name: format!("op{i}"), kind: "Random".into(), ..OpSpec::default() }, &[]);
        draft.output_of(op, format!("t{i}"), bytes);
    }
    for &(producer, consumer) in edges {
        draft.spec.tensors[producer as usize].consumers.push(consumer);
    }
    draft.finish()
}

/// A graph under construction. Ops are added in topological order.
struct Draft {
    spec: GraphSpec,
}

/// A tensor of a [`Draft`].
#[derive(Clone, Copy)]
struct DraftTensor(usize);

impl Draft {
    fn new(name: String, precision: Option<&str>) -> Draft {
        let precision = precision.map(str::to_owned);
        Draft { spec: GraphSpec { name, precision, ..GraphSpec::default() } }
    }

    /// Adds an input of the network.
    fn input(&mut self, name: &str, bytes: u64) -> DraftTensor {
        self.tensor(name.into(), bytes, None)
    }

    /// Adds an op that reads `inputs`.
    fn op(&mut self, op: OpSpec, inputs: &[DraftTensor]) -> u32 {
        let id = u32::try_from(self.spec.ops.len()).expect("the options limit the number of ops");
        for input in inputs {
            self.spec.tensors[input.0].consumers.push(id);
        }
        self.spec.ops.push(op);
        id
    }

    /// Adds a tensor that `op` makes.
    fn output_of(&mut self, op: u32, name: String, bytes: u64) -> DraftTensor {
        self.tensor(name, bytes, Some(op))
    }

    /// Adds a parameter that `op` reads.
    fn param(&mut self, op: u32, name: String, bytes: u64) {
        self.spec.params.push(ParamSpec { name, bytes, readers: vec![op] });
    }

    /// The graph; its outputs are the tensors that nobody reads.
    fn finish(mut self) -> GraphSpec {
        for tensor in &mut self.spec.tensors {
            tensor.output = tensor.consumers.is_empty();
        }
        self.spec
    }

    fn tensor(&mut self, name: String, bytes: u64, producer: Option<u32>) -> DraftTensor {
        self.spec.tensors.push(TensorSpec { name, bytes, producer, ..TensorSpec::default() });
        DraftTensor(self.spec.tensors.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::problem::ProblemSpec;

    type Generator = Box<dyn Fn(u64) -> Result<ProblemSpec, InputErrors>>;

    fn seeded() -> Vec<Generator> {
        let mut generators: Vec<Generator> = Vec::new();
        for model in [RandomModel::ER, RandomModel::WS, RandomModel::BA] {
            for wiring in [Wiring::Sdep, Wiring::Wdep, Wiring::Wfree] {
                for (modules, channels, batches) in [(1, 1, false), (4, 1, true), (3, 4, false)] {
                    generators.push(Box::new(move |seed| {
                        let sizes = RwnnOptions { modules, channels, batches, ..RwnnOptions::default() };
                        rwnn(&RwnnOptions { model, wiring, seed, ..sizes })
                    }));
                }
            }
        }
        for family in RegalFamily::ALL {
            for nodes in [5, 60, 150] {
                generators.push(Box::new(move |seed| regal(&RegalOptions { family, nodes, seed })));
            }
        }
        generators
    }

    fn unseeded() -> Vec<ProblemSpec> {
        let llama_step = TransformerOptions { past: 9, sequence: 1, kv_heads: Some(8), ..Default::default() };
        vec![
            yolov2(&Yolov2Options::default()).unwrap(),
            yolov2(&Yolov2Options { size: 608, paper_scale: true }).unwrap(),
            gpt(&TransformerOptions::default()).unwrap(),
            gpt(&TransformerOptions { past: 100, sequence: 1, ..Default::default() }).unwrap(),
            llama(&TransformerOptions::default()).unwrap(),
            llama(&llama_step).unwrap(),
        ]
    }

    #[test]
    fn every_graph_is_valid_and_in_topological_order() {
        let seeds = 0..5;
        let random = seeded().into_iter().flat_map(|make| seeds.clone().map(move |seed| make(seed).unwrap()));
        for problem in random.chain(unseeded()) {
            let name = problem.graph.name.clone();
            for tensor in &problem.graph.tensors {
                assert_eq!(tensor.output, tensor.consumers.is_empty(), "{name}");
                assert!(tensor.consumers.iter().all(|&c| tensor.producer.is_none_or(|p| p < c)), "{name}");
                let distinct: std::collections::HashSet<u32> = tensor.consumers.iter().copied().collect();
                assert_eq!(distinct.len(), tensor.consumers.len(), "{name}: an edge is there twice");
            }
            for class in &problem.profile.classes {
                assert!(class.costs.iter().all(|list| list.len() == problem.graph.ops.len()), "{name}");
            }
            let graph = Graph::new(problem.graph).unwrap();
            assert!(graph.order().iter().enumerate().all(|(i, op)| op.index() == i), "{name}");
        }
    }

    #[test]
    fn the_seed_and_nothing_else_decides() {
        for make in seeded() {
            let [first, again, other] = [7, 7, 8].map(|seed| make(seed).unwrap());
            assert_eq!(first, again);
            assert_ne!(first.profile, other.profile);
        }
        assert!(unseeded() == unseeded());
    }

    #[test]
    fn names_are_found_however_they_are_spelt() {
        let choices = [("gpt2-xl", 1), ("open-llama-3b", 2)];
        assert_eq!(choose("--name", "GPT2_XL", &choices).unwrap(), 1);
        assert_eq!(choose("--name", "OpenLLaMA-3B", &choices).unwrap(), 2);
        let errors = choose("--name", "gpt5", &choices).unwrap_err();
        assert_eq!(errors.kept()[0].code, Code::UnknownName);
        assert!(errors.kept()[0].fix.contains("open-llama-3b"));
    }
}
