//! What `profile` and `run` take.

use std::path::PathBuf;
use std::time::Duration;

use divvy::deploy::{ProfileOptions, RunOptions};

use super::{ReadingArgs, bytes, duration};

/// What `profile` and `run` say of numbers of items.
fn items() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..)
}

#[derive(clap::Args)]
pub(crate) struct ProfileArgs {
    /// ONNX model
    #[arg(value_name = "MODEL")]
    pub(crate) file: String,
    /// Hardware whose CPUs this machine stands for: a built-in name (`divvy hardware list`) or a file
    #[arg(long, value_name = "HARDWARE")]
    pub(crate) on: String,
    /// Write the times to this file, for `divvy plan --profile`
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
    /// Library of ONNX Runtime, or its folder [default: ORT_DYLIB_PATH, then the active Python environment]
    #[arg(long, value_name = "PATH")]
    pub(crate) onnxruntime: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Cores of a device, such as cpu1=0,2-3; may be repeated [default: an equal share]
    #[arg(long, value_name = "DEVICE=CORES")]
    pub(crate) cores: Vec<String>,
    /// What a device is here: cores, or a CUDA card by its number; such as gpu1=cuda:0, may be repeated [default: CPUs are cores,
    /// GPUs the CUDA cards in order]
    #[arg(long, value_name = "DEVICE=PLACE")]
    pub(crate) device: Vec<String>,
    /// For cold starts: feed cards their weights instead of making them constants, and measure copies, cores beside them and reads in
    /// place
    #[arg(long, conflicts_with = "from")]
    pub(crate) cold_start: bool,
    /// Inputs that run at once, such as 1,2,4; each is a batch size of the profile
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N,N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: Vec<u32>,
    /// Take times from a profile that ONNX Runtime wrote, instead of measuring; CLASS=FILE for one of several classes
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    pub(crate) from: Vec<String>,
    /// Write the hardware to this file, its links as measured
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) hardware: Option<PathBuf>,
    /// Runs that count, once plain and once with every kernel timed
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = items())]
    pub(crate) repeat: u64,
    /// Runs before those
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) warm_up: u64,
    /// Seed of inputs, and of weights that are missing
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Random whole numbers are below this
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = items())]
    pub(crate) int_below: u64,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Plan file of an ONNX model; `-` reads standard input
    pub(crate) plan: String,
    /// The model, if it is no longer where the plan was made from
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<String>,
    /// Cores of a device, such as cpu1=0,2-3; may be repeated [default: an equal share]
    #[arg(long, value_name = "DEVICE=CORES")]
    pub(crate) cores: Vec<String>,
    /// What a device is here: cores, a CUDA card by its number, or a simulated card; such as gpu1=cuda:0, may be repeated
    /// [default: CPUs are cores, GPUs the CUDA cards in order]
    #[arg(long, value_name = "DEVICE=PLACE")]
    pub(crate) device: Vec<String>,
    /// Use no more than this of a card's memory, such as 8GB [default: all that is free]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) card_memory: Option<u64>,
    /// Inputs, .npz or .npy; may be repeated [default: random]
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Vec<PathBuf>,
    /// Write the results of the first item to this file (.npz)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
    /// Library of ONNX Runtime, or its folder [default: ORT_DYLIB_PATH, then the active Python environment]
    #[arg(long, value_name = "PATH")]
    pub(crate) onnxruntime: Option<PathBuf>,
    /// Items to run; requests by each way, of a cold start [default: 10 of a cold start; else as many as fit into --duration, else until the median is certain to 3 %, or --at-most has passed]
    #[arg(long, value_name = "N", value_parser = items())]
    pub(crate) repeat: Option<u64>,
    /// Stop feeding items after this time, such as 10s or 2m
    #[arg(long, value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Without --repeat and --duration: go on no longer than this, whether or not the median is certain
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20s", conflicts_with_all = ["repeat", "duration"])]
    pub(crate) at_most: Duration,
    /// Do not take turns with plain ONNX Runtime on the same cores
    #[arg(long)]
    pub(crate) no_compare: bool,
    /// Items before those that count
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) warm_up: u64,
    /// Most items under way at once [default: 1 for latency, else two for each stage]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Option<u32>,
    /// Tell undisturbed times of the machine as fast as it is now. Else, where the plan's profile is still there, the run takes
    /// turns with the whole model, and they are brought to the speed that the profile was measured at
    #[arg(long)]
    pub(crate) as_is: bool,
    /// Write when each op ran to this file, for `divvy report --measured`
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write op times that agree with what was measured to this file, for `divvy plan --profile`
    #[arg(long, value_name = "FILE")]
    pub(crate) learn: Option<PathBuf>,
    /// Compare every item's results with those of the whole model
    #[arg(long)]
    pub(crate) verify: bool,
    /// Largest difference that --verify lets pass, over the largest value, or over 0.01; 0.002 at least for results of 16-bit floats
    #[arg(long, default_value_t = 1e-4, value_name = "SHARE")]
    pub(crate) tolerance: f64,
    /// Seed of random inputs, and of weights that are missing
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Random whole numbers are below this
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = items())]
    pub(crate) int_below: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl ProfileArgs {
    /// The options that these arguments stand for.
    pub(crate) fn options(&self) -> ProfileOptions {
        ProfileOptions {
            cores: self.cores.clone(),
            devices: self.device.clone(),
            cold_start: self.cold_start,
            batch_sizes: self.batch.clone(),
            repeat: self.repeat,
            warm_up: self.warm_up,
            seed: self.seed,
            int_below: self.int_below,
            checkpoint: self.checkpoint(),
        }
    }

    /// What is done is kept beside the profile to be.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.output.with_extension("part")
    }
}

impl RunArgs {
    /// The options that these arguments stand for.
    pub(crate) fn options(&self) -> RunOptions {
        RunOptions {
            model: self.model.clone(),
            cores: self.cores.clone(),
            devices: self.device.clone(),
            card_memory: self.card_memory,
            inputs: self.input.clone(),
            items: self.repeat,
            duration: self.duration,
            at_most: self.at_most,
            compare: !self.no_compare,
            warm_up: self.warm_up,
            in_flight: self.in_flight,
            as_is: self.as_is,
            verify: self.verify,
            tolerance: self.tolerance,
            seed: self.seed,
            int_below: self.int_below,
        }
    }
}
