//! Packed files of any format, as they are loaded from disk.

#![no_main]

use std::io::{Read, Write};

use divvy_fuzz::{change_json, round_trip};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    if let Some(loaded) = round_trip::on_disk(data) {
        round_trip::file(&loaded.bytes);
    }
});

/// The most bytes that are unpacked to be changed.
const MOST_UNPACKED: u64 = 16 << 10;

/// Changes what is packed.
fn changed(packed: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut inner = Vec::new();
    MultiGzDecoder::new(packed).take(MOST_UNPACKED).read_to_end(&mut inner).ok()?;
    let (size, most) = (inner.len(), inner.len() + 1024);
    inner.resize(most, 0);
    let size = change_json::change(&mut inner, size, most, seed, fuzzer_mutate);
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(&inner[..size]).and_then(|()| packer.finish()).ok()
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let made = seed.is_multiple_of(2).then(|| changed(&data[..size], seed)).flatten();
    change_json::put(data, made, max_size).unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});
