//! Charts that several experiments draw of their cells.

use crate::figures::Figures;
use crate::markdown::Table;
use divvy_io::svg::{Axis, LineChart, Series};

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
        let over_time = |pick: fn(&crate::figures::Moment) -> Option<u64>| {
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

/// The rows of a table whose columns are numbers of stages, against that number. Fields without a figure are left out. Rows
/// of the paper are dashed, in the colour of ours that begins with the same word where there is one.
pub(crate) fn against_stages(title: &str, what: &str, table: &Table, stages: &[u32]) -> LineChart {
    let mut chart = LineChart::new(title, Axis::log("stages"), Axis::linear(what));
    let mut ours: Vec<&str> = Vec::new();
    for row in &table.rows {
        let (name, figures) = (&row[0], &row[1..]);
        let points =
            stages.iter().zip(figures).filter_map(|(&k, field)| Some((f64::from(k), field.parse().ok()?)));
        let series = Series::new(name, points);
        let first_word = |name: &str| name.split([' ', ',']).next().map(str::to_owned);
        chart = match name.strip_suffix(", paper") {
            None => {
                ours.push(name);
                chart.with(series)
            }
            Some(of) => match ours.iter().position(|name| first_word(name) == first_word(of)) {
                Some(same) => chart.with(series.dashed().in_colour_of(same)),
                None => chart.with(series.dashed()),
            },
        };
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Moment;

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

    #[test]
    fn rows_become_lines_and_the_papers_are_in_the_colour_of_ours() {
        let mut table = Table::new("t", &["bound", "k = 2", "k = 4", "k = 8"]);
        let row = |fields: [&str; 4]| fields.map(str::to_owned).to_vec();
        table.row(row(["simple", "0.5", "– (1)", "0.25"]));
        table.row(row(["exact (milp)", "0.75", "0.5", "–"]));
        table.row(row(["exact, paper", "0.9", "0.8", "0.7"]));
        let chart = against_stages("t", "share", &table, &[2, 4, 8]);
        assert_eq!(chart.series[0].points, [(2.0, 0.5), (8.0, 0.25)]);
        assert_eq!(chart.series[1].points, [(2.0, 0.75), (4.0, 0.5)]);
        let dashed =
            Series::new("exact, paper", [(2.0, 0.9), (4.0, 0.8), (8.0, 0.7)]).dashed().in_colour_of(1);
        assert_eq!(chart.series[2], dashed);
    }
}
