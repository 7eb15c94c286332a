//! Stages that cannot cover the network: what prices of units prove.
//!
//! Let every stage take at most T. Whatever the prices, the stages hold all of them together; so if no convex set that
//! fits a stage holds more than a limit, and as many limits as there are stages are less than the sum of all prices, no
//! plan takes T or less. Groups of consecutive stages are convex too, and g of them cost at most g·T: any division of
//! the k stages into groups will do. With unlike devices each kind has its limit, and the best devices count first.

use crate::evidence::StageGroup;
use crate::pipeline::branching_tree;
use crate::pipeline::convex_sets::Sets;
use crate::pipeline::down_sets::{DownSets, MOST_STEPS, Reach};
use crate::pipeline::relaxation::PipelineRelaxation;
use crate::pipeline::two_way_cut::TwoWayCut;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The most numbers in all trees of a proof.
pub const MOST_NUMBERS: usize = 1 << 22;
/// Prices add up to no more than this, so that the costs of a cut fit.
pub const MOST_PRICE: u64 = 1 << 44;

fn relaxed(problem: &Problem, merged: bool) -> Result<PipelineRelaxation, String> {
    let relaxed = if merged { PipelineRelaxation::merged(problem)? } else { PipelineRelaxation::new(problem)? };
    Ok(relaxed)
}

fn above(threshold: Time) -> Result<Time, String> {
    threshold.0.checked_add(1).map(Time).ok_or_else(|| "a threshold out of range".to_owned())
}

/// What prices and limits prove: no plan takes the threshold or less.
pub(crate) fn proven(
    problem: &Problem,
    merged: bool,
    threshold: Time,
    prices: &[u64],
    groups: &[StageGroup],
) -> Result<Time, String> {
    check_cover(&relaxed(problem, merged)?, threshold, prices, groups)?;
    above(threshold)
}

/// Whether prices and limits show that no plan takes the threshold or less.
fn check_cover(relaxed: &PipelineRelaxation, threshold: Time, prices: &[u64], groups: &[StageGroup]) -> Result<(), String> {
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
        let mut sets = Sets::new(relaxed, kind, budget, prices, group.limit);
        branching_tree::verify(&mut sets, &group.tree)?;
    }
    Ok(())
}

/// What all groups together can cover.
fn most_by_groups(relaxed: &PipelineRelaxation, groups: &[StageGroup]) -> Result<u128, String> {
    let stages: u64 = groups.iter().map(|group| u64::from(group.stages) * u64::from(group.count)).sum();
    if stages != u64::from(relaxed.stages()) {
        return Err(format!("groups of {stages} stages, there are {}", relaxed.stages()));
    }
    Ok(groups.iter().map(|group| u128::from(group.limit) * u128::from(group.count)).sum())
}

/// What as many devices as stages can cover, a group for each kind, the best first.
fn most_by_kinds(relaxed: &PipelineRelaxation, groups: &[StageGroup]) -> Result<u128, String> {
    let fit = |(group, kind): (&StageGroup, &crate::pipeline::units::DeviceKind)| {
        group.stages == 1 && group.count == kind.devices
    };
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

/// What a tree of beginnings proves: no plan takes the threshold or less.
pub(crate) fn halves_proven(
    problem: &Problem,
    merged: bool,
    threshold: Time,
    first: u32,
    tree: &[u32],
) -> Result<Time, String> {
    check_halves(&relaxed(problem, merged)?, threshold, first, tree)?;
    above(threshold)
}

/// Whether a tree of beginnings shows that.
fn check_halves(relaxed: &PipelineRelaxation, threshold: Time, first: u32, tree: &[u32]) -> Result<(), String> {
    let stages = relaxed.stages();
    if first == 0 || first >= stages {
        return Err(format!("{first} stages of {stages} are no part of them"));
    }
    if tree.len() > MOST_NUMBERS {
        return Err(format!("its tree has more than {MOST_NUMBERS} numbers"));
    }
    let budgets = [first, stages - first].map(|stages| relaxed.budget(stages, threshold.0));
    branching_tree::verify(&mut TwoWayCut::new(relaxed, budgets), tree)
}

/// What all beginnings prove: no plan takes the threshold or less.
pub(crate) fn beginnings_proven(problem: &Problem, merged: bool, threshold: Time) -> Result<Time, String> {
    let relaxed = relaxed(problem, merged)?;
    match DownSets::new(&relaxed)?.reach(threshold.0, &mut || true) {
        Some(Reach::Short) => above(threshold),
        Some(Reach::End(_)) => Err(format!("stages of {} ps may do", threshold.0)),
        None => Err(format!("it takes more than {MOST_STEPS} steps")),
    }
}
