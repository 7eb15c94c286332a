//! The horizon: no sum of times or bytes in any plan may leave the range of its integer.
//!
//! The longest conceivable schedule runs every op on every device at its longest time, in a piece of its own, twice, and sends every tensor and
//! parameter over the worst route once for each pair of devices. If that fits half the range of [`crate::units::Time`], checked
//! additions never fail.

use crate::hardware::Hardware;
use crate::input_error::{Code, InputErrors};
use crate::units::{Bandwidth, Time};

use super::{Contention, Objective, Problem};

impl Problem {
    /// Reports a problem in which some sum of times or bytes could overflow.
    pub(super) fn check_horizon(&self, errors: &mut InputErrors) {
        let inputs = u128::from(self.objective.inputs());
        let devices = self.hardware.device_count() as u128;
        let graph = &self.graph;
        let held: u128 = graph.ops().map(|op| u128::from(graph.activation_bytes(op)) * inputs).sum();
        let work: u128 = (self.costs.iter().flat_map(|class| &class.costs).flatten().flatten())
            .map(|cost| u128::from(cost.time.0) * devices)
            .sum();
        let calls: u128 = self.hardware.devices().map(|device| u128::from(self.piece_cost(device).0)).sum();
        let work = work.saturating_add(calls.saturating_mul(graph.op_count() as u128));
        let worst = WorstRoute::of(&self.hardware);
        // Every consumer may wait for one transfer for each pair of devices, or for each input if there are fewer; together
        // they carry each input once. A tensor may also be sent to `output_at`, and count at both of its ends.
        let pairs = (devices * devices).min(inputs);
        let slowest = self.hardware.spec().classes.iter().filter_map(|class| class.transfer_bandwidth).min();
        let copied = |bytes: u128| {
            let time = slowest.map(|bandwidth| Time::of_many_bytes(bytes, Bandwidth(bandwidth)));
            time.map_or(0, |time| time.map_or(u128::MAX, |time| 2 * u128::from(time.0)))
        };
        let sent = |bytes: u64, times: u128| {
            let latency = worst.latency.saturating_mul(pairs);
            let bytes = u128::from(bytes) * inputs;
            let carried = worst.time_of(bytes).saturating_add(copied(bytes));
            latency.saturating_add(carried).saturating_mul(2 * times + 2).saturating_mul(worst.passes)
        };
        let tensors = graph.tensors().map(|t| sent(graph.tensor_bytes(t), graph.consumers(t).len() as u128));
        // Under `batch` weights are resident.
        let moves_weights = !matches!(self.objective, Objective::Batch { .. });
        let params = graph.params().filter(|_| moves_weights);
        let params = params.map(|p| sent(graph.param_bytes(p), graph.readers(p).len() as u128 + devices));
        let reads = graph.ops().filter_map(|op| graph.op(op).in_place_bytes).map(|bytes| sent(bytes, 0));
        let contended = match self.objective {
            Objective::ColdStart { contention: Contention::Paper, .. } => 2 * devices.max(2),
            _ => 1,
        };
        let horizon = tensors.chain(params).chain(reads).fold(work.saturating_mul(2), u128::saturating_add);
        let horizon = horizon.saturating_mul(contended);
        if horizon > u128::from(u64::MAX / 2) {
            errors.add(
                Code::Horizon,
                "problem",
                "the longest conceivable schedule exceeds 106 days, the range of divvy's picosecond clock",
                "look for a time, size or bandwidth in the wrong unit: times are in us, sizes in bytes",
            );
        }
        if held > u128::from(u64::MAX / 4) {
            errors.add(
                Code::Range,
                "graph.tensors.bytes",
                "the tensors of all inputs together are more bytes than divvy can add",
                "look for sizes in the wrong unit, or ask for fewer inputs",
            );
        }
    }
}

/// The worst figures of all routes: the least bandwidth, the largest latency, and how often a transfer passes one bus.
struct WorstRoute {
    slowest: Option<u128>,
    latency: u128,
    passes: u128,
}

impl WorstRoute {
    fn of(hardware: &Hardware) -> WorstRoute {
        let mut worst = WorstRoute { slowest: None, latency: 0, passes: 1 };
        let pairs = hardware.devices().flat_map(|a| hardware.devices().map(move |b| (a, b)));
        let between = pairs.filter_map(|(a, b)| hardware.route(a, b));
        for route in between.chain(hardware.devices().filter_map(|d| hardware.host_route(d))) {
            let bandwidth = route.bandwidth.map(|bandwidth| u128::from(bandwidth.0));
            worst.slowest = worst.slowest.into_iter().chain(bandwidth).min();
            worst.latency = worst.latency.max(u128::from(route.latency.0));
            let repeats = |link| route.links.iter().filter(|&&other| other == link).count() as u128;
            worst.passes = route.media().map(repeats).fold(worst.passes, u128::max);
        }
        worst
    }

    /// Picoseconds of some bytes at the least bandwidth, plus 2 for two roundings.
    fn time_of(&self, bytes: u128) -> u128 {
        self.slowest.map_or(0, |slowest| bytes.saturating_mul(1_000_000_000_000) / slowest + 2)
    }
}
