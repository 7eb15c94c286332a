//! `trace`: the timeline in the Trace Event Format, for ui.perfetto.dev and chrome://tracing.
//!
//! Devices are the threads of one process, links those of another; where transfers on a link overlap, which they may
//! when links are mere delays, the link has several threads, since spans of one thread must not cross. Every op and
//! every transfer is a complete event (`ph` X) with times in microseconds; category `critical` marks what decides the
//! value. Flow events (`s`, `t`, `f`) lead from an op over the transfer of its result to the first op that reads it on
//! another device. For `stream` and `pipeline` the timeline is that of one request that has everything to itself.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, LinkId, TensorId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score, Span};
use divvy_core::units::Time;
use serde_json::{Value, json};

use super::origin;
use crate::critical_path::critical;

const DEVICES: u32 = 1;
const LINKS: u32 = 2;

/// The timeline of a plan as one JSON object.
pub fn trace(problem: &Problem, plan: &Plan, score: &Score) -> String {
    let threads = Threads::new(score);
    let marks = critical(problem, score);
    let mut events = threads.names(problem);
    for ((span, mark), place) in score.trace.spans.iter().zip(marks).zip(&threads.place_of) {
        events.push(complete_event(problem, span, mark, *place));
    }
    events.extend(flows(problem, score, &threads));
    let other = json!({
        "network": problem.graph.name(),
        "hardware": problem.hardware.name(),
        "objective": plan.objective_name(),
        "value_us": score.value.as_us(),
        "shows": if problem.objective.is_period() { "one request by itself" } else { "the whole schedule" },
    });
    let whole = json!({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other});
    format!("{whole}\n")
}

/// Process and thread of each span.
struct Threads {
    place_of: Vec<(u32, u32)>,
    /// The link of each thread of the links' process, by thread number from 1.
    links: Vec<LinkId>,
}

impl Threads {
    fn new(score: &Score) -> Threads {
        let spans = &score.trace.spans;
        let mut place_of = vec![(DEVICES, 0); spans.len()];
        let mut by_start: Vec<usize> = (0..spans.len()).collect();
        by_start.sort_by_key(|&i| (spans[i].start, spans[i].end, i));
        // The end of the last span on each thread of the links.
        let mut free: Vec<(LinkId, Time)> = Vec::new();
        for i in by_start {
            place_of[i] = match spans[i].lane {
                Lane::Device(device) => (DEVICES, device.0 + 1),
                Lane::Link(link) => {
                    let fits = |&(own, end): &(LinkId, Time)| own == link && end <= spans[i].start;
                    let thread = free.iter().position(fits).unwrap_or_else(|| {
                        free.push((link, Time::ZERO));
                        free.len() - 1
                    });
                    free[thread].1 = spans[i].end;
                    (LINKS, thread as u32 + 1)
                }
            };
        }
        Threads { place_of, links: free.into_iter().map(|(link, _)| link).collect() }
    }

    /// Names of processes and threads, and their order.
    fn names(&self, problem: &Problem) -> Vec<Value> {
        let meta = |name: &str, pid: u32, tid: u32, args: Value| json!({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args});
        let mut events = Vec::new();
        for (pid, name) in [(DEVICES, "devices"), (LINKS, "links")] {
            if pid == LINKS && self.links.is_empty() {
                continue;
            }
            let name = format!("{name} of {}", problem.hardware.name());
            events.push(meta("process_name", pid, 0, json!({"name": name})));
            events.push(meta("process_sort_index", pid, 0, json!({"sort_index": pid})));
        }
        let thread = |pid: u32, tid: u32, name: &str| {
            [
                meta("thread_name", pid, tid, json!({"name": name})),
                meta("thread_sort_index", pid, tid, json!({"sort_index": tid})),
            ]
        };
        for device in problem.hardware.devices() {
            events.extend(thread(DEVICES, device.0 + 1, problem.hardware.device_name(device)));
        }
        for (i, link) in self.links.iter().enumerate() {
            let name = &problem.hardware.links()[link.index()].name;
            let before = self.links[..i].iter().filter(|other| *other == link).count();
            let name = if before == 0 { name.clone() } else { format!("{name} ({})", before + 1) };
            events.extend(thread(LINKS, i as u32 + 1, &name));
        }
        events
    }
}

fn complete_event(problem: &Problem, span: &Span, mark: bool, (pid, tid): (u32, u32)) -> Value {
    let (graph, hardware) = (&problem.graph, &problem.hardware);
    let (name, category, args) = match span.what {
        Activity::Op(op, inputs) => {
            let mut args = json!({"kind": graph.op(op).kind, "inputs": inputs});
            if let Some(flops) = graph.op(op).flops {
                args["flops"] = json!(flops);
            }
            if let Some(cost) = hardware_device(span).and_then(|device| problem.cost(op, device, inputs)) {
                args["time"] = json!(origin(cost.origin));
            }
            (graph.op_name(op).to_owned(), "op", args)
        }
        Activity::Tensor(tensor, to) => {
            let args = json!({"bytes": graph.tensor_bytes(tensor), "to": hardware.device_name(to)});
            (graph.tensor_name(tensor).to_owned(), "transfer", args)
        }
        Activity::Param(param, to) => {
            let args = json!({"bytes": graph.param_bytes(param), "to": hardware.device_name(to)});
            (graph.param_name(param).to_owned(), "weights", args)
        }
        Activity::Call(piece) => (format!("call of piece {piece}"), "call", json!({"piece": piece})),
    };
    let category = if mark { format!("{category},critical") } else { category.to_owned() };
    json!({
        "ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid,
        "ts": span.start.as_us(), "dur": (span.end - span.start).as_us(), "args": args,
    })
}

