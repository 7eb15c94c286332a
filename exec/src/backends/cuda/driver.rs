//! The driver's side of a card: its memory, pinned host memory, queues and moments in them.
//!
//! What is unsafe about cards is in this file, in [`super::session`] and in [`super::host_reader`]. Memory is freed when its owner goes, in whatever way the
//! run ended, and the driver frees all of a process that was killed.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use bytes::Bytes;
use cudarc::driver::sys::{self, CUevent_flags};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result};

use crate::backend::Weight;
use crate::stage_error::StageError;

/// Places in pinned and in card memory begin at multiples of this.
pub(super) const ALIGNED: usize = 256;

/// What the driver says of a card.
#[derive(Clone, Debug, PartialEq)]
pub struct CardInfo {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its memory.
    pub bytes: u64,
}

/// A message of the driver's, in words.
pub(super) fn failed(doing: &str) -> impl Fn(DriverError) -> StageError + '_ {
    move |error| {
        if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return StageError::new(format!("{doing}: the card has too little memory left"));
        }
        let text = error.error_string().ok().and_then(|text| text.to_str().ok()).unwrap_or("unknown error");
        StageError::new(format!("{doing}: {text}"))
    }
}

/// Whether the driver's library is there. Where it is not, nothing else of this file may be called.
pub(super) fn is_there() -> bool {
    // SAFETY: this only opens the driver's library.
    unsafe { sys::is_culib_present() }
}

/// The cards that the driver knows; none without a driver.
pub fn cards() -> Vec<CardInfo> {
    if !is_there() || result::init().is_err() {
        return Vec::new();
    }
    let count = CudaContext::device_count().unwrap_or(0);
    let one = |number: i32| {
        let card = result::device::get(number).ok()?;
        let name = result::device::get_name(card).ok()?;
        // SAFETY: the card was just given by the driver.
        let bytes = unsafe { result::device::total_mem(card) }.ok()? as u64;
        Some(CardInfo { number: number as usize, name, bytes })
    };
    (0..count).filter_map(one).collect()
}

/// Free and all bytes of a card.
pub fn memory_of(card: usize) -> Result<(u64, u64), StageError> {
    let context = context(card)?;
    let (free, all) = context.mem_get_info().map_err(failed("asking for its memory"))?;
    Ok((free as u64, all as u64))
}

/// A card's context, which all of this process shares with the runtime.
pub(super) fn context(card: usize) -> Result<Arc<CudaContext>, StageError> {
    if !is_there() {
        return Err(StageError::new("there is no CUDA driver"));
    }
    let known = cards().len();
    if card >= known {
        let have = if known == 0 { "no card".to_owned() } else { format!("cards 0 to {}", known - 1) };
        return Err(StageError::new(format!("there is no card {card}: the driver knows {have}")));
    }
    CudaContext::new(card).map_err(failed("opening the card"))
}

/// A new queue of a card.
pub(super) fn queue(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, StageError> {
    context.new_stream().map_err(failed("making a queue"))
}

/// A moment in a queue whose time can be told.
pub(super) fn moment(queue: &CudaStream) -> Result<CudaEvent, StageError> {
    queue.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(failed("marking a queue"))
}

/// Memory of a card.
#[derive(Debug)]
pub(super) struct CardMemory {
    context: Arc<CudaContext>,
    address: u64,
    bytes: usize,
}

impl CardMemory {
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<CardMemory, StageError> {
        let doing = format!("taking {bytes} bytes of its memory");
        context.bind_to_thread().map_err(failed(&doing))?;
        // SAFETY: nobody else frees what is taken here.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(failed(&doing))?;
        Ok(CardMemory { context: context.clone(), address, bytes })
    }

    /// Whether it is memory of that card, of so many bytes or more.
    pub(super) fn holds(&self, context: &Arc<CudaContext>, bytes: usize) -> bool {
        self.context.ordinal() == context.ordinal() && self.bytes >= bytes
    }

    /// An address within it, for so many bytes.
    pub(super) fn at(&self, offset: usize, bytes: usize) -> Result<u64, StageError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(StageError::new("a place beyond the end of a card's memory"));
        }
        Ok(self.address + offset as u64)
    }

    /// Fills it, later, with a byte that makes floats that are no numbers.
    pub(super) fn spoil(&self, offset: usize, bytes: usize, queue: &CudaStream) -> Result<(), StageError> {
        let address = self.at(offset, bytes)?;
        let doing = "clearing its memory";
        self.context.bind_to_thread().map_err(failed(doing))?;
        // SAFETY: the range was just checked.
        unsafe { result::memset_d8_async(address, 0xff, bytes, queue.cu_stream()) }.map_err(failed(doing))
    }

    /// Copies from host memory, later; `from` must be pinned and stay as it is until then.
    pub(super) fn take_in(&self, offset: usize, from: &[u8], queue: &CudaStream) -> Result<(), StageError> {
        let address = self.at(offset, from.len())?;
        let doing = "copying to it";
        self.context.bind_to_thread().map_err(failed(doing))?;
        // SAFETY: the range was just checked; who calls keeps what is copied, in memory that is pinned for the whole run.
        unsafe { result::memcpy_htod_async(address, from, queue.cu_stream()) }.map_err(failed(doing))
    }

    /// Copies to pinned host memory, later.
    pub(super) fn give_out(
        &self,
        offset: usize,
        bytes: usize,
        to: &Staging,
        queue: &CudaStream,
    ) -> Result<(), StageError> {
        let address = self.at(offset, bytes)?;
        let doing = "copying from it";
        self.context.bind_to_thread().map_err(failed(doing))?;
        to.within(bytes)?;
        // SAFETY: both ranges were just checked; nobody reads the staging before the queue is waited for.
        let copied = unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.address as *mut c_void, address, bytes, queue.cu_stream()).result()
        };
        copied.map_err(failed(doing))
    }

    /// Copies from another card's memory, later.
    pub(super) fn take_from(
        &self,
        offset: usize,
        from: &CardMemory,
        from_offset: usize,
        bytes: usize,
        queue: &CudaStream,
    ) -> Result<(), StageError> {
        let (to, source) = (self.at(offset, bytes)?, from.at(from_offset, bytes)?);
        let doing = "copying from another card";
        self.context.bind_to_thread().map_err(failed(doing))?;
        let (here, there) = (self.context.cu_ctx(), from.context.cu_ctx());
        // SAFETY: both ranges were just checked, and both memories live as long as the cards that queue this.
        unsafe { result::memcpy_peer_async(here, to, there, source, bytes, queue.cu_stream()) }
            .map_err(failed(doing))
    }
}

