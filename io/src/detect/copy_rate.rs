//! How fast memory is read and written: copying with as many threads as asked for.
//!
//! Whoever else uses the machine makes it slower, so the quickest of some rounds counts. It takes a fraction of a second.

use std::sync::Barrier;
use std::time::Instant;

/// Bytes that are copied in a round by all threads together, within what a thread may have.
const ALL: usize = 256 << 20;
const LEAST: usize = 4 << 20;
const MOST: usize = 64 << 20;
const ROUNDS: usize = 8;

/// Bytes per second, read and written; none where there is no memory for it.
pub(super) fn measure(threads: u32) -> Option<u64> {
    let threads = threads.clamp(1, 1024) as usize;
    let size = (ALL / threads).clamp(LEAST, MOST);
    let mut buffers = Vec::new();
    for _ in 0..threads {
        buffers.push((buffer(size, 1)?, buffer(size, 2)?));
    }
    let barrier = Barrier::new(threads + 1);
    let mut quickest = f64::INFINITY;
    std::thread::scope(|scope| {
        for (from, to) in &mut buffers {
            let barrier = &barrier;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    barrier.wait();
                    to.copy_from_slice(std::hint::black_box(from));
                    std::hint::black_box(&mut *to);
                    barrier.wait();
                }
            });
        }
        for _ in 0..ROUNDS {
            barrier.wait();
            let start = Instant::now();
            barrier.wait();
            quickest = quickest.min(start.elapsed().as_secs_f64());
        }
    });
    let rate = 2.0 * (size * threads) as f64 / quickest;
    (rate.is_finite() && rate >= 1.0).then_some(rate as u64)
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
