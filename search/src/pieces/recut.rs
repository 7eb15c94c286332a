//! Better cuts for given orders: a descent over the cuts of a plan of a makespan objective.
//!
//! A move removes cuts (first long runs of them, then shorter ones), shifts a cut past a few jobs, or adds one. It is kept if the
//! plan ends earlier, or as early with fewer pieces. The schedule is evaluated anew for every move, in time linear in jobs and
//! precedences. Orders, placement and what buses carry stay as they are.

use divvy_core::objectives::pieces::JobGraph;
use divvy_core::objectives::uncut::jobs_of_plan;
use divvy_core::plan::{Cuts, Plan};
use divvy_core::problem::Problem;

/// The most jobs and precedences looked at for one of many plans: some hundredths of a second.
pub(crate) const LITTLE_WORK: u64 = 4_000_000;
/// The same for the best plan of all: some tenths of a second.
pub(crate) const MUCH_WORK: u64 = 40_000_000;

/// How far a cut is shifted at most.
const SHIFTS: [i64; 8] = [1, -1, 2, -2, 4, -4, 8, -8];

/// The plan with better cuts; none if none were found. It must have passed the check. At most about so much work.
pub(crate) fn recut(problem: &Problem, plan: &Plan, most_work: u64) -> Option<Plan> {
    let (jobs, cuts) = jobs_of_plan(problem, plan)?;
    let mut descent = Descent::new(jobs, &cuts, most_work)?;
    let before = descent.best;
    descent.run();
    if descent.best >= before {
        return None;
    }
    let cuts = Some(descent.cuts());
    let mut plan = plan.clone();
    match &mut plan {
        Plan::Latency(plan) => plan.cuts = cuts,
        Plan::Batch(plan) => plan.cuts = cuts,
        Plan::ColdStart(plan) => plan.cuts = cuts,
        Plan::Pipeline(_) | Plan::Stream(_) => return None,
    }
    Some(plan)
}

/// The end of a plan whose pieces cost nothing: what no cuts can beat.
pub(crate) fn without_costs(problem: &Problem, plan: &Plan) -> Option<u64> {
    let (mut jobs, _) = jobs_of_plan(problem, plan)?;
    jobs.costs.fill(divvy_core::units::Time::ZERO);
    let each: Cuts = jobs.lists.iter().map(|list| (1..list.len() as u32).collect()).collect();
    Some(Descent::new(jobs, &each, u64::MAX)?.best.0)
}

/// The present cuts.
struct Descent {
    jobs: JobGraph,
    /// What follows each node: node and delay, those of node `i` from `first[i]` to `first[i + 1]`.
    followers: Vec<(u32, u64)>,
    first: Vec<u32>,
    /// The place of each job in its list.
    place: Vec<u32>,
    /// Whether each job begins a piece.
    begins: Vec<bool>,
    /// Jobs that can be in a piece with others.
    joins: Vec<bool>,
    /// End and number of pieces.
    best: (u64, usize),
    work: u64,
    most_work: u64,
    piece_of: Vec<u32>,
    starts: Vec<u64>,
    durations: Vec<u64>,
    waiting: Vec<u32>,
    ready: Vec<u32>,
}

impl Descent {
    fn new(jobs: JobGraph, cuts: &Cuts, most_work: u64) -> Option<Descent> {
        let nodes = jobs.duration.len();
        let mut first = vec![0u32; nodes + 1];
        jobs.edges.iter().for_each(|edge| first[edge.0 as usize + 1] += 1);
        (0..nodes).for_each(|i| first[i + 1] += first[i]);
        let mut next = first.clone();
        let mut followers = vec![(0, 0); jobs.edges.len()];
        for &(earlier, later, delay) in &jobs.edges {
            followers[next[earlier as usize] as usize] = (later, delay.0);
            next[earlier as usize] += 1;
        }
        let mut place = vec![0; jobs.job_count()];
        let mut begins = vec![false; jobs.job_count()];
        for (list, cuts) in jobs.lists.iter().zip(cuts) {
            list.iter().zip(0..).for_each(|(&job, i)| place[job as usize] = i);
            begins_at(&mut begins, list, cuts);
        }
        let mut joins = vec![true; jobs.job_count()];
        jobs.alone.iter().for_each(|&job| joins[job as usize] = false);
        let mut descent = Descent {
            piece_of: vec![0; nodes],
            starts: Vec::new(),
            durations: Vec::new(),
            waiting: Vec::new(),
            ready: Vec::new(),
            jobs,
            followers,
            first,
            place,
            begins,
            joins,
            best: (u64::MAX, usize::MAX),
            work: 0,
            most_work,
        };
        descent.best = descent.evaluate()?;
        Some(descent)
    }

