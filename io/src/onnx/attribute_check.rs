//! Attributes that make no sense, whatever the shapes: a kernel of 2^62, a group of −5. Such a file is damaged or forged,
//! and is refused by the name of the node, where a shape that is merely not known would be assumed.

use divvy_core::input_error::{Code, InputErrors};

use super::proto::{Attribute, Graph, Node};

/// The largest size of a window, a step or a group.
const MOST: i64 = 1 << 31;

/// Attributes of ONNX's own operators that are sizes, from 1 up.
const SIZES: [&str; 14] = [
    "blocksize",
    "dilations",
    "group",
    "hidden_size",
    "kernel_shape",
    "kv_num_heads",
    "num_heads",
    "num_outputs",
    "num_scan_inputs",
    "output_height",
    "output_width",
    "pooled_shape",
    "q_num_heads",
    "strides",
];

/// Those that may be negative, but not as large as that.
const OFFSETS: [&str; 4] = ["axis", "axes", "pads", "perm"];

/// Looks at all nodes, those of bodies included.
pub(super) fn check_attributes(graph: &Graph, errors: &mut InputErrors) {
    let mut open = vec![graph];
    while let Some(graph) = open.pop() {
        for (at, node) in graph.node.iter().enumerate() {
            let standard = matches!(node.domain(), "" | "ai.onnx");
            for attribute in &node.attribute {
                open.extend(attribute.g.as_deref().into_iter().chain(&attribute.graphs));
                if let Some(fault) = Some(attribute).filter(|_| standard).and_then(fault) {
                    let place = format!("graph.node[{at}]");
                    let message = format!("{}: {fault}", described(node));
                    errors.add(Code::Range, place, message, "export the model again; the file is damaged");
                }
            }
        }
    }
}

fn described(node: &Node) -> String {
    match node.name() {
        "" => node.op_type().to_owned(),
        name => format!("`{name}` ({})", node.op_type()),
    }
}

fn fault(attribute: &Attribute) -> Option<String> {
    let name = attribute.name();
    // An attribute of a surrounding function has no value of its own.
    if !attribute.ref_attr_name().is_empty() {
        return None;
    }
    let allowed = if SIZES.contains(&name) {
        1..=MOST
    } else if OFFSETS.contains(&name) {
        -MOST..=MOST
    } else {
        return None;
    };
    let single =
        Some(attribute.i.unwrap_or(0)).filter(|_| attribute.ints.is_empty() && attribute.r#type() == INT);
    let mut numbers = attribute.ints.iter().copied().chain(single);
    let wrong = numbers.find(|number| !allowed.contains(number))?;
    Some(format!(
        "its attribute `{name}` is {wrong}, which is no {}",
        if *allowed.start() == 1 { "size" } else { "place" }
    ))
}

/// The type of an attribute that is one whole number.
const INT: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, numbers: &[i64]) -> Vec<String> {
        let attribute = match numbers {
            [number] => Attribute { i: Some(*number), r#type: Some(INT), ..Attribute::default() },
            many => Attribute { ints: many.to_vec(), r#type: Some(7), ..Attribute::default() },
        };
        let attribute = Attribute { name: Some(name.to_owned()), ..attribute };
        let node = Node {
            op_type: Some("Conv".into()),
            name: Some("c".into()),
            attribute: vec![attribute],
            ..Node::default()
        };
        let inner = Graph { node: vec![node.clone()], ..Graph::default() };
        let body = Attribute { name: Some("body".into()), g: Some(Box::new(inner)), ..Attribute::default() };
        let outer = Node { op_type: Some("Loop".into()), attribute: vec![body], ..Node::default() };
        let mut errors = InputErrors::default();
        check_attributes(&Graph { node: vec![node, outer], ..Graph::default() }, &mut errors);
        errors.kept().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nonsense_is_refused_by_the_name_of_its_node_in_bodies_too() {
        for (name, numbers) in
            [("kernel_shape", &[1, 1 << 62][..]), ("group", &[-5]), ("group", &[0]), ("axis", &[i64::MIN])]
        {
            let found = faults(name, numbers);
            assert_eq!(found.len(), 2, "{name} {numbers:?}");
            assert!(found[0].contains("`c` (Conv)") && found[0].contains(name), "{found:?}");
        }
        for (name, numbers) in [
            ("kernel_shape", &[3, 3][..]),
            ("group", &[1]),
            ("pads", &[-1, 2]),
            ("to", &[-1]),
            ("axis", &[-1]),
        ] {
            assert!(faults(name, numbers).is_empty(), "{name} {numbers:?}");
        }
    }
}
