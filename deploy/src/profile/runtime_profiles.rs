//! Times from profiles that ONNX Runtime wrote elsewhere.

use divvy_exec::backends::onnxruntime::read_profile;

use crate::error::DeployError;
use crate::kernel_owners::Owners;
use crate::profile::class_times::ClassTimes;
use crate::profile::kernel_times::KernelTimes;
use crate::profile::model_on_hardware::ModelOnHardware;
use crate::profile::model_profile::ModelProfile;

/// Takes times from files that ONNX Runtime wrote: `FILE`, or `CLASS=FILE` where there are several classes. Of each file
/// that has more runs than `warm_up`, the first so many do not count.
pub fn read_runtime_profiles(
    source: ModelOnHardware,
    files: &[String],
    warm_up: u64,
) -> Result<ModelProfile, DeployError> {
    let hardware = &source.problem.hardware;
    let mut classes: Vec<&str> = hardware.devices().map(|d| hardware.class(d).name.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let owners = Owners::new(&source.problem, &source.graph());
    let mut done = Vec::new();
    for text in files {
        let fault = |message: String, fix: &str| DeployError::option("--from", message, fix);
        let (class, path) = match (text.split_once('='), classes.as_slice()) {
            (Some((class, path)), _) if classes.contains(&class) => (class, path),
            (_, [only]) => (*only, text.as_str()),
            _ => {
                let known = classes.join(", ");
                return Err(fault(format!("`{text}` names no class; there are {known}"), "write CLASS=FILE"));
            }
        };
        let read = std::fs::read_to_string(path).map_err(|cause| cause.to_string());
        let runs = read.and_then(|text| read_profile(&text)).map_err(|cause| {
            let fix = "give the JSON file that ONNX Runtime writes with enable_profiling";
            fault(format!("cannot read `{path}`: {cause}"), fix)
        })?;
        // Warm-up is part of the file; a file of few runs has to do with all of them.
        let skipped = if runs.len() > warm_up as usize { warm_up as usize } else { 0 };
        let times = KernelTimes::new(&runs[skipped..], &owners, source.problem.graph.op_count());
        if times.ops.iter().all(|&time| time == 0.0) {
            let fix = "profile the same file, and give its nodes names before";
            return Err(fault(format!("no kernel in `{path}` belongs to a node of the model"), fix));
        }
        let (whole, spread) = (times.ops.iter().sum(), times.spread);
        let (class, ops, fused) = (class.to_owned(), times.ops, times.fused);
        done.push(ClassTimes { class, batch: 1, ops, whole, spread, fused });
    }
    Ok(ModelProfile::of_ops(source.problem, done))
}
