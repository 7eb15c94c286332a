//! From evidence to the value it proves: the verifier of certificates.
//!
//! [`proven`] dispatches on the kind of evidence to the file that states and checks its inequality; [`verify`] compares the
//! result with the claim. The invariant of [`Proven`] is that its value follows from its evidence, so that a search which
//! evaluates an argument of this crate need not evaluate it once more.
//!
//! Attestations are never verified. Where several devices may share a stage (`replicate`), only `area` evidence is
//! accepted: the other arguments assume one device for each op.

use crate::batch::chain_dp::ChainDpInstance;
use crate::batch::{chain_dp, division_cases};
use crate::certificate::{Certificate, Standing};
use crate::cold_start::last_loads::LastLoadArgument;
use crate::cold_start::segment_prices::{SegmentArgument, SegmentPrices};
use crate::cold_start::{last_loads, segment_prices};
use crate::division_lp::DivisionRows;
use crate::evidence::{ChainProof, Evidence, RowMultiple};
use crate::frontier_search::recipe;
use crate::frontier_search::recipe::FrontierProof;
use crate::latency::interval_lp;
use crate::latency::interval_lp::IntervalRows;
use crate::loads::{forced, weighted_average};
use crate::pipeline::{down_sets, set_cover, two_way_cut};
use crate::stream::device_groups::GroupProgram;
use crate::stream::{colocation, device_groups, link_prices};
use crate::{critical_path, division_lp};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_core::violation::{Rule, Violation};

/// A certificate whose value was derived from its evidence by this crate, so that it is verified by construction.
#[derive(Clone, Debug)]
pub struct Proven(Certificate);

impl Proven {
    /// The best bound of a frontier proof so far.
    pub fn by_frontier_search(bound: &str, proof: &FrontierProof) -> Proven {
        Proven(Certificate { bound: bound.to_owned(), value_ps: proof.lower(), evidence: proof.evidence() })
    }

    /// The bound of a combination of rows of the interval LP; none if they prove nothing.
    pub fn by_interval_lp(bound: &str, interval: &IntervalRows, rows: Vec<RowMultiple>) -> Option<Proven> {
        let value_ps = interval.proven(&rows).ok()?;
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence: interval.evidence(rows) }))
    }

    /// The bound of bus weights at the time `left_ps` before the end; none if they prove nothing.
    pub fn by_last_loads(
        bound: &str,
        argument: &LastLoadArgument<'_>,
        weights: Vec<u64>,
        left_ps: Time,
    ) -> Option<Proven> {
        let value_ps = argument.proven(&weights, left_ps).ok()?;
        let evidence = argument.evidence(weights, left_ps);
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// The bound of Lagrange multipliers over segments; none if they prove nothing.
    pub fn by_segment_prices(
        bound: &str,
        segments: &SegmentArgument<'_>,
        prices: &SegmentPrices,
    ) -> Option<Proven> {
        let value_ps = segments.proven(prices).ok()?;
        let (links, kernels) = (prices.links.clone(), prices.kernels);
        let evidence = Evidence::SegmentPrices {
            links,
            kernels,
            chain: segments.chain().to_vec(),
            shared: segments.shared(),
        };
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// The bound of the chain DP; none if it proves nothing, or `stop` ends it.
    pub fn by_chain_dp(
        bound: &str,
        dp: &ChainDpInstance<'_>,
        proof: &ChainProof,
        stop: &mut dyn FnMut() -> bool,
    ) -> Option<Proven> {
        let value_ps = dp.proven(proof, stop).ok()?;
        Some(Proven(Certificate {
            bound: bound.to_owned(),
            value_ps,
            evidence: proof.clone().into_evidence(),
        }))
    }

    /// The bound of a program over groups of devices; none if it does not refute the threshold, an error if it has too many
    /// labels, or `stop` ends it.
    pub fn by_device_groups(
        bound: &str,
        program: &GroupProgram<'_>,
        threshold: Time,
        slots: u32,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Proven>, String> {
        if !program.refutes(threshold, slots, stop)? {
            return Ok(None);
        }
        let (groups, weights, links) = program.parts();
        let evidence = Evidence::DeviceGroups {
            threshold_ps: threshold,
            groups: groups.to_vec(),
            weights: weights.to_vec(),
            links: links.to_vec(),
            slots,
        };
        let value_ps = Time(threshold.0 + 1);
        Ok(Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence })))
    }

    /// The bound of any evidence; none if it proves nothing, or is an attestation.
    pub fn by(problem: &Problem, bound: &str, evidence: Evidence) -> Option<Proven> {
        let value_ps = proven(problem, &evidence).ok().flatten()?;
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// What a bound of the [relaxed](Problem::relaxed) problem proves of the problem itself.
    #[must_use]
    pub fn of_real(mut self, problem: &Problem) -> Proven {
        self.0.value_ps += problem.least_call();
        self
    }

    /// The value proved.
    pub fn value(&self) -> Time {
        self.0.value_ps
    }

    /// The certificate itself.
    pub fn into_certificate(self) -> Certificate {
        self.0
    }
}

