//! One node as the rules see it: operator, attributes, and what is known of its inputs.
//!
//! A rule answers with the shapes of the outputs, or with the reason why it cannot. All arithmetic here is checked:
//! whatever a file claims ends as a reason, never as a panic, and no memory is taken by a claimed count.

use super::attribute;
use crate::onnx::facts::Fact;
use crate::onnx::proto::Node;
use crate::onnx::trips::{Trips, trips_of};

/// A shape.
pub(super) type Shape = Vec<u64>;

/// The shapes of a node's outputs, or why they are not known.
pub(super) type Shapes = Result<Vec<Shape>, String>;

/// The highest rank that is followed; runtimes stop far below.
pub(super) const MAX_RANK: usize = 32;

/// The most elements whose content is followed.
pub(super) const MAX_CONTENT: usize = 4096;

/// The most elements that an assumption covers: sizes and counts are short lists.
pub(super) const MAX_ASSUMED: usize = 64;

/// What to take for what depends on data.
#[derive(Clone, Copy)]
pub(super) struct Assumed<'a> {
    /// For whole numbers.
    pub(super) numbers: &'static [i64; MAX_ASSUMED],
    /// For rounds of loops, before the first of the numbers.
    pub(super) trips: Option<&'a Trips>,
}

/// The elements of a small tensor that does not depend on the network's inputs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// Whole numbers, or truth values as 0 and 1.
    Whole(Vec<i64>),
    /// Floats: scales of a resize, and what sizes are computed with on the way.
    Real(Vec<f64>),
}

impl Content {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(numbers) => numbers.len(),
            Self::Real(numbers) => numbers.len(),
        }
    }
}

/// What is known of a value while the graph is walked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Value {
    /// Element type by its ONNX number; 0 where it is not known.
    pub(super) element: i32,
    /// The shape.
    pub(super) shape: Option<Shape>,
    /// The content.
    pub(super) content: Option<Content>,
}

impl Value {
    /// What others may know of it.
    pub(super) fn into_fact(self) -> Fact {
        let content = match self.content {
            Some(Content::Whole(numbers)) => Some(numbers),
            _ => None,
        };
        Fact { element: self.element, shape: self.shape, content }
    }
}

/// A node with what is known of its inputs.
pub(super) struct Call<'a> {
    pub(super) node: &'a Node,
    /// Version of the operator set that the node is of.
    pub(super) opset: i64,
    /// One for each input; none where an optional input is left out.
    pub(super) inputs: Vec<Option<&'a Value>>,
    /// What to take for numbers that depend on data; none where such things are to stay unknown.
    pub(super) assumed: Option<Assumed<'a>>,
}

impl<'a> Call<'a> {
    /// The operator.
    pub(super) fn operator(&self) -> &'a str {
        self.node.op_type.as_deref().unwrap_or_default()
    }

    /// Whether an input is there.
    pub(super) fn has(&self, index: usize) -> bool {
        self.input(index).is_some()
    }

    /// An input, if it is there.
    pub(super) fn input(&self, index: usize) -> Option<&'a Value> {
        self.inputs.get(index).copied().flatten()
    }

    /// The shape of an input.
    pub(super) fn shape(&self, index: usize) -> Result<&'a [u64], String> {
        let input = self.input(index).ok_or_else(|| format!("input {index} is missing"))?;
        input
            .shape
            .as_deref()
            .ok_or_else(|| format!("the shape of input `{}` is not known", self.node.input[index]))
    }

    /// The shape of an input of a given rank.
    pub(super) fn shape_of<const RANK: usize>(&self, index: usize) -> Result<[u64; RANK], String> {
        let shape = self.shape(index)?;
        shape
            .try_into()
            .map_err(|_| format!("input `{}` has rank {}, not {RANK}", self.node.input[index], shape.len()))
    }

    /// The shapes of all inputs that are there.
    pub(super) fn all_shapes(&self) -> Result<Vec<&'a [u64]>, String> {
        (0..self.inputs.len()).filter(|&index| self.has(index)).map(|index| self.shape(index)).collect()
    }

    /// The content of an input of whole numbers.
    pub(super) fn numbers(&self, index: usize) -> Result<&'a [i64], String> {
        let input = self.input(index).ok_or_else(|| format!("input {index} is missing"))?;
        match (&input.content, self.assumed, input.shape.as_deref().map(product)) {
            (Some(Content::Whole(numbers)), _, _) => Ok(numbers),
            (None, Some(assumed), Some(Ok(count))) if count <= MAX_ASSUMED as u64 => {
                Ok(&assumed.numbers[..count as usize])
            }
            _ => Err(format!(
                "the outcome depends on the content of input `{}`, which is not a known constant",
                self.node.input[index]
            )),
        }
    }

    /// Whether the content of an input is only assumed.
    pub(super) fn is_assumed(&self, index: usize) -> bool {
        self.assumed.is_some() && self.input(index).is_some_and(|input| input.content.is_none())
    }

    /// A count that depends on data, where one is to be assumed.
    pub(super) fn assumed_count(&self, reason: &str) -> Result<u64, String> {
        self.assumed.map(|assumed| assumed.numbers[0].unsigned_abs()).ok_or_else(|| reason.to_owned())
    }

    /// The rounds of a loop that depend on data, where they are said or to be assumed.
    pub(super) fn assumed_trips(&self) -> Option<u64> {
        let assumed = self.assumed?;
        let said = assumed.trips.and_then(|trips| trips_of(trips, self.node));
        said.or_else(|| Some(assumed.numbers[0].unsigned_abs()))
    }

    /// The content of an input of one whole number.
    pub(super) fn number(&self, index: usize) -> Result<i64, String> {
        match self.numbers(index)? {
            [number] => Ok(*number),
            numbers => Err(format!(
                "input `{}` has {} elements where one is due",
                self.node.input[index],
                numbers.len()
            )),
        }
    }

    /// A list that newer operator sets take as an input and older ones as an attribute.
    pub(super) fn numbers_or_ints(&self, index: usize, name: &str) -> Result<Option<&'a [i64]>, String> {
        if self.has(index) { self.numbers(index).map(Some) } else { Ok(self.ints(name)) }
    }

    /// A number attribute, or its default.
    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        attribute::int(self.node, name).unwrap_or(default)
    }

    /// A list attribute.
    pub(super) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        attribute::ints(self.node, name)
    }

    /// A text attribute, or its default.
    pub(super) fn text(&self, name: &str, default: &'static str) -> &'a str {
        attribute::text(self.node, name).unwrap_or(default)
    }

    /// A number attribute that must be there.
    pub(super) fn required_int(&self, name: &str) -> Result<i64, String> {
        attribute::int(self.node, name).ok_or_else(|| format!("attribute `{name}` is missing"))
    }

    /// The axis of an attribute, within a rank.
    pub(super) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize, String> {
        axis_within(self.int(name, default), rank)
    }
}

