//! How a model file is read, as asked for and as a plan file records it.

use std::collections::BTreeMap;

use divvy_core::coarsen::Granularity;
use serde::{Deserialize, Serialize};

use crate::onnx::trips::EVERY_LOOP;
use crate::shell::shell_word;

/// How a model file is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadOptions {
    /// Sizes given to symbolic dimensions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: BTreeMap<String, u64>,
    /// How often loops run whose rounds depend on data, by the name of the loop; `*` is for all others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trips: BTreeMap<String, u64>,
    /// How much of the network one op stands for; none: fused for ONNX models, else op.
    #[serde(with = "granularity_name", skip_serializing_if = "Option::is_none")]
    pub granularity: Option<Granularity>,
    /// Patterns of inputs that are parameters: in memory before the request comes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}

impl ReadOptions {
    /// The options of a command that reads a file in the same way, each a word or two for a shell.
    pub fn as_options(&self) -> Vec<String> {
        let dims = self.dims.iter().map(|(name, size)| dim_option(name, *size));
        let trips = self.trips.iter().map(|(name, rounds)| trips_option(name, *rounds));
        let granularity = self.granularity.map(|granularity| format!("--granularity {}", granularity.name()));
        let parameters = self.parameters.iter().map(|pattern| parameter_option(pattern));
        dims.chain(trips).chain(granularity).chain(parameters).collect()
    }
}

/// The option that sets a dimension.
pub fn dim_option(name: &str, size: u64) -> String {
    format!("--dim {}", shell_word(&format!("{name}={size}")))
}

/// The option that says how often a loop runs.
pub fn trips_option(name: &str, rounds: u64) -> String {
    match name {
        EVERY_LOOP => format!("--trips {rounds}"),
        name => format!("--trips {}", shell_word(&format!("{name}={rounds}"))),
    }
}

/// The option that makes parameters of inputs.
pub fn parameter_option(pattern: &str) -> String {
    format!("--parameter {}", shell_word(pattern))
}

/// A granularity as its name in a file.
mod granularity_name {
    use divvy_core::coarsen::Granularity;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        granularity: &Option<Granularity>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        granularity.map(Granularity::name).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Granularity>, D::Error> {
        let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let known = Granularity::ALL.into_iter().find(|granularity| granularity.name() == name);
        known.map(Some).ok_or_else(|| Error::unknown_variant(&name, &["op", "fused", "block"]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_for_a_shell() {
        let options = ReadOptions {
            dims: BTreeMap::from([("x[0]".to_owned(), 4)]),
            trips: BTreeMap::from([("*".to_owned(), 20), ("loop".to_owned(), 3)]),
            granularity: Some(Granularity::Op),
            parameters: vec!["past.*".to_owned()],
        };
        let words =
            ["--dim 'x[0]=4'", "--trips 20", "--trips loop=3", "--granularity op", "--parameter 'past.*'"];
        assert_eq!(options.as_options(), words);
        assert!(ReadOptions::default().as_options().is_empty());
    }

    #[test]
    fn granularities_are_written_by_name_and_others_refused() {
        for granularity in Granularity::ALL {
            let options = ReadOptions { granularity: Some(granularity), ..ReadOptions::default() };
            let text = format!(r#"{{"granularity":"{}"}}"#, granularity.name());
            assert_eq!(serde_json::to_string(&options).unwrap(), text);
            assert_eq!(serde_json::from_str::<ReadOptions>(&text).unwrap(), options);
        }
        for default in ["{}", r#"{"granularity":null}"#] {
            assert_eq!(serde_json::from_str::<ReadOptions>(default).unwrap(), ReadOptions::default());
        }
        let refused = serde_json::from_str::<ReadOptions>(r#"{"granularity":"coarse"}"#).unwrap_err();
        assert!(refused.to_string().contains("coarse"));
    }
}