impl Drop for CardMemory {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was taken by `new`, and nothing is freed twice. Freeing waits for work that uses it.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Copies something that is somewhere on a card, now.
pub(super) fn read_at(context: &Arc<CudaContext>, address: u64, into: &mut [u8]) -> Result<(), StageError> {
    let doing = "copying from it";
    context.bind_to_thread().map_err(failed(doing))?;
    // SAFETY: the address and length are those of a value of the runtime's, which the caller holds.
    unsafe { result::memcpy_dtoh_sync(into, address) }.map_err(failed(doing))
}

/// Host memory that stays where it is, so that a card can reach it by itself.
#[derive(Debug)]
pub(super) struct Staging {
    context: Arc<CudaContext>,
    address: usize,
    bytes: usize,
}

// SAFETY: it is memory, which whoever holds it shares by the rules of references: `write` takes it by itself alone.
unsafe impl Send for Staging {}
// SAFETY: as above; what cards write into it is waited for before it is read.
unsafe impl Sync for Staging {}

impl Staging {
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Staging, StageError> {
        let doing = format!("pinning {bytes} bytes of host memory");
        context.bind_to_thread().map_err(failed(&doing))?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: nobody else frees what is taken here.
        let address = unsafe { result::malloc_host(bytes.max(1), flags) }.map_err(failed(&doing))?;
        Ok(Staging { context: context.clone(), address: address as usize, bytes })
    }

    pub(super) fn within(&self, bytes: usize) -> Result<(), StageError> {
        if bytes > self.bytes {
            Err(StageError::new("a place beyond the end of pinned memory"))
        } else {
            Ok(())
        }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: it was taken with so many bytes, which are initialised as far as anybody looks: by `fill` or a card.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }

    /// Writes at its beginning, alone: no copy of it is under way.
    pub(super) fn fill(&mut self, write: impl FnOnce(&mut [u8])) {
        // SAFETY: as in `bytes`, and nobody else has it.
        write(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) });
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was taken by `new`, and nothing is freed twice.
            let _ = unsafe { result::free_host(self.address as *mut c_void) };
        }
    }
}

/// Weights in pinned host memory.
pub struct Pinned(Staging);

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Pinned {
    /// The same weights, copied once into pinned memory that all cards reach. It is freed when the last of them goes.
    pub fn weights(card: usize, weights: Vec<Weight>) -> Result<Vec<Weight>, StageError> {
        let rounded = |weight: &Weight| weight.data.len().next_multiple_of(ALIGNED);
        let all: usize = weights.iter().map(rounded).sum();
        let mut memory = Staging::new(&context(card)?, all)?;
        memory.fill(|bytes| {
            let mut at = 0;
            for weight in &weights {
                bytes[at..at + weight.data.len()].copy_from_slice(&weight.data);
                at += rounded(weight);
            }
        });
        let memory = Bytes::from_owner(Pinned(memory));
        let mut at = 0;
        let place = |weight: Weight| {
            let data = memory.slice(at..at + weight.data.len());
            at += rounded(&weight);
            Weight { data, ..weight }
        };
        Ok(weights.into_iter().map(place).collect())
    }
}
