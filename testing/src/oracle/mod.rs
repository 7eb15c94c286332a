//! What a plan is worth, straight from the definitions: a second implementation that shares nothing with the first but plain
//! data.
//!
//! [`model`] reads a problem's specs by itself, [`routes`] finds routes by listing every simple path, [`pieces`] forms pieces,
//! and one module per objective scores a plan: `Some(picoseconds)`, or `None` if it breaks any rule. Finishes come from [`simulate`], which
//! starts one job after the other and knows no graph algorithm.

pub mod batch;
pub mod cold_start;
pub mod latency;
pub mod model;
pub mod pieces;
pub mod pipeline;
pub mod routes;
pub mod simulate;
pub mod stream;

use divvy_core::Objective;
use divvy_core::plan::Plan;

use crate::oracle::model::Model;

/// What a plan is worth by definition; none if it is not valid.
pub fn score(model: &Model, plan: &Plan) -> Option<u64> {
    match (model.objective, plan) {
        (Objective::Latency { links }, Plan::Latency(plan)) => latency::score(model, links, plan),
        (Objective::Batch { inputs }, Plan::Batch(plan)) => batch::score(model, inputs, plan),
        (Objective::Pipeline { stages }, Plan::Pipeline(plan)) => pipeline::score(model, stages, plan),
        (Objective::Stream, Plan::Stream(plan)) => stream::score(model, plan),
        (Objective::ColdStart { .. }, Plan::ColdStart(plan)) => cold_start::score(model, plan),
        _ => None,
    }
}
