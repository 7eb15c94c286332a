//! Tiny problems with the figures of real ones: microseconds and megabytes, none a multiple of another.

use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::random_problems::Draw;

/// Multiplies times, bytes and memory by a large number, and adds a little to each.
pub fn stretch(mut draw: Draw, rng: &mut Rng) -> Draw {
    let factor = *rng.pick(&[1_009, 1_000_003, 99_999_989]);
    let mut stretch = |figure: &mut u64| {
        if *figure > 0 {
            *figure = *figure * factor + rng.between(0, factor / 7);
        }
    };
    for cost in draw.profile.classes.iter_mut().flat_map(|class| &mut class.costs).flatten().flatten() {
        stretch(&mut cost.time.0);
    }
    draw.graph.tensors.iter_mut().for_each(|tensor| stretch(&mut tensor.bytes));
    draw.graph.params.iter_mut().for_each(|param| stretch(&mut param.bytes));
    draw.graph.ops.iter_mut().filter_map(|op| op.in_place_bytes.as_mut()).for_each(&mut stretch);
    let hardware = &mut draw.hardware;
    let latencies = hardware.links.iter_mut().map(|link| &mut link.latency);
    for Time(latency) in latencies.chain(hardware.buses.iter_mut().map(|bus| &mut bus.latency)) {
        stretch(latency);
    }
    for class in &mut hardware.classes {
        class.memory.iter_mut().chain(&mut class.fast_memory).for_each(&mut stretch);
    }
    hardware.nodes.iter_mut().filter_map(|node| node.memory.as_mut()).for_each(&mut stretch);
    draw.constraints.memory_limit.values_mut().for_each(&mut stretch);
    draw
}
