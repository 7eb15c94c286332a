//! Files that divvy does not read, recognised by what they hold, with what to do about each.

use std::path::Path;

use divvy_core::input_error::{Code, InputError};

/// How a PyTorch module becomes something that divvy reads.
const EXPORT: &str = "export the model to ONNX: in Python, torch.onnx.export(model, example_inputs, \"model.onnx\", dynamo=True)";

/// How a folder of Hugging Face, or a file made from one, becomes something that divvy reads.
const OPTIMUM: &str = "export the model to ONNX: pip install optimum[onnx], then optimum-cli export onnx --model NAME-OR-FOLDER --task TASK out";

/// The fault of a file that is known to be something else; none if it is not known.
pub(crate) fn recognise(path: &str, bytes: &[u8]) -> Option<InputError> {
    let (what, fix) = of_bytes(bytes).or_else(|| of_text(path, bytes))?;
    Some(InputError::new(Code::Format, "file", format!("it is {what}, which divvy does not read"), fix))
}

/// As [`recognise`], for a folder.
pub(crate) fn recognise_folder(path: &Path) -> Option<InputError> {
    let has = |name: &str| path.join(name).is_file();
    let onnx = || {
        let entries = std::fs::read_dir(path).ok()?;
        // A folder may hold any number of files.
        let mut names: Vec<String> = entries
            .take(10_000)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".onnx"))
            .collect();
        names.sort();
        Some(path.join(names.first()?).display().to_string())
    };
    let (what, fix) = if let Some(model) = onnx() {
        ("a folder", format!("name the model in it: {model}"))
    } else if has("config.json") {
        ("a Hugging Face folder", OPTIMUM.to_owned())
    } else if has("saved_model.pb") {
        (
            "a TensorFlow model",
            "convert it to ONNX: pip install tf2onnx, then python -m tf2onnx.convert".to_owned(),
        )
    } else if has("Manifest.json") && path.extension().is_some_and(|extension| extension == "mlpackage") {
        ("a Core ML package", EXPORT.to_owned())
    } else {
        return None;
    };
    let message = match what {
        "a folder" => "it is a folder".to_owned(),
        _ => format!("it is {what}, which divvy does not read"),
    };
    Some(InputError::new(Code::Format, "file", message, fix))
}

/// By the first bytes.
fn of_bytes(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let at = |place: usize, mark: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(mark));
    let holds = |mark: &[u8]| bytes[..bytes.len().min(1 << 16)].windows(mark.len()).any(|part| part == mark);
    let header = bytes.get(..8).map(|length| u64::from_le_bytes(length.try_into().expect("eight bytes")));
    if at(0, b"GGUF") {
        let fix = "a GGUF file holds weights for llama.cpp, not operators; find the model it was made from, and \
                   export that to ONNX: pip install optimum[onnx], then optimum-cli export onnx --model NAME --task TASK out";
        return Some(("a GGUF file", fix));
    }
    if header.is_some_and(|length| length > 1 && length <= bytes.len() as u64) && at(8, b"{") {
        let fix = "safetensors hold weights, not operators; export the model that they belong to: pip install \
                   optimum[onnx], then optimum-cli export onnx --model NAME-OR-FOLDER --task TASK out";
        return Some(("a safetensors file", fix));
    }
    if at(0, b"PK\x03\x04") {
        return Some(match () {
            () if holds(b"data.pkl") || holds(b"constants.pkl") || holds(b"archive_format") => {
                ("a PyTorch file", EXPORT)
            }
            () if holds(b".npy") => ("a NumPy archive", "give the model; arrays are for `divvy run`"),
            () => ("a zip archive", "unpack it, and give the model in it"),
        });
    }
    // A pickle of protocol 2 to 5, which old PyTorch files are.
    if matches!(bytes, [0x80, 2..=5, ..]) {
        return Some(("a Python pickle, as old PyTorch files are", EXPORT));
    }
    let others: [(usize, &[u8], &str, &str); 8] = [
        (
            4,
            b"TFL3",
            "a TensorFlow Lite model",
            "convert it to ONNX: pip install tf2onnx, then python -m tf2onnx.convert --tflite",
        ),
        (4, b"ORTM", "a model in ONNX Runtime's own format", "give the .onnx file that it was made from"),
        (
            0,
            b"\x89HDF\r\n\x1a\n",
            "an HDF5 file, as Keras writes them",
            "convert it to ONNX: pip install tf2onnx, then python -m tf2onnx.convert --keras",
        ),
        (0, b"\x93NUMPY", "a NumPy array", "give the model; arrays are for `divvy run`"),
        (0, b"ptrt", "a TensorRT engine", "give the ONNX model that it was built from"),
        (0, b"\x7fELF", "a program", "give a model"),
        (0, b"\x89PNG", "a picture", "give a model"),
        (0, b"BZh", "packed by bzip2", "unpack it"),
    ];
    others.iter().find(|(place, mark, ..)| at(*place, mark)).map(|(_, _, what, fix)| (*what, *fix))
}

