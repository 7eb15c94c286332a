//! What divvy means: networks, hardware, costs, problems, plans, and what a plan costs.
//!
//! This crate knows no solver, no file format, no thread and no device. It defines the objectives and checks every plan
//! against them; nothing that plans is imported here, so a plan counts for what [`check`](check::check()) says and no more.
//! Lower bounds are in the crate `divvy-proof`. The reading order of the code:
//!
//! ```text
//! graph + hardware + costs -> problem -> plan -> check -> score
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`graph`] | ops, tensors, parameters; the canonical order |
//! | [`hardware`] | devices, links, buses, and one fixed route for each pair of devices |
//! | [`costs`] | times of ops by class of devices and batch size: measured, scaled, estimated |
//! | [`mod@estimate`] | what an op takes where nobody timed it |
//! | [`problem`] | all of these with an objective and constraints, validated once |
//! | [`objectives`] | the definition of each objective, one file each |
//! | [`plan`] | decisions only |
//! | [`check`](mod@check) | every rule applied to a plan, and its score |
//! | [`violation`] | the rules, and what breaks them |
//! | [`score`] | what a plan costs, with its timeline |
//! | [`default_plan`] | the plan of a placement that decides nothing else |
//! | [`relocate`] | a plan with one op moved: what the present place of an op is worth |
//! | [`coarsen`] | several ops become one |
//! | [`combine`] | several networks become one |
//! | [`generate`] | seeded problems of the kinds that the papers use |
//! | [`history`] | value and bound over a run |
//! | [`ids`], [`units`], [`rng`] | newtypes for ids; picoseconds and bandwidths; the seeded generator |
//! | [`input_error`], [`did_you_mean`] | faults of an input, and names near a misspelt one |
//! | [`printable`] | texts as they are shown |
//! | [`maps`] | maps for the names of large networks |

pub mod check;
pub mod coarsen;
pub mod combine;
pub mod costs;
pub mod default_plan;
pub mod did_you_mean;
pub mod estimate;
pub mod generate;
pub mod graph;
pub mod hardware;
pub mod history;
pub mod ids;
pub mod input_error;
pub mod maps;
pub mod objectives;
pub mod plan;
pub mod printable;
pub mod problem;
pub mod relocate;
pub mod rng;
pub mod score;
pub mod units;
pub mod violation;

pub use problem::{Objective, Problem, ProblemSpec};
