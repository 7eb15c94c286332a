//! TODO-DOC proof/src/evidence.rs

use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::units::Time;
use serde::{Deserialize, Serialize};

/// Why a bound holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Evidence {
    /// A chain of ops, each of which reads what the one before makes: makespan objectives.
    CriticalPath {
        /// The chain.
        ops: Vec<OpId>,
    },
    /// One op that some device must run: period objectives.
    Op {
        /// The op.
        op: OpId,
    },
    /// Weights for the devices: the busiest is at least as busy as the weighted average.
    Area {
        /// One weight per device.
        weights: Vec<u64>,
    },
    /// What must run on one device, since it may run nowhere else.
    DeviceLoad {
        /// The device.
        device: DeviceId,
    },
    /// What must cross one link or bus, since both ends may be nowhere else.
    LinkLoad {
        /// The link or bus.
        link: LinkId,
    },
    /// Weights for links and buses: parameters must be loaded or read in place over some of them (`cold-start`).
    BusBytes {
        /// One weight per link or bus.
        weights: Vec<u64>,
    },
    /// As `Bus`, for the parameters that must have landed by the time when so much is left to do (`cold-start`).
    LastLoads {
        /// One weight per link or bus.
        weights: Vec<u64>,
        /// How long before the end.
        left_ps: Time,
        /// Weights for the devices, by which work is divided in searches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<Vec<u64>>,
        /// Searches that say how much is behind each op, in this order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<ProofStep>,
    },
    /// Prices for links and kernels, and a chain of ops between which the network is searched (`cold-start`).
    SegmentPrices {
        /// One price per link or bus.
        links: Vec<u64>,
        /// The price of kernels.
        kernels: u64,
        /// The chain.
        chain: Vec<OpId>,
    },
    /// Searches of partial schedules, to be followed again: `latency`.
    FrontierSearch {
        /// Weights for the devices, by which work is divided in estimates.
        weights: Vec<Vec<u64>>,
        /// What to search, in this order.
        steps: Vec<ProofStep>,
    },
    /// Rows of the interval program, each so many times: a dual solution of it (`latency`).
    IntervalLp {
        /// Weights for the devices, by which work is divided in tails.
        weights: Vec<Vec<u64>>,
        /// Searches that raise tails, in this order.
        steps: Vec<ProofStep>,
        /// The rows.
        rows: Vec<RowMultiple>,
    },
    /// Weights for devices, flows along edges, work within windows and memory, which price every batch: `batch`, and with one
    /// input `latency`; without flows and windows `stream`.
    DivisionLp {
        /// One weight per device.
        weights: Vec<u64>,
        /// The edges that inputs pass.
        flows: Vec<PricedEdge>,
        /// The work of devices between two ops.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<WorkWindow>,
        /// The price of a byte of each device's memory, or nothing at all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<u64>,
    },
    /// As `Divisions`, with parts of the network where cases are told apart: `batch`.
    DivisionCases {
        /// One weight per device.
        weights: Vec<u64>,
        /// The edges that inputs pass in all cases.
        flows: Vec<PricedEdge>,
        /// The work of devices between two ops in all cases.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<WorkWindow>,
        /// The parts and their cases.
        parts: Vec<CaseRegion>,
    },
    /// A chain of ops with branches between them: when inputs can pass them, however devices share them (`batch`).
    ChainDp {
        /// The chain.
        stages: Vec<ChainStage>,
        /// What ends no earlier is dropped.
        limit_ps: Time,
        /// How many lists of moments are kept.
        width: u32,
        /// How much the work of each device counts along the whole chain.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<u64>,
    },
    /// Prices of ops, and what sets of ops that fit a stage can have of them: `pipeline`.
    SetCover {
        /// Whether units that may as well share a stage are one.
        merged: bool,
        /// No plan takes this or less.
        threshold_ps: Time,
        /// A price for each unit.
        prices: Vec<u64>,
        /// What sets for one stage, or some consecutive ones, hold at most; with unlike devices, one for each kind.
        groups: Vec<StageGroup>,
    },
    /// Ways to divide the network between the first stages and the others, all too dear: `pipeline`.
    TwoWayCut {
        /// Whether units that may as well share a stage are one.
        merged: bool,
        /// No plan takes this or less.
        threshold_ps: Time,
        /// How many stages are the first.
        first: u32,
        /// Branchings on units and cuts, in the order of a walk.
        tree: Vec<u32>,
    },
    /// All beginnings of the network, between which stages within the threshold do not reach its end: `pipeline`.
    DownSets {
        /// Whether units that may as well share a stage are one.
        merged: bool,
        /// No plan takes this or less.
        threshold_ps: Time,
    },
    /// Ops that no links can keep apart, which together are too much for the devices: `stream`.
    Colocation {
        /// No plan takes this or less.
        threshold_ps: Time,
        /// Pairs that must share a device, each given those before it.
        unions: Vec<ForcedPair>,
        /// Weights for the devices.
        weights: Vec<u64>,
        /// How times are rounded before they are added up; 0: not at all.
        rounding: u32,
    },
    /// Prices of ops: what devices must be sent for what they take is more than the links carry: `stream`.
    LinkPrices {
        /// No plan takes this or less.
        threshold_ps: Time,
        /// One weight per link or bus.
        weights: Vec<u64>,
        /// A price for each op, in weighted bytes.
        prices: Vec<i64>,
    },
    /// A search vouches for it; nothing here can check that.
    Attested {
        /// Which search.
        by: String,
    },
}

