//! Certificates: lower bounds with evidence that is checked here, exactly, in integers.
//!
//! A [`Certificate`] claims that no plan has a smaller value. [`verify`] works out what its evidence really proves.
//! A bound that only a search vouches for is [`Evidence::Attested`] and never counts as verified.

mod area;
mod bus;
mod load;
mod path;

use serde::{Deserialize, Serialize};

use crate::check::{Rule, Violation};
use crate::ids::{DeviceId, LinkId, OpId};
use crate::makespan::frontier::proof::{self, ProofStep, Prover};
use crate::makespan::relaxations::cases::{self, Part};
use crate::makespan::relaxations::divisions::{self, Flow, Rows, Window};
use crate::makespan::relaxations::interval::{self, Interval, Multiple};
use crate::makespan::relaxations::last_loads::{self, LastLoads};
use crate::makespan::relaxations::passages::{self, Course, Passages, Stage};
use crate::makespan::relaxations::segments::{self, Prices, Segments};
use crate::period::relaxations::cover::{self, Group};
use crate::period::relaxations::shares;
use crate::period::relaxations::united::{self, Union};
use crate::problem::Problem;
use crate::units::Time;

/// A lower bound on the value of every plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Name of the bound.
    pub bound: String,
    /// The value claimed, in picoseconds.
    pub value_ps: Time,
    /// Why it holds.
    pub evidence: Evidence,
}

/// Why a bound holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Evidence {
    /// A chain of ops, each of which reads what the one before makes: makespan objectives.
    Path {
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
    Bus {
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
    Segments {
        /// One price per link or bus.
        links: Vec<u64>,
        /// The price of kernels.
        kernels: u64,
        /// The chain.
        chain: Vec<OpId>,
    },
    /// Searches of partial schedules, to be followed again: `latency`.
    Frontier {
        /// Weights for the devices, by which work is divided in estimates.
        weights: Vec<Vec<u64>>,
        /// What to search, in this order.
        steps: Vec<ProofStep>,
    },
    /// Rows of the interval program, each so many times: a dual solution of it (`latency`).
    Interval {
        /// Weights for the devices, by which work is divided in tails.
        weights: Vec<Vec<u64>>,
        /// Searches that raise tails, in this order.
        steps: Vec<ProofStep>,
        /// The rows.
        rows: Vec<Multiple>,
    },
    /// Weights for devices, flows along edges, work within windows and memory, which price every batch: `batch`, and with one
    /// input `latency`; without flows and windows `stream`.
    Divisions {
        /// One weight per device.
        weights: Vec<u64>,
        /// The edges that inputs pass.
        flows: Vec<Flow>,
        /// The work of devices between two ops.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<Window>,
        /// The price of a byte of each device's memory, or nothing at all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<u64>,
    },
    /// As `Divisions`, with parts of the network where cases are told apart: `batch`.
    Cases {
        /// One weight per device.
        weights: Vec<u64>,
        /// The edges that inputs pass in all cases.
        flows: Vec<Flow>,
        /// The work of devices between two ops in all cases.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        windows: Vec<Window>,
        /// The parts and their cases.
        parts: Vec<Part>,
    },
    /// A chain of ops with branches between them: when inputs can pass them, however devices share them (`batch`).
    Passages {
        /// The chain.
        stages: Vec<Stage>,
        /// What ends no earlier is dropped.
        limit_ps: Time,
        /// How many lists of moments are kept.
        width: u32,
        /// How much the work of each device counts along the whole chain.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<u64>,
    },
    /// Prices of ops, and what sets of ops that fit a stage can have of them: `pipeline`.
    Cover {
        /// Whether units that may as well share a stage are one.
        merged: bool,
        /// No plan takes this or less.
        threshold_ps: Time,
        /// A price for each unit.
        prices: Vec<u64>,
        /// What sets for one stage, or some consecutive ones, hold at most; with unlike devices, one for each kind.
        groups: Vec<Group>,
    },
    /// Ways to divide the network between the first stages and the others, all too dear: `pipeline`.
    Halves {
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
    Beginnings {
        /// Whether units that may as well share a stage are one.
        merged: bool,
        /// No plan takes this or less.
        threshold_ps: Time,
    },
    /// Ops that no links can keep apart, which together are too much for the devices: `stream`.
    United {
        /// No plan takes this or less.
        threshold_ps: Time,
        /// Pairs that must share a device, each given those before it.
        unions: Vec<Union>,
        /// Weights for the devices.
        weights: Vec<u64>,
        /// How times are rounded before they are added up; 0: not at all.
        rounding: u32,
    },
    /// Prices of ops: what devices must be sent for what they take is more than the links carry: `stream`.
    Shares {
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

/// What a certificate is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The evidence proves the claim.
    Verified,
    /// Only a search vouches for it.
    Attested,
}

/// A certificate whose evidence was worked out by `core` itself, so that it need not be checked once more.
#[derive(Clone, Debug)]
pub struct Proven(Certificate);

impl Proven {
    /// What a prover has proved so far.
    pub fn by_searches(bound: &str, prover: &Prover) -> Proven {
        Proven(Certificate { bound: bound.to_owned(), value_ps: prover.lower(), evidence: prover.evidence() })
    }

    /// What rows of the interval program prove; none if they prove nothing.
    pub fn by_rows(bound: &str, interval: &Interval, rows: Vec<Multiple>) -> Option<Proven> {
        let value_ps = interval.proven(&rows).ok()?;
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence: interval.evidence(rows) }))
    }

    /// What an argument about last loads proves; it must be the one that the evidence describes.
    pub fn by_last_loads(
        bound: &str,
        argument: &LastLoads<'_>,
        weights: Vec<u64>,
        left_ps: Time,
    ) -> Option<Proven> {
        let value_ps = argument.proven(&weights, left_ps).ok()?;
        let evidence = argument.evidence(weights, left_ps);
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// What prices prove of segments; none if they prove nothing.
    pub fn by_segments(bound: &str, segments: &Segments<'_>, prices: &Prices) -> Option<Proven> {
        let value_ps = segments.proven(prices).ok()?;
        let (links, kernels) = (prices.links.clone(), prices.kernels);
        let evidence = Evidence::Segments { links, kernels, chain: segments.chain().to_vec() };
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// What a course proves; none if that is nothing, or `stop` ends it.
    pub fn by_passages(
        bound: &str,
        passages: &Passages<'_>,
        course: &Course,
        stop: &mut dyn FnMut() -> bool,
    ) -> Option<Proven> {
        let value_ps = passages.proven(course, stop).ok()?;
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence: course.clone().evidence() }))
    }

    /// All that `evidence` proves; none if it is not evidence, or an attestation.
    pub fn by(problem: &Problem, bound: &str, evidence: Evidence) -> Option<Proven> {
        let value_ps = proven(problem, &evidence).ok().flatten()?;
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// The value proved.
    pub fn value(&self) -> Time {
        self.0.value_ps
    }

    pub(crate) fn into_certificate(self) -> Certificate {
        self.0
    }
}

