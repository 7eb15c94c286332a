//! Pieces: what a device runs in one call.
//!
//! *Makespan objectives*: a plan cuts the order of each device where it likes. A piece starts when its device is free and every
//! input and weight of all its ops is there; it takes the piece cost of its device, then its ops back to back; its values are
//! there when it ends. An op that reads in place is a piece of its own, which waits for its bus too. A plan without cuts is cut
//! before the first op on a device that reads a given value from elsewhere, and behind every op whose value goes elsewhere; for
//! `batch` also where inputs are grouped otherwise; for `cold-start` behind every op. With cuts there and a cost of zero, ops
//! start as early as if each were a piece.
//!
//! *`stream`*: ops in canonical order; an op joins the open piece of its device unless something it needs comes from a piece
//! that depends on that one. So no two pieces wait for each other. *`pipeline`*: a stage is a piece.
//!
//! Second implementation: `testing/src/oracle/pieces.rs`.

use std::collections::HashSet;

use crate::ids::{DeviceId, OpId, TensorId};
use crate::objectives::longest_path::TaskGraph;
use crate::objectives::transfers::source;
use crate::plan::{BatchPlan, Cuts, Piece};
use crate::problem::Problem;
use crate::score::{Activity, Lane, Score, Span};
use crate::units::Time;
use crate::violation::{Rule, Violation, Violations};

/// A schedule before it is cut: jobs of devices (ops, or batches of them), other tasks, and what waits for what. Nodes are jobs,
/// then tasks.
#[derive(Clone, Debug, Default)]
pub struct JobGraph {
    /// The jobs of each device, in order.
    pub lists: Vec<Vec<u32>>,
    /// What a piece costs each device.
    pub costs: Vec<Time>,
    /// How long each node takes.
    pub duration: Vec<Time>,
    /// Before when each job cannot start.
    pub release: Vec<Time>,
    /// The second starts so long after the values of the first are there.
    pub edges: Vec<(u32, u32, Time)>,
    /// How long after the values of a job are there the plan ends at the earliest.
    pub ways_out: Vec<(u32, Time)>,
    /// Jobs that are pieces of their own.
    pub alone: Vec<u32>,
}

impl JobGraph {
    /// Jobs without tasks and edges.
    pub(super) fn new(problem: &Problem, lists: Vec<Vec<u32>>, duration: Vec<Time>) -> JobGraph {
        let costs = problem.hardware.devices().map(|device| problem.piece_cost(device)).collect();
        let release = vec![Time::ZERO; duration.len()];
        JobGraph { lists, costs, duration, release, ..JobGraph::default() }
    }

    /// The number of jobs.
    pub fn job_count(&self) -> usize {
        self.release.len()
    }

    /// Adds a task and returns its node.
    pub(super) fn task(&mut self, duration: Time) -> u32 {
        self.duration.push(duration);
        u32::try_from(self.duration.len() - 1).expect("fewer than 2^32 nodes")
    }

    /// `later` starts no earlier than `delay` after the values of `earlier` are there.
    pub(super) fn after(&mut self, earlier: u32, later: u32, delay: Time) {
        self.edges.push((earlier, later, delay));
    }

    /// These run one after the other.
    pub(super) fn in_turn(&mut self, nodes: &[u32]) {
        self.edges.extend(nodes.windows(2).map(|pair| (pair[0], pair[1], Time::ZERO)));
    }

    /// The schedule in pieces; or the jobs that wait for each other, ascending.
    pub(super) fn schedule(&self, cutting: &Cutting) -> Result<PieceTimes, Vec<u32>> {
        let jobs = self.job_count();
        let node = |node: u32| match (node as usize).checked_sub(jobs) {
            None => cutting.piece_of[node as usize],
            Some(task) => (cutting.pieces.len() + task) as u32,
        };
        let mut graph = TaskGraph::default();
        for (i, piece) in cutting.pieces.iter().enumerate() {
            let work: Time = piece.jobs.iter().map(|&job| self.duration[job as usize]).sum();
            let release = piece.jobs.iter().map(|&job| self.release[job as usize]).max();
            graph.task(self.costs[piece.device.index()] + work, release.unwrap_or(Time::ZERO));
            if i > 0 && cutting.pieces[i - 1].device == piece.device {
                graph.after(i as u32 - 1, i as u32, Time::ZERO);
            }
        }
        self.duration[jobs..].iter().for_each(|&duration| {
            graph.task(duration, Time::ZERO);
        });
        for &(earlier, later, delay) in &self.edges {
            // Behind the other in one piece, a job has its data anyway; before it, it waits for ever.
            if !cutting.follows_inside(earlier, later) {
                graph.after(node(earlier), node(later), delay);
            }
        }
        let starts = graph.earliest_starts().map_err(|stuck| {
            let pieces = stuck.iter().filter_map(|&task| cutting.pieces.get(task as usize));
            let mut jobs: Vec<u32> = pieces.flat_map(|piece| &piece.jobs).copied().collect();
            jobs.sort_unstable();
            jobs
        })?;
        let mut times = PieceTimes::default();
        let end = |task: usize| starts[task] + graph.duration(task as u32);
        times.pieces = (0..cutting.pieces.len()).map(|piece| (starts[piece], end(piece))).collect();
        times.tasks = (cutting.pieces.len()..starts.len()).map(|task| (starts[task], end(task))).collect();
        times.jobs = vec![Default::default(); jobs];
        for (piece, &(start, _)) in cutting.pieces.iter().zip(&times.pieces) {
            let mut now = start + self.costs[piece.device.index()];
            for &job in &piece.jobs {
                let end = now + self.duration[job as usize];
                times.jobs[job as usize] = (now, end);
                now = end;
            }
        }
        Ok(times)
    }
}

