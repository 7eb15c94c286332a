//! Certificates: lower bounds with evidence that is checked here, exactly, in integers.
//!
//! A [`Certificate`] claims that no plan has a smaller value. [`verify`] works out what its evidence really proves.
//! A bound that only a search vouches for is [`Evidence::Attested`] and never counts as verified.

use crate::batch::chain_dp::ChainDp;
use crate::batch::{chain_dp, division_cases};
use crate::certificate::{Certificate, Standing};
use crate::cold_start::last_loads::LastLoadArgument;
use crate::cold_start::segment_prices::{SegmentPrices, SegmentArgument};
use crate::cold_start::{bus_bytes, last_loads, segment_prices};
use crate::division_lp::DivisionRows;
use crate::evidence::{ChainProof, Evidence, RowMultiple};
use crate::frontier_search::recipe;
use crate::frontier_search::recipe::FrontierProof;
use crate::latency::interval_lp;
use crate::latency::interval_lp::Interval;
use crate::loads::{forced, weighted_average};
use crate::pipeline::set_cover;
use crate::stream::{colocation, link_prices};
use crate::{critical_path, division_lp};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_core::violation::{Rule, Violation};

/// A certificate whose evidence was worked out by `core` itself, so that it need not be checked once more.
#[derive(Clone, Debug)]
pub struct Proven(Certificate);

impl Proven {
    /// What a prover has proved so far.
    pub fn by_searches(bound: &str, prover: &FrontierProof) -> Proven {
        Proven(Certificate { bound: bound.to_owned(), value_ps: prover.lower(), evidence: prover.evidence() })
    }

    /// What rows of the interval program prove; none if they prove nothing.
    pub fn by_rows(bound: &str, interval: &Interval, rows: Vec<RowMultiple>) -> Option<Proven> {
        let value_ps = interval.proven(&rows).ok()?;
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence: interval.evidence(rows) }))
    }

    /// What an argument about last loads proves; it must be the one that the evidence describes.
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

    /// What prices prove of segments; none if they prove nothing.
    pub fn by_segments(bound: &str, segments: &SegmentArgument<'_>, prices: &SegmentPrices) -> Option<Proven> {
        let value_ps = segments.proven(prices).ok()?;
        let (links, kernels) = (prices.links.clone(), prices.kernels);
        let evidence = Evidence::SegmentPrices { links, kernels, chain: segments.chain().to_vec() };
        Some(Proven(Certificate { bound: bound.to_owned(), value_ps, evidence }))
    }

    /// What a course proves; none if that is nothing, or `stop` ends it.
    pub fn by_passages(
        bound: &str,
        passages: &ChainDp<'_>,
        course: &ChainProof,
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

    /// The certificate itself.
    pub fn into_certificate(self) -> Certificate {
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
        Evidence::CriticalPath { ops } => critical_path::proven(problem, ops),
        Evidence::Op { op } => forced::of_op(problem, *op),
        Evidence::Area { weights } => weighted_average::proven(problem, weights),
        Evidence::DeviceLoad { device } => forced::of_device(problem, *device),
        Evidence::LinkLoad { link } => forced::of_link(problem, *link),
        Evidence::BusBytes { weights } => bus_bytes::proven(problem, weights),
        Evidence::LastLoads { weights, left_ps, shares, steps } => {
            last_loads::proven(problem, weights, *left_ps, shares, steps)
        }
        Evidence::SegmentPrices { links, kernels, chain } => {
            let prices = SegmentPrices { links: links.clone(), kernels: *kernels };
            segment_prices::proven(problem, chain, &prices)
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
            let course = ChainProof { stages, limit_ps: *limit_ps, width: *width, shares };
            chain_dp::proven(problem, &course)
        }
        Evidence::SetCover { merged, threshold_ps, prices, groups } => {
            set_cover::proven(problem, *merged, *threshold_ps, prices, groups)
        }
        Evidence::TwoWayCut { merged, threshold_ps, first, tree } => {
            set_cover::halves_proven(problem, *merged, *threshold_ps, *first, tree)
        }
        Evidence::DownSets { merged, threshold_ps } => {
            set_cover::beginnings_proven(problem, *merged, *threshold_ps)
        }
        Evidence::Colocation { threshold_ps, unions, weights, rounding } => {
            colocation::proven(problem, *threshold_ps, unions, weights, *rounding)
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
