//! Files in memory without a copy: pages come from the file as they are looked at, and the system keeps those it has room for.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

/// A file as bytes in memory. Whoever changes the file meanwhile changes the bytes: weights are not changed while they are used.
pub fn map(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    // SAFETY: the mapping is read alone, as bytes of which any value is right; a file that is cut short meanwhile ends the process,
    // as it does every program that maps files.
    let map = unsafe { Mmap::map(&file) }?;
    Ok(Bytes::from_owner(map))
}
