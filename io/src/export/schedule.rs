//! `schedule`: the queues of a cold start, for an executor with one thread for each bus and one for each device.
//!
//! A bus thread takes its items in order: it loads a parameter and marks it as landed, or, for an op that reads in place,
//! lets it begin and waits until it has run. A device thread takes its ops in order: it waits for the ops and landed
//! parameters that are named, and for its turn on the bus if it reads in place, copies what is named from peers, and runs
//! the op. Whoever follows this does what the plan says, and no thread ever waits for another in a circle, since the plan
//! passed the check. Times are the plan's own, for comparison.

use std::collections::{BTreeMap, HashMap, HashSet};

use divvy_core::ids::{DeviceId, LinkId, OpId, ParamId, TensorId};
use divvy_core::plan::{BusItem, ColdStartPlan, Plan};
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
    let queues = Queues::new(problem, plan, score);
    let devices: Vec<Value> = (0..plan.order.len())
        .map(|index| (DeviceId::new(index), queues.of_device(DeviceId::new(index))))
        .filter(|(_, queue)| !queue.is_empty())
        .map(|(device, queue)| json!({"device": problem.hardware.device_name(device), "queue": queue}))
        .collect();
    let whole = json!({
        "divvy": "schedule", "version": 1, "model": problem.graph.name(), "hardware": problem.hardware.name(),
        "finish_us": score.value.as_us(), "buses": queues.of_buses(), "devices": devices,
    });
    Ok(format!("{whole:#}\n"))
}

/// A plan, looked up by what the queues name.
struct Queues<'a> {
    problem: &'a Problem,
    plan: &'a ColdStartPlan,
    device_of: Vec<DeviceId>,
    op_times: HashMap<OpId, (Time, Time)>,
    load_times: HashMap<(ParamId, DeviceId), (Time, Time)>,
    /// Where a parameter lands for a device that reads it.
    via: HashMap<(ParamId, DeviceId), DeviceId>,
    read_in_place: HashSet<OpId>,
}

impl<'a> Queues<'a> {
    fn new(problem: &'a Problem, plan: &'a ColdStartPlan, score: &Score) -> Queues<'a> {
        let mut device_of = vec![DeviceId(0); problem.graph.op_count()];
        for (device, ops) in plan.order.iter().enumerate() {
            ops.iter().for_each(|op| device_of[op.index()] = DeviceId::new(device));
        }
        let (mut op_times, mut load_times) = (HashMap::new(), HashMap::new());
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
        let via =
            plan.landings.iter().map(|landing| ((landing.param, landing.reader), landing.via)).collect();
        let in_place = |item: &BusItem| match *item {
            BusItem::Read { op } => Some(op),
            BusItem::Load { .. } => None,
        };
        let read_in_place = plan.bus.iter().filter_map(in_place).collect();
        Queues { problem, plan, device_of, op_times, load_times, via, read_in_place }
    }

    fn op_times(&self, op: OpId) -> [f64; 2] {
        in_us(self.op_times[&op])
    }

    /// The queue of every bus, in the order of the links.
    fn of_buses(&self) -> Vec<Value> {
        let mut buses: BTreeMap<LinkId, Vec<Value>> = BTreeMap::new();
        for item in &self.plan.bus {
            let (device, entry) = self.bus_item(item);
            if let Some(bus) = bus_of(self.problem, device) {
                buses.entry(bus).or_default().push(entry);
            }
        }
        let links = self.problem.hardware.links();
        buses
            .into_iter()
            .map(|(bus, queue)| json!({"bus": links[bus.index()].name, "queue": queue}))
            .collect()
    }

    /// One item of a bus, and the device that it serves.
    fn bus_item(&self, item: &BusItem) -> (DeviceId, Value) {
        let (graph, hardware) = (&self.problem.graph, &self.problem.hardware);
        match *item {
            BusItem::Load { param, to } => {
                let landings = self.plan.landings.iter();
                let readers = landings.filter(|l| (l.param, l.via) == (param, to) && l.reader != to);
                let forwarded: Vec<&str> = readers.map(|l| hardware.device_name(l.reader)).collect();
                let entry = json!({
                    "load": graph.param_name(param), "bytes": graph.param_bytes(param), "to": hardware.device_name(to),
                    "forwarded_to": forwarded, "us": self.load_times.get(&(param, to)).copied().map(in_us),
                });
                (to, entry)
            }
            BusItem::Read { op } => {
                let device = self.device_of[op.index()];
                let entry = json!({
                    "read_in_place_by": graph.op_name(op), "on": hardware.device_name(device),
                    "us": self.op_times(op),
                });
                (device, entry)
            }
        }
    }

    /// The ops of a device in their order, each with what it waits for and what it copies.
    fn of_device(&self, here: DeviceId) -> Vec<Value> {
        let (graph, hardware) = (&self.problem.graph, &self.problem.hardware);
        let mut tensors: HashSet<TensorId> = HashSet::new();
        let mut params: HashSet<ParamId> = HashSet::new();
        let in_host = hardware.host_route(here).is_some_and(|route| route.bandwidth.is_none());
        let mut queue = Vec::new();
        for &op in &self.plan.order[here.index()] {
            let (mut copies, mut waits, mut landed) = (Vec::new(), Vec::new(), Vec::new());
            for &tensor in graph.inputs(op) {
                let from = match graph.producer(tensor) {
                    Some(producer) => Some(self.device_of[producer.index()]),
                    None => self.problem.constraints.input_at,
                };
                let Some(from) = from.filter(|&from| from != here) else { continue };
                waits.extend(graph.producer(tensor).map(|producer| graph.op_name(producer)));
                if tensors.insert(tensor) {
                    let tensor = graph.tensor_name(tensor);
                    copies.push(json!({"tensor": tensor, "from": hardware.device_name(from)}));
                }
            }
            let in_place = self.read_in_place.contains(&op);
            for &param in graph.params_of(op).iter().filter(|_| !in_place && !in_host) {
                let (name, from) = (graph.param_name(param), self.via[&(param, here)]);
                landed.push(json!({"param": name, "at": hardware.device_name(from)}));
                if params.insert(param) && from != here {
                    copies.push(json!({"param": name, "from": hardware.device_name(from)}));
                }
            }
            waits.sort_unstable();
            waits.dedup();
            queue.push(json!({
                "op": graph.op_name(op), "waits_for": waits, "landed": landed, "copies": copies,
                "reads_in_place": in_place, "us": self.op_times(op),
            }));
        }
        queue
    }
}

fn in_us((start, end): (Time, Time)) -> [f64; 2] {
    [start.as_us(), end.as_us()]
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
