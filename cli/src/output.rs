//! What commands say: text for standard output, and remarks on standard error.

use std::io::Write;

use divvy::core::printable::escaped;

/// What a command has to say on standard output, and whether it went well.
pub(crate) struct Done {
    pub(crate) text: String,
    pub(crate) passed: bool,
}

/// Talks to the user on standard error. That nobody listens is no reason to stop, let alone to panic.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escaped(text));
}
