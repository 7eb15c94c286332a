//! Where detection reads from: a root folder that holds `proc` and `sys`, and a way to run a program.
//!
//! Tests put a folder of their own and canned answers here. Nothing read is trusted to be there, to be text or to be
//! short; no program is waited for longer than [`PATIENCE`].

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::copy_rate;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes read of a file or of a program's answer. `/proc/cpuinfo` has some 2 kB per thread.
const MOST_BYTES: u64 = 16 << 20;

/// Why a program gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// There is no such program.
    Absent,
    /// It failed.
    Failed,
    /// It took too long.
    TimedOut,
}

/// What a program printed.
pub(super) type Answer = Result<String, NoAnswer>;

/// Where to read from.
pub(super) struct Probe<'a> {
    /// The folder that holds `proc` and `sys`.
    pub(super) root: PathBuf,
    /// Runs a program with arguments.
    pub(super) run: &'a dyn Fn(&str, &[&str]) -> Answer,
    /// Bytes per second that so many threads read and write while they copy.
    pub(super) copy_rate: &'a dyn Fn(u32) -> Option<u64>,
    /// Threads that the standard library sees; for systems without `/proc`.
    pub(super) parallelism: u32,
}

impl Probe<'_> {
    /// The machine that divvy runs on.
    pub(super) fn system() -> Probe<'static> {
        let parallelism = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let run: &'static dyn Fn(&str, &[&str]) -> Answer =
            &|program, arguments| answer(Command::new(program).args(arguments), PATIENCE);
        Probe {
            root: PathBuf::from("/"),
            run,
            copy_rate: &copy_rate::measure,
            parallelism: u32::try_from(parallelism).unwrap_or(1),
        }
    }

    /// The text of a file; none if it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.root.join(path)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        // Device trees end their texts with a zero byte; nothing unprintable belongs in a description.
        let printable = |c: &char| !c.is_control() || ['\n', '\t'].contains(c);
        Some(String::from_utf8_lossy(&bytes).chars().filter(printable).collect())
    }

    /// The one line that most files of `/sys` hold.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        self.read(path).map(|text| text.trim().to_owned())
    }

    /// The number that a file holds.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// The numbers N of the entries `PREFIXN` of a folder, in order.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(self.root.join(folder)) else { return Vec::new() };
        let number = |entry: std::io::Result<std::fs::DirEntry>| -> Option<u32> {
            entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()
        };
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Runs a command and returns what it printed on standard output.
fn answer(command: &mut Command, patience: Duration) -> Answer {
    let deadline = Instant::now() + patience;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|_| NoAnswer::Absent)?;
    let Some(pipe) = child.stdout.take() else { return Err(NoAnswer::Failed) };
    let (sender, receiver) = mpsc::channel();
    // A thread of its own, since a pipe cannot be read with a time limit. It ends with the pipe.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let done = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
        let _ = sender.send(done.map(|_| bytes));
    });
    let read = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    let ended = read.is_ok() && has_succeeded(&mut child, deadline).ok_or(NoAnswer::TimedOut)?;
    match read {
        Ok(Ok(bytes)) if ended => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(_) => Err(NoAnswer::Failed),
        Err(_) => {
            // Not waited for: a program stuck in its driver would not even die.
            let _ = child.kill();
            Err(NoAnswer::TimedOut)
        }
    }
}

/// Whether the program ended well; none if it has not ended by the deadline, in which case it is told to.
fn has_succeeded(child: &mut Child, deadline: Instant) -> Option<bool> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                return None;
            }
            Err(_) => return Some(false),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Answer {
        answer(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    fn programs_answer_fail_are_absent_or_are_given_up() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo 0, T4", long), Ok("0, T4\n".to_owned()));
        assert_eq!(shell("echo broken driver; exit 9", long), Err(NoAnswer::Failed));
        assert_eq!(answer(&mut Command::new("no-such-program-of-divvy"), long), Err(NoAnswer::Absent));
        let start = Instant::now();
        assert_eq!(shell("exec sleep 30", Duration::from_millis(50)), Err(NoAnswer::TimedOut));
        // It has closed its output, but does not end.
        let silent = "exec >&-; exec sleep 30";
        assert_eq!(shell(silent, Duration::from_millis(50)), Err(NoAnswer::TimedOut));
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
