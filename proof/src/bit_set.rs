//! Sets of numbers below a fixed size, as words of bits. Binary operations need two sets of the same size.

/// A set of numbers below a fixed size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// No number below `size`.
    pub fn none(size: usize) -> Bits {
        Bits(vec![0; size.div_ceil(64)])
    }

    /// Whether it holds a number.
    #[inline]
    pub fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    /// Removes all numbers.
    #[inline]
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Adds a number.
    #[inline]
    pub fn add(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Removes a number.
    #[inline]
    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    /// Adds all of another set.
    #[inline]
    pub fn unite(&mut self, other: &Bits) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    /// Keeps what another set has too.
    #[inline]
    pub fn intersect(&mut self, other: &Bits) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
    }

    /// Whether the two have a number in common.
    #[inline]
    pub fn meets(&self, other: &Bits) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether there is no number.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// How many numbers.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The numbers, ascending.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| Ones(word).map(move |bit| i * 64 + bit))
    }

    /// The numbers of a combination of two sets, where `combine` maps a word of each to a word of the result.
    #[inline]
    pub fn both<'a>(
        &'a self,
        other: &'a Bits,
        combine: impl Fn(u64, u64) -> u64 + 'a,
    ) -> impl Iterator<Item = usize> + 'a {
        let words = self.0.iter().zip(&other.0).enumerate();
        words.flat_map(move |(i, (&a, &b))| Ones(combine(a, b)).map(move |bit| i * 64 + bit))
    }

    /// The numbers below `size` that it does not hold, ascending.
    #[inline]
    pub fn missing(&self, size: usize) -> impl Iterator<Item = usize> + '_ {
        let words = self.0.iter().enumerate();
        words.flat_map(|(i, &word)| Ones(!word).map(move |bit| i * 64 + bit)).take_while(move |&i| i < size)
    }
}

/// The positions of a word's ones.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}
