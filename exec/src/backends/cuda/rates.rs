//! How fast copies to and from a card are: what a link of the hardware file says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaStream};

use super::driver::{CardMemory, Staging, context, failed, moment, queue};
use crate::measure::Timings;
use crate::stage_error::StageError;

/// Sizes that are copied: of a bias, of a layer's weights, and of many.
const SIZES: [usize; 6] = [4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20, 256 << 20];
const REPEATS: usize = 15;
/// So many copies one behind the other show what one takes in a queue that is full.
const BEHIND: usize = 64;
/// Copies above this show the rate.
const LARGE: usize = 64 << 20;

/// What was measured of copies to or from a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyRates {
    /// Bytes per second of large copies, from pinned memory to the card.
    pub to_card: f64,
    /// The same back.
    pub from_card: f64,
    /// What a copy takes besides its bytes, in a queue of many, in microseconds.
    pub each_us: f64,
    /// From the host's call to the end of a small copy that nobody is before, back and forth, in microseconds.
    pub handover_us: f64,
}

/// Measures copies of a card, alone.
pub fn copy_rates(card: usize) -> Result<CopyRates, StageError> {
    let context = context(card)?;
    let queue = queue(&context)?;
    let memory = CardMemory::new(&context, *SIZES.iter().max().unwrap_or(&1))?;
    let mut staging = Staging::new(&context, *SIZES.iter().max().unwrap_or(&1))?;
    staging.fill(|bytes| bytes.fill(1));
    let time = |bytes: usize, times: usize, out: bool| -> Result<f64, StageError> {
        let mut found = Vec::new();
        for _ in 0..REPEATS {
            let start = moment(&queue)?;
            for _ in 0..times {
                if out {
                    memory.give_out(0, bytes, &staging, &queue)?;
                } else {
                    memory.take_in(0, &staging.bytes()[..bytes], &queue)?;
                }
            }
            let end = moment(&queue)?;
            found.push(
                f64::from(start.elapsed_ms(&end).map_err(failed("telling the time"))?) * 1e3 / times as f64,
            );
        }
        Ok(Timings::new(found).median())
    };
    time(1 << 20, 8, false)?;
    let rate = |out: bool| Ok::<f64, StageError>(LARGE as f64 / time(LARGE, 4, out)? * 1e6);
    let (to_card, from_card) = (rate(false)?, rate(true)?);
    // Least squares of times over sizes, by what weights are: a small and a middling size among many.
    let extra = [4 << 10, 64 << 10, 1 << 20]
        .map(|bytes| Ok(time(bytes, BEHIND, false)? - bytes as f64 / to_card * 1e6));
    let extra = extra.into_iter().collect::<Result<Vec<f64>, StageError>>()?;
    let mut there_and_back = Vec::new();
    for _ in 0..REPEATS {
        let start = Instant::now();
        memory.take_in(0, &staging.bytes()[..4 << 10], &queue)?;
        memory.give_out(0, 4 << 10, &staging, &queue)?;
        queue.synchronize().map_err(failed("copying"))?;
        there_and_back.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
    }
    Ok(CopyRates {
        to_card,
        from_card,
        each_us: Timings::new(extra).median().max(0.0),
        handover_us: Timings::new(there_and_back).median(),
    })
}

/// Copies to a card that go on until this is dropped: cores that compute meanwhile share the host's memory with them.
pub struct CopyTraffic {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CopyTraffic {
    /// Begins.
    pub fn start(card: usize) -> Result<CopyTraffic, StageError> {
        const BYTES: usize = 256 << 20;
        let context = context(card)?;
        let memory = CardMemory::new(&context, BYTES)?;
        let mut staging = Staging::new(&context, BYTES)?;
        staging.fill(|bytes| bytes.fill(1));
        let queue = queue(&context)?;
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::spawn(move || copy_until(&seen, &context, &queue, &memory, &staging));
        Ok(CopyTraffic { ends, thread: Some(thread) })
    }
}

fn copy_until(
    ends: &AtomicBool,
    context: &Arc<CudaContext>,
    queue: &CudaStream,
    memory: &CardMemory,
    staging: &Staging,
) {
    // The thread sleeps while the card copies: its core is needed. Between two copies the card has nothing to do for a moment: the
    // driver waits for that where it loads a kernel.
    let blocking = cudarc::driver::sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
    let Ok(over) = context.new_event(Some(blocking)) else { return };
    while !ends.load(Ordering::Relaxed) {
        let copied = memory.take_in(0, staging.bytes(), queue).is_ok() && over.record(queue).is_ok();
        if !copied || over.synchronize().is_err() {
            return;
        }
    }
}

impl Drop for CopyTraffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
