//! Seeded generators: problems of the kinds that the papers use, made from a few options.
//!
//! | file | what |
//! |---|---|
//! | `rwnn` | [`rwnn()`]: randomly wired networks on three unlike devices, as in DiviML |
//! | `regal` | [`regal()`]: random computation graphs for pipelines, as in REGAL and the MTPP paper |
//! | `yolov2` | [`yolov2()`]: the layers of YOLOv2, which the edge paper splits |
//! | `transformer`, `transformer_sizes` | [`gpt`] and [`llama`]: op graphs of transformers, of published or free sizes |
//! | `random_graphs` | the random graph models |
//! | `draft` | a graph under construction |
//! | `options` | checks of options |
//!
//! The same options always give the same problem: all randomness comes from one seeded stream. Options are validated before
//! anything is built; every fault is reported.

mod draft;
mod options;
mod random_graphs;
mod regal;
mod rwnn;
#[cfg(test)]
mod tests;
mod transformer;
mod transformer_sizes;
mod yolov2;

pub use random_graphs::RandomModel;
pub use regal::{RegalFamily, RegalOptions, regal};
pub use rwnn::{RwnnOptions, Wiring, rwnn};
pub use transformer::{gpt, llama};
pub use transformer_sizes::{TransformerOptions, TransformerSizes};
pub use yolov2::{Yolov2Options, yolov2};
