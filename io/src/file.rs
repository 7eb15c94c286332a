//! Getting at files: bytes from disk or standard input, unpacked, bounded in size, with a fingerprint.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use divvy_core::input_error::{Code, InputError, InputErrors};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Error, foreign, json};

/// What divvy reads, for messages.
pub const KNOWN_FORMATS: &str = "ONNX models, divvy problems and plans, torch, latency, pipeline and msr workloads (JSON), and \
                                 hardware (TOML or JSON)";

/// The most bytes of text that divvy reads, unpacked. A problem of 100 000 ops has some twenty million.
pub const MOST_BYTES: u64 = 512 << 20;

/// The most bytes of a TOML file. People write those; what programs write is JSON.
const MOST_TOML_BYTES: usize = 8 << 20;

/// A file in memory.
pub struct Loaded {
    /// Its path as given; `-` for standard input.
    pub path: String,
    /// What it holds, unpacked.
    pub bytes: Bytes,
    /// SHA-256 of the file as it is on disk, in hexadecimal.
    pub sha256: String,
}

/// Reads a file, or standard input for `-`; gzip is recognised by content.
pub fn load(path: &str) -> Result<Loaded, Error> {
    let raw = if path == "-" {
        read_bounded(std::io::stdin().lock(), path, MOST_BYTES, |cause| Error::Unreadable {
            path: path.to_owned(),
            cause,
        })?
    } else {
        let unreadable = |cause| Error::Unreadable { path: path.to_owned(), cause };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if let Some(error) =
            Some(path).filter(|_| metadata.is_dir()).and_then(|path| foreign::recognise_folder(path.as_ref()))
        {
            return Err(Error::Input { path: path.to_owned(), errors: error.into() });
        }
        if metadata.is_dir() {
            return Err(Error::Unreadable {
                path: path.to_owned(),
                cause: std::io::ErrorKind::IsADirectory.into(),
            });
        }
        let most = if starts_like_onnx(&file) { crate::onnx::load::MOST_BYTES } else { MOST_BYTES };
        if metadata.len() > most {
            return Err(too_large(path, format!("it is larger than {} MiB", most >> 20)));
        }
        read_bounded(file, path, most, unreadable)?
    };
    let sha256 = Sha256::digest(&raw).iter().map(|byte| format!("{byte:02x}")).collect();
    let bytes = if raw.starts_with(&[0x1f, 0x8b]) {
        read_bounded(MultiGzDecoder::new(raw.as_slice()), path, MOST_BYTES, |cause| {
            broken_gzip(path, &cause)
        })?
    } else {
        raw
    };
    Ok(Loaded { path: path.to_owned(), bytes: bytes.into(), sha256 })
}

/// Refuses to read two files from standard input, which ends with the first.
pub fn read_once<'a>(files: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    if files.filter(|file| *file == "-").count() > 1 {
        let message = "standard input can be read only once";
        return Err(Error::option("-", message, "give one of the two as a file"));
    }
    Ok(())
}

/// ONNX files may be as large as their format allows, weights included; text may not.
pub(crate) fn starts_like_onnx(mut file: &File) -> bool {
    let mut start = [0; 8];
    let read = file.read(&mut start).unwrap_or(0);
    let rewound = file.rewind().is_ok();
    rewound && crate::onnx::load::looks_like_onnx(&start[..read])
}

fn read_bounded(
    source: impl Read,
    path: &str,
    most: u64,
    failed: impl FnOnce(std::io::Error) -> Error,
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    let what = format!("it holds more than {} MiB", most >> 20);
    if bytes.len() as u64 > most { Err(too_large(path, what)) } else { Ok(bytes) }
}

fn too_large(path: &str, what: String) -> Error {
    let fix = "coarsen the model, or keep weights out of the file";
    Error::Input { path: path.to_owned(), errors: InputError::new(Code::TooLarge, "file", what, fix).into() }
}

fn broken_gzip(path: &str, cause: &std::io::Error) -> Error {
    let message = format!("it cannot be unpacked: {cause}");
    let fix = "pack it again with gzip, or give it unpacked";
    Error::Input { path: path.to_owned(), errors: InputError::new(Code::Syntax, "file", message, fix).into() }
}

