//! What one request is expected to take in pieces: what plans count, and what cuts cost the devices themselves.
//!
//! A `latency` plan counts a cut as a delay between devices. Where devices have one memory nothing is sent: a piece starts,
//! and changes the layout of what it reads and of what it leaves, in its device's own time, also for values that stay on
//! the device but cross to another piece. A profile measures that as the class's transfer bandwidth.

use std::collections::HashMap;

use divvy_core::problem::Problem;
use divvy_core::units::{Time, counted};

use crate::prepared::{Prepared, StageWork};

/// Expected times in microseconds.
#[derive(Default)]
pub(crate) struct Prediction {
    /// Of one request.
    pub(crate) request: f64,
    /// Of each stage.
    pub(crate) stages: Vec<f64>,
    /// The part of a stage's time that cuts make.
    pub(crate) cuts: Vec<f64>,
    /// Of each device of the program.
    pub(crate) devices: Vec<f64>,
}

/// What a request takes in these pieces; none where nothing was measured of cuts, or where they are no part of the pieces'
/// own times.
pub(crate) fn predict(prepared: &Prepared) -> Option<Prediction> {
    let problem = &prepared.problem;
    let measured = |&device: &_| problem.hardware.class(device).transfer_bandwidth.is_some();
    let in_one_memory = prepared.spec.links.is_empty() && prepared.devices.iter().all(measured);
    if prepared.is_stream || prepared.together > 1 || !in_one_memory {
        return None;
    }
    let stages = &prepared.spec.stages;
    let made = stages.iter().enumerate();
    let maker: HashMap<&str, usize> = made
        .flat_map(|(i, stage)| stage.model.outputs.iter().map(move |value| (value.as_str(), i)))
        .collect();
    let bytes = |value: &String| prepared.bytes.get(value).copied().unwrap_or(0);
    let is_read = |value: &&String| stages.iter().any(|stage| stage.model.inputs.contains(value));
    let starting = starting(problem);
    let mut prediction = Prediction::default();
    let mut timed = Vec::new();
    prediction.devices.resize(prepared.devices.len(), 0.0);
    for (i, stage) in stages.iter().enumerate() {
        let device = prepared.devices[stage.device];
        let StageWork { ops, size, .. } = &prepared.work[i];
        let costs = ops.iter().filter_map(|&op| problem.cost(op, device, *size));
        let ops: f64 = costs.map(|cost| cost.time.as_us()).sum();
        let read = stage.model.inputs.iter().filter(|value| maker.contains_key(value.as_str()));
        let left = stage.model.outputs.iter().filter(is_read);
        let copies = read.chain(left).map(|value| problem.copy_time(device, bytes(value)).as_us());
        // The start of one piece is part of the time of the whole model.
        let cuts = copies.sum::<f64>() + if i > 0 { starting.as_us() } else { 0.0 };
        let makers = stage.model.inputs.iter().filter_map(|value| maker.get(value.as_str()).copied());
        timed.push(Timed { device: stage.device, took: ops + cuts, after: makers.collect() });
        prediction.stages.push(ops + cuts);
        prediction.cuts.push(cuts);
        prediction.devices[stage.device] += ops + cuts;
    }
    prediction.request = finish(&timed, prepared.devices.len());
    prediction.account_for_contention(alone(prepared));
    Some(prediction)
}

impl Prediction {
    /// Op times are of devices that are all busy; those of a request work beside each other for a part of its time only.
    fn account_for_contention(&mut self, alone: f64) {
        let busy: f64 = self.devices.iter().sum();
        let others = (self.devices.len().max(2) - 1) as f64;
        let beside =
            if self.request > 0.0 { (busy / self.request - 1.0).clamp(0.0, others) / others } else { 0.0 };
        let share = alone + (1.0 - alone) * beside;
        let times = [&mut self.stages, &mut self.cuts, &mut self.devices].into_iter().flatten();
        times.chain([&mut self.request]).for_each(|time| *time *= share);
    }
}

