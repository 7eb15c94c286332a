//! Files that appear in a folder together or not at all.
//!
//! Each is written under a name of its own and gets its real one only when all are complete. The manifest of an
//! earlier run goes first and the new one comes last: a folder with a manifest is whole.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};

use super::WeightsError;

/// Files not yet in place. Dropped without [`Staging::commit`], it takes them away.
pub(super) struct Staging {
    folder: PathBuf,
    /// Where each file is, and where it goes.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Staging {
    /// Prepares to write to a folder, which is made if need be.
    pub(super) fn new(folder: &Path) -> Result<Staging, WeightsError> {
        fs::create_dir_all(folder).map_err(|cause| unwritable(folder, cause))?;
        Ok(Staging { folder: folder.to_owned(), files: Vec::new() })
    }

    /// Begins a file.
    pub(super) fn create(&mut self, name: &str) -> Result<File, WeightsError> {
        let path = self.folder.join(name);
        let part = self.folder.join(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&part);
        let file = file.map_err(|cause| unwritable(&path, cause))?;
        self.files.push((part, path));
        Ok(file)
    }

    /// The SHA-256 of each file so far, by the name that it will have.
    pub(super) fn fingerprints(&self) -> Result<BTreeMap<String, String>, WeightsError> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.files.iter().map(|(part, path)| Ok((name(path), fingerprint(part)?))).collect()
    }

    /// Puts all files in place, in the order in which they were begun; `last` and the `stale` ones are taken away first.
    pub(super) fn commit(mut self, last: &str, stale: &[String]) -> Result<(), WeightsError> {
        for name in [last].into_iter().chain(stale.iter().map(String::as_str)) {
            let path = self.folder.join(name);
            match fs::remove_file(&path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    return Err(unwritable(&path, cause));
                }
                _ => {}
            }
        }
        while let Some((part, path)) = self.files.first() {
            fs::rename(part, path).map_err(|cause| unwritable(path, cause))?;
            self.files.remove(0);
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for (part, _) in &self.files {
            // Nothing more can be done about a file that does not go away.
            let _ = fs::remove_file(part);
        }
    }
}

pub(super) fn unwritable(path: &Path, cause: io::Error) -> WeightsError {
    WeightsError::Unwritable { path: path.display().to_string(), cause }
}

/// The SHA-256 of a file, in hexadecimal.
pub(super) fn fingerprint(path: &Path) -> Result<String, WeightsError> {
    let digest = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    };
    digest().map_err(|cause| WeightsError::Unreadable { path: path.display().to_string(), cause })
}
