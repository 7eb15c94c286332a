//! How often each name had something to say, and how good that was.

use std::fmt::{self, Display};
use std::time::{Duration, Instant};

use divvy_core::units::Time;
use divvy_search::{Outcome, Solved};

use crate::judge::Judge;
use crate::trials::{Asked, Trial};

/// What one way of asking came to.
#[derive(Default)]
struct Row {
    label: String,
    refused: usize,
    ran: usize,
    /// Runs that found a plan, or proved something.
    made: usize,
    /// Where there is a plan: runs, and those that made something.
    solvable: usize,
    useful: usize,
    /// Where all plans are known: plans that are the best, bounds that are as high.
    known: usize,
    best: usize,
    time: Duration,
}

/// A row for each way of asking, in the order of the registries.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    fn row(&mut self, trial: &Trial) -> &mut Row {
        let place = self.0.iter().position(|row| row.label == trial.label).unwrap_or_else(|| {
            self.0.push(Row { label: trial.label.clone(), ..Row::default() });
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    pub(crate) fn refused(&mut self, trial: &Trial) {
        if !trial.has_option() {
            self.row(trial).refused += 1;
        }
    }

    pub(crate) fn solved(&mut self, trial: &Trial, solved: &Solved, judge: &Judge<'_>, start: Instant) {
        let row = self.row(trial);
        let made = made(trial, &solved.outcome);
        row.ran += 1;
        row.time += start.elapsed();
        row.made += usize::from(made.is_some());
        row.solvable += usize::from(judge.best.is_some());
        row.useful += usize::from(judge.best.is_some() && made.is_some());
        row.known += usize::from(judge.whole && judge.best.is_some());
        row.best += usize::from(judge.whole && judge.best.is_some() && made == judge.best);
    }

    /// Each way of asking came to something, often enough for the comparison to mean something; planners find a plan of most
    /// problems that have one, and `auto` nearly always the best.
    pub(crate) fn assert_exercised(&self, least: usize) {
        let beside_auto = |label: &str| {
            self.0.iter().any(|row| row.label == format!("{label}, beside auto") && row.made >= least)
        };
        let is_idle = |row: &Row| match row.label.as_str() {
            "auto" => 10 * row.best < 9 * row.known,
            label if label.starts_with("planner") => row.made < least || 2 * row.useful < row.solvable,
            // What little a bound proves, others may have proved before.
            label if label.ends_with("beside auto") => false,
            // Some bounds begin with a plan, and prove nothing where none is made.
            label => row.made < least && !beside_auto(label),
        };
        let idle: Vec<&str> =
            self.0.iter().filter(|row| is_idle(row)).map(|row| row.label.as_str()).collect();
        assert!(idle.is_empty(), "hardly ever anything: {}", idle.join(", "));
    }
}

/// The value of the plan that was asked for, or of the bound.
fn made(trial: &Trial, outcome: &Outcome) -> Option<Time> {
    match trial.asked {
        Asked::Auto if trial.request.bound_only => outcome.lower_bound(),
        Asked::Auto | Asked::Planner => outcome.value(),
        Asked::Bound | Asked::Beside => {
            let own = outcome.certificates.iter().find(|certificate| certificate.bound == trial.name);
            own.map(|certificate| certificate.value_ps)
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:42} {:>7} {:>7} {:>7} {:>7} {:>9}", "", "refused", "ran", "made", "best", "ms each")?;
        for row in &self.0 {
            let Row { label, refused, ran, made, known, best, .. } = row;
            let share = if *known > 0 {
                format!("{:.0} %", 100.0 * *best as f64 / *known as f64)
            } else {
                String::new()
            };
            let each = row.time.as_secs_f64() * 1e3 / (*ran).max(1) as f64;
            writeln!(f, "{label:42} {refused:7} {ran:7} {made:7} {share:>7} {each:9.3}")?;
        }
        Ok(())
    }
}
