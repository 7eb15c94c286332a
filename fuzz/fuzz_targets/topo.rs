//! Saved answers of `nvidia-smi topo -m`.

#![no_main]

use divvy_fuzz::way;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| way::topo(&String::from_utf8_lossy(data)));
