//! The quotient graph whose nodes, *units*, are sets of ops that must share a stage, and topological orders of it.
//!
//! Units are the colocation groups closed under "lies between": contracting a group can make the quotient cyclic, so the
//! strongly connected components of the quotient are contracted too. Kernelisation contracts further where that loses no
//! optimal plan (`divvy_proof::pipeline::kernelisation`). Tensors inside a unit matter to memory alone; tensors with the same
//! producer and the same readers among the units are merged.

use std::collections::HashMap;

use crate::pipeline::number_lists::NumberLists;
use crate::pipeline::tables::{NETWORK_INPUT, NEVER, PipelineTables};
use crate::strongly_connected::components;

/// Units and the tensors between them, with the costs of both on each kind of device.
pub struct StageNetwork<'a> {
    pub(crate) tables: &'a PipelineTables,
    /// The number of kinds of devices.
    pub(crate) kinds: usize,
    count: usize,
    /// The unit of each op.
    pub(crate) unit_of: Vec<u32>,
    /// The ops of each unit, in canonical order.
    pub(crate) ops: NumberLists,
    /// By unit and kind: the work of its ops; [`NEVER`] where one of them must not run.
    work: Vec<u64>,
    /// The unit that produces each tensor; [`NETWORK_INPUT`] for network inputs.
    pub(crate) producer: Vec<u32>,
    /// The other units that read each tensor.
    pub(crate) readers: NumberLists,
    /// By tensor and kind.
    enter: Vec<u64>,
    leave: Vec<u64>,
    must_leave: Vec<bool>,
    /// The tensors that each unit reads from others.
    pub(crate) inputs: NumberLists,
    /// The tensors that each unit produces for others.
    pub(crate) outputs: NumberLists,
    pub(crate) predecessors: NumberLists,
    pub(crate) successors: NumberLists,
    /// A topological order of the units, close to the canonical one.
    pub(crate) order: Vec<u32>,
    /// Whether some stage could overflow or exceed a memory limit.
    pub(crate) memory_matters: bool,
}

