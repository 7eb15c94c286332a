//! Importers: what a file holds decides who reads it.
//!
//! To add a format, write one file and one line in the list `FORMATS`, and name it in [`KNOWN_FORMATS`].

mod latency;
pub(crate) mod measured_machine;
mod msr;
mod parameters;
mod pipeline;
mod torch;
mod torch_flops;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use divvy_core::ProblemSpec;
use divvy_core::hardware::HardwareSpec;
use divvy_core::input_error::{Code, InputError, InputErrors};
use serde_json::Value;

pub use parameters::declare_parameters;

use crate::file::{KNOWN_FORMATS, Loaded};
use crate::onnx::open_dims::{OpenDim, open_dims};
use crate::onnx::weights::{Absent, absent};
use crate::read_options::ReadOptions;
use crate::reader::Item;
use crate::{Error, hardware_file, onnx, problem_file};

/// A format: its name, how to recognise it, how to read it.
struct Format {
    name: &'static str,
    recognise: fn(&Value) -> bool,
    read: fn(&Item<'_, '_>) -> ProblemSpec,
}

/// The most telling marks come first: a file that names its own format is believed before one that merely looks
/// like another.
const FORMATS: [Format; 5] = [
    Format { name: "divvy problem", recognise: problem_file::is_problem, read: problem_file::read },
    Format { name: "latency workload", recognise: latency::recognise, read: latency::read },
    Format { name: "pipeline workload", recognise: pipeline::recognise, read: pipeline::read },
    Format { name: "msr workload", recognise: msr::recognise, read: msr::read },
    Format { name: "torch workload", recognise: torch::recognise, read: torch::read },
];

/// What a file turned out to be.
pub enum Imported {
    /// A network, with whatever else the file says.
    Problem {
        /// The format it was in.
        format: &'static str,
        /// What it says.
        spec: Box<ProblemSpec>,
        /// What is not certain about it.
        warnings: Vec<String>,
    },
    /// A description of hardware.
    Hardware(Box<HardwareSpec>),
    /// A plan file.
    Plan,
}

/// A file to look at.
pub struct Inspected {
    /// What it holds.
    pub imported: Imported,
    /// Dimensions that it leaves open; what it holds is for their suggested sizes.
    pub open: Vec<OpenDim>,
    /// What is wrong with weights beside it.
    pub absent: Absent,
}

/// Sizes for symbolic dimensions, by name.
pub type Dims = BTreeMap<String, u64>;

/// As [`import_as`], for looking at a file: dimensions that stay open take their suggested sizes, which come along.
pub fn import_for_inspection(loaded: &Loaded, options: &ReadOptions) -> Result<Inspected, Error> {
    if !onnx::load::looks_like_onnx(&loaded.bytes) {
        let imported = import_as(loaded, options)?;
        return Ok(Inspected { imported, open: Vec::new(), absent: Absent::default() });
    }
    let model = onnx_model(loaded)?;
    let open = open_dims(&model, &options.dims);
    let options = ReadOptions { dims: with_suggested(&options.dims, &open), ..options.clone() };
    let absent = absent(Path::new(&loaded.path).parent().unwrap_or(Path::new("")), &model);
    Ok(Inspected { imported: import_onnx(loaded, model, &options)?, open, absent })
}

/// All sizes: those that were given, and suggestions for the rest.
pub fn with_suggested(dims: &Dims, open: &[OpenDim]) -> Dims {
    let suggested = open.iter().map(|dim| (dim.name.clone(), dim.suggested));
    dims.clone().into_iter().chain(suggested).collect()
}

/// Whether a file says of itself that it holds a plan.
pub(crate) fn is_plan(value: &Value) -> bool {
    value.get("divvy").and_then(Value::as_str) == Some("plan")
}

/// Reads a file of any known format.
pub fn import(loaded: &Loaded) -> Result<Imported, Error> {
    import_with(loaded, &Dims::new())
}

/// As [`import`], with symbolic dimensions set.
pub fn import_with(loaded: &Loaded, dims: &Dims) -> Result<Imported, Error> {
    import_as(loaded, &ReadOptions { dims: dims.clone(), ..ReadOptions::default() })
}

