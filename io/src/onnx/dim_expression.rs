//! Names of dimensions, and those that are a formula of others, as exporters write them: `floor(height/2 - 1/2) + 1`,
//! `past_sequence_length + 1`, `batch * heads`.
//!
//! Formulas of whole numbers, names, `+ - * / // %`, `floor`, `ceiling`, `Max` and `Min` are worked out as exact
//! fractions; the result counts if it is a whole number from 0 up.

use std::collections::BTreeMap;

use super::proto::{Dimension, DimensionValue};

/// The deepest nesting that is read; exporters stay far below.
const MOST_DEPTH: usize = 200;

/// The longest formula that is read.
const MOST_BYTES: usize = 4096;

/// What `--dim` calls a dimension; none if it is a number.
pub(super) fn dim_name(value: &str, axis: usize, dim: &Dimension) -> Option<String> {
    match &dim.value {
        Some(DimensionValue::DimValue(number)) if *number >= 0 => None,
        // Some exporters write `?` for every dimension that they do not know.
        Some(DimensionValue::DimParam(name)) if name.contains(char::is_alphanumeric) => Some(name.clone()),
        _ => Some(format!("{value}[{axis}]")),
    }
}

/// Whether a size follows from sizes that are set.
pub(super) fn settled(name: &str, dims: &BTreeMap<String, u64>) -> Option<u64> {
    dims.get(name).copied().or_else(|| is_formula(name).then(|| evaluate(name, dims)).flatten())
}

/// The value of a formula, if all its names have one.
fn evaluate(text: &str, dims: &BTreeMap<String, u64>) -> Option<u64> {
    let value = parse(text, &mut |name| dims.get(name).map(|&dim| Fraction::from(dim)))?;
    (value.below == 1).then_some(value.above).and_then(|above| u64::try_from(above).ok())
}

/// Whether a name is more than a plain one.
pub(super) fn is_formula(text: &str) -> bool {
    text.contains(['+', '*', '/', '(', '%']) || text.contains(" - ")
}

fn parse(text: &str, value_of: &mut dyn FnMut(&str) -> Option<Fraction>) -> Option<Fraction> {
    if text.len() > MOST_BYTES {
        return None;
    }
    let mut parser = Parser { rest: text, value_of, depth: 0 };
    let value = parser.sum()?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a, 'f> {
    rest: &'a str,
    value_of: &'f mut dyn FnMut(&str) -> Option<Fraction>,
    depth: usize,
}

impl<'a> Parser<'a, '_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(token);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn sum(&mut self) -> Option<Fraction> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        let mut total = self.product()?;
        loop {
            total = if self.take("+") {
                total.plus(self.product()?)?
            } else if self.take("-") {
                total.plus(self.product()?.times(Fraction { above: -1, below: 1 })?)?
            } else {
                self.depth -= 1;
                return Some(total);
            };
        }
    }

    fn product(&mut self) -> Option<Fraction> {
        let mut total = self.factor()?;
        loop {
            total = if self.take("*") {
                total.times(self.factor()?)?
            } else if self.take("//") {
                Fraction::whole(total.over(self.factor()?)?.floor())
            } else if self.take("/") {
                total.over(self.factor()?)?
            } else if self.take("%") {
                let divisor = self.factor()?;
                let quotient = Fraction::whole(-total.over(divisor)?.floor());
                total.plus(quotient.times(divisor)?)?
            } else {
                return Some(total);
            };
        }
    }

    fn factor(&mut self) -> Option<Fraction> {
        if self.take("(") {
            let value = self.sum()?;
            return self.take(")").then_some(value);
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        if word.is_empty() {
            return None;
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse::<u64>().ok().map(Fraction::from);
        }
        if after.starts_with('(') {
            return self.function(word);
        }
        (self.value_of)(word)
    }

    fn function(&mut self, name: &'a str) -> Option<Fraction> {
        self.take("(");
        let mut arguments = vec![self.sum()?];
        while self.take(",") {
            arguments.push(self.sum()?);
        }
        if !self.take(")") {
            return None;
        }
        let larger = |a: &Fraction, b: &Fraction| (a.above * b.below).cmp(&(b.above * a.below));
        match (name.to_ascii_lowercase().as_str(), arguments.as_slice()) {
            ("floor", [value]) => Some(Fraction::whole(value.floor())),
            ("ceil" | "ceiling", [value]) => {
                Some(Fraction::whole(-Fraction { above: -value.above, ..*value }.floor()))
            }
            ("max", values) => values.iter().copied().max_by(larger),
            ("min", values) => values.iter().copied().min_by(larger),
            _ => None,
        }
    }
}

/// A fraction in lowest terms; `below` is positive, and both stay below 2^62 so that products fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    above: i128,
    below: i128,
}

impl From<u64> for Fraction {
    fn from(number: u64) -> Fraction {
        Fraction { above: i128::from(number), below: 1 }
    }
}

impl Fraction {
    fn new(above: i128, below: i128) -> Option<Fraction> {
        const MOST: i128 = 1 << 62;
        if below == 0 {
            return None;
        }
        let divisor = gcd(above.abs(), below.abs()).max(1) * below.signum();
        let (above, below) = (above / divisor, below / divisor);
        (above.abs() < MOST && below < MOST).then_some(Fraction { above, below })
    }

    fn whole(number: i128) -> Fraction {
        Fraction { above: number, below: 1 }
    }

    fn plus(self, other: Fraction) -> Option<Fraction> {
        let above =
            (self.above.checked_mul(other.below)?).checked_add(other.above.checked_mul(self.below)?)?;
        Fraction::new(above, self.below.checked_mul(other.below)?)
    }

    fn times(self, other: Fraction) -> Option<Fraction> {
        Fraction::new(self.above.checked_mul(other.above)?, self.below.checked_mul(other.below)?)
    }

    fn over(self, other: Fraction) -> Option<Fraction> {
        Fraction::new(self.above.checked_mul(other.below)?, self.below.checked_mul(other.above)?)
    }

    fn floor(self) -> i128 {
        self.above.div_euclid(self.below)
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<u64> {
        let dims = [("height", 640), ("past", 128), ("batch", 2)];
        evaluate(text, &dims.into_iter().map(|(name, dim)| (name.to_owned(), dim)).collect())
    }

    #[test]
    fn formulas_of_exporters_are_worked_out() {
        assert_eq!(value("floor(floor(height/2 - 1/2)/2) + 1"), Some(160));
        assert_eq!(value("past + 1"), Some(129));
        assert_eq!(value("past_sequence + 1"), None);
        assert_eq!(value("batch*(height//64) - 3 % 2"), Some(19));
        assert_eq!(value("Max(1, ceiling(height/600))"), Some(2));
        assert_eq!(value("height"), Some(640));
    }

    #[test]
    fn what_is_no_size_is_none() {
        assert!(is_formula("past + 1") && !is_formula("unk__12") && !is_formula("batch-size"));
        for text in [
            "",
            "1/2",
            "batch - 3",
            "height/0",
            "height +",
            "(height",
            "7 7",
            "f(height)",
            "9".repeat(40).as_str(),
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(value(&"(".repeat(5000)), None);
        assert_eq!(value(&format!("{}1{}", "(".repeat(1000), ")".repeat(1000))), None);
    }
}
