//! divvy splits a trained neural network over unlike devices, and proves how far the split can be from the best possible one.
//!
//! ```text
//! model file + hardware file + profile -> Problem -> planner -> Plan -> check + score -> report / export / run
//!                                            └----> bound -> Certificate -> verify ─┘
//! ```
//!
//! Plan a model, and know how good the plan is:
//!
//! ```
//! use std::time::Duration;
//! use divvy::{Budget, ProblemOptions, Request, assemble, solve};
//!
//! let options = ProblemOptions { hardware: Some("h200-cpu".to_owned()), ..ProblemOptions::default() };
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/googlenet.json.gz");
//! let problem = assemble(model, &options)?.problem;
//! let budget = Budget::new(Duration::from_secs(1));
//! let outcome = solve(&problem, &Request::default(), &budget, &mut |_| {}).unwrap().outcome;
//! let (plan, score) = outcome.best.as_ref().expect("GoogLeNet fits");
//! println!("{} for {} ops, at least {:?}", score.value, plan.placements().len(), outcome.verified_lower_bound());
//! # Ok::<(), divvy::io::Error>(())
//! ```
//!
//! | to … | use |
//! |---|---|
//! | make a [`Problem`] from a model file and hardware | [`assemble()`] |
//! | make one from data of your own | [`Problem::new`] |
//! | plan and prove | [`solve()`] with a [`Request`] and a [`Budget`] |
//! | race planners and bounds of your own | [`Planner`], [`Bound`], [`solve_with`] |
//! | score a [`Plan`], or learn what is wrong with it | [`check()`] |
//! | verify a [`Certificate`] | [`verify()`] |
//! | keep a plan, its proof and its problem in a file | [`plan_file()`], [`PlanFile`] |
//! | run a plan on this machine | [`prepare`], [`LoadedPlan`] |
//!
//! `examples/` has each in some twenty lines. Nothing that plans is believed: a plan counts for what [`check()`] recomputes, in
//! integer picoseconds, and a bound counts as proved only if [`verify()`] accepts its evidence.
//!
//! Everything else is in the crates behind this one, which are here as modules: [`core`] (networks, hardware, costs, problems,
//! plans, scores), [`proof`] (evidence), [`search`] (planners, bounds, studies), [`io`] (files, reports, exports), [`exec`]
//! (devices and executors), [`deploy`] (running and profiling).

mod plan_file;

pub use divvy_core as core;
pub use divvy_deploy as deploy;
pub use divvy_exec as exec;
pub use divvy_io as io;
pub use divvy_proof as proof;
pub use divvy_search as search;

pub use divvy_core::check::check;
pub use divvy_core::graph::Graph;
pub use divvy_core::hardware::Hardware;
pub use divvy_core::plan::Plan;
pub use divvy_core::score::Score;
pub use divvy_core::units::Time;
pub use divvy_core::violation::Violation;
pub use divvy_core::{Objective, Problem};
pub use divvy_deploy::{LoadedPlan, RunOptions, prepare};
pub use divvy_io::assemble::{Assembled, ProblemOptions, assemble};
pub use divvy_io::plan_file::PlanFile;
pub use divvy_proof::certificate::{Certificate, Standing};
pub use divvy_proof::verify::verify;
pub use divvy_search::{
    Bound, Budget, Outcome, Planner, Request, Run, Solved, Status, StopReason, solve, solve_with,
};
pub use plan_file::plan_file;