/// When everything starts and ends.
#[derive(Default)]
pub(super) struct PieceTimes {
    pub(super) pieces: Vec<(Time, Time)>,
    pub(super) jobs: Vec<(Time, Time)>,
    /// Of tasks that are no jobs.
    pub(super) tasks: Vec<(Time, Time)>,
}

impl PieceTimes {
    /// When each job starts.
    pub(super) fn starts(&self) -> Vec<Time> {
        self.jobs.iter().map(|&(start, _)| start).collect()
    }

    /// When the values of a job are there.
    pub(super) fn there(&self, cutting: &Cutting, job: u32) -> Time {
        self.pieces[cutting.piece_of[job as usize] as usize].1
    }

    /// Value, load of devices, pieces and calls of a score.
    pub(super) fn fill(
        &self,
        score: &mut Score,
        problem: &Problem,
        cutting: &Cutting,
        op_of: impl Fn(u32) -> OpId,
    ) {
        score.device_busy = vec![Time::ZERO; problem.hardware.device_count()];
        for (i, (piece, &(start, end))) in cutting.pieces.iter().zip(&self.pieces).enumerate() {
            score.value = score.value.max(end);
            score.device_busy[piece.device.index()] += end - start;
            let called = start + problem.piece_cost(piece.device);
            if called > start {
                let (lane, what) = (Lane::Device(piece.device), Activity::Call(i as u32));
                score.trace.spans.push(Span { lane, what, start, end: called });
            }
            let ops = piece.jobs.iter().map(|&job| op_of(job)).collect();
            score.pieces.push(Piece { device: piece.device, ops });
        }
    }
}

/// Where lists of jobs are cut.
pub(super) struct Cutting {
    /// The pieces, those of a device in its order.
    pub(super) pieces: Vec<CutPiece>,
    /// The piece of each job.
    pub(super) piece_of: Vec<u32>,
    /// The place of each job in its piece.
    place_of: Vec<u32>,
}

/// A piece of a [`Cutting`].
pub(super) struct CutPiece {
    pub(super) device: DeviceId,
    pub(super) jobs: Vec<u32>,
}

impl Cutting {
    /// The pieces of lists of jobs, one for each device; every job is in one list, and `cuts` has passed [`check_cuts`].
    pub(super) fn new(lists: &[Vec<u32>], cuts: &Cuts) -> Cutting {
        let jobs = lists.iter().map(Vec::len).sum();
        let mut cutting = Cutting { pieces: Vec::new(), piece_of: vec![0; jobs], place_of: vec![0; jobs] };
        for (device, list) in lists.iter().enumerate() {
            let mut cuts = cuts[device].iter().peekable();
            for (position, &job) in list.iter().enumerate() {
                if cuts.next_if(|&&cut| cut as usize == position).is_some() || position == 0 {
                    cutting.pieces.push(CutPiece { device: DeviceId::new(device), jobs: Vec::new() });
                }
                let piece = cutting.pieces.len() - 1;
                cutting.piece_of[job as usize] = piece as u32;
                cutting.place_of[job as usize] = cutting.pieces[piece].jobs.len() as u32;
                cutting.pieces[piece].jobs.push(job);
            }
        }
        cutting
    }

    /// Whether both are jobs of one piece, `earlier` before `later`.
    pub(super) fn follows_inside(&self, earlier: u32, later: u32) -> bool {
        let of = |job: u32| Some((self.piece_of.get(job as usize)?, self.place_of[job as usize]));
        match (of(earlier), of(later)) {
            (Some((one, first)), Some((other, second))) => one == other && first < second,
            _ => false,
        }
    }

    /// The first and the last job of the piece of a job.
    pub(super) fn ends_of(&self, job: u32) -> (u32, u32) {
        let jobs = &self.pieces[self.piece_of[job as usize] as usize].jobs;
        (jobs[0], jobs[jobs.len() - 1])
    }
}

