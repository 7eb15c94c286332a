//! Conflict-driven search for a placement whose loads are at most a threshold.
//!
//! * `solver.rs`: decisions, clause learning, backjumping, restarts
//! * `propagation.rs`: the rules, and their reasons
//! * `model.rs`: variables, times, tensors and routes
//! * `trail.rs`: loads that follow the trail, and explanations from them
//! * `relaxation.rs`: prices of device time at a search node
//! * `clauses.rs`: the clause database with watched literals
//! * `literal.rs`: literals

pub(crate) mod clauses;
mod literal;
pub(crate) mod model;
pub(crate) mod propagation;
pub(crate) mod relaxation;
pub(crate) mod solver;
pub(crate) mod trail;