/// The lower bound that `evidence` proves; `None` for an attestation, an error if it proves nothing. Where pieces cost something,
/// it is about the [relaxed](Problem::relaxed) problem, and what every plan costs beyond it is added.
pub fn proven(problem: &Problem, evidence: &Evidence) -> Result<Option<Time>, Violation> {
    if let Some(relaxed) = problem.relaxed() {
        return proven(&relaxed, evidence).map(|value| value.map(|value| value + problem.least_call()));
    }
    let replicates = problem.constraints.replicate;
    let proven = match evidence {
        Evidence::Attested { .. } => return Ok(None),
        // Devices that share a stage share its ops too; only an average over all devices holds for them.
        evidence if replicates && !matches!(evidence, Evidence::Area { .. }) => {
            Err("it does not hold where devices may share a stage".to_owned())
        }
        Evidence::CriticalPath { ops } => critical_path::proven(problem, ops),
        Evidence::Op { op } => forced::of_op(problem, *op),
        Evidence::Area { weights } => weighted_average::proven(problem, weights),
        Evidence::DeviceLoad { device } => forced::of_device(problem, *device),
        Evidence::LinkLoad { link } => forced::of_link(problem, *link),
        Evidence::LastLoads { weights, left_ps, shares, steps } => {
            last_loads::proven(problem, weights, *left_ps, shares, steps)
        }
        Evidence::SegmentPrices { links, kernels, chain, shared } => {
            let prices = SegmentPrices { links: links.clone(), kernels: *kernels };
            segment_prices::proven(problem, chain, *shared, &prices)
        }
        Evidence::FrontierSearch { weights, steps } => recipe::proven(problem, weights, steps),
        Evidence::IntervalLp { weights, steps, rows } => interval_lp::proven(problem, weights, steps, rows),
        Evidence::DivisionLp { weights, flows, windows, memory } => {
            division_lp::proven(problem, &DivisionRows { weights, flows, windows, memory })
        }
        Evidence::DivisionCases { weights, flows, windows, parts } => {
            division_cases::proven(problem, &DivisionRows { weights, flows, windows, memory: &[] }, parts)
        }
        Evidence::ChainDp { stages, limit_ps, width, shares } => {
            let (stages, shares) = (stages.clone(), shares.clone());
            chain_dp::proven(problem, &ChainProof { stages, limit_ps: *limit_ps, width: *width, shares })
        }
        Evidence::SetCover { merged, threshold_ps, prices, groups } => {
            set_cover::proven(problem, *merged, *threshold_ps, prices, groups)
        }
        Evidence::TwoWayCut { merged, threshold_ps, first, tree } => {
            two_way_cut::proven(problem, *merged, *threshold_ps, *first, tree)
        }
        Evidence::DownSets { merged, threshold_ps } => down_sets::proven(problem, *merged, *threshold_ps),
        Evidence::Colocation { threshold_ps, unions, weights, rounding } => {
            colocation::proven(problem, *threshold_ps, unions, weights, *rounding)
        }
        Evidence::DeviceGroups { threshold_ps, groups, weights, links, slots } => {
            device_groups::proven(problem, *threshold_ps, groups, weights, links, *slots)
        }
        Evidence::LinkPrices { threshold_ps, weights, prices } => {
            link_prices::proven(problem, *threshold_ps, weights, prices)
        }
    };
    proven.map(Some).map_err(|message| Violation {
        rule: Rule::Evidence,
        place: "certificate".to_owned(),
        message,
    })
}

/// Whether a certificate's evidence proves what it claims: the standing, or the rule that it breaks.
///
/// ```
/// use divvy_core::generate::{RwnnOptions, rwnn};
/// use divvy_core::{Problem, graph::Graph, ids::OpId, problem::OwnHardware};
/// use divvy_proof::certificate::{Certificate, Standing};
/// use divvy_proof::{evidence::Evidence, verify::proven};
///
/// let spec = rwnn(&RwnnOptions { modules: 1, nodes: 4, ..RwnnOptions::default() }).unwrap();
/// let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("it comes with three devices") };
/// let (graph, objective) = (Graph::new(spec.graph).unwrap(), spec.objective.unwrap());
/// let problem = Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap();
///
/// let evidence = Evidence::CriticalPath { ops: vec![OpId(0)] };
/// let value_ps = proven(&problem, &evidence).unwrap().unwrap();
/// let mut certificate = Certificate { bound: "by-hand".into(), value_ps, evidence };
/// assert_eq!(certificate.verify(&problem), Ok(Standing::Verified));
/// certificate.value_ps.0 += 1;
/// assert_eq!(certificate.verify(&problem).unwrap_err().rule.as_str(), "bound");
/// ```
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

impl Certificate {
    /// As [`verify()`].
    pub fn verify(&self, problem: &Problem) -> Result<Standing, Violation> {
        verify(problem, self)
    }
}
