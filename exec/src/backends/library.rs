//! Finding the shared library of ONNX Runtime on this machine.
//!
//! A path that is given wins, then `ORT_DYLIB_PATH`; then the active Python environment, if it has the package
//! `onnxruntime`, which carries the library; then what was installed with the program; then folders of libraries of the
//! system. Folders that the user merely works in are not looked at: whoever fills them would decide what code runs.

use std::env;
use std::path::{Path, PathBuf};

/// The variable that names the library.
pub const VARIABLE: &str = "ORT_DYLIB_PATH";

/// The oldest version that works. Those before lack functions that divvy calls.
pub const OLDEST: &str = "1.17";

/// The library; fails with where it was looked for. `given` goes before everything else.
pub fn find(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        let found = if path.is_dir() {
            library_in(path)
        } else {
            Some(path.to_owned()).filter(|path| path.is_file())
        };
        return found.ok_or_else(|| format!("`{}` is no library of ONNX Runtime", path.display()));
    }
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        return Err(format!("{VARIABLE} names `{}`, which is not a file", path.display()));
    }
    let environments = environments().into_iter().flat_map(|environment| packages(&environment));
    let folders = environments.chain(beside_program()).chain(system_folders());
    folders.into_iter().find_map(|folder| library_in(&folder)).ok_or_else(|| {
        format!(
            "the library of ONNX Runtime was not found: not in {VARIABLE}, nor in an active Python environment, nor \
             beside divvy, nor in the system's folders"
        )
    })
}

/// What to do where it is not found.
pub const FIX: &str = "install it in a Python environment and activate that (python3 -m venv env && . env/bin/activate \
                       && pip install 'onnxruntime>=1.19', whose packages carry the library), or name \
                       libonnxruntime.so of 1.17 or newer with --onnxruntime or ORT_DYLIB_PATH";

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

/// The active Python environment, and that of the checkout which the program was built in.
pub(super) fn environments() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let program = env::current_exe().ok();
    let built_in = program.iter().flat_map(|path| path.ancestors());
    let built_in = built_in.filter(|folder| folder.file_name().is_some_and(|name| name == "target"));
    let own = built_in.filter_map(|target| Some(target.parent()?.join(".venv")));
    active.chain(own).filter(|folder| folder.is_dir()).collect()
}

/// Where a program's own libraries are.
fn beside_program() -> Vec<PathBuf> {
    let program = env::current_exe().and_then(|path| path.canonicalize()).ok();
    let folder = program.as_deref().and_then(Path::parent);
    folder
        .into_iter()
        .flat_map(|folder| [folder.to_owned(), folder.join("lib"), folder.join("../lib")])
        .collect()
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
