//! Adaptive selection of division moves, by probability matching.
//!
//! Whether the ops of a branch should be divided alike or each by itself depends on the network. Each kind of move
//! has a base probability; from time to time all are scaled by their success rates, the share of their moves that
//! shortened the schedule, relative to the mean.

use divvy_core::rng::Rng;

/// How a new division of a unit is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// All inputs on one device.
    OneDevice,
    /// The division of a neighbour.
    CopyNeighbour,
    /// Some groups of a part move to another device.
    MoveGroups,
    /// Two groups change places.
    ExchangeGroups,
}

/// How other units change with a unit whose division changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowRule {
    /// A unit near it gets its old division, and it gets that unit's.
    Swap,
    /// A unit near it returns work to the device that lost most groups: all of its own, or some from the device that
    /// gained most.
    Compensate,
    /// A random path of neighbours gets the same division.
    Propagate,
    /// A connected cluster of units around it with the same old division gets the same new one.
    Cluster,
}

/// A kind of division move, and its base probability.
struct MoveKind {
    follow: FollowRule,
    draw: Draw,
    share: f64,
}

const fn kind(follow: FollowRule, draw: Draw, share: f64) -> MoveKind {
    MoveKind { follow, draw, share }
}

const KINDS: [MoveKind; 12] = [
    kind(FollowRule::Swap, Draw::CopyNeighbour, 0.08),
    kind(FollowRule::Compensate, Draw::OneDevice, 0.04),
    kind(FollowRule::Compensate, Draw::CopyNeighbour, 0.04),
    kind(FollowRule::Compensate, Draw::MoveGroups, 0.04),
    kind(FollowRule::Propagate, Draw::OneDevice, 0.12),
    kind(FollowRule::Propagate, Draw::CopyNeighbour, 0.12),
    kind(FollowRule::Propagate, Draw::MoveGroups, 0.12),
    kind(FollowRule::Propagate, Draw::ExchangeGroups, 0.04),
    kind(FollowRule::Cluster, Draw::OneDevice, 0.12),
    kind(FollowRule::Cluster, Draw::CopyNeighbour, 0.12),
    kind(FollowRule::Cluster, Draw::MoveGroups, 0.12),
    kind(FollowRule::Cluster, Draw::ExchangeGroups, 0.04),
];

/// The least and the largest factor of a base probability: 0.05, and at most 4.
const KEPT: f64 = 0.05;
const MOST: f64 = 4.0;
/// The number of moves between two adaptations.
const ADAPT_EVERY: u32 = 1 << 14;
/// The number of moves with the mean success rate that each kind is credited with, against noise.
const CREDIT: f64 = 500.0;

/// The present probabilities of the kinds of moves, and their success.
pub(crate) struct MoveMix {
    shares: [f64; KINDS.len()],
    tries: [f64; KINDS.len()],
    gains: [f64; KINDS.len()],
    /// The kind of the present move.
    at: usize,
    moves: u32,
}

impl MoveMix {
    pub(crate) fn new() -> MoveMix {
        MoveMix {
            shares: std::array::from_fn(|kind| KINDS[kind].share),
            tries: [0.0; KINDS.len()],
            gains: [0.0; KINDS.len()],
            at: 0,
            moves: 0,
        }
    }

    /// Draws the kind of the next move.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> (FollowRule, Draw) {
        self.moves += 1;
        if self.moves == ADAPT_EVERY {
            self.moves = 0;
            self.adapt();
        }
        let mut left = rng.unit() * self.shares.iter().sum::<f64>();
        self.at = 0;
        while self.at + 1 < KINDS.len() && left >= self.shares[self.at] {
            left -= self.shares[self.at];
            self.at += 1;
        }
        self.tries[self.at] += 1.0;
        (KINDS[self.at].follow, KINDS[self.at].draw)
    }

    /// Records that the present move shortened the schedule.
    pub(crate) fn reward(&mut self) {
        self.gains[self.at] += 1.0;
    }

    /// Scales the probabilities by success rates, and halves the counts.
    fn adapt(&mut self) {
        let mean = self.gains.iter().sum::<f64>() / self.tries.iter().sum::<f64>();
        if mean == 0.0 {
            return;
        }
        for (number, kind) in KINDS.iter().enumerate() {
            let rate = (self.gains[number] + CREDIT * mean) / (self.tries[number] + CREDIT);
            self.shares[number] = kind.share * (KEPT + (1.0 - KEPT) * (rate / mean).min(MOST));
            self.tries[number] /= 2.0;
            self.gains[number] /= 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws kinds up to an adaptation, with some kinds successful; the frequency of each kind after it.
    fn tried_after(gains: impl Fn(usize) -> bool) -> [f64; KINDS.len()] {
        let (mut mix, mut rng) = (MoveMix::new(), Rng::new(1));
        for _ in 0..ADAPT_EVERY {
            mix.draw(&mut rng);
            if gains(mix.at) {
                mix.reward();
            }
        }
        let mut tried = [0.0; KINDS.len()];
        let count = ADAPT_EVERY - 1;
        for _ in 0..count {
            mix.draw(&mut rng);
            tried[mix.at] += 1.0 / f64::from(count);
        }
        tried
    }

    #[test]
    fn shares_are_of_all_moves() {
        let sum: f64 = KINDS.iter().map(|kind| kind.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn as_long_as_nothing_gains_kinds_have_their_shares() {
        for (tried, kind) in tried_after(|_| false).iter().zip(&KINDS) {
            assert!((tried - kind.share).abs() < 0.01, "{tried} for {:?} {:?}", kind.follow, kind.draw);
        }
    }

    #[test]
    fn a_kind_that_gains_is_tried_more_often_and_no_other_is_given_up() {
        let tried = tried_after(|kind| kind == 6);
        assert!(tried[6] > 2.5 * KINDS[6].share, "{tried:?}");
        for (tried, kind) in tried.iter().zip(&KINDS) {
            assert!(*tried > KEPT * kind.share / 2.0, "{tried} for {:?} {:?}", kind.follow, kind.draw);
        }
    }
}
