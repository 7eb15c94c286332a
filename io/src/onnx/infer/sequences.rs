//! Operators on sequences of tensors: the shapes of the members are kept, as far as they are known.
//!
//! Sequences are followed within one graph. Those that enter or leave a body, and inputs that are sequences, are not.

use super::bodies::Output;
use super::call::{Call, Content, MAX_CONTENT, Shape, Value, axis_within, size};
use super::{NOTHING, Walk, attribute, movement};
use crate::onnx::facts::Sequence;
use crate::onnx::facts::element::{FLOAT, INT64};
use crate::onnx::proto::Node;

/// What a node makes of sequences.
pub(super) enum Made {
    /// A tensor.
    Tensor(Output),
    /// A sequence.
    Sequence(Sequence),
}

impl<'a> Walk<'_, 'a> {
    /// What an operator on sequences makes; none for other operators.
    pub(super) fn sequences(&self, call: &Call) -> Option<Made> {
        let sequence =
            |index: usize| call.node.input.get(index).and_then(|name| self.sequences.get(name.as_str()));
        let first = || sequence(0).cloned().unwrap_or_default();
        let made = match call.operator() {
            "Identity" if sequence(0).is_some() => Ok(first()),
            "SequenceEmpty" => Ok(Sequence { element: empty_element(call), members: Some(Vec::new()) }),
            "SequenceConstruct" => Ok(Sequence {
                element: call.input(0).map_or(0, |input| input.element),
                members: Some(call.inputs.iter().flatten().map(|input| input.shape.clone()).collect()),
            }),
            "SplitToSequence" => split(call),
            "SequenceInsert" => insert(call, first()),
            "SequenceErase" => erase(call, first()),
            "SequenceAt" => return Some(Made::Tensor(at(call, &first()))),
            "ConcatFromSequence" => return Some(Made::Tensor(concat(call, &first()))),
            "SequenceLength" => return Some(Made::Tensor(length(&first()))),
            _ => return None,
        };
        let element =
            sequence(0).map_or_else(|| call.input(0).map_or(0, |input| input.element), |s| s.element);
        Some(Made::Sequence(made.unwrap_or(Sequence { element, members: None })))
    }

    /// Keeps what [`Walk::sequences`] found.
    pub(super) fn keep_sequence(&mut self, index: usize, node: &'a Node, made: Made) {
        let Some(name) = node.output.first().filter(|name| !name.is_empty()) else { return };
        match made {
            Made::Sequence(sequence) => {
                self.sequences.insert(name, sequence);
            }
            Made::Tensor((value, reason)) => {
                let fits = value.shape.as_ref().is_none_or(|shape| super::call::check(shape).is_ok());
                let value = if fits { value } else { Value { shape: None, content: None, ..value } };
                if let Some(reason) = self.settle(name, value, &reason) {
                    self.report(index, node, &reason);
                }
            }
        }
    }
}

/// Why the shape of a member is not known.
const UNKNOWN: &str = "the shapes of the sequence's members are not known";

fn empty_element(call: &Call) -> i32 {
    attribute::int(call.node, "dtype").map_or(FLOAT, |number| i32::try_from(number).unwrap_or(0))
}

fn split(call: &Call) -> Result<Sequence, String> {
    let shape = call.shape(0)?;
    let axis = call.axis("axis", 0, shape.len())?;
    let length = shape[axis];
    let parts: Vec<u64> = if !call.has(1) {
        if length > MAX_CONTENT as u64 {
            return Err(UNKNOWN.to_owned());
        }
        vec![1; length as usize]
    } else if call.shape(1)?.is_empty() {
        let each = size(call.number(1)?)?;
        if each == 0 || length.div_ceil(each) > MAX_CONTENT as u64 {
            return Err(UNKNOWN.to_owned());
        }
        (0..length.div_ceil(each)).map(|part| each.min(length - part * each)).collect()
    } else {
        call.numbers(1)?.iter().map(|&part| size(part)).collect::<Result<_, _>>()?
    };
    let dropped = !call.has(1) && call.int("keepdims", 1) == 0;
    let member = |part| {
        let mut shape: Shape = shape.to_vec();
        shape[axis] = part;
        if dropped {
            shape.remove(axis);
        }
        Some(shape)
    };
    let element = call.input(0).map_or(0, |input| input.element);
    Ok(Sequence { element, members: Some(parts.into_iter().map(member).collect()) })
}

/// The place that an input names, counted from the end where it is negative.
fn place(call: &Call, index: usize, count: usize) -> Result<usize, String> {
    axis_within(call.number(index)?, count)
}

