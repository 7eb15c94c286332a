//! What `generate` takes.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use divvy::io::onnx::transformer::NumberFormat;

#[derive(clap::Args)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) what: Generator,
    /// Write to this file (.gz packs it) instead of standard output
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long, global = true)]
    pub(crate) force: bool,
}

#[derive(Subcommand)]
pub(crate) enum Generator {
    /// Randomly wired network on an A100, a T4 and a CPU (DiviML)
    Rwnn {
        /// Random graph: er, ws or ba
        #[arg(long, default_value = "er")]
        model: String,
        /// Modules in a row
        #[arg(long, default_value_t = 10)]
        modules: u32,
        /// Inner ops of a module
        #[arg(long, default_value_t = 10)]
        nodes: u32,
        /// Channels between modules
        #[arg(long, default_value_t = 1)]
        channels: u32,
        /// Ends of channels: sdep, wdep or wfree
        #[arg(long, default_value = "sdep")]
        wiring: String,
        /// Factor on all transfers
        #[arg(long, default_value_t = 1.0)]
        communication_factor: f64,
        /// Times at batch sizes 1, 4, 8, 12 and 16
        #[arg(long)]
        batches: bool,
        /// Seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Synthetic computation graph for pipelines, as in Archer et al. 2024 (MTPP)
    Regal {
        /// Family: er, ws, ba, layered or sbm
        #[arg(long, default_value = "er")]
        family: String,
        /// Ops
        #[arg(long, default_value_t = 100)]
        nodes: u32,
        /// Seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// YOLOv2, layer by layer, with its passthrough
    Yolov2 {
        /// Height and width of the image, a multiple of 32
        #[arg(long, default_value_t = 416)]
        size: u32,
        /// The edge paper's 49 layers, and bytes rescaled to its ratio of bytes to work
        #[arg(long)]
        paper_scale: bool,
    },
    /// GPT-2 or GPT-3, op by op; with --onnx as a model that runs
    Gpt(TransformerArgs),
    /// LLaMA, op by op; with --onnx as a model that runs
    Llama(TransformerArgs),
}

#[derive(clap::Args)]
pub(crate) struct TransformerArgs {
    /// Published model: gpt2, gpt2-large, gpt2-xl, gpt3 (gpt); open-llama-3b, open-llama-7b (llama)
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Layers
    #[arg(long)]
    pub(crate) layers: Option<u32>,
    /// Width
    #[arg(long)]
    pub(crate) hidden: Option<u32>,
    /// Attention heads
    #[arg(long)]
    pub(crate) heads: Option<u32>,
    /// Heads of keys and values (llama)
    #[arg(long)]
    pub(crate) kv_heads: Option<u32>,
    /// Width inside the MLP
    #[arg(long)]
    pub(crate) intermediate: Option<u32>,
    /// Vocabulary
    #[arg(long)]
    pub(crate) vocabulary: Option<u32>,
    /// Most positions (gpt)
    #[arg(long)]
    pub(crate) context: Option<u32>,
    /// Sequences at once
    #[arg(long, default_value_t = 1)]
    pub(crate) batch: u32,
    /// Tokens per sequence
    #[arg(long, default_value_t = 32)]
    pub(crate) sequence: u32,
    /// Tokens in the KV cache already; 0 for the prompt
    #[arg(long, default_value_t = 0)]
    pub(crate) past: u32,
    /// Write a runnable ONNX model to this file instead, its random weights to FILE.data beside it
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) onnx: Option<PathBuf>,
    /// Numbers of the ONNX model
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ElementName::Fp32, requires = "onnx")]
    pub(crate) element: ElementName,
    /// Give the head of the ONNX model a weight of its own instead of the embedding's table (gpt)
    #[arg(long, requires = "onnx")]
    pub(crate) untied: bool,
    /// Seed of the ONNX model's weights
    #[arg(long, default_value_t = 1, requires = "onnx")]
    pub(crate) seed: u64,
}

/// Formats of numbers by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ElementName {
    /// 32-bit floats
    Fp32,
    /// 16-bit floats
    Fp16,
}

impl From<ElementName> for NumberFormat {
    fn from(name: ElementName) -> Self {
        match name {
            ElementName::Fp32 => Self::Fp32,
            ElementName::Fp16 => Self::Fp16,
        }
    }
}
