//! Which kinds of divisions are tried how often.
//!
//! In one network the ops of a branch want to be divided alike, in another every op by itself. Each kind of move has a share
//! of its own, and gets the more of the moves the more often it has shortened the schedule of late.

use divvy_core::rng::Rng;

/// What another division of a unit is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// All of it on one device.
    Whole,
    /// As a neighbour is divided.
    Neighbour,
    /// Some groups of a piece to another device.
    HandOver,
    /// Two groups change places.
    Exchange,
}

/// What becomes of other units when one is divided anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowRule {
    /// One near it gets its division, and it gets that one's.
    Swap,
    /// One near it gives its devices work in return.
    Return,
    /// Some neighbours are divided as it is.
    HandOn,
    /// Those around it that were divided as it was are so again.
    Alike,
}

/// A kind of move, and its share of all that divide.
struct MoveKind {
    way: FollowRule,
    draw: Draw,
    share: f64,
}

const fn kind(way: FollowRule, draw: Draw, share: f64) -> MoveKind {
    MoveKind { way, draw, share }
}

const KINDS: [MoveKind; 12] = [
    kind(FollowRule::Swap, Draw::Neighbour, 0.08),
    kind(FollowRule::Return, Draw::Whole, 0.04),
    kind(FollowRule::Return, Draw::Neighbour, 0.04),
    kind(FollowRule::Return, Draw::HandOver, 0.04),
    kind(FollowRule::HandOn, Draw::Whole, 0.12),
    kind(FollowRule::HandOn, Draw::Neighbour, 0.12),
    kind(FollowRule::HandOn, Draw::HandOver, 0.12),
    kind(FollowRule::HandOn, Draw::Exchange, 0.04),
    kind(FollowRule::Alike, Draw::Whole, 0.12),
    kind(FollowRule::Alike, Draw::Neighbour, 0.12),
    kind(FollowRule::Alike, Draw::HandOver, 0.12),
    kind(FollowRule::Alike, Draw::Exchange, 0.04),
];

/// The part of its share that every kind keeps, and how many times its share it can get at most.
const KEPT: f64 = 0.05;
const MOST: f64 = 4.0;
/// After how many moves shares are worked out again.
const LOOK_EVERY: u32 = 1 << 14;
/// How many moves with the mean success each kind is credited with, so that chance does not decide.
const CREDIT: f64 = 500.0;

/// How often each kind is tried at present.
pub(crate) struct Mix {
    shares: [f64; KINDS.len()],
    tries: [f64; KINDS.len()],
    gains: [f64; KINDS.len()],
    /// The kind at hand.
    at: usize,
    moves: u32,
}

impl Mix {
    pub(crate) fn new() -> Mix {
        Mix {
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
        if self.moves == LOOK_EVERY {
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
        (KINDS[self.at].way, KINDS[self.at].draw)
    }

    /// Tells that the move at hand made the schedule shorter.
    pub(crate) fn gained(&mut self) {
        self.gains[self.at] += 1.0;
    }

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

    /// Draws as many kinds as come between two looks at them, of which those gain that are chosen; how often each came then.
    fn tried_after(gains: impl Fn(usize) -> bool) -> [f64; KINDS.len()] {
        let (mut mix, mut rng) = (Mix::new(), Rng::new(1));
        for _ in 0..LOOK_EVERY {
            mix.draw(&mut rng);
            if gains(mix.at) {
                mix.gained();
            }
        }
        let mut tried = [0.0; KINDS.len()];
        let count = LOOK_EVERY - 1;
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
            assert!((tried - kind.share).abs() < 0.01, "{tried} for {:?} {:?}", kind.way, kind.draw);
        }
    }

    #[test]
    fn a_kind_that_gains_is_tried_more_often_and_no_other_is_given_up() {
        let tried = tried_after(|kind| kind == 6);
        assert!(tried[6] > 2.5 * KINDS[6].share, "{tried:?}");
        for (tried, kind) in tried.iter().zip(&KINDS) {
            assert!(*tried > KEPT * kind.share / 2.0, "{tried} for {:?} {:?}", kind.way, kind.draw);
        }
    }
}
