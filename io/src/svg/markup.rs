//! Text inside of markup.

use divvy_core::printable::escaped;

/// Text as XML and HTML have it, in attributes too. Names are anybody's: none of them can become markup. XML has no way to
/// write control characters, so a space stands for each.
pub(crate) fn escape(text: &str) -> String {
    let mut markup = String::with_capacity(text.len());
    for character in escaped(text).chars() {
        match character {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#39;"),
            c if c.is_control() => markup.push(' '),
            c => markup.push(c),
        }
    }
    markup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(escape("a<b>&\"c\"'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;");
        assert_eq!(escape("1\u{0}2\n3"), "1 2 3");
    }
}
