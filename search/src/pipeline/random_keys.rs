//! BRKGA: the biased random-key genetic algorithm (Gonçalves and Resende 2011).
//!
//! An individual is a vector of keys in [0, 1); a decoder turns it into a solution and returns its value. A generation keeps
//! the elite, draws some random mutants, and fills up with offspring of one elite and one other parent, each key from the elite
//! parent with probability `BIAS`. Only membership in the elite matters, so the decoder may answer [`NOT_BETTER`] instead of an
//! exact value.

use divvy_core::rng::Rng;

/// The size of the population, and the number of generations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrkgaSettings {
    pub(crate) population: usize,
    pub(crate) generations: usize,
}

/// The share of the elite.
const ELITE: f64 = 0.2;
/// The share of mutants.
const MUTANTS: f64 = 0.15;
/// The probability that a key comes from the elite parent.
const BIAS: f64 = 0.7;

/// The value of an individual that is not in the elite.
pub(crate) const NOT_BETTER: u64 = u64::MAX;

impl BrkgaSettings {
    /// As many generations as individuals, with about that many evaluations.
    pub(crate) fn of_evaluations(evaluations: u64) -> BrkgaSettings {
        let side = ((evaluations as f64).sqrt() as usize).max(2);
        BrkgaSettings { population: side, generations: side }
    }
}

/// Runs the algorithm. `decode` gets keys and the value of the worst of the elite: it may answer [`NOT_BETTER`] for values no
/// less than that, or none to end the search. The first generation contains `seeds`.
pub(crate) fn evolve(
    genes: usize,
    settings: BrkgaSettings,
    seeds: Vec<Vec<f64>>,
    rng: &mut Rng,
    decode: &mut dyn FnMut(&[f64], u64) -> Option<u64>,
) {
    let size = settings.population.max(2);
    let elite = ((size as f64 * ELITE).round() as usize).clamp(1, size - 1);
    let mutants = ((size as f64 * MUTANTS).round() as usize).min(size - elite);
    let random = |rng: &mut Rng| (0..genes).map(|_| rng.unit()).collect::<Vec<f64>>();
    let mut population: Vec<(u64, Vec<f64>)> = Vec::with_capacity(size);
    let mut seeds = seeds.into_iter();
    for generation in 0..settings.generations.max(1) {
        let mut next: Vec<(u64, Vec<f64>)> = population.iter().take(elite).cloned().collect();
        let offspring = if generation == 0 { 0 } else { size - elite - mutants };
        while next.len() < size {
            let keys = if next.len() < elite + offspring && generation > 0 {
                let (best, other) =
                    (&population[rng.below(elite)].1, &population[elite + rng.below(size - elite)].1);
                best.iter().zip(other).map(|(&a, &b)| if rng.chance(BIAS) { a } else { b }).collect()
            } else {
                seeds.next().unwrap_or_else(|| random(rng))
            };
            let worst = nth_smallest(&next, elite);
            let Some(value) = decode(&keys, worst) else { return };
            next.push((value, keys));
        }
        // Stable, so that of equals the older stays in front.
        next.sort_by_key(|individual| individual.0);
        population = next;
    }
}

/// The value that a newcomer must be below to be among the first `elite`.
fn nth_smallest(population: &[(u64, Vec<f64>)], elite: usize) -> u64 {
    if population.len() < elite {
        return NOT_BETTER;
    }
    let mut values: Vec<u64> = population.iter().map(|individual| individual.0).collect();
    *values.select_nth_unstable(elite - 1).1
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
            let value = keys.iter().map(|key| ((key - 0.5).abs() * 1000.0) as u64).sum();
            best = best.min(value);
            Some(value)
        });
        assert!(best < 100, "{best}");
        // The elite is not decoded again.
        assert_eq!(count, 60 + 59 * 48);
    }
}
