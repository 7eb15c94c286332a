//! Sets of decisions that something follows from.

const WORDS: usize = 8;
/// Decisions from this depth on are told apart no more.
const DEEPEST: usize = WORDS * 64 - 1;

/// A set of depths at which decisions were made.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Levels([u64; WORDS]);

impl Levels {
    pub(crate) fn only(level: usize) -> Levels {
        let mut levels = Levels::default();
        let level = level.min(DEEPEST);
        levels.0[level / 64] |= 1 << (level % 64);
        levels
    }

    /// All above a depth, which is not among them.
    pub(crate) fn above(level: usize) -> Levels {
        (0..level.min(DEEPEST + 1)).fold(Levels::default(), |levels, level| levels.and(&Levels::only(level)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    #[must_use]
    pub(crate) fn and(&self, other: &Levels) -> Levels {
        Levels(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Whether a depth is among them.
    pub(crate) fn contains(&self, level: usize) -> bool {
        let level = level.min(DEEPEST);
        self.0[level / 64] >> (level % 64) & 1 == 1
    }

    /// Without a depth; those that are not told apart stay until the first of them is left out.
    #[must_use]
    pub(crate) fn without(&self, level: usize) -> Levels {
        let mut levels = *self;
        if level <= DEEPEST {
            levels.0[level / 64] &= !(1 << (level % 64));
        }
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_levels_stay_until_the_first_of_them_goes() {
        let deep = Levels::only(DEEPEST + 7);
        assert!(deep.contains(DEEPEST) && deep.without(DEEPEST + 7).contains(DEEPEST + 3));
        assert!(deep.without(DEEPEST).is_empty());
        let above = Levels::above(3).and(&Levels::only(9));
        assert!(above.contains(0) && above.contains(2) && !above.contains(3) && above.contains(9));
        assert!(!above.without(2).contains(2));
    }
}
