//! An allocator that ends the process where divvy takes more memory than any small file may ask for.
//!
//! libFuzzer's own limit on a single allocation needs a sanitizer, which the stable toolchain does not have; this one
//! counts everything that is held. What libFuzzer itself takes is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes that may be held at once.
pub const MOST_BYTES: usize = 512 << 20;

/// The system's allocator with a limit.
pub struct Limited;

static HELD: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Limited = Limited;

// SAFETY: every call goes to the system's allocator unchanged; only sizes are counted beside it.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > MOST_BYTES {
            // Nothing that allocates may run here, so there is no message; the stack says where.
            std::process::abort();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) };
    }
}
