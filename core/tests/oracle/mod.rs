//! An oracle that shares nothing with the crate under test but its plain data: specs in, plans in, values out.
//!
//! Tiny random problems come from [`random`]. [`model`] reads their specs by itself, [`routes`] finds ways by listing
//! every simple path, and one module per objective scores a plan straight from the definition: a plan is worth
//! `Some(picoseconds)`, or `None` if it breaks any rule. Finishes come from [`simulate`], which starts one job after
//! the other and knows no graph algorithm. [`plans`] lists every plan of a problem, and [`mutants`] spoils plans.

#![allow(dead_code, reason = "each test file uses its own part of the oracle")]

pub(crate) mod batch;
pub(crate) mod choices;
pub(crate) mod cold_start;
pub(crate) mod describe;
pub(crate) mod evidence;
pub(crate) mod latency;
pub(crate) mod model;
pub(crate) mod mutants;
pub(crate) mod pipeline;
pub(crate) mod plans;
pub(crate) mod random;
pub(crate) mod random_hardware;
pub(crate) mod routes;
pub(crate) mod simulate;
pub(crate) mod stream;

use divvy_core::graph::Graph;
use divvy_core::input_error::InputErrors;
use divvy_core::plan::Plan;
use divvy_core::rng::Rng;
use divvy_core::{Objective, Problem};

use model::Model;
use random::{Draw, Kind};

/// A usable random problem, as the crate sees it and as the oracle does.
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) draw: Draw,
    pub(crate) problem: Problem,
    pub(crate) model: Model,
}

impl Case {
    /// The problem of a seed; none if it is an input error.
    pub(crate) fn new(kind: Kind, seed: u64) -> Option<Case> {
        Case::from_draw(seed, random::draw(kind, &mut Rng::new(seed)))
    }

    pub(crate) fn from_draw(seed: u64, draw: Draw) -> Option<Case> {
        let model = Model::new(&draw);
        Some(Case { seed, problem: build(draw.clone()).ok()?, draw, model })
    }
}

/// The problem as the crate builds it.
pub(crate) fn build(draw: Draw) -> Result<Problem, InputErrors> {
    let Draw { graph, profile, hardware, objective, constraints } = draw;
    Problem::new(Graph::new(graph)?, &profile, hardware, &[], objective, &constraints)
}

/// What a plan is worth by definition; none if it is not valid.
pub(crate) fn score(model: &Model, plan: &Plan) -> Option<u64> {
    match (model.objective, plan) {
        (Objective::Latency { links }, Plan::Latency(plan)) => latency::score(model, links, plan),
        (Objective::Batch { inputs }, Plan::Batch(plan)) => batch::score(model, inputs, plan),
        (Objective::Pipeline { stages }, Plan::Pipeline(plan)) => pipeline::score(model, stages, plan),
        (Objective::Stream, Plan::Stream(plan)) => stream::score(model, plan),
        (Objective::ColdStart { .. }, Plan::ColdStart(plan)) => cold_start::score(model, plan),
        _ => None,
    }
}

/// The first `wanted` usable problems of a kind (times `DIVVY_CASES`, where that is set), each handed to `visit`.
/// At least three draws in ten must be usable.
pub(crate) fn for_cases(kind: Kind, wanted: usize, mut visit: impl FnMut(&Case)) {
    let factor = std::env::var("DIVVY_CASES").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    let wanted = ((wanted as f64 * factor) as usize).max(1);
    let (mut seed, mut usable) = (0u64, 0usize);
    while usable < wanted {
        if let Some(case) = Case::new(kind, seed) {
            usable += 1;
            visit(&case);
        }
        seed += 1;
        assert!(seed < 50 || usable as f64 >= 0.3 * seed as f64, "{kind:?}: {usable} of {seed} draws usable");
    }
}
