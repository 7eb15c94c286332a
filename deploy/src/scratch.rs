//! A folder for the files that a runtime writes while it times kernels.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::DeployError;

/// A folder of its own, gone with all it holds when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch, DeployError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("divvy-kernels-{}-{number}", std::process::id()));
            match std::fs::create_dir(&folder) {
                Ok(()) => return Ok(Scratch(folder)),
                // A folder that is there already is somebody else's.
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists && number < 1000 => {}
                Err(cause) => {
                    let shown = folder.display();
                    return Err(DeployError::Environment(format!(
                        "cannot make the folder `{shown}`: {cause}"
                    )));
                }
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
