//! `pipeline` workloads (MTPP): work and output size per op; one unit is 1 µs of work, and 1 kB at 1 GB/s of tensor.

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, TensorSpec};
use divvy_core::input_error::Code;
use divvy_core::problem::{ConstraintsSpec, OwnHardware, ProblemSpec};
use divvy_core::units::{Time, counted};
use serde_json::Value;

use crate::presets::UNIFORM_BANDWIDTH;
use crate::reader::Item;

const BYTES_PER_UNIT: f64 = 1000.0;

pub(super) fn recognise(value: &Value) -> bool {
    value.get("work").is_some() && value.get("out").is_some()
}

pub(super) fn read(item: &Item<'_, '_>) -> ProblemSpec {
    item.only(&["name", "objective", "work", "out", "edges", "bandwidth", "note", "best_known"]);
    let name = item.optional("name").and_then(|i| i.text()).unwrap_or("pipeline").to_owned();
    let work: Vec<Option<Time>> =
        item.required("work").map_or(Vec::new(), |i| i.each(|i| i.microseconds().map(Some)));
    let bytes: Vec<u64> = item.required("out").map_or(Vec::new(), |i| {
        let bytes = i.each(|i| {
            let units = i.number()?;
            if (0.0..1e12).contains(&units) {
                return Some((units * BYTES_PER_UNIT).round() as u64);
            }
            i.fault(Code::Range, format!("{units} is no size"), "sizes are in kB, from 0 up");
            None
        });
        if bytes.len() != work.len() {
            i.fault(
                Code::Length,
                format!("{} for {}", counted(bytes.len(), "size"), counted(work.len(), "op")),
                "give one per op",
            );
        }
        bytes
    });
    let scale = item.optional("bandwidth").map_or(Some(1.0), |i| {
        let scale = i.number()?;
        if scale > 0.0 && scale < 1e9 {
            return Some(scale);
        }
        i.fault(Code::Range, format!("a bandwidth of {scale}"), "give a positive number, in GB/s");
        None
    });
    let op = |i| OpSpec { name: format!("op{i}"), kind: "op".to_owned(), ..OpSpec::default() };
    let graph = GraphSpec {
        name,
        ops: (0..work.len()).map(op).collect(),
        tensors: one_tensor_each(&bytes, &edges(item, work.len())),
        ..GraphSpec::default()
    };
    let bandwidth = (scale.unwrap_or(1.0) * UNIFORM_BANDWIDTH as f64).round() as u64;
    ProblemSpec {
        graph,
        profile: Profile { classes: vec![measured("uniform", work)], ..Profile::default() },
        hardware: Some(OwnHardware::UniformPerStage { bandwidth: bandwidth.max(1) }),
        objective: None,
        constraints: ConstraintsSpec::default(),
    }
}

/// Times of one class at batch size 1.
pub(super) fn measured(class: &str, times: Vec<Option<Time>>) -> ClassCosts {
    let cost = |time: Option<Time>| Some(Cost { time: time?, origin: Origin::Measured });
    ClassCosts {
        class: class.to_owned(),
        batch_sizes: vec![1],
        costs: vec![times.into_iter().map(cost).collect()],
    }
}

/// The field `edges`: pairs of op numbers.
pub(super) fn edges(item: &Item<'_, '_>, ops: usize) -> Vec<[u32; 2]> {
    let Some(list) = item.required("edges") else { return Vec::new() };
    list.each(|pair| {
        let ends = <[u32; 2]>::try_from(pair.each(|i| i.small())).ok();
        match ends {
            None => pair.fault(Code::Length, "an edge has two ends", "write [producer, consumer]"),
            Some(ends) if ends.iter().any(|&op| op as usize >= ops) => {
                let message = format!("edge {ends:?} names an op that does not exist");
                pair.fault(
                    Code::Dangling,
                    message,
                    format!("ops are numbered from 0 to {}", ops.saturating_sub(1)),
                );
                return None;
            }
            Some(_) => {}
        }
        ends
    })
}

/// One tensor per op, read by all ops that an edge leads to; those that nobody reads are outputs of the network.
pub(super) fn one_tensor_each(bytes: &[u64], edges: &[[u32; 2]]) -> Vec<TensorSpec> {
    let mut consumers: Vec<Vec<u32>> = vec![Vec::new(); bytes.len()];
    for [from, to] in edges {
        if let Some(list) = consumers.get_mut(*from as usize) {
            list.push(*to);
        }
    }
    let tensors = consumers.into_iter().zip(bytes).enumerate();
    tensors
        .map(|(i, (consumers, &bytes))| TensorSpec {
            name: format!("op{i}"),
            bytes,
            producer: Some(i as u32),
            output: consumers.is_empty(),
            consumers,
        })
        .collect()
}
