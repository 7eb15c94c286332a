//! Attributes of a node by their name.
//!
//! An attribute that is absent, or that refers to one of a surrounding function, is `None`.

use crate::onnx::proto::{Attribute, Node, Tensor};

/// The attribute.
pub(in crate::onnx) fn find<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))?;
    attribute.ref_attr_name.as_deref().unwrap_or_default().is_empty().then_some(attribute)
}

/// A number.
pub(in crate::onnx) fn int(node: &Node, name: &str) -> Option<i64> {
    // Writers leave out a number that is zero; the attribute itself is there.
    find(node, name).map(|attribute| attribute.i.unwrap_or(0))
}

/// A list of numbers.
pub(in crate::onnx) fn ints<'a>(node: &'a Node, name: &str) -> Option<&'a [i64]> {
    find(node, name).map(|attribute| attribute.ints.as_slice())
}

/// A list of floats.
pub(in crate::onnx) fn floats<'a>(node: &'a Node, name: &str) -> Option<&'a [f32]> {
    find(node, name).map(|attribute| attribute.floats.as_slice())
}

/// A text.
pub(in crate::onnx) fn text<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    find(node, name).and_then(|attribute| std::str::from_utf8(attribute.s.as_deref()?).ok())
}

/// A tensor.
pub(in crate::onnx) fn tensor<'a>(node: &'a Node, name: &str) -> Option<&'a Tensor> {
    find(node, name).and_then(|attribute| attribute.t.as_deref())
}
