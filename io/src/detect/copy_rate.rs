//! How fast memory is read and written: copying with as many threads as asked for.
//!
//! Each thread copies slices that take less than its turn on a busy core, and its quicker slices count, so that others who use
//! the machine disturb little. It takes a fraction of a second.

use std::sync::Barrier;
use std::time::Instant;

/// Bytes that all threads together go through, within what a thread may have.
const ALL: usize = 256 << 20;
const LEAST: usize = 8 << 20;
const MOST: usize = 64 << 20;
/// Bytes copied at a time.
const SLICE: usize = 1 << 20;
const ROUNDS: usize = 6;

/// Bytes per second, read and written; none where there is no memory for it.
pub(super) fn measure(threads: u32) -> Option<u64> {
    let threads = threads.clamp(1, 1024) as usize;
    let size = (ALL / threads).clamp(LEAST, MOST) / SLICE * SLICE;
    let mut buffers = Vec::new();
    for _ in 0..threads {
        buffers.push((buffer(size, 1)?, buffer(size, 2)?));
    }
    let barrier = Barrier::new(threads);
    let rate = std::thread::scope(|scope| {
        let copying: Vec<_> = buffers
            .iter_mut()
            .map(|(from, to)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    quick_slice(from, to)
                })
            })
            .collect();
        let seconds = copying.into_iter().map(|thread| thread.join().ok());
        seconds.map(|seconds| Some(2.0 * SLICE as f64 / seconds?)).sum::<Option<f64>>()
    })?;
    (rate.is_finite() && rate >= 1.0).then_some(rate as u64)
}

/// Seconds for a slice, such that a quarter of all slices are quicker.
fn quick_slice(from: &[u8], to: &mut [u8]) -> f64 {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for (from, to) in from.chunks_exact(SLICE).zip(to.chunks_exact_mut(SLICE)) {
            let start = Instant::now();
            to.copy_from_slice(std::hint::black_box(from));
            std::hint::black_box(&mut *to);
            times.push(start.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

/// Memory that has been written to, so that it is there.
fn buffer(size: usize, value: u8) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).ok()?;
    bytes.resize(size, value);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_rate_that_a_machine_can_have() {
        let rate = measure(1).expect("there is memory for a test");
        assert!((50_000_000..2_000_000_000_000).contains(&rate), "{rate}");
    }
}