impl<'a> StageNetwork<'a> {
    /// The network in which only colocation groups are contracted.
    pub fn new(tables: &'a PipelineTables) -> StageNetwork<'a> {
        StageNetwork::with_units(tables, &closed_groups(tables))
    }

    /// The network with the given unit of each op; their quotient graph must be acyclic.
    pub(crate) fn with_units(tables: &'a PipelineTables, unit_of: &[u32]) -> StageNetwork<'a> {
        let (unit_of, count) = renumber(tables, unit_of);
        let in_order: Vec<(u32, u32)> = tables.order().iter().map(|&op| (unit_of[op as usize], op)).collect();
        let ops = NumberLists::group(count, &in_order);
        let kinds = tables.kinds().len();
        let mut work = vec![0u64; count * kinds];
        for op in 0..tables.op_count() {
            for kind in 0..kinds {
                let sum = &mut work[unit_of[op] as usize * kinds + kind];
                *sum = (*sum).min(NEVER) + tables.work(op, kind);
                *sum = (*sum).min(NEVER);
            }
        }
        let mut network = StageNetwork {
            tables,
            kinds,
            count,
            work,
            producer: Vec::new(),
            readers: NumberLists::default(),
            enter: Vec::new(),
            leave: Vec::new(),
            must_leave: Vec::new(),
            inputs: NumberLists::default(),
            outputs: NumberLists::default(),
            predecessors: NumberLists::default(),
            successors: NumberLists::default(),
            order: Vec::new(),
            memory_matters: !tables.no_overflow() || !tables.no_memory_limit(),
            unit_of,
            ops,
        };
        network.add_tensors();
        network.order = network.topological_order();
        network
    }

    /// The number of units.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn tensor_count(&self) -> usize {
        self.producer.len()
    }

    /// The number of pairs of a tensor and a reading unit.
    pub(crate) fn reads(&self) -> usize {
        self.inputs.total_len()
    }

    /// The work of a unit on a kind; [`NEVER`] where it must not run.
    pub(crate) fn work(&self, unit: usize, kind: usize) -> u64 {
        self.work[unit * self.kinds + kind]
    }

    /// The time of a tensor that enters a stage of a kind.
    pub(crate) fn enter(&self, tensor: usize, kind: usize) -> u64 {
        self.enter[tensor * self.kinds + kind]
    }

    /// The time of a tensor that leaves a stage of a kind.
    pub(crate) fn leave(&self, tensor: usize, kind: usize) -> u64 {
        self.leave[tensor * self.kinds + kind]
    }

    /// Whether a tensor leaves a stage of a kind wherever it is read.
    pub(crate) fn must_leave(&self, tensor: usize, kind: usize) -> bool {
        self.must_leave[tensor * self.kinds + kind]
    }

    /// Fills in the tensors between units and the edges of the quotient graph.
    fn add_tensors(&mut self) {
        let tables = self.tables;
        let mut known: HashMap<(u32, Vec<u32>, Vec<bool>), usize> = HashMap::new();
        let (mut producer, mut readers) = (Vec::new(), Vec::new());
        let mut follows = Vec::new();
        for tensor in 0..tables.tensor_count() {
            let from = match tables.producer(tensor) {
                NETWORK_INPUT => NETWORK_INPUT,
                op => self.unit_of[op as usize],
            };
            let units = tables.consumers(tensor).iter().map(|&op| self.unit_of[op as usize]);
            let mut to: Vec<u32> = units.filter(|&unit| unit != from).collect();
            to.sort_unstable();
            to.dedup();
            if from != NETWORK_INPUT {
                follows.extend(to.iter().map(|&unit| (from, unit)));
            }
            // A tensor without a route is refused where both ends are known; its cost here must stay a lower bound.
            let known_time = |time: u64| if time < NEVER { time } else { 0 };
            let costs: Vec<(u64, u64, bool)> = (0..self.kinds)
                .map(|s| (tables.enter(tensor, s), tables.leave(tensor, s), tables.must_leave(tensor, s)))
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
                producer.push(from);
                readers.push(to);
                self.enter.extend(std::iter::repeat_n(0, self.kinds));
                self.leave.extend(std::iter::repeat_n(0, self.kinds));
                self.must_leave.extend(costs.iter().map(|c| c.2));
                producer.len() - 1
            });
            for (kind, &(enter, leave, _)) in costs.iter().enumerate() {
                // Sums stay in range: a problem is refused if all its transfers together do not.
                let at = number * self.kinds + kind;
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
        let making: Vec<(u32, u32)> = (producer.iter().enumerate())
            .filter(|&(_, &unit)| unit != NETWORK_INPUT)
            .map(|(t, &unit)| (unit, t as u32))
            .collect();
        self.outputs = NumberLists::group(count, &making);
        self.readers = NumberLists::new(readers.into_iter());
        self.producer = producer;
    }

    fn topological_order(&self) -> Vec<u32> {
        let mut keys = vec![0.0; self.len()];
        for (place, &op) in self.tables.order().iter().enumerate() {
            keys[self.unit_of[op as usize] as usize] = -(place as f64);
        }
        self.sorted_by(&keys)
    }

    /// The topological order that takes the ready unit with the largest key first.
    pub fn sorted_by(&self, keys: &[f64]) -> Vec<u32> {
        let mut order = Vec::new();
        TopologicalSorter::default().sort(self, keys, &mut order);
        order
    }

    /// The ops in the order of the units.
    pub fn ops_in(&self, units: &[u32]) -> Vec<u32> {
        units.iter().flat_map(|&unit| self.ops.get(unit as usize)).copied().collect()
    }
}

/// Kahn's algorithm with priorities: O(edges + units log units). Keeps its buffers between calls.
#[derive(Default)]
pub(crate) struct TopologicalSorter {
    waiting: Vec<u32>,
    ready: std::collections::BinaryHeap<(u64, std::cmp::Reverse<u32>)>,
}

impl TopologicalSorter {
    /// Writes the topological order that takes the ready unit with the largest key first; of equal keys, the lowest unit.
    pub(crate) fn sort(&mut self, network: &StageNetwork<'_>, keys: &[f64], order: &mut Vec<u32>) {
        order.clear();
        self.waiting.clear();
        self.waiting.extend((0..network.len()).map(|unit| network.predecessors.get(unit).len() as u32));
        self.ready.clear();
        let first = self.waiting.iter().zip(keys).enumerate().filter(|(_, (waiting, _))| **waiting == 0);
        self.ready.extend(first.map(|(unit, (_, &key))| (sortable(key), std::cmp::Reverse(unit as u32))));
        while let Some((_, std::cmp::Reverse(unit))) = self.ready.pop() {
            order.push(unit);
            for &next in network.successors.get(unit as usize) {
                self.waiting[next as usize] -= 1;
                if self.waiting[next as usize] == 0 {
                    self.ready.push((sortable(keys[next as usize]), std::cmp::Reverse(next)));
                }
            }
        }
    }
}

/// An integer with the same order as the float.
fn sortable(key: f64) -> u64 {
    let bits = key.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Renumbers units from 0 in the order of their first ops; also their number.
fn renumber(tables: &PipelineTables, unit_of: &[u32]) -> (Vec<u32>, usize) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut renamed = vec![0; unit_of.len()];
    for &op in tables.order() {
        let next = numbers.len() as u32;
        renamed[op as usize] = *numbers.entry(unit_of[op as usize]).or_insert(next);
    }
    (renamed, numbers.len())
}

/// The unit of each op with colocation groups contracted.
fn closed_groups(tables: &PipelineTables) -> Vec<u32> {
    let mut unit_of: Vec<u32> = (0..tables.op_count() as u32).collect();
    if tables.groups().is_empty() {
        return unit_of;
    }
    for group in tables.groups() {
        for &op in group {
            unit_of[op as usize] = group[0];
        }
    }
    contract_cycles(tables, &unit_of)
}

/// Contracts the strongly connected components of the quotient graph.
fn contract_cycles(tables: &PipelineTables, unit_of: &[u32]) -> Vec<u32> {
    let (unit_of, count) = renumber(tables, unit_of);
    let mut pairs = Vec::new();
    for op in 0..tables.op_count() {
        let next = tables.successors(op).iter().map(|&next| (unit_of[op], unit_of[next as usize]));
        pairs.extend(next.filter(|(a, b)| a != b));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let next = NumberLists::group(count, &pairs);
    let component = components(count, |unit| next.get(unit));
    unit_of.iter().map(|&unit| component[unit as usize]).collect()
}