    /// End and number of pieces with the present cuts; none if pieces wait for each other.
    fn evaluate(&mut self) -> Option<(u64, usize)> {
        let job_count = self.jobs.job_count();
        self.work += (self.piece_of.len() + self.followers.len()) as u64;
        self.starts.clear();
        self.durations.clear();
        self.waiting.clear();
        // The first job and the place of each piece, to go through its jobs.
        let mut heads: Vec<(u32, u32)> = Vec::new();
        for (device, list) in self.jobs.lists.iter().enumerate() {
            for (i, &job) in list.iter().enumerate() {
                if self.begins[job as usize] {
                    heads.push((device as u32, i as u32));
                    self.starts.push(0);
                    self.durations.push(self.jobs.costs[device].0);
                    self.waiting.push(u32::from(i > 0));
                }
                let piece = heads.len() - 1;
                self.piece_of[job as usize] = piece as u32;
                self.durations[piece] += self.jobs.duration[job as usize].0;
                self.starts[piece] = self.starts[piece].max(self.jobs.release[job as usize].0);
            }
        }
        let pieces = heads.len();
        for node in job_count..self.jobs.duration.len() {
            self.piece_of[node] = self.starts.len() as u32;
            self.starts.push(0);
            self.durations.push(self.jobs.duration[node].0);
            self.waiting.push(0);
        }
        for &(earlier, later, _) in &self.jobs.edges {
            let [one, other] = [earlier, later].map(|node| self.piece_of[node as usize]);
            if one != other {
                self.waiting[other as usize] += 1;
            } else if self.place[earlier as usize] >= self.place[later as usize] {
                return None;
            }
        }
        self.ready.clear();
        self.ready.extend((0..self.waiting.len() as u32).filter(|&unit| self.waiting[unit as usize] == 0));
        let (mut done, mut end_of_all) = (0, 0);
        while let Some(unit) = self.ready.pop() {
            done += 1;
            let end = self.starts[unit as usize] + self.durations[unit as usize];
            end_of_all = end_of_all.max(end);
            if (unit as usize) < pieces {
                let (device, head) = heads[unit as usize];
                for i in head as usize.. {
                    let Some(&job) = self.jobs.lists[device as usize].get(i) else { break };
                    if self.piece_of[job as usize] != unit {
                        self.follow(unit + 1, end);
                        break;
                    }
                    self.follow_node(job, unit, end);
                }
            } else {
                self.follow_node((job_count + unit as usize - pieces) as u32, unit, end);
            }
        }
        for &(job, delay) in &self.jobs.ways_out {
            let piece = self.piece_of[job as usize] as usize;
            end_of_all = end_of_all.max(self.starts[piece] + self.durations[piece] + delay.0);
        }
        (done == self.starts.len()).then_some((end_of_all, pieces))
    }

    fn follow_node(&mut self, node: u32, unit: u32, end: u64) {
        for i in self.first[node as usize]..self.first[node as usize + 1] {
            let (later, delay) = self.followers[i as usize];
            let other = self.piece_of[later as usize];
            if other != unit {
                self.follow(other, end + delay);
            }
        }
    }

    /// One thing less that a unit waits for, which ends then.
    fn follow(&mut self, unit: u32, then: u64) {
        let unit = unit as usize;
        self.starts[unit] = self.starts[unit].max(then);
        self.waiting[unit] -= 1;
        if self.waiting[unit] == 0 {
            self.ready.push(unit as u32);
        }
    }

    fn run(&mut self) {
        loop {
            let before = self.best;
            let longest = self.jobs.lists.iter().map(Vec::len).max().unwrap_or(0);
            let mut length = longest.next_power_of_two();
            while length >= 1 {
                self.merge(length);
                length /= 2;
            }
            self.shift();
            self.split();
            if self.best >= before || self.work > self.most_work {
                return;
            }
        }
    }

    /// Removes runs of so many cuts.
    fn merge(&mut self, length: usize) {
        for device in 0..self.jobs.lists.len() {
            let list = self.jobs.lists[device].clone();
            let cuts: Vec<u32> =
                list.iter().skip(1).copied().filter(|&job| self.begins[job as usize]).collect();
            for run in cuts.chunks(length) {
                let removed: Vec<u32> =
                    run.iter().copied().filter(|&job| self.may_join(&list, job)).collect();
                self.toggle(&removed);
            }
        }
    }

    /// Whether a job can be in a piece with the one before it.
    fn may_join(&self, list: &[u32], job: u32) -> bool {
        let before = list[self.place[job as usize] as usize - 1];
        self.joins[job as usize] && self.joins[before as usize]
    }

    /// Shifts every cut past a few jobs.
    fn shift(&mut self) {
        for device in 0..self.jobs.lists.len() {
            let list = self.jobs.lists[device].clone();
            for place in 1..list.len() {
                if !self.begins[list[place] as usize] || !self.may_join(&list, list[place]) {
                    continue;
                }
                for shift in SHIFTS {
                    let to = place as i64 + shift;
                    if to < 1 || to as usize >= list.len() || self.begins[list[to as usize] as usize] {
                        continue;
                    }
                    if self.toggle(&[list[place], list[to as usize]]) {
                        break;
                    }
                }
            }
        }
    }

    /// Adds cuts.
    fn split(&mut self) {
        for device in 0..self.jobs.lists.len() {
            let list = self.jobs.lists[device].clone();
            for &job in list.iter().skip(1) {
                if !self.begins[job as usize] {
                    self.toggle(&[job]);
                }
            }
        }
    }

    /// Turns cuts before jobs into none and back, if that is better; whether it was.
    fn toggle(&mut self, jobs: &[u32]) -> bool {
        if jobs.is_empty() || self.work > self.most_work {
            return false;
        }
        let flip = |begins: &mut [bool]| jobs.iter().for_each(|&job| begins[job as usize] ^= true);
        flip(&mut self.begins);
        match self.evaluate().filter(|found| *found < self.best) {
            Some(better) => {
                self.best = better;
                true
            }
            None => {
                flip(&mut self.begins);
                false
            }
        }
    }

    fn cuts(&self) -> Cuts {
        let cuts = |list: &Vec<u32>| {
            let begins = list.iter().zip(0..).skip(1).filter(|(job, _)| self.begins[**job as usize]);
            begins.map(|(_, place)| place).collect()
        };
        self.jobs.lists.iter().map(cuts).collect()
    }
}

/// Marks the jobs of a list that begin pieces.
fn begins_at(begins: &mut [bool], list: &[u32], cuts: &[u32]) {
    let starts =
        std::iter::once(0).chain(cuts.iter().copied()).filter(|&place| (place as usize) < list.len());
    starts.for_each(|place| begins[list[place as usize] as usize] = true);
}
