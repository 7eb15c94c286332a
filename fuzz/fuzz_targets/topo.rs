//! Saved answers of `nvidia-smi topo -m`.

#![no_main]

use divvy_fuzz::round_trip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| round_trip::topo(&String::from_utf8_lossy(data)));
