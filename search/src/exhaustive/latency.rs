//! All plans for `latency`: every placement, and for each the best order of ops and, where links take turns, of transfers.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::objectives::transfers::{self, NeededTransfer};
use divvy_core::plan::{LatencyPlan, Plan, Transfer};
use divvy_core::problem::{LinkUse, Problem};

use super::job_shop::{self, Job};
use super::rules::{self, Rules};
use super::steps::Steps;

/// Goes through them.
pub(super) fn search(problem: &Problem, links: LinkUse, steps: &mut Steps<'_, '_>) {
    let ops = problem.graph.op_count();
    let mut search = Search {
        problem,
        links,
        rules: Rules::new(problem),
        tails: rules::least_tails(problem, |op| problem.shortest_time(op).0),
        device_of: vec![DeviceId(0); ops],
        ends: vec![0; ops],
        loads: vec![0; problem.hardware.device_count()],
    };
    search.place(0, steps);
}

struct Search<'a> {
    problem: &'a Problem,
    links: LinkUse,
    rules: Rules<'a>,
    tails: Vec<u64>,
    device_of: Vec<DeviceId>,
    /// By op, the earliest end where no op waits for a device.
    ends: Vec<u64>,
    loads: Vec<u64>,
}

impl Search<'_> {
    fn place(&mut self, position: usize, steps: &mut Steps<'_, '_>) {
        let problem = self.problem;
        let Some(&op) = problem.graph.order().get(position) else {
            self.schedule(steps);
            return;
        };
        for (device, time) in problem.times_of(op) {
            if !steps.take() || steps.is_solved() {
                return;
            }
            let together = self.rules.with(op).is_none_or(|other| self.device_of[other.index()] == device);
            let Some(arrival) = self.arrival(op, device).filter(|_| together) else { continue };
            let limit = steps.limit();
            let is_worse = arrival + time.0 - problem.shortest_time(op).0 + self.tails[op.index()] >= limit
                || self.loads[device.index()] + time.0 >= limit;
            if is_worse && limit < u64::MAX {
                continue;
            }
            self.device_of[op.index()] = device;
            self.ends[op.index()] = arrival + time.0;
            self.loads[device.index()] += time.0;
            if self.rules.add(op, device, 1) {
                self.place(position + 1, steps);
            }
            self.rules.remove(op, device, 1);
            self.loads[device.index()] -= time.0;
        }
    }

    /// When all that an op reads can be on a device; none if something cannot get there.
    fn arrival(&self, op: OpId, device: DeviceId) -> Option<u64> {
        let graph = &self.problem.graph;
        let mut arrival = 0;
        for &tensor in graph.inputs(op) {
            let producer = graph.producer(tensor);
            let from = producer.map(|op| self.device_of[op.index()]).or(self.problem.constraints.input_at);
            let made = producer.map_or(0, |op| self.ends[op.index()]);
            let time =
                from.map_or(Some(0), |from| self.rules.travel(from, device, graph.tensor_bytes(tensor)))?;
            arrival = arrival.max(made + time);
        }
        Some(arrival)
    }

    /// Offers the best schedule of a placement, if it is the best so far.
    fn schedule(&self, steps: &mut Steps<'_, '_>) {
        let problem = self.problem;
        let Ok(moving) = transfers::needed(problem, &self.device_of) else { return };
        let mut machines = problem.hardware.device_count();
        let mut jobs: Vec<Job> = problem.graph.ops().map(|op| self.job(op)).collect();
        // Inputs of the network that are outputs elsewhere.
        let mut floor = 0;
        if self.links == LinkUse::InTurn {
            machines += problem.hardware.links().len();
            self.add_transfers(&moving, &mut jobs);
        } else {
            floor = self.add_delays(&moving, &mut jobs);
        }
        let limit = steps.limit();
        if floor >= limit {
            return;
        }
        let calls = rules::calls(problem);
        let Some(sequence) = job_shop::earliest(&jobs, machines, &calls, limit, steps) else { return };
        let mut lists = vec![Vec::new(); problem.hardware.device_count()];
        let mut transfers = Vec::new();
        for piece in sequence {
            match piece[0].checked_sub(problem.graph.op_count()) {
                None => lists[self.device_of[piece[0]].index()].push(piece),
                Some(transfer) => transfers.push(moving[transfer].what),
            }
        }
        let (order, cuts) = rules::cut(problem, lists);
        let order = order.into_iter().map(|list| list.into_iter().map(OpId::new).collect()).collect();
        steps.offer(Plan::Latency(LatencyPlan { order, cuts, transfers }));
    }

    /// An op as a job that waits for the ops it reads from.
    fn job(&self, op: OpId) -> Job {
        let device = self.device_of[op.index()];
        Job {
            duration: self.problem.time(op, device).map_or(0, |time| time.0),
            needs: self.problem.graph.predecessors(op).map(|before| (before.index(), 0)).collect(),
            machines: vec![device.index()],
            ..Job::default()
        }
    }

    /// Transfers as jobs that hold all links of their routes.
    fn add_transfers(&self, moving: &[NeededTransfer<'_>], jobs: &mut Vec<Job>) {
        let devices = self.problem.hardware.device_count();
        for NeededTransfer { what, route, time } in moving {
            let transfer = jobs.len();
            let producer = self.problem.graph.producer(what.tensor);
            for reader in self.readers(*what) {
                jobs[reader.index()].needs.push((transfer, 0));
            }
            jobs.push(Job {
                duration: time.0,
                needs: producer.map(|op| (op.index(), 0)).into_iter().collect(),
                machines: route.media().map(|link| devices + link.index()).collect(),
                ..Job::default()
            });
        }
    }

    /// Transfers as delays; how long those take that no op waits for.
    fn add_delays(&self, moving: &[NeededTransfer<'_>], jobs: &mut [Job]) -> u64 {
        let mut floor = 0;
        for NeededTransfer { what, time, .. } in moving {
            let time = time.0;
            let producer = self.problem.graph.producer(what.tensor);
            for reader in self.readers(*what) {
                match producer {
                    Some(op) => jobs[reader.index()].needs.push((op.index(), time)),
                    None => jobs[reader.index()].release = jobs[reader.index()].release.max(time),
                }
            }
            match producer {
                Some(op) => jobs[op.index()].after = jobs[op.index()].after.max(time),
                None => floor = floor.max(time),
            }
        }
        floor
    }

    fn readers(&self, what: Transfer) -> impl Iterator<Item = OpId> + '_ {
        let consumers = self.problem.graph.consumers(what.tensor).iter().copied();
        consumers.filter(move |op| self.device_of[op.index()] == what.to)
    }
}
