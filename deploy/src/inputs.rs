//! What the model is fed: arrays from `.npy` and `.npz` files, or seeded random ones of the right type and shape.

use std::collections::{BTreeMap, HashSet};

use divvy_core::rng::Rng;
use divvy_exec::npy;
use divvy_exec::tensor::{Element, HostTensor};
use divvy_io::onnx::facts::Facts;
use divvy_io::onnx::proto::Graph;

use crate::error::DeployError;
use crate::run::options::RunOptions;

/// How many different random inputs there are of a plan for one input; items take them in turn.
const RANDOM_INPUTS: u64 = 4;

/// An input of the model: its name, and element type and shape where they are known.
pub(crate) struct Input {
    pub(crate) name: String,
    element: i32,
    shape: Option<Vec<u64>>,
}

/// What the model must be given.
pub(crate) fn inputs_of(graph: &Graph, facts: &Facts) -> Vec<Input> {
    let weights: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let given = graph.input.iter().filter(|input| !weights.contains(input.name()));
    given
        .map(|input| {
            let fact = facts.values.get(input.name());
            let (element, shape) = fact.map_or((0, None), |fact| (fact.element, fact.shape.clone()));
            Input { name: input.name().to_owned(), element, shape }
        })
        .collect()
}

/// The arrays of each input of an item of `together` inputs: from files, else random; of a plan for one input there are
/// several random ones.
pub(crate) fn given_or_random(
    inputs: &[Input],
    together: usize,
    options: &RunOptions,
) -> Result<Vec<Vec<HostTensor>>, DeployError> {
    if options.inputs.is_empty() {
        let count = if together > 1 { together as u64 } else { RANDOM_INPUTS };
        return (0..count).map(|set| random(inputs, options.seed + set, options.int_below)).collect();
    }
    let mut given = read_arrays(inputs, options)?;
    let take = |input: &Input| {
        let array = given.remove(&input.name).ok_or_else(|| {
            let message = format!("there is nothing for input `{}`", input.name);
            DeployError::option("--input", message, "give an .npz file with an array for each input")
        })?;
        // An array for several inputs has them one after another.
        let parts: Option<Vec<HostTensor>> = (0..together)
            .map(|i| if together > 1 { array.part(i, together) } else { Some(array.clone()) })
            .collect();
        let parts = parts.ok_or_else(|| {
            let message = format!("`{}` does not divide into {together} inputs", input.name);
            let fix = "give the inputs one after another along the first dimension";
            DeployError::option("--input", message, fix)
        })?;
        parts.iter().try_for_each(|part| check_array(input, part))?;
        Ok(parts)
    };
    let by_name: Vec<Vec<HostTensor>> = inputs.iter().map(take).collect::<Result<_, DeployError>>()?;
    Ok((0..together).map(|i| by_name.iter().map(|parts| parts[i].clone()).collect()).collect())
}

/// The arrays in the files, by the names of the inputs that they are for.
fn read_arrays(inputs: &[Input], options: &RunOptions) -> Result<BTreeMap<String, HostTensor>, DeployError> {
    let mut given: BTreeMap<String, HostTensor> = BTreeMap::new();
    for path in &options.inputs {
        for (name, array) in npy::read(path).map_err(DeployError::Environment)? {
            // An .npy file has no names; its own counts, unless there is only one input.
            let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = match inputs {
                [only] if name.is_empty() => only.name.clone(),
                _ if name.is_empty() => stem(),
                _ => name,
            };
            given.insert(name, array);
        }
    }
    let known: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    if let Some(stranger) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("the model has no input `{stranger}`; it has {}", known.join(", "));
        return Err(DeployError::option("--input", message, "name the arrays like the model's inputs"));
    }
    Ok(given)
}

fn check_array(input: &Input, array: &HostTensor) -> Result<(), DeployError> {
    let name = &input.name;
    let wanted =
        input.shape.as_ref().map(|shape| shape.iter().map(|&size| size as usize).collect::<Vec<_>>());
    if let Some(wanted) = wanted.filter(|wanted| *wanted != array.shape) {
        let message = format!("`{name}` has the shape {:?}, the plan was made for {wanted:?}", array.shape);
        let fix = "give it in that shape, or plan anew with --dim";
        return Err(DeployError::option("--input", message, fix));
    }
    if let Some(element) = Element::of_onnx(input.element).filter(|&element| element != array.element()) {
        let message = format!("`{name}` has elements of {:?}, the model wants {element:?}", array.element());
        return Err(DeployError::option("--input", message, "convert it, with numpy's astype, say"));
    }
    Ok(())
}

/// Seeded random values for every input; whole numbers are below `below`.
pub(crate) fn random(inputs: &[Input], seed: u64, below: u64) -> Result<Vec<HostTensor>, DeployError> {
    let mut rng = Rng::new(seed);
    let make = |input: &Input| {
        let name = &input.name;
        let unknown = |what: &str, fix: &str| {
            DeployError::option("--input", format!("{what} of input `{name}` cannot be made up"), fix)
        };
        let element = Element::of_onnx(input.element)
            .ok_or_else(|| unknown("the element type", "give the inputs as an .npz file"))?;
        let shape =
            input.shape.as_ref().ok_or_else(|| unknown("the shape", "set symbolic dimensions with --dim"))?;
        let shape = shape.iter().map(|&size| size as usize).collect();
        Ok(HostTensor::random(element, shape, below, &mut || rng.unit()))
    };
    inputs.iter().map(make).collect()
}
