//! What is done of a profile, kept in a file until all is, so that a run that was stopped goes on.

use std::path::PathBuf;

use divvy_io::file;
use serde_json::{Value, json};

use crate::error::DeployError;
use crate::profile::class_times::ClassTimes;

/// The file that keeps what is done.
pub(super) struct Checkpoint {
    pub(super) path: PathBuf,
    /// What it is of: measurements of anything else do not count.
    pub(super) key: String,
}

impl Checkpoint {
    /// What is done already, of a model with so many ops.
    pub(super) fn read(&self, ops: usize) -> Vec<ClassTimes> {
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
            (times.len() == ops).then(|| ClassTimes {
                class,
                batch,
                ops: times.clone(),
                whole,
                spread,
                fused,
            })
        };
        list.into_iter().flatten().filter_map(one).collect()
    }

    /// Keeps what is done so far.
    pub(super) fn write(&self, done: &[ClassTimes]) -> Result<(), DeployError> {
        let one = |times: &ClassTimes| {
            json!({
                "class": times.class, "batch": times.batch, "ops": times.ops, "whole": times.whole,
                "spread": times.spread, "fused": times.fused,
            })
        };
        let done: Vec<Value> = done.iter().map(one).collect();
        Ok(file::write(&self.path, &json!({"of": self.key, "done": done}).to_string())?)
    }

    /// All is done. A file that stays does no harm: it is of what was measured.
    pub(super) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
