//! Writes the files that each fuzz target starts from: `cargo run --example starts -- MODELS FOLDER`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [models, folder] => divvy_fuzz::starts::write(Path::new(models), Path::new(folder)),
        _ => Err(std::io::Error::other("give the folder of models and the folder to write to")),
    }
}
