//! Progress on a terminal: nothing for the first second, then one line that keeps changing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use divvy::search::Outcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::tell;
use crate::show;

/// A line on standard error that tells how far a run is.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts the line, unless standard error is no terminal or `quiet` is set.
    pub(crate) fn start(quiet: bool, time: Duration) -> Progress {
        let progress = Progress::begin(quiet, "{spinner} {elapsed} of at most {prefix}  {msg}", "reading");
        progress.bar.set_prefix(format!("{time:?}"));
        progress
    }

    /// Starts a line about something that has no limit, unless standard error is no terminal.
    pub(crate) fn about(what: &'static str) -> Progress {
        Progress::begin(false, "{spinner} {elapsed}  {msg}", what)
    }

    /// Starts a line that says what it is told, unless standard error is no terminal or `quiet` is set.
    pub(crate) fn counting(quiet: bool) -> Progress {
        Progress::begin(quiet, "{spinner} {elapsed}  {msg}", "")
    }

    /// Says something else from now on.
    pub(crate) fn say(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    fn begin(quiet: bool, template: &str, message: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        if !quiet && terminal {
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
            bar.set_style(style);
            bar.set_message(message);
            let later = bar.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(1));
                if !later.is_finished() {
                    later.set_draw_target(ProgressDrawTarget::stderr());
                    later.enable_steady_tick(Duration::from_millis(100));
                }
            });
        }
        Progress { bar }
    }

    /// Says something that stays, above the line.
    pub(crate) fn tell(&self, text: &str) {
        self.bar.suspend(|| tell(text));
    }

    /// Shows the best value and bound so far.
    pub(crate) fn update(&self, outcome: &Outcome) {
        self.bar.set_message(show::progress_line(outcome));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar on standard error that tells how many of several runs are done.
pub(crate) struct Steps {
    bar: ProgressBar,
}

impl Steps {
    /// A bar for `count` runs, unless standard error is no terminal or `quiet` is set.
    pub(crate) fn start(quiet: bool, count: usize) -> Steps {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let target =
            if !quiet && terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(count as u64), target);
        let template = "{bar:30} {pos}/{len} {elapsed}  {msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Steps { bar }
    }

    /// Shows what is under way.
    pub(crate) fn show(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Another run is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A flag that Ctrl-C sets, so that a run ends with the best plan so far. A second Ctrl-C ends the program.
pub(crate) fn cancel_on_interrupt() -> Arc<AtomicBool> {
    cancel_on_interrupt_saying("stopping with the best plan so far (Ctrl-C again to quit at once)")
}

/// As [`cancel_on_interrupt`], with something else to say.
pub(crate) fn cancel_on_interrupt_saying(message: &'static str) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    // Without the handler Ctrl-C simply ends the program, which is no reason to refuse to plan.
    let _ = ctrlc::set_handler(move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        tell(message);
    });
    flag
}
