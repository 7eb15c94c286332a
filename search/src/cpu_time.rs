//! Processor time: what a limit should count where a method is judged by what it gets done.

use std::time::{Duration, Instant};

/// Seconds of processor time that this program has had, where the system tells.
pub fn processor_seconds() -> Option<f64> {
    /// Linux gives these times in hundredths of a second, whatever the machine.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let (user, system): (f64, f64) = (fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// Counts processor time from its start on; time on the clock where the system tells no other.
pub(crate) struct Stopwatch {
    start: Instant,
    processor: Option<f64>,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { start: Instant::now(), processor: processor_seconds() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let had = processor_seconds().zip(self.processor).map(|(now, then)| now - then);
        had.map_or_else(|| self.start.elapsed(), |seconds| Duration::from_secs_f64(seconds.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let sleeping = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(120));
        // Without such figures from the system, the clock counts.
        let slept = sleeping.elapsed();
        assert!(processor_seconds().is_none() || slept < Duration::from_millis(100), "{slept:?}");
        let working = Stopwatch::start();
        let mut sum = 0u64;
        while working.elapsed() < Duration::from_millis(30) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
