//! Where text is shown: how wide, and whether in colours.

use std::io::IsTerminal;

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
        if !std::io::stdout().is_terminal() {
            return Screen::plain();
        }
        let width = terminal_size::terminal_size().map_or(PLAIN_WIDTH, |(width, _)| usize::from(width.0));
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Screen { width: width.clamp(50, 160), colours: !set("NO_COLOR") && !dumb }
    }

    /// No terminal.
    pub(crate) fn plain() -> Screen {
        Screen { width: PLAIN_WIDTH, colours: false }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_text_stays_as_it_is() {
        assert_eq!(Screen::plain().strong("x"), "x");
        assert_eq!(Screen::coloured(80).strong("x"), "\x1b[1;33mx\x1b[0m");
        assert_eq!(Screen::coloured(80).strong(""), "");
    }
}
