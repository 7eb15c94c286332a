//! How a model file is read, as asked for and as a plan file records it.

use std::collections::BTreeMap;

use divvy_core::coarsen::Granularity;
use serde::{Deserialize, Serialize};

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
