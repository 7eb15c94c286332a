//! Quantities with units, wherever a hardware file has them.

#![no_main]

use divvy_fuzz::way;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| way::quantity(&String::from_utf8_lossy(data)));
