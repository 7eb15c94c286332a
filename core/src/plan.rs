//! Plans: decisions only. No time is stored; what a plan costs is recomputed by [`check`](crate::check::check()).
//!
//! Ids are positions in the problem's lists of ops, devices, tensors and parameters. A plan may say anything; the check decides
//! whether it is valid.

use serde::{Deserialize, Serialize};

use crate::ids::{DeviceId, OpId, ParamId, TensorId};

/// A plan for one of the five objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "objective", rename_all = "kebab-case")]
pub enum Plan {
    /// One request.
    Latency(LatencyPlan),
    /// A group of inputs.
    Batch(BatchPlan),
    /// Pipeline stages.
    Pipeline(PipelinePlan),
    /// A stream over networked devices.
    Stream(StreamPlan),
    /// One request with weights in host memory.
    ColdStart(ColdStartPlan),
}

/// Ops that a device runs in one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The device.
    pub device: DeviceId,
    /// The ops, in the order it runs them.
    pub ops: Vec<OpId>,
}

/// Where the list of each device is cut into pieces: the positions, ascending, at which a new piece begins. The first begins
/// at 0, which is not said.
pub type Cuts = Vec<Vec<u32>>;

/// What each device runs, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyPlan {
    /// For each device, its ops in the order it runs them.
    pub order: Vec<Vec<OpId>>,
    /// Where `order` is cut; none: wherever a value comes from elsewhere or goes elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Cuts>,
    /// Transfers in the order every link takes them; only where links are used in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
}

/// A tensor sent to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// What is sent.
    pub tensor: TensorId,
    /// Where to.
    pub to: DeviceId,
}

/// How the inputs of each op are divided, and what each device runs, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchPlan {
    /// At most one batch for each op and device.
    pub batches: Vec<Batch>,
    /// For each device, positions in `batches` in the order it runs them.
    pub order: Vec<Vec<u32>>,
    /// Where `order` is cut; none: wherever a value comes from elsewhere or goes elsewhere, or inputs are grouped otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Cuts>,
}

/// Some inputs of one op, run together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The op.
    pub op: OpId,
    /// The device.
    pub device: DeviceId,
    /// Which inputs: disjoint ranges `[first, last]`, ascending.
    pub inputs: Vec<[u32; 2]>,
}

impl Batch {
    /// How many inputs.
    pub fn size(&self) -> u32 {
        self.inputs.iter().map(|[first, last]| last - first + 1).sum()
    }

    /// Its inputs in the fewest ranges: adjacent ranges merged.
    pub fn merged_inputs(&self) -> Vec<[u32; 2]> {
        let mut merged: Vec<[u32; 2]> = Vec::with_capacity(self.inputs.len());
        for &[first, last] in &self.inputs {
            match merged.last_mut() {
                Some(range) if range[1] + 1 == first => range[1] = last,
                _ => merged.push([first, last]),
            }
        }
        merged
    }

    /// How many inputs two batches share.
    pub fn shared(&self, other: &Batch) -> u32 {
        let (mut i, mut j, mut shared) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.inputs.get(i), other.inputs.get(j)) {
            shared += (a[1].min(b[1]) + 1).saturating_sub(a[0].max(b[0]));
            if a[1] < b[1] { i += 1 } else { j += 1 }
        }
        shared
    }
}

/// Ops to stages, stages to devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelinePlan {
    /// The stages, each on devices of its own.
    pub stages: Vec<Stage>,
}

/// One pipeline stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Where it runs.
    pub device: DeviceId,
    /// Its ops in the order it runs them.
    pub ops: Vec<OpId>,
    /// Further devices, identical to the first, that take requests in turn with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<DeviceId>,
}

impl Stage {
    /// A stage on one device.
    pub fn new(device: DeviceId, ops: Vec<OpId>) -> Stage {
        Stage { device, ops, replicas: Vec::new() }
    }

    /// Every device that runs it.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        std::iter::once(self.device).chain(self.replicas.iter().copied())
    }
}

/// Ops to devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPlan {
    /// For each op, its device.
    pub device_of: Vec<DeviceId>,
}

/// What each device runs, how weights reach it, and what each bus carries, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdStartPlan {
    /// For each device, its ops in the order it runs them.
    pub order: Vec<Vec<OpId>>,
    /// Where `order` is cut; none: behind every op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Cuts>,
    /// The route of each parameter to each device that reads it from its own memory.
    pub landings: Vec<Landing>,
    /// What the buses carry, in the order each of them takes it; reads in place are listed here too.
    pub bus: Vec<BusItem>,
}

/// The route of one parameter to one device that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Landing {
    /// The parameter.
    pub param: ParamId,
    /// The device that reads it.
    pub reader: DeviceId,
    /// The device that it is loaded to from host memory: the reader itself, or a peer that forwards it.
    pub via: DeviceId,
}

/// Something that occupies a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BusItem {
    /// The load of a parameter from host memory to a device.
    Load {
        /// The parameter.
        param: ParamId,
        /// Where it lands.
        to: DeviceId,
    },
    /// An op that reads its parameters in place.
    Read {
        /// The op.
        op: OpId,
    },
}

impl Plan {
    /// The name of the objective it is for.
    pub fn objective_name(&self) -> &'static str {
        match self {
            Plan::Latency(_) => "latency",
            Plan::Batch(_) => "batch",
            Plan::Pipeline(_) => "pipeline",
            Plan::Stream(_) => "stream",
            Plan::ColdStart(_) => "cold-start",
        }
    }

    /// Where ops run and for how many inputs: op, device, batch size.
    pub fn placements(&self) -> Vec<(OpId, DeviceId, u32)> {
        let ordered = |order: &[Vec<OpId>]| {
            let lists = order.iter().enumerate();
            lists.flat_map(|(d, ops)| ops.iter().map(move |&op| (op, DeviceId::new(d), 1))).collect()
        };
        match self {
            Plan::Latency(plan) => ordered(&plan.order),
            Plan::ColdStart(plan) => ordered(&plan.order),
            Plan::Batch(plan) => plan.batches.iter().map(|b| (b.op, b.device, b.size())).collect(),
            Plan::Pipeline(plan) => {
                let on = |s: &Stage| {
                    let devices: Vec<DeviceId> = s.devices().collect();
                    let ops = s.ops.iter().flat_map(|&op| devices.iter().map(move |&d| (op, d, 1)));
                    ops.collect::<Vec<_>>()
                };
                plan.stages.iter().flat_map(on).collect()
            }
            Plan::Stream(plan) => {
                plan.device_of.iter().enumerate().map(|(op, &d)| (OpId::new(op), d, 1)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_inputs_are_counted_over_ranges() {
        let batch = |inputs: &[[u32; 2]]| Batch { op: OpId(0), device: DeviceId(0), inputs: inputs.to_vec() };
        assert_eq!(batch(&[[0, 3], [8, 9]]).shared(&batch(&[[2, 8]])), 3);
        assert_eq!(batch(&[[0, 3]]).shared(&batch(&[[4, 8]])), 0);
        assert_eq!(batch(&[[0, 3], [8, 9]]).size(), 6);
    }
}
