//! Hardware as users name it: a built-in name, a hardware file, or a file of a measured machine.

use crate::presets::{catalogue, hardware, names};
use crate::reader::Item;
use crate::{Error, file, hardware_file};
use divvy_core::did_you_mean::closest;
use divvy_core::hardware::HardwareSpec;
use divvy_core::input_error::{Code, InputError};
use std::cell::RefCell;

/// Hardware by built-in name or from a file, with the fingerprint of the file.
pub fn find(name_or_path: &str) -> Result<(HardwareSpec, Option<String>), Error> {
    let input = |errors| Error::Input { path: name_or_path.to_owned(), errors };
    if let Some(built_in) = hardware(name_or_path) {
        return Ok((built_in.map_err(input)?, None));
    }
    if !std::path::Path::new(name_or_path).exists() && name_or_path != "-" {
        let near = closest(name_or_path, &names());
        let near = near.map_or(String::new(), |name| format!("did you mean `{name}`? Or "));
        let fix = format!("{near}use one of {}, or the path of a hardware file", names().join(", "));
        let message = format!("there is no built-in hardware and no file `{name_or_path}`");
        return Err(input(InputError::new(Code::UnknownName, "--on", message, fix).into()));
    }
    let loaded = file::load(name_or_path)?;
    let value = loaded.parse()?;
    let errors = RefCell::default();
    let top = Item::top(&value, "", &errors);
    let spec = if hardware_file::is_hardware(&value) {
        hardware_file::read(&top, &catalogue())
    } else if crate::import::measured_machine::is_machine(&value) {
        crate::import::measured_machine::read(&top)
    } else {
        top.fault(Code::Format, "this is not a hardware description", "it needs at least one [[device]]");
        HardwareSpec::default()
    };
    let spec = errors.into_inner().into_result(spec).map_err(input)?;
    Ok((spec, Some(loaded.sha256)))
}
