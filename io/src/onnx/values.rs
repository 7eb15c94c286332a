//! What is known of every value of a model, as a list: for people, and for comparing with other tools.

use std::collections::HashMap;

use serde::Serialize;

use super::facts::{Facts, element_name};
use super::proto::Model;

/// A value: an input, or what a node makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueFact {
    /// Its name.
    pub name: String,
    /// The type of its elements, such as `float`, or `sequence(float)`; `unknown` where it is not known.
    pub element: String,
    /// Its shape; none where it is not known.
    pub shape: Option<Vec<u64>>,
    /// Why its shape is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The inputs of a model and what its nodes make, in the order of the file. Values inside bodies are left out.
pub fn values(model: &Model, facts: &Facts) -> Vec<ValueFact> {
    let Some(graph) = &model.graph else { return Vec::new() };
    let reasons: HashMap<usize, &String> = facts.unknown.iter().map(|(node, why)| (*node, why)).collect();
    let inputs = graph.input.iter().map(|input| (input.name(), None));
    let made = graph.node.iter().enumerate();
    let made = made.flat_map(|(at, node)| node.output.iter().map(move |name| (name.as_str(), Some(at))));
    let named = inputs.chain(made).filter(|(name, _)| !name.is_empty());
    named
        .map(|(name, node)| {
            let fact = facts.values.get(name).cloned().unwrap_or_default();
            let element = match facts.sequences.get(name) {
                Some(sequence) => format!("sequence({})", element_name(sequence.element)),
                None => element_name(fact.element).to_owned(),
            };
            let reason = node.and_then(|node| reasons.get(&node)).map(|reason| (*reason).clone());
            ValueFact {
                name: name.to_owned(),
                element,
                reason: reason.filter(|_| fact.shape.is_none()),
                shape: fact.shape,
            }
        })
        .collect()
}
