//! The model's file, and that of its weights beside it.
//!
//! Weights go to the disk as they are made, so that memory never holds one whole. Each begins at a memory page, so that a
//! runtime can map it. Both files have a name of their own until they are complete: a model that is there is whole, and so
//! are its weights.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::units::show_bytes;

use super::builder::{ModelBuilder, Weight};
use super::content::{Content, NumberFormat};
use super::random::RandomNumbers;
use crate::Error;
use crate::file::{self, Kind, MODEL_MAKER};
use crate::onnx::proto::{Entry, Model, Tensor};

/// [`Tensor::data_location`] of a tensor whose data are in a file beside the model.
const EXTERNAL: i32 = 1;

/// Data begin at whole memory pages.
const PAGE: u64 = 4096;

/// How many numbers of a table are made at once.
const AT_ONCE: u64 = 1 << 16;

/// A model that has been made, and whose weights have not.
#[derive(Debug)]
pub struct GeneratedModel {
    model: Model,
    weights: Vec<Weight>,
    numbers: NumberFormat,
    seed: u64,
}

/// Where a weight lies in the file.
struct Place {
    offset: u64,
    length: u64,
}

impl GeneratedModel {
    /// What was built, with weights of a seed.
    pub(super) fn new(mut builder: ModelBuilder, seed: u64) -> GeneratedModel {
        let model = builder.finish();
        GeneratedModel { model, numbers: builder.numbers, weights: builder.weights, seed }
    }

    /// Name of the network.
    pub fn name(&self) -> &str {
        self.model.graph.as_ref().map_or("", |graph| graph.name())
    }

    /// How many operators it has, small constants left out.
    pub fn operator_count(&self) -> usize {
        let nodes = self.model.graph.iter().flat_map(|graph| &graph.node);
        nodes.filter(|node| node.op_type() != "Constant").count()
    }

    /// Bytes of the file of its weights.
    pub fn weight_bytes(&self) -> u64 {
        self.places().last().map_or(0, |place| place.offset + place.length)
    }

    /// The model, its weights in a file called `location` in its folder.
    pub fn model(&self, location: &str) -> Model {
        let mut model = self.model.clone();
        model.producer_name = Some(MODEL_MAKER.to_owned());
        model.producer_version = Some(env!("CARGO_PKG_VERSION").to_owned());
        model.doc_string = Some(format!("weights are random, of seed {}", self.seed));
        let entry = |key: &str, value: String| Entry { key: Some(key.to_owned()), value: Some(value) };
        let tensor = |(weight, place): (&Weight, Place)| Tensor {
            name: Some(weight.name.clone()),
            dims: weight.shape.iter().map(|&size| size as i64).collect(),
            data_type: Some(self.numbers.element()),
            data_location: Some(EXTERNAL),
            external_data: vec![
                entry("location", location.to_owned()),
                entry("offset", place.offset.to_string()),
                entry("length", place.length.to_string()),
            ],
            ..Tensor::default()
        };
        if let Some(graph) = &mut model.graph {
            graph.initializer = self.weights.iter().zip(self.places()).map(tensor).collect();
        }
        model
    }

    /// Where each weight lies.
    fn places(&self) -> impl Iterator<Item = Place> {
        self.weights.iter().scan(0u64, |end, weight| {
            let place =
                Place { offset: end.next_multiple_of(PAGE), length: weight.count() * self.numbers.bytes() };
            *end = place.offset + place.length;
            Some(place)
        })
    }

