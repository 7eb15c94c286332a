//! What random problems are expected to have in them, so that a test can tell that its problems do.

use divvy_core::hardware::LinkSpec;
use divvy_core::units::Time;

use crate::problem_kind::ProblemKind;
use crate::random_problems::Draw;

/// Something that a problem may have in it.
pub struct Feature {
    pub name: &'static str,
    /// Whether problems of a kind may have it.
    pub fits: fn(ProblemKind) -> bool,
    /// Whether a problem has it.
    pub is_in: fn(&Draw) -> bool,
}

const fn always(_: ProblemKind) -> bool {
    true
}

const fn feature(name: &'static str, is_in: fn(&Draw) -> bool) -> Feature {
    Feature { name, fits: always, is_in }
}

pub const ALL: &[Feature] = &[
    feature("pins", |draw| !draw.constraints.pin.is_empty()),
    feature("bans", |draw| !draw.constraints.forbid.is_empty()),
    feature("colocation", |draw| draw.constraints.colocate.iter().any(|group| group.len() > 1)),
    feature("memory limits", |draw| {
        !draw.constraints.memory_limit.is_empty()
            || draw.hardware.classes.iter().any(|class| class.memory.is_some())
    }),
    feature("inputs at a device", |draw| draw.constraints.input_at.is_some()),
    feature("outputs at a device", |draw| draw.constraints.output_at.is_some()),
    feature("unlike devices", |draw| {
        draw.hardware.devices.iter().any(|device| device.class != draw.hardware.devices[0].class)
    }),
    feature("devices alike", |draw| {
        draw.hardware.devices[1..].iter().any(|device| device.class == draw.hardware.devices[0].class)
    }),
    feature("unlike links", |draw| {
        let speed = |link: &LinkSpec| (link.bandwidth, link.latency);
        draw.hardware.links.iter().any(|link| speed(link) != speed(&draw.hardware.links[0]))
    }),
    feature("shared buses", |draw| draw.hardware.links.iter().filter(|link| link.bus.is_some()).count() > 1),
    feature("times of zero", |draw| times(draw).any(|time| time == Some(Time::ZERO))),
    feature("ops that a class cannot run", |draw| times(draw).any(|time| time.is_none())),
    feature("tensors of no bytes", |draw| draw.graph.tensors.iter().any(|tensor| tensor.bytes == 0)),
    feature("several readers", |draw| draw.graph.tensors.iter().any(|tensor| tensor.consumers.len() > 1)),
    feature("shared parameters", |draw| draw.graph.params.iter().any(|param| param.readers.len() > 1)),
    Feature {
        name: "replicas",
        fits: |kind| kind == ProblemKind::Pipeline,
        is_in: |draw| draw.constraints.replicate,
    },
    Feature {
        name: "limits of splits",
        fits: |kind| kind == ProblemKind::Stream,
        is_in: |draw| draw.constraints.min_splits.or(draw.constraints.max_splits).is_some(),
    },
    Feature {
        name: "several batch sizes",
        fits: |kind| kind == ProblemKind::Batch,
        is_in: |draw| draw.profile.classes.iter().any(|class| class.batch_sizes.len() > 1),
    },
    Feature {
        name: "reads in place",
        fits: |kind| kind == ProblemKind::ColdStart,
        is_in: |draw| draw.graph.ops.iter().any(|op| op.in_place_bytes.is_some()),
    },
];

fn times(draw: &Draw) -> impl Iterator<Item = Option<Time>> {
    let lists = draw.profile.classes.iter().flat_map(|class| &class.costs);
    lists.flatten().map(|cost| cost.as_ref().map(|cost| cost.time))
}
