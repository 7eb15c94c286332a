//! The exchange argument of kernelisation: units that can move to the stage of another one, in any plan, at no cost.
//!
//! *Down*: let all units of D be descendants of a unit u, their other predecessors being ancestors of u. In any plan the units
//! of D are in u's stage or later ones, so all of them can move to u's stage. *Up*: let all units of D be ancestors of u, and
//! all readers of their tensors be in D, u, or descendants of u; then all of them can move to u's stage.
//!
//! Let M ⊆ D be the units that are not in u's stage yet. That stage gains work(M), the tensors from elsewhere that only M
//! reads, and the tensors of M that are read elsewhere. It no longer sends (down) or takes in (up) the tensors between M and
//! the rest. Any other stage, with a part P ⊆ D, loses work(P) and the tensors between P and the rest of D, and now takes in
//! the tensors of P that it reads (down) or sends its own that P reads (up). If neither is dearer for any M or P, some
//! optimal plan has D and u in one stage. Where it is not known what else a stage reads or sends, the worst is assumed.
//!
//! Complexity: all subsets of a group of at most ten units.

use std::collections::BTreeSet;

use crate::bit_set::Bits;
use crate::pipeline::relaxation_types::{KindCosts, TransitiveClosure, UnitTensor};

/// The most units that are looked at together: all their subsets are tried.
const MOST_GROUP: usize = 10;

/// Where units move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the stage of an ancestor.
    Down,
    /// To the stage of a descendant.
    Up,
}

/// The units, the tensors between them, and what stages cost.
pub(super) struct UnitGraph<'a> {
    tensors: &'a [UnitTensor],
    kind: &'a KindCosts,
    made: Vec<Vec<usize>>,
    read: Vec<Vec<usize>>,
    order: Option<&'a TransitiveClosure>,
}

impl<'a> UnitGraph<'a> {
    /// `order` is missing where there are too many units; then no ancestors are known.
    pub(super) fn new(
        tensors: &'a [UnitTensor],
        kind: &'a KindCosts,
        order: Option<&'a TransitiveClosure>,
    ) -> UnitGraph<'a> {
        let units = kind.work.len();
        let (mut made, mut read) = (vec![Vec::new(); units], vec![Vec::new(); units]);
        for (t, tensor) in tensors.iter().enumerate() {
            made[tensor.producer as usize].push(t);
            tensor.consumers.iter().for_each(|&c| read[c as usize].push(t));
        }
        UnitGraph { tensors, kind, made, read, order }
    }

    /// A group of units that can move to the stage of `to`, as large as a greedy search finds it, without units taken already.
    pub(super) fn movable(&self, to: usize, direction: Direction, taken: &[bool]) -> Vec<usize> {
        let mut group: Vec<usize> = Vec::new();
        let mut found = 0;
        let mut next: BTreeSet<usize> = self.neighbours(to, direction).collect();
        while group.len() < MOST_GROUP {
            let Some(unit) = (if direction == Direction::Down { next.pop_first() } else { next.pop_last() })
            else {
                break;
            };
            if taken[unit] || self.kind.work[unit].is_none() || !self.may_move(unit, to, direction, &group) {
                continue;
            }
            group.push(unit);
            next.extend(self.neighbours(unit, direction));
            if UnitGroup::new(self, to, &group).can_move(direction) {
                found = group.len();
            }
        }
        group.truncate(found);
        group
    }

    /// The successors of a unit, or its predecessors.
    fn neighbours(&self, unit: usize, direction: Direction) -> Box<dyn Iterator<Item = usize> + '_> {
        match direction {
            Direction::Down => Box::new(self.made[unit].iter().flat_map(|&t| self.readers(t))),
            Direction::Up => Box::new(self.read[unit].iter().map(|&t| self.tensors[t].producer as usize)),
        }
    }

    fn readers(&self, tensor: usize) -> impl Iterator<Item = usize> + '_ {
        self.tensors[tensor].consumers.iter().map(|&unit| unit as usize)
    }

    /// Whether all other predecessors of a unit are ancestors of where it moves (or its successors descendants).
    fn may_move(&self, unit: usize, to: usize, direction: Direction, group: &[usize]) -> bool {
        let known = |sets: fn(&TransitiveClosure) -> &Vec<Bits>, other: usize| {
            self.order.is_some_and(|order| sets(order)[to].has(other))
        };
        let is_near = |other: usize| other == to || group.contains(&other);
        match direction {
            Direction::Down => self.read[unit].iter().all(|&t| {
                let producer = self.tensors[t].producer as usize;
                is_near(producer) || known(|order| &order.before, producer)
            }),
            Direction::Up => (self.made[unit].iter().flat_map(|&t| self.readers(t)))
                .all(|reader| is_near(reader) || known(|order| &order.after, reader)),
        }
    }
}

/// A tensor that some unit of a group makes or reads. Units of the group are bits of a mask.
struct IncidentTensor {
    out: u64,
    into: u64,
    made_in: u32,
    /// Whether the unit whose stage they move to makes it.
    made_there: bool,
    read_in: u32,
    read_there: bool,
    read_elsewhere: bool,
}

