//! A dual solution of the set cover LP of pipeline stages.
//!
//! Suppose every stage costs at most T, and let π ≥ 0 be prices of units. The stages of a plan partition the units, so their
//! prices add up to π(V). If every convex set S with cost(S) ≤ T has π(S) ≤ P, and k·P < π(V), no plan has period T: weak
//! duality for covering V by k sets.
//!
//! The union of g consecutive stages is convex too and costs at most g·T, so the k stages may be divided into groups of any
//! sizes, each with a limit of its own: Σ count·limit < π(V) suffices. With unlike devices each kind has its limit, and the
//! kinds with the largest limits are used first.
//!
//! That no set exceeds a limit is shown by a branch-and-bound tree over [`ConvexSets`]. Complexity: one minimum cut for each
//! leaf of the trees. Literature: the pricing problem of column generation.

use crate::evidence::StageGroup;
use crate::pipeline::branching_tree::{self, MOST_NUMBERS};
use crate::pipeline::convex_sets::ConvexSets;
use crate::pipeline::relaxation::{PipelineRelaxation, refuted};
use crate::pipeline::relaxation_types::KindCosts;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// Prices add up to no more than this, so that the costs of a cut fit.
pub const MOST_PRICE: u64 = 1 << 44;

/// The bound T + 1, if prices and limits refute T.
pub(crate) fn proven(
    problem: &Problem,
    merged: bool,
    threshold: Time,
    prices: &[u64],
    groups: &[StageGroup],
) -> Result<Time, String> {
    check_cover(&PipelineRelaxation::build(problem, merged)?, threshold, prices, groups)?;
    refuted(threshold)
}

/// Whether prices and limits refute a threshold.
fn check_cover(
    relaxed: &PipelineRelaxation,
    threshold: Time,
    prices: &[u64],
    groups: &[StageGroup],
) -> Result<(), String> {
    if !relaxed.knows_order() {
        return Err(format!("{} units are too many for it", relaxed.units()));
    }
    let total = prices.iter().try_fold(0u64, |sum, &price| sum.checked_add(price));
    let total = total.filter(|&total| total <= MOST_PRICE).ok_or("prices are too large")?;
    if prices.len() != relaxed.units() {
        return Err(format!("{} prices for {} units", prices.len(), relaxed.units()));
    }
    if groups.iter().map(|group| group.tree.len()).sum::<usize>() > MOST_NUMBERS {
        return Err(format!("its trees have more than {MOST_NUMBERS} numbers"));
    }
    let most = if relaxed.kinds().is_empty() {
        most_by_groups(relaxed, groups)?
    } else {
        most_by_kinds(relaxed, groups)?
    };
    if most >= u128::from(total) {
        return Err(format!("stages may cover {most} of {total}"));
    }
    for (i, group) in groups.iter().enumerate() {
        let kind = relaxed.kinds().get(i).unwrap_or(relaxed.least());
        let budget = relaxed.budget(group.stages, threshold.0);
        let mut sets = ConvexSets::new(relaxed, kind, budget, prices, group.limit);
        branching_tree::verify(&mut sets, &group.tree)?;
    }
    Ok(())
}

/// The most price that all groups of stages together can hold.
fn most_by_groups(relaxed: &PipelineRelaxation, groups: &[StageGroup]) -> Result<u128, String> {
    let stages: u64 = groups.iter().map(|group| u64::from(group.stages) * u64::from(group.count)).sum();
    if stages != u64::from(relaxed.stages()) {
        return Err(format!("groups of {stages} stages, there are {}", relaxed.stages()));
    }
    Ok(groups.iter().map(|group| u128::from(group.limit) * u128::from(group.count)).sum())
}

/// The most price that as many devices as stages can hold: a group for each kind, those with the largest limits first.
fn most_by_kinds(relaxed: &PipelineRelaxation, groups: &[StageGroup]) -> Result<u128, String> {
    let fit = |(group, kind): (&StageGroup, &KindCosts)| group.stages == 1 && group.count == kind.devices;
    if groups.len() != relaxed.kinds().len() || !groups.iter().zip(relaxed.kinds()).all(fit) {
        return Err("it needs a group of single stages for each kind of device".to_owned());
    }
    let mut limits: Vec<(u64, u32)> = groups.iter().map(|group| (group.limit, group.count)).collect();
    limits.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = relaxed.stages();
    let mut most = 0;
    for (limit, count) in limits {
        let used = count.min(left);
        most += u128::from(limit) * u128::from(used);
        left -= used;
    }
    Ok(most)
}
