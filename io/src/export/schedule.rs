//! `schedule`: the queues of a cold start, for an executor with one thread for each bus and one for each device.
//!
//! A bus thread takes its items in order: it loads a parameter and marks it as landed, or, for an op that reads in place,
//! lets it begin and waits until it has run. A device thread takes its ops in order: it waits for the ops and landed
//! parameters that are named, and for its turn on the bus if it reads in place, copies what is named from peers, and runs
//! the op. Whoever follows this does what the plan says, and no thread ever waits for another in a circle, since the plan
//! passed the check. Times are the plan's own, for comparison.

use std::collections::{BTreeMap, HashMap, HashSet};

use divvy_core::ids::{DeviceId, LinkId, OpId, ParamId, TensorId};
use divvy_core::plan::{BusItem, Plan};
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score};
use divvy_core::units::Time;
use serde_json::{Value, json};

use super::Refusal;

/// The queues of a cold-start plan as JSON.
pub fn schedule(problem: &Problem, plan: &Plan, score: &Score) -> Result<String, Refusal> {
    let Plan::ColdStart(plan) = plan else {
        return Err(Refusal::new(
            format!("a plan for {} has no queue of loads", plan.objective_name()),
            "plan with --objective cold-start, or export a trace",
        ));
    };
    let (graph, hardware) = (&problem.graph, &problem.hardware);
    let mut device_of = vec![DeviceId(0); graph.op_count()];
    for (device, ops) in plan.order.iter().enumerate() {
        ops.iter().for_each(|op| device_of[op.index()] = DeviceId::new(device));
    }
    let mut op_times: HashMap<OpId, (Time, Time)> = HashMap::new();
    let mut load_times: HashMap<(ParamId, DeviceId), (Time, Time)> = HashMap::new();
    for span in &score.trace.spans {
        match (span.lane, span.what) {
            (Lane::Device(_), Activity::Op(op, _)) => {
                op_times.insert(op, (span.start, span.end));
            }
            (Lane::Link(_), Activity::Param(param, to)) => {
                load_times.insert((param, to), (span.start, span.end));
            }
            _ => {}
        }
    }
    let times = |(start, end): (Time, Time)| [start.as_us(), end.as_us()];
    let via: HashMap<(ParamId, DeviceId), DeviceId> =
        plan.landings.iter().map(|landing| ((landing.param, landing.reader), landing.via)).collect();
    let mut buses: BTreeMap<LinkId, Vec<Value>> = BTreeMap::new();
    let mut in_place: HashSet<OpId> = HashSet::new();
    for item in &plan.bus {
        let (device, entry) = match *item {
            BusItem::Load { param, to } => {
                let readers =
                    plan.landings.iter().filter(|l| (l.param, l.via) == (param, to) && l.reader != to);
                let forwarded: Vec<&str> = readers.map(|l| hardware.device_name(l.reader)).collect();
                let entry = json!({
                    "load": graph.param_name(param), "bytes": graph.param_bytes(param), "to": hardware.device_name(to),
                    "forwarded_to": forwarded, "us": load_times.get(&(param, to)).copied().map(times),
                });
                (to, entry)
            }
            BusItem::Read { op } => {
                in_place.insert(op);
                let device = device_of[op.index()];
                let entry = json!({
                    "read_in_place_by": graph.op_name(op), "on": hardware.device_name(device),
                    "us": times(op_times[&op]),
                });
                (device, entry)
            }
        };
        if let Some(bus) = bus_of(problem, device) {
            buses.entry(bus).or_default().push(entry);
        }
    }
    let buses: Vec<Value> = (buses.into_iter())
        .map(|(bus, queue)| json!({"bus": hardware.links()[bus.index()].name, "queue": queue}))
        .collect();
    let mut devices = Vec::new();
    for (index, ops) in plan.order.iter().enumerate() {
        let here = DeviceId::new(index);
        let mut tensors: HashSet<TensorId> = HashSet::new();
        let mut params: HashSet<ParamId> = HashSet::new();
        let in_host = hardware.host_route(here).is_some_and(|route| route.bandwidth.is_none());
        let queue: Vec<Value> = (ops.iter())
            .map(|&op| {
                let mut copies = Vec::new();
                let mut waits: Vec<&str> = Vec::new();
                let mut landed = Vec::new();
                for &tensor in graph.inputs(op) {
                    let from = match graph.producer(tensor) {
                        Some(producer) => Some(device_of[producer.index()]),
                        None => problem.constraints.input_at,
                    };
                    let Some(from) = from.filter(|&from| from != here) else { continue };
                    waits.extend(graph.producer(tensor).map(|producer| graph.op_name(producer)));
                    if tensors.insert(tensor) {
                        copies.push(
                            json!({"tensor": graph.tensor_name(tensor), "from": hardware.device_name(from)}),
                        );
                    }
                }
                let reads = !in_place.contains(&op) && !in_host;
                for &param in graph.params_of(op).iter().filter(|_| reads) {
                    let from = via[&(param, here)];
                    landed.push(json!({"param": graph.param_name(param), "at": hardware.device_name(from)}));
                    if params.insert(param) && from != here {
                        copies.push(
                            json!({"param": graph.param_name(param), "from": hardware.device_name(from)}),
                        );
                    }
                }
                waits.sort_unstable();
                waits.dedup();
                json!({
                    "op": graph.op_name(op), "waits_for": waits, "landed": landed, "copies": copies,
                    "reads_in_place": in_place.contains(&op), "us": times(op_times[&op]),
                })
            })
            .collect();
        if !queue.is_empty() {
            devices.push(json!({"device": hardware.device_name(here), "queue": queue}));
        }
    }
    let whole = json!({
        "divvy": "schedule", "version": 1, "model": graph.name(), "hardware": hardware.name(),
        "finish_us": score.value.as_us(), "buses": buses, "devices": devices,
    });
    Ok(format!("{whole:#}\n"))
}

