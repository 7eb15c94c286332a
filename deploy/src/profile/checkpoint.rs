//! What is done of a profile, kept beside it until all is, so that a run that was stopped goes on.

use std::path::{Path, PathBuf};

use divvy_io::file;
use serde_json::{Value, json};

use super::Measured;
use crate::failure::Failure;

/// What is done, beside the profile to be.
pub(super) struct Kept {
    pub(super) path: PathBuf,
    /// What it is of: measurements of anything else do not count.
    pub(super) key: String,
}

impl Kept {
    pub(super) fn read(&self, ops: usize) -> Vec<Measured> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let list = value["done"].as_array().filter(|_| value["of"] == self.key.as_str());
        let one = |entry: &Value| {
            let times = entry["ops"].as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()?;
            let group = |group: &Value| {
                let ops = group.as_array()?.iter().map(|op| op.as_u64().map(|op| op as usize));
                ops.collect::<Option<Vec<usize>>>().filter(|group| group.iter().all(|&op| op < times.len()))
            };
            let fused = entry["fused"].as_array()?.iter().map(group).collect::<Option<_>>()?;
            let batch = u32::try_from(entry["batch"].as_u64()?).ok()?;
            let class = entry["class"].as_str()?.to_owned();
            let (whole, spread) = (entry["whole"].as_f64()?, entry["spread"].as_f64()?);
            (times.len() == ops).then(|| Measured { class, batch, ops: times.clone(), whole, spread, fused })
        };
        list.into_iter().flatten().filter_map(one).collect()
    }

    pub(super) fn write(&self, done: &[Measured]) -> Result<(), Failure> {
        let one = |m: &Measured| {
            json!({
                "class": m.class, "batch": m.batch, "ops": m.ops, "whole": m.whole, "spread": m.spread,
                "fused": m.fused,
            })
        };
        let done: Vec<Value> = done.iter().map(one).collect();
        let path: &Path = &self.path;
        Ok(file::write(path, &json!({"of": self.key, "done": done}).to_string())?)
    }
}
