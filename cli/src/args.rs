//! The command line: what all commands take but those in files of their own.

mod generate;
mod problem;
mod running;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ColorChoice, Parser, Subcommand, ValueEnum};
use divvy::search::every_planner;

pub(crate) use self::generate::{GenerateArgs, Generator, TransformerArgs};
pub(crate) use self::problem::{ObjectiveName, ProblemArgs, ReadingArgs, Stages, piece_cost};
pub(crate) use self::running::{ProfileArgs, RunArgs};

/// Splits a neural network over unlike devices, and proves how good the split is.
#[derive(Parser)]
#[command(
    name = "divvy",
    version,
    max_term_width = 100,
    after_help = "Try: divvy plan model.json --on h200-cpu"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Colours: auto shows them on terminals, unless NO_COLOR is set or CLICOLOR is 0
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a model, problem, plan or hardware file holds, and what dominates it
    Inspect(InspectArgs),
    /// List built-in hardware, or show one
    Hardware(HardwareArgs),
    /// Make a seeded problem: random networks, YOLOv2, GPT, LLaMA
    Generate(GenerateArgs),
    /// Put several models side by side, to be planned as one
    Combine(CombineArgs),
    /// Decide which device runs what, and when
    #[command(after_help = planner_list())]
    Plan(PlanArgs),
    /// Prove a lower bound without planning
    Bound(SearchArgs),
    /// Check a plan file: rules, value, start times, bounds
    Check(CheckArgs),
    /// Time every op of an ONNX model on this machine's cores
    Profile(ProfileArgs),
    /// Run a plan on this machine, and compare it with what was predicted
    Run(RunArgs),
    /// Show a plan in a browser: one HTML file that needs nothing else
    Report(ReportArgs),
    /// Hand a plan on: ONNX pieces, traces, device maps, layer splits, tables, pictures
    Export(ExportArgs),
    /// Compare two plans for the same network: what moved, and what it gained
    Diff(DiffArgs),
    /// Say whether splitting a stream can help at all, and draw where it does
    Region(RegionArgs),
    /// Show what a stream gives up in throughput for latency and energy
    Pareto(ParetoArgs),
    /// Plan a stream anew when a device is lost or added, and move few weights
    Replan(ReplanArgs),
    /// List the papers' tables and figures, or run them again, ours beside theirs
    Reproduce(ReproduceArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all commands to a folder
    Man(ManArgs),
}

/// Every planner by name, for the help.
fn planner_list() -> String {
    let mut text = "Planners (one that does not work on a problem says why):\n".to_owned();
    let all = every_planner();
    let width = all.iter().map(|planner| planner.name().len()).max().unwrap_or(0);
    for planner in all {
        let used = if planner.in_auto() { " [in auto]" } else { "" };
        text.push_str(&format!("  {:width$}  {}{used}\n", planner.name(), planner.about()));
    }
    text
}