/// What times are multiplied by on a device that works alone; the average over the devices.
fn alone(prepared: &Prepared) -> f64 {
    let hardware = &prepared.problem.hardware;
    let shares = prepared.devices.iter().map(|&device| hardware.class(device).alone.unwrap_or(1.0));
    shares.sum::<f64>() / prepared.devices.len().max(1) as f64
}

/// A piece: its device, how long it takes, and the earlier pieces that it waits for.
struct Timed {
    device: usize,
    took: f64,
    after: Vec<usize>,
}

/// When the last piece ends, if every device runs its pieces in this order.
fn finish(pieces: &[Timed], devices: usize) -> f64 {
    let (mut free, mut ends) = (vec![0.0_f64; devices], Vec::<f64>::new());
    for Timed { device, took, after } in pieces {
        let arrived = after.iter().filter_map(|&piece| ends.get(piece)).copied();
        let end = arrived.fold(free[*device], f64::max) + took;
        free[*device] = end;
        ends.push(end);
    }
    ends.into_iter().fold(0.0, f64::max)
}

/// What to say of a plan whose pieces are expected to take longer than one device takes for everything.
pub(crate) fn warning(prepared: &Prepared) -> Option<String> {
    let problem = &prepared.problem;
    let request = predict(prepared)?.request;
    let whole = |device| {
        let times =
            problem.graph.ops().map(|op| problem.time(op, device).filter(|_| problem.may_run(op, device)));
        times.map(|time| time.map(Time::as_us)).sum::<Option<f64>>().map(|time| (device, time))
    };
    let alone = problem.hardware.devices().filter_map(whole);
    let (device, alone) = alone.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, alone)| *alone < request)?;
    Some(format!(
        "with what cuts cost, {} {} expected to take {:.2} ms, and `{}` alone {:.2} ms\n  hint: plan with \
         --planner one-device",
        counted(prepared.spec.stages.len(), "piece"),
        if prepared.spec.stages.len() == 1 { "is" } else { "are" },
        request / 1e3,
        problem.hardware.device_name(device),
        alone / 1e3,
    ))
}

/// Until a piece is under way: what links between devices count before the first byte.
fn starting(problem: &Problem) -> Time {
    let devices = || problem.hardware.devices();
    let pairs = devices().flat_map(|from| devices().map(move |to| (from, to)));
    let latencies =
        pairs.filter_map(|(from, to)| problem.hardware.route(from, to)).map(|route| route.latency);
    latencies.max().unwrap_or(Time::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_work_by_themselves_take_less() {
        let times = |devices: &[f64], request| Prediction {
            request,
            devices: devices.to_vec(),
            ..Prediction::default()
        };
        // One after the other, side by side all the time, and half of it.
        for (devices, request, expected) in
            [([5.0, 5.0], 10.0, 9.0), ([10.0, 10.0], 10.0, 10.0), ([5.0, 10.0], 10.0, 9.5)]
        {
            let mut times = times(&devices, request);
            times.account_for_contention(0.9);
            assert!((times.request - expected).abs() < 1e-12, "{}", times.request);
            assert!((times.devices[0] / devices[0] - expected / request).abs() < 1e-12);
        }
    }

    #[test]
    fn pieces_wait_for_their_device_and_for_what_they_read() {
        let piece = |device, took, after: &[usize]| Timed { device, took, after: after.to_vec() };
        // 0 feeds 1 on the other device and 2 on its own; 3 joins them.
        let pieces = [piece(0, 2.0, &[]), piece(1, 5.0, &[0]), piece(0, 4.0, &[0]), piece(0, 1.0, &[1, 2])];
        assert_eq!(finish(&pieces, 2), 8.0);
        // On one device nothing overlaps.
        let alone = [piece(0, 2.0, &[]), piece(0, 5.0, &[0]), piece(0, 4.0, &[0]), piece(0, 1.0, &[1, 2])];
        assert_eq!(finish(&alone, 1), 12.0);
    }
}
