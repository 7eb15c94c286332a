//! The types of the relaxed `pipeline` problem: tensors between units, costs by kind of device, the transitive closure.
//!
//! A *unit* is a set of ops that share a stage; [`crate::pipeline::relaxation`] forms them. Units are numbered in
//! topological order.

use crate::bit_set::Bits;

/// A tensor between units.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitTensor {
    /// The unit that makes it.
    pub producer: u32,
    /// The other units that read it, ascending; at least one.
    pub consumers: Vec<u32>,
}

/// What a stage costs on the devices of one kind: those on which every stage costs the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindCosts {
    /// How many devices of the kind there are; for the least kind, as many as stages.
    pub devices: u32,
    /// Time of each unit; none where it cannot run.
    pub work: Vec<Option<u64>>,
    /// Of each tensor, the time to send it to other stages.
    pub out: Vec<u64>,
    /// Of each tensor, the time to take it in from another stage.
    pub into: Vec<u64>,
}

/// The transitive closure of the units: memory is quadratic in their number.
#[derive(Clone, Debug)]
pub(super) struct TransitiveClosure {
    /// The ancestors of each unit.
    pub(super) before: Vec<Bits>,
    /// The descendants of each unit.
    pub(super) after: Vec<Bits>,
}

/// The most units whose transitive closure is stored.
pub const MOST_UNITS: usize = 1 << 13;

impl TransitiveClosure {
    pub(super) fn new(units: usize, tensors: &[UnitTensor]) -> TransitiveClosure {
        let mut before = vec![Bits::none(units); units];
        let mut after = vec![Bits::none(units); units];
        // Tensors are sorted by producer, and producers come before consumers.
        for tensor in tensors.iter().rev() {
            let producer = tensor.producer as usize;
            for &consumer in &tensor.consumers {
                let (head, tail) = after.split_at_mut(consumer as usize);
                head[producer].unite(&tail[0]);
                head[producer].add(consumer as usize);
            }
        }
        for tensor in tensors {
            let producer = tensor.producer as usize;
            for &consumer in &tensor.consumers {
                let (head, tail) = before.split_at_mut(consumer as usize);
                tail[0].unite(&head[producer]);
                tail[0].add(producer);
            }
        }
        TransitiveClosure { before, after }
    }
}
