//! Importers: what a file holds decides who reads it.
//!
//! To add a format, write one file and one line in [`FORMATS`].

mod latency;
pub(crate) mod machine;
mod msr;
mod pipeline;
mod torch;
mod torch_flops;

use std::cell::RefCell;

use divvy_core::ProblemSpec;
use divvy_core::hardware::HardwareSpec;
use divvy_core::input_error::Code;
use serde_json::Value;

use crate::file::Loaded;
use crate::reader::Item;
use crate::{Error, hardware_file, problem_file};

/// What divvy reads, for messages.
pub const KNOWN_FORMATS: &str = "divvy problems and plans, torch, latency, pipeline and msr workloads (JSON), and \
                                 hardware (TOML or JSON)";

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
    },
    /// A description of hardware.
    Hardware(Box<HardwareSpec>),
    /// A plan file.
    Plan,
}

/// Reads a file of any known format.
pub fn import(loaded: &Loaded) -> Result<Imported, Error> {
    let value = loaded.parse()?;
    let errors = RefCell::default();
    let top = Item::top(&value, "", &errors);
    let imported = if crate::plan_file::is_plan(&value) {
        Imported::Plan
    } else if let Some(format) = FORMATS.iter().find(|format| (format.recognise)(&value)) {
        Imported::Problem { format: format.name, spec: Box::new((format.read)(&top)) }
    } else if hardware_file::is_hardware(&value) {
        Imported::Hardware(Box::new(hardware_file::read(&top, &crate::presets::catalogue())))
    } else {
        if machine::is_machine(&value) {
            return finish(loaded, Imported::Hardware(Box::new(machine::read(&top))), errors);
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

fn finish(
    loaded: &Loaded,
    imported: Imported,
    errors: RefCell<divvy_core::input_error::InputErrors>,
) -> Result<Imported, Error> {
    let errors = errors.into_inner();
    errors.into_result(imported).map_err(|errors| Error::Input { path: loaded.path.clone(), errors })
}

/// Reads a file that must hold a network.
pub fn import_problem(loaded: &Loaded) -> Result<ProblemSpec, Error> {
    match import(loaded)? {
        Imported::Problem { spec, .. } => Ok(*spec),
        Imported::Hardware(_) | Imported::Plan => {
            let error = divvy_core::input_error::InputError::new(
                Code::Format,
                "file",
                "this file holds no network to plan",
                "give a model or problem file here; hardware goes to --on, plans to `divvy check`",
            );
            Err(Error::Input { path: loaded.path.clone(), errors: error.into() })
        }
    }
}
