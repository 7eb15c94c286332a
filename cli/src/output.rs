//! What commands say: text for standard output, and remarks on standard error; in colours where a terminal shows them.
//!
//! Colours say what words say already, so nothing is lost without them: what decides is bold, what is proved or valid is
//! green, labels are faint. Text for programs, such as JSON, has no line that is painted.

use std::io::Write;

use divvy::core::printable::escaped;

use crate::view::Screen;

/// What a command has to say on standard output, and whether it went well.
pub(crate) struct Done {
    pub(crate) text: String,
    pub(crate) passed: bool,
}

/// Talks to the user on standard error. That nobody listens is no reason to stop, let alone to panic.
pub(crate) fn tell(text: &str) {
    let screen = Screen::of_talk();
    let painted: Vec<String> = escaped(text).lines().map(|line| remark(line, &screen)).collect();
    let _ = writeln!(std::io::stderr(), "{}", painted.join("\n"));
}

/// How a word is painted.
type Paint = fn(&Screen, &str) -> String;

/// A line of talk, with the word that says what it is set off.
fn remark(line: &str, screen: &Screen) -> String {
    let kinds: [(&str, Paint); 3] =
        [("error:", Screen::bad), ("warning:", Screen::strong), ("hint:", Screen::bold)];
    let start = line.len() - line.trim_start().len();
    let word = &line[start..];
    match kinds.iter().find(|(kind, _)| word.starts_with(kind)) {
        Some((kind, paint)) => format!("{}{}{}", &line[..start], paint(screen, kind), &word[kind.len()..]),
        None => line.to_owned(),
    }
}

/// Labels of lines that say one thing about a plan.
const LABELS: [&str; 13] = [
    "found by",
    "one device",
    "gap",
    "lower bound",
    "op times",
    "granularity",
    "model",
    "constraints",
    "critical path",
    "note",
    "hardware",
    "before",
    "weights to load",
];
/// Words that are good news, where they end a line or a clause.
const GOOD: [&str; 4] = ["optimal, proved", "(proved)", ": valid.", ", verified"];

/// Text for standard output, in colours if the screen shows them.
pub(crate) fn painted(text: &str, screen: &Screen) -> String {
    if !screen.has_colours() || text.starts_with(['{', '[']) {
        return text.to_owned();
    }
    text.split_inclusive('\n').map(|line| painted_line(line, screen)).collect()
}

fn painted_line(line: &str, screen: &Screen) -> String {
    let (text, end) = line.split_at(line.trim_end_matches('\n').len());
    let mut painted = text.to_owned();
    if text.starts_with("finish ") || text.starts_with("period ") || text.starts_with("no plan ") {
        let (value, rest) =
            text.split_once(':').map_or((text, ""), |_| text.split_at(text.find(':').unwrap_or(0)));
        painted = format!("{}{rest}", screen.bold(value));
    } else if let Some(inner) = text.strip_prefix("  ")
        && let Some(label) = LABELS.iter().find(|label| {
            inner.strip_prefix(**label).is_some_and(|rest| rest.starts_with("  ") || rest.starts_with(':'))
        })
    {
        painted = format!("  {}{}", screen.faint(label), &inner[label.len()..]);
    }
    for word in GOOD {
        if painted.contains(word) {
            painted = painted.replace(word, &screen.good(word));
        }
    }
    painted + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_screen_changes_nothing() {
        let text = "latency of `x`\nfinish 3 us: optimal, proved\n  gap           none\n";
        assert_eq!(painted(text, &Screen::plain()), text);
        assert_eq!(remark("error: no", &Screen::plain()), "error: no");
    }

    #[test]
    fn colours_set_off_what_decides() {
        let screen = Screen::coloured(80);
        let shown = painted("finish 3 us: optimal, proved\n  gap           none\n", &screen);
        let expected =
            "\x1b[1mfinish 3 us\x1b[0m: \x1b[32moptimal, proved\x1b[0m\n  \x1b[2mgap\x1b[0m           none\n";
        assert_eq!(shown, expected);
        assert_eq!(remark("  hint: so", &screen), "  \x1b[1mhint:\x1b[0m so");
        assert_eq!(remark("error: no", &screen), "\x1b[1;31merror:\x1b[0m no");
    }

    #[test]
    fn text_for_programs_is_left_alone() {
        let json = "{\"a\": \"(proved)\"}\n";
        assert_eq!(painted(json, &Screen::coloured(80)), json);
    }
}
