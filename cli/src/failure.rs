//! What went wrong, as the user sees it: every fault with its place, and a `hint:` line for the fix.

use std::io::ErrorKind;
use std::path::Path;

use divvy::core::did_you_mean::closest;
use divvy::core::input_error::{Code, InputError, InputErrors};
use divvy::core::units::counted;
use divvy::deploy::DeployError;
use divvy::search::Refused;

/// A command that could not do its work.
pub(crate) enum Failure {
    /// The input's fault, with the file or option it is about.
    Input(String, InputErrors),
    /// The environment's fault.
    Environment(String),
    /// A file that cannot be read or written, and what to do about it.
    File(String, String),
    /// Several of them.
    Several(Vec<Failure>),
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
            Failure::File(message, fix) => format!("error: {message}\n  hint: {fix}\n"),
            Failure::Several(failures) => failures.iter().map(Failure::text).collect(),
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
                    text.push_str(&format!("error: {path}: and {}\n", counted(errors.more(), "more fault")));
                }
                text
            }
        }
    }
}

impl From<divvy::io::Error> for Failure {
    fn from(error: divvy::io::Error) -> Failure {
        match error {
            divvy::io::Error::Input { path, errors } => Failure::Input(path, errors),
            divvy::io::Error::Several(errors) => {
                Failure::Several(errors.into_iter().map(Failure::from).collect())
            }
            divvy::io::Error::Unreadable { path, cause } => {
                let fix = match cause.kind() {
                    ErrorKind::NotFound => near_file(&path)
                        .map_or("check the path".to_owned(), |near| format!("did you mean `{near}`?")),
                    ErrorKind::IsADirectory => "name a file in it".to_owned(),
                    ErrorKind::PermissionDenied => "check who may read it".to_owned(),
                    _ => "check that it is a file that can be read".to_owned(),
                };
                Failure::File(format!("cannot read `{path}`: {}", plainly(&cause)), fix)
            }
            divvy::io::Error::Unwritable { path, cause } => {
                let fix = match cause.kind() {
                    ErrorKind::NotFound => "make the folder first, or check the path",
                    ErrorKind::IsADirectory => "name a file in it",
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                        "choose a folder that you may write to"
                    }
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room, or choose another disk",
                    _ => "choose another path",
                };
                Failure::File(format!("cannot write `{path}`: {}", plainly(&cause)), fix.to_owned())
            }
        }
    }
}

impl From<divvy::exec::executor::Failure> for Failure {
    fn from(failure: divvy::exec::executor::Failure) -> Failure {
        let fix = "nothing was written; correct the cause and run it again";
        Failure::File(failure.to_string(), fix.to_owned())
    }
}

impl From<DeployError> for Failure {
    fn from(error: DeployError) -> Failure {
        match error {
            DeployError::File(error) => error.into(),
            DeployError::Environment(message) => Failure::Environment(message),
            DeployError::Absent { message, fix } => Failure::File(message, fix),
            DeployError::Stage(failure) => failure.into(),
            DeployError::Batch { inputs, cause } => {
                let reason = Failure::from(*cause).text();
                let message = format!("the model cannot take {inputs} inputs at once: {reason}");
                Failure::option("--batch", message, "give --batch 1, or a model with a dimension for inputs")
            }
        }
    }
}

/// What the system says, without its error number; what divvy says, as it is.
fn plainly(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    if cause.get_ref().is_some() {
        return text;
    }
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// A file that is there and has nearly that name.
fn near_file(path: &str) -> Option<String> {
    let path = Path::new(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    // A folder may hold any number of files; some of them will do for a hint.
    let names: Vec<String> =
        entries.take(10_000).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let mut known: Vec<&str> = names.iter().map(String::as_str).collect();
    known.sort_unstable();
    let near = closest(path.file_name()?.to_str()?, &known)?;
    Some(path.with_file_name(near).display().to_string())
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        let code = if refused.exists { Code::Option } else { Code::UnknownName };
        let error = InputError::new(code, "--planner or --bound", refused.message, refused.fix);
        Failure::Input("command line".to_owned(), error.into())
    }
}
