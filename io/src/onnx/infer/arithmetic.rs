//! Arithmetic on the contents of small constants, element by element, with broadcasting.
//!
//! An overflow or a division by zero leaves no content; the shapes stand all the same.

use super::call::{Call, Content};

/// The content of the output of an operator that works element by element.
pub(super) fn content(call: &Call, shape: &[u64]) -> Option<Content> {
    let operands: Vec<Operand> = call
        .inputs
        .iter()
        .map(|input| {
            let input = (*input)?;
            Some(Operand { shape: input.shape.as_deref()?, content: input.content.as_ref()? })
        })
        .collect::<Option<_>>()?;
    match (call.operator(), operands.as_slice()) {
        (operator, [operand]) => unary(operator, operand.content),
        ("Where", [condition, yes, no]) => choose(condition, yes, no, shape),
        ("Min" | "Max" | "Sum", [first, others @ ..]) => {
            let mut result = first.spread(shape)?;
            for other in others {
                result = both(call, &result, &other.spread(shape)?)?;
            }
            Some(result)
        }
        (_, [left, right]) => both(call, &left.spread(shape)?, &right.spread(shape)?),
        _ => None,
    }
}

struct Operand<'a> {
    shape: &'a [u64],
    content: &'a Content,
}

impl Operand<'_> {
    /// The content, repeated to fill a shape.
    fn spread(&self, shape: &[u64]) -> Option<Content> {
        match self.content {
            Content::Whole(numbers) => spread(self.shape, numbers, shape).map(Content::Whole),
            Content::Real(numbers) => spread(self.shape, numbers, shape).map(Content::Real),
        }
    }
}

fn spread<T: Copy>(from: &[u64], numbers: &[T], shape: &[u64]) -> Option<Vec<T>> {
    if from.len() > shape.len() {
        return None;
    }
    let mut spread = Vec::new();
    each_place(shape, |place| {
        spread.push(*numbers.get(usize::try_from(broadcast_index(from, place)).ok()?)?);
        Some(())
    })?;
    Some(spread)
}

/// Calls for each place of a shape, in the order of its elements, until a call returns none.
pub(super) fn each_place(shape: &[u64], mut call: impl FnMut(&[u64]) -> Option<()>) -> Option<()> {
    if shape.contains(&0) {
        return Some(());
    }
    let mut place = vec![0; shape.len()];
    loop {
        call(&place)?;
        let mut axis = shape.len();
        loop {
            axis = match axis.checked_sub(1) {
                Some(axis) => axis,
                None => return Some(()),
            };
            place[axis] += 1;
            if place[axis] < shape[axis] {
                break;
            }
            place[axis] = 0;
        }
    }
}

/// The position of a place in a tensor's elements.
pub(super) fn linear(shape: &[u64], place: &[u64]) -> u64 {
    let dims = shape.iter().zip(place);
    dims.fold(0u64, |position, (&dim, &index)| position.saturating_mul(dim).saturating_add(index))
}

/// The position in the elements of a smaller tensor that a place of a larger one reads.
pub(super) fn broadcast_index(shape: &[u64], place: &[u64]) -> u64 {
    let skip = place.len().saturating_sub(shape.len());
    let dims = shape.iter().zip(&place[skip..]);
    dims.fold(0u64, |position, (&dim, &index)| {
        position.saturating_mul(dim).saturating_add(if dim == 1 { 0 } else { index })
    })
}

fn unary(operator: &str, content: &Content) -> Option<Content> {
    Some(match content {
        Content::Whole(numbers) => {
            let rule: fn(i64) -> Option<i64> = match operator {
                "Neg" => i64::checked_neg,
                "Abs" => i64::checked_abs,
                "Not" => |number| Some(i64::from(number == 0)),
                "Sign" => |number| Some(number.signum()),
                "Floor" | "Ceil" | "Min" | "Max" | "Sum" => Some,
                _ => return None,
            };
            Content::Whole(numbers.iter().map(|&number| rule(number)).collect::<Option<_>>()?)
        }
        Content::Real(numbers) => {
            let rule: fn(f64) -> f64 = match operator {
                "Neg" => |number| -number,
                "Abs" => f64::abs,
                "Sign" => |number| if number == 0.0 { 0.0 } else { number.signum() },
                "Floor" => f64::floor,
                "Ceil" => f64::ceil,
                "Round" => f64::round_ties_even,
                "Sqrt" => f64::sqrt,
                "Reciprocal" => f64::recip,
                "Min" | "Max" | "Sum" => |number| number,
                _ => return None,
            };
            Content::Real(numbers.iter().map(|&number| rule(number)).collect())
        }
    })
}

fn both(call: &Call, left: &Content, right: &Content) -> Option<Content> {
    match (left, right) {
        (Content::Whole(left), Content::Whole(right)) => {
            let truncated = call.int("fmod", 0) != 0;
            let pairs = left.iter().zip(right);
            pairs
                .map(|(&left, &right)| whole(call.operator(), left, right, truncated))
                .collect::<Option<_>>()
                .map(Content::Whole)
        }
        (Content::Real(left), Content::Real(right)) => reals(call.operator(), left, right),
        _ => None,
    }
}

