//! What moved between two plans: op by op, gathered by module, and what it did to each device.

use std::collections::{BTreeMap, BTreeSet};

use divvy::core::graph::Graph;
use divvy::core::ids::OpId;
use divvy::core::plan::Plan;
use divvy::core::units::{Time, show_count};
use divvy::io::export::layering::{Place, layering};
use divvy::io::plan_file::{PlanFile, Verdict};
use serde_json::{Value, json};

use divvy::core::units::counted;

/// An op that is not where it was. Devices are by name, with the number of inputs where an op is divided over several.
struct Move {
    op: String,
    module: String,
    from: String,
    to: String,
    /// How long it took before and takes now, over all its devices.
    times: [Time; 2],
}

/// Everything that moved.
pub(in crate::commands) struct Moves {
    moved: Vec<Move>,
    /// For each module how many ops it has.
    sizes: BTreeMap<String, usize>,
    /// Whether some device runs its ops in another order, though none moved.
    reordered: bool,
    /// Ops of which devices have as many inputs as before, but others.
    exchanged: usize,
}

impl Moves {
    pub(in crate::commands) fn between(before: &PlanFile, after: &PlanFile) -> Moves {
        let graph = &before.problem.graph;
        let modules = modules(graph);
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        modules.iter().for_each(|module| *sizes.entry(module.clone()).or_default() += 1);
        let [was, is] = [before, after].map(places);
        let mut moved: Vec<Move> = Vec::new();
        for op in graph.ops() {
            let there = after.problem.graph.op_named(graph.op_name(op)).expect("both have the same ops");
            let (was, is) = (&was[op.index()], &is[there.index()]);
            if was.0 != is.0 {
                moved.push(Move {
                    op: graph.op_name(op).to_owned(),
                    module: modules[op.index()].clone(),
                    from: was.0.clone(),
                    to: is.0.clone(),
                    times: [was.1, is.1],
                });
            }
        }
        let same_kind = before.plan.objective_name() == after.plan.objective_name()
            && before.problem.graph.spec() == after.problem.graph.spec();
        let reordered = moved.is_empty() && same_kind && before.plan != after.plan;
        let [was, is] = [before, after].map(inputs);
        let exchanged = was.iter().filter(|batch| !is.contains(batch)).map(|batch| &batch.0);
        let exchanged = if reordered { exchanged.collect::<BTreeSet<_>>().len() } else { 0 };
        Moves { moved, sizes, reordered, exchanged }
    }

    pub(in crate::commands) fn json(&self) -> Value {
        let one = |one: &Move| {
            json!({
                "op": one.op, "module": one.module, "from": one.from, "to": one.to,
                "time_before": one.times[0].as_us(), "time_after": one.times[1].as_us(),
            })
        };
        self.moved.iter().map(one).collect()
    }

    pub(in crate::commands) fn lines(&self, ops: usize, top: usize) -> Vec<String> {
        if self.moved.is_empty() {
            let differs = match self.exchanged {
                0 if self.reordered => ", but the order or the transfers differ".to_owned(),
                0 => String::new(),
                n => format!(", but devices have other inputs of {}", counted(n, "op")),
            };
            return vec![format!("no op moved{differs}")];
        }
        let mut lines =
            vec![format!("{} of {} moved", show_count(self.moved.len() as u128), counted(ops, "op"))];
        lines.extend(self.by_module(top));
        let mut longest: Vec<&Move> = self.moved.iter().collect();
        longest.sort_by_key(|one| std::cmp::Reverse(one.times[0].max(one.times[1])));
        let shown = &longest[..longest.len().min(top)];
        let width = shown.iter().map(|one| one.op.chars().count()).max().unwrap_or(0).clamp(2, 40);
        let way = |one: &Move| format!("{} -> {}", one.from, one.to);
        let ways = shown.iter().map(|one| way(one).chars().count()).max().unwrap_or(0).max("moved".len());
        lines.push(String::new());
        lines.push(format!("  {:width$}  {:ways$}  {:>10}  {:>10}", "op", "moved", "took", "takes"));
        for one in shown {
            lines.push(format!(
                "  {:width$}  {:ways$}  {:>10}  {:>10}",
                one.op,
                way(one),
                one.times[0],
                one.times[1]
            ));
        }
        if longest.len() > shown.len() {
            lines.push(format!("  and {} more; --top N shows more, --json all", longest.len() - shown.len()));
        }
        lines
    }

