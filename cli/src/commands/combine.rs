//! `divvy combine`.

use divvy::core::combine::combine;
use divvy::io::assemble::read_model;
use divvy::io::file::read_once;

use super::generate::write;
use crate::args::CombineArgs;
use crate::failure::Failure;

pub(crate) fn run(args: &CombineArgs) -> Result<String, Failure> {
    read_once(args.files.iter().map(String::as_str))?;
    let options = args.reading.options()?;
    let mut specs = Vec::new();
    for file in &args.files {
        specs.push(read_model(file, &options)?.spec);
    }
    let spec = combine(specs).map_err(|errors| Failure::Input(args.files.join(", "), errors))?;
    write(spec, args.output.as_deref(), args.force)
}