fn whole(operator: &str, left: i64, right: i64, truncated: bool) -> Option<i64> {
    Some(match operator {
        "Add" | "Sum" => left.checked_add(right)?,
        "Sub" => left.checked_sub(right)?,
        "Mul" => left.checked_mul(right)?,
        "Div" => left.checked_div(right)?,
        "Mod" => {
            let rest = left.checked_rem(right)?;
            // The sign is that of the divisor, unless C's remainder is asked for.
            if !truncated && rest != 0 && (rest < 0) != (right < 0) { rest.checked_add(right)? } else { rest }
        }
        "Pow" => left.checked_pow(u32::try_from(right).ok()?)?,
        "Min" => left.min(right),
        "Max" => left.max(right),
        "And" => i64::from(left != 0 && right != 0),
        "Or" => i64::from(left != 0 || right != 0),
        "Xor" => i64::from((left != 0) != (right != 0)),
        "Equal" => i64::from(left == right),
        "Less" => i64::from(left < right),
        "LessOrEqual" => i64::from(left <= right),
        "Greater" => i64::from(left > right),
        "GreaterOrEqual" => i64::from(left >= right),
        _ => return None,
    })
}

fn reals(operator: &str, left: &[f64], right: &[f64]) -> Option<Content> {
    let compare: Option<fn(&f64, &f64) -> bool> = match operator {
        "Equal" => Some(f64::eq),
        "Less" => Some(|left, right| left < right),
        "LessOrEqual" => Some(|left, right| left <= right),
        "Greater" => Some(|left, right| left > right),
        "GreaterOrEqual" => Some(|left, right| left >= right),
        _ => None,
    };
    let pairs = left.iter().zip(right);
    if let Some(compare) = compare {
        return Some(Content::Whole(pairs.map(|(left, right)| i64::from(compare(left, right))).collect()));
    }
    let rule: fn(f64, f64) -> f64 = match operator {
        "Add" | "Sum" => |left, right| left + right,
        "Sub" => |left, right| left - right,
        "Mul" => |left, right| left * right,
        "Div" => |left, right| left / right,
        "Pow" => f64::powf,
        "Min" => f64::min,
        "Max" => f64::max,
        _ => return None,
    };
    Some(Content::Real(pairs.map(|(&left, &right)| rule(left, right)).collect()))
}

fn choose(condition: &Operand, yes: &Operand, no: &Operand, shape: &[u64]) -> Option<Content> {
    let Content::Whole(condition) = condition.spread(shape)? else {
        return None;
    };
    match (yes.spread(shape)?, no.spread(shape)?) {
        (Content::Whole(yes), Content::Whole(no)) => Some(Content::Whole(chosen(&condition, &yes, &no))),
        (Content::Real(yes), Content::Real(no)) => Some(Content::Real(chosen(&condition, &yes, &no))),
        _ => None,
    }
}

fn chosen<T: Copy>(condition: &[i64], yes: &[T], no: &[T]) -> Vec<T> {
    let both = yes.iter().zip(no);
    condition
        .iter()
        .zip(both)
        .map(|(&condition, (&yes, &no))| if condition != 0 { yes } else { no })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::infer::tests::Bench;

    #[test]
    fn places_are_walked_in_order() {
        let mut seen = Vec::new();
        each_place(&[2, 2], |place| {
            seen.push((place.to_vec(), linear(&[2, 2], place), broadcast_index(&[2, 1], place)));
            Some(())
        });
        let expected = [(vec![0, 0], 0, 0), (vec![0, 1], 1, 0), (vec![1, 0], 2, 1), (vec![1, 1], 3, 1)];
        assert_eq!(seen, expected);
        let mut count = 0;
        each_place(&[], |_| {
            count += 1;
            Some(())
        });
        each_place(&[u64::MAX, 0], |_| {
            count += 1;
            Some(())
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn whole_numbers() {
        let bench = Bench::new(13).numbers("a", &[7, -7, 2]).numbers("b", &[3]).numbers("z", &[0]);
        let on =
            |operator: &str, inputs: &[&str]| bench.clone().node(operator, inputs, &["y"]).content_of("y");
        assert_eq!(on("Div", &["a", "b"]), Some(vec![2, -2, 0]));
        assert_eq!(on("Mod", &["a", "b"]), Some(vec![1, 2, 2]));
        assert_eq!(on("Max", &["a", "b", "z"]), Some(vec![7, 3, 3]));
        assert_eq!(on("Less", &["a", "b"]), Some(vec![0, 1, 1]));
        assert_eq!(on("Where", &["z", "a", "b"]), Some(vec![3, 3, 3]));
        assert_eq!(on("Neg", &["a"]), Some(vec![-7, 7, -2]));
        assert_eq!(on("Div", &["a", "z"]), None);
        assert_eq!(on("Relu", &["a"]), None);
    }
}