/// What `evidence` proves of a problem; `None` for an attestation.
pub fn proven(problem: &Problem, evidence: &Evidence) -> Result<Option<Time>, Violation> {
    let replicates = problem.constraints.replicate;
    let proven = match evidence {
        Evidence::Attested { .. } => return Ok(None),
        // Devices that share a stage share its ops too; only an average over all devices holds for them.
        evidence if replicates && !matches!(evidence, Evidence::Area { .. }) => {
            Err("it does not hold where devices may share a stage".to_owned())
        }
        Evidence::Path { ops } => path::proven(problem, ops),
        Evidence::Op { op } => load::of_op(problem, *op),
        Evidence::Area { weights } => area::proven(problem, weights),
        Evidence::DeviceLoad { device } => load::of_device(problem, *device),
        Evidence::LinkLoad { link } => load::of_link(problem, *link),
        Evidence::Bus { weights } => bus::proven(problem, weights),
        Evidence::LastLoads { weights, left_ps, shares, steps } => {
            last_loads::proven(problem, weights, *left_ps, shares, steps)
        }
        Evidence::Segments { links, kernels, chain } => {
            let prices = Prices { links: links.clone(), kernels: *kernels };
            segments::proven(problem, chain, &prices)
        }
        Evidence::Frontier { weights, steps } => proof::proven(problem, weights, steps),
        Evidence::Interval { weights, steps, rows } => interval::proven(problem, weights, steps, rows),
        Evidence::Divisions { weights, flows, windows, memory } => {
            divisions::proven(problem, &Rows { weights, flows, windows, memory })
        }
        Evidence::Cases { weights, flows, windows, parts } => {
            cases::proven(problem, &Rows { weights, flows, windows, memory: &[] }, parts)
        }
        Evidence::Passages { stages, limit_ps, width, shares } => {
            let (stages, shares) = (stages.clone(), shares.clone());
            let course = Course { stages, limit_ps: *limit_ps, width: *width, shares };
            passages::proven(problem, &course)
        }
        Evidence::Cover { merged, threshold_ps, prices, groups } => {
            cover::proven(problem, *merged, *threshold_ps, prices, groups)
        }
        Evidence::Halves { merged, threshold_ps, first, tree } => {
            cover::halves_proven(problem, *merged, *threshold_ps, *first, tree)
        }
        Evidence::Beginnings { merged, threshold_ps } => {
            cover::beginnings_proven(problem, *merged, *threshold_ps)
        }
        Evidence::United { threshold_ps, unions, weights, rounding } => {
            united::proven(problem, *threshold_ps, unions, weights, *rounding)
        }
        Evidence::Shares { threshold_ps, weights, prices } => {
            shares::proven(problem, *threshold_ps, weights, prices)
        }
    };
    proven.map(Some).map_err(|message| Violation {
        rule: Rule::Evidence,
        place: "certificate".to_owned(),
        message,
    })
}

/// Whether a certificate's evidence proves what it claims.
pub fn verify(problem: &Problem, certificate: &Certificate) -> Result<Standing, Violation> {
    let named = |violation: Violation| Violation { place: certificate.bound.clone(), ..violation };
    match proven(problem, &certificate.evidence).map_err(named)? {
        None => Ok(Standing::Attested),
        Some(value) if value >= certificate.value_ps => Ok(Standing::Verified),
        Some(value) => Err(Violation {
            rule: Rule::Bound,
            place: certificate.bound.clone(),
            message: format!(
                "it claims {} ps, its evidence proves {} ps and no more",
                certificate.value_ps.0, value.0
            ),
        }),
    }
}