/// The bus of a device: the link on its way from host memory that most devices share.
pub(crate) fn bus_of(problem: &Problem, device: DeviceId) -> Option<LinkId> {
    let hardware = &problem.hardware;
    let sharing = |link: LinkId| {
        let ways = hardware.devices().filter_map(|other| hardware.host_route(other));
        ways.filter(|way| way.links.contains(&link)).count()
    };
    hardware.host_route(device)?.media().max_by_key(|&link| (sharing(link), std::cmp::Reverse(link)))
}

#[cfg(test)]
mod tests {
    use super::super::test_plans;
    use super::*;

    /// Follows the queues with nothing but what the file says: each thread does its next item once it may.
    fn follow(text: &str) -> usize {
        let whole: Value = serde_json::from_str(text).unwrap();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut queues: Vec<Vec<Value>> = Vec::new();
        for kind in ["buses", "devices"] {
            queues.extend(list(&whole[kind]).iter().map(|thread| list(&thread["queue"])));
        }
        let mut done: HashSet<String> = HashSet::new();
        let mut next = vec![0; queues.len()];
        let mut ops = 0;
        loop {
            let mut moved = false;
            let at_bus: HashSet<String> = (queues.iter().zip(&next))
                .filter_map(|(queue, &next)| Some(queue.get(next)?["read_in_place_by"].as_str()?.to_owned()))
                .collect();
            for (queue, next) in queues.iter().zip(&mut next) {
                let Some(item) = queue.get(*next) else { continue };
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let (may, what) = if item["load"].is_string() {
                    (true, format!("{} at {}", text(&item["load"]), text(&item["to"])))
                } else if item["read_in_place_by"].is_string() {
                    (done.contains(&text(&item["read_in_place_by"])), String::new())
                } else {
                    let made = list(&item["waits_for"]).iter().all(|op| done.contains(&text(op)));
                    let landed =
                        |l: &Value| done.contains(&format!("{} at {}", text(&l["param"]), text(&l["at"])));
                    let turn = item["reads_in_place"] == false || at_bus.contains(&text(&item["op"]));
                    let may = made && turn && list(&item["landed"]).iter().all(landed);
                    ops += usize::from(may);
                    (may, text(&item["op"]))
                };
                if may {
                    done.insert(what);
                    *next += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        assert!(queues.iter().zip(&next).all(|(queue, next)| queue.len() == *next), "a thread is stuck");
        ops
    }

    #[test]
    fn whoever_follows_the_queues_runs_every_op() {
        let (file, score) = test_plans::plan("cold-start.json");
        let text = schedule(&file.problem, &file.plan, &score).unwrap();
        assert_eq!(follow(&text), file.problem.graph.op_count());
    }

    #[test]
    fn other_objectives_have_no_queue_of_loads() {
        let (file, score) = test_plans::plan("latency.json");
        let refusal = schedule(&file.problem, &file.plan, &score).unwrap_err();
        assert!(refusal.fix.contains("cold-start"));
    }
}