/// An axis counted from the end where it is negative.
pub(super) fn axis_within(axis: i64, rank: usize) -> Result<usize, String> {
    let signed_rank = i64::try_from(rank).map_err(|_| TOO_LARGE.to_owned())?;
    let position = if axis < 0 { axis.checked_add(signed_rank) } else { Some(axis) };
    match position {
        Some(position) if (0..signed_rank).contains(&position) => Ok(position as usize),
        _ => Err(format!("axis {axis} is outside rank {rank}")),
    }
}

/// Axes counted from the end where they are negative; none may come twice.
pub(super) fn axes_within(axes: &[i64], rank: usize) -> Result<Vec<bool>, String> {
    let mut named = vec![false; rank];
    for &axis in axes {
        let position = axis_within(axis, rank)?;
        if named[position] {
            return Err(format!("axis {axis} comes twice"));
        }
        named[position] = true;
    }
    Ok(named)
}

const TOO_LARGE: &str = "a size is out of range";

/// A size from a signed number.
pub(super) fn size(number: i64) -> Result<u64, String> {
    u64::try_from(number).map_err(|_| format!("a size of {number} is negative"))
}

/// A signed number from a size.
pub(super) fn signed(size: u64) -> Result<i64, String> {
    i64::try_from(size).map_err(|_| TOO_LARGE.to_owned())
}

/// The product.
pub(super) fn product(dims: &[u64]) -> Result<u64, String> {
    // A zero anywhere makes it zero, however large the others are.
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter().try_fold(1u64, |product, &dim| times(product, dim))
}

/// The product of two.
pub(super) fn times(left: u64, right: u64) -> Result<u64, String> {
    left.checked_mul(right).ok_or_else(|| TOO_LARGE.to_owned())
}

/// The sum of two.
pub(super) fn plus(left: u64, right: u64) -> Result<u64, String> {
    left.checked_add(right).ok_or_else(|| TOO_LARGE.to_owned())
}

/// The quotient, which must be whole.
pub(super) fn divided(left: u64, right: u64) -> Result<u64, String> {
    match left.checked_rem(right) {
        Some(0) => Ok(left / right),
        _ => Err(format!("{left} is not a multiple of {right}")),
    }
}

/// The common shape of operands, aligned at the last axis.
pub(super) fn broadcast(shapes: &[&[u64]]) -> Result<Shape, String> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut common = vec![1; rank];
    for shape in shapes {
        for (dim, &other) in common[rank - shape.len()..].iter_mut().zip(*shape) {
            if *dim == 1 {
                *dim = other;
            } else if other != 1 && other != *dim {
                return Err(format!("dimensions {dim} and {other} do not go together"));
            }
        }
    }
    Ok(common)
}

/// Rejects shapes that no tensor can have.
pub(super) fn check(shape: &[u64]) -> Result<(), String> {
    if shape.len() > MAX_RANK {
        return Err(format!("rank {} is above {MAX_RANK}", shape.len()));
    }
    let elements =
        shape.iter().filter(|&&dim| dim != 0).try_fold(1u64, |product, &dim| times(product, dim))?;
    signed(elements).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_both_ends_and_stay_inside() {
        assert_eq!(axis_within(-1, 3), Ok(2));
        assert_eq!(axis_within(0, 3), Ok(0));
        assert!(axis_within(3, 3).is_err() && axis_within(-4, 3).is_err());
        assert!(axis_within(i64::MIN, 3).is_err() && axis_within(i64::MAX, 3).is_err());
        assert!(axes_within(&[0, -3], 3).is_err());
    }

    #[test]
    fn shapes_are_aligned_at_the_last_axis() {
        assert_eq!(broadcast(&[&[2, 3, 4], &[3, 1], &[]]), Ok(vec![2, 3, 4]));
        assert_eq!(broadcast(&[&[1], &[0]]), Ok(vec![0]));
        assert!(broadcast(&[&[2], &[3]]).is_err());
    }

    #[test]
    fn absurd_shapes_are_refused() {
        assert!(check(&[1 << 62, 4]).is_err());
        assert!(check(&[0, 1 << 62, 4]).is_err());
        assert!(check(&[1; MAX_RANK + 1]).is_err());
        assert!(check(&[]).is_ok());
        assert_eq!(product(&[u64::MAX, u64::MAX, 0]), Ok(0));
    }
}