/// As [`import`], with symbolic dimensions and rounds of loops set as the options say.
pub fn import_as(loaded: &Loaded, options: &ReadOptions) -> Result<Imported, Error> {
    if onnx::load::looks_like_onnx(&loaded.bytes) {
        return import_onnx(loaded, onnx_model(loaded)?, options);
    }
    let value = loaded.parse()?;
    only_onnx_has(options).map_err(|errors| Error::Input { path: loaded.path.clone(), errors })?;
    let errors = RefCell::default();
    let top = Item::top(&value, "", &errors);
    let imported = if is_plan(&value) {
        Imported::Plan
    } else if let Some(format) = FORMATS.iter().find(|format| (format.recognise)(&value)) {
        Imported::Problem { format: format.name, spec: Box::new((format.read)(&top)), warnings: Vec::new() }
    } else if hardware_file::is_hardware(&value) {
        Imported::Hardware(Box::new(hardware_file::read(&top, &crate::presets::catalogue())))
    } else {
        if measured_machine::is_machine(&value) {
            return finish(loaded, Imported::Hardware(Box::new(measured_machine::read(&top))), errors);
        }
        top.fault(
            Code::Format,
            "this is none of the formats that divvy knows",
            format!("divvy reads {KNOWN_FORMATS}"),
        );
        Imported::Plan
    };
    finish(loaded, imported, errors)
}

/// The ONNX model that a file holds, with its local functions inlined.
pub fn onnx_model(loaded: &Loaded) -> Result<onnx::proto::Model, Error> {
    let model = onnx::load::decode(&loaded.path, &loaded.bytes)?.model;
    onnx::inline::inline(model).map_err(|message| {
        let fix = "export the model without local functions";
        let error = InputError::new(Code::Range, "functions", message, fix);
        Error::Input { path: loaded.path.clone(), errors: error.into() }
    })
}

/// Refuses options that are about ONNX models.
fn only_onnx_has(options: &ReadOptions) -> Result<(), InputErrors> {
    let mut errors = InputErrors::default();
    if let Some(name) = options.dims.keys().next() {
        let fix = "drop --dim; only ONNX models have symbolic dimensions";
        errors.add(Code::Option, "--dim", format!("there is no dimension `{name}` to set"), fix);
    }
    if !options.trips.is_empty() {
        let fix = "drop --trips; only ONNX models have loops";
        errors.add(Code::Option, "--trips", "there is no loop in this file", fix);
    }
    errors.into_result(())
}

fn import_onnx(loaded: &Loaded, model: onnx::proto::Model, options: &ReadOptions) -> Result<Imported, Error> {
    let input = |errors| Error::Input { path: loaded.path.clone(), errors };
    let file = Path::new(&loaded.path).file_stem().map_or("onnx".into(), |stem| stem.to_string_lossy());
    let unfolded = onnx::import::nodes_as_ops(&model, &file, &options.dims, &options.trips).map_err(input)?;
    drop(model);
    let understood = unfolded.folded().map_err(input)?;
    let (spec, warnings) = (Box::new(understood.spec), understood.warnings);
    Ok(Imported::Problem { format: "ONNX model", spec, warnings })
}

fn finish(loaded: &Loaded, imported: Imported, errors: RefCell<InputErrors>) -> Result<Imported, Error> {
    let errors = errors.into_inner();
    errors.into_result(imported).map_err(|errors| Error::Input { path: loaded.path.clone(), errors })
}

/// Reads a file that must hold a network.
pub fn import_problem(loaded: &Loaded) -> Result<ProblemSpec, Error> {
    Ok(import_problem_with(loaded, &ReadOptions::default())?.0)
}

/// As [`import_problem`], read as the options say; what is not certain comes along.
pub fn import_problem_with(
    loaded: &Loaded,
    options: &ReadOptions,
) -> Result<(ProblemSpec, Vec<String>), Error> {
    match import_as(loaded, options)? {
        Imported::Problem { spec, warnings, .. } => Ok((*spec, warnings)),
        Imported::Hardware(_) | Imported::Plan => {
            let error = InputError::new(
                Code::Format,
                "file",
                "this file holds no network to plan",
                "give a model or problem file here; hardware goes to --on, plans to `divvy check`",
            );
            Err(Error::Input { path: loaded.path.clone(), errors: error.into() })
        }
    }
}
