//! The kinds of random problems: one for each objective, two for latency.

use divvy_core::rng::Rng;

/// An objective and, for latency, how links behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProblemKind {
    Latency,
    LatencyInTurn,
    Batch,
    Pipeline,
    Stream,
    ColdStart,
}

impl ProblemKind {
    pub const ALL: [ProblemKind; 6] = [
        ProblemKind::Latency,
        ProblemKind::LatencyInTurn,
        ProblemKind::Batch,
        ProblemKind::Pipeline,
        ProblemKind::Stream,
        ProblemKind::ColdStart,
    ];

    /// How many ops, so that the plans of most problems can be listed in full.
    pub(crate) fn op_count(self, rng: &mut Rng) -> usize {
        *rng.pick(match self {
            ProblemKind::Latency | ProblemKind::Pipeline => &[1, 2, 3, 3, 4, 4, 4],
            ProblemKind::LatencyInTurn => &[1, 2, 2, 3, 3, 4],
            ProblemKind::Batch => &[1, 2, 2, 2, 3],
            ProblemKind::Stream => &[1, 2, 3, 4, 4, 5, 5],
            ProblemKind::ColdStart => &[1, 2, 2, 3, 3],
        })
    }
}