/// Units that may move together.
struct UnitGroup {
    work: Vec<u64>,
    /// For each unit, the units of the group that read its tensors.
    readers: Vec<u32>,
    tensors: Vec<IncidentTensor>,
}

impl UnitGroup {
    fn new(graph: &UnitGraph<'_>, to: usize, units: &[usize]) -> UnitGroup {
        let bit = |unit: usize| units.iter().position(|&u| u == unit).map_or(0, |i| 1u32 << i);
        let touched: BTreeSet<usize> = units
            .iter()
            .flat_map(|&unit| graph.made[unit].iter().chain(&graph.read[unit]))
            .copied()
            .collect();
        let mut readers = vec![0; units.len()];
        let mut tensors = Vec::with_capacity(touched.len());
        for t in touched {
            let producer = graph.tensors[t].producer as usize;
            let read_in = graph.readers(t).map(bit).fold(0, |all, bit| all | bit);
            let made_in = bit(producer);
            if made_in != 0 {
                readers[made_in.trailing_zeros() as usize] |= read_in;
            }
            tensors.push(IncidentTensor {
                out: graph.kind.out[t],
                into: graph.kind.into[t],
                made_in,
                made_there: producer == to,
                read_in,
                read_there: graph.readers(t).any(|reader| reader == to),
                read_elsewhere: graph.readers(t).any(|reader| reader != to && bit(reader) == 0),
            });
        }
        let work = units.iter().map(|&unit| graph.kind.work[unit].unwrap_or(0)).collect();
        UnitGroup { work, readers, tensors }
    }

    /// Whether no stage costs more after the move, however the group is spread over stages.
    fn can_move(&self, direction: Direction) -> bool {
        let all = (1u32 << self.work.len()) - 1;
        // Most groups fail as a whole, so that is tried first.
        self.is_cheaper_there(direction, all)
            && self.is_cheaper_elsewhere(direction, all)
            && (1..all).all(|part| {
                (!self.is_last(direction, part) || self.is_cheaper_there(direction, part))
                    && self.is_cheaper_elsewhere(direction, part)
            })
    }

    fn work(&self, part: u32) -> u64 {
        (self.work.iter().enumerate()).filter(|(i, _)| part >> i & 1 == 1).map(|(_, work)| work).sum()
    }

    /// Whether a plan exists in which the rest of the group is in the stage that a part moves to already.
    fn is_last(&self, direction: Direction, part: u32) -> bool {
        let mut units = self.readers.iter().enumerate();
        match direction {
            Direction::Down => units.all(|(i, &readers)| part >> i & 1 == 0 || readers & !part == 0),
            Direction::Up => units.all(|(i, &readers)| part >> i & 1 == 1 || readers & part == 0),
        }
    }

    /// Whether the stage that a part moves to, with the rest of the group in it already, costs no more than before.
    fn is_cheaper_there(&self, direction: Direction, part: u32) -> bool {
        let (mut gained, mut lost) = (self.work(part), 0);
        for tensor in &self.tensors {
            let (made, made_beside) = (tensor.made_in & part != 0, tensor.made_in & !part != 0);
            let (read, read_beside) =
                (tensor.read_in & part != 0, tensor.read_in & !part != 0 || tensor.read_there);
            if made && tensor.read_elsewhere {
                gained += tensor.out;
            }
            if tensor.made_in == 0 && !tensor.made_there && read && !read_beside {
                gained += tensor.into;
            }
            match direction {
                Direction::Down if (tensor.made_there || made_beside) && read && !tensor.read_elsewhere => {
                    lost += tensor.out;
                }
                Direction::Up if made && read_beside => lost += tensor.into,
                _ => {}
            }
        }
        gained <= lost
    }

    /// Whether a stage that a part leaves, with no other unit of the group in it, costs no more than before.
    fn is_cheaper_elsewhere(&self, direction: Direction, part: u32) -> bool {
        let (mut gained, mut lost) = (0, self.work(part));
        for tensor in &self.tensors {
            let (made, made_beside) =
                (tensor.made_in & part != 0, tensor.made_in & !part != 0 || tensor.made_there);
            let (read, read_beside) =
                (tensor.read_in & part != 0, tensor.read_in & !part != 0 || tensor.read_there);
            match direction {
                Direction::Down => {
                    if made && tensor.read_elsewhere {
                        gained += tensor.into;
                    }
                    if made && read_beside {
                        lost += tensor.out;
                    }
                    if made_beside && read && !tensor.read_elsewhere {
                        lost += tensor.into;
                    }
                }
                Direction::Up => {
                    if tensor.made_in == 0 && read && !read_beside {
                        gained += tensor.out;
                    }
                    if made && (read_beside || tensor.read_elsewhere) {
                        lost += tensor.out;
                    }
                    if made_beside && read {
                        lost += tensor.into;
                    }
                }
            }
        }
        gained <= lost
    }
}
