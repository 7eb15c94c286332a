//! Units that can move to the stage of another, whatever the plan, and leave no stage dearer.
//!
//! *Down*: let all units of D follow from a unit u, their other inputs coming from units that lead to u. In any plan the
//! units of D are in u's stage or later ones, so all of them can move to it. *Up*: let all units of D lead to u, what they
//! make being read by D, u and units that u leads to; then all of them can move to u's stage.
//!
//! Let M be the part of D that is not in u's stage yet. That stage gains M's time, what only M reads of others, and what M
//! makes for others. It no longer sends (down) or takes in (up) what passes between M and the rest. Any other stage, with
//! a part P of D, loses P's time and what passed between P and the rest of D, and now takes in what P made for others
//! (down) or sends what others made for P (up). If neither is dearer for any M or P, some best plan has D and u in
//! one stage. Where it is not known what else a stage reads or sends, the worst is assumed.

use std::collections::BTreeSet;

use crate::bit_set::Bits;
use crate::pipeline::units::{DeviceKind, Order, UnitTensor};

/// The most units that are looked at together.
const MOST_UNITS: usize = 10;

/// Which way units move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the stage of a unit that they follow from.
    Down,
    /// To the stage of a unit that they lead to.
    Up,
}

/// The units and what is between them.
pub(super) struct View<'a> {
    tensors: &'a [UnitTensor],
    kind: &'a DeviceKind,
    made: Vec<Vec<usize>>,
    read: Vec<Vec<usize>>,
    order: Option<&'a Order>,
}

impl<'a> View<'a> {
    /// `order` is missing where there are too many units; then nothing is said to lead to anything.
    pub(super) fn new(tensors: &'a [UnitTensor], kind: &'a DeviceKind, order: Option<&'a Order>) -> View<'a> {
        let units = kind.work.len();
        let (mut made, mut read) = (vec![Vec::new(); units], vec![Vec::new(); units]);
        for (t, tensor) in tensors.iter().enumerate() {
            made[tensor.producer as usize].push(t);
            tensor.consumers.iter().for_each(|&c| read[c as usize].push(t));
        }
        View { tensors, kind, made, read, order }
    }

    /// The most units found that can move to the stage of `to`, none of them taken already.
    pub(super) fn movable(&self, to: usize, way: Direction, taken: &[bool]) -> Vec<usize> {
        let mut group: Vec<usize> = Vec::new();
        let mut found = 0;
        let mut next: BTreeSet<usize> = self.beside(to, way).collect();
        while group.len() < MOST_UNITS {
            let Some(unit) = (if way == Direction::Down { next.pop_first() } else { next.pop_last() }) else {
                break;
            };
            if taken[unit] || self.kind.work[unit].is_none() || !self.may_move(unit, to, way, &group) {
                continue;
            }
            group.push(unit);
            next.extend(self.beside(unit, way));
            if UnitGroup::new(self, to, &group).can_move(way) {
                found = group.len();
            }
        }
        group.truncate(found);
        group
    }

    /// The units after a unit, or those before it.
    fn beside(&self, unit: usize, way: Direction) -> Box<dyn Iterator<Item = usize> + '_> {
        match way {
            Direction::Down => Box::new(self.made[unit].iter().flat_map(|&t| self.readers(t))),
            Direction::Up => Box::new(self.read[unit].iter().map(|&t| self.tensors[t].producer as usize)),
        }
    }

    fn readers(&self, tensor: usize) -> impl Iterator<Item = usize> + '_ {
        self.tensors[tensor].consumers.iter().map(|&unit| unit as usize)
    }

    /// Whether all other units that a unit reads lead to where it moves, or all that read it follow from there.
    fn may_move(&self, unit: usize, to: usize, way: Direction, group: &[usize]) -> bool {
        let known = |sets: fn(&Order) -> &Vec<Bits>, other: usize| {
            self.order.is_some_and(|order| sets(order)[to].has(other))
        };
        let is_near = |other: usize| other == to || group.contains(&other);
        match way {
            Direction::Down => self.read[unit].iter().all(|&t| {
                let producer = self.tensors[t].producer as usize;
                is_near(producer) || known(|order| &order.before, producer)
            }),
            Direction::Up => (self.made[unit].iter().flat_map(|&t| self.readers(t)))
                .all(|reader| is_near(reader) || known(|order| &order.after, reader)),
        }
    }
}

/// A tensor that some unit of a group makes or reads. Units of the group are bits.
struct Thread {
    out: u64,
    into: u64,
    made_in: u32,
    /// By the unit whose stage they move to.
    made_there: bool,
    read_in: u32,
    read_there: bool,
    read_elsewhere: bool,
}

