//! A biased random-key genetic algorithm (Gonçalves and Resende 2011).
//!
//! An individual is a vector of keys in [0, 1); a decoder makes a solution of it and says what that is worth. Each
//! generation keeps the elite, adds a few random newcomers, and fills up with children of one parent from the elite and
//! one from the rest, each key from the elite parent with a fixed probability. Only who is in the elite matters, so
//! the decoder may answer "no better than that" without the exact worth.

use divvy_core::rng::Rng;

/// Sizes and probabilities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrkgaSettings {
    pub(crate) population: usize,
    pub(crate) generations: usize,
}

/// The share of the population that is kept.
const ELITE: f64 = 0.2;
/// The share that is random.
const NEW: f64 = 0.15;
/// The probability that a key comes from the elite parent.
const BIAS: f64 = 0.7;

/// What an individual that is not worth knowing exactly is worth.
pub(crate) const NOT_BETTER: u64 = u64::MAX;

impl BrkgaSettings {
    /// As many generations as individuals, and that many decodings in all, or a little fewer.
    pub(crate) fn of_evaluations(evaluations: u64) -> BrkgaSettings {
        let side = ((evaluations as f64).sqrt() as usize).max(2);
        BrkgaSettings { population: side, generations: side }
    }
}

/// Evolves keys. `decode` is given keys and the worth of the last of the elite: it may answer [`NOT_BETTER`] for what is
/// worth no less; none ends the search. Keys listed in `seeds` are in the first generation.
pub(crate) fn evolve(
    genes: usize,
    settings: BrkgaSettings,
    seeds: Vec<Vec<f64>>,
    rng: &mut Rng,
    decode: &mut dyn FnMut(&[f64], u64) -> Option<u64>,
) {
    let size = settings.population.max(2);
    let elite = ((size as f64 * ELITE).round() as usize).clamp(1, size - 1);
    let new = ((size as f64 * NEW).round() as usize).min(size - elite);
    let random = |rng: &mut Rng| (0..genes).map(|_| rng.unit()).collect::<Vec<f64>>();
    let mut people: Vec<(u64, Vec<f64>)> = Vec::with_capacity(size);
    let mut seeds = seeds.into_iter();
    for generation in 0..settings.generations.max(1) {
        let mut next: Vec<(u64, Vec<f64>)> = people.iter().take(elite).cloned().collect();
        let children = if generation == 0 { 0 } else { size - elite - new };
        while next.len() < size {
            let keys = if next.len() < elite + children && generation > 0 {
                let (best, other) = (&people[rng.below(elite)].1, &people[elite + rng.below(size - elite)].1);
                best.iter().zip(other).map(|(&a, &b)| if rng.chance(BIAS) { a } else { b }).collect()
            } else {
                seeds.next().unwrap_or_else(|| random(rng))
            };
            let worst = nth_smallest(&next, elite);
            let Some(worth) = decode(&keys, worst) else { return };
            next.push((worth, keys));
        }
        // Stable, so that of equals the older stays in front.
        next.sort_by_key(|person| person.0);
        people = next;
    }
}

/// The worth that a newcomer must be below to be among the first `elite`.
fn nth_smallest(people: &[(u64, Vec<f64>)], elite: usize) -> u64 {
    if people.len() < elite {
        return NOT_BETTER;
    }
    let mut worths: Vec<u64> = people.iter().map(|person| person.0).collect();
    *worths.select_nth_unstable(elite - 1).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_middle() {
        let mut rng = Rng::new(1);
        let (mut best, mut count) = (u64::MAX, 0);
        evolve(8, BrkgaSettings { population: 60, generations: 60 }, Vec::new(), &mut rng, &mut |keys, _| {
            count += 1;
            let worth = keys.iter().map(|key| ((key - 0.5).abs() * 1000.0) as u64).sum();
            best = best.min(worth);
            Some(worth)
        });
        assert!(best < 100, "{best}");
        // The elite is not decoded again.
        assert_eq!(count, 60 + 59 * 48);
    }
}
