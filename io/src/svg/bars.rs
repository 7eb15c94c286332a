//! Bar charts: groups of bars to the right, one bar for each series, its figure at its end.

use crate::svg::axis::{Axis, short};
use crate::svg::canvas::{Anchor, Canvas, Swatch, TEXT, WIDTH, width_of};

/// Groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// What it shows.
    pub title: String,
    /// What the length of a bar means.
    pub axis: Axis,
    /// Names of the series: the bars of every group, in order.
    pub series: Vec<String>,
    /// Groups by name, with a figure for each series where there is one.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
    reference: Option<(f64, String)>,
}

/// Thickness of a bar.
const BAR: f64 = 12.0;
/// From one bar to the next.
const BAR_STEP: f64 = 14.0;
/// Room after a group.
const GROUP_GAP: f64 = 12.0;

impl BarChart {
    /// A chart without groups.
    pub fn new(title: &str, axis: Axis, series: &[&str]) -> BarChart {
        let series = series.iter().map(|&name| name.to_owned()).collect();
        BarChart { title: title.to_owned(), axis, series, groups: Vec::new(), reference: None }
    }

    /// Adds a group, with a figure for each series where there is one.
    pub fn group(&mut self, name: &str, figures: Vec<Option<f64>>) {
        assert_eq!(figures.len(), self.series.len(), "a group of `{}` has a bar for each series", self.title);
        self.groups.push((name.to_owned(), figures));
    }

    /// A line across all bars at a number that means something, such as a speed-up of 1.
    #[must_use]
    pub fn with_reference(self, at: f64, name: &str) -> BarChart {
        BarChart { reference: Some((at, name.to_owned())), ..self }
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let legend: Vec<(&str, usize, Swatch)> =
            self.series.iter().enumerate().map(|(i, name)| (name.as_str(), i, Swatch::Bar)).collect();
        let legend = if legend.len() > 1 { &legend[..] } else { &[] };
        let mut canvas = Canvas::new(0.0);
        let top = canvas.head(&self.title, legend) + if legend.is_empty() { 4.0 } else { 22.0 };
        let figures = || self.groups.iter().flat_map(|(_, figures)| figures).flatten().copied();
        let reference = self.reference.iter().map(|(at, _)| *at);
        let Some(range) = self.axis.over(figures().chain(reference)).filter(|_| figures().next().is_some())
        else {
            canvas.height = top + 100.0;
            canvas.text((WIDTH / 2.0, top + 50.0), Anchor::Middle, "name", "nothing to show yet");
            return canvas.finish(&self.title);
        };
        let names = self.groups.iter().map(|(name, _)| width_of(name, TEXT)).fold(0.0, f64::max);
        // Room at the end for the figure of the longest bar.
        let (left, right) = (28.0 + names, WIDTH - 56.0);
        let place = |value: f64| left + range.place(value) * (right - left);
        let group_height = self.series.len() as f64 * BAR_STEP + GROUP_GAP;
        let bottom = top + GROUP_GAP / 2.0 + group_height * self.groups.len() as f64;
        canvas.height = bottom + 52.0;
        for &mark in &range.marks {
            canvas.line((place(mark), top), (place(mark), bottom), "rule");
            canvas.text((place(mark), bottom + 18.0), Anchor::Middle, "", &short(mark));
        }
        let base = if range.marks.contains(&0.0) { 0.0 } else { range.low() };
        let mut y = top + GROUP_GAP;
        for (name, figures) in &self.groups {
            let middle = y + self.series.len() as f64 * BAR_STEP / 2.0;
            canvas.text((left - 10.0, middle + 3.0), Anchor::End, "name", name);
            for (i, figure) in figures.iter().enumerate() {
                if let Some(value) = figure.filter(|&value| self.axis.shows(value)) {
                    let (from, to) = (place(base.min(value)), place(base.max(value)));
                    let says = format!("{name}, {}: {}", self.series[i], short(value));
                    canvas.bar((from, y), ((to - from).max(1.0), BAR), i, &says);
                    canvas.text((to + 5.0, y + BAR - 2.5), Anchor::Start, "small", &short(value));
                }
                y += BAR_STEP;
            }
            y += GROUP_GAP;
        }
        canvas.line((place(base), top), (place(base), bottom), "frame");
        if let Some((at, name)) = &self.reference {
            canvas.line((place(*at), top), (place(*at), bottom), "frame");
            canvas.text((place(*at), top - 4.0), Anchor::Middle, "small", name);
        }
        canvas.text(((left + right) / 2.0, bottom + 38.0), Anchor::Middle, "", &self.axis.label);
        canvas.finish(&self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::canvas::tests::assert_well_formed;

    #[test]
    fn every_figure_has_a_bar_with_its_number_and_missing_ones_have_none() {
        let mut chart = BarChart::new("t", Axis::from_zero("ms"), &["a", "b"]).with_reference(1.0, "even");
        chart.group("one", vec![Some(12.25), None]);
        chart.group("two", vec![Some(3.0), Some(f64::NAN)]);
        let svg = chart.svg();
        assert_well_formed(&svg);
        // Two bars and two squares of the legend.
        assert_eq!(svg.matches("class=\"fill").count(), 4);
        assert!(svg.contains(">12.2<") && svg.contains("one, a: 12.2") && svg.contains(">even<"), "{svg}");
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let mut chart = BarChart::new("t", Axis::from_zero("ms"), &["a"]);
        chart.group("x", vec![Some(5.0)]);
        chart.group("y", vec![Some(10.0)]);
        let svg = chart.svg();
        let width = |name: &str| -> f64 {
            let bar = svg.lines().find(|line| line.contains(&format!("{name}, a"))).unwrap();
            bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!((width("y") - 2.0 * width("x")).abs() < 0.2);
    }

    #[test]
    fn without_figures_the_chart_says_so() {
        let mut chart = BarChart::new("t", Axis::log("ms"), &["a"]).with_reference(1.0, "even");
        chart.group("x", vec![None]);
        assert_well_formed(&chart.svg());
        assert!(chart.svg().contains("nothing to show yet"));
    }
}