/// Units that may move together.
struct UnitGroup {
    work: Vec<u64>,
    /// For each unit, those that read it.
    readers: Vec<u32>,
    threads: Vec<Thread>,
}

impl UnitGroup {
    fn new(view: &View<'_>, to: usize, units: &[usize]) -> UnitGroup {
        let bit = |unit: usize| units.iter().position(|&u| u == unit).map_or(0, |i| 1u32 << i);
        let touched: BTreeSet<usize> =
            units.iter().flat_map(|&unit| view.made[unit].iter().chain(&view.read[unit])).copied().collect();
        let mut readers = vec![0; units.len()];
        let mut threads = Vec::with_capacity(touched.len());
        for t in touched {
            let producer = view.tensors[t].producer as usize;
            let read_in = view.readers(t).map(bit).fold(0, |all, bit| all | bit);
            let made_in = bit(producer);
            if made_in != 0 {
                readers[made_in.trailing_zeros() as usize] |= read_in;
            }
            threads.push(Thread {
                out: view.kind.out[t],
                into: view.kind.into[t],
                made_in,
                made_there: producer == to,
                read_in,
                read_there: view.readers(t).any(|reader| reader == to),
                read_elsewhere: view.readers(t).any(|reader| reader != to && bit(reader) == 0),
            });
        }
        let work = units.iter().map(|&unit| view.kind.work[unit].unwrap_or(0)).collect();
        UnitGroup { work, readers, threads }
    }

    /// Whether no stage becomes dearer, however the group is spread over stages.
    fn can_move(&self, way: Direction) -> bool {
        let all = (1u32 << self.work.len()) - 1;
        // The whole group first: that is where most fail.
        self.is_cheaper_there(way, all)
            && self.is_cheaper_elsewhere(way, all)
            && (1..all).all(|part| {
                (!self.is_last(way, part) || self.is_cheaper_there(way, part))
                    && self.is_cheaper_elsewhere(way, part)
            })
    }

    fn work(&self, part: u32) -> u64 {
        (self.work.iter().enumerate()).filter(|(i, _)| part >> i & 1 == 1).map(|(_, work)| work).sum()
    }

    /// Whether the rest of the group can be in the stage that a part moves to.
    fn is_last(&self, way: Direction, part: u32) -> bool {
        let mut units = self.readers.iter().enumerate();
        match way {
            Direction::Down => units.all(|(i, &readers)| part >> i & 1 == 0 || readers & !part == 0),
            Direction::Up => units.all(|(i, &readers)| part >> i & 1 == 1 || readers & part == 0),
        }
    }

    /// Whether the stage that a part moves to, with the rest of the group in it already, is no dearer than before.
    fn is_cheaper_there(&self, way: Direction, part: u32) -> bool {
        let (mut gained, mut lost) = (self.work(part), 0);
        for thread in &self.threads {
            let (made, made_beside) = (thread.made_in & part != 0, thread.made_in & !part != 0);
            let (read, read_beside) =
                (thread.read_in & part != 0, thread.read_in & !part != 0 || thread.read_there);
            if made && thread.read_elsewhere {
                gained += thread.out;
            }
            if thread.made_in == 0 && !thread.made_there && read && !read_beside {
                gained += thread.into;
            }
            match way {
                Direction::Down if (thread.made_there || made_beside) && read && !thread.read_elsewhere => {
                    lost += thread.out;
                }
                Direction::Up if made && read_beside => lost += thread.into,
                _ => {}
            }
        }
        gained <= lost
    }

    /// Whether a stage that a part leaves, with no other of the group in it, is no dearer than before.
    fn is_cheaper_elsewhere(&self, way: Direction, part: u32) -> bool {
        let (mut gained, mut lost) = (0, self.work(part));
        for thread in &self.threads {
            let (made, made_beside) =
                (thread.made_in & part != 0, thread.made_in & !part != 0 || thread.made_there);
            let (read, read_beside) =
                (thread.read_in & part != 0, thread.read_in & !part != 0 || thread.read_there);
            match way {
                Direction::Down => {
                    if made && thread.read_elsewhere {
                        gained += thread.into;
                    }
                    if made && read_beside {
                        lost += thread.out;
                    }
                    if made_beside && read && !thread.read_elsewhere {
                        lost += thread.into;
                    }
                }
                Direction::Up => {
                    if thread.made_in == 0 && read && !read_beside {
                        gained += thread.out;
                    }
                    if made && (read_beside || thread.read_elsewhere) {
                        lost += thread.out;
                    }
                    if made_beside && read {
                        lost += thread.into;
                    }
                }
            }
        }
        gained <= lost
    }
}
