//! Scores: what a plan costs by the definition of its objective, and the timeline that shows it.

use crate::ids::{DeviceId, LinkId, OpId, ParamId, TensorId};
use crate::plan::Piece;
use crate::problem::Problem;
use crate::units::Time;

/// What a plan costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// The objective's value: the finish of a schedule, or the period of a stream.
    pub value: Time,
    /// How long each device is busy for one value of the objective.
    pub device_busy: Vec<Time>,
    /// How long each link and bus is busy for one value of the objective.
    pub link_busy: Vec<Time>,
    /// Bytes each device holds.
    pub memory: Vec<u64>,
    /// The time from the arrival of one request to its answer.
    pub latency: Time,
    /// Microjoules for one value of the objective, where the power of every device used is known.
    pub energy_uj: Option<u64>,
    /// When each op starts, by op id; for `batch` each batch, for `pipeline` each stage, as the plan lists them. Period
    /// objectives show one request that has the devices to itself.
    pub starts: Vec<Time>,
    /// What each stage of a `pipeline` plan costs, as the plan lists them; else empty.
    pub stages: Vec<StageCost>,
    /// What each device runs in one call: pieces of one device in its order.
    pub pieces: Vec<Piece>,
    /// What happens when.
    pub trace: Trace,
}

/// What one request costs a pipeline stage, and how that comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCost {
    /// Tensors that come in.
    pub incoming: Time,
    /// The call of its piece.
    pub call: Time,
    /// Its ops.
    pub work: Time,
    /// What its fast memory cannot hold, streamed from host memory.
    pub overflow: Time,
    /// Tensors that go out.
    pub outgoing: Time,
}

impl StageCost {
    /// All of it.
    pub fn whole(&self) -> Time {
        self.incoming + self.call + self.work + self.overflow + self.outgoing
    }
}

/// A timeline; the same for a schedule computed here and for a run that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What happened, in no particular order.
    pub spans: Vec<Span>,
}

/// Something that occupies a device or a link for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub lane: Lane,
    /// What.
    pub what: Activity,
    /// When it begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
}

/// Where a span happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// On a device.
    Device(DeviceId),
    /// On a link or bus.
    Link(LinkId),
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// The call of a piece, before its ops: a position in [`Score::pieces`].
    Call(u32),
    /// An op, for some number of inputs.
    Op(OpId, u32),
    /// The transfer of a tensor to a device.
    Tensor(TensorId, DeviceId),
    /// The load of a parameter to a device.
    Param(ParamId, DeviceId),
}

/// Microjoules of devices busy for that long, if the power of all that are busy is known.
pub(crate) fn energy(problem: &Problem, busy: &[Time]) -> Option<u64> {
    let mut femtojoules = 0u128;
    for device in problem.hardware.devices().filter(|d| busy[d.index()] > Time::ZERO) {
        let power_mw = problem.hardware.class(device).power_mw?;
        femtojoules += u128::from(busy[device.index()].0) * u128::from(power_mw);
    }
    u64::try_from(femtojoules / 1_000_000_000).ok()
}
