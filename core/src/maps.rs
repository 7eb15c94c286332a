//! Maps for the names of large networks. Their hash is quicker than the standard library's; its seed is another in every
//! process, so that no file can be made to collide.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A map, made with `default()` or [`map_for`].
pub type FastMap<K, V> = HashMap<K, V, RandomState>;
/// A set, made with `default()` or [`set_for`].
pub type FastSet<K> = HashSet<K, RandomState>;

/// An empty map with room for so many.
pub fn map_for<K, V>(count: usize) -> FastMap<K, V> {
    FastMap::with_capacity_and_hasher(count, RandomState::default())
}

/// An empty set with room for so many.
pub fn set_for<K>(count: usize) -> FastSet<K> {
    FastSet::with_capacity_and_hasher(count, RandomState::default())
}
