//! `bus`: under `cold-start` all weights must come over the buses, loaded or read in place.
//!
//! The evidence is a weight for each link. Where devices hang on buses of equal width, equal weights are best; where
//! widths differ, weights in proportion to them, so that every way costs the same. Both are tried, and each bus alone.

use divvy_core::certificate::Evidence;
use divvy_core::problem::{Objective, Problem};

use crate::registry::Bound;
use crate::run::Run;

pub(super) struct Bus;

impl Bound for Bus {
    fn name(&self) -> &'static str {
        "bus"
    }

    fn about(&self) -> &'static str {
        "all weights cross the buses from host memory (cold-start)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::ColdStart => Ok(()),
            other => Err(format!("under {} the weights are resident", other.name())),
        }
    }

    fn bound(&self, run: &mut Run<'_>) {
        let problem = run.problem;
        let links = problem.hardware.links();
        let mut narrow: Vec<usize> = Vec::new();
        for route in problem.hardware.devices().filter_map(|d| problem.hardware.host_route(d)) {
            // The last of the narrowest: a shared bus is listed behind the link that is part of it.
            let width = |link: &divvy_core::ids::LinkId| links[link.index()].bandwidth;
            let narrowest = route.links.iter().rev().min_by_key(|link| width(link));
            narrow.extend(narrowest.map(|link| link.index()));
        }
        narrow.sort_unstable();
        narrow.dedup();
        let widest = narrow.iter().map(|&link| links[link].bandwidth.0).max().unwrap_or(1);
        let scaled = |link: usize| (u128::from(links[link].bandwidth.0) << 20) / u128::from(widest);
        let mut tries: Vec<Vec<(usize, u64)>> = vec![
            narrow.iter().map(|&link| (link, 1)).collect(),
            narrow.iter().map(|&link| (link, scaled(link) as u64)).collect(),
        ];
        tries.extend(narrow.iter().map(|&link| vec![(link, 1)]));
        for pairs in tries {
            let mut weights = vec![0; links.len()];
            for (link, weight) in pairs {
                weights[link] = weight;
            }
            run.prove(self.name(), Evidence::Bus { weights });
        }
    }
}
