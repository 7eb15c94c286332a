//! Many short lists of numbers in one allocation (compressed sparse rows).

/// The lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberLists {
    /// Where each list starts, and the end of the last.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl NumberLists {
    pub(crate) fn new<I: IntoIterator<Item = u32>>(lists: impl Iterator<Item = I>) -> NumberLists {
        let mut made = NumberLists { starts: vec![0], items: Vec::new() };
        for list in lists {
            made.items.extend(list);
            made.starts.push(u32::try_from(made.items.len()).expect("fewer than 2^32 edges"));
        }
        made
    }

    /// For each of `count` keys its values, in the order given.
    pub(crate) fn group(count: usize, pairs: &[(u32, u32)]) -> NumberLists {
        let mut starts = vec![0u32; count + 1];
        for &(key, _) in pairs {
            starts[key as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for &(key, value) in pairs {
            items[next[key as usize] as usize] = value;
            next[key as usize] += 1;
        }
        NumberLists { starts, items }
    }

    /// The number of lists.
    pub(crate) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The length of all lists together.
    pub(crate) fn total_len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, i: usize) -> &[u32] {
        &self.items[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}
