//! The `divvy` command. Arguments are settled first, then one command runs, then its text is printed.
//!
//! Data go to standard output, talk to standard error. Exit code 0: done; 1: the input's or the user's fault, or a
//! failed check; 2: a bug of ours.

mod analysis;
mod args;
mod commands;
mod failure;
pub(crate) mod output;
mod progress;
mod show;
mod view;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use divvy::core::printable::escaped;

use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::output::{Done, painted, tell};
use crate::view::Screen;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(help_or_error) => {
            // Help and version are no errors; they go to standard output.
            let printed = written(help_or_error.print());
            return ExitCode::from(u8::from(help_or_error.use_stderr() || !printed));
        }
    };
    Screen::choose(args.color);
    match std::panic::catch_unwind(|| run(&args)) {
        Ok(Ok(done)) => finish(&done),
        Ok(Err(failure)) => {
            tell(failure.text().trim_end());
            ExitCode::from(failure.exit_code())
        }
        Err(_) => {
            tell("divvy has a bug: please report the command, the files and the lines above");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<Done, Failure> {
    let good = |text| Done { text, passed: true };
    match &args.command {
        Command::Inspect(args) => commands::inspect::run(args).map(good),
        Command::Hardware(args) => commands::hardware::run(args).map(good),
        Command::Generate(args) => commands::generate::run(args),
        Command::Combine(args) => commands::combine::run(args).map(good),
        Command::Plan(args) => commands::plan::run(args),
        Command::Bound(args) => commands::bound::run(args).map(good),
        Command::Profile(args) => commands::profile::run(args),
        Command::Run(args) => commands::run::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Export(args) => commands::export::run(args).map(good),
        Command::Diff(args) => commands::diff::run(args).map(good),
        Command::Region(args) => commands::region::run(args).map(good),
        Command::Pareto(args) => commands::pareto::run(args),
        Command::Replan(args) => commands::replan::run(args).map(good),
        Command::Reproduce(args) => commands::reproduce::run(args),
        Command::Completions(args) => Ok(good(commands::manual::completions(args))),
        Command::Man(args) => commands::manual::run(args).map(good),
    }
}

fn finish(done: &Done) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let text = painted(&escaped(&done.text), &Screen::of_output());
    let printed = written(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    if done.passed && printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether standard output took it all. A reader that has had enough, such as `head`, is no failure.
fn written(result: std::io::Result<()>) -> bool {
    match result {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            tell(&format!("error: cannot write the result: {cause}"));
            false
        }
        _ => true,
    }
}
