//! Changes that keep a text file readable: to the structure of JSON and TOML, rather than to its bytes.

use divvy_core::rng::Rng;

use crate::assess::loaded;
use crate::mutate;

/// Changes the file in `data`, whose first `size` bytes count; the new size. Half of the time `plain` does it.
pub fn change(
    data: &mut [u8],
    size: usize,
    most: usize,
    seed: u32,
    plain: impl FnOnce(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut rng = Rng::new(seed.into());
    let changed = match rng.below(8) {
        0..4 => None,
        4 => Some(mutate::text(&data[..size], &mut rng)),
        way => loaded(&data[..size]).parse().ok().map(|value| {
            let value = mutate::structure(&value, &mut rng);
            let toml = (way == 5).then(|| toml::to_string(&value).ok()).flatten();
            toml.unwrap_or_else(|| value.to_string()).into_bytes()
        }),
    };
    put(data, changed, most).unwrap_or_else(|| plain(data, size, most))
}

/// Puts what was made in place, if it fits; its size.
pub fn put(data: &mut [u8], made: Option<Vec<u8>>, most: usize) -> Option<usize> {
    let made = made.filter(|made| made.len() <= most.min(data.len()))?;
    data[..made.len()].copy_from_slice(&made);
    Some(made.len())
}