    /// Writes the model to `path` and its weights beside it, and says where those are; none where it was cancelled, and
    /// nothing is written then. `progress` is told bytes of weights: how many are written, and how many there are.
    ///
    /// A model of another maker, or weights without a model, are replaced only where `force` says so.
    pub fn write(
        &self,
        path: &Path,
        force: bool,
        cancelled: &AtomicBool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<PathBuf>, Error> {
        let weights = beside(path)?;
        let location = weights.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let text = self.model(location).to_bytes();
        check_places(path, &weights, force)?;
        check_room(&weights, self.weight_bytes() + text.len() as u64)?;
        let mut written = Written { bytes: 0, of: self.weight_bytes(), cancelled, progress };
        let done = file::write_through(&weights, |file| {
            self.write_weights(file, &mut written)?;
            file.sync_all()?;
            // From here on the weights may be others than an earlier model says.
            match std::fs::remove_file(path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
                _ => Ok(()),
            }
        });
        match done {
            Err(_) if cancelled.load(Ordering::Relaxed) => return Ok(None),
            done => done?,
        }
        file::write_through(path, |file| file.write_all(&text))?;
        Ok(Some(weights))
    }

    fn write_weights(&self, file: &mut File, written: &mut Written<'_>) -> io::Result<()> {
        let mut random = RandomNumbers::new(self.seed, self.numbers);
        let zeros = [0; PAGE as usize];
        for (weight, place) in self.weights.iter().zip(self.places()) {
            let gap = place.offset - written.bytes;
            written.append(file, &zeros[..gap as usize])?;
            let count = weight.count();
            if let Content::Random { mean, deviation } = weight.content {
                random
                    .stretches(&weight.name, [mean, deviation], count, |data| written.append(file, data))?;
                continue;
            }
            let mut data = Vec::with_capacity((AT_ONCE.min(count) * self.numbers.bytes()) as usize);
            for start in (0..count).step_by(AT_ONCE as usize) {
                data.clear();
                let numbers = start..count.min(start + AT_ONCE);
                let numbers = numbers.filter_map(|place| weight.content.number(place));
                numbers.for_each(|number| self.numbers.append(number, &mut data));
                written.append(file, &data)?;
            }
        }
        Ok(())
    }
}

/// How far the file of weights is.
struct Written<'a> {
    bytes: u64,
    of: u64,
    cancelled: &'a AtomicBool,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Written<'_> {
    fn append(&mut self, file: &mut File, data: &[u8]) -> io::Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was cancelled"));
        }
        file.write_all(data)?;
        self.bytes += data.len() as u64;
        (self.progress)(self.bytes, self.of);
        Ok(())
    }
}

/// The file of the weights of a model at `path`.
fn beside(path: &Path) -> Result<PathBuf, Error> {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| *name != "-");
    let Some(name) = name else {
        let message = format!("`{}` does not end in the name of a file", path.display());
        return Err(Error::option("--onnx", message, "name a file, such as model.onnx"));
    };
    // Runtimes do not unpack, and the model says where its weights are by the name that they have unpacked.
    if name.ends_with(".gz") {
        let message = "a model with weights beside it is not packed";
        return Err(Error::option("--onnx", message, "name a file without .gz"));
    }
    if path.exists() && !path.is_file() && !path.is_dir() {
        let message = format!("`{}` is no file, and has no place for weights beside it", path.display());
        return Err(Error::option("--onnx", message, "name a file, such as model.onnx"));
    }
    Ok(path.with_file_name(format!("{name}.data")))
}

/// Refuses to replace what divvy did not write.
fn check_places(path: &Path, weights: &Path, force: bool) -> Result<(), Error> {
    file::check_replaceable(path, Kind::GeneratedModel, force)?;
    file::check_writable(weights)?;
    // Numbers do not tell who wrote them; a model does, and it has just been looked at.
    if weights.exists() && !path.exists() && !force {
        let message = format!("`{}` is there, and no model that it would belong to", weights.display());
        return Err(Error::option("--onnx", message, "name another file, or replace it with --force"));
    }
    Ok(())
}

/// Refuses to begin what cannot be ended for want of room.
fn check_room(path: &Path, bytes: u64) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A disk that does not tell will say so when it is full.
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if bytes <= free {
        return Ok(());
    }
    let why = format!("{} are wanted, and {} are free", show_bytes(bytes), show_bytes(free));
    let cause = io::Error::new(io::ErrorKind::StorageFull, why);
    Err(Error::Unwritable { path: path.display().to_string(), cause })
}

#[cfg(test)]
mod tests {
    use divvy_core::generate::TransformerOptions;

