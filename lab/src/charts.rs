//! Charts that several experiments draw of their cells.

use crate::cells::Figures;
use crate::plot::{Axis, LineChart, Series};

/// The best value so far of each run over time, in ms, and the bound of those runs that are to show theirs.
///
/// A run is its name, its figures, and whether its bound is drawn too. Lines go on to the end of the longest run, since
/// what was found holds from then on.
pub(crate) fn quality_over_time(title: &str, runs: &[(&str, Option<&Figures>, bool)]) -> LineChart {
    let mut chart = LineChart::new(title, Axis::log("seconds"), Axis::linear("ms"));
    let ran = || runs.iter().filter_map(|(_, figures, _)| *figures);
    let end = ran().map(|figures| figures.seconds).fold(0.0, f64::max);
    for (name, figures, with_bound) in runs {
        let Some(figures) = figures else { continue };
        let over_time = |pick: fn(&crate::Moment) -> Option<u64>| {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for (seconds, ps) in figures.history.iter().filter_map(|m| Some((m.seconds, pick(m)?))) {
                let ms = ps as f64 / 1e9;
                // A logarithmic axis has no zero, and nothing is told apart below a millisecond.
                if points.last().is_none_or(|&(_, before)| before != ms) {
                    points.push((seconds.max(1e-3), ms));
                }
            }
            points.extend(points.last().map(|&(_, last)| (end, last)));
            points
        };
        let value = chart.series.len();
        chart = chart.with(Series::new(name, over_time(|moment| moment.value_ps)).stepped());
        if *with_bound {
            let bound = Series::new(&format!("bound of {name}"), over_time(|moment| moment.bound_ps));
            chart = chart.with(bound.stepped().dashed().in_colour_of(value));
        }
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    #[test]
    fn lines_end_with_the_longest_run_and_repeat_nothing() {
        let moment = |seconds, value, bound| Moment { seconds, value_ps: Some(value), bound_ps: Some(bound) };
        let history =
            vec![moment(0.0, 5_000_000_000, 1), moment(0.5, 5_000_000_000, 2), moment(1.0, 4_000_000_000, 2)];
        let long = Figures { seconds: 3.0, history, ..Figures::default() };
        let short =
            Figures { seconds: 1.0, history: vec![moment(0.2, 7_000_000_000, 1)], ..Figures::default() };
        let runs = [("auto", Some(&long), true), ("none", None, true), ("heft", Some(&short), false)];
        let chart = quality_over_time("t", &runs);
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["auto", "bound of auto", "heft"]);
        assert_eq!(chart.series[0].points, [(0.001, 5.0), (1.0, 4.0), (3.0, 4.0)]);
        assert_eq!(chart.series[2].points, [(0.2, 7.0), (3.0, 7.0)]);
    }
}
