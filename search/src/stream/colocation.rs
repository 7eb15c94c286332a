//! Ops that must share a device in every plan with a period of at most T, and refutations of T from them.
//!
//! Two ops must share a device if the bytes between their clusters exceed what any pair of devices can exchange within T, or if
//! a minimum cut between them exceeds what any device can receive, send, or both within T. Clusters are merged to a fixpoint,
//! by bytes first, because cuts are slower. T is refuted if some cluster fits on no device, or by an area argument with device
//! weights w: Σ over clusters of min_d w_d f(t_d) > Σ_d w_d f(T), with a dual feasible function f (Fekete and Schepers 2001). The
//! statement and its check are in `divvy_proof::stream::colocation`; here pairs, weights and f are chosen.
//! O(rounds × edges × minimum cut).

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{Evidence, ForcedPair};
use divvy_proof::stream::colocation::Clusters;

/// Parameters k of the dual feasible functions tried; 0 is the identity.
const ROUNDINGS: [u32; 8] = [0, 1, 2, 3, 4, 5, 7, 9];
/// Updates of the weights.
const ROUNDS: u32 = 60;
/// The largest weight.
const SCALE: f64 = (1u64 << 24) as f64;

/// The clusters at a threshold, and the pairs that they follow from.
pub(crate) struct ColocatedUnits<'p> {
    problem: &'p Problem,
    threshold: Time,
    pub(crate) clusters: Clusters<'p>,
    /// Each of them follows from those before it.
    forced_pairs: Vec<ForcedPair>,
}

impl<'p> ColocatedUnits<'p> {
    /// Merges the ends of edges until no pair is forced any more, or `is_over`.
    pub(crate) fn new(
        problem: &'p Problem,
        threshold: Time,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<ColocatedUnits<'p>> {
        let clusters = Clusters::new(problem, threshold).ok()?;
        let mut colocated = ColocatedUnits { problem, threshold, clusters, forced_pairs: Vec::new() };
        let graph = &problem.graph;
        let pairs: Vec<(OpId, OpId)> = graph
            .ops()
            .flat_map(|op| graph.successors(op).map(move |next| (op, next)).collect::<Vec<_>>())
            .collect();
        colocated.merge_by_bytes(&pairs);
        let mut is_changed = true;
        while is_changed && !colocated.has_no_device() {
            is_changed = false;
            for &(one, other) in &pairs {
                if is_over() {
                    return Some(colocated);
                }
                if colocated.merge(ForcedPair { one, other, by_cut: true }) {
                    colocated.merge_by_bytes(&pairs);
                    is_changed = true;
                }
            }
        }
        Some(colocated)
    }

    fn merge(&mut self, pair: ForcedPair) -> bool {
        let is_new = !self.clusters.are_united(pair.one, pair.other) && self.clusters.try_unite(pair);
        if is_new {
            self.forced_pairs.push(pair);
        }
        is_new
    }

    fn merge_by_bytes(&mut self, pairs: &[(OpId, OpId)]) {
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for &(one, other) in pairs {
                is_changed |= self.merge(ForcedPair { one, other, by_cut: false });
            }
        }
    }

    /// Whether some cluster fits on no device.
    fn has_no_device(&self) -> bool {
        self.clusters.leaders().any(|op| self.clusters.places(op).is_empty())
    }

    /// A proof that no plan is within the threshold, if one is found: with the weights `prices`, equal ones, and then those of a
    /// multiplicative-weights iteration towards an even load.
    pub(crate) fn proof(&self, prices: &[u64]) -> Option<Evidence> {
        let devices = self.problem.hardware.device_count();
        let evidence = |weights: Vec<u64>, rounding| Evidence::Colocation {
            threshold_ps: self.threshold,
            unions: self.forced_pairs.clone(),
            weights,
            rounding,
        };
        let even = vec![SCALE as u64; devices];
        if self.has_no_device() {
            return Some(evidence(even, 0));
        }
        let longest = self.clusters.longest_loads();
        let refuting = |weights: &[u64]| {
            ROUNDINGS.iter().copied().find(|&k| self.clusters.exceed_capacity(weights, k, &longest))
        };
        for weights in [prices.to_vec(), even] {
            if let Some(rounding) = refuting(&weights) {
                return Some(evidence(weights, rounding));
            }
        }
        let mut logs = vec![0.0f64; devices];
        for round in 0..ROUNDS {
            let step = 1.0 / f64::from(1 + round / 4);
            let assigned_work = self.assigned_work(&weights(&logs));
            let total: f64 = assigned_work.iter().sum();
            if total <= 0.0 {
                return None;
            }
            for (log, own) in logs.iter_mut().zip(&assigned_work) {
                *log += step * (own / total - 1.0 / devices as f64);
            }
            let weights = weights(&logs);
            if let Some(rounding) = refuting(&weights) {
                return Some(evidence(weights, rounding));
            }
        }
        None
    }

    /// By device, the work assigned to it if every cluster goes where its weighted time is least.
    fn assigned_work(&self, weights: &[u64]) -> Vec<f64> {
        let mut assigned = vec![0.0; weights.len()];
        for op in self.clusters.leaders() {
            let times =
                self.clusters.places(op).iter().map(|&d| (d.index(), self.clusters.time(op, d) as f64));
            let weighed = times.map(|(d, time)| (d, time, time * weights[d] as f64));
            if let Some((device, time, _)) = weighed.min_by(|a, b| a.2.total_cmp(&b.2)) {
                assigned[device] += time;
            }
        }
        assigned
    }
}

/// Integer weights from logarithms.
fn weights(logs: &[f64]) -> Vec<u64> {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|log| ((log - highest).exp() * SCALE).round() as u64).collect()
}
