//! `beginnings`: every way to slice the network into stages, where it has few beginnings.
//!
//! See `core`'s module of that name. On identical devices without overflow and limits it decides any threshold, so a
//! best plan is proved to be one; unlike devices are told apart by kind.

use divvy_core::certificate::Evidence;
use divvy_core::period::relaxations::beginnings::Beginnings;
use divvy_core::period::relaxations::relaxed::Relaxed;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

use super::only_pipeline;
use super::ratchet::{Attempt, Limits, ratchet};
use crate::registry::{Bound, Runs};
use crate::run::Run;

pub(super) struct AllBeginnings;

impl Bound for AllBeginnings {
    fn name(&self) -> &'static str {
        "beginnings"
    }

    fn about(&self) -> &'static str {
        "every way to slice the network into stages, where it has few beginnings"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        only_pipeline(problem)
    }

    fn runs(&self) -> Runs {
        Runs::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(plain) = Relaxed::new(run.problem) else { return };
        let merged = plain.kinds().is_empty();
        let relaxed = if merged { Relaxed::merged(run.problem) } else { Ok(plain) };
        let Ok(relaxed) = relaxed else { return };
        let Ok(all) = Beginnings::new(&relaxed) else { return };
        // What is proved is checked again, which takes as long.
        let limits = Limits::of(run.budget, 0.5);
        let low = run.outcome().lower_bound().map_or(0, |bound| bound.0);
        let work: u64 = relaxed.least().work.iter().flatten().sum();
        let high = run.outcome().value().map_or(relaxed.picoseconds(work), |value| value.0);
        ratchet(low, high, limits, &mut |threshold, effort| match all
            .reach(threshold, &mut || !effort.is_spent())
        {
            Some(false) => {
                run.prove(self.name(), Evidence::Beginnings { merged, threshold_ps: Time(threshold) });
                Attempt::Proved
            }
            Some(true) => Attempt::Reached(threshold),
            None => Attempt::Unknown,
        });
    }
}
