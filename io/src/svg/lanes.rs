//! Timelines: one lane for each device or bus, filled where it is busy.

use crate::svg::axis::{Axis, short};
use crate::svg::canvas::{Anchor, Canvas, TEXT, WIDTH, width_of};

/// A lane of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyLane {
    /// Its name.
    pub name: String,
    /// The number of its colour.
    pub colour: usize,
    /// From when to when it is busy.
    pub busy: Vec<(f64, f64)>,
}

/// A timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneChart {
    /// What it shows.
    pub title: String,
    /// What time is counted in.
    pub unit: String,
    /// From top to bottom.
    pub lanes: Vec<BusyLane>,
}

const LANE: f64 = 16.0;
const LANE_STEP: f64 = 22.0;

impl LaneChart {
    /// The picture.
    pub fn svg(&self) -> String {
        let mut canvas = Canvas::new(0.0);
        let top = canvas.head(&self.title, &[]) + 4.0;
        let ends = self.lanes.iter().flat_map(|lane| &lane.busy).map(|&(_, end)| end);
        let axis = Axis::from_zero(&self.unit);
        let Some(range) = axis.over(ends) else {
            canvas.height = top + 100.0;
            canvas.text((WIDTH / 2.0, top + 50.0), Anchor::Middle, "name", "nothing to show yet");
            return canvas.finish(&self.title);
        };
        let names = self.lanes.iter().map(|lane| width_of(&lane.name, TEXT)).fold(0.0, f64::max);
        let (left, right) = (28.0 + names, WIDTH - 24.0);
        let place = |value: f64| left + range.place(value) * (right - left);
        let bottom = top + LANE_STEP * self.lanes.len() as f64 + 6.0;
        canvas.height = bottom + 52.0;
        for &mark in &range.marks {
            canvas.line((place(mark), top), (place(mark), bottom), "rule");
            canvas.text((place(mark), bottom + 18.0), Anchor::Middle, "", &short(mark));
        }
        for (i, BusyLane { name, colour, busy }) in self.lanes.iter().enumerate() {
            let y = top + 6.0 + LANE_STEP * i as f64;
            canvas.text((left - 10.0, y + LANE - 4.0), Anchor::End, "name", name);
            for &(start, end) in busy {
                let says = format!("{name}: {} to {}", short(start), short(end));
                canvas.bar((place(start), y), (place(end) - place(start), LANE), *colour, &says);
            }
        }
        canvas.text(((left + right) / 2.0, bottom + 38.0), Anchor::Middle, "", &self.unit);
        canvas.finish(&self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::canvas::tests::assert_well_formed;

    #[test]
    fn every_busy_stretch_is_a_bar_in_its_lane() {
        let lane = |name: &str, busy| BusyLane { name: name.to_owned(), colour: 0, busy };
        let lanes = vec![lane("gpu1", vec![(0.0, 5.0), (6.0, 10.0)]), lane("bus", vec![])];
        let chart = LaneChart { title: "t".to_owned(), unit: "ms".to_owned(), lanes };
        assert_well_formed(&chart.svg());
        assert_eq!(chart.svg().matches("class=\"fill").count(), 2);
    }

    #[test]
    fn without_anything_busy_the_chart_says_so() {
        let chart = LaneChart { title: "t".to_owned(), unit: "ms".to_owned(), lanes: Vec::new() };
        assert_well_formed(&chart.svg());
        assert!(chart.svg().contains("nothing to show yet"));
    }
}
