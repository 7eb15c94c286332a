//! Programs on the runtime: started, fed, warmed up, and several at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::executor::Running;
use divvy_exec::program::{Program, ProgramSpec};
use divvy_exec::tensor::{HostTensor, Tensor};

use crate::engine::Engine;
use crate::error::DeployError;

/// ONNX Runtime, or what to do about its absence. A library that is given, or its folder, goes before all others.
pub fn runtime(given: Option<&Path>) -> Result<OnnxRuntime, DeployError> {
    OnnxRuntime::load_from(given)
        .map_err(|absent| DeployError::Absent { message: absent.message, fix: absent.fix })
}

/// Starts a program; a fault in it is ours.
pub(crate) fn start(
    spec: ProgramSpec,
    backend: &Arc<dyn Backend>,
    window: usize,
) -> Result<Running, DeployError> {
    let backends = vec![backend.clone(); spec.devices.len()];
    let program = Program::new(spec).map_err(DeployError::Environment)?;
    Ok(Running::start(program, &backends, window)?)
}

/// Starts a program whose devices have an engine each.
pub(crate) fn start_on(spec: ProgramSpec, engines: &[Engine], window: usize) -> Result<Running, DeployError> {
    let backends: Vec<Arc<dyn Backend>> = engines.iter().map(Engine::plain).collect();
    let program = Program::new(spec).map_err(DeployError::Environment)?;
    Ok(Running::start(program, &backends, window)?)
}

/// The values of each set of inputs, in the backend's own form.
pub(crate) fn feeds(
    inputs: &[Vec<HostTensor>],
    backend: &dyn Backend,
) -> Result<Vec<Vec<Tensor>>, DeployError> {
    let take = |set: &Vec<HostTensor>| set.iter().map(|value| backend.take_in(value.clone())).collect();
    let taken: Result<_, _> = inputs.iter().map(take).collect();
    taken.map_err(|error| DeployError::Environment(format!("the inputs cannot be used: {error}")))
}

/// Runs so many items, the feeds in turn, and forgets them.
pub(crate) fn warm_up(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<(), DeployError> {
    let mut source = |item: u64| (item < count).then(|| fed[(item % fed.len() as u64) as usize].clone());
    running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(())
}

/// What a program gives for each set of inputs.
pub(crate) fn results(
    spec: ProgramSpec,
    engine: &Engine,
    inputs: &[Vec<HostTensor>],
) -> Result<Vec<Vec<HostTensor>>, DeployError> {
    let backend = engine.plain();
    let mut running = start(spec, &backend, 1)?;
    let fed = feeds(inputs, &*backend)?;
    let mut results = Vec::new();
    let mut source = |item: u64| fed.get(item as usize).cloned();
    let mut sink = |_, values: Vec<Tensor>| {
        results.push(on_host(&values)?);
        Ok(())
    };
    running.run(&mut source, &mut sink, &AtomicBool::new(false), 0)?;
    Ok(results)
}

/// Values where they can be looked at.
pub(crate) fn on_host(values: &[Tensor]) -> Result<Vec<HostTensor>, String> {
    values.iter().map(|value| value.stored().to_host().map_err(|error| error.to_string())).collect()
}

/// Does the same on several devices at once, each on a thread of its own.
pub(crate) fn at_once<Device: Send, Found: Send>(
    devices: Vec<Device>,
    measure: impl Fn(Device) -> Result<Found, DeployError> + Sync,
) -> Result<Vec<Found>, DeployError> {
    std::thread::scope(|scope| {
        let measure = &measure;
        let threads = devices.into_iter().map(|device| scope.spawn(move || measure(device)));
        let threads: Vec<_> = threads.collect();
        let died = |_| Err(DeployError::Environment("a thread that measures died".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    })
}
