//! Evidence: the payload of every kind of proof, as it is stored in plan files.
//!
//! Each variant of [`Evidence`] names the method, and the file that checks it states the inequality behind it. Evidence is
//! data without invariants: a file may say anything, and the check refuses what proves nothing.
//!
//! Words: a *weight* multiplies the load of a device, link or bus; a *price* is a dual value of an op, edge or byte; `times`
//! is the multiplier of an inequality in a linear combination. A *threshold* T is refuted: the bound is T + 1.

use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::units::Time;
use serde::{Deserialize, Serialize};

/// Why a bound holds. The crate's front page says where each kind is checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Evidence {
    /// A path of the graph, longest under the best devices for it: makespan objectives.
    CriticalPath {
        /// The path: each op reads a tensor of the one before.
        ops: Vec<OpId>,
    },
    /// One op, whose shortest time some device spends: period objectives.
    Op {
        /// The op.
        op: OpId,
    },
    /// A convex combination of device loads: the busiest device is at least as busy as the weighted average.
    Area {
        /// One weight per device.
        weights: Vec<u64>,
    },
    /// The load of one device by the ops that may run nowhere else.
    DeviceLoad {
        /// The device.
        device: DeviceId,
    },
    /// The load of one link or bus by tensors whose two ends may each be on one device only.
    LinkLoad {
        /// The link or bus.
        link: LinkId,
    },
    /// A convex combination of bus loads: the parameters whose readers have a tail of at least `left_ps` are loaded, or read in
    /// place, before the last `left_ps` of the schedule (`cold-start`).
    LastLoads {
        /// One weight per link or bus.
        weights: Vec<u64>,
        /// τ: loads that count end at least this long before the schedule does.
        left_ps: Time,
        /// Device weights of the area estimates within the searches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<Vec<u64>>,
        /// Frontier searches that raise tails, in this order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<ProofStep>,
    },
    /// Lagrange multipliers of bus time and compute time; between the ops of a chain every segment is minimised by itself
    /// (`cold-start`).
    SegmentPrices {
        /// One price per link or bus.
        links: Vec<u64>,
        /// The price of compute time along the chain.
        kernels: u64,
        /// The chain: each op is an ancestor of the next.
        chain: Vec<OpId>,
        /// Whether parameters with several readers count.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shared: bool,
    },
    /// A dynamic program with dominance over partial schedules, to be run again: `latency`.
    FrontierSearch {
        /// Device weights of the area estimates.
        weights: Vec<Vec<u64>>,
        /// What to search, in this order.
        steps: Vec<ProofStep>,
    },
    /// A dual solution of the interval LP: a linear combination of its rows (`latency`).
    IntervalLp {
        /// Device weights of the area estimates in tails.
        weights: Vec<Vec<u64>>,
        /// Frontier searches that raise tails, in this order.
        steps: Vec<ProofStep>,
        /// The rows and their multipliers.
        rows: Vec<RowMultiple>,
    },
    /// A dual solution of the division LP, which prices every batch: `batch`, with one input `latency`, and without flows and
    /// windows `stream`.
    DivisionLp {
        /// One weight per device.
        weights: Vec<u64>,
        /// Multipliers of the precedence rows.
        flows: Vec<PricedEdge>,
        /// Multipliers of the rows on work between two ops.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<WorkWindow>,
        /// The price of a byte of each device's memory; empty: all 0.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<u64>,
    },
    /// As `DivisionLp`, with further rows for regions of the graph, which depend on a case distinction there: `batch`.
    DivisionCases {
        /// One weight per device.
        weights: Vec<u64>,
        /// Multipliers of the precedence rows that hold in all cases.
        flows: Vec<PricedEdge>,
        /// Multipliers of the window rows that hold in all cases.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<WorkWindow>,
        /// The regions and their case trees.
        parts: Vec<CaseRegion>,
    },
    /// A dynamic program along a chain of ops over the divisions of their inputs, to be run again (`batch`).
    ChainDp {
        /// The chain, with the branches between its ops.
        stages: Vec<ChainStage>,
        /// Labels that end no earlier are dropped, so no more than this is proved.
        limit_ps: Time,
        /// The most labels kept for a division.
        width: u32,
        /// Device weights of the work along the whole chain; empty: work is not counted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<u64>,
    },
    /// A dual solution of the set cover LP of stages: prices of units, and how much of them a stage can hold (`pipeline`).
    SetCover {
        /// Whether units are contracted by kernelisation first.
        merged: bool,
        /// No plan has this period or a smaller one.
        threshold_ps: Time,
        /// A price for each unit.
        prices: Vec<u64>,
        /// The most price that one stage, or some consecutive stages, can hold; with unlike devices, one for each kind.
        groups: Vec<StageGroup>,
    },
    /// No down-set of the units fits the first stages while its complement fits the others: `pipeline`.
    TwoWayCut {
        /// Whether units are contracted by kernelisation first.
        merged: bool,
        /// No plan has this period or a smaller one.
        threshold_ps: Time,
        /// How many stages hold the down-set.
        first: u32,
        /// A branch-and-bound tree in preorder.
        tree: Vec<u32>,
    },
    /// No chain of down-sets, one step for each stage within the threshold, reaches the whole network: `pipeline`.
    DownSets {
        /// Whether units are contracted by kernelisation first.
        merged: bool,
        /// No plan has this period or a smaller one.
        threshold_ps: Time,
    },
    /// Clusters of ops that must share a device, which together exceed the capacity of the devices: `stream`.
    Colocation {
        /// No plan has this period or a smaller one.
        threshold_ps: Time,
        /// Pairs that must share a device, each given those before it.
        unions: Vec<ForcedPair>,
        /// Device weights.
        weights: Vec<u64>,
        /// k of the dual feasible function that rounds times before they are added up; 0: the identity.
        rounding: u32,
    },
    /// Lagrange multipliers: what devices must receive for the ops they run exceeds what the links carry (`stream`).
    LinkPrices {
        /// No plan has this period or a smaller one.
        threshold_ps: Time,
        /// One weight per link or bus.
        weights: Vec<u64>,
        /// A price for each op, in weighted bytes.
        prices: Vec<i64>,
    },
    /// No division of the ops among groups of devices is within the capacities of the groups and of the links: a dynamic
    /// program to be run again (`stream`).
    DeviceGroups {
        /// No plan has this period or a smaller one.
        threshold_ps: Time,
        /// The groups, each device in one of them.
        groups: Vec<Vec<DeviceId>>,
        /// One weight per device.
        weights: Vec<u64>,
        /// One weight per link or bus.
        links: Vec<u64>,
        /// Labels are merged by so many slots of each load.
        slots: u32,
    },
    /// A search vouches for the value; nothing here checks it.
    Attested {
        /// The name of the search.
        by: String,
    },
}

