//! Shapes and text as SVG, and the look that all charts share.

use std::fmt::Write;

use crate::svg::markup::escape;

/// Width of every picture, in its own units.
pub(super) const WIDTH: f64 = 760.0;
/// Size of ordinary text.
pub(super) const TEXT: f64 = 12.0;
/// Colours that series can have; further ones begin again.
pub(super) const COLOURS: usize = 10;

/// Series colours that are told apart with every kind of colour vision, for a light and for a dark background.
const LIGHT: [&str; COLOURS] = [
    "#2a78d6", "#d95926", "#168a62", "#c99700", "#c2447f", "#4a3aa7", "#7a5c2e", "#7c8794", "#111827",
    "#62b6cb",
];
const DARK: [&str; COLOURS] = [
    "#5b9df0", "#f0814f", "#3cc494", "#e0bb3b", "#ec84b4", "#a79bf2", "#c9a36a", "#8b95a1", "#f3f4f6",
    "#7fd1e3",
];

/// A picture in the making.
pub(super) struct Canvas {
    body: String,
    pub(super) height: f64,
}

/// Where a text has its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(super) fn new(height: f64) -> Canvas {
        Canvas { body: String::new(), height }
    }

    /// A line of text with its base at `y`. `class` is one of the style's.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        );
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A line through points, in the colour of a series.
    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: usize, dashed: bool) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashes = if dashed { " dashed" } else { "" };
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" class=\"path s{}{dashes}\"/>",
            points.join(" "),
            colour % COLOURS
        );
    }

    /// A dot that says what it stands for when pointed at.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: usize, says: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" class=\"fill s{}\"><title>{}</title></circle>",
            colour % COLOURS,
            escape(says)
        );
    }

    /// A bar that says what it stands for when pointed at.
    pub(super) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: usize, says: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"1.5\" class=\"fill s{}\">\
             <title>{}</title></rect>",
            colour % COLOURS,
            escape(says)
        );
    }

    /// A cell of a heat map.
    pub(super) fn shade(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        strength: f64,
        says: &str,
    ) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"fill s0\" \
             fill-opacity=\"{strength:.2}\"><title>{}</title></rect>",
            escape(says)
        );
    }

    /// The title and, below it, the names of the series, each beside its line or bar. Returns where they end.
    pub(super) fn head(&mut self, title: &str, series: &[(&str, usize, Swatch)]) -> f64 {
        let left = 16.0;
        let mut y = 26.0;
        self.text((left, y), Anchor::Start, "title", title);
        let mut x = left;
        y += 24.0;
        for (name, colour, swatch) in series {
            let width = 30.0 + width_of(name, TEXT) + 18.0;
            if x > left && x + width > WIDTH - 8.0 {
                (x, y) = (left, y + 20.0);
            }
            match swatch {
                Swatch::Line => self.path(&[(x, y - 4.0), (x + 22.0, y - 4.0)], *colour, false),
                Swatch::Dashes => self.path(&[(x, y - 4.0), (x + 22.0, y - 4.0)], *colour, true),
                Swatch::Bar => self.bar((x + 8.0, y - 10.0), (12.0, 12.0), *colour, name),
            }
            self.text((x + 28.0, y), Anchor::Start, "name", name);
            x += width;
        }
        y
    }

    /// The whole picture.
    pub(super) fn finish(self, title: &str) -> String {
        let height = self.height;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>\n<style>\n{1}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"6\" class=\"ground\"/>\n{2}</svg>\n",
            escape(title),
            style(),
            self.body
        )
    }
}

/// How a series is shown beside its name.
#[derive(Clone, Copy)]
pub(super) enum Swatch {
    Line,
    Dashes,
    Bar,
}

fn style() -> String {
    let series = |colours: [&str; COLOURS]| -> String {
        let one = |(i, colour): (usize, &str)| format!("--s{i}:{colour};");
        colours.into_iter().enumerate().map(one).collect()
    };
    let classes: String = (0..COLOURS).map(|i| format!(".s{i}{{--own:var(--s{i})}}")).collect();
    format!(
        "svg{{--ground:#ffffff;--ink:#1f2328;--faint:#59636e;--rule:#e3e6ea;--frame:#9aa4af;{}}}\n\
         @media (prefers-color-scheme: dark){{svg{{--ground:#0d1117;--ink:#e6edf3;--faint:#9198a1;--rule:#262c34;\
         --frame:#59636e;{}}}}}\n\
         text{{font:{TEXT}px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--faint)}}\n\
         .title{{font-size:15px;font-weight:600;fill:var(--ink)}}.name{{fill:var(--ink)}}.small{{font-size:10px}}\n\
         .ground{{fill:var(--ground)}}.rule{{stroke:var(--rule)}}.frame{{stroke:var(--frame)}}\n\
         .path{{fill:none;stroke:var(--own);stroke-width:2;stroke-linejoin:round}}.dashed{{stroke-dasharray:5 4}}\n\
         .fill{{fill:var(--own)}}{classes}\n",
        series(LIGHT),
        series(DARK)
    )
}

/// About how wide a text of that size is; sans-serif letters differ.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Fails unless every tag is closed in order and no number is missing.
    pub(in crate::svg) fn assert_well_formed(svg: &str) {
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        let mut open: Vec<&str> = Vec::new();
        let mut rest = svg;
        while let Some(at) = rest.find('<') {
            let end = at + rest[at..].find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{svg}"),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split(' ').next().expect("a name")),
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn names_cannot_break_the_picture() {
        let mut canvas = Canvas::new(60.0);
        canvas.head("a < b & \"c\"", &[("x\u{7}>", 0, Swatch::Line), ("y", 9, Swatch::Bar)]);
        let svg = canvas.finish("a < b & \"c\"");
        assert_well_formed(&svg);
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;") && svg.contains("x &gt;"));
    }

    #[test]
    fn many_names_take_several_lines() {
        let names: Vec<String> = (0..20).map(|i| format!("method number {i}")).collect();
        let series: Vec<_> = names.iter().map(|name| (name.as_str(), 0, Swatch::Line)).collect();
        assert!(Canvas::new(0.0).head("t", &series) > Canvas::new(0.0).head("t", &series[..2]));
    }
}
