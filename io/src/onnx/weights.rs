//! Weights that lie in files beside the model, and writing pieces with theirs.
//!
//! Where a tensor says its data are is not trusted. A location is a relative path that stays in the model's folder,
//! links followed; a range lies within the file and is as long as the tensor's shape says. The checksum is read but
//! not verified: it is of the whole file, which this module never reads in full.
//!
//! | file | what it does |
//! |---|---|
//! | `absent` | tells which files are not there |
//! | `bring_in` | a model with all of its weights in memory |
//! | `manifest` | `manifest.json`: what the pieces are and how they hang together |
//! | `tensors` | every tensor of a model that can have its data elsewhere |
//! | `staging` | files that appear together or not at all |
//! | `write` | writes pieces, their weights and the manifest |

mod absent;
mod bring_in;
mod manifest;
mod staging;
mod tensors;
mod write;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

pub use self::absent::{Absent, AbsentFile, absent};
pub use self::bring_in::{bring_in, bring_in_with};
pub use self::manifest::{Dim, Feed, MANIFEST, Manifest, MissingWeights, PieceEntry, Source, Value};
pub use self::write::{Weights, Writing, write_pieces};
use super::facts::bits;
use super::proto::Tensor;

/// The most bytes of one tensor that [`read`] brings into memory.
pub const MOST_BYTES_IN_MEMORY: u64 = 16 << 30;

/// [`Tensor::data_location`] of a tensor whose data are in a file beside the model.
const EXTERNAL: i32 = 1;

/// What can go wrong with weights.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The data are not in a file of their own.
    #[error("tensor {tensor:?} holds its data itself")]
    NotExternal {
        /// The tensor.
        tensor: String,
    },
    /// An entry that says where the data are is absent, given twice, or not a number.
    #[error("tensor {tensor:?}: {key} of its external data {fault}")]
    Entry {
        /// The tensor.
        tensor: String,
        /// The entry.
        key: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// The location leads out of the model's folder.
    #[error(
        "tensor {tensor:?}: its data are said to be in {location:?}, which {fault}\n  hint: weights must lie in the model's own folder or below"
    )]
    Outside {
        /// The tensor.
        tensor: String,
        /// The location as given.
        location: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The file is not there.
    #[error("tensor {tensor:?}: the file {location:?} with its data is not there")]
    Absent {
        /// The tensor.
        tensor: String,
        /// The location as given.
        location: String,
    },
    /// The file ends before the data do.
    #[error("tensor {tensor:?}: {location:?} has {size} bytes, too few for {length} from {offset}")]
    Short {
        /// The tensor.
        tensor: String,
        /// The location as given.
        location: String,
        /// Where the data begin.
        offset: u64,
        /// How long they are.
        length: u64,
        /// How long the file is.
        size: u64,
    },
    /// The length given is not that of the shape.
    #[error("tensor {tensor:?}: {length} bytes are given for its data, its shape needs {needed}")]
    Length {
        /// The tensor.
        tensor: String,
        /// The length given.
        length: u64,
        /// The length of the shape.
        needed: u64,
    },
    /// A tensor is too large for memory.
    #[error("tensor {tensor:?} has {length} bytes, too many to read at once")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// Its bytes.
        length: u64,
    },
    /// A file of a piece would be larger than the format allows.
    #[error(
        "piece {piece:?} would be a file of {bytes} bytes; ONNX files end at 2 GiB\n  hint: write its weights to a file of their own (external)"
    )]
    PieceTooLarge {
        /// The piece.
        piece: String,
        /// Its bytes.
        bytes: u64,
    },
    /// A file to write is one that the pieces are made from.
    #[error(
        "{path} would be overwritten, and the pieces need it\n  hint: write to another folder, or rename the piece"
    )]
    Overwrites {
        /// The file.
        path: String,
    },
    /// A file to write is there, and no earlier run wrote it.
    #[error(
        "{path} is there, and was not written by an earlier export\n  hint: write to another folder, or overwrite it with --force"
    )]
    Foreign {
        /// The file.
        path: String,
    },
    /// The environment's fault: a file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// The environment's fault: a file cannot be written.
    #[error("cannot write {path}: {cause}")]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        cause: io::Error,
    },
}

/// Where the data of a tensor are. The place has been checked, the range only where the file is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// The location as the model gives it.
    pub location: String,
    /// The file, links resolved where it is there.
    pub path: PathBuf,
    /// The first byte.
    pub offset: u64,
    /// How many bytes; none where neither model nor file tell.
    pub length: Option<u64>,
    /// SHA-1 of the file as the model gives it; not verified.
    pub checksum: Option<String>,
    /// Whether the file is there.
    pub present: bool,
}

/// Whether a tensor has its data in a file beside the model.
pub fn is_external(tensor: &Tensor) -> bool {
    tensor.data_location() == EXTERNAL
}

/// Bytes of a tensor's data by its shape; none for text, unknown element types and absurd shapes.
pub fn data_bytes(tensor: &Tensor) -> Option<u64> {
    let count =
        tensor.dims.iter().try_fold(1u64, |count, &dim| count.checked_mul(u64::try_from(dim).ok()?))?;
    Some(count.checked_mul(bits(tensor.data_type())?)?.div_ceil(8))
}

