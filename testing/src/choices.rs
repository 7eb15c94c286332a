//! Enumeration by choices: a builder asks for one choice after the other, and is run once for every sequence of
//! answers; or, where there are too many, for random ones.

use divvy_core::rng::Rng;

/// The answers to a builder's questions.
pub struct Choices {
    /// Answer and number of possible answers, in the order of the questions.
    digits: Vec<(usize, usize)>,
    asked: usize,
    random: Option<Rng>,
}

impl Choices {
    /// One of `count` options.
    pub fn choose(&mut self, count: usize) -> usize {
        if count == 1 {
            return 0;
        }
        if let Some(rng) = &mut self.random {
            return rng.below(count);
        }
        if self.asked == self.digits.len() {
            self.digits.push((0, count));
        }
        self.asked += 1;
        self.digits[self.asked - 1].0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.choose(items.len())]
    }

    /// Puts `items` in some order.
    pub fn permute<T>(&mut self, items: &mut [T]) {
        for first in 0..items.len() {
            let chosen = first + self.choose(items.len() - first);
            items[first..=chosen].rotate_right(1);
        }
    }

    /// Goes to the next sequence; false after the last.
    fn advance(&mut self) -> bool {
        self.asked = 0;
        while let Some((answer, count)) = self.digits.pop() {
            if answer + 1 < count {
                self.digits.push((answer + 1, count));
                return true;
            }
        }
        false
    }
}

/// Everything that `build` can build, and true; or `limit` random samples, and false, if there is more than that.
pub fn every<T>(limit: usize, seed: u64, build: impl Fn(&mut Choices) -> T) -> (Vec<T>, bool) {
    let mut choices = Choices { digits: Vec::new(), asked: 0, random: None };
    let mut all = Vec::new();
    while all.len() < limit {
        all.push(build(&mut choices));
        if !choices.advance() {
            return (all, true);
        }
    }
    choices.random = Some(Rng::new(seed));
    ((0..limit).map(|_| build(&mut choices)).collect(), false)
}
