//! Earliest starts: the longest path through tasks with durations, release times, and precedences with delays.
//!
//! A resource that takes its tasks one at a time in a given order is a chain of precedences. Time and memory are linear in
//! tasks and precedences. Also here: the rule `overlap`.

use crate::problem::Problem;
use crate::score::{Lane, Span, Trace};
use crate::units::Time;
use crate::violation::{Rule, Violations};

/// Tasks and their precedences.
#[derive(Default)]
pub(super) struct TaskGraph {
    tasks: Vec<Task>,
    precedences: Vec<(u32, u32, Time)>,
}

#[derive(Clone, Copy)]
struct Task {
    duration: Time,
    release: Time,
}

impl TaskGraph {
    /// Adds a task and returns its number; numbers count from 0.
    pub(super) fn task(&mut self, duration: Time, release: Time) -> u32 {
        self.tasks.push(Task { duration, release });
        u32::try_from(self.tasks.len() - 1).expect("fewer than 2^32 tasks")
    }

    /// `later` starts no earlier than `delay` after the end of `earlier`.
    pub(super) fn after(&mut self, earlier: u32, later: u32, delay: Time) {
        self.precedences.push((earlier, later, delay));
    }

    /// The duration of a task.
    pub(super) fn duration(&self, task: u32) -> Time {
        self.tasks[task as usize].duration
    }

    /// The earliest starts; or, if the precedences have a cycle, the tasks that never start.
    pub(super) fn earliest_starts(&self) -> Result<Vec<Time>, Vec<u32>> {
        let count = self.tasks.len();
        let mut first = vec![0u32; count + 1];
        let mut waiting = vec![0u32; count];
        for &(earlier, later, _) in &self.precedences {
            first[earlier as usize + 1] += 1;
            waiting[later as usize] += 1;
        }
        for i in 0..count {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let mut followers = vec![(0u32, Time::ZERO); self.precedences.len()];
        for &(earlier, later, delay) in &self.precedences {
            followers[next[earlier as usize] as usize] = (later, delay);
            next[earlier as usize] += 1;
        }
        let mut starts: Vec<Time> = self.tasks.iter().map(|task| task.release).collect();
        let mut ready: Vec<u32> = (0..count as u32).filter(|&task| waiting[task as usize] == 0).collect();
        let mut done = 0;
        while let Some(task) = ready.pop() {
            done += 1;
            let end = starts[task as usize] + self.duration(task);
            let range = first[task as usize] as usize..first[task as usize + 1] as usize;
            for &(later, delay) in &followers[range] {
                let start = &mut starts[later as usize];
                *start = (*start).max(end + delay);
                waiting[later as usize] -= 1;
                if waiting[later as usize] == 0 {
                    ready.push(later);
                }
            }
        }
        if done == count {
            return Ok(starts);
        }
        Err((0..count as u32).filter(|&task| waiting[task as usize] > 0).collect())
    }
}

/// Rule `overlap`: a device does one thing at a time, and so does a link if `links_too`.
pub(super) fn check_lanes(problem: &Problem, trace: &Trace, links_too: bool, violations: &mut Violations) {
    let mut spans: Vec<&Span> =
        trace.spans.iter().filter(|span| links_too || matches!(span.lane, Lane::Device(_))).collect();
    spans.sort_by_key(|span| (span.lane, span.start, span.end));
    for pair in spans.windows(2) {
        let same = pair[0].lane == pair[1].lane && pair[0].what != pair[1].what;
        if same && pair[1].start < pair[0].end {
            let place = match pair[1].lane {
                Lane::Device(device) => problem.hardware.device_name(device).to_owned(),
                Lane::Link(link) => problem.hardware.links()[link.index()].name.clone(),
            };
            violations.add(Rule::Overlap, place, format!("two things at once at {}", pair[1].start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_start_as_soon_as_they_may() {
        let mut schedule = TaskGraph::default();
        let a = schedule.task(Time(5), Time(1));
        let b = schedule.task(Time(2), Time(0));
        let c = schedule.task(Time(1), Time(3));
        schedule.after(a, c, Time(10));
        schedule.after(b, c, Time::ZERO);
        assert_eq!(schedule.earliest_starts(), Ok(vec![Time(1), Time(0), Time(16)]));
    }

    #[test]
    fn a_cycle_is_found() {
        let mut schedule = TaskGraph::default();
        let [a, b, c] = [1, 2, 3].map(|t| schedule.task(Time(t), Time::ZERO));
        schedule.after(a, b, Time::ZERO);
        schedule.after(b, c, Time::ZERO);
        schedule.after(c, a, Time::ZERO);
        assert_eq!(schedule.earliest_starts(), Err(vec![0, 1, 2]));
    }
}
