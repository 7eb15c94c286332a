//! Many random numbers, fast: gigabytes of weights are to be written as fast as a disk takes them.
//!
//! Normal variates are drawn once, about a million of them, and scaled once for each spread. A weight is stretches of that
//! block: each begins at a place drawn for it and ends with the block. So bytes are copied and not computed, and a weight
//! depends on the seed, its name and its length alone: the same in fp16 (but for rounding) as in fp32, with any number of
//! tokens. Numbers repeat, within a weight and among weights; nothing that is timed depends on that.

use divvy_core::rng::Rng;

use super::content::NumberFormat;

/// How many numbers the block has: 4 MiB of 32-bit floats, which most processors keep in a cache.
const BLOCK: usize = 1 << 20;

/// Random numbers of any mean and deviation.
pub(super) struct RandomNumbers {
    seed: u64,
    numbers: NumberFormat,
    normals: Vec<f32>,
    /// The block by mean and deviation, as raw data.
    scaled: Vec<([f32; 2], Vec<u8>)>,
}

impl RandomNumbers {
    /// Those of a seed.
    pub(super) fn new(seed: u64, numbers: NumberFormat) -> RandomNumbers {
        let mut rng = Rng::new(seed);
        let normals = (0..BLOCK).map(|_| rng.normal() as f32).collect();
        RandomNumbers { seed, numbers, normals, scaled: Vec::new() }
    }

    /// Gives `count` numbers of the weight called `name` to `take`, as raw data, stretch by stretch.
    pub(super) fn stretches<E>(
        &mut self,
        name: &str,
        [mean, deviation]: [f32; 2],
        count: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rng = Rng::new(name.bytes().fold(self.seed, |seed, byte| {
            // A stream's first number depends on every bit of its seed.
            Rng::new(seed ^ u64::from(byte)).next_u64()
        }));
        let bytes = self.numbers.bytes() as usize;
        let block = self.block([mean, deviation]);
        let mut left = count;
        while left > 0 {
            let start = rng.below(BLOCK);
            let length = left.min((BLOCK - start) as u64);
            take(&block[start * bytes..(start + length as usize) * bytes])?;
            left -= length;
        }
        Ok(())
    }

    fn block(&mut self, spread: [f32; 2]) -> &[u8] {
        let known = self.scaled.iter().position(|(other, _)| *other == spread);
        let place = known.unwrap_or_else(|| {
            let [mean, deviation] = spread;
            let mut data = Vec::with_capacity(BLOCK * self.numbers.bytes() as usize);
            for normal in &self.normals {
                self.numbers.append(mean + deviation * normal, &mut data);
            }
            self.scaled.push((spread, data));
            self.scaled.len() - 1
        });
        &self.scaled[place].1
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn numbers(seed: u64, name: &str, spread: [f32; 2], count: u64) -> Vec<f32> {
        let mut found = Vec::new();
        let mut random = RandomNumbers::new(seed, NumberFormat::Fp32);
        let taken: Result<(), Infallible> = random.stretches(name, spread, count, |data| {
            found.extend(data.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())));
            Ok(())
        });
        taken.unwrap();
        found
    }

    #[test]
    fn numbers_are_as_many_and_as_far_spread_as_asked_for() {
        let count = 2_500_000;
        let found = numbers(1, "w", [1.0, 0.5], count);
        assert_eq!(found.len() as u64, count);
        let mean = found.iter().map(|&number| f64::from(number)).sum::<f64>() / count as f64;
        let square = found.iter().map(|&number| (f64::from(number) - mean).powi(2)).sum::<f64>();
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!(((square / count as f64).sqrt() - 0.5).abs() < 0.01);
    }

    #[test]
    fn seed_and_name_decide() {
        let plain = [0.0, 1.0];
        assert_eq!(numbers(1, "a", plain, 100), numbers(1, "a", plain, 100));
        assert_ne!(numbers(1, "a", plain, 100), numbers(1, "b", plain, 100));
        assert_ne!(numbers(1, "a", plain, 100), numbers(2, "a", plain, 100));
        let all = numbers(1, "a", plain, 3000);
        assert_eq!(
            numbers(1, "a", plain, 100),
            all[..100],
            "a longer weight goes on where a shorter one ends"
        );
    }
}
