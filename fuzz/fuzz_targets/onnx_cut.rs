//! ONNX models, cut: the first eight bytes say where.

#![no_main]

use divvy_fuzz::{change_model, round_trip};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    if let Some((seed, model)) = data.split_first_chunk() {
        round_trip::onnx_cut(u64::from_le_bytes(*seed), model);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match data.split_first_chunk_mut() {
        Some((cut, model)) if size > 8 => {
            *cut = (u64::from_le_bytes(*cut) ^ u64::from(seed >> 16)).to_le_bytes();
            8 + change_model::change(model, size - 8, max_size - 8, seed, fuzzer_mutate)
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});