impl Loaded {
    /// The file as JSON, or as TOML turned into the same kind of value.
    pub fn parse(&self) -> Result<Value, Error> {
        let fault = |place: String, message: String, fix: &str| Error::Input {
            path: self.path.clone(),
            errors: InputErrors::from(InputError::new(Code::Syntax, place, message, fix)),
        };
        if self.bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(fault(
                "file".into(),
                "the file is empty".into(),
                "give a model, problem or hardware file",
            ));
        }
        let foreign = foreign::recognise(&self.path, &self.bytes).or_else(|| {
            let fix = "give it where a model is wanted; a plan is made of it by `divvy plan MODEL --on HARDWARE -o plan.json`";
            let is_model = crate::onnx::load::looks_like_onnx(&self.bytes);
            is_model.then(|| InputError::new(Code::Format, "file", "it is an ONNX model, and no text file of divvy", fix))
        });
        if let Some(error) = foreign {
            return Err(Error::Input { path: self.path.clone(), errors: error.into() });
        }
        let text = std::str::from_utf8(&self.bytes).ok().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| Error::Input {
            path: self.path.clone(),
            errors: InputErrors::from(InputError::new(
                Code::Format,
                "file",
                "it is not UTF-8 text",
                format!("divvy reads {KNOWN_FORMATS}"),
            )),
        })?;
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with(['{', '[']) && !looks_like_toml(text) {
            let parsed = json::parse(text, json::MOST_BYTES);
            return parsed.map_err(|error| Error::Input { path: self.path.clone(), errors: error.into() });
        }
        if text.len() > MOST_TOML_BYTES {
            let what = format!("it is no JSON, and TOML of more than {} MiB", MOST_TOML_BYTES >> 20);
            return Err(too_large(&self.path, what));
        }
        let table: Result<toml::Table, _> = toml::from_str(text);
        let table = table.map_err(|e| {
            let before = e.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..before].iter().filter(|&&byte| byte == b'\n').count();
            fault(
                format!("line {line}"),
                format!("neither JSON nor TOML: {}", e.message()),
                "correct the text",
            )
        })?;
        Ok(from_toml(toml::Value::Table(table)))
    }
}

/// A TOML file may begin with `[table]` or `[[table]]`, which no JSON list of divvy's formats does.
fn looks_like_toml(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or("").trim_end();
    let inner = first.trim_start_matches('[').trim_end_matches(']');
    let word = |c: char| c.is_ascii_alphanumeric() || "._-\"".contains(c);
    first.starts_with('[') && first.ends_with(']') && !inner.is_empty() && inner.chars().all(word)
}

fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => serde_json::Number::from_f64(number).map_or_else(
            // JSON has no NaN or infinity; as a text it is refused where a number is needed, with its name.
            || Value::String(number.to_string()),
            Value::Number,
        ),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => Value::Array(items.into_iter().map(from_toml).collect()),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, from_toml(value))).collect())
        }
    }
}

/// Writes a file whole or not at all: first beside its place, then moved there. Gzip if the name ends in `.gz`.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_bytes(path, text.as_bytes())
}

/// Whether a file can be written at all, before work that would be lost is begun. It is not touched.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    if !is_moved_onto(path)? {
        return Ok(());
    }
    let tried = create_beside(path).and_then(|(_, partial)| std::fs::remove_file(&partial));
    tried.map_err(|cause| Error::Unwritable { path: path.display().to_string(), cause })
}

/// Who made a model that divvy wrote by itself, as its file says.
pub const MODEL_MAKER: &str = "divvy generate";

/// What a command writes, as far as the first bytes of a file tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Divvy's own JSON, by the name in its field `divvy`.
    Json(&'static str),
    /// A page of divvy's.
    Report,
    /// A picture.
    Svg,
    /// Hardware in TOML or JSON.
    Hardware,
    /// Arrays of NumPy.
    Npz,
    /// An ONNX model that divvy made itself.
    GeneratedModel,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Json(name) => format!("divvy {name}"),
            Kind::Report => "report of divvy".to_owned(),
            Kind::Svg => "picture".to_owned(),
            Kind::Hardware => "hardware file".to_owned(),
            Kind::Npz => "NumPy archive".to_owned(),
            Kind::GeneratedModel => format!("model of `{MODEL_MAKER}`"),
        }
    }

    /// The option that names the file.
    fn option(self) -> &'static str {
        if self == Kind::GeneratedModel { "--onnx" } else { "--output" }
    }

    /// Whether this may be the beginning of such a file.
    fn fits(self, start: &[u8]) -> bool {
        let text = String::from_utf8_lossy(start);
        let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).take(4096).collect();
        match self {
            Kind::Json(name) => squeezed.contains(&format!("\"divvy\":\"{name}\"")),
            Kind::Report => squeezed.contains("<!doctypehtml>") && text.contains("divvy"),
            Kind::Svg => squeezed.contains("<svg"),
            Kind::Hardware => {
                ["[[device]]", "[[class]]", "\"device\":["].iter().any(|mark| squeezed.contains(mark))
            }
            Kind::Npz => start.starts_with(b"PK"),
            Kind::GeneratedModel => {
                // The maker is one of a model's first fields.
                let (start, maker) = (&start[..start.len().min(64)], MODEL_MAKER.as_bytes());
                crate::onnx::load::looks_like_onnx(start)
                    && start.windows(maker.len()).any(|part| part == maker)
            }
        }
    }
}