/// By the name and the first words of a text.
fn of_text(path: &str, bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let start = start.trim_start_matches('\u{feff}').trim_start();
    if Path::new(path).extension().is_some_and(|extension| extension == "py") {
        return Some(("a Python module", EXPORT));
    }
    if start.starts_with('<') {
        let openvino = start.contains("<net ");
        return Some(if openvino {
            ("an OpenVINO model", "give the ONNX model that it was converted from")
        } else {
            ("XML or HTML", "give a model; a page may have been saved instead of the file")
        });
    }
    start
        .starts_with("version https://git-lfs")
        .then_some(("a pointer of Git LFS, not the file", "fetch the file itself: git lfs pull"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_people_have_are_told_by_what_they_hold() {
        let safetensors = [&16u64.to_le_bytes()[..], b"{\"w\":{}}        "].concat();
        let zip = |inside: &[u8]| [b"PK\x03\x04........", inside].concat();
        let cases: [(&str, &[u8], &str); 10] = [
            ("a", b"GGUF\x03\0\0\0", "GGUF"),
            ("a", &safetensors, "safetensors"),
            ("a", &zip(b"model/data.pkl"), "PyTorch"),
            ("a", &zip(b"x.npy"), "NumPy"),
            ("a", &zip(b"readme.md"), "zip"),
            ("a", b"\x80\x02}q\0", "pickle"),
            ("a", b"\x1c\0\0\0TFL3", "Lite"),
            ("module.py", b"import torch\n", "Python module"),
            ("a", b"<?xml version=\"1.0\"?><net name=\"x\">", "OpenVINO"),
            ("a", b"version https://git-lfs.github.com/spec/v1", "LFS"),
        ];
        for (path, bytes, wanted) in cases {
            let fault = recognise(path, bytes).unwrap_or_else(|| panic!("{wanted} is not recognised"));
            assert!(fault.message.contains(wanted) && !fault.fix.is_empty(), "{fault}");
        }
        let gguf = recognise("a", b"GGUF\x03\0\0\0").unwrap().fix;
        assert!(gguf.contains("optimum-cli export onnx"), "{gguf}");
        assert!(recognise("module.py", b"import torch\n").unwrap().fix.contains("torch.onnx.export"));
        for (path, bytes) in [("a", &b"{\"divvy\": \"plan\"}"[..]), ("a", b""), ("a.toml", b"name = \"x\"")] {
            assert!(recognise(path, bytes).is_none());
        }
    }

    #[test]
    fn folders_are_told_by_the_files_in_them() {
        let folder = std::env::temp_dir().join(format!("divvy-foreign-{}", std::process::id()));
        let put = |name: &str| std::fs::write(folder.join(name), "{}").unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        assert!(recognise_folder(&folder).is_none());
        put("saved_model.pb");
        assert!(recognise_folder(&folder).unwrap().message.contains("TensorFlow"));
        put("config.json");
        put("model.safetensors");
        let told = recognise_folder(&folder).unwrap();
        assert!(told.message.contains("Hugging Face") && told.fix.contains("optimum-cli"), "{told}");
        // What divvy reads is in it: that is what was meant.
        put("model.onnx");
        assert!(recognise_folder(&folder).unwrap().fix.contains("model.onnx"));
        let path = folder.to_str().unwrap();
        assert!(crate::file::load(path).is_err_and(|error| error.to_string().contains("it is a folder")));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
