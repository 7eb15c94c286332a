//! Faults of an input: what, where, and how to fix it.
//!
//! Whatever reads or validates input collects every [`InputError`] it finds before giving up. Each carries a
//! [`Code`] that `docs/errors.md` explains; a test keeps that page complete.

use std::fmt;

/// The kinds of fault that an input can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Code {
    /// The text is not JSON or TOML, or it stops short.
    Syntax,
    /// A field has the wrong type.
    Type,
    /// A required field is not there.
    Missing,
    /// A field that the format does not have.
    UnknownField,
    /// A number that cannot be: negative, NaN, zero where that makes no sense, or absurdly large.
    Range,
    /// Two things share a name.
    DuplicateName,
    /// A name or index points at nothing.
    Dangling,
    /// Columns of one table differ in length.
    Length,
    /// The dependences of the ops have a cycle.
    Cycle,
    /// The graph has no op.
    Empty,
    /// The file is of no format that divvy reads.
    Format,
    /// The file's version is newer than this divvy.
    Version,
    /// The file, or what it unpacks to, is larger than divvy accepts.
    TooLarge,
    /// Sums of times would leave the range of the clock.
    Horizon,
    /// An op has no time on a device and none can be estimated.
    NoCost,
    /// Constraints contradict each other.
    Contradiction,
    /// A choice on the command line that does not fit the rest.
    Option,
    /// A name of built-in hardware, planner, bound or generator that does not exist.
    UnknownName,
}

impl Code {
    /// Every code, in the order of the enum.
    pub const ALL: [Code; 18] = [
        Code::Syntax,
        Code::Type,
        Code::Missing,
        Code::UnknownField,
        Code::Range,
        Code::DuplicateName,
        Code::Dangling,
        Code::Length,
        Code::Cycle,
        Code::Empty,
        Code::Format,
        Code::Version,
        Code::TooLarge,
        Code::Horizon,
        Code::NoCost,
        Code::Contradiction,
        Code::Option,
        Code::UnknownName,
    ];

    /// The code as users see it and `docs/errors.md` lists it.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Syntax => "syntax",
            Code::Type => "type",
            Code::Missing => "missing",
            Code::UnknownField => "unknown-field",
            Code::Range => "range",
            Code::DuplicateName => "duplicate-name",
            Code::Dangling => "dangling",
            Code::Length => "length",
            Code::Cycle => "cycle",
            Code::Empty => "empty",
            Code::Format => "format",
            Code::Version => "version",
            Code::TooLarge => "too-large",
            Code::Horizon => "horizon",
            Code::NoCost => "no-cost",
            Code::Contradiction => "contradiction",
            Code::Option => "option",
            Code::UnknownName => "unknown-name",
        }
    }
}

/// One fault of an input: what, where, how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// What kind of fault.
    pub code: Code,
    /// Where in the input, such as `graph.tensors.producer[3]`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl InputError {
    /// A fault at `place`.
    pub fn new(
        code: Code,
        place: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> InputError {
        InputError { code, place: place.into(), message: message.into(), fix: fix.into() }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}: {}", self.code.as_str(), self.place, self.message)
    }
}

impl std::error::Error for InputError {}

/// The faults found so far. A file can hold millions of the same fault: past [`InputErrors::KEPT`] they are counted only.
#[derive(Clone, Debug, Default)]
pub struct InputErrors {
    kept: Vec<InputError>,
    more: usize,
}

impl InputErrors {
    /// How many faults are kept in full.
    pub const KEPT: usize = 50;

    /// Notes one more fault.
    pub fn push(&mut self, error: InputError) {
        if self.kept.len() < InputErrors::KEPT {
            self.kept.push(error);
        } else {
            self.more += 1;
        }
    }

    /// Notes one more fault, from its parts.
    pub fn add(
        &mut self,
        code: Code,
        place: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        // Building the texts of a fault that is only counted would cost time and memory for nothing.
        if self.kept.len() < InputErrors::KEPT {
            self.push(InputError::new(code, place, message, fix));
        } else {
            self.more += 1;
        }
    }

    /// The value of a result that is good; the faults of one that is not are added to these.
    pub fn keep<T>(&mut self, result: Result<T, InputErrors>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(others) => {
                self.more += others.more;
                others.kept.into_iter().for_each(|error| self.push(error));
                None
            }
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The faults kept in full.
    pub fn kept(&self) -> &[InputError] {
        &self.kept
    }

    /// How many further faults there were.
    pub fn more(&self) -> usize {
        self.more
    }

    /// `value` if nothing is wrong.
    pub fn into_result<T>(self, value: T) -> Result<T, InputErrors> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<InputError> for InputErrors {
    fn from(error: InputError) -> InputErrors {
        InputErrors { kept: vec![error], more: 0 }
    }
}

impl fmt::Display for InputErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.kept.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for InputErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_codes_is_whole_and_in_order() {
        for (i, code) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as usize, i);
        }
        assert_eq!(Code::ALL.len(), Code::UnknownName as usize + 1);
    }
}