/// One frontier search of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ProofStep {
    /// Raise the tail of each op, in reverse topological order, by a search of the ops that follow it.
    Tails {
        /// Ops per search: the op itself and the next ones that depend on it.
        window: u32,
        /// The most states kept per level.
        width: u32,
        /// Tails are not raised beyond this.
        limit_ps: Time,
        /// How many ops, from the last one on.
        ops: u32,
    },
    /// Search the whole network.
    Whole {
        /// The most states kept per level.
        width: u32,
        /// The bound is not raised beyond this.
        limit_ps: Time,
        /// How many levels to search, one op each.
        levels: u32,
    },
}

/// A region of the graph whose rows depend on how its ops are divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRegion {
    /// The ops.
    pub ops: Vec<OpId>,
    /// The case tree in preorder: behind a branching first the subtree where it holds, then the one where it does not.
    pub walk: Vec<CaseTree>,
}

/// A node of a case tree: a branching, or a leaf with the rows of its case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CaseTree {
    /// Branching: whether the devices of a class take at least `least` inputs of an op.
    Split {
        /// The op.
        op: OpId,
        /// The class, by its place in the costs.
        class: usize,
        /// The number of inputs.
        least: u32,
    },
    /// Branching: which of two ops, each a single batch of the same device, runs first (a disjunctive arc).
    Order {
        /// The earlier op where it holds, the later one where it does not.
        first: OpId,
        /// The other.
        second: OpId,
    },
    /// Leaf: the rows of this case, beside those of all cases.
    Priced {
        /// Multipliers of precedence rows within the region.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flows: Vec<PricedEdge>,
        /// Multipliers of window rows within the region.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<WorkWindow>,
        /// Multipliers of the order of two ops on one device.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        turns: Vec<DevicePair>,
    },
}

