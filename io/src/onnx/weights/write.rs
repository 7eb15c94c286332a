//! Writes pieces, their weights and the manifest.
//!
//! Everything that can be refused is refused before the first byte is written. Weights are copied from file to file in
//! small steps; only those that go into a piece's own file pass through memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use prost::Message;

use super::manifest::{MANIFEST, Manifest, MissingWeights, PieceEntry, Source};
use super::staging::{Staging, fingerprint, unwritable};
use super::tensors::TensorRole;
use super::{
    EXTERNAL, External, WeightsError, data_bytes, inside, is_external, manifest, open, read, resolve, tensors,
};
use crate::onnx::cut::CutPiece;
use crate::onnx::facts::element;
use crate::onnx::proto::{Entry, Model, Tensor};

/// Where the weights of a piece go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Into the piece's own file, which must stay below 2 GiB.
    Inline,
    /// Into one file beside each piece.
    External,
    /// They stay where they are: pieces refer to the files of the whole model, and run in its folder only.
    KeepReference,
}

/// How pieces are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writing {
    /// Where weights go.
    pub weights: Weights,
    /// Sizes of symbolic dimensions that the plan was made for, for the manifest.
    pub dims: BTreeMap<String, u64>,
    /// Whether files that no earlier run wrote may be overwritten.
    pub overwrite: bool,
}

impl From<Weights> for Writing {
    fn from(weights: Weights) -> Writing {
        Writing { weights, dims: BTreeMap::new(), overwrite: false }
    }
}

/// Protocol buffers end at 2 GiB.
const MOST_FILE_BYTES: u64 = (1 << 31) - 1;

/// Data begin at whole memory pages, so that a runtime can map them.
const PAGE: u64 = 4096;

/// Smaller tensors stay in the model's file: shapes and axes must be there for shape inference, and a page each is
/// too much.
const FEWEST_EXTERNAL_BYTES: u64 = 1024;

/// Writes the pieces of the model file `source` to the folder `target`, with their weights and a manifest; all of it
/// or, if something fails on the way, nothing. Weights that are not there stay references, which the manifest lists.
/// Data in typed fields (`float_data` and its like) stay in the piece's file whatever is asked.
///
/// Pieces of an earlier run in the same folder are replaced, and those that have no successor go. Other files are left
/// alone; where one is in the way, nothing is written unless `how` says so.
pub fn write_pieces(
    pieces: &[CutPiece],
    source: &Path,
    target: &Path,
    how: &Writing,
) -> Result<Manifest, WeightsError> {
    let Writing { weights: how, dims, overwrite } = how.clone();
    let folder = source.parent().unwrap_or(Path::new(""));
    let names = file_names(pieces);
    let mut models: Vec<Model> = pieces.iter().map(|piece| piece.model.clone()).collect();
    let mut surveys = Vec::with_capacity(pieces.len());
    for (piece, model) in pieces.iter().zip(&mut models) {
        let survey = survey(model, folder, how)?;
        let embedded = if how == Weights::Inline { survey.external_bytes } else { 0 };
        check_size(piece, (model.encoded_len() as u64).saturating_add(embedded))?;
        surveys.push(survey);
    }
    let earlier = Manifest::earlier(target).map(|manifest| manifest.own_files(target)).unwrap_or_default();
    check_overwrites(source, target, &names, &surveys)?;
    if !overwrite {
        check_foreign(target, &names, how, &earlier)?;
    }
    let sources = sources(source, &surveys);
    let source = Source { path: source.display().to_string(), sha256: fingerprint(source)? };

    let mut staging = Staging::new(target)?;
    let mut entries = Vec::with_capacity(pieces.len());
    for (((piece, model), survey), name) in pieces.iter().zip(&mut models).zip(surveys).zip(&names) {
        let mut weight_files = survey.kept;
        match how {
            Weights::Inline => embed(model, folder)?,
            Weights::External => {
                let data_name = format!("{name}.data");
                if export(model, folder, target, &data_name, &mut staging)? {
                    weight_files.insert(data_name);
                }
            }
            Weights::KeepReference => {}
        }
        check_size(piece, model.encoded_len() as u64)?;
        let file = staging.create(name)?;
        write_all(file, &model.encode_to_vec()).map_err(|cause| unwritable(&target.join(name), cause))?;
        entries.push(PieceEntry {
            weight_bytes: survey.bytes,
            weight_files: weight_files.into_iter().collect(),
            missing_weights: survey.missing,
            ..entry(piece, model, name)
        });
        // One piece's weights at a time.
        *model = Model::default();
    }
    let manifest = Manifest::new(pieces, entries, source, dims, staging.fingerprints()?);
    let write_manifest = |file: File| {
        let mut text = serde_json::to_vec_pretty(&manifest)?;
        text.push(b'\n');
        write_all(file, &text)
    };
    let file = staging.create(MANIFEST)?;
    write_manifest(file).map_err(|cause| unwritable(&target.join(MANIFEST), cause))?;
    // What an earlier run wrote and this one does not, unless this one was made from it.
    let is_written = |file: &String| manifest.written.contains_key(file);
    let in_use = |file: &String| {
        target.join(file).canonicalize().is_ok_and(|path| sources.contains(&path))
            || manifest.pieces.iter().any(|piece| piece.weight_files.contains(file))
    };
    let stale: Vec<String> =
        earlier.into_iter().filter(|file| file != MANIFEST && !is_written(file) && !in_use(file)).collect();
    staging.commit(MANIFEST, &stale)?;
    Ok(manifest)
}

