//! `divvy combine`.

use divvy_core::combine::combine;

use super::generate::write;
use crate::args::CombineArgs;
use crate::assemble::{read, read_once};
use crate::failure::Failure;

pub(crate) fn run(args: &CombineArgs) -> Result<String, Failure> {
    read_once(args.files.iter().map(String::as_str))?;
    let mut specs = Vec::new();
    for file in &args.files {
        specs.push(read(file, &args.reading, Ok)?.spec);
    }
    let spec = combine(specs).map_err(|errors| Failure::Input(args.files.join(", "), errors))?;
    write(spec, args.output.as_deref())
}