/// The multiplier of a precedence row, and how the delay is divided between producer and consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedEdge {
    /// The producer.
    pub from: OpId,
    /// The consumer.
    pub to: OpId,
    /// The multiplier.
    pub times: u64,
    /// What the producer's batch pays for each input, in picoseconds: one price for each size of each class, in their order.
    /// Empty: all 0.
    pub prices: Vec<i64>,
}

/// The multiplier of a row on the work of a device between two ops, or between an op and an end of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkWindow {
    /// The window begins at the end of this op's batch; none: with the schedule.
    pub from: Option<OpId>,
    /// The window ends at the start of this op's batch; none: with the schedule.
    pub to: Option<OpId>,
    /// The device.
    pub device: DeviceId,
    /// The multiplier.
    pub times: u64,
}

/// The multiplier of the row that one op of a device starts after another one ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePair {
    /// The first.
    pub from: OpId,
    /// The second.
    pub to: OpId,
    /// The multiplier.
    pub times: u64,
}

/// A row of the interval LP; [`crate::latency::interval_lp`] states each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum IntervalRow {
    /// An op starts no earlier than its head.
    Head {
        /// The op.
        op: OpId,
    },
    /// The schedule ends no earlier than an op's start plus its tail.
    Tail {
        /// The op.
        op: OpId,
    },
    /// The work of one device between two ops, one of which is an ancestor of the other.
    Between {
        /// The earlier op; none: the beginning of the schedule.
        from: Option<OpId>,
        /// The later op; none: the end of the schedule.
        to: Option<OpId>,
        /// The device.
        device: DeviceId,
    },
    /// The time between the starts of two ops, one of which is an ancestor of the other.
    Gap {
        /// The earlier op.
        from: OpId,
        /// The later op.
        to: OpId,
        /// In picoseconds, one for each device; ignored where the earlier op may not run.
        prices: Vec<u64>,
    },
}

/// A row of the interval LP and its multiplier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowMultiple {
    /// The multiplier.
    pub times: u64,
    /// The row.
    pub row: IntervalRow,
}

/// An op of the chain, and the branches between the op before and it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainStage {
    /// The op.
    pub op: OpId,
    /// Paths of ops strictly between the two; an empty path stands for what the op itself reads from the op of the stage
    /// before. No branch at all: as one empty path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Vec<OpId>>,
    /// Device weights of the work in branches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<u64>,
    /// In place of `shares`, one list of device weights or a few: work is then bounded for each pair of batches of the two ops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Vec<u64>>,
}

impl ChainStage {
    /// The lists of device weights, of which there is at least one.
    pub(crate) fn weight_lists(&self) -> &[Vec<u64>] {
        if self.weights.is_empty() { std::slice::from_ref(&self.shares) } else { &self.weights }
    }
}

/// The payload of [`Evidence::ChainDp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainProof {
    /// In the order of the chain.
    pub stages: Vec<ChainStage>,
    /// Labels that end no earlier are dropped.
    pub limit_ps: Time,
    /// The most labels kept for a division; within branches a quarter of it, and one for estimates.
    pub width: u32,
    /// Device weights of the work along the whole chain; empty: work is not counted.
    pub shares: Vec<u64>,
}

impl ChainProof {
    /// The payload as evidence.
    pub fn into_evidence(self) -> Evidence {
        let ChainProof { stages, limit_ps, width, shares } = self;
        Evidence::ChainDp { stages, limit_ps, width, shares }
    }
}

/// A limit on the price of any convex set that fits some consecutive stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageGroup {
    /// How many consecutive stages form a group.
    pub stages: u32,
    /// How many groups of this size there are.
    pub count: u32,
    /// The most that prices of a set add up to.
    pub limit: u64,
    /// Why: a branch-and-bound tree in preorder.
    pub tree: Vec<u32>,
}

/// Two ops whose clusters must share a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForcedPair {
    /// One op.
    pub one: OpId,
    /// The other.
    pub other: OpId,
    /// Whether a minimum cut proves it, rather than the bytes between the two clusters.
    pub by_cut: bool,
}