fn insert(call: &Call, sequence: Sequence) -> Result<Sequence, String> {
    let mut members = sequence.members.ok_or(UNKNOWN)?;
    let at = if call.has(2) { place(call, 2, members.len() + 1)? } else { members.len() };
    if members.len() >= MAX_CONTENT {
        return Err(UNKNOWN.to_owned());
    }
    let tensor = call.input(1);
    members.insert(at, tensor.and_then(|tensor| tensor.shape.clone()));
    let element =
        if sequence.element == 0 { tensor.map_or(0, |tensor| tensor.element) } else { sequence.element };
    Ok(Sequence { element, members: Some(members) })
}

fn erase(call: &Call, sequence: Sequence) -> Result<Sequence, String> {
    let mut members = sequence.members.ok_or(UNKNOWN)?;
    let last = members.len().checked_sub(1).ok_or("an empty sequence has nothing to erase")?;
    let at = if call.has(1) { place(call, 1, members.len())? } else { last };
    members.remove(at);
    Ok(Sequence { element: sequence.element, members: Some(members) })
}

/// One member: that at a known place, or any where all are alike.
fn at(call: &Call, sequence: &Sequence) -> Output {
    let members = sequence.members.as_deref().unwrap_or_default();
    let alike = members.first().filter(|first| members.iter().all(|member| member == *first));
    let at = place(call, 1, members.len()).ok().map(|at| &members[at]);
    let shape = at.or(alike).cloned().flatten();
    (Value { element: sequence.element, shape, content: None }, UNKNOWN.to_owned())
}

fn concat(call: &Call, sequence: &Sequence) -> Output {
    let joined = || -> Result<Shape, String> {
        let members = sequence.members.as_ref().ok_or(UNKNOWN)?;
        let shapes: Option<Vec<&[u64]>> = members.iter().map(|member| member.as_deref()).collect();
        let shapes = shapes.ok_or(UNKNOWN)?;
        let axis = call.required_int("axis")?;
        if call.int("new_axis", 0) == 0 {
            return movement::joined(&shapes, axis);
        }
        let mut shape = shapes.first().ok_or("it has no members")?.to_vec();
        shape.insert(axis_within(axis, shape.len() + 1)?, shapes.len() as u64);
        Ok(shape)
    };
    match joined() {
        Ok(shape) => (Value { element: sequence.element, shape: Some(shape), content: None }, String::new()),
        Err(reason) => (Value { element: sequence.element, ..NOTHING }, reason),
    }
}

fn length(sequence: &Sequence) -> Output {
    let content = sequence.members.as_ref().map(|members| Content::Whole(vec![members.len() as i64]));
    (Value { element: INT64, shape: Some(Vec::new()), content }, String::new())
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn members_keep_their_shapes() {
        let bench =
            Bench::new(17).input("x", &[7, 4]).scalar("three", 3).scalar("last", -1).scalar("zero", 0);
        let bench = bench.node("SplitToSequence", &["x", "three"], &["parts"]);
        let bench = bench.node("SequenceAt", &["parts", "last"], &["end"]);
        let bench = bench.node("ConcatFromSequence", &["parts"], &["all"]).int("axis", 0);
        let bench = bench.node("SequenceLength", &["parts"], &["count"]);
        let bench = bench.node("SequenceErase", &["parts"], &["fewer"]);
        let bench = bench.node("SequenceInsert", &["fewer", "x", "zero"], &["more"]);
        let bench = bench.node("SequenceAt", &["more", "zero"], &["first"]);
        assert_eq!((bench.shape_of("end"), bench.shape_of("all")), (shape(&[1, 4]), shape(&[7, 4])));
        assert_eq!((bench.content_of("count"), bench.shape_of("first")), (Some(vec![3]), shape(&[7, 4])));
        assert_eq!(bench.facts().sequences["parts"].bytes(), Some(7 * 4 * 4));
        assert_eq!(bench.reason(), "");
    }

    #[test]
    fn what_depends_on_data_is_known_where_all_members_are_alike() {
        let bench =
            Bench::new(17).input("x", &[6, 4]).input("y", &[2]).typed_input("n", 7, &[]).scalar("two", 2);
        let even = bench.clone().node("SplitToSequence", &["x", "two"], &["s"]);
        assert_eq!(even.node("SequenceAt", &["s", "n"], &["m"]).shape_of("m"), shape(&[2, 4]));
        let unlike = bench.clone().node("SequenceConstruct", &["x", "y"], &["s"]);
        let unlike = unlike.node("SequenceAt", &["s", "n"], &["m"]);
        assert!(unlike.reason().contains("members"), "{}", unlike.reason());
        let open = bench.node("SplitToSequence", &["x", "n"], &["s"]).node("SequenceLength", &["s"], &["l"]);
        assert_eq!((open.shape_of("l"), open.content_of("l")), (shape(&[]), None));
    }
}
