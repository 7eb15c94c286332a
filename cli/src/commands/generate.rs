//! `divvy generate`.

use std::path::Path;

use divvy::core::ProblemSpec;
use divvy::core::generate::{
    RandomModel, RegalFamily, RegalOptions, RwnnOptions, TransformerOptions, Wiring, Yolov2Options, gpt,
    llama, regal, rwnn, yolov2,
};
use divvy::core::graph::Graph;
use divvy::core::input_error::InputErrors;
use divvy::io::file::{self, Kind};
use divvy::io::problem_file;

use crate::args::{GenerateArgs, Generator, TransformerArgs};
use crate::failure::Failure;

pub(crate) fn run(args: &GenerateArgs) -> Result<String, Failure> {
    let about = |errors| Failure::Input("command line".to_owned(), errors);
    let spec = generate(&args.what).map_err(about)?;
    write(spec, args.output.as_deref(), args.force)
}

/// Writes a problem file, or gives its text where no path is named.
pub(super) fn write(spec: ProblemSpec, output: Option<&Path>, force: bool) -> Result<String, Failure> {
    let text = problem_file::write(&spec).to_string();
    let Some(path) = output else { return Ok(text + "\n") };
    file::check_replaceable(path, Kind::Json("problem"), force)?;
    file::write(path, &text)?;
    let graph = Graph::new(spec.graph).map_err(|errors| Failure::Input("command line".to_owned(), errors))?;
    Ok(format!(
        "{}: {} ops, {} tensors, written to {}\n",
        graph.name(),
        graph.op_count(),
        graph.tensor_count(),
        path.display()
    ))
}

fn generate(what: &Generator) -> Result<ProblemSpec, InputErrors> {
    match what {
        Generator::Rwnn { model, modules, nodes, channels, wiring, communication_factor, batches, seed } => {
            rwnn(&RwnnOptions {
                model: RandomModel::named(model)?,
                modules: *modules,
                nodes: *nodes,
                channels: *channels,
                wiring: Wiring::named(wiring)?,
                seed: *seed,
                communication_factor: *communication_factor,
                batches: *batches,
            })
        }
        Generator::Regal { family, nodes, seed } => {
            regal(&RegalOptions { family: RegalFamily::named(family)?, nodes: *nodes, seed: *seed })
        }
        Generator::Yolov2 { size, paper_scale } => {
            yolov2(&Yolov2Options { size: *size, paper_scale: *paper_scale })
        }
        Generator::Gpt(args) => gpt(&transformer(args)),
        Generator::Llama(args) => llama(&transformer(args)),
    }
}

fn transformer(args: &TransformerArgs) -> TransformerOptions {
    TransformerOptions {
        name: args.name.clone(),
        layers: args.layers,
        hidden: args.hidden,
        heads: args.heads,
        kv_heads: args.kv_heads,
        intermediate: args.intermediate,
        vocabulary: args.vocabulary,
        context: args.context,
        batch: args.batch,
        sequence: args.sequence,
        past: args.past,
    }
}
