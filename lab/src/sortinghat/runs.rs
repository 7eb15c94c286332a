//! Runs that only SortingHat's figures need: sums of loads, one schedule on several pairs, and what lanes do when.

use divvy_core::check::check;
use divvy_core::ids::DeviceId;
use divvy_core::plan::{BusItem, Landing, Plan};
use divvy_core::problem::Problem;
use divvy_core::score::{Lane, Score};
use divvy_io::assemble::put_together;
use divvy_search::{Budget, Request, solve};

use crate::figures::{Figures, LaneUse};

/// The time of each parameter to a device.
fn load_times(problem: &Problem, device: &str) -> Result<Vec<u64>, String> {
    let id = problem.hardware.device_named(device).ok_or_else(|| format!("there is no device `{device}`"))?;
    let times = problem.graph.params().map(|param| Some(problem.load_time(param, id)?.0.0));
    times.collect::<Option<_>>().ok_or_else(|| format!("no way leads from host memory to `{device}`"))
}

/// All weights to a device, one after the other.
pub(crate) fn loads(problem: &Problem, device: &str) -> Result<Figures, String> {
    let value_ps = Some(load_times(problem, device)?.iter().sum());
    Ok(Figures { value_ps, ops: problem.graph.op_count(), ..Figures::default() })
}

/// SortingHat's critical path: what is left with as many devices as there are ops, each with a bus of its own, where
/// an op's weights are loaded once it is its turn. It is no bound.
pub(crate) fn loaded_chain(problem: &Problem, device: &str) -> Result<Figures, String> {
    let loads = load_times(problem, device)?;
    let id = problem.hardware.device_named(device).ok_or_else(|| format!("there is no device `{device}`"))?;
    let graph = &problem.graph;
    let mut ends = vec![0u64; graph.op_count()];
    for &op in graph.order() {
        let time = problem.time(op, id).ok_or_else(|| format!("`{}` cannot run there", graph.op_name(op)))?;
        let load: u64 = graph.params_of(op).iter().map(|param| loads[param.index()]).sum();
        let before = graph.predecessors(op).map(|op| ends[op.index()]).max().unwrap_or(0);
        ends[op.index()] = before + load + time.0;
    }
    let value_ps = ends.into_iter().max();
    Ok(Figures { value_ps, ops: graph.op_count(), ..Figures::default() })
}

/// The same schedule on another pair of GPUs: with a limit on nodes, not on time, it is the same each time.
pub(crate) fn pair(problem: &Problem, second: &str, budget: &Budget) -> Result<Figures, String> {
    const NODES: u64 = 5;
    let mut spec = problem.to_spec();
    let [first, planned] = [0, 1].map(|i| problem.hardware.device_name(DeviceId(i)).to_owned());
    let others = problem.hardware.devices().map(|d| problem.hardware.device_name(d).to_owned());
    let others: Vec<String> = others.filter(|name| *name != first && *name != planned).collect();
    let to = problem.hardware.device_named(second).ok_or_else(|| format!("there is no `{second}`"))?;
    for op in problem.graph.ops() {
        spec.constraints.forbid.insert(problem.graph.op_name(op).to_owned(), others.clone());
    }
    let two = put_together(spec, problem.hardware.spec().clone(), problem.objective)
        .map_err(|errors| errors.to_string())?;
    let request = Request { planner: Some("efficient-mip".to_owned()), ..Request::default() };
    let budget = Budget { nodes: Some(NODES), ..budget.clone() };
    let solved = solve(&two, &request, &budget, &mut |_| {}).map_err(|refused| refused.message)?;
    let Some((Plan::ColdStart(mut plan), _)) = solved.outcome.best else {
        return Err("no schedule for two GPUs was found".to_owned());
    };
    let moved = |device: DeviceId| if device == DeviceId(1) { to } else { device };
    plan.order.swap(1, to.index());
    for landing in &mut plan.landings {
        (landing.via, landing.reader) = (moved(landing.via), moved(landing.reader));
    }
    for item in &mut plan.bus {
        if let BusItem::Load { to, .. } = item {
            *to = moved(*to);
        }
    }
    let score = check(problem, &Plan::ColdStart(plan)).map_err(|faults| faults[0].message.clone())?;
    let value_ps = Some(score.value.0);
    Ok(Figures { value_ps, ops: problem.graph.op_count(), ..Figures::default() })
}

/// When each device and each bus from host memory is busy, and what it carries.
pub(crate) fn lanes(problem: &Problem, plan: &Plan, score: &Score) -> Vec<LaneUse> {
    /// Gaps shorter than this part of the whole are not told apart.
    const PARTS: u64 = 400;
    let hardware = &problem.hardware;
    let devices = hardware.devices().map(|d| (Lane::Device(d), hardware.device_name(d)));
    let links =
        hardware.link_ids().map(|link| (Lane::Link(link), hardware.links()[link.index()].name.as_str()));
    let mut lanes = Vec::new();
    for (lane, name) in devices.chain(links) {
        let mut busy: Vec<(u64, u64)> = Vec::new();
        let mut sum = 0;
        let mut own: Vec<_> = score.trace.spans.iter().filter(|span| span.lane == lane).collect();
        own.sort_by_key(|span| (span.start, span.end));
        for span in own {
            let (start, end) = (span.start.0, span.end.0);
            sum += end - start;
            match busy.last_mut().filter(|(_, last)| start <= *last + score.value.0 / PARTS) {
                Some((_, last)) => *last = end.max(*last),
                None => busy.push((start, end)),
            }
        }
        let (mut landed_bytes, mut forwarded_bytes) = (0, 0);
        if let (Lane::Device(device), Plan::ColdStart(plan)) = (lane, plan) {
            let bytes = |param| problem.graph.param_bytes(param);
            for item in &plan.bus {
                if let BusItem::Load { param, to } = *item
                    && to == device
                {
                    landed_bytes += bytes(param);
                    let read = |l: &&Landing| (l.param, l.via) == (param, device) && l.reader != device;
                    forwarded_bytes += plan.landings.iter().filter(read).count() as u64 * bytes(param);
                }
            }
        }
        let is_device = matches!(lane, Lane::Device(_));
        if is_device || sum > 0 {
            let name = name.to_owned();
            lanes.push(LaneUse { name, is_device, busy_ps: sum, landed_bytes, forwarded_bytes, busy });
        }
    }
    lanes
}
