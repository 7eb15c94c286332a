//! ONNX Runtime on sets of CPU cores, its library loaded when it is needed.
//!
//! A session is made on the device's thread, with as many threads as the device has cores, each pinned to one of them: the
//! device's own to the first, and those that the runtime starts to the others. Two that share a core while another is idle
//! would wait for each other. Values stay where the runtime made them and are handed from session to session as they are.
//!
//! The runtime's environment lives as long as the process. When a process ends, the library's own destructors run before
//! those of the program that loaded it. Until version 1.22 the environment could not be released after them: the process
//! died of it when all its work was done.

use std::any::Any;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ort::LoadDynamicError;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor as OrtTensor, TensorElementType, ValueType};
use serde_json::Value;

use super::library;
use super::ort_memory::weight_value;
use crate::backend::{Backend, Device, Kernel, Stage, StageModel, Weight, WeightsAre};
use crate::cores::Cores;
use crate::for_each_type;
use crate::stage_error::StageError;
use crate::tensor::{Data, Element, HostTensor, Stored, Tensor};

/// Why ONNX Runtime cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unavailable {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// The library, once it is loaded.
struct Loaded {
    path: PathBuf,
    /// Held by what is never dropped, so that it is never released.
    _environment: Arc<Environment>,
}

impl Loaded {
    fn new(given: Option<&Path>) -> Result<Loaded, Unavailable> {
        let path =
            library::find(given).map_err(|message| Unavailable { message, fix: library::FIX.to_owned() })?;
        let builder = ort::init_from(&path).map_err(|error| unusable(&error, &path))?;
        builder.with_name("divvy").with_telemetry(false).commit();
        let environment = Environment::current().map_err(|error| Unavailable {
            message: format!("ONNX Runtime at `{}` does not start: {error}", path.display()),
            fix: library::FIX.to_owned(),
        })?;
        Ok(Loaded { path, _environment: environment })
    }
}

/// Why a file cannot be used as the library.
fn unusable(error: &LoadDynamicError, path: &Path) -> Unavailable {
    let path = path.display();
    let message = match error {
        LoadDynamicError::BadVersion { version_str, .. } => format!(
            "ONNX Runtime {version_str} at `{path}` is too old: divvy needs {} or newer",
            library::OLDEST
        ),
        LoadDynamicError::Dlopen { error, .. } => {
            format!("the library of ONNX Runtime at `{path}` cannot be loaded: {error}")
        }
        _ => format!("`{path}` is no library of ONNX Runtime: it has no function OrtGetApiBase"),
    };
    Unavailable { message, fix: library::FIX.to_owned() }
}

/// ONNX Runtime.
#[derive(Clone, Debug)]
pub struct OnnxRuntime {
    library: PathBuf,
    optimised: bool,
    plain: bool,
    profile_in: Option<PathBuf>,
}

impl OnnxRuntime {
    /// Finds and loads the library; only the first call in a process does so.
    pub fn load() -> Result<OnnxRuntime, Unavailable> {
        OnnxRuntime::load_from(None)
    }

    /// As [`OnnxRuntime::load`], with a library or its folder that goes before all places where one is looked for.
    pub fn load_from(given: Option<&Path>) -> Result<OnnxRuntime, Unavailable> {
        static LOADED: OnceLock<Result<Loaded, Unavailable>> = OnceLock::new();
        let library =
            LOADED.get_or_init(|| Loaded::new(given)).as_ref().map_err(Unavailable::clone)?.path.clone();
        Ok(OnnxRuntime { library, optimised: true, plain: false, profile_in: None })
    }

    /// Its library.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The same as it is without divvy: threads look for work for a while after a run, as is the runtime's habit.
    pub fn plain(self) -> OnnxRuntime {
        OnnxRuntime { plain: true, ..self }
    }

    /// The same without rewriting of graphs, so that whole and pieces compute the same.
    pub fn unoptimised(self) -> OnnxRuntime {
        OnnxRuntime { optimised: false, ..self }
    }