/// What the manifest says of a piece, but for its weights.
fn entry(piece: &CutPiece, model: &Model, file: &str) -> PieceEntry {
    let declared = model.graph.as_ref();
    let inputs = declared.map_or(&[][..], |graph| &graph.input);
    let outputs = declared.map_or(&[][..], |graph| &graph.output);
    PieceEntry {
        name: piece.name.clone(),
        file: file.to_owned(),
        device: piece.device.clone(),
        stage: piece.stage,
        inputs: manifest::values(&piece.inputs, inputs, &piece.planned),
        outputs: manifest::values(&piece.outputs, outputs, &piece.planned),
        ..PieceEntry::default()
    }
}

/// What is known of a piece's weights before anything is written.
#[derive(Default)]
struct Survey {
    /// Bytes of all weights.
    bytes: u64,
    /// Bytes of those in files that are there.
    external_bytes: u64,
    /// Those in files that are not.
    missing: Vec<MissingWeights>,
    /// Locations that the piece will go on to refer to.
    kept: BTreeSet<String>,
    /// The files that will be read.
    sources: HashSet<PathBuf>,
}

fn survey(model: &mut Model, folder: &Path, how: Weights) -> Result<Survey, WeightsError> {
    let mut survey = Survey::default();
    tensors::visit(model, &mut |_, tensor| {
        let external = if is_external(tensor) { Some(resolve(folder, tensor)?) } else { None };
        let raw = tensor.raw_data.as_ref().map_or(0, |raw| raw.len() as u64);
        let length = external.as_ref().and_then(|external| external.length);
        survey.bytes = survey.bytes.saturating_add(data_bytes(tensor).or(length).unwrap_or(raw));
        let Some(external) = external else { return Ok(()) };
        if !external.present || how == Weights::KeepReference {
            survey.kept.insert(external.location.clone());
        }
        if external.present {
            survey.external_bytes = survey.external_bytes.saturating_add(length.unwrap_or(0));
            survey.sources.insert(external.path);
        } else {
            let (tensor, location) = (tensor.name().to_owned(), external.location);
            survey.missing.push(MissingWeights { tensor, location });
        }
        Ok(())
    })?;
    Ok(survey)
}

fn check_size(piece: &CutPiece, bytes: u64) -> Result<(), WeightsError> {
    if bytes <= MOST_FILE_BYTES {
        return Ok(());
    }
    Err(WeightsError::PieceTooLarge { piece: piece.name.clone(), bytes })
}

/// The files that pieces are made from.
fn sources(source: &Path, surveys: &[Survey]) -> HashSet<PathBuf> {
    let weights = surveys.iter().flat_map(|survey| survey.sources.iter().cloned());
    source.canonicalize().ok().into_iter().chain(weights).collect()
}

/// No file to write may be one that is read, nor one that a piece goes on to refer to.
fn check_overwrites(
    source: &Path,
    target: &Path,
    names: &[String],
    surveys: &[Survey],
) -> Result<(), WeightsError> {
    let written = names.iter().flat_map(|name| [name.clone(), format!("{name}.data")]);
    let sources = sources(source, surveys);
    let kept: HashSet<PathBuf> =
        surveys.iter().flat_map(|survey| &survey.kept).filter_map(|location| inside(location).ok()).collect();
    for name in written.chain([MANIFEST.to_owned()]) {
        let path = target.join(&name);
        let is_read = path.canonicalize().is_ok_and(|path| sources.contains(&path));
        if kept.contains(Path::new(&name)) || is_read {
            return Err(WeightsError::Overwrites { path: path.display().to_string() });
        }
    }
    Ok(())
}

/// No file to write may be one that is there and that no earlier run wrote.
fn check_foreign(
    target: &Path,
    names: &[String],
    how: Weights,
    earlier: &BTreeSet<String>,
) -> Result<(), WeightsError> {
    let data = names.iter().filter(|_| how == Weights::External).map(|name| format!("{name}.data"));
    let written = names.iter().cloned().chain(data).chain([MANIFEST.to_owned()]);
    for name in written.filter(|name| !earlier.contains(name)) {
        let path = target.join(&name);
        if path.symlink_metadata().is_ok() {
            return Err(WeightsError::Foreign { path: path.display().to_string() });
        }
    }
    Ok(())
}

