//! What decides the value of a plan: the critical path of a schedule, or everything on the busiest resource.
//!
//! A critical path is a chain of calls, ops and transfers, each of which begins when the one before ends, from the last thing
//! that happens back to the first. It is read off the timeline: whatever ended to the picosecond when something began, and
//! had to end first (its data came from there, or it held the same device or bus), is why that did not begin earlier.
//! Where several did, data come before devices, and long before short.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::score::{Activity, Lane, Score, Span, Trace};
use divvy_core::units::Time;

/// For each span of the timeline whether it decides the value: those of the critical path of a schedule, and of a stream
/// or pipeline those of all devices and links whose load is the period.
pub fn critical(problem: &Problem, score: &Score) -> Vec<bool> {
    let spans = &score.trace.spans;
    if problem.objective.is_period() {
        let busy = |lane: Lane| match lane {
            Lane::Device(device) => score.device_busy[device.index()],
            Lane::Link(link) => score.link_busy[link.index()],
        };
        return spans.iter().map(|span| busy(span.lane) == score.value).collect();
    }
    let mut marked = vec![false; spans.len()];
    critical_path(problem, score).into_iter().flatten().for_each(|span| marked[span] = true);
    marked
}

/// One thing that happens, on one lane or on several at once (a transfer over several links).
struct Task {
    what: Activity,
    start: Time,
    end: Time,
    /// Positions in the trace; that of an op on its device comes first.
    spans: Vec<usize>,
}

/// The critical path from first to last, each step of it as positions in the trace.
///
/// Things that take no time can lead nowhere: then the next best cause is followed. If none leads to the beginning (inputs
/// that are still on their way are on no lane), it is the chain that reaches back furthest.
pub fn critical_path(problem: &Problem, score: &Score) -> Vec<Vec<usize>> {
    let tasks = tasks(&score.trace);
    let waits = Waits::new(problem, score);
    let mut ending: HashMap<Time, Vec<usize>> = HashMap::new();
    for (i, task) in tasks.iter().enumerate() {
        ending.entry(task.end).or_default().push(i);
    }
    let Some(last) = (0..tasks.len()).max_by_key(|&i| (tasks[i].end, tasks[i].end - tasks[i].start)) else {
        return Vec::new();
    };
    // The best cause comes last, to be taken first.
    let causes = |now: usize| -> Vec<usize> {
        let candidates = ending.get(&tasks[now].start).into_iter().flatten().copied();
        let mut causes: Vec<_> = candidates
            .filter_map(|i| {
                let strength = waits.strength(&tasks[i], &tasks[now])?;
                let length = tasks[i].end - tasks[i].start;
                Some((length > Time::ZERO, strength, length, Reverse(i)))
            })
            .collect();
        causes.sort_unstable();
        causes.into_iter().map(|(.., Reverse(i))| i).collect()
    };
    let mut chain = vec![(last, causes(last))];
    let mut furthest = vec![last];
    let mut seen = HashSet::from([last]);
    while let Some((now, untried)) = chain.last_mut() {
        if tasks[*now].start < tasks[furthest[furthest.len() - 1]].start {
            furthest = chain.iter().map(|(task, _)| *task).collect();
        } else if tasks[*now].start == Time::ZERO {
            break;
        } else if let Some(before) = untried.pop() {
            if seen.insert(before) {
                chain.push((before, causes(before)));
            }
        } else {
            chain.pop();
        }
    }
    furthest.into_iter().rev().map(|i| tasks[i].spans.clone()).collect()
}

/// Spans that are one thing on several lanes, put together.
fn tasks(trace: &Trace) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut known: HashMap<(u8, u32, DeviceId, Time, Time), usize> = HashMap::new();
    // An op that reads its weights in place is on its device, and on the bus at the same time.
    let mut device_of: HashMap<(OpId, Time), DeviceId> = HashMap::new();
    for span in &trace.spans {
        if let (Lane::Device(device), Activity::Op(op, _)) = (span.lane, span.what) {
            device_of.insert((op, span.start), device);
        }
    }
    for (i, span) in trace.spans.iter().enumerate() {
        let (kind, id, device) = match (span.what, span.lane) {
            (Activity::Op(op, _), Lane::Device(device)) => (0, op.0, device),
            (Activity::Op(op, _), Lane::Link(_)) => {
                (0, op.0, device_of.get(&(op, span.start)).copied().unwrap_or(DeviceId(0)))
            }
            (Activity::Tensor(tensor, to), _) => (1, tensor.0, to),
            (Activity::Param(param, to), _) => (2, param.0, to),
            (Activity::Call(piece), _) => (3, piece, DeviceId(0)),
        };
        let next = tasks.len();
        let at = *known.entry((kind, id, device, span.start, span.end)).or_insert(next);
        match tasks.get_mut(at) {
            Some(task) if matches!(span.lane, Lane::Device(_)) => task.spans.insert(0, i),
            Some(task) => task.spans.push(i),
            None => tasks.push(Task { what: span.what, start: span.start, end: span.end, spans: vec![i] }),
        }
    }
    tasks
}

