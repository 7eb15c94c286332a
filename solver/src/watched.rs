//! A solve on a thread of its own, watched from the caller's thread.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::highs::{Report, Solver};
use crate::{Options, Program, Solution, SolverError};

/// The time after which the watcher is called without an event.
const WAITING_TIME: Duration = Duration::from_millis(20);

/// An event of a solve.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An improving solution: its objective, and a value for every column.
    Solution(f64, Vec<f64>),
    /// The lower bound rose to this.
    Bound(f64),
    /// Nothing for a while: an opportunity to read the clock.
    Waiting,
}

/// Solves a program, from the solution `start` if there is one. `watch` receives every event on the caller's thread,
/// and ends the solve by `Break`; HiGHS then stops at its next callback.
pub fn solve_watched(
    program: &Program,
    options: &Options,
    start: Option<&[f64]>,
    watch: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Solution, SolverError> {
    let is_interrupted = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let is_interrupted = &is_interrupted;
        let solving = scope.spawn(move || {
            let mut solver = Solver::new(program, options)?;
            if let Some(start) = start {
                solver.start_from(start)?;
            }
            let mut highest = f64::NEG_INFINITY;
            solver.solve_reporting(&mut |report| {
                // A send fails only if the watcher has is_interrupted.
                let _ = match report {
                    Report::Solution(objective, values) => {
                        sender.send(Event::Solution(objective, values.to_vec()))
                    }
                    Report::Bound(bound) if bound > highest && bound.is_finite() => {
                        highest = bound;
                        sender.send(Event::Bound(bound))
                    }
                    Report::Bound(_) | Report::Pause => Ok(()),
                };
                if is_interrupted.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        });
        loop {
            let event = match receiver.recv_timeout(WAITING_TIME) {
                Ok(event) => event,
                Err(mpsc::RecvTimeoutError::Timeout) => Event::Waiting,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            };
            if watch(event).is_break() {
                is_interrupted.store(true, Ordering::Relaxed);
            }
        }
        solving.join().unwrap_or(Err(SolverError { call: "the solver's thread" }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    /// A multi-dimensional knapsack that takes HiGHS a while.
    fn knapsack(items: usize, limits: usize) -> Program {
        let mut program = Program::new();
        let mut state = 12345u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 40) as u32 % 1000 + 1)
        };
        let columns: Vec<_> = (0..items).map(|_| program.binary()).collect();
        for &column in &columns {
            program.costs[column.index()] = -draw();
        }
        for _ in 0..limits {
            let terms: Vec<_> = columns.iter().map(|&column| (column, draw())).collect();
            let half = terms.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
            program.at_most(&terms, half);
        }
        program
    }

    #[test]
    fn solutions_and_bounds_come_while_it_runs_and_close_in_on_the_optimum() {
        let program = knapsack(40, 4);
        let mut solutions = Vec::new();
        let mut bounds = Vec::new();
        let solved = solve_watched(&program, &Options::default(), None, &mut |event| {
            match event {
                Event::Solution(objective, values) => {
                    assert!(program.violation(&values) < 1e-5);
                    solutions.push(objective);
                }
                Event::Bound(bound) => bounds.push(bound),
                Event::Waiting => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(solved.status, Status::Optimal);
        let (best, values) = solved.best.unwrap();
        assert!(program.violation(&values) < 1e-5);
        assert!((best - solved.bound).abs() < 1e-6);
        assert!(!solutions.is_empty() && solutions.iter().all(|&objective| objective >= best - 1e-6));
        assert!(!bounds.is_empty() && bounds.iter().all(|&bound| bound <= best + 1e-6));
    }

    #[test]
    fn a_watcher_can_end_it_and_a_start_is_kept() {
        let program = knapsack(250, 30);
        let nothing = vec![0.0; program.column_count()];
        let mut events = 0;
        let solved = solve_watched(&program, &Options::default(), Some(&nothing), &mut |_| {
            events += 1;
            if events > 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        assert_eq!(solved.status, Status::Stopped);
        let (best, _) = solved.best.unwrap();
        assert!(solved.bound <= best);
    }

    #[test]
    fn the_time_limit_is_kept() {
        let program = knapsack(250, 30);
        let options = Options { time: Duration::from_millis(300), ..Options::default() };
        let start = std::time::Instant::now();
        let solved = solve_watched(&program, &options, None, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(solved.status, Status::Stopped);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
