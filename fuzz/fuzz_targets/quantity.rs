//! Quantities with units, wherever a hardware file has them.

#![no_main]

use divvy_fuzz::round_trip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| round_trip::quantity(&String::from_utf8_lossy(data)));