/// Rule `pieces`: cuts are ascending positions inside the list of their device.
pub(super) fn check_cuts<T>(problem: &Problem, lists: &[Vec<T>], cuts: &Cuts, violations: &mut Violations) {
    if cuts.len() != lists.len() {
        let message = format!("cuts are given for {} devices, there are {}", cuts.len(), lists.len());
        violations.add(Rule::Pieces, "plan", message);
        return;
    }
    for (device, (list, cuts)) in lists.iter().zip(cuts).enumerate() {
        let ascend = cuts.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = cuts.iter().all(|&cut| (1..list.len()).contains(&(cut as usize)));
        if !(ascend && inside) {
            let name = problem.hardware.device_name(DeviceId::new(device));
            let message = "its cuts are not ascending positions inside its list";
            violations.add(Rule::Pieces, name, message);
        }
    }
}

/// Rule `piece-cycle`: these wait for each other, though the order alone would do.
pub(super) fn cycle(place: String, names: &str) -> Violation {
    let message = format!("the pieces of {names} wait for each other; cut them further");
    Violation { rule: Rule::PieceCycle, place, message }
}

/// Cuts behind everything.
pub(crate) fn behind_each<T>(lists: &[Vec<T>]) -> Cuts {
    lists.iter().map(|list| (1..list.len() as u32).collect()).collect()
}

/// The cuts of a `latency` plan that lists none.
pub(crate) fn of_latency(problem: &Problem, order: &[Vec<OpId>], device_of: &[DeviceId]) -> Cuts {
    let graph = &problem.graph;
    let comes = |tensor: TensorId, here: DeviceId| {
        source(problem, tensor, device_of).is_some_and(|from| from != here)
    };
    let leaves = |tensor: TensorId, here: DeviceId| {
        graph.consumers(tensor).iter().any(|op| device_of[op.index()] != here)
            || graph.is_output(tensor) && problem.constraints.output_at.is_some_and(|to| to != here)
    };
    let mut cuts = vec![Vec::new(); order.len()];
    let mut arrived: HashSet<TensorId> = HashSet::new();
    for (device, list) in order.iter().enumerate() {
        let here = DeviceId::new(device);
        arrived.clear();
        let mut behind = false;
        for (position, &op) in list.iter().enumerate() {
            let mut before = false;
            for &tensor in graph.inputs(op) {
                before |= comes(tensor, here) && arrived.insert(tensor);
            }
            if position > 0 && (before || behind) {
                cuts[device].push(position as u32);
            }
            behind = graph.outputs(op).iter().any(|&tensor| leaves(tensor, here));
        }
    }
    cuts
}

/// The cuts of a `batch` plan that lists none. `by_op` has the batches of each op. A value from elsewhere is what a batch there
/// made, for the inputs of the batch that reads it.
pub(crate) fn of_batch(problem: &Problem, plan: &BatchPlan, by_op: &[Vec<u32>]) -> Cuts {
    let graph = &problem.graph;
    let leaves = |i: u32| {
        let batch = &plan.batches[i as usize];
        let goes = |other: &u32| {
            let other = &plan.batches[*other as usize];
            other.device != batch.device && other.shared(batch) > 0
        };
        graph.outputs(batch.op).iter().any(|&tensor| {
            graph.consumers(tensor).iter().any(|op| by_op[op.index()].iter().any(goes))
                || graph.is_output(tensor)
                    && problem.constraints.output_at.is_some_and(|to| to != batch.device)
        })
    };
    let mut cuts = vec![Vec::new(); plan.order.len()];
    for (device, list) in plan.order.iter().enumerate() {
        let mut arrived: HashSet<(TensorId, Option<u32>, Vec<[u32; 2]>)> = HashSet::new();
        let mut last: Option<Vec<[u32; 2]>> = None;
        let mut behind = false;
        for (position, &i) in list.iter().enumerate() {
            let batch = &plan.batches[i as usize];
            let inputs = batch.merged_inputs();
            let mut before = last.as_ref().is_some_and(|last| *last != inputs);
            for &tensor in graph.inputs(batch.op) {
                let Some(producer) = graph.producer(tensor) else {
                    let elsewhere = problem.constraints.input_at.is_some_and(|at| at.index() != device);
                    before |= elsewhere && arrived.insert((tensor, None, inputs.clone()));
                    continue;
                };
                for &maker in &by_op[producer.index()] {
                    let from = &plan.batches[maker as usize];
                    let elsewhere = from.device.index() != device && from.shared(batch) > 0;
                    before |= elsewhere && arrived.insert((tensor, Some(maker), inputs.clone()));
                }
            }
            if position > 0 && (before || behind) {
                cuts[device].push(position as u32);
            }
            behind = leaves(i);
            last = Some(inputs);
        }
    }
    cuts
}