    /// The same with every kernel timed; the runtime writes its files to a folder.
    pub fn profiling(self, folder: PathBuf) -> OnnxRuntime {
        OnnxRuntime { profile_in: Some(folder), ..self }
    }
}

impl Backend for OnnxRuntime {
    fn name(&self) -> String {
        format!("ONNX Runtime ({})", self.library.display())
    }

    fn open(&self, cores: &Cores) -> Result<Box<dyn Device>, StageError> {
        Ok(Box::new(OrtDevice { cores: cores.clone(), how: self.clone() }))
    }

    fn take_in(&self, value: HostTensor) -> Result<Tensor, StageError> {
        Ok(Tensor::new(OrtValue(upload(value)?)))
    }
}

struct OrtDevice {
    cores: Cores,
    how: OnnxRuntime,
}

impl OrtDevice {
    fn session(&self, model: &StageModel) -> Result<Session, ort::Error> {
        let level =
            if self.how.optimised { GraphOptimizationLevel::All } else { GraphOptimizationLevel::Disable };
        let mut builder = Session::builder()?
            .with_log_level(LogLevel::Fatal)?
            .with_intra_threads(self.cores.count())?
            .with_inter_threads(1)?
            .with_optimization_level(level)?;
        if self.cores.count() > 1 {
            // The runtime counts cores from one.
            let places: Vec<String> = self.cores.others().map(|core| (core + 1).to_string()).collect();
            builder = builder.with_config_entry("session.intra_op_thread_affinities", places.join(";"))?;
            if !self.how.plain {
                // Else threads look for work for some 35 ms after a run, on cores that other stages of the device need.
                builder = builder.with_config_entry("session.force_spinning_stop", "1")?;
            }
        }
        if let Some(folder) = &self.how.profile_in {
            static PROFILED: AtomicU64 = AtomicU64::new(0);
            let number = PROFILED.fetch_add(1, Ordering::Relaxed);
            builder = builder.with_profiling(folder.join(number.to_string()))?;
        }
        commit(builder, model)
    }
}

/// A session of a model whose weights stay where they are.
pub(super) fn commit(mut builder: SessionBuilder, model: &StageModel) -> Result<Session, ort::Error> {
    if model.weights_are == WeightsAre::Constants {
        for weight in &model.weights {
            builder = builder.with_external_initializer(&weight.name, weight_value(weight)?)?;
        }
    }
    builder.commit_from_memory(&model.bytes)
}

impl Device for OrtDevice {
    fn load(&mut self, model: &StageModel) -> Result<Box<dyn Stage>, StageError> {
        let session = self.session(model).map_err(|error| failure(&error))?;
        let places = |wanted: &String| session.outputs().iter().position(|o| o.name() == wanted);
        let order = model.outputs.iter().map(|wanted| {
            places(wanted).ok_or_else(|| StageError::new(format!("the model does not give `{wanted}`")))
        });
        let fed = if model.weights_are == WeightsAre::Constants { &[] } else { &model.weights[..] };
        let fed = fed.iter().map(|weight| Ok((weight.name.clone(), weight_value(weight)?)));
        Ok(Box::new(OrtStage {
            fed: fed.collect::<Result<_, ort::Error>>().map_err(|error| failure(&error))?,
            _weights: model.weights.clone(),
            order: order.collect::<Result<_, _>>()?,
            inputs: model.inputs.clone(),
            profiled: self.how.profile_in.is_some(),
            session,
        }))
    }

    fn works_in_its_thread(&self) -> bool {
        self.cores.count() == 1
    }
}

struct OrtStage {
    // In the order in which they must go: a session looks at its weights as long as it lives.
    session: Session,
    /// Weights that it is fed.
    fed: Vec<(String, DynValue)>,
    _weights: Vec<Weight>,
    inputs: Vec<String>,
    /// For each output wanted, its place among the model's.
    order: Vec<usize>,
    profiled: bool,
}

