//! What went wrong, as the user sees it: every fault with its place, and a `hint:` line for the fix.

use divvy_core::input_error::{Code, InputError, InputErrors};
use divvy_search::Refused;

/// A command that could not do its work.
pub(crate) enum Failure {
    /// The input's fault, with the file or option it is about.
    Input(String, InputErrors),
    /// The environment's fault.
    Environment(String),
}

impl Failure {
    /// A fault of the command line.
    pub(crate) fn option(place: &str, message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure::Input("command line".to_owned(), InputError::new(Code::Option, place, message, fix).into())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        1
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Environment(message) => format!("error: {message}\n"),
            Failure::Input(path, errors) => {
                let mut text = String::new();
                let mut last_fix = "";
                for error in errors.kept() {
                    text.push_str(&format!("error: {path}: {error}\n"));
                    // The same advice for a row of faults is given once.
                    if error.fix != last_fix {
                        text.push_str(&format!("  hint: {}\n", error.fix));
                    }
                    last_fix = &error.fix;
                }
                if errors.more() > 0 {
                    text.push_str(&format!("error: {path}: and {} more faults\n", errors.more()));
                }
                text
            }
        }
    }
}

impl From<divvy_io::Error> for Failure {
    fn from(error: divvy_io::Error) -> Failure {
        match error {
            divvy_io::Error::Input { path, errors } => Failure::Input(path, errors),
            other => Failure::Environment(other.to_string()),
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        let code = if refused.exists { Code::Option } else { Code::UnknownName };
        let error = InputError::new(code, "--planner or --bound", refused.message, refused.fix);
        Failure::Input("command line".to_owned(), error.into())
    }
}
