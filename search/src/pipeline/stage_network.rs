//! The network as a search over stages sees it: units of ops that stay together, and the tensors between units.
//!
//! Ops of one colocation group share a stage, and so does every op between two of them, because stages must not depend
//! on each other in a circle; units are the closure of that. Kernelisation unites further where that loses nothing
//! (`core`'s `moves.rs`). What happens inside a unit (its tensors) matters to memory alone. Tensors of one unit that go to the
//! same units are counted as one.

use std::collections::HashMap;

use crate::pipeline::tables::{PipelineTables, NEVER, NOBODY};

use crate::strongly_connected::circles;

/// Lists of numbers, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberLists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl NumberLists {
    pub(crate) fn new<I: IntoIterator<Item = u32>>(lists: impl Iterator<Item = I>) -> NumberLists {
        let mut made = NumberLists { starts: vec![0], items: Vec::new() };
        for list in lists {
            made.items.extend(list);
            made.starts.push(made.items.len() as u32);
        }
        made
    }

    /// For each of `count` keys its values, in the order given.
    pub(crate) fn group(count: usize, pairs: &[(u32, u32)]) -> NumberLists {
        let mut starts = vec![0u32; count + 1];
        for &(key, _) in pairs {
            starts[key as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for &(key, value) in pairs {
            items[next[key as usize] as usize] = value;
            next[key as usize] += 1;
        }
        NumberLists { starts, items }
    }

    /// How many numbers all lists have together.
    fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, i: usize) -> &[u32] {
        &self.items[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}

/// Units, the tensors between them, and what both cost on each sort of device.
pub struct StageNetwork<'a> {
    pub(crate) dense: &'a PipelineTables,
    pub(crate) sorts: usize,
    count: usize,
    /// The unit of each op.
    pub(crate) unit_of: Vec<u32>,
    /// The ops of each unit, in canonical order.
    pub(crate) ops: NumberLists,
    /// Unit after unit, by sort: the work of its ops; [`NEVER`] where one of them may not run.
    work: Vec<u64>,
    /// The unit that makes each tensor; [`NOBODY`] for inputs of the network.
    pub(crate) maker: Vec<u32>,
    /// The other units that read each tensor.
    pub(crate) readers: NumberLists,
    /// Tensor after tensor, by sort.
    enter: Vec<u64>,
    leave: Vec<u64>,
    must_leave: Vec<bool>,
    /// The tensors that each unit reads from others.
    pub(crate) inputs: NumberLists,
    /// The tensors that each unit makes for others.
    pub(crate) outputs: NumberLists,
    pub(crate) predecessors: NumberLists,
    pub(crate) successors: NumberLists,
    /// A topological order of the units, close to the canonical one.
    pub(crate) order: Vec<u32>,
    /// Whether memory matters: some stage might overflow or exceed a limit.
    pub(crate) memory_matters: bool,
}

impl<'a> StageNetwork<'a> {
    /// The network with only those ops united that must stay together.
    pub fn new(dense: &'a PipelineTables) -> StageNetwork<'a> {
        StageNetwork::united(dense, &groups_closed(dense))
    }

    /// The network whose units are given, one for each op; they must not depend on each other in a circle.
    pub(crate) fn united(dense: &'a PipelineTables, unit_of: &[u32]) -> StageNetwork<'a> {
        let (unit_of, count) = numbered(dense, unit_of);
        let in_order: Vec<(u32, u32)> = dense.order().iter().map(|&op| (unit_of[op as usize], op)).collect();
        let ops = NumberLists::group(count, &in_order);
        let sorts = dense.sorts().len();
        let mut work = vec![0u64; count * sorts];
        for op in 0..dense.op_count() {
            for sort in 0..sorts {
                let sum = &mut work[unit_of[op] as usize * sorts + sort];
                *sum = (*sum).min(NEVER) + dense.work(op, sort);
                *sum = (*sum).min(NEVER);
            }
        }
        let mut net = StageNetwork {
            dense,
            sorts,
            count,
            work,
            maker: Vec::new(),
            readers: NumberLists::default(),
            enter: Vec::new(),
            leave: Vec::new(),
            must_leave: Vec::new(),
            inputs: NumberLists::default(),
            outputs: NumberLists::default(),
            predecessors: NumberLists::default(),
            successors: NumberLists::default(),
            order: Vec::new(),
            memory_matters: !dense.no_overflow() || !dense.no_memory_limit(),
            unit_of,
            ops,
        };
        net.join();
        net.order = net.topological_order();
        net
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn tensor_count(&self) -> usize {
        self.maker.len()
    }

    /// How many times a unit reads a tensor of another.
    pub(crate) fn reads(&self) -> usize {
        self.inputs.len()
    }

    /// The work of a unit on a sort; [`NEVER`] where it may not run.
    pub(crate) fn work(&self, unit: usize, sort: usize) -> u64 {
        self.work[unit * self.sorts + sort]
    }

    pub(crate) fn enter(&self, tensor: usize, sort: usize) -> u64 {
        self.enter[tensor * self.sorts + sort]
    }

    pub(crate) fn leave(&self, tensor: usize, sort: usize) -> u64 {
        self.leave[tensor * self.sorts + sort]
    }

    pub(crate) fn must_leave(&self, tensor: usize, sort: usize) -> bool {
        self.must_leave[tensor * self.sorts + sort]
    }

    /// Finds the tensors between units, and which units follow which.
    fn join(&mut self) {
        let dense = self.dense;
        let mut known: HashMap<(u32, Vec<u32>, Vec<bool>), usize> = HashMap::new();
        let (mut maker, mut readers) = (Vec::new(), Vec::new());
        let mut follows = Vec::new();
        for tensor in 0..dense.tensor_count() {
            let from = match dense.producer(tensor) {
                NOBODY => NOBODY,
                op => self.unit_of[op as usize],
            };
            let units = dense.consumers(tensor).iter().map(|&op| self.unit_of[op as usize]);
            let mut to: Vec<u32> = units.filter(|&unit| unit != from).collect();
            to.sort_unstable();
            to.dedup();
            if from != NOBODY {
                follows.extend(to.iter().map(|&unit| (from, unit)));
            }
            // What cannot be sent at all is found by whoever knows both ends; here it must only not be too dear.
            let known_time = |time: u64| if time < NEVER { time } else { 0 };
            let costs: Vec<(u64, u64, bool)> = (0..self.sorts)
                .map(|s| (dense.enter(tensor, s), dense.leave(tensor, s), dense.must_leave(tensor, s)))
                .map(|(enter, leave, must)| {
                    let leaves = must || !to.is_empty();
                    (known_time(enter), if leaves { known_time(leave) } else { 0 }, must)
                })
                .collect();
            let leaves = costs.iter().any(|c| c.2);
            let paid =
                costs.iter().any(|c| (c.0 > 0 && !to.is_empty()) || (c.1 > 0 && (!to.is_empty() || leaves)));
            if !paid || (to.is_empty() && !leaves) {
                continue;
            }
            let must: Vec<bool> = costs.iter().map(|c| c.2).collect();
            let number = *known.entry((from, to.clone(), must)).or_insert_with(|| {
                maker.push(from);
                readers.push(to);
                self.enter.extend(std::iter::repeat_n(0, self.sorts));
                self.leave.extend(std::iter::repeat_n(0, self.sorts));
                self.must_leave.extend(costs.iter().map(|c| c.2));
                maker.len() - 1
            });
            for (sort, &(enter, leave, _)) in costs.iter().enumerate() {
                // Sums stay in range: a problem is refused if all its transfers together do not.
                let at = number * self.sorts + sort;
                self.enter[at] += enter;
                self.leave[at] += leave;
            }
        }
        follows.sort_unstable();
        follows.dedup();
        let count = self.len();
        let back: Vec<(u32, u32)> = follows.iter().map(|&(a, b)| (b, a)).collect();
        self.successors = NumberLists::group(count, &follows);
        self.predecessors = NumberLists::group(count, &back);
        let reading: Vec<(u32, u32)> = (readers.iter().enumerate())
            .flat_map(|(t, units): (usize, &Vec<u32>)| units.iter().map(move |&unit| (unit, t as u32)))
            .collect();
        self.inputs = NumberLists::group(count, &reading);
        let making: Vec<(u32, u32)> = (maker.iter().enumerate())
            .filter(|&(_, &unit)| unit != NOBODY)
            .map(|(t, &unit)| (unit, t as u32))
            .collect();
        self.outputs = NumberLists::group(count, &making);
        self.readers = NumberLists::new(readers.into_iter());
        self.maker = maker;
    }

    fn topological_order(&self) -> Vec<u32> {
        let mut keys = vec![0.0; self.len()];
        for (place, &op) in self.dense.order().iter().enumerate() {
            keys[self.unit_of[op as usize] as usize] = -(place as f64);
        }
        self.sorted_by(&keys)
    }

    /// The topological order in which, of all units that may come next, the one with the largest key does (Kahn).
    pub fn sorted_by(&self, keys: &[f64]) -> Vec<u32> {
        let mut order = Vec::new();
        Kahn::default().sort(self, keys, &mut order);
        order
    }

    /// The ops in the order of the units.
    pub fn ops_in(&self, units: &[u32]) -> Vec<u32> {
        units.iter().flat_map(|&unit| self.ops.get(unit as usize)).copied().collect()
    }
}

/// Kahn's algorithm with priorities, keeping its tables between calls.
#[derive(Default)]
pub(crate) struct Kahn {
    waiting: Vec<u32>,
    ready: std::collections::BinaryHeap<(u64, std::cmp::Reverse<u32>)>,
}

impl Kahn {
    /// Of all units that may come next, the one with the largest key does; of equals, the first.
    pub(crate) fn sort(&mut self, net: &StageNetwork<'_>, keys: &[f64], order: &mut Vec<u32>) {
        order.clear();
        self.waiting.clear();
        self.waiting.extend((0..net.len()).map(|unit| net.predecessors.get(unit).len() as u32));
        self.ready.clear();
        let first = self.waiting.iter().zip(keys).enumerate().filter(|(_, (waiting, _))| **waiting == 0);
        self.ready.extend(first.map(|(unit, (_, &key))| (sortable(key), std::cmp::Reverse(unit as u32))));
        while let Some((_, std::cmp::Reverse(unit))) = self.ready.pop() {
            order.push(unit);
            for &next in net.successors.get(unit as usize) {
                self.waiting[next as usize] -= 1;
                if self.waiting[next as usize] == 0 {
                    self.ready.push((sortable(keys[next as usize]), std::cmp::Reverse(next)));
                }
            }
        }
    }
}

/// A number that sorts as the float does.
fn sortable(key: f64) -> u64 {
    let bits = key.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Units numbered from 0 in the order of their first ops, and how many there are.
fn numbered(dense: &PipelineTables, unit_of: &[u32]) -> (Vec<u32>, usize) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut renamed = vec![0; unit_of.len()];
    for &op in dense.order() {
        let next = numbers.len() as u32;
        renamed[op as usize] = *numbers.entry(unit_of[op as usize]).or_insert(next);
    }
    (renamed, numbers.len())
}

/// For each op a number that it shares with all ops that must be in its stage.
fn groups_closed(dense: &PipelineTables) -> Vec<u32> {
    let mut unit_of: Vec<u32> = (0..dense.op_count() as u32).collect();
    if dense.groups().is_empty() {
        return unit_of;
    }
    for group in dense.groups() {
        for &op in group {
            unit_of[op as usize] = group[0];
        }
    }
    circles_united(dense, &unit_of)
}

/// Unites units that depend on each other in a circle.
fn circles_united(dense: &PipelineTables, unit_of: &[u32]) -> Vec<u32> {
    let (unit_of, count) = numbered(dense, unit_of);
    let mut pairs = Vec::new();
    for op in 0..dense.op_count() {
        let next = dense.successors(op).iter().map(|&next| (unit_of[op], unit_of[next as usize]));
        pairs.extend(next.filter(|(a, b)| a != b));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let next = NumberLists::group(count, &pairs);
    let circle = circles(count, |unit| next.get(unit));
    unit_of.iter().map(|&unit| circle[unit as usize]).collect()
}