/// The pieces of a stream, numbered in the order in which they begin.
pub struct StreamPieces {
    /// The piece of each op.
    pub piece_of: Vec<u32>,
    /// The device of each piece.
    pub devices: Vec<DeviceId>,
}

impl StreamPieces {
    /// The pieces of a placement.
    pub fn new(problem: &Problem, device_of: &[DeviceId]) -> StreamPieces {
        let graph = &problem.graph;
        let mut readers = vec![0u32; graph.op_count()];
        for op in graph.ops() {
            graph.predecessors(op).for_each(|producer| readers[producer.index()] += 1);
        }
        let mut growing = Growing::new(problem.hardware.device_count());
        let mut pieces = StreamPieces { piece_of: vec![0; graph.op_count()], devices: Vec::new() };
        for &op in graph.order() {
            let device = device_of[op.index()];
            let needed = graph.predecessors(op).map(|producer| pieces.piece_of[producer.index()]);
            let piece = growing.add(device, needed, &mut pieces.devices);
            pieces.piece_of[op.index()] = piece;
            growing.readers[piece as usize] += readers[op.index()];
        }
        pieces
    }

    /// The pieces with their ops, in canonical order.
    pub(crate) fn with_ops(&self, problem: &Problem) -> Vec<Piece> {
        let mut pieces: Vec<Piece> =
            self.devices.iter().map(|&device| Piece { device, ops: Vec::new() }).collect();
        for &op in problem.graph.order() {
            pieces[self.piece_of[op.index()] as usize].ops.push(op);
        }
        pieces
    }
}

/// The pieces of a stream while ops join them.
///
/// Only a device's open piece, its last, can come to depend on more. So of each piece it is enough to know on which open pieces
/// it depends, as a set of devices; and that only of pieces which are open or whose values are still to be read.
struct Growing {
    words: usize,
    /// The open piece of each device.
    open: Vec<Option<u32>>,
    /// For each piece the devices whose open piece it depends on.
    depends: Vec<u64>,
    /// For each piece how often its values are still to be read.
    readers: Vec<u32>,
    /// Pieces that may still be needed.
    live: Vec<u32>,
}

impl Growing {
    fn new(devices: usize) -> Growing {
        Growing {
            words: devices.div_ceil(64),
            open: vec![None; devices],
            depends: Vec::new(),
            readers: Vec::new(),
            live: Vec::new(),
        }
    }

    fn depends(&self, piece: u32) -> std::ops::Range<usize> {
        let first = piece as usize * self.words;
        first..first + self.words
    }

    /// Adds an op that reads values of `needed`; its piece. `devices` are those of the pieces.
    fn add(
        &mut self,
        device: DeviceId,
        needed: impl Iterator<Item = u32>,
        devices: &mut Vec<DeviceId>,
    ) -> u32 {
        let own = self.open[device.index()];
        let mut needs = vec![0u64; self.words];
        for piece in needed {
            self.readers[piece as usize] -= 1;
            if own == Some(piece) {
                continue;
            }
            let of = self.depends(piece);
            needs.iter_mut().zip(&self.depends[of]).for_each(|(needs, depends)| *needs |= depends);
            let maker = devices[piece as usize].index();
            if self.open[maker] == Some(piece) {
                needs[maker / 64] |= 1 << (maker % 64);
            }
        }
        let (word, bit) = (device.index() / 64, 1u64 << (device.index() % 64));
        if let Some(piece) = own.filter(|_| needs[word] & bit == 0) {
            self.extend(piece, (word, bit), &needs);
            return piece;
        }
        needs[word] &= !bit;
        let piece = devices.len() as u32;
        devices.push(device);
        self.open[device.index()] = Some(piece);
        let (open, readers) = (&self.open, &self.readers);
        self.live.retain(|&piece| {
            readers[piece as usize] > 0 || open[devices[piece as usize].index()] == Some(piece)
        });
        for &other in &self.live {
            self.depends[other as usize * self.words + word] &= !bit;
        }
        self.live.push(piece);
        self.readers.push(0);
        self.depends.extend(needs);
        piece
    }

    /// An open piece comes to depend on more, and so does all that depends on it.
    fn extend(&mut self, piece: u32, (word, bit): (usize, u64), needs: &[u64]) {
        let of = self.depends(piece);
        if needs.iter().zip(&self.depends[of]).all(|(needs, known)| needs & !known == 0) {
            return;
        }
        for &other in &self.live {
            let of = self.depends(other);
            if other == piece || self.depends[of.start + word] & bit != 0 {
                self.depends[of].iter_mut().zip(needs).for_each(|(known, needs)| *known |= needs);
            }
        }
    }
}