impl Stage for OrtStage {
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, StageError> {
        // What is not ONNX Runtime's own is brought in first; the runtime's own values are only looked at.
        let mut brought: Vec<Option<DynValue>> = Vec::with_capacity(inputs.len());
        for input in inputs {
            let foreign = !input.stored().as_any().is::<OrtValue>();
            brought.push(if foreign { Some(upload(input.stored().to_host()?)?) } else { None });
        }
        let mut feeds: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::with_capacity(inputs.len());
        for ((name, input), brought) in self.inputs.iter().zip(inputs).zip(&brought) {
            let own = input.stored().as_any().downcast_ref::<OrtValue>().map(|value| &value.0);
            if let Some(value) = brought.as_ref().or(own) {
                feeds.push((Cow::Borrowed(name.as_str()), value.into()));
            }
        }
        feeds.extend(self.fed.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), value.into())));
        let made = self.session.run(feeds).map_err(|error| failure(&error))?;
        let mut made: Vec<Option<DynValue>> = made.into_iter().map(|(_, value)| Some(value)).collect();
        let take = |&place: &usize| made[place].take().map(|value| Tensor::new(OrtValue(value)));
        self.order
            .iter()
            .map(take)
            .collect::<Option<_>>()
            .ok_or_else(|| StageError::new("an output is wanted twice"))
    }

    fn kernels(&mut self) -> Result<Vec<Vec<Kernel>>, StageError> {
        if !self.profiled {
            return Err(StageError::new("kernels were not timed"));
        }
        session_kernels(&mut self.session)
    }
}

/// Ends a session's profile, and gives what it says.
pub(super) fn session_kernels(session: &mut Session) -> Result<Vec<Vec<Kernel>>, StageError> {
    let path = session.end_profiling().map_err(|error| failure(&error))?;
    let text = std::fs::read_to_string(&path)
        .map_err(|cause| StageError::new(format!("cannot read the runtime's profile `{path}`: {cause}")))?;
    let _ = std::fs::remove_file(&path);
    read_profile(&text).map_err(|fault| StageError::new(format!("the runtime's profile: {fault}")))
}

/// The kernels of each run in a profile that ONNX Runtime wrote.
pub fn read_profile(text: &str) -> Result<Vec<Vec<Kernel>>, String> {
    let events: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap_or(0.0);
    let mut runs: Vec<(f64, f64)> = Vec::new();
    for event in events.iter().filter(|event| event["name"] == "model_run") {
        runs.push((number(event, "ts"), number(event, "ts") + number(event, "dur")));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut kernels: Vec<Vec<Kernel>> = vec![Vec::new(); runs.len()];
    let mut holders: Vec<Vec<(f64, f64)>> = vec![Vec::new(); runs.len()];
    for event in &events {
        let Some(node) = event["name"].as_str().and_then(|name| name.strip_suffix("_kernel_time")) else {
            continue;
        };
        let (start, duration) = (number(event, "ts"), number(event, "dur"));
        let run = runs.partition_point(|run| run.0 <= start);
        if let Some(run) = run.checked_sub(1).filter(|&run| start <= runs[run].1) {
            let start_us = start - runs[run].0;
            kernels[run].push(Kernel { node: node.to_owned(), start_us, duration_us: duration });
            if matches!(event["args"]["op_name"].as_str(), Some("If" | "Loop" | "Scan")) {
                holders[run].push((start_us, start_us + duration));
            }
        }
    }
    kernels.iter_mut().zip(&mut holders).for_each(|(kernels, holders)| drop_inner(kernels, holders));
    kernels.iter_mut().for_each(|run| run.sort_by(|a, b| a.start_us.total_cmp(&b.start_us)));
    Ok(kernels)
}

/// Leaves out kernels of bodies: the kernel of the node that holds a body takes as long as all of its rounds.
fn drop_inner(kernels: &mut Vec<Kernel>, holders: &mut [(f64, f64)]) {
    holders.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Of holders that begin before a kernel, the end of the last to end.
    let mut ends: Vec<f64> = Vec::with_capacity(holders.len());
    for &(_, end) in holders.iter() {
        ends.push(ends.last().map_or(end, |&last| end.max(last)));
    }
    kernels.retain(|kernel| {
        let before = holders.partition_point(|holder| holder.0 < kernel.start_us);
        let at_once = holders[before..].iter().take_while(|holder| holder.0 <= kernel.start_us);
        // What begins with its holder is shorter, and what takes no time counts for nothing.
        let with_one = |end: f64| kernel.duration_us > 0.0 && kernel.start_us + kernel.duration_us < end;
        let inside = before.checked_sub(1).is_some_and(|last| {
            kernel.start_us < ends[last] && kernel.start_us + kernel.duration_us <= ends[last]
        });
        !inside && !at_once.into_iter().any(|&(_, end)| with_one(end))
    });
}

/// A value of ONNX Runtime's.
struct OrtValue(DynValue);

impl Stored for OrtValue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_host(&self) -> Result<HostTensor, StageError> {
        download(&self.0)
    }

    fn copied(&self) -> Result<Tensor, StageError> {
        Ok(Tensor::new(OrtValue(upload(download(&self.0)?)?)))
    }

    fn byte_count(&self) -> usize {
        match self.0.dtype() {
            ValueType::Tensor { ty, shape, .. } => ty.byte_size(shape.num_elements()).unwrap_or(0),
            _ => 0,
        }
    }
}