    /// Modules by how many of their ops moved, where there are fewer modules than ops.
    fn by_module(&self, top: usize) -> Vec<String> {
        // For each module, how many ops went which way.
        let mut modules: BTreeMap<&str, BTreeMap<(&str, &str), usize>> = BTreeMap::new();
        for one in &self.moved {
            *modules.entry(&one.module).or_default().entry((&one.from, &one.to)).or_default() += 1;
        }
        let mut sorted: Vec<_> = modules.into_iter().collect();
        sorted.sort_by_key(|(module, ways)| (std::cmp::Reverse(ways.values().sum::<usize>()), *module));
        let width =
            sorted.iter().map(|(module, _)| module.chars().count()).max().unwrap_or(0).max("module".len());
        let mut lines =
            vec![String::new(), format!("  {:width$}  {:>11}  from -> to", "module", "ops moved")];
        let hidden = sorted.len().saturating_sub(top);
        for (module, ways) in sorted.into_iter().take(top) {
            let count: usize = ways.values().sum();
            let ways: Vec<String> =
                ways.iter().map(|((from, to), n)| format!("{from} -> {to} ({n})")).collect();
            let all = self.sizes.get(module).copied().unwrap_or(count);
            lines.push(format!(
                "  {module:width$}  {:>11}  {}",
                format!("{count} of {all}"),
                ways.join(", ")
            ));
        }
        if hidden > 0 {
            lines.push(format!("  and {}", counted(hidden, "more module")));
        }
        lines
    }
}

/// Which inputs of which op are on which device.
fn inputs(file: &PlanFile) -> BTreeSet<(String, String, Vec<[u32; 2]>)> {
    let Plan::Batch(plan) = &file.plan else { return BTreeSet::new() };
    let (graph, hardware) = (&file.problem.graph, &file.problem.hardware);
    let batches = plan.batches.iter().map(|batch| {
        (
            graph.op_name(batch.op).to_owned(),
            hardware.device_name(batch.device).to_owned(),
            batch.inputs.clone(),
        )
    });
    batches.collect()
}

/// For each op where it runs, in words, and how long it takes.
fn places(file: &PlanFile) -> Vec<(String, Time)> {
    let problem = &file.problem;
    let mut places: Vec<Vec<(String, Time)>> = vec![Vec::new(); problem.graph.op_count()];
    let divided = matches!(file.plan, Plan::Batch(_));
    for (op, device, inputs) in file.plan.placements() {
        let name = problem.hardware.device_name(device);
        let name = if divided { format!("{name} x{inputs}") } else { name.to_owned() };
        let time = problem.cost(op, device, inputs).map_or(Time::ZERO, |cost| cost.time);
        places[op.index()].push((name, time));
    }
    let united = |mut list: Vec<(String, Time)>| {
        list.sort();
        let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
        (names.join(" + "), list.iter().map(|&(_, time)| time).sum())
    };
    places.into_iter().map(united).collect()
}

/// The module of each op: its layer where layers are numbered, else what the source says, else the first part of its name or of
/// what it reads.
fn modules(graph: &Graph) -> Vec<String> {
    if let Ok(found) = layering(graph) {
        let named = |place: &Place| match place {
            Place::Before => "before layers".to_owned(),
            Place::Layer(layer) => format!("layer {layer}"),
            Place::After => "after layers".to_owned(),
        };
        return found.place_of.iter().map(named).collect();
    }
    let first_part = |op: OpId| {
        let name = graph.op_name(op).trim_start_matches('/');
        let end = name.find(['.', '/']).or_else(|| name.find('_')).unwrap_or(name.len());
        name[..end].to_owned()
    };
    let mut modules = vec![String::new(); graph.op_count()];
    for &op in graph.order() {
        // A function between two modules, such as an activation, goes with what it reads.
        let read = graph.predecessors(op).next().filter(|_| graph.params_of(op).is_empty());
        modules[op.index()] = match (graph.op(op).module, read) {
            (Some(module), _) => format!("module {module}"),
            (None, Some(before)) => modules[before.index()].clone(),
            (None, None) => first_part(op),
        };
    }
    modules
}