#[derive(clap::Args)]
pub(crate) struct InspectArgs {
    /// File to look at; `-` reads standard input
    pub(crate) file: String,
    /// Hardware to time the ops on: a built-in name (`divvy hardware list`) or a file
    #[arg(long, value_name = "HARDWARE")]
    pub(crate) on: Option<String>,
    /// How many of the largest tensors, ops and kinds to list
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// List element type and shape of every value of an ONNX model
    #[arg(long)]
    pub(crate) values: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct HardwareArgs {
    #[command(subcommand)]
    pub(crate) command: HardwareCommand,
}

#[derive(Subcommand)]
pub(crate) enum HardwareCommand {
    /// List the built-in hardware
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show devices, routes and sources of built-in hardware or of a hardware file
    Show {
        /// Built-in name or path
        hardware: String,
        /// Print the description itself, to start your own file from
        #[arg(long, conflicts_with = "json")]
        toml: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Describe this machine, or a saved GPU matrix, as a hardware file
    Detect {
        /// What `nvidia-smi topo -m` printed (after `nvidia-smi -L`, for the models); `-` reads standard input
        #[arg(long, value_name = "FILE")]
        from_topo: Option<String>,
        /// Write to this file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace a file of another kind than what is written
        #[arg(long)]
        force: bool,
        /// Make every core, or every so many cores, a device: such as 1 or 2
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", conflicts_with = "from_topo", value_parser = clap::value_parser!(u32).range(1..=1024))]
        cores_as_devices: Option<u32>,
        /// Print JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

/// What to export.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One ONNX model per piece, and a manifest
    Onnx,
    /// The whole ONNX model, with stage and device of every node
    OnnxAnnotated,
    /// Timeline for ui.perfetto.dev and chrome://tracing (JSON)
    Trace,
    /// Modules and their devices for Hugging Face Accelerate (JSON)
    DeviceMap,
    /// Layer counts for vLLM, TensorRT-LLM and llama.cpp (JSON)
    Layers,
    /// Queues of a cold start, for an executor with a thread for each bus and device (JSON)
    Schedule,
    /// Graph by device for Graphviz
    Dot,
    /// One row for each op and device
    Csv,
    /// Picture of the timeline, or of the loads of a stream or pipeline
    Svg,
}

/// What becomes of weights.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightsName {
    /// Inside each piece
    Inline,
    /// In a file beside each piece
    External,
    /// Where they are now
    Keep,
}

#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// Plan file; `-` reads standard input
    pub(crate) plan: String,
    /// What to write
    #[arg(long, value_enum)]
    pub(crate) format: ExportFormat,
    /// Folder for pieces, or file for everything else [default: standard output, but for ONNX]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// The model, if it is no longer where the plan was made from (ONNX)
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<String>,
    /// What becomes of weights (ONNX) [default: inline]
    #[arg(long, value_enum)]
    pub(crate) weights: Option<WeightsName>,
    /// Replace files that no earlier export wrote
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(clap::Args)]
pub(crate) struct DiffArgs {
    /// Plan file; `-` reads standard input
    pub(crate) before: String,
    /// Plan file to compare with it; `-` reads standard input
    pub(crate) after: String,
    /// How many modules and ops to list
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Write `divvy.1` and a page for each command to this folder
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
}

/// What `plan` and `bound` share.
#[derive(clap::Args, Clone)]
pub(crate) struct SearchArgs {
    /// Model or problem file; `-` reads standard input
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) problem: ProblemArgs,
    /// Longest search, such as 10s, 500ms or 2m; it ends earlier when nothing is left to find or prove
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) time: Duration,
    /// Seed of everything random
    #[arg(long, allow_negative_numbers = true, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Most threads of a search
    #[arg(
        long,
        allow_negative_numbers = true,
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub(crate) threads: u32,
    /// Bound by name; may be repeated [default: all that apply and are quick]
    #[arg(long, value_name = "NAME")]
    pub(crate) bound: Vec<String>,
    /// What solves the modules that `milp-split` and `lbound` split a network into [default: milp]
    #[arg(long, value_name = "NAME")]
    pub(crate) inner: Option<String>,
    /// How `milp` and `milp-split` put devices and nodes in order that can be exchanged: by batches, tasks or time (batch)
    #[arg(long, value_name = "CRITERION")]
    pub(crate) symmetry: Option<String>,
    /// Let `branch-and-bound` prune as the edge paper does; refused where a tensor skips ops: there it loses the best plan
    #[arg(long)]
    pub(crate) paper_bound: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no notes
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Planner by name [default: auto, the best for the problem]
    #[arg(long)]
    pub(crate) planner: Option<String>,
    /// Write the plan, its proof and the problem to this file (.gz packs it)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
    /// Write a report to this file: HTML, for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct ReportArgs {
    /// Plan file; `-` reads standard input
    pub(crate) plan: String,
    /// Write to this file [default: beside the plan, with the ending .html]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
    /// Lay a run that was measured over the timeline: a trace file
    #[arg(long, value_name = "FILE")]
    pub(crate) measured: Option<String>,
    /// Work out what moving every op would cost; else, in large networks, only for those that matter most
    #[arg(long)]
    pub(crate) all_moves: bool,
}

