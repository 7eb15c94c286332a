//! A plan at a glance, for terminals: how much is proved, what each device and link has to do, and when.
//!
//! [`Screen`] knows how wide the terminal is and whether it shows colours; where there is none, as in a file or a pipe,
//! the picture is 80 columns wide and plain, so that it is the same everywhere.

mod loads;
pub(crate) mod percent;
mod screen;
mod timeline;

pub(crate) use screen::Screen;

use divvy::core::plan::Plan;
use divvy::core::problem::Problem;
use divvy::core::score::Score;
use divvy::core::units::Time;

/// The lines that show a plan.
pub(crate) fn plan(problem: &Problem, plan: &Plan, score: &Score, screen: &Screen) -> Vec<String> {
    let mut lines = loads::table(problem, plan, score, screen);
    if !problem.objective.is_period() && score.value > Time::ZERO {
        lines.push(String::new());
        lines.extend(timeline::lines(problem, score, screen));
    }
    lines
}

/// How much of the value is accounted for by the lower bound, as a bar.
pub(crate) fn gauge(value: Time, bound: Time, screen: &Screen) -> String {
    const WIDTH: usize = 40;
    let share = if value > Time::ZERO { bound.0 as f64 / value.0 as f64 } else { 1.0 };
    // Only what is proved to the picosecond fills the bar.
    let full = if bound == value { WIDTH } else { ((share * WIDTH as f64) as usize).min(WIDTH - 1) };
    format!("{}{}", screen.good(&"█".repeat(full)), screen.faint(&"░".repeat(WIDTH - full)))
}

/// A name in at most that many columns.
fn cut(name: &str, columns: usize) -> String {
    if name.chars().count() <= columns {
        return name.to_owned();
    }
    let kept: String = name.chars().take(columns - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_is_full_only_where_nothing_is_left() {
        let plain = Screen::plain();
        assert_eq!(gauge(Time(100), Time(100), &plain), "█".repeat(40));
        assert_eq!(gauge(Time(100), Time(50), &plain), format!("{}{}", "█".repeat(20), "░".repeat(20)));
        assert!(gauge(Time(1_000_000), Time(999_999), &plain).ends_with('░'));
        assert_eq!(gauge(Time(0), Time(0), &plain), "█".repeat(40));
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("gpu", 5), "gpu");
        assert_eq!(cut("accelerator", 5), "acce…");
    }
}
