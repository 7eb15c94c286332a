//! A model with all of its weights in memory, for running it at once.

use std::io;
use std::path::Path;

use bytes::Bytes;
use divvy_core::rng::Rng;

use super::{External, WeightsError, data_bytes, is_external, read, resolve, tensors};
use crate::onnx::facts::element;
use crate::onnx::proto::{Model, Tensor};

/// Brings weights that lie in files of their own into the model. Those whose file is not there are made up from `seed`, so
/// that a model of structure alone can be run and timed; their names are returned.
///
/// What is made up keeps values about as large as they were: matrices and filters are centred, with a spread that falls
/// with the number of terms of a sum; vectors, such as variances, lie around 1. Whole numbers are 0.
pub fn bring_in(model: &mut Model, folder: &Path, seed: u64) -> Result<Vec<String>, WeightsError> {
    bring_in_with(model, folder, seed, &mut |_| Ok(None))
}

/// As [`bring_in`], with files that `open` has in memory, mapped there say, as slices of what it gives; none for those to be read.
pub fn bring_in_with(
    model: &mut Model,
    folder: &Path,
    seed: u64,
    open: &mut dyn FnMut(&Path) -> io::Result<Option<Bytes>>,
) -> Result<Vec<String>, WeightsError> {
    let mut made_up = Vec::new();
    let mut rng = Rng::new(seed);
    tensors::visit(model, &mut |_, tensor| {
        if !is_external(tensor) {
            return Ok(());
        }
        let external = resolve(folder, tensor)?;
        let unreadable =
            |cause| WeightsError::Unreadable { path: external.path.display().to_string(), cause };
        let data = if external.present {
            let file = open(&external.path).map_err(unreadable)?;
            match file.and_then(|file| part(&file, &external)) {
                Some(part) => part,
                None => read(folder, tensor)?,
            }
        } else {
            let absent = WeightsError::Absent { tensor: tensor.name().into(), location: external.location };
            made_up.push(tensor.name().to_owned());
            invent(tensor, &mut rng).ok_or(absent)?.into()
        };
        tensor.raw_data = Some(data);
        tensor.external_data.clear();
        tensor.data_location = None;
        Ok(())
    })?;
    Ok(made_up)
}

/// The data of a tensor in a file that is in memory.
fn part(file: &Bytes, external: &External) -> Option<Bytes> {
    let from = usize::try_from(external.offset).ok()?;
    let to = from.checked_add(usize::try_from(external.length?).ok()?)?;
    (to <= file.len()).then(|| file.slice(from..to))
}

/// Data of a tensor's type and shape; none where they would be absurdly large.
fn invent(tensor: &Tensor, rng: &mut Rng) -> Option<Vec<u8>> {
    let bytes = usize::try_from(data_bytes(tensor)?).ok().filter(|&bytes| bytes <= 1 << 31)?;
    let count: i64 = tensor.dims.iter().product();
    let terms = tensor.dims.first().map_or(1, |&first| count / first.max(1)).max(1) as f64;
    let mut number = || {
        let unit = rng.unit();
        if tensor.dims.len() < 2 { 0.75 + unit / 2.0 } else { (unit - 0.5) * (12.0 / terms).sqrt() }
    };
    let mut data = Vec::new();
    data.try_reserve_exact(bytes).ok()?;
    match tensor.data_type() {
        element::FLOAT => (0..count).for_each(|_| data.extend((number() as f32).to_le_bytes())),
        element::DOUBLE => (0..count).for_each(|_| data.extend(number().to_le_bytes())),
        _ => data.resize(bytes, 0),
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{Entry, Graph};

    fn external(name: &str, dims: &[i64]) -> Tensor {
        let entry = |key: &str, value: &str| Entry { key: Some(key.into()), value: Some(value.into()) };
        Tensor {
            name: Some(name.into()),
            dims: dims.to_vec(),
            data_type: Some(element::FLOAT),
            data_location: Some(1),
            external_data: vec![entry("location", &format!("{name}.bin"))],
            ..Tensor::default()
        }
    }

    #[test]
    fn weights_are_read_where_they_are_and_made_up_where_they_are_not() {
        let folder = std::env::temp_dir().join(format!("divvy-bring-in-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("there.bin"), 7f32.to_le_bytes()).unwrap();
        let weights = vec![external("there", &[1]), external("gone", &[4, 9]), external("variance", &[3])];
        let graph = Graph { initializer: weights, ..Graph::default() };
        let model = Model { graph: Some(graph), ..Model::default() };
        let brought = |seed| {
            let mut model = model.clone();
            let made_up = bring_in(&mut model, &folder, seed).unwrap();
            assert_eq!(made_up, ["gone", "variance"]);
            model.graph.unwrap().initializer
        };
        let weights = brought(1);
        assert!(weights.iter().all(|weight| !is_external(weight)));
        assert_eq!(weights[0].raw_data.as_deref(), Some(&7f32.to_le_bytes()[..]));
        assert_eq!(weights[1].raw_data.as_ref().unwrap().len(), 4 * 9 * 4);
        let variance = weights[2].raw_data.as_ref().unwrap().chunks(4);
        assert!(variance.map(|c| f32::from_le_bytes(c.try_into().unwrap())).all(|v| (0.7..1.3).contains(&v)));
        assert_eq!(brought(1), weights, "the same seed, the same weights");
        assert_ne!(brought(2), weights);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
