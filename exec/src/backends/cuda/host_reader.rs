//! A kernel that reads pinned host memory over the bus by itself.
//!
//! Copies from the host all go through the card's copy engine, which is busy with weights for the whole of a cold start: a small value
//! would wait behind them for a millisecond. A kernel shares the bus with the engine, but does not wait for it.

#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUmodule};
use cudarc::driver::{CudaContext, CudaStream, result};

use super::driver::{CardMemory, Staging, failed};
use crate::stage_error::StageError;

/// What a thread copies at once, and threads of a block.
const WORD: usize = 16;
const BLOCK: u32 = 256;
/// Few blocks fill the bus; more would take processors from others.
const MOST_BLOCKS: usize = 64;

const KERNEL: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry take_in(.param .u64 to, .param .u64 from, .param .u32 words)
{
    .reg .pred %last;
    .reg .b32 %r<8>;
    .reg .b32 %v<4>;
    .reg .b64 %a<6>;
    ld.param.u64 %a1, [to];
    ld.param.u64 %a2, [from];
    ld.param.u32 %r1, [words];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %nctaid.x;
    mul.lo.u32 %r7, %r6, %r3;
next:
    setp.ge.u32 %last, %r5, %r1;
    @%last bra done;
    mul.wide.u32 %a3, %r5, 16;
    add.u64 %a4, %a1, %a3;
    add.u64 %a5, %a2, %a3;
    ld.global.cv.v4.u32 {%v0, %v1, %v2, %v3}, [%a5];
    st.global.v4.u32 [%a4], {%v0, %v1, %v2, %v3};
    add.u32 %r5, %r5, %r7;
    bra next;
done:
    ret;
}
";

/// The kernel, loaded on a card.
pub(super) struct HostReader {
    context: Arc<CudaContext>,
    module: CUmodule,
    function: CUfunction,
}

// SAFETY: modules and functions of the driver may be used from any thread whose context is theirs, which `take_in` sees to.
unsafe impl Send for HostReader {}
// SAFETY: as above.
unsafe impl Sync for HostReader {}

impl HostReader {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<HostReader, StageError> {
        let doing = "loading a kernel";
        context.bind_to_thread().map_err(failed(doing))?;
        let text = CString::new(KERNEL).unwrap_or_default();
        let name = CString::new("take_in").unwrap_or_default();
        // SAFETY: the text ends with a zero, and the driver copies what it needs of it.
        let module =
            unsafe { result::module::load_data(text.as_ptr().cast::<c_void>()) }.map_err(failed(doing))?;
        // SAFETY: the module was just loaded.
        let function = unsafe { result::module::get_function(module, name) }.map_err(failed(doing))?;
        Ok(HostReader { context: context.clone(), module, function })
    }

    /// Copies so many bytes from the beginning of pinned memory to a place on the card, later.
    pub(super) fn take_in(
        &self,
        from: &Staging,
        to: &CardMemory,
        offset: usize,
        bytes: usize,
        queue: &CudaStream,
    ) -> Result<(), StageError> {
        let doing = "copying to it";
        let whole = bytes.next_multiple_of(WORD);
        from.within(whole)?;
        let (mut to, mut from) = (to.at(offset, whole)?, from.bytes().as_ptr() as u64);
        let words = whole / WORD;
        let mut count = u32::try_from(words)
            .map_err(|_| StageError::new("a value is too large to be read by a kernel"))?;
        let blocks = words.div_ceil(BLOCK as usize).clamp(1, MOST_BLOCKS) as u32;
        let mut arguments: [*mut c_void; 3] =
            [(&raw mut to).cast(), (&raw mut from).cast(), (&raw mut count).cast()];
        self.context.bind_to_thread().map_err(failed(doing))?;
        // SAFETY: both ranges were just checked and are kept by who calls until the queue is empty; arguments are as the kernel's.
        let launched = unsafe {
            result::launch_kernel(
                self.function,
                (blocks, 1, 1),
                (BLOCK, 1, 1),
                0,
                queue.cu_stream(),
                &mut arguments,
            )
        };
        launched.map_err(failed(doing))
    }
}

impl Drop for HostReader {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was loaded by `new`; cards wait for their queues before they go.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