    use super::*;
    use crate::onnx::transformer::{Family, RunnableOptions, transformer};
    use crate::onnx::weights::{data_bytes, resolve};

    fn options() -> RunnableOptions {
        let sizes = TransformerOptions {
            layers: Some(2),
            hidden: Some(32),
            heads: Some(4),
            vocabulary: Some(50),
            sequence: 5,
            ..TransformerOptions::default()
        };
        RunnableOptions { family: Family::Llama, sizes, numbers: NumberFormat::Fp16, untied: false, seed: 1 }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("divvy-transformer-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn write(options: &RunnableOptions, path: &Path, force: bool) -> Result<Option<PathBuf>, Error> {
        transformer(options).unwrap().write(path, force, &AtomicBool::new(false), &mut |_, _| ())
    }

    #[test]
    fn weights_lie_at_pages_of_a_file_that_ends_with_the_last() {
        let folder = folder("pages");
        let mut told = Vec::new();
        let generated = transformer(&options()).unwrap();
        let path = folder.join("model.onnx");
        let running = AtomicBool::new(false);
        let weights = generated.write(&path, false, &running, &mut |done, of| told.push((done, of)));
        let weights = weights.unwrap().unwrap();
        let length = weights.metadata().unwrap().len();
        assert_eq!(length, generated.weight_bytes());
        assert_eq!(told.last(), Some(&(length, length)));
        let model =
            crate::onnx::load::decode("model.onnx", &std::fs::read(&path).unwrap().into()).unwrap().model;
        let mut end = 0;
        for tensor in &model.graph.unwrap().initializer {
            let place = resolve(&folder, tensor).unwrap();
            assert!(place.present && place.offset.is_multiple_of(PAGE) && place.offset >= end);
            assert_eq!(place.length, data_bytes(tensor));
            end = place.offset + place.length.unwrap();
        }
        assert_eq!(end, length);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_seed_decides_every_byte() {
        let folder = folder("seed");
        let bytes = |name: &str, seed: u64| {
            let path = folder.join(name);
            let weights = write(&RunnableOptions { seed, ..options() }, &path, false).unwrap().unwrap();
            std::fs::read(weights).unwrap()
        };
        let first = bytes("a.onnx", 1);
        assert_eq!(first, bytes("b.onnx", 1));
        assert_ne!(first, bytes("c.onnx", 2));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_what_divvy_wrote_is_replaced() {
        let folder = folder("foreign");
        let path = folder.join("model.onnx");
        write(&options(), &path, false).unwrap();
        write(&options(), &path, false).unwrap();
        // Another maker's model begins as all do.
        let refused = |path: &Path| write(&options(), path, false).unwrap_err().to_string();
        std::fs::write(&path, b"\x08\x07\x12\x07pytorch").unwrap();
        assert!(refused(&path).contains("is no model of `divvy generate`"), "{}", refused(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(refused(&path).contains("no model that it would belong to"), "{}", refused(&path));
        write(&options(), &path, true).unwrap();
        for (name, why) in [("model.onnx.gz", "not packed"), ("..", "the name of a file")] {
            assert!(refused(&folder.join(name)).contains(why));
        }
        assert!(refused(Path::new("/dev/null")).contains("is no file"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_cancelled_leaves_nothing() {
        let folder = folder("cancelled");
        let path = folder.join("model.onnx");
        let cancelled = AtomicBool::new(false);
        let generated = transformer(&options()).unwrap();
        let done = generated.write(&path, false, &cancelled, &mut |done, of| {
            cancelled.store(done > of / 2, Ordering::Relaxed);
        });
        assert!(done.unwrap().is_none());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn want_of_room_is_told_before_anything_is_written() {
        let folder = folder("room");
        let mut options = options();
        // Some petabyte.
        options.sizes.hidden = Some(1 << 20);
        options.sizes.layers = Some(40);
        let refused = write(&options, &folder.join("model.onnx"), false).unwrap_err().to_string();
        assert!(refused.contains("are wanted, and"), "{refused}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
