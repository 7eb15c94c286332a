//! Inputs that are parameters: what a decoding step finds in memory, such as its caches of keys and values.
//!
//! A cache is an input of the network as far as its file says. It does not change with the request, and under a cold start
//! it is in host memory like a weight: it has a way to every device that reads it, and room there, once.

use divvy_core::graph::{GraphSpec, ParamSpec, TensorSpec};
use divvy_core::input_error::{Code, InputErrors};

/// Turns the inputs whose names fit one of the patterns into parameters. In a pattern, `*` stands for anything.
pub fn declare_parameters(graph: &mut GraphSpec, patterns: &[String]) -> Result<(), InputErrors> {
    const OPTION: &str = "--parameter";
    let is_input = |tensor: &TensorSpec| tensor.producer.is_none();
    let mut errors = InputErrors::default();
    for pattern in patterns {
        let inputs = || graph.tensors.iter().filter(|tensor| is_input(tensor));
        let mut fitting = inputs().filter(|tensor| fits(pattern, &tensor.name)).peekable();
        if fitting.peek().is_none() {
            let names: Vec<&str> = inputs().take(5).map(|tensor| tensor.name.as_str()).collect();
            let fix = match names.len() {
                0 => "drop it: the network has no inputs".to_owned(),
                _ => format!("its inputs are {}{}", names.join(", "), more(inputs().count() - names.len())),
            };
            errors.add(Code::Dangling, OPTION, format!("no input is called `{pattern}`"), fix);
        }
        for tensor in fitting.filter(|tensor| tensor.output) {
            let message = format!("`{}` is an output too, and a parameter is none", tensor.name);
            errors.add(Code::Contradiction, OPTION, message, "leave it out of the pattern");
        }
    }
    errors.into_result(())?;
    let is_chosen = |tensor: &TensorSpec| is_input(tensor) && patterns.iter().any(|p| fits(p, &tensor.name));
    for tensor in graph.tensors.extract_if(.., |tensor| is_chosen(tensor)) {
        let TensorSpec { name, bytes, consumers: readers, .. } = tensor;
        if !readers.is_empty() {
            graph.params.push(ParamSpec { name, bytes, readers });
        }
    }
    Ok(())
}

fn more(left_out: usize) -> String {
    if left_out == 0 { String::new() } else { format!(" and {left_out} more") }
}

/// Whether a name fits a pattern.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').map_or((None, rest), |(middle, last)| (Some(middle), last));
    // The first place that each part fits leaves most to the parts behind it.
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name) in [
            ("past", "past"),
            ("past_key_values.*", "past_key_values.0.key"),
            ("*.key", "past_key_values.0.key"),
            ("past*.key", "past_key_values.11.key"),
            ("*key*values*", "past_key_values.0.value"),
            ("*", ""),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("past", "past_key"),
            ("past", "a past"),
            ("*.key", "0.value"),
            ("a*b*a", "ab"),
            ("", "x"),
            ("a*a", "a"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    fn network() -> GraphSpec {
        let input = |name: &str, consumers: Vec<u32>, output: bool| TensorSpec {
            name: name.to_owned(),
            bytes: 8,
            consumers,
            output,
            ..TensorSpec::default()
        };
        let tensors = vec![
            input("ids", vec![0], false),
            input("past.0", vec![0, 1], false),
            input("past.1", vec![], false),
            input("mask", vec![1], true),
        ];
        GraphSpec { tensors, ..GraphSpec::default() }
    }

    #[test]
    fn inputs_become_parameters_with_the_same_readers() {
        let mut graph = network();
        declare_parameters(&mut graph, &["past.*".to_owned()]).unwrap();
        let names: Vec<&str> = graph.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["ids", "mask"]);
        let past = ParamSpec { name: "past.0".into(), bytes: 8, readers: vec![0, 1] };
        assert_eq!(graph.params, [past], "nobody reads the other");
    }

    #[test]
    fn what_fits_nothing_or_an_output_is_refused() {
        let mut graph = network();
        let errors = declare_parameters(&mut graph, &["cache*".into(), "mask".into()]).unwrap_err();
        let text = errors.to_string();
        assert!(text.contains("no input is called `cache*`"), "{text}");
        assert!(errors.kept()[0].fix.contains("ids, past.0"), "{}", errors.kept()[0].fix);
        assert!(text.contains("`mask` is an output too"), "{text}");
        assert_eq!(graph, network());
    }
}
