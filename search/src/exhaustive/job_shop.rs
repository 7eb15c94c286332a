//! The least finish of some jobs, each on machines that it holds alone, by branch and bound.
//!
//! Jobs are started one after the other in the order of their start times, each as early as it can. A job is not started
//! where another that is ready could be over before: some best schedule has no such gap. A branch is cut if what must still
//! follow some job, or all that a machine has left to do, ends no earlier than the best schedule so far. Exact, and
//! exponential.
//!
//! Where calls of a device cost something, jobs of one device can be run in one call: what is started then is a piece, any set
//! of jobs of which none waits for a job outside that waits for one inside. The rule about gaps is left out there.

use super::steps::Steps;

/// A job. Times are in picoseconds.
#[derive(Default)]
pub(super) struct Job {
    pub(super) duration: u64,
    /// Not before this time.
    pub(super) release: u64,
    /// Jobs that must be over, and how long before.
    pub(super) needs: Vec<(usize, u64)>,
    /// The machines that it holds.
    pub(super) machines: Vec<usize>,
    /// What must follow its end.
    pub(super) after: u64,
}

/// The jobs, in pieces and in the order of their starts, in a schedule that ends before `limit`, as early as any; none if there
/// is none, or the steps are over. The first machines are devices whose calls cost so much.
pub(super) fn earliest(
    jobs: &[Job],
    machines: usize,
    calls: &[u64],
    limit: u64,
    steps: &mut Steps<'_, '_>,
) -> Option<Vec<Vec<usize>>> {
    let order = topological(jobs);
    let tails = tails(jobs, &order);
    let mut search = Search {
        jobs,
        calls: if calls.iter().any(|&call| call > 0) { calls } else { &[] },
        order,
        tails,
        limit,
        best: None,
        free: vec![0; machines],
        ends: vec![None; jobs.len()],
        sequence: Vec::with_capacity(jobs.len()),
        done: 0,
        heads: Vec::new(),
    };
    search.extend(0, 0, steps);
    search.best
}

/// The jobs, each behind those that it needs.
fn topological(jobs: &[Job]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(jobs.len());
    let mut is_listed = vec![false; jobs.len()];
    while order.len() < jobs.len() {
        let is_ready =
            |job: &usize| !is_listed[*job] && jobs[*job].needs.iter().all(|&(need, _)| is_listed[need]);
        let ready: Vec<usize> = (0..jobs.len()).filter(is_ready).collect();
        assert!(!ready.is_empty(), "no job needs itself");
        for job in ready {
            is_listed[job] = true;
            order.push(job);
        }
    }
    order
}

/// By job, the least time from its start to the end of all that must follow.
fn tails(jobs: &[Job], order: &[usize]) -> Vec<u64> {
    let mut behind: Vec<u64> = jobs.iter().map(|job| job.after).collect();
    let mut tails = vec![0; jobs.len()];
    for &job in order.iter().rev() {
        tails[job] = jobs[job].duration + behind[job];
        for &(need, delay) in &jobs[job].needs {
            behind[need] = behind[need].max(delay + tails[job]);
        }
    }
    tails
}

struct Search<'j> {
    jobs: &'j [Job],
    /// By device, what a call costs; empty where calls cost nothing.
    calls: &'j [u64],
    order: Vec<usize>,
    tails: Vec<u64>,
    limit: u64,
    best: Option<Vec<Vec<usize>>>,
    /// By machine, when it is free.
    free: Vec<u64>,
    /// By job, its end, if it was started.
    ends: Vec<Option<u64>>,
    sequence: Vec<Vec<usize>>,
    /// How many jobs were started.
    done: usize,
    /// For each depth, the earliest starts of the jobs.
    heads: Vec<Vec<u64>>,
}