/// Refuses to replace a file that is of another kind than what will be written, and to write where nothing can be.
pub fn check_replaceable(path: &Path, kind: Kind, force: bool) -> Result<(), Error> {
    check_writable(path)?;
    refuse_other(path, kind.option(), &kind.name(), |start| force || kind.fits(start))
}

/// As [`check_replaceable`], for a text that begins as all of its kind do.
pub fn check_alike(path: &Path, text: &str, force: bool) -> Result<(), Error> {
    check_writable(path)?;
    let same = &text.as_bytes()[..text.len().min(12)];
    refuse_other(path, "--output", "export of this format", |start| force || start.starts_with(same))
}

/// Refuses a path with a file that `fits` does not accept by its first bytes, unpacked; empty ones are in nobody's way.
fn refuse_other(path: &Path, option: &str, wanted: &str, fits: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    let unreadable = |cause| Error::Unreadable { path: path.display().to_string(), cause };
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(1 << 16).read_to_end(&mut start)).map_err(unreadable)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        // The first bytes of a packed file end in the middle of it.
        let _ = MultiGzDecoder::new(start.as_slice()).take(1 << 16).read_to_end(&mut unpacked);
        start = unpacked;
    }
    if start.iter().all(u8::is_ascii_whitespace) || fits(&start) {
        return Ok(());
    }
    let message = format!("`{}` is there, and is no {wanted}", path.display());
    Err(Error::option(option, message, "name another file, or replace it with --force"))
}

/// A new file beside a path, to be moved there; links that lie in wait are not followed.
fn create_beside(path: &Path) -> std::io::Result<(File, PathBuf)> {
    for attempt in 0u32.. {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.{attempt}.partial", std::process::id()));
        let partial = path.with_file_name(name);
        match File::options().write(true).create_new(true).open(&partial) {
            Ok(file) => return Ok((file, partial)),
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists && attempt < 100 => {}
            Err(cause) => return Err(cause),
        }
    }
    unreachable!("the loop returns")
}

/// Whether a file is written beside its place and moved there; devices and pipes cannot be moved onto.
fn is_moved_onto(path: &Path) -> Result<bool, Error> {
    if path.as_os_str() == "-" {
        let fix = "name a file, or leave the option out";
        return Err(Error::option("--output", "`-` is not a file to write to", fix));
    }
    if path.is_dir() {
        let cause = std::io::ErrorKind::IsADirectory.into();
        return Err(Error::Unwritable { path: path.display().to_string(), cause });
    }
    if path.exists() && !path.is_file() {
        return Ok(false);
    }
    Ok(true)
}

/// As [`write()`], for what is not text.
pub fn write_bytes(path: &Path, content: &[u8]) -> Result<(), Error> {
    let unwritable = |cause| Error::Unwritable { path: path.display().to_string(), cause };
    let bytes = if path.extension().is_some_and(|extension| extension == "gz") {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packer, content).map_err(unwritable)?;
        packer.finish().map_err(unwritable)?
    } else {
        content.to_vec()
    };
    write_through(path, |file| std::io::Write::write_all(file, &bytes))
}

/// Writes a file whole or not at all by what `write` does to it; a path that is no file is written to as it is.
pub fn write_through(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<(), Error> {
    let unwritable = |cause| Error::Unwritable { path: path.display().to_string(), cause };
    if !is_moved_onto(path)? {
        return File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| write(&mut file))
            .map_err(unwritable);
    }
    let (mut file, partial) = create_beside(path).map_err(unwritable)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    let done = written.and_then(|()| std::fs::rename(&partial, path));
    done.map_err(|cause| {
        // Leaves nothing half-written behind; that this may fail too changes nothing.
        let _ = std::fs::remove_file(&partial);
        unwritable(cause)
    })
}
