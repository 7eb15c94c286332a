//! The page: markup, style, scripts and data in one file.
//!
//! Data are JSON inside of a script element that no browser runs. Whatever could end that element or begin a comment in
//! it is written as an escape, so no name can become markup.

use divvy_core::printable::misleads;

use crate::svg::markup;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// In the order they run; all share one scope.
const SCRIPTS: [&str; 8] = [
    include_str!("page/base.js"),
    include_str!("page/summary.js"),
    include_str!("page/loads.js"),
    include_str!("page/timeline.js"),
    include_str!("page/groups.js"),
    include_str!("page/graph.js"),
    include_str!("page/op.js"),
    include_str!("page/main.js"),
];

/// The file, from a title and JSON.
pub(super) fn html(title: &str, json: &str) -> String {
    let scripts = format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat());
    let parts = [
        ("{{title}}", markup::escape(title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", escape_json(json)),
    ];
    let mut rest = PAGE;
    let mut html = String::with_capacity(json.len() + 2 * PAGE.len() + STYLE.len() + scripts.len());
    // From front to back, so that a mark inside of what was put in is never looked at.
    for (mark, text) in parts.into_iter().chain([("{{scripts}}", scripts)]) {
        let (before, after) = rest.split_once(mark).expect("the page has its marks in this order");
        html.push_str(before);
        html.push_str(&text);
        rest = after;
    }
    html + rest
}

/// JSON that means the same and holds nothing that markup gives a meaning to.
fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            // The page shows the escape itself.
            c if misleads(c) => escaped.push_str(&format!("\\\\u{:04x}", u32::from(c))),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "</script><script>alert(1)</script><!-- {{scripts}} & \u{2028} \" '";
        let json = serde_json::json!({ "name": hostile }).to_string();
        let page = html(hostile, &json);
        assert_eq!(page.matches("<script").count(), 2, "the data and the scripts");
        assert_eq!(page.matches("</script").count(), 2);
        assert!(!page.contains("<!--"));
        let start = page.find("application/json\">").unwrap() + "application/json\">".len();
        let text = &page[start..start + page[start..].find("</script>").unwrap()];
        let data: serde_json::Value = serde_json::from_str(text).unwrap();
        let shown = hostile.replace('\u{2028}', "\\u2028");
        assert_eq!(data["name"], shown, "the data are what they were, but for what would end a line");
    }

    #[test]
    fn the_page_asks_the_network_for_nothing_and_never_takes_text_for_markup() {
        let page = html("title", "{}");
        // The names of SVG's vocabulary look like addresses, and are none.
        let addresses = page.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "//cdn", "@import", "url(", "src=", "<link"] {
            assert!(!addresses.contains(word), "{word}");
        }
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!page.contains(word), "{word}");
        }
    }
}
