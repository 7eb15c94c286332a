//! Heat maps over two logarithmic axes, with lines of constant ratio.

use crate::svg::axis::{Axis, short};
use crate::svg::canvas::{Anchor, Canvas, Swatch, TEXT, WIDTH, width_of};

/// A line on which x / y is the same everywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioLine {
    /// What it stands for.
    pub name: String,
    /// x / y.
    pub ratio: f64,
    /// Whether it is drawn with dashes.
    pub dashed: bool,
}

/// A heat map: a value for each pair of x and y, darker where it is larger, on a logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// What it shows.
    pub title: String,
    /// What x is, in its unit.
    pub x_label: String,
    /// What y is, in its unit.
    pub y_label: String,
    /// Ascending, evenly spread on a logarithmic scale.
    pub xs: Vec<f64>,
    /// Likewise.
    pub ys: Vec<f64>,
    /// Row after row, one for each y; what is missing is left white.
    pub values: Vec<Vec<Option<f64>>>,
    /// The unit of the values.
    pub unit: String,
    /// Lines drawn over it.
    pub lines: Vec<RatioLine>,
}

const HEIGHT: f64 = 340.0;
/// How strong the colours of the least and the largest value are.
const FAINT: f64 = 0.06;
const STRONG: f64 = 0.92;

impl HeatMap {
    /// The map as SVG text.
    pub fn svg(&self) -> String {
        let swatch = |line: &RatioLine| if line.dashed { Swatch::Dashes } else { Swatch::Line };
        let legend: Vec<(&str, usize, Swatch)> = (self.lines.iter().enumerate())
            .map(|(i, line)| (line.name.as_str(), i + 1, swatch(line)))
            .collect();
        let mut canvas = Canvas::new(0.0);
        let top = canvas.head(&self.title, &legend) + 34.0;
        let bottom = top + HEIGHT;
        canvas.height = bottom + 52.0;
        let shown = || self.values.iter().flatten().flatten().copied().filter(|value| *value > 0.0);
        let (x_axis, y_axis) = (Axis::log(&self.x_label), Axis::log(&self.y_label));
        let ranges = x_axis.over(self.xs.iter().copied()).zip(y_axis.over(self.ys.iter().copied()));
        let least = shown().fold(f64::INFINITY, f64::min);
        let (Some((x, y)), true) = (ranges, least.is_finite()) else {
            canvas.text((WIDTH / 2.0, top + HEIGHT / 2.0), Anchor::Middle, "name", "nothing to show yet");
            return canvas.finish(&self.title);
        };
        let spread = (shown().fold(0.0, f64::max) / least).ln();
        let widest = y.marks.iter().map(|&mark| width_of(&short(mark), TEXT)).fold(0.0, f64::max);
        let (left, right) = (24.0 + widest, WIDTH - 24.0);
        canvas.text((16.0, top - 14.0), Anchor::Start, "", &self.y_label);
        let (width, height) = ((right - left) / self.xs.len() as f64, HEIGHT / self.ys.len() as f64);
        for (row, (&at_y, values)) in self.ys.iter().zip(&self.values).enumerate() {
            for (column, (&at_x, value)) in self.xs.iter().zip(values).enumerate() {
                let Some(value) = value.filter(|value| *value > 0.0) else { continue };
                let share = if spread > 0.0 { (value / least).ln() / spread } else { 1.0 };
                let says = format!("{} {} at {}, {}", short(value), self.unit, short(at_x), short(at_y));
                let corner = (left + column as f64 * width, bottom - (row + 1) as f64 * height);
                canvas.shade(corner, (width, height), FAINT + (STRONG - FAINT) * share, &says);
            }
        }
        // Marks lie at the middle of cells.
        let place = |value: f64, all: &[f64], from: f64, to: f64| {
            let (Some(first), Some(last)) = (all.first(), all.last()) else { return from };
            let steps = (all.len().max(2) - 1) as f64;
            let step = (to - from) / all.len() as f64;
            from + step * (0.5 + steps * (value / first).ln() / (last / first).ln().max(f64::MIN_POSITIVE))
        };
        for &mark in &x.marks {
            let at = place(mark, &self.xs, left, right);
            if (left..=right).contains(&at) {
                canvas.line((at, bottom), (at, bottom + 5.0), "frame");
                canvas.text((at, bottom + 20.0), Anchor::Middle, "", &short(mark));
            }
        }
        for &mark in &y.marks {
            let at = place(mark, &self.ys, bottom, top);
            if (top..=bottom).contains(&at) {
                canvas.line((left - 5.0, at), (left, at), "frame");
                canvas.text((left - 8.0, at + 4.0), Anchor::End, "", &short(mark));
            }
        }
        canvas.line((left, bottom), (right, bottom), "frame");
        canvas.line((left, top), (left, bottom), "frame");
        canvas.text(((left + right) / 2.0, bottom + 40.0), Anchor::Middle, "", &self.x_label);
        for (i, line) in self.lines.iter().enumerate().filter(|(_, line)| line.ratio > 0.0) {
            // Both axes are logarithmic, so the line is straight; it is cut off at the edges.
            let (low, high) = (self.ys[0], self.ys[self.ys.len() - 1]);
            let ends = [low, high].map(|y| {
                let x = (y * line.ratio).clamp(self.xs[0], self.xs[self.xs.len() - 1]);
                (place(x, &self.xs, left, right), place(x / line.ratio, &self.ys, bottom, top))
            });
            if (ends[0].0 - ends[1].0).abs() > 1.0 {
                canvas.path(&ends, i + 1, line.dashed);
            }
        }
        canvas.finish(&self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::canvas::tests::assert_well_formed;

    fn map(values: Vec<Vec<Option<f64>>>) -> HeatMap {
        HeatMap {
            title: "t <".into(),
            x_label: "B/s".into(),
            y_label: "FLOP/s".into(),
            xs: vec![1e6, 1e7, 1e8],
            ys: vec![1e9, 1e10],
            values,
            unit: "per second".into(),
            lines: vec![RatioLine { name: "boundary".into(), ratio: 2e-3, dashed: true }],
        }
    }

    #[test]
    fn a_cell_for_each_value_that_is_there_and_a_line() {
        let svg = map(vec![vec![Some(1.0), Some(2.0), None], vec![Some(0.0), Some(4.0), Some(4.0)]]).svg();
        assert_well_formed(&svg);
        assert_eq!(svg.matches("fill-opacity").count(), 4);
        assert!(svg.contains("dashed"));
    }

    #[test]
    fn without_values_it_says_so() {
        let svg = map(vec![vec![None; 3]; 2]).svg();
        assert_well_formed(&svg);
        assert!(svg.contains("nothing to show yet"));
    }
}