fn upload(host: HostTensor) -> Result<DynValue, StageError> {
    let shape = host.shape;
    for_each_type!(host.data, values => OrtTensor::from_array((shape, values)).map(|tensor| tensor.into_dyn()))
        .map_err(|error| failure(&error))
}

pub(super) fn download(value: &DynValue) -> Result<HostTensor, StageError> {
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        return Err(StageError::new(format!("a value is no tensor but {}", value.dtype())));
    };
    fn copy<T: PrimitiveTensorElementType + Clone>(
        value: &DynValue,
        wrap: fn(Vec<T>) -> Data,
    ) -> Result<HostTensor, StageError> {
        let (shape, values) = value.try_extract_tensor::<T>().map_err(|error| failure(&error))?;
        let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        Ok(HostTensor { shape, data: wrap(values.to_vec()) })
    }
    match ty {
        TensorElementType::Float16 => copy(value, Data::F16),
        TensorElementType::Bfloat16 => copy(value, Data::BF16),
        TensorElementType::Float32 => copy(value, Data::F32),
        TensorElementType::Float64 => copy(value, Data::F64),
        TensorElementType::Int8 => copy(value, Data::I8),
        TensorElementType::Int16 => copy(value, Data::I16),
        TensorElementType::Int32 => copy(value, Data::I32),
        TensorElementType::Int64 => copy(value, Data::I64),
        TensorElementType::Uint8 => copy(value, Data::U8),
        TensorElementType::Uint16 => copy(value, Data::U16),
        TensorElementType::Uint32 => copy(value, Data::U32),
        TensorElementType::Uint64 => copy(value, Data::U64),
        TensorElementType::Bool => copy(value, Data::Bool),
        other => {
            Err(StageError::new(format!("elements of type {other} cannot be copied out of the runtime")))
        }
    }
}

/// The type of elements, if values of it can be copied out.
pub(super) fn element_of(ty: TensorElementType) -> Option<Element> {
    Some(match ty {
        TensorElementType::Float16 => Element::F16,
        TensorElementType::Bfloat16 => Element::BF16,
        TensorElementType::Float32 => Element::F32,
        TensorElementType::Float64 => Element::F64,
        TensorElementType::Int8 => Element::I8,
        TensorElementType::Int16 => Element::I16,
        TensorElementType::Int32 => Element::I32,
        TensorElementType::Int64 => Element::I64,
        TensorElementType::Uint8 => Element::U8,
        TensorElementType::Uint16 => Element::U16,
        TensorElementType::Uint32 => Element::U32,
        TensorElementType::Uint64 => Element::U64,
        TensorElementType::Bool => Element::Bool,
        _ => return None,
    })
}