#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Plan file; `-` reads standard input
    pub(crate) plan: String,
    /// Make sure that the embedded problem is the one this model gives
    #[arg(long, value_name = "MODEL")]
    pub(crate) against: Option<String>,
    /// Hardware that the plan must be for, with --against; not needed where the model file holds its own
    #[arg(long, value_name = "HARDWARE", requires = "against")]
    pub(crate) on: Option<String>,
    /// Profile that the plan was made with, with --against
    #[arg(long, value_name = "FILE", requires = "against")]
    pub(crate) profile: Option<String>,
    /// The --piece-cost that the plan was made with, with --against
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", requires = "against")]
    pub(crate) piece_cost: Option<String>,
    /// How the model of --against is read; what the plan was made with must be named
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct RegionArgs {
    /// Model or problem file whose ops have FLOPs; `-` reads standard input
    pub(crate) file: String,
    /// Say it for this network as well: a built-in name (`divvy hardware list`) or a file
    #[arg(long, value_name = "HARDWARE")]
    pub(crate) on: Option<String>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Number of equal devices, each pair with a link of its own
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
    pub(crate) devices: u32,
    /// Most device changes along the network
    #[arg(long, default_value_t = 3, value_name = "S")]
    pub(crate) max_splits: u32,
    /// Longest search for one ratio of link to processing rate, such as 2s or 500ms
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) time: Duration,
    /// Folder for throughput.svg, effort.svg and region.csv
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct ParetoArgs {
    /// Model or problem file; `-` reads standard input
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) problem: ProblemArgs,
    /// Longest latency of one request: find the most throughput within it, such as 200ms
    #[arg(long, value_parser = duration)]
    pub(crate) max_latency: Option<Duration>,
    /// Most energy of one inference in joules, where all devices say what power they draw
    #[arg(long, value_name = "JOULES")]
    pub(crate) max_energy: Option<f64>,
    /// Longest search, such as 10s, 500ms or 2m; it ends earlier when nothing is left to find or prove
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) time: Duration,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Draw the front to this file: SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the fastest plan within the limits to this file (.gz packs it)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
    /// List every plan of the front, not only the knee and those around it
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct ReplanArgs {
    /// Plan file of a stream; `-` reads standard input
    pub(crate) plan: String,
    /// Device that is lost; may be repeated
    #[arg(long, value_name = "DEVICE", required_unless_present = "on")]
    pub(crate) without: Vec<String>,
    /// The hardware as it is now, with devices added or links changed: a built-in name or a file
    #[arg(long, value_name = "HARDWARE")]
    pub(crate) on: Option<String>,
    /// How many percent slower than the fastest plan it may be if it moves less
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", value_parser = percent_value)]
    pub(crate) slack: f64,
    /// Longest search, such as 1s, 500ms or 2m
    #[arg(long, default_value = "700ms", value_parser = duration)]
    pub(crate) time: Duration,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many modules and ops to list
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Write the new plan to this file (.gz packs it)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct ReproduceArgs {
    /// What to run again, or `all`
    pub(crate) name: Option<String>,
    /// Give every run the paper's own limit, which takes hours in all, instead of a few seconds
    #[arg(long)]
    pub(crate) full: bool,
    /// Limit of every run, such as 10s or 2m, instead of the experiment's own
    #[arg(long, value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// Limit of all runs together, such as 2h; pages are then made of what is done, and the same command goes on later
    #[arg(long, value_parser = duration)]
    pub(crate) within: Option<Duration>,
    /// Folder for the pages; `.cells` in it keeps what is done, so that a run that was stopped goes on
    #[arg(short, long, default_value = "docs/results", value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Folder of the bundled models
    #[arg(long, default_value = "models", value_name = "FOLDER")]
    pub(crate) models: PathBuf,
    /// Folder of more models, torch workloads or ONNX
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workloads: Option<PathBuf>,
    /// Forget what earlier runs have done
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no notes
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct CombineArgs {
    /// Model or problem files, two or more; the same one twice gives two copies
    #[arg(required = true, num_args = 2..)]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Write to this file (.gz packs it) instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file of another kind than what is written
    #[arg(long)]
    pub(crate) force: bool,
}

/// A share in percent.
fn percent_value(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("write a number of percent from 0 to 1000, such as 2.5".to_owned()),
    }
}

/// `10s`, `500ms`, `2m`, `1h`; a plain number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let parsed = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * seconds)
    });
    match parsed {
        Some(seconds) if (0.0..=1e9).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a time such as 10s, 500ms or 2m".to_owned()),
    }
}

/// A number of bytes with a unit, such as 8GB.
fn bytes(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .or_else(|| divvy::io::hardware_file::parse_bytes(text))
        .ok_or_else(|| format!("`{text}` is not a size; write 8GB, say"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("15us"), Ok(Duration::from_micros(15)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for nonsense in ["", "s", "-1s", "NaN", "1e300h", "10 parsecs"] {
            assert!(duration(nonsense).is_err(), "{nonsense}");
        }
    }
}