/// One step of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ProofStep {
    /// Search what follows each op, from the last one on.
    Tails {
        /// How many ops, the op itself and the next that depend on it.
        window: u32,
        /// How many rows to keep.
        width: u32,
        /// Tails are not raised beyond this.
        limit_ps: Time,
        /// For how many ops, from the last one on.
        ops: u32,
    },
    /// Search the whole network.
    Whole {
        /// How many rows to keep.
        width: u32,
        /// The bound is not raised beyond this.
        limit_ps: Time,
        /// After how many ops to end.
        levels: u32,
    },
}

/// Ops whose prices depend on how they are divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRegion {
    /// The ops.
    pub ops: Vec<OpId>,
    /// The tree of cases in the order of a walk: behind a branching first all where it holds, then all where it does not.
    pub walk: Vec<CaseTree>,
}

/// A branching, or the rows of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CaseTree {
    /// Whether the devices of a class take at least so many inputs of an op.
    Split {
        /// The op.
        op: OpId,
        /// The class, by its place in the costs.
        class: usize,
        /// How many inputs.
        least: u32,
    },
    /// Which of two ops that are single batches of one device is the first.
    Order {
        /// The first, where it holds; else the second.
        first: OpId,
        /// The other.
        second: OpId,
    },
    /// What holds beside the rows of all cases.
    Priced {
        /// Edges within the part.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flows: Vec<PricedEdge>,
        /// Windows within the part.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<WorkWindow>,
        /// Ops that take turns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        turns: Vec<DevicePair>,
    },
}

/// An edge that inputs pass, so many times, and how its delay is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedEdge {
    /// The producer.
    pub from: OpId,
    /// The consumer.
    pub to: OpId,
    /// How many times.
    pub times: u64,
    /// What the producer's batch pays for each input, in picoseconds: one price for each size of each class, in their order.
    /// None at all: all 0.
    pub prices: Vec<i64>,
}

/// Two ops, or one and an end of the schedule, and the work of a device between them, so many times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkWindow {
    /// The op behind whose batch it begins; none: it begins with the schedule.
    pub from: Option<OpId>,
    /// The op before whose batch it ends; none: it ends with the schedule.
    pub to: Option<OpId>,
    /// The device.
    pub device: DeviceId,
    /// How many times.
    pub times: u64,
}

/// Two ops that one device runs one after the other, so many times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePair {
    /// The first.
    pub from: OpId,
    /// The second.
    pub to: OpId,
    /// How many times.
    pub times: u64,
}

/// A row of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum IntervalRow {
    /// What must come before an op.
    Head {
        /// The op.
        op: OpId,
    },
    /// An op and what must come after it.
    Tail {
        /// The op.
        op: OpId,
    },
    /// Work of one device between two ops, one of which leads to the other.
    Between {
        /// The earlier op; none is the beginning.
        from: Option<OpId>,
        /// The later op; none is the end.
        to: Option<OpId>,
        /// The device.
        device: DeviceId,
    },
    /// Time between the starts of two ops, one of which leads to the other.
    Gap {
        /// The earlier op.
        from: OpId,
        /// The later op.
        to: OpId,
        /// In picoseconds, one for each device; what stands where the earlier op may not run is not read.
        prices: Vec<u64>,
    },
}

/// A row and how many times it is added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowMultiple {
    /// How many times.
    pub times: u64,
    /// The row.
    pub row: IntervalRow,
}

/// An op that all inputs pass, and what lies between the one before and it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainStage {
    /// The op.
    pub op: OpId,
    /// Chains of ops, each of which reads from the one before; an empty one stands for what the op itself reads from the op
    /// of the stage before. None at all: as one that is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Vec<OpId>>,
    /// How much the work of each device in branches counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<u64>,
    /// In place of shares, one list or a few of them: work is then counted for each part of what the two ops have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Vec<u64>>,
}

impl ChainStage {
    /// The lists of shares, of which there is at least one.
    pub(crate) fn lists(&self) -> &[Vec<u64>] {
        if self.weights.is_empty() { std::slice::from_ref(&self.shares) } else { &self.weights }
    }
}

/// The stages, and how they are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainProof {
    /// In the order of the chain.
    pub stages: Vec<ChainStage>,
    /// What ends no earlier is dropped.
    pub limit_ps: Time,
    /// The most lists of moments that are kept for a sharing; in branches a quarter of it, and one for estimates.
    pub width: u32,
    /// How much the work of each device counts from one stage to the next and on; empty: not at all.
    pub shares: Vec<u64>,
}

impl ChainProof {
    /// The course as evidence.
    pub fn evidence(self) -> Evidence {
        let ChainProof { stages, limit_ps, width, shares } = self;
        Evidence::ChainDp { stages, limit_ps, width, shares }
    }
}

/// Sets that fit so many consecutive stages, and what the prices of one can add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageGroup {
    /// How many stages.
    pub stages: u32,
    /// How many groups of so many stages there are.
    pub count: u32,
    /// The most that prices of a set add up to.
    pub limit: u64,
    /// Why: branchings on units and cuts, in the order of a walk.
    pub tree: Vec<u32>,
}

/// Two ops that must share a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForcedPair {
    /// The one.
    pub one: OpId,
    /// The other.
    pub other: OpId,
    /// Whether a minimum cut shows it, and not the bytes between the two.
    pub by_cut: bool,
}
