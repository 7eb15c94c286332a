//! Unites all that cannot be apart within a threshold, and looks for a proof that no plan is left.

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{Evidence, ForcedPair};
use divvy_proof::stream::colocation::Clusters;

/// Roundings that are tried: none, then halves, thirds, …
const ROUNDINGS: [u32; 8] = [0, 1, 2, 3, 4, 5, 7, 9];
/// Updates of the weights, and the weight of the dearest device.
const ROUNDS: u32 = 60;
const SCALE: f64 = (1u64 << 24) as f64;

/// Clusters at a threshold, and how they came about.
pub(crate) struct ColocatedUnits<'p> {
    problem: &'p Problem,
    threshold: Time,
    pub(crate) clusters: Clusters<'p>,
    unions: Vec<ForcedPair>,
}

impl<'p> ColocatedUnits<'p> {
    /// Unites pairs along tensors until no pair is left that must be united, or `is_over`. Bytes first, since cuts take longer.
    pub(crate) fn new(
        problem: &'p Problem,
        threshold: Time,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<ColocatedUnits<'p>> {
        let clusters = Clusters::new(problem, threshold).ok()?;
        let mut united = ColocatedUnits { problem, threshold, clusters, unions: Vec::new() };
        let graph = &problem.graph;
        let pairs: Vec<(OpId, OpId)> = graph
            .ops()
            .flat_map(|op| graph.successors(op).map(move |next| (op, next)).collect::<Vec<_>>())
            .collect();
        united.by_bytes(&pairs);
        let mut is_changed = true;
        while is_changed && !united.has_no_place() {
            is_changed = false;
            for &(one, other) in &pairs {
                if is_over() {
                    return Some(united);
                }
                if united.unite(ForcedPair { one, other, by_cut: true }) {
                    united.by_bytes(&pairs);
                    is_changed = true;
                }
            }
        }
        Some(united)
    }

    fn unite(&mut self, union: ForcedPair) -> bool {
        let is_new = !self.clusters.are_united(union.one, union.other) && self.clusters.try_unite(union);
        if is_new {
            self.unions.push(union);
        }
        is_new
    }

    fn by_bytes(&mut self, pairs: &[(OpId, OpId)]) {
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for &(one, other) in pairs {
                is_changed |= self.unite(ForcedPair { one, other, by_cut: false });
            }
        }
    }

    fn has_no_place(&self) -> bool {
        self.clusters.leaders().any(|op| self.clusters.places(op).is_empty())
    }

    /// A proof that no plan is within the threshold, if one is found.
    /// `prices` are weights to try first.
    pub(crate) fn proof(&self, prices: &[u64]) -> Option<Evidence> {
        let devices = self.problem.hardware.device_count();
        let evidence = |weights: Vec<u64>, rounding| Evidence::Colocation {
            threshold_ps: self.threshold,
            unions: self.unions.clone(),
            weights,
            rounding,
        };
        let even = vec![SCALE as u64; devices];
        if self.has_no_place() {
            return Some(evidence(even, 0));
        }
        let longest = self.clusters.longest_loads();
        let shown = |weights: &[u64]| {
            ROUNDINGS.iter().copied().find(|&k| self.clusters.are_too_much(weights, k, &longest))
        };
        for weights in [prices.to_vec(), even] {
            if let Some(rounding) = shown(&weights) {
                return Some(evidence(weights, rounding));
            }
        }
        let mut logs = vec![0.0f64; devices];
        for round in 0..ROUNDS {
            let step = 1.0 / f64::from(1 + round / 4);
            let drawn = self.drawn(&weights(&logs));
            let total: f64 = drawn.iter().sum();
            if total <= 0.0 {
                return None;
            }
            for (log, drawn) in logs.iter_mut().zip(&drawn) {
                *log += step * (drawn / total - 1.0 / devices as f64);
            }
            let weights = weights(&logs);
            if let Some(rounding) = shown(&weights) {
                return Some(evidence(weights, rounding));
            }
        }
        None
    }

    /// The work that each device draws if every cluster goes where it weighs least.
    fn drawn(&self, weights: &[u64]) -> Vec<f64> {
        let mut drawn = vec![0.0; weights.len()];
        for op in self.clusters.leaders() {
            let times =
                self.clusters.places(op).iter().map(|&d| (d.index(), self.clusters.time(op, d) as f64));
            let weighed = times.map(|(d, time)| (d, time, time * weights[d] as f64));
            if let Some((device, time, _)) = weighed.min_by(|a, b| a.2.total_cmp(&b.2)) {
                drawn[device] += time;
            }
        }
        drawn
    }
}

/// Integer weights from logarithms.
fn weights(logs: &[f64]) -> Vec<u64> {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|log| ((log - highest).exp() * SCALE).round() as u64).collect()
}
