//! Processor time of this process, for limits that should count work done and not time waited.

use std::time::{Duration, Instant};

/// The processor time of this process in seconds, user and system, where the system reports it (Linux).
pub fn processor_seconds() -> Option<f64> {
    /// The unit of these times in `/proc` is fixed, whatever the clock of the machine.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let (user, system): (f64, f64) = (fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// Measures processor time from its start, or wall-clock time where the system does not report the former.
pub(crate) struct Stopwatch {
    start: Instant,
    processor: Option<f64>,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { start: Instant::now(), processor: processor_seconds() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let used = processor_seconds().zip(self.processor).map(|(now, then)| now - then);
        used.map_or_else(|| self.start.elapsed(), |seconds| Duration::from_secs_f64(seconds.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let sleeping = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(120));
        // Without such figures the stopwatch measures wall-clock time.
        let slept = sleeping.elapsed();
        assert!(processor_seconds().is_none() || slept < Duration::from_millis(100), "{slept:?}");
        let working = Stopwatch::start();
        let mut sum = 0u64;
        while working.elapsed() < Duration::from_millis(30) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
