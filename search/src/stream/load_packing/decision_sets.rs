//! Nogoods: sets of branching decisions, each named by its depth in the search tree.
//!
//! A set is a mask of fixed size. All decisions at `DEEPEST` or below share the last bit, which makes explanations weaker there,
//! but not wrong.

const WORDS: usize = 8;
const DEEPEST: usize = WORDS * 64 - 1;

/// A set of depths.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DecisionSet([u64; WORDS]);

impl DecisionSet {
    pub(crate) fn singleton(level: usize) -> DecisionSet {
        let mut set = DecisionSet::default();
        let level = level.min(DEEPEST);
        set.0[level / 64] |= 1 << (level % 64);
        set
    }

    /// All depths less than `level`.
    pub(crate) fn before(level: usize) -> DecisionSet {
        let depths = 0..level.min(DEEPEST + 1);
        depths.fold(DecisionSet::default(), |set, depth| set.union(&DecisionSet::singleton(depth)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    #[must_use]
    pub(crate) fn union(&self, other: &DecisionSet) -> DecisionSet {
        DecisionSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Whether a depth is in the set; true for all of the deepest ones if one is.
    pub(crate) fn contains(&self, level: usize) -> bool {
        let level = level.min(DEEPEST);
        self.0[level / 64] >> (level % 64) & 1 == 1
    }

    /// The set without a depth; the bit that the deepest ones share goes with the first of them.
    #[must_use]
    pub(crate) fn without(&self, level: usize) -> DecisionSet {
        let mut set = *self;
        if level <= DEEPEST {
            set.0[level / 64] &= !(1 << (level % 64));
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_levels_stay_until_the_first_of_them_goes() {
        let deep = DecisionSet::singleton(DEEPEST + 7);
        assert!(deep.contains(DEEPEST) && deep.without(DEEPEST + 7).contains(DEEPEST + 3));
        assert!(deep.without(DEEPEST).is_empty());
        let above = DecisionSet::before(3).union(&DecisionSet::singleton(9));
        assert!(above.contains(0) && above.contains(2) && !above.contains(3) && above.contains(9));
        assert!(!above.without(2).contains(2));
    }
}