/// What each device had to do before and has now: name, ops, load.
fn loads(
    before: &PlanFile,
    was: &Verdict,
    after: &PlanFile,
    is: &Verdict,
) -> Vec<(String, [usize; 2], [Time; 2])> {
    let mut loads: Vec<(String, [usize; 2], [Time; 2])> = Vec::new();
    for (side, file, verdict) in [(0, before, was), (1, after, is)] {
        let mut ops = vec![0; file.problem.hardware.device_count()];
        file.plan.placements().iter().for_each(|(_, device, _)| ops[device.index()] += 1);
        for device in file.problem.hardware.devices() {
            let name = file.problem.hardware.device_name(device);
            let place = loads.iter().position(|(other, ..)| other == name).unwrap_or_else(|| {
                loads.push((name.to_owned(), [0; 2], [Time::ZERO; 2]));
                loads.len() - 1
            });
            loads[place].1[side] = ops[device.index()];
            loads[place].2[side] = verdict.score.device_busy[device.index()];
        }
    }
    loads
}

pub(super) fn devices_json(before: &PlanFile, was: &Verdict, after: &PlanFile, is: &Verdict) -> Value {
    let one = |(name, ops, busy): (String, [usize; 2], [Time; 2])| json!({"device": name, "ops": ops, "busy": busy.map(Time::as_us)});
    loads(before, was, after, is).into_iter().map(one).collect()
}

pub(super) fn device_lines(before: &PlanFile, was: &Verdict, after: &PlanFile, is: &Verdict) -> Vec<String> {
    let mut loads = loads(before, was, after, is);
    loads.retain(|(_, ops, _)| *ops != [0, 0]);
    let width = loads.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0).max("device".len());
    let mut lines =
        vec![format!("  {:width$}  {:>7}  {:>7}  {:>10}  {:>10}", "device", "ops", "now", "busy", "now")];
    for (name, ops, busy) in loads {
        let ops = ops.map(|count| show_count(count as u128));
        lines
            .push(format!("  {name:width$}  {:>7}  {:>7}  {:>10}  {:>10}", ops[0], ops[1], busy[0], busy[1]));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy::core::ids::DeviceId;
    use divvy::core::plan::Batch;
    use divvy::io::file::load;

    fn plan(name: &str) -> PlanFile {
        let path = format!("{}/tests/plans/valid/{name}", env!("CARGO_MANIFEST_DIR"));
        PlanFile::read(&load(&path).unwrap()).unwrap()
    }

    #[test]
    fn a_plan_does_not_differ_from_itself() {
        let file = plan("latency.json");
        let moves = Moves::between(&file, &file);
        assert!(moves.moved.is_empty() && !moves.reordered);
        assert_eq!(moves.lines(4, 10), ["no op moved"]);
    }

    #[test]
    fn what_moved_is_named_with_both_places_and_times() {
        let (before, mut after) = (plan("stream.json"), plan("stream.json"));
        let Plan::Stream(stream) = &mut after.plan else { panic!("a stream") };
        let other = before.problem.hardware.devices().find(|device| *device != stream.device_of[0]).unwrap();
        let was = before.problem.hardware.device_name(stream.device_of[0]).to_owned();
        stream.device_of[0] = other;
        let moves = Moves::between(&before, &after);
        assert_eq!(moves.moved.len(), 1);
        let (one, is) = (&moves.moved[0], before.problem.hardware.device_name(other));
        assert_eq!((one.from.as_str(), one.to.as_str()), (was.as_str(), is));
        assert_eq!(Some(one.times[1]), before.problem.time(OpId(0), other));
    }

    /// Two halves that change places are not where they were, though every device has as many inputs.
    #[test]
    fn inputs_that_change_places_are_told() {
        let (mut before, mut after) = (plan("batch.json"), plan("batch.json"));
        let halves = |[first, second]: [u32; 2]| {
            [(first, [[0, 1]]), (second, [[2, 3]])].map(|(device, inputs)| Batch {
                op: OpId(3),
                device: DeviceId(device),
                inputs: inputs.to_vec(),
            })
        };
        for (file, devices) in [(&mut before, [0, 1]), (&mut after, [1, 0])] {
            let Plan::Batch(plan) = &mut file.plan else { panic!("batches") };
            plan.batches.truncate(3);
            plan.batches.extend(halves(devices));
        }
        let moves = Moves::between(&before, &after);
        assert_eq!(moves.lines(4, 10), ["no op moved, but devices have other inputs of 1 op"]);
    }
}