/// What the runtime says, and the node it names.
pub(super) fn failure<R>(error: &ort::Error<R>) -> StageError {
    let cause = error.message().to_owned();
    // "... while running Conv node. Name:'conv1' Status Message: ...", or "Node (conv1) Op (Conv) ...".
    let between = |before: &str, after: char| {
        let rest = cause.split_once(before)?.1;
        rest.split_once(after).map(|(name, _)| name.to_owned()).filter(|name| !name.is_empty())
    };
    let op = between("Name:'", '\'').or_else(|| between("Node (", ')'));
    StageError { op, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_never_released() {
        let test = "the_environment_is_never_released";
        if let Err(absent) = OnnxRuntime::load() {
            return divvy_testing::skipped::skip(test, format!("{absent}; {}", absent.fix));
        }
        // The library that binds it gives its own away when the process ends, and ours is not that.
        let environment = Environment::current().expect("it is there");
        assert!(Arc::strong_count(&environment) >= 3, "{}", Arc::strong_count(&environment));
    }

    #[test]
    fn a_version_that_is_too_old_is_named() {
        let path = PathBuf::from("/opt/libonnxruntime.so.1.16.3");
        let error = LoadDynamicError::BadVersion { version_str: "1.16.3".into(), path: path.clone() };
        let refused = unusable(&error, &path);
        assert_eq!(
            refused.message,
            "ONNX Runtime 1.16.3 at `/opt/libonnxruntime.so.1.16.3` is too old: divvy needs 1.17 or newer"
        );
        assert!(refused.fix.contains("pip install"));
    }

    #[test]
    fn the_runtimes_profile_is_read_run_by_run() {
        let text = r#"[
            {"cat":"Session","name":"session_initialization","ts":1,"dur":5},
            {"cat":"Session","name":"model_run","ts":10,"dur":20},
            {"cat":"Node","name":"b_kernel_time","ts":20,"dur":4},
            {"cat":"Node","name":"a_kernel_time","ts":12,"dur":6},
            {"cat":"Session","name":"model_run","ts":40,"dur":20},
            {"cat":"Node","name":"a_kernel_time","ts":43,"dur":7}]"#;
        let kernel = |node: &str, start_us, duration_us| Kernel { node: node.into(), start_us, duration_us };
        let runs = read_profile(text).unwrap();
        assert_eq!(runs, [vec![kernel("a", 2.0, 6.0), kernel("b", 10.0, 4.0)], vec![kernel("a", 3.0, 7.0)]]);
        assert!(read_profile("{").is_err());
    }

    #[test]
    fn kernels_of_bodies_are_part_of_the_kernel_that_holds_them() {
        let node = |name: &str, op: &str, ts: u32, dur: u32| {
            format!(r#"{{"name":"{name}_kernel_time","ts":{ts},"dur":{dur},"args":{{"op_name":"{op}"}}}}"#)
        };
        // Kernels are noted as they end; some begin in the same microsecond as what holds them, or before it.
        let events = [
            r#"{"name":"model_run","ts":10,"dur":200}"#.to_owned(),
            node("first", "MatMul", 12, 8),
            node("quick", "Relu", 20, 0),
            node("inner", "MatMul", 20, 10),
            node("deep", "Add", 31, 5),
            node("choice", "If", 30, 8),
            node("inner", "MatMul", 40, 10),
            node("loop", "Loop", 20, 31),
            node("last", "MatMul", 51, 9),
        ];
        let runs = read_profile(&format!("[{}]", events.join(","))).unwrap();
        let told: Vec<(&str, f64)> = runs[0].iter().map(|k| (k.node.as_str(), k.duration_us)).collect();
        assert_eq!(told, [("first", 8.0), ("quick", 0.0), ("loop", 31.0), ("last", 9.0)]);
    }
}
