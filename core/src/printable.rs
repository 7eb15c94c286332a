//! Texts of files as they are shown: characters that would make a terminal or a page show something else than what is there
//! are written out.
//!
//! Control characters are refused where names are read (`graph::check_printable`). Marks that turn the direction of writing
//! around and separators of lines are legitimate in a name, and are escaped wherever it is shown.

use std::borrow::Cow;

/// Whether a character changes how those around it look, or ends a line without being a control character.
pub fn misleads(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The text with such characters as `\u202e`, which JSON reads as the character itself.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if misleads(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misleads_is_written_out_and_stays_json() {
        assert_eq!(escaped("conv\u{202e}1\u{2028}"), "conv\\u202e1\\u2028");
        assert!(matches!(escaped("größe 数"), Cow::Borrowed(_)));
    }
}
