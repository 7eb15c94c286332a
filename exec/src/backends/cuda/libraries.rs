//! What a CUDA card needs beside its driver: the runtime's CUDA provider, and NVIDIA's kernel libraries.
//!
//! The provider is in the package `onnxruntime-gpu`, beside the runtime's own library. It is linked against CUDA's libraries, which
//! the system's loader finds if they are installed with CUDA. PyTorch and NVIDIA's own packages bring them into a Python environment,
//! where the loader does not look; so they are looked for there and loaded first, by the names that the provider asks for.

#![allow(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::driver;
use crate::backends::library::environments;
use crate::backends::onnxruntime::{OnnxRuntime, Unavailable};

/// The provider's file.
const PROVIDER: &str = "libonnxruntime_providers_cuda.so";

/// Libraries by the beginning of their names, in an order in which each finds what it needs loaded. The provider cannot be loaded
/// without the first ones; the others it opens when a network needs them.
const KERNELS: [(&str, bool); 8] = [
    ("libcudart.so", true),
    ("libcublasLt.so", true),
    ("libcublas.so", true),
    ("libcurand.so", true),
    ("libcufft.so", false),
    ("libnvrtc.so", false),
    ("libnvJitLink.so", false),
    ("libcudnn.so", false),
];

const KERNELS_FIX: &str = "install them in the Python environment (pip install nvidia-cuda-runtime nvidia-cublas nvidia-curand \
                           nvidia-cufft nvidia-cudnn-cu13, or PyTorch, which brings them), or name their folder in LD_LIBRARY_PATH";

/// Whether cards can be used; else what is missing, and how to get it. The first call loads the libraries.
pub fn check() -> Result<(), Unavailable> {
    static CHECKED: OnceLock<Result<(), Unavailable>> = OnceLock::new();
    CHECKED.get_or_init(find_all).clone()
}

fn find_all() -> Result<(), Unavailable> {
    if !driver::is_there() {
        return Err(Unavailable {
            message: "there is no CUDA driver: its library libcuda.so cannot be loaded".into(),
            fix: "install NVIDIA's driver for the card, or run its part elsewhere: --device gpu=cores, or of a cold start --device gpu=simulated".into(),
        });
    }
    if driver::cards().is_empty() {
        return Err(Unavailable {
            message: "the CUDA driver knows no card".into(),
            fix: "look what `nvidia-smi` says; CUDA_VISIBLE_DEVICES may hide cards".into(),
        });
    }
    let runtime = OnnxRuntime::load()?;
    let folder = runtime.library().parent().map(Path::to_owned).unwrap_or_default();
    if !folder.join(PROVIDER).is_file() {
        return Err(Unavailable {
            message: format!("ONNX Runtime in `{}` has no CUDA provider ({PROVIDER})", folder.display()),
            fix: "pip uninstall onnxruntime && pip install onnxruntime-gpu, or name the library of that package with --onnxruntime"
                .into(),
        });
    }
    let folders = folders(&folder);
    let missing: Vec<&str> = KERNELS
        .iter()
        .filter(|(name, needed)| !load(name, &folders) && *needed)
        .map(|&(name, _)| name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Unavailable {
        message: format!("the CUDA provider needs {}, which were not found", missing.join(", ")),
        fix: KERNELS_FIX.into(),
    })
}

/// Where kernel libraries may be: what is listed, CUDA's own folders, and NVIDIA's packages beside the runtime or in an environment.
fn folders(runtime: &Path) -> Vec<PathBuf> {
    let listed = env::var_os("LD_LIBRARY_PATH").map(|list| env::split_paths(&list).collect());
    let mut folders: Vec<PathBuf> = listed.unwrap_or_default();
    // .../site-packages/onnxruntime/capi
    let beside = runtime.parent().and_then(Path::parent).map(|packages| packages.join("nvidia"));
    let environments = environments().into_iter().flat_map(|environment| inside(&environment.join("lib")));
    let packages = environments.map(|version| version.join("site-packages/nvidia"));
    for nvidia in beside.into_iter().chain(packages) {
        folders.extend(inside(&nvidia).into_iter().map(|package| package.join("lib")));
    }
    let home = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    folders.extend(home.chain([PathBuf::from("/usr/local/cuda")]).map(|cuda| cuda.join("lib64")));
    folders.retain(|folder| folder.is_dir());
    folders
}

/// What is in a folder, in order.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Loads a library for whoever asks for it later: from the folders, else as the system finds it. It stays loaded.
fn load(name: &str, folders: &[PathBuf]) -> bool {
    let is_it = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let found = folders.iter().flat_map(|folder| inside(folder)).filter(is_it);
    // The newest comes last by name, as far as single digits go.
    let mut found: Vec<PathBuf> = found.collect();
    found.reverse();
    let plain = (9..=14).rev().map(|version| PathBuf::from(format!("{name}.{version}")));
    found.into_iter().chain(plain).any(|path| open(&path))
}

fn open(path: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: NVIDIA's libraries may be loaded by anybody at any time; they are what the provider would load by itself.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    opened.map(std::mem::forget).is_ok()
}
