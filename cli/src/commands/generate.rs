//! `divvy generate`: a problem file, or a runnable model of a transformer.

use std::path::Path;

use divvy::core::ProblemSpec;
use divvy::core::generate::{
    RandomModel, RegalFamily, RegalOptions, RwnnOptions, TransformerOptions, Wiring, Yolov2Options, gpt,
    llama, regal, rwnn, yolov2,
};
use divvy::core::graph::Graph;
use divvy::core::input_error::InputErrors;
use divvy::core::units::{counted, show_bytes};
use divvy::io::file::{self, Kind};
use divvy::io::onnx::transformer::{Family, RunnableOptions, transformer as runnable};
use divvy::io::problem_file;

use crate::args::{GenerateArgs, Generator, TransformerArgs};
use crate::failure::Failure;
use crate::output::Done;
use crate::progress::{Progress, cancel_on_interrupt_saying};

pub(crate) fn run(args: &GenerateArgs) -> Result<Done, Failure> {
    let model = match &args.what {
        Generator::Gpt(sizes) => Some((Family::Gpt, sizes)),
        Generator::Llama(sizes) => Some((Family::Llama, sizes)),
        _ => None,
    };
    if let Some((family, sizes)) = model
        && let Some(path) = &sizes.onnx
    {
        return write_model(family, sizes, path, args.force);
    }
    let spec = generate(&args.what).map_err(about_options)?;
    Ok(Done { text: write(spec, args.output.as_deref(), args.force)?, passed: true })
}

fn about_options(errors: InputErrors) -> Failure {
    Failure::Input("command line".to_owned(), errors)
}

/// Writes a runnable model, and its weights beside it.
fn write_model(family: Family, args: &TransformerArgs, path: &Path, force: bool) -> Result<Done, Failure> {
    let sizes = transformer(args);
    let numbers = args.element.into();
    let options = RunnableOptions { family, sizes, numbers, untied: args.untied, seed: args.seed };
    let model = runnable(&options).map_err(about_options)?;
    let cancelled = cancel_on_interrupt_saying("stopping; nothing is kept (Ctrl-C again to quit at once)");
    let progress = Progress::counting(false);
    let mut show = |done, of| {
        let then = if done == of { ", waiting for the disk" } else { "" };
        progress.say(&format!("{} of {} written{then}", show_bytes(done), show_bytes(of)));
    };
    let Some(weights) = model.write(path, force, &cancelled, &mut show)? else {
        return Ok(Done { text: "stopped; nothing was written\n".to_owned(), passed: false });
    };
    let text = format!(
        "{}: {}, written to {}; {} of weights in {}\n",
        model.name(),
        counted(model.operator_count(), "op"),
        path.display(),
        show_bytes(model.weight_bytes()),
        weights.display()
    );
    Ok(Done { text, passed: true })
}

/// Writes a problem file, or gives its text where no path is named.
pub(super) fn write(spec: ProblemSpec, output: Option<&Path>, force: bool) -> Result<String, Failure> {
    let text = problem_file::write(&spec).to_string();
    let Some(path) = output else { return Ok(text + "\n") };
    file::check_replaceable(path, Kind::Json("problem"), force)?;
    file::write(path, &text)?;
    let graph = Graph::new(spec.graph).map_err(about_options)?;
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