/// Where the data of a tensor of a model in `folder` are. That the file is absent is no error.
pub fn resolve(folder: &Path, tensor: &Tensor) -> Result<External, WeightsError> {
    let name = || tensor.name().to_owned();
    if !is_external(tensor) {
        return Err(WeightsError::NotExternal { tensor: name() });
    }
    let location = entry(tensor, "location")?;
    let location = location.ok_or_else(|| WeightsError::Entry {
        tensor: name(),
        key: "location",
        fault: "is missing".into(),
    })?;
    let offset = number(tensor, "offset")?.unwrap_or(0);
    let given = number(tensor, "length")?;
    let checksum = entry(tensor, "checksum")?.map(str::to_owned);
    let needed = data_bytes(tensor);
    if let (Some(length), Some(needed)) = (given, needed)
        && length != needed
    {
        return Err(WeightsError::Length { tensor: name(), length, needed });
    }
    let length = given.or(needed);

    let outside = |fault| WeightsError::Outside { tensor: name(), location: location.to_owned(), fault };
    let path = folder.join(inside(location).map_err(outside)?);
    let unreadable = |cause| WeightsError::Unreadable { path: path.display().to_string(), cause };
    let Some(path) = follow(&path).map_err(unreadable)? else {
        return Ok(External {
            location: location.to_owned(),
            path,
            offset,
            length,
            checksum,
            present: false,
        });
    };
    let home = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !path.starts_with(home.canonicalize().map_err(unreadable)?) {
        return Err(outside("is a link out of the model's folder"));
    }
    let metadata = path.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(outside("is not a plain file"));
    }
    let size = metadata.len();
    let length = length.unwrap_or_else(|| size.saturating_sub(offset));
    if offset.checked_add(length).is_none_or(|end| end > size) {
        let location = location.to_owned();
        return Err(WeightsError::Short { tensor: name(), location, offset, length, size });
    }
    let location = location.to_owned();
    Ok(External { location, path, offset, length: Some(length), checksum, present: true })
}

/// The raw data of a tensor of a model in `folder`, from its file or from itself.
pub fn read(folder: &Path, tensor: &Tensor) -> Result<Bytes, WeightsError> {
    if let (false, Some(raw)) = (is_external(tensor), &tensor.raw_data) {
        return Ok(raw.clone());
    }
    let external = resolve(folder, tensor)?;
    if !external.present {
        return Err(WeightsError::Absent { tensor: tensor.name().to_owned(), location: external.location });
    }
    let length = external.length.unwrap_or(0);
    let too_large = || WeightsError::TooLarge { tensor: tensor.name().to_owned(), length };
    if length > MOST_BYTES_IN_MEMORY {
        return Err(too_large());
    }
    let mut data = Vec::new();
    data.try_reserve_exact(usize::try_from(length).map_err(|_| too_large())?).map_err(|_| too_large())?;
    let mut source = open(&external)?;
    let read = source.read_to_end(&mut data);
    let read =
        read.and_then(
            |read| {
                if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            },
        );
    read.map_err(|cause| WeightsError::Unreadable { path: external.path.display().to_string(), cause })?;
    Ok(data.into())
}

/// The file of a tensor's data, at the range and ending with it.
fn open(external: &External) -> Result<io::Take<File>, WeightsError> {
    let open = || -> io::Result<io::Take<File>> {
        let mut file = File::open(&external.path)?;
        file.seek(SeekFrom::Start(external.offset))?;
        Ok(file.take(external.length.unwrap_or(0)))
    };
    open().map_err(|cause| WeightsError::Unreadable { path: external.path.display().to_string(), cause })
}

/// A location as a path that stays below where it starts, whatever the system; or what is wrong with it.
fn inside(location: &str) -> Result<PathBuf, &'static str> {
    if location.contains(['\\', '\0']) {
        return Err("is no POSIX path");
    }
    let mut path = PathBuf::new();
    for component in Path::new(location).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("leads upwards"),
            Component::RootDir | Component::Prefix(_) => return Err("is an absolute path"),
        }
    }
    if path.as_os_str().is_empty() { Err("names no file") } else { Ok(path) }
}

/// The path with links resolved; none where nothing is there.
fn follow(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.canonicalize() {
        Ok(path) => Ok(Some(path)),
        Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}

/// An entry of a tensor's external data. Readers differ in which of two they believe, so there may be only one.
fn entry<'t>(tensor: &'t Tensor, key: &'static str) -> Result<Option<&'t str>, WeightsError> {
    let mut found = tensor.external_data.iter().filter(|entry| entry.key() == key);
    let first = found.next().map(|entry| entry.value());
    if found.next().is_some() {
        let fault = "is given twice".into();
        return Err(WeightsError::Entry { tensor: tensor.name().to_owned(), key, fault });
    }
    Ok(first)
}

fn number(tensor: &Tensor, key: &'static str) -> Result<Option<u64>, WeightsError> {
    let Some(text) = entry(tensor, key)? else { return Ok(None) };
    let fault = format!("is {text:?}, not a number of bytes");
    let number =
        text.parse().map_err(|_| WeightsError::Entry { tensor: tensor.name().to_owned(), key, fault })?;
    Ok(Some(number))
}
