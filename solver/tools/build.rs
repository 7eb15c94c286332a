//! Checks that the tools which build HiGHS are there, before the build of some minutes begins.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    for variable in ["CMAKE", "LIBCLANG_PATH", "PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let cmake = std::env::var("CMAKE").unwrap_or_else(|_| "cmake".to_owned());
    let mut missing = Vec::new();
    if !Command::new(&cmake).arg("--version").output().is_ok_and(|output| output.status.success()) {
        missing.push(format!("cmake (`{cmake}` does not run)"));
    }
    if let Err(reason) = clang_sys::load() {
        missing.push(format!("libclang ({reason})"));
    }
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    let needs = missing.join(" and ");
    eprintln!(
        "error: building the HiGHS solver needs {needs}; `scripts/solver.sh`, run once, installs them into .venv"
    );
    ExitCode::FAILURE
}
