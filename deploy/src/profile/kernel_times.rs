//! What kernels say of ops.

use std::collections::HashSet;

use divvy_core::ids::OpId;
use divvy_exec::backend::Kernel;
use divvy_exec::measure::Timings;

use crate::kernel_owners::Owners;

/// What the kernels of several runs of the whole model say of its ops.
pub(super) struct KernelTimes {
    /// The median of each op's time in the quickest quarter of the runs, in microseconds.
    pub(super) ops: Vec<f64>,
    /// Of the sum of a run's kernels.
    pub(super) spread: f64,
    /// Ops that the runtime runs as one, by their positions.
    pub(super) fused: Vec<Vec<usize>>,
}

impl KernelTimes {
    /// Of the kernels of each run; the problem has so many `ops`.
    pub(super) fn new(runs: &[Vec<Kernel>], owners: &Owners, ops: usize) -> KernelTimes {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); ops];
        let sum = |run: &&Vec<Kernel>| run.iter().map(|kernel| kernel.duration_us).sum::<f64>();
        let sums = Timings::new(runs.iter().map(|run| sum(&run)).collect());
        // In longer runs others may have had the core, which makes long kernels longer and leaves most short ones.
        for run in runs.iter().filter(|run| sum(run) <= sums.quantile(0.25)) {
            for (op, run) in owners.by_op(run) {
                times[op.index()].push(run.busy);
            }
        }
        let with_kernels: HashSet<OpId> =
            runs.last().map_or_else(HashSet::new, |run| owners.with_kernels(run));
        let fused = owners.fused(&with_kernels).into_iter();
        KernelTimes {
            ops: times.into_iter().map(|times| Timings::new(times).median()).collect(),
            spread: sums.spread(),
            fused: fused.map(|group| group.into_iter().map(OpId::index).collect()).collect(),
        }
    }
}
