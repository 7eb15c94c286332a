//! The inputs of an item, and how they enter and leave the program together.
//!
//! A `batch` plan divides the inputs of an item into groups that go through ops together. For the other objectives an
//! item is one input.

use divvy_exec::tensor::HostTensor;

/// Some inputs of an item, as one value: of an input of the model, or of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// What the program calls it.
    pub(crate) name: String,
    /// A position in the model's list of inputs or results.
    pub(crate) value: usize,
    /// Which of the item's inputs, one after another.
    pub(crate) inputs: Vec<usize>,
}

/// What the program is fed for one item, from the arrays of each input.
pub(crate) fn feed(shares: &[Share], inputs: &[Vec<HostTensor>]) -> Result<Vec<HostTensor>, String> {
    let together = |share: &Share| {
        let parts: Vec<&HostTensor> = share.inputs.iter().map(|&input| &inputs[input][share.value]).collect();
        match parts.as_slice() {
            [only] => Ok((*only).clone()),
            _ => HostTensor::stack(&parts)
                .ok_or("arrays without a first dimension cannot go together".to_owned()),
        }
    };
    shares.iter().map(together).collect()
}

/// What came out for each of `count` inputs of an item: the inverse of [`feed`], for results.
pub(crate) fn apart(
    shares: &[Share],
    results: &[HostTensor],
    count: usize,
) -> Result<Vec<Vec<HostTensor>>, String> {
    let values = shares.iter().map(|share| share.value + 1).max().unwrap_or(0);
    let mut of_input: Vec<Vec<Option<HostTensor>>> = vec![vec![None; values]; count];
    for (share, result) in shares.iter().zip(results) {
        for (place, &input) in share.inputs.iter().enumerate() {
            let part = match share.inputs.len() {
                1 => Some(result.clone()),
                count => result.part(place, count),
            };
            let fault = || format!("a result of shape {:?} does not come apart", result.shape);
            of_input[input][share.value] = Some(part.ok_or_else(fault)?);
        }
    }
    let whole = |values: Vec<Option<HostTensor>>| values.into_iter().collect::<Option<Vec<HostTensor>>>();
    of_input.into_iter().map(whole).collect::<Option<_>>().ok_or("a result did not come out".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_exec::tensor::Data;

    fn share(value: usize, inputs: &[usize]) -> Share {
        Share { name: String::new(), value, inputs: inputs.to_vec() }
    }

    fn row(numbers: [i32; 2]) -> HostTensor {
        HostTensor { shape: vec![1, 2], data: Data::I32(numbers.to_vec()) }
    }

    #[test]
    fn inputs_go_together_and_results_come_apart() {
        let inputs: Vec<Vec<HostTensor>> = (0..3).map(|i| vec![row([i, 10 * i])]).collect();
        let shares = [share(0, &[0, 2]), share(0, &[1])];
        let fed = feed(&shares, &inputs).unwrap();
        assert_eq!(fed[0], HostTensor { shape: vec![2, 2], data: Data::I32(vec![0, 0, 2, 20]) });
        assert_eq!(fed[1], inputs[1][0]);
        assert_eq!(apart(&shares, &fed, 3).unwrap(), inputs);
    }

    #[test]
    fn each_value_may_be_divided_otherwise() {
        let inputs: Vec<Vec<HostTensor>> = (0..2).map(|i| vec![row([i, i]), row([7, i])]).collect();
        let shares = [share(1, &[0, 1]), share(0, &[0]), share(0, &[1])];
        let fed = feed(&shares, &inputs).unwrap();
        assert_eq!(fed.len(), 3);
        assert_eq!(apart(&shares, &fed, 2).unwrap(), inputs);
        assert!(apart(&shares[..2], &fed, 2).unwrap_err().contains("did not come out"));
    }
}