impl Search<'_> {
    /// Searches all ways to go on after a start at `last`; the schedule so far ends at `end`, with what must follow.
    fn extend(&mut self, last: u64, end: u64, steps: &mut Steps<'_, '_>) {
        if !steps.take() || end >= self.limit {
            return;
        }
        let depth = self.sequence.len();
        if self.done == self.jobs.len() {
            (self.limit, self.best) = (end, Some(self.sequence.clone()));
            return;
        }
        if self.heads.len() == depth {
            self.heads.push(vec![0; self.jobs.len()]);
        }
        if self.cannot_be_better(depth, last) {
            return;
        }
        if !self.calls.is_empty() {
            self.extend_by_pieces(last, end, steps);
            return;
        }
        let mut candidates = self.candidates(last);
        candidates.sort_unstable_by_key(|&(start, job)| (start, std::cmp::Reverse(self.tails[job]), job));
        for (start, job) in candidates {
            let Job { duration, machines, after, .. } = &self.jobs[job];
            let before: smallvec::SmallVec<[u64; 4]> = machines.iter().map(|&m| self.free[m]).collect();
            machines.iter().for_each(|&m| self.free[m] = start + duration);
            self.ends[job] = Some(start + duration);
            self.sequence.push(vec![job]);
            self.done += 1;
            self.extend(start, end.max(start + duration + after), steps);
            self.done -= 1;
            self.sequence.pop();
            self.ends[job] = None;
            machines.iter().zip(before).for_each(|(&m, time)| self.free[m] = time);
            if steps.is_over() {
                return;
            }
        }
    }

    /// Goes on with every piece that can be started next.
    fn extend_by_pieces(&mut self, last: u64, end: u64, steps: &mut Steps<'_, '_>) {
        for place in 0..self.order.len() {
            self.grow(&mut Vec::new(), place, last, end, steps);
        }
    }

    /// Adds the job at a place of the topological order to a piece, if it can be in it; then starts the piece, and goes on
    /// adding to it.
    fn grow(&mut self, piece: &mut Vec<usize>, place: usize, last: u64, end: u64, steps: &mut Steps<'_, '_>) {
        let job = self.order[place];
        let jobs = self.jobs;
        let Job { needs, machines, .. } = &jobs[job];
        let is_ready = |&(need, _): &(usize, u64)| self.ends[need].is_some() || piece.contains(&need);
        if !steps.take() || self.ends[job].is_some() || !needs.iter().all(is_ready) {
            return;
        }
        piece.push(job);
        self.start(piece, last, end, steps);
        if machines[0] < self.calls.len() {
            for later in place + 1..self.order.len() {
                if self.jobs[self.order[later]].machines == *machines {
                    self.grow(piece, later, last, end, steps);
                }
            }
        }
        piece.pop();
    }

    /// Starts a piece, and goes on from there.
    fn start(&mut self, piece: &[usize], last: u64, end: u64, steps: &mut Steps<'_, '_>) {
        let jobs = self.jobs;
        let machines = &jobs[piece[0]].machines;
        let mut start = machines.iter().map(|&m| self.free[m]).max().unwrap_or(0);
        for &job in piece {
            start = start.max(jobs[job].release);
            for &(need, delay) in &jobs[job].needs {
                start = start.max(self.ends[need].map_or(0, |end| end + delay));
            }
        }
        if start < last {
            // Searched elsewhere: pieces are in the order of their starts.
            return;
        }
        let call = self.calls.get(machines[0]).copied().unwrap_or(0);
        let over = start + call + piece.iter().map(|&job| jobs[job].duration).sum::<u64>();
        let after = piece.iter().map(|&job| jobs[job].after).max().unwrap_or(0);
        let before: smallvec::SmallVec<[u64; 4]> = machines.iter().map(|&m| self.free[m]).collect();
        machines.iter().for_each(|&m| self.free[m] = over);
        piece.iter().for_each(|&job| self.ends[job] = Some(over));
        self.sequence.push(piece.to_vec());
        self.done += piece.len();
        self.extend(start, end.max(over + after), steps);
        self.done -= piece.len();
        self.sequence.pop();
        piece.iter().for_each(|&job| self.ends[job] = None);
        machines.iter().zip(before).for_each(|(&m, time)| self.free[m] = time);
    }

    /// Works out the earliest starts of all jobs left, and whether these leave no room for a better schedule.
    fn cannot_be_better(&mut self, depth: usize, last: u64) -> bool {
        let mut heads = std::mem::take(&mut self.heads[depth]);
        let mut is_over = false;
        for &job in &self.order {
            if self.ends[job].is_some() {
                continue;
            }
            let spec = &self.jobs[job];
            let mut head = spec.release.max(last);
            for &(need, delay) in &spec.needs {
                head = head.max(self.ends[need].unwrap_or(heads[need] + self.jobs[need].duration) + delay);
            }
            head = spec.machines.iter().map(|&m| self.free[m]).fold(head, u64::max);
            heads[job] = head;
            is_over |= head + self.tails[job] >= self.limit;
        }
        is_over = is_over || (0..self.free.len()).any(|machine| self.load(machine, &heads) >= self.limit);
        self.heads[depth] = heads;
        is_over
    }

    /// When a machine can be through with what it has left, and what must follow.
    fn load(&self, machine: usize, heads: &[u64]) -> u64 {
        let (mut first, mut work, mut behind) = (u64::MAX, 0, u64::MAX);
        for (job, spec) in self.jobs.iter().enumerate() {
            if self.ends[job].is_none() && spec.machines.contains(&machine) {
                first = first.min(heads[job]);
                work += spec.duration;
                behind = behind.min(self.tails[job] - spec.duration);
            }
        }
        if first == u64::MAX { 0 } else { first + work + behind }
    }

    /// The jobs that may start next, and when.
    fn candidates(&self, last: u64) -> Vec<(u64, usize)> {
        let mut ready: Vec<(u64, usize)> = Vec::new();
        for (job, spec) in self.jobs.iter().enumerate().filter(|(job, _)| self.ends[*job].is_none()) {
            let mut start = Some(spec.release);
            for &(need, delay) in &spec.needs {
                start = start.and_then(|start| Some(start.max(self.ends[need]? + delay)));
            }
            let Some(start) = start else { continue };
            ready.push((spec.machines.iter().map(|&m| self.free[m]).fold(start, u64::max), job));
        }
        let over = |&(start, job): &(u64, usize)| start + self.jobs[job].duration.max(1);
        let gap = ready.iter().map(over).min().unwrap_or(u64::MAX);
        ready.retain(|&(start, _)| start >= last && start < gap);
        ready
    }
}
