//! Progress: nothing for the first second, then one line that keeps changing; where standard error is no terminal, a line
//! now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use divvy::search::Outcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::tell;
use crate::show;

/// Where there is no terminal, a line is written after this time and then after each of these intervals.
const FIRST_LINE: Duration = Duration::from_secs(2);
const NEXT_LINE: Duration = Duration::from_secs(10);

/// A line on standard error that tells how far a run is.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// A line now and then, until it is dropped.
struct Lines {
    message: Arc<Mutex<String>>,
}

impl Lines {
    fn start(message: &str, limit: Option<Duration>) -> Lines {
        let message = Arc::new(Mutex::new(message.to_owned()));
        let said = Arc::downgrade(&message);
        std::thread::spawn(move || {
            let start = Instant::now();
            let mut wait = FIRST_LINE;
            loop {
                std::thread::sleep(wait);
                let Some(message) = said.upgrade() else { return };
                let text = message.lock().map(|text| text.clone()).unwrap_or_default();
                let limit = limit.map_or(String::new(), |limit| format!(" of at most {limit:?}"));
                tell(&format!("{} s{limit}: {text}", start.elapsed().as_secs()));
                wait = NEXT_LINE;
            }
        });
        Lines { message }
    }

    fn say(&self, text: String) {
        if let Ok(mut message) = self.message.lock() {
            *message = text;
        }
    }
}

impl Progress {
    /// Starts the line, unless `quiet` is set.
    pub(crate) fn start(quiet: bool, time: Duration) -> Progress {
        let template = "{spinner} {elapsed} of at most {prefix}  {msg}";
        let progress = Progress::begin(quiet, template, "reading", Some(time));
        progress.bar.set_prefix(format!("{time:?}"));
        progress
    }

    /// Starts a line about something that has no limit.
    pub(crate) fn about(what: &'static str) -> Progress {
        Progress::begin(false, "{spinner} {elapsed}  {msg}", what, None)
    }

    /// Starts a line that says what it is told, unless `quiet` is set.
    pub(crate) fn counting(quiet: bool) -> Progress {
        Progress::begin(quiet, "{spinner} {elapsed}  {msg}", "", None)
    }

    /// Says something else from now on.
    pub(crate) fn say(&self, text: &str) {
        self.show(text.to_owned());
    }

    fn show(&self, text: String) {
        if let Some(lines) = &self.lines {
            lines.say(text);
        } else {
            self.bar.set_message(text);
        }
    }

    fn begin(quiet: bool, template: &str, message: &'static str, limit: Option<Duration>) -> Progress {
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
        let lines = (!quiet && !terminal).then(|| Lines::start(message, limit));
        Progress { bar, lines }
    }

    /// Says something that stays, above the line.
    pub(crate) fn tell(&self, text: &str) {
        self.bar.suspend(|| tell(text));
    }

    /// Shows the best value and bound so far.
    pub(crate) fn update(&self, outcome: &Outcome) {
        self.show(show::progress_line(outcome));
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
    lines: Option<Lines>,
}

impl Steps {
    /// A bar for `count` runs, unless `quiet` is set.
    pub(crate) fn start(quiet: bool, count: usize) -> Steps {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let target =
            if !quiet && terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(count as u64), target);
        let template = "{bar:30} {pos}/{len} {elapsed}  {msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        let lines = (!quiet && !terminal).then(|| Lines::start("beginning", None));
        Steps { bar, lines }
    }

    /// Shows what is under way.
    pub(crate) fn show(&self, what: &str) {
        if let (Some(lines), Some(count)) = (&self.lines, self.bar.length()) {
            lines.say(format!("{} of {count} done; now {what}", self.bar.position()));
        }
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

/// As [`cancel_on_interrupt`], with something else to say. What ends a program politely, SIGTERM and the loss of its
/// terminal, counts as Ctrl-C does.
pub(crate) fn cancel_on_interrupt_saying(message: &'static str) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let mut wanted = vec![SIGINT, SIGTERM];
    // `nohup` sets SIGHUP aside so that a run outlives its terminal.
    wanted.extend((!is_ignored(SIGHUP)).then_some(SIGHUP));
    // Without the handler the signals simply end the program, which is no reason to refuse to plan.
    let Ok(mut signals) = Signals::new(wanted) else { return flag };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if set.swap(true, Ordering::Relaxed) {
                std::process::exit(128 + signal);
            }
            tell(message);
        }
    });
    flag
}

/// Whether a signal is ignored by this process, as the system says.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