fn hardware_device(span: &Span) -> Option<DeviceId> {
    match span.lane {
        Lane::Device(device) => Some(device),
        Lane::Link(_) => None,
    }
}

/// Arrows from an op over the transfer of its result to the first op that reads it on another device.
fn flows(problem: &Problem, score: &Score, threads: &Threads) -> Vec<Value> {
    let spans = &score.trace.spans;
    let mut runs: Vec<Vec<usize>> = vec![Vec::new(); problem.graph.op_count()];
    let mut transfers: HashMap<(TensorId, DeviceId), Vec<usize>> = HashMap::new();
    for (i, span) in spans.iter().enumerate() {
        match (span.what, span.lane) {
            (Activity::Op(op, _), Lane::Device(_)) => runs[op.index()].push(i),
            (Activity::Tensor(tensor, to), _) => transfers.entry((tensor, to)).or_default().push(i),
            _ => {}
        }
    }
    let mut events = Vec::new();
    let mut id = 0u64;
    for tensor in problem.graph.tensors() {
        let Some(producer) = problem.graph.producer(tensor) else { continue };
        let readers = problem.graph.consumers(tensor).iter().flat_map(|op| &runs[op.index()]);
        let mut first: HashMap<DeviceId, usize> = HashMap::new();
        for &reader in readers {
            let Some(device) = hardware_device(&spans[reader]) else { continue };
            let best = first.entry(device).or_insert(reader);
            if spans[reader].start < spans[*best].start {
                *best = reader;
            }
        }
        let mut first: Vec<(DeviceId, usize)> = first.into_iter().collect();
        first.sort_unstable();
        for (to, reader) in first {
            for &from in runs[producer.index()].iter().filter(|&&i| spans[i].lane != Lane::Device(to)) {
                let sent = transfers.get(&(tensor, to)).map_or(&[][..], Vec::as_slice);
                let sent: Vec<usize> =
                    sent.iter().copied().filter(|&i| spans[i].start == spans[from].end).collect();
                if spans[reader].start < spans[from].end {
                    continue;
                }
                id += 1;
                let name = problem.graph.tensor_name(tensor);
                let mut point = |phase: &str, span: usize, at: Time| {
                    let (pid, tid) = threads.place_of[span];
                    let mut event = json!({
                        "ph": phase, "id": id, "name": name, "cat": "flow", "pid": pid, "tid": tid, "ts": at.as_us(),
                    });
                    if phase == "f" {
                        event["bp"] = json!("e");
                    }
                    events.push(event);
                };
                // A point must lie inside the span that it belongs to.
                let middle = |span: &Span| Time(span.start.0 + (span.end.0 - span.start.0) / 2);
                point("s", from, middle(&spans[from]));
                sent.iter().take(1).for_each(|&i| point("t", i, spans[i].start));
                point("f", reader, spans[reader].start);
            }
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;

    const PLANS: [&str; 6] = [
        "latency.json",
        "latency-links-in-turn.json",
        "batch.json",
        "cold-start.json",
        "pipeline.json",
        "stream.json",
    ];

    fn events(name: &str) -> (Vec<Value>, Score) {
        let (file, score) = test_plans::plan(name);
        let text = trace(&file.problem, &file.plan, &score);
        let whole: Value = serde_json::from_str(&text).unwrap();
        (whole["traceEvents"].as_array().unwrap().clone(), score)
    }

    #[test]
    fn every_span_is_there_with_its_times_and_no_two_of_a_thread_cross() {
        for name in PLANS {
            let (events, score) = events(name);
            let mut spans: Vec<(u64, u64, f64, f64)> = events
                .iter()
                .filter(|event| event["ph"] == "X")
                .map(|e| {
                    let number = |key: &str| e[key].as_f64().unwrap();
                    (
                        e["pid"].as_u64().unwrap(),
                        e["tid"].as_u64().unwrap(),
                        number("ts"),
                        number("ts") + number("dur"),
                    )
                })
                .collect();
            assert_eq!(spans.len(), score.trace.spans.len(), "{name}");
            spans.sort_by(|a, b| a.partial_cmp(b).unwrap());
            for pair in spans.windows(2).filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
                assert!(pair[0].3 <= pair[1].2 + 1e-9, "{name}: {pair:?}");
            }
            assert!(events.iter().any(|event| event["cat"].as_str().is_some_and(|c| c.contains("critical"))));
        }
    }

    #[test]
    fn arrows_begin_and_end_inside_spans() {
        let mut arrows = 0;
        for name in PLANS {
            let (events, _) = events(name);
            for flow in events.iter().filter(|event| event["cat"] == "flow") {
                let inside = |e: &&Value| {
                    let (at, start) = (flow["ts"].as_f64().unwrap(), e["ts"].as_f64().unwrap());
                    (e["pid"] == flow["pid"] && e["tid"] == flow["tid"])
                        && (start..=start + e["dur"].as_f64().unwrap()).contains(&at)
                };
                let spans = events.iter().filter(|event| event["ph"] == "X").filter(inside).count();
                assert!(spans > 0, "{name}: {flow}");
                arrows += usize::from(flow["ph"] == "s");
            }
        }
        assert!(arrows > 1, "{arrows}");
    }

    #[test]
    fn transfers_that_overlap_get_threads_of_their_own() {
        let lane = Lane::Link(LinkId(0));
        let what = Activity::Tensor(TensorId(0), DeviceId(0));
        let span = |start, end| Span { lane, what, start: Time(start), end: Time(end) };
        let mut score = Score::default();
        score.trace.spans = vec![span(0, 10), span(5, 12), span(10, 20)];
        let threads = Threads::new(&score);
        assert_eq!(threads.place_of, [(LINKS, 1), (LINKS, 2), (LINKS, 1)]);
    }
}
