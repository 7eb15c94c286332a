//! What decides the value of a plan: the critical path of a schedule, or everything on the busiest resource.

use std::collections::{HashMap, HashSet};

use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score, Span};
use divvy_core::units::Time;

/// For each span of the timeline whether it decides the value.
///
/// In a schedule these are spans that follow each other without a gap from the beginning to the end, each waiting for the
/// one before, because it needs its result or its place. Of several such chains one is given. In a stream or pipeline they
/// are all spans of the devices and links whose load is the period.
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
    for span in longest_chain(problem, spans) {
        marked[span] = true;
    }
    marked
}

/// The chain that ends last, from its end to its beginning.
fn longest_chain(problem: &Problem, spans: &[Span]) -> Vec<usize> {
    let mut ending: HashMap<Time, Vec<usize>> = HashMap::new();
    for (i, span) in spans.iter().enumerate() {
        ending.entry(span.end).or_default().push(i);
    }
    let Some(last) = (0..spans.len()).max_by_key(|&i| (spans[i].end, std::cmp::Reverse(i))) else {
        return Vec::new();
    };
    let mut seen: HashSet<usize> = HashSet::from([last]);
    let mut chain = vec![last];
    while let Some(&now) = chain.last() {
        if spans[now].start == Time::ZERO {
            return chain;
        }
        let causes = ending.get(&spans[now].start).map_or(&[][..], Vec::as_slice);
        let next =
            causes.iter().find(|&&i| !seen.contains(&i) && causes_start(problem, &spans[i], &spans[now]));
        match next {
            Some(&next) => {
                seen.insert(next);
                chain.push(next);
            }
            // Spans without length can lead nowhere.
            None => {
                chain.pop();
            }
        }
    }
    vec![last]
}

/// Whether `later`, which starts when `earlier` ends, waited for it.
fn causes_start(problem: &Problem, earlier: &Span, later: &Span) -> bool {
    let graph = &problem.graph;
    if earlier.lane == later.lane {
        return true;
    }
    match (earlier.what, later.what) {
        (Activity::Op(before, _), Activity::Op(after, _)) => {
            // An op that reads in place holds its device and its bus together.
            before == after || graph.predecessors(after).any(|op| op == before)
        }
        (Activity::Tensor(tensor, to), Activity::Op(op, _)) => {
            later.lane == Lane::Device(to) && graph.inputs(op).contains(&tensor)
        }
        (Activity::Param(param, _), Activity::Op(op, _)) => graph.params_of(op).contains(&param),
        (Activity::Op(op, _), Activity::Tensor(tensor, _)) => graph.producer(tensor) == Some(op),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::samples;

    #[test]
    fn a_schedule_has_a_chain_without_gaps_from_beginning_to_end() {
        for name in ["latency.json", "latency-links-in-turn.json", "batch.json", "cold-start.json"] {
            let (file, score) = samples::plan(name);
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
            let (file, score) = samples::plan(name);
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