/// Brings all external data that are there into the model.
fn embed(model: &mut Model, folder: &Path) -> Result<(), WeightsError> {
    tensors::visit(model, &mut |_, tensor| {
        if is_external(tensor) && resolve(folder, tensor)?.present {
            take_in(tensor, folder)?;
        }
        Ok(())
    })
}

fn take_in(tensor: &mut Tensor, folder: &Path) -> Result<(), WeightsError> {
    tensor.raw_data = Some(read(folder, tensor)?);
    tensor.external_data.clear();
    tensor.data_location = None;
    Ok(())
}

/// Moves weights to a file beside the model; says whether there were any.
fn export(
    model: &mut Model,
    folder: &Path,
    target: &Path,
    data_name: &str,
    staging: &mut Staging,
) -> Result<bool, WeightsError> {
    let mut data: Option<DataFile> = None;
    // Weights that several names share are written once.
    let mut written: HashMap<(PathBuf, u64, u64), u64> = HashMap::new();
    tensors::visit(model, &mut |role, tensor| {
        let origin = match origin(tensor, role, folder)? {
            Origin::Stays => return Ok(()),
            Origin::File(external) if external.length.unwrap_or(0) < FEWEST_EXTERNAL_BYTES => {
                return take_in(tensor, folder);
            }
            origin => origin,
        };
        if data.is_none() {
            data = Some(DataFile { writer: BufWriter::new(staging.create(data_name)?), end: 0 });
        }
        let Some(data) = &mut data else { return Ok(()) };
        let failed = |cause| unwritable(&target.join(data_name), cause);
        let (offset, length) = match origin {
            Origin::File(external) => {
                let key = (external.path.clone(), external.offset, external.length.unwrap_or(0));
                let offset = match written.get(&key) {
                    Some(&offset) => offset,
                    None => data.append(&mut open(&external)?, key.2).map_err(failed)?,
                };
                let length = key.2;
                written.insert(key, offset);
                tensor.raw_data = None;
                (offset, length)
            }
            _ => {
                let raw = tensor.raw_data.take().unwrap_or_default();
                let length = raw.len() as u64;
                (data.append(&mut raw.as_ref(), length).map_err(failed)?, length)
            }
        };
        let entry = |key: &str, value: String| Entry { key: Some(key.to_owned()), value: Some(value) };
        tensor.external_data = vec![
            entry("location", data_name.to_owned()),
            entry("offset", offset.to_string()),
            entry("length", length.to_string()),
        ];
        tensor.data_location = Some(EXTERNAL);
        Ok(())
    })?;
    let Some(data) = data else { return Ok(false) };
    let finish =
        data.writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    finish.map_err(|cause| unwritable(&target.join(data_name), cause))?;
    Ok(true)
}

/// Where data to be moved are now.
enum Origin {
    /// They are not moved.
    Stays,
    /// In the tensor.
    Tensor,
    /// In a file.
    File(External),
}

fn origin(tensor: &Tensor, role: TensorRole, folder: &Path) -> Result<Origin, WeightsError> {
    if is_external(tensor) {
        let external = resolve(folder, tensor)?;
        return Ok(if external.present { Origin::File(external) } else { Origin::Stays });
    }
    let large = tensor.raw_data.as_ref().is_some_and(|raw| raw.len() as u64 >= FEWEST_EXTERNAL_BYTES);
    let movable = role == TensorRole::Weight && tensor.data_type() != element::STRING;
    Ok(if large && movable { Origin::Tensor } else { Origin::Stays })
}

/// A file of weights in the making.
struct DataFile {
    writer: BufWriter<File>,
    end: u64,
}

impl DataFile {
    /// Copies `length` bytes to the next page; returns where they begin.
    fn append(&mut self, source: &mut dyn Read, length: u64) -> io::Result<u64> {
        let start = self.end.next_multiple_of(PAGE);
        io::copy(&mut io::repeat(0).take(start - self.end), &mut self.writer)?;
        if io::copy(&mut source.take(length), &mut self.writer)? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.end = start + length;
        Ok(start)
    }
}

/// A file name for each piece: its name where that is plain, else with other characters replaced; all unlike, also
/// where capitals do not count.
fn file_names(pieces: &[CutPiece]) -> Vec<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let stem: String = piece.name.chars().take(100).map(plain).collect();
        let stem = match stem.trim_start_matches('.') {
            "" => "piece",
            stem => stem,
        };
        let mut name = format!("{stem}.onnx");
        let mut again = 1;
        while !taken.insert(name.to_ascii_lowercase()) {
            again += 1;
            name = format!("{stem}-{again}.onnx");
        }
        names.push(name);
    }
    names
}

fn write_all(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}
