//! Seeded tiny problems, as the crates under test see them and as the oracle does.

use divvy_core::Problem;
use divvy_core::graph::Graph;
use divvy_core::input_error::InputErrors;
use divvy_core::rng::Rng;

use crate::oracle::model::Model;
use crate::problem_kind::ProblemKind;
use crate::random_problems::{self as random, Draw};

/// A usable random problem, as the crate sees it and as the oracle does.
pub struct Case {
    pub seed: u64,
    pub draw: Draw,
    pub problem: Problem,
    pub model: Model,
}

impl Case {
    /// The problem drawn from a seed; none if it is an input error.
    pub fn from_draw(seed: u64, draw: Draw) -> Option<Case> {
        let model = Model::new(&draw);
        Some(Case { seed, problem: build(draw.clone()).ok()?, draw, model })
    }
}

/// The problem as the crate builds it.
pub fn build(draw: Draw) -> Result<Problem, InputErrors> {
    let Draw { graph, profile, hardware, objective, constraints } = draw;
    Problem::new(Graph::new(graph)?, &profile, hardware, &[], objective, &constraints)
}

/// The first `wanted` usable problems of a kind (times `DIVVY_CASES`, where that is set), each handed to `visit`.
pub fn for_cases(kind: ProblemKind, wanted: usize, visit: impl FnMut(&Case)) {
    for_draws(wanted, |rng| random::draw(kind, rng), visit);
}

/// As [`for_cases`], for problems drawn otherwise. At least one draw in ten must be usable.
pub fn for_draws(wanted: usize, draw: impl Fn(&mut Rng) -> Draw, mut visit: impl FnMut(&Case)) {
    let factor = std::env::var("DIVVY_CASES").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    let wanted = ((wanted as f64 * factor) as usize).max(1);
    let (mut seed, mut usable) = (0u64, 0usize);
    while usable < wanted {
        if let Some(case) = Case::from_draw(seed, draw(&mut Rng::new(seed))) {
            usable += 1;
            visit(&case);
        }
        seed += 1;
        assert!(seed < 50 || usable as f64 >= 0.1 * seed as f64, "{usable} of {seed} draws usable");
    }
}