/// Why things begin when they do: a piece waits for the data of all its ops, and its values leave when its last op ends.
struct Waits<'a> {
    problem: &'a Problem,
    score: &'a Score,
    piece_of: HashMap<(OpId, DeviceId), usize>,
}

impl<'a> Waits<'a> {
    fn new(problem: &'a Problem, score: &'a Score) -> Waits<'a> {
        let pieces = score.pieces.iter().enumerate();
        let piece_of = pieces.flat_map(|(i, piece)| piece.ops.iter().map(move |&op| ((op, piece.device), i)));
        Waits { problem, score, piece_of: piece_of.collect() }
    }

    fn device(&self, task: &Task) -> Option<DeviceId> {
        task.spans.iter().find_map(|&i| match self.score.trace.spans[i].lane {
            Lane::Device(device) => Some(device),
            Lane::Link(_) => None,
        })
    }

    fn piece(&self, op: OpId, task: &Task) -> Option<usize> {
        self.piece_of.get(&(op, self.device(task)?)).copied()
    }

    /// Whether a piece cannot begin before something ends: it reads what that brings, or what the piece that it is part of makes.
    fn needs(&self, piece: usize, earlier: &Task) -> bool {
        let graph = &self.problem.graph;
        let mut ops = self.score.pieces[piece].ops.iter().copied();
        match earlier.what {
            Activity::Op(before, _) => {
                let Some(made) = self.piece(before, earlier) else { return false };
                let made = &self.score.pieces[made];
                piece != self.piece_of[&(before, made.device)]
                    && ops.any(|op| graph.predecessors(op).any(|producer| made.ops.contains(&producer)))
            }
            Activity::Tensor(tensor, to) => {
                self.score.pieces[piece].device == to && ops.any(|op| graph.inputs(op).contains(&tensor))
            }
            Activity::Param(param, _) => ops.any(|op| graph.params_of(op).contains(&param)),
            Activity::Call(_) => false,
        }
    }

    /// Whether `later` had to wait for `earlier`: 2 for its data, 1 for what both hold; none if it had not to.
    fn strength(&self, earlier: &Task, later: &Task) -> Option<u8> {
        let graph = &self.problem.graph;
        let data = match (later.what, earlier.what) {
            (Activity::Call(piece), _) => self.needs(piece as usize, earlier),
            (Activity::Op(op, _), before) => match self.piece(op, later) {
                Some(piece) if self.score.pieces[piece].ops[0] == op => {
                    before == Activity::Call(piece as u32) || self.needs(piece, earlier)
                }
                _ => false,
            },
            (Activity::Tensor(tensor, _), Activity::Op(op, _)) => {
                let made = self.piece(op, earlier).zip(graph.producer(tensor));
                made.is_some_and(|(piece, producer)| self.score.pieces[piece].ops.contains(&producer))
            }
            _ => false,
        };
        if data {
            return Some(2);
        }
        let links_wait = matches!(
            self.problem.objective,
            Objective::Latency { links: LinkUse::InTurn } | Objective::ColdStart { .. }
        );
        let held = |span: &Span| links_wait || matches!(span.lane, Lane::Device(_));
        let lanes = |task: &Task| -> Vec<Lane> {
            let spans = task.spans.iter().map(|&i| self.score.trace.spans[i]);
            spans.filter(held).map(|span| span.lane).collect()
        };
        let shared = lanes(earlier).iter().any(|lane| lanes(later).contains(lane));
        shared.then_some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;

    #[test]
    fn a_schedule_has_a_chain_without_gaps_from_beginning_to_end() {
        for name in ["latency.json", "latency-links-in-turn.json", "batch.json", "cold-start.json"] {
            let (file, score) = test_plans::plan(name);
            let marks = critical(&file.problem, &score);
            let mut chain: Vec<&Span> = score
                .trace
                .spans
                .iter()
                .zip(&marks)
                .filter(|(_, mark)| **mark)
                .map(|(span, _)| span)
                .collect();
            chain.sort_by_key(|span| (span.start, span.end));
            assert_eq!(chain.first().map(|span| span.start), Some(Time::ZERO), "{name}");
            assert_eq!(chain.last().map(|span| span.end), Some(score.value), "{name}");
            assert!(chain.windows(2).all(|pair| pair[0].end == pair[1].start), "{name}: {chain:?}");
        }
    }

    #[test]
    fn a_stream_has_its_busiest_resource() {
        for name in ["stream.json", "pipeline.json"] {
            let (file, score) = test_plans::plan(name);
            let marks = critical(&file.problem, &score);
            assert!(marks.iter().any(|&mark| mark), "{name}");
            for (span, mark) in score.trace.spans.iter().zip(marks) {
                if let Lane::Device(device) = span.lane {
                    assert_eq!(mark, score.device_busy[device.index()] == score.value, "{name}");
                }
            }
        }
    }
}
