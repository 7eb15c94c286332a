//! Pipeline workloads.

#![no_main]

use divvy_fuzz::{change_json, round_trip};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| round_trip::file(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    change_json::change(data, size, max_size, seed, fuzzer_mutate)
});
