//! Line charts: several series over one pair of axes.

use crate::svg::axis::{Axis, Range, short};
use crate::svg::canvas::{Anchor, Canvas, Swatch, TEXT, WIDTH, width_of};

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order they are joined.
    pub points: Vec<(f64, f64)>,
    stepped: bool,
    dashed: bool,
    colour_of: Option<usize>,
}

impl Series {
    /// Points joined by straight lines.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series {
            name: name.to_owned(),
            points: points.into_iter().collect(),
            stepped: false,
            dashed: false,
            colour_of: None,
        }
    }

    /// Each point holds until the next, such as the best value so far.
    #[must_use]
    pub fn stepped(self) -> Series {
        Series { stepped: true, ..self }
    }

    /// In dashes, such as a bound, or what a paper reports.
    #[must_use]
    pub fn dashed(self) -> Series {
        Series { dashed: true, ..self }
    }

    /// In the colour of another series of the chart, by its number from 0: the two belong together.
    #[must_use]
    pub fn in_colour_of(self, series: usize) -> Series {
        Series { colour_of: Some(series), ..self }
    }
}

/// Several series over one pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// What it shows.
    pub title: String,
    /// The axis to the right.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// The lines, in the order of the legend; later ones are drawn above earlier ones.
    pub series: Vec<Series>,
}

/// Height of the area between the axes.
const HEIGHT: f64 = 280.0;
/// Lines of more points than this are drawn without dots.
const MOST_DOTS: usize = 40;

impl LineChart {
    /// A chart without lines.
    pub fn new(title: &str, x: Axis, y: Axis) -> LineChart {
        LineChart { title: title.to_owned(), x, y, series: Vec::new() }
    }

    /// Adds a line.
    #[must_use]
    pub fn with(mut self, series: Series) -> LineChart {
        self.series.push(series);
        self
    }

    /// Colours go by the order of the series that have one of their own.
    fn colours(&self) -> Vec<usize> {
        let mut own = 0;
        let mut colours: Vec<usize> = Vec::with_capacity(self.series.len());
        for series in &self.series {
            let shared = series.colour_of.and_then(|other| colours.get(other).copied());
            colours.push(shared.unwrap_or_else(|| {
                own += 1;
                own - 1
            }));
        }
        colours
    }

    /// The points of a series that both axes can show.
    fn shown<'s>(&'s self, series: &'s Series) -> impl Iterator<Item = (f64, f64)> + 's {
        series.points.iter().copied().filter(|&(x, y)| self.x.shows(x) && self.y.shows(y))
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let colours = self.colours();
        let swatch = |series: &Series| if series.dashed { Swatch::Dashes } else { Swatch::Line };
        let legend: Vec<(&str, usize, Swatch)> = self
            .series
            .iter()
            .zip(&colours)
            .map(|(s, &colour)| (s.name.as_str(), colour, swatch(s)))
            .collect();
        let mut canvas = Canvas::new(0.0);
        let top = canvas.head(&self.title, &legend) + 34.0;
        canvas.height = top + HEIGHT + 52.0;
        let points = || self.series.iter().flat_map(|series| self.shown(series));
        let ranges = (self.x.over(points().map(|point| point.0)), self.y.over(points().map(|point| point.1)));
        let (Some(x), Some(y)) = ranges else {
            canvas.text((WIDTH / 2.0, top + HEIGHT / 2.0), Anchor::Middle, "name", "nothing to show yet");
            return canvas.finish(&self.title);
        };
        let area = self.draw_axes(&mut canvas, top, &x, &y);
        for (series, &colour) in self.series.iter().zip(&colours) {
            let data: Vec<(f64, f64)> = self.shown(series).collect();
            let places: Vec<(f64, f64)> = data.iter().map(|&point| area.place(point, &x, &y)).collect();
            let path = if series.stepped { steps(&places) } else { places.clone() };
            canvas.path(&path, colour, series.dashed);
            if !series.stepped && places.len() <= MOST_DOTS {
                for (place, (at, value)) in places.iter().zip(&data) {
                    let says = format!("{}: {} at {}", series.name, short(*value), short(*at));
                    canvas.dot(*place, colour, &says);
                }
            }
        }
        canvas.finish(&self.title)
    }

    fn draw_axes(&self, canvas: &mut Canvas, top: f64, x: &Range, y: &Range) -> Area {
        let widest = y.marks.iter().map(|&mark| width_of(&short(mark), TEXT)).fold(0.0, f64::max);
        let left = 24.0 + widest;
        let area = Area { left, right: WIDTH - 24.0, top, bottom: top + HEIGHT };
        canvas.text((16.0, top - 14.0), Anchor::Start, "", &self.y.label);
        for &mark in &y.marks {
            let at = area.place((0.0, mark), x, y).1;
            canvas.line((area.left, at), (area.right, at), "rule");
            canvas.text((area.left - 8.0, at + 4.0), Anchor::End, "", &short(mark));
        }
        for &mark in &x.marks {
            let at = area.left + x.place(mark) * (area.right - area.left);
            canvas.line((at, area.bottom), (at, area.bottom + 5.0), "frame");
            canvas.text((at, area.bottom + 20.0), Anchor::Middle, "", &short(mark));
        }
        canvas.line((area.left, area.bottom), (area.right, area.bottom), "frame");
        let middle = (area.left + area.right) / 2.0;
        canvas.text((middle, area.bottom + 40.0), Anchor::Middle, "", &self.x.label);
        area
    }
}

/// The area between the axes.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn place(&self, (at, value): (f64, f64), x: &Range, y: &Range) -> (f64, f64) {
        (
            self.left + x.place(at) * (self.right - self.left),
            self.bottom - y.place(value) * (self.bottom - self.top),
        )
    }
}

/// Points as stairs: each holds until the next.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut stairs: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for &(x, y) in points {
        stairs.extend(stairs.last().map(|&(_, before)| (x, before)));
        stairs.push((x, y));
    }
    stairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::canvas::tests::assert_well_formed;

    fn chart(series: Vec<Series>) -> LineChart {
        LineChart { series, ..LineChart::new("t", Axis::log("x"), Axis::linear("y")) }
    }

    #[test]
    fn a_stair_holds_each_value_until_the_next() {
        assert_eq!(steps(&[(0.0, 5.0), (2.0, 3.0)]), [(0.0, 5.0), (2.0, 5.0), (2.0, 3.0)]);
    }

    #[test]
    fn lines_that_belong_together_share_a_colour() {
        let a = Series::new("a", [(1.0, 1.0)]);
        let colours =
            chart(vec![a.clone(), a.clone().in_colour_of(0), a.clone(), a.in_colour_of(9)]).colours();
        assert_eq!(colours, [0, 0, 1, 2]);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let points = [(0.0, 1.0), (f64::NAN, 2.0), (1.0, f64::INFINITY), (1.0, 2.0), (10.0, 4.0)];
        let svg = chart(vec![Series::new("a", points)]).svg();
        assert_well_formed(&svg);
        assert_eq!(svg.matches("<circle").count(), 2);
        let empty = chart(vec![Series::new("a", [(0.0, 1.0)])]).svg();
        assert_well_formed(&empty);
        assert!(empty.contains("nothing to show yet"));
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let svg = chart(vec![Series::new("a", [(1.0, 0.0), (100.0, 10.0)])]).svg();
        let line = svg.lines().find(|line| line.contains("polyline") && line.contains("736.0")).unwrap();
        // From the lower left corner to the upper right one.
        assert!(line.contains(" 736.0,84.0\"") && line.contains(",364.0 "), "{line}");
    }
}
