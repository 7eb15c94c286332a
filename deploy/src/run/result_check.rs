//! What comes out of a run, compared with what the whole model gives.

use divvy_exec::compare::{difference, rounding};
use divvy_exec::tensor::{HostTensor, Tensor};

use crate::pieces::shares::{Share, apart};
use crate::prepared::Prepared;
use crate::session::on_host;

/// Looks at what comes out.
pub(crate) struct ResultCheck {
    /// For each input, what the whole model gives; none where nothing is compared.
    expected: Option<Vec<Vec<HostTensor>>>,
    /// The largest difference that passes, over the largest value.
    tolerance: f64,
    /// What each result of the program is.
    given: Vec<Share>,
    /// How many inputs an item has.
    together: usize,
    /// The model's results.
    names: Vec<String>,
    /// The largest difference so far.
    worst: f64,
    /// The results of the first item.
    first: Option<Vec<Tensor>>,
}

impl ResultCheck {
    pub(crate) fn new(
        prepared: &Prepared,
        expected: Option<Vec<Vec<HostTensor>>>,
        tolerance: f64,
    ) -> ResultCheck {
        ResultCheck {
            expected,
            tolerance,
            given: prepared.given.clone(),
            together: prepared.together,
            names: prepared.whole.results.clone(),
            worst: 0.0,
            first: None,
        }
    }

    /// An item came out. Fails, with the reason, where it differs too much.
    pub(crate) fn item(&mut self, item: u64, values: &[Tensor]) -> Result<(), String> {
        if self.first.is_none() {
            self.first = Some(values.to_vec());
        }
        let Some(expected) = &self.expected else { return Ok(()) };
        let found = apart(&self.given, &on_host(values)?, self.together)?;
        let first = item as usize * found.len();
        for (i, found) in found.iter().enumerate() {
            let expected = &expected[(first + i) % expected.len()];
            for ((name, expected), found) in self.names.iter().zip(expected).zip(found) {
                let far = difference(expected, found).map_err(|fault| format!("`{name}`: {fault}"))?;
                if far > rounding(expected.element()).map_or(self.tolerance, |few| few.max(self.tolerance)) {
                    let percent = 100.0 * far;
                    return Err(format!(
                        "`{name}` differs from the whole model's by {percent:.3} % of its largest value"
                    ));
                }
                self.worst = self.worst.max(far);
            }
        }
        Ok(())
    }

    /// The largest difference over the largest value; none where nothing was compared.
    pub(crate) fn largest_difference(&self) -> Option<f64> {
        self.expected.is_some().then_some(self.worst)
    }

    /// The results of the first item by name, those of several inputs one after another; none if no item came out.
    pub(crate) fn first_results(&self) -> Result<Option<Vec<(String, HostTensor)>>, String> {
        let Some(first) = &self.first else { return Ok(None) };
        let of_inputs = apart(&self.given, &on_host(first)?, self.together)?;
        let stacked = self.names.iter().enumerate().map(|(result, name)| {
            let parts: Vec<&HostTensor> = of_inputs.iter().map(|results| &results[result]).collect();
            let value = match parts.as_slice() {
                [only] => (*only).clone(),
                _ => HostTensor::stack(&parts).ok_or("results of unlike shapes".to_owned())?,
            };
            Ok((name.clone(), value))
        });
        stacked.collect::<Result<_, _>>().map(Some)
    }
}
