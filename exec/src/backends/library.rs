//! Finding the shared library of ONNX Runtime on this machine.
//!
//! `ORT_DYLIB_PATH` wins; then folders of libraries of the system; then Python environments that have the package
//! `onnxruntime`, which carries the library: the active one, and `.venv` in this folder, beside the program, or above.

use std::env;
use std::path::{Path, PathBuf};

/// The variable that names the library.
pub const VARIABLE: &str = "ORT_DYLIB_PATH";

/// The library; fails with where it was looked for.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        return Err(format!("{VARIABLE} names `{}`, which is not a file", path.display()));
    }
    let folders = system_folders().into_iter().chain(environments().into_iter().flat_map(|e| packages(&e)));
    folders.into_iter().find_map(|folder| library_in(&folder)).ok_or_else(|| {
        format!(
            "the library of ONNX Runtime was not found: not in {VARIABLE}, nor in the system's folders, nor in a \
             Python environment"
        )
    })
}

/// What to do where it is not found.
pub const FIX: &str = "install it with `python3 -m venv .venv && .venv/bin/pip install onnxruntime` in this folder, or \
                       set ORT_DYLIB_PATH to libonnxruntime.so";

fn system_folders() -> Vec<PathBuf> {
    let variable = if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };
    let listed = env::var_os(variable).map(|list| env::split_paths(&list).collect()).unwrap_or_default();
    let usual = [
        "/usr/local/lib",
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/opt/homebrew/lib",
    ];
    let mut folders: Vec<PathBuf> = listed;
    folders.extend(usual.iter().map(PathBuf::from));
    folders
}

/// Python environments, nearest first.
fn environments() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let here = env::current_dir().ok();
    let program = env::current_exe().ok();
    let around = [here, program].into_iter().flatten();
    let around: Vec<PathBuf> = around
        .flat_map(|path| path.ancestors().map(|folder| folder.join(".venv")).collect::<Vec<_>>())
        .collect();
    active.chain(around).filter(|folder| folder.is_dir()).collect()
}

/// Where the package `onnxruntime` of an environment keeps its library.
fn packages(environment: &Path) -> Vec<PathBuf> {
    let inside = "site-packages/onnxruntime/capi";
    let mut folders = vec![environment.join("Lib").join(inside)];
    let versions = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path().join(inside)).collect();
    versions.sort();
    folders.extend(versions);
    folders
}

/// The library in a folder: the plain name, else one with a version.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let is_it = |name: &str| {
        let plain = matches!(name, "libonnxruntime.so" | "libonnxruntime.dylib" | "onnxruntime.dll");
        let versioned = name.starts_with("libonnxruntime.so.")
            || name.starts_with("libonnxruntime.") && name.ends_with(".dylib");
        plain || versioned
    };
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_it(name)).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.first().map(|name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_a_python_environment_is_found_by_its_version() {
        let environment = env::temp_dir().join(format!("divvy-library-{}", std::process::id()));
        let folder = environment.join("lib/python3.11/site-packages/onnxruntime/capi");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libonnxruntime_providers_shared.so"), "").unwrap();
        let found = || packages(&environment).iter().find_map(|folder| library_in(folder));
        assert_eq!(found(), None);
        std::fs::write(folder.join("libonnxruntime.so.1.20.0"), "").unwrap();
        assert_eq!(found(), Some(folder.join("libonnxruntime.so.1.20.0")));
        std::fs::remove_dir_all(&environment).unwrap();
    }
}
