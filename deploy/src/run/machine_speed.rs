//! How fast the machine is now, against when the plan's op times were profiled.
//!
//! A machine that others use, or that gets hot, is now faster and now slower, within seconds and by more than a good
//! prediction is off. A run of a plan with a profile therefore takes turns with the whole model on every device, as it ran
//! for the profile, and what is measured is brought to the speed that the profile was measured at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use divvy_core::units::Time;
use divvy_exec::backend::Backend;
use divvy_exec::executor::Running;
use divvy_exec::program::ProgramSpec;
use divvy_exec::tensor::{HostTensor, Tensor};
use divvy_io::plan_file::PlanFile;
use divvy_io::{file, import};

use crate::device_specs::{by_class, cores_of_all};
use crate::error::DeployError;
use crate::prepared::Prepared;
use crate::session::{at_once, feeds, start, warm_up};

/// The whole model runs for this share of the plan's time in each turn.
const SHARE: f64 = 0.4;

/// The whole model, loaded on every device of the classes that a plan uses.
pub(crate) struct MachineSpeed {
    /// What the profile says of the whole model: class, batch size and time.
    pub(crate) profiled: Vec<(String, u32, Time)>,
    classes: Vec<ClassSpeed>,
    fed: Vec<Vec<Tensor>>,
}

struct ClassSpeed {
    /// One for each device, whether or not the plan uses it: all were busy when the class was profiled.
    wholes: Vec<Running>,
    /// What the whole model took then, in microseconds.
    profiled: f64,
}

impl MachineSpeed {
    /// None where the plan was made without a profile, or where its profile has gone, is another now, or has no times of
    /// the whole model on every class that the plan uses.
    pub(crate) fn new(
        prepared: &Prepared,
        plan: &PlanFile,
        cores: &[String],
        backend: &Arc<dyn Backend>,
        inputs: &[Vec<HostTensor>],
    ) -> Result<Option<MachineSpeed>, DeployError> {
        let profiled = profiled(plan).unwrap_or_default();
        let hardware = &prepared.problem.hardware;
        let used: Vec<&String> =
            prepared.devices.iter().map(|&device| &hardware.class(device).name).collect();
        let fed = feeds(&inputs[..1], &**backend)?;
        let mut classes = Vec::new();
        for (class, devices) in by_class(&prepared.problem, &cores_of_all(cores, &prepared.problem)?) {
            if !used.contains(&&class) {
                continue;
            }
            let time =
                profiled.iter().find(|(of, size, time)| *of == class && *size == 1 && *time > Time::ZERO);
            let Some((.., time)) = time else { return Ok(None) };
            let mut wholes = Vec::new();
            for device in devices {
                let spec = ProgramSpec { devices: vec![device], ..prepared.whole.clone() };
                wholes.push(start(spec, backend, 1)?);
            }
            for running in &mut wholes {
                warm_up(running, &fed, 2, &AtomicBool::new(false))?;
            }
            classes.push(ClassSpeed { wholes, profiled: time.as_us() });
        }
        Ok(Some(MachineSpeed { profiled, classes, fed }))
    }

    /// What the whole model takes now, over what it took when it was profiled: each class for so long.
    pub(crate) fn slowness(&mut self, time: Duration, cancelled: &AtomicBool) -> Result<f64, DeployError> {
        let fed = &self.fed;
        let mut shares = Vec::new();
        for ClassSpeed { wholes, profiled } in &mut self.classes {
            shares.extend(at_once(wholes.iter_mut().collect(), |running: &mut Running| {
                let began = Instant::now();
                let mut source = |item: u64| (item < 2 || began.elapsed() < time).then(|| fed[0].clone());
                let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
                Ok(report.stages[0].median() / *profiled)
            })?);
        }
        let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        // Nothing ran in a run that was stopped.
        Ok(if share > 0.0 { share } else { 1.0 })
    }

    /// What is to be compared with a turn of the plan that took so long: how slow the machine was, on average before it and
    /// after. Returns that and how slow it is now.
    pub(crate) fn around(
        &mut self,
        before: f64,
        turn: Duration,
        cancelled: &AtomicBool,
    ) -> Result<(f64, f64), DeployError> {
        if cancelled.load(Ordering::Relaxed) {
            // Whoever stopped the run does not wait for more; items that came out count as they are.
            return Ok((before, before));
        }
        let after = self.slowness(turn.mul_f64(SHARE), cancelled)?;
        Ok(((before + after) / 2.0, after))
    }
}

/// What the plan's profile says of the whole model, if it is there and the same.
fn profiled(plan: &PlanFile) -> Option<Vec<(String, u32, Time)>> {
    let source = plan.sources.iter().find(|source| source.role == "profile")?;
    let loaded = file::load(&source.path).ok()?;
    let same = source.sha256.as_ref() == Some(&loaded.sha256);
    same.then(|| import::import_problem(&loaded).ok())?.map(|problem| problem.profile.whole_model)
}
