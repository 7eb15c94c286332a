//! Where text is shown: how wide, and whether in colours.
//!
//! `--color` decides. Without it colours are for terminals, unless NO_COLOR is set, CLICOLOR is 0 or the terminal is dumb;
//! CLICOLOR_FORCE asks for them everywhere.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ColorChoice;

/// What `--color` said.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// A terminal, or what stands in for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns.
    pub(crate) width: usize,
    colours: bool,
}

/// Columns where there is no terminal.
const PLAIN_WIDTH: usize = 80;

impl Screen {
    /// Standard output.
    pub(crate) fn of_output() -> Screen {
        let terminal = std::io::stdout().is_terminal();
        let width = terminal_size::terminal_size().filter(|_| terminal);
        let width = width.map_or(PLAIN_WIDTH, |(width, _)| usize::from(width.0));
        Screen { width: width.clamp(50, 160), colours: wanted(terminal) }
    }

    /// Standard error.
    pub(crate) fn of_talk() -> Screen {
        Screen { width: PLAIN_WIDTH, colours: wanted(std::io::stderr().is_terminal()) }
    }

    /// Settles what `--color` says, once.
    pub(crate) fn choose(choice: ColorChoice) {
        CHOICE.get_or_init(|| choice);
    }

    /// Whether text may be painted.
    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// No terminal.
    #[cfg(test)]
    pub(crate) fn plain() -> Screen {
        Screen { width: PLAIN_WIDTH, colours: false }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// What went wrong.
    pub(crate) fn bad(&self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// What the eye should find first.
    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What is proved or in order.
    pub(crate) fn good(&self, text: &str) -> String {
        self.paint("32", text)
    }

    /// What decides the value.
    pub(crate) fn strong(&self, text: &str) -> String {
        self.paint("1;33", text)
    }

    /// What is busy.
    pub(crate) fn busy(&self, text: &str) -> String {
        self.paint("36", text)
    }

    /// What matters less.
    pub(crate) fn faint(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// A terminal of a width, with colours.
    #[cfg(test)]
    pub(crate) fn coloured(width: usize) -> Screen {
        Screen { width, colours: true }
    }
}

/// Whether a stream shows colours.
fn wanted(terminal: bool) -> bool {
    let choice = CHOICE.get().copied().unwrap_or(ColorChoice::Auto);
    decide(choice, terminal, &|name| std::env::var_os(name))
}

/// The same, of what is given.
fn decide(choice: ColorChoice, terminal: bool, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let zero = |name: &str| variable(name).is_some_and(|value| value == "0");
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if set("NO_COLOR") => false,
        ColorChoice::Auto if set("CLICOLOR_FORCE") && !zero("CLICOLOR_FORCE") => true,
        ColorChoice::Auto => {
            terminal && !zero("CLICOLOR") && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        let decide = |choice, terminal, set: &[(&str, &str)]| {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            decide(choice, terminal, &variable)
        };
        use ColorChoice::{Always, Auto, Never};
        assert!(decide(Auto, true, &[]));
        assert!(!decide(Auto, false, &[]), "a pipe");
        assert!(!decide(Auto, true, &[("NO_COLOR", "1")]));
        assert!(decide(Auto, true, &[("NO_COLOR", "")]), "an empty NO_COLOR says nothing");
        assert!(!decide(Auto, true, &[("CLICOLOR", "0")]));
        assert!(!decide(Auto, true, &[("TERM", "dumb")]));
        assert!(decide(Auto, false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!decide(Auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!decide(Auto, false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(decide(Always, false, &[("NO_COLOR", "1")]), "an option goes before a variable");
        assert!(!decide(Never, true, &[("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn without_colours_text_stays_as_it_is() {
        assert_eq!(Screen::plain().strong("x"), "x");
        assert_eq!(Screen::coloured(80).strong("x"), "\x1b[1;33mx\x1b[0m");
        assert_eq!(Screen::coloured(80).strong(""), "");
    }
}
