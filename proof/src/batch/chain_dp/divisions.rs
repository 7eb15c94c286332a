//! How the inputs of an op can be shared by devices, and how they can go from one such sharing to another.
//!
//! All sizes that can be part of a division are multiples of a group of inputs, so a sharing says how many groups each device
//! has. Inputs need not move in groups: a batch may take a few of each batch before it. What counts of a move is which
//! batches hand inputs to which, and at least how many. The ways to move inputs between two sharings are a transport
//! polytope, whose corners are moves of whole groups; where a pair of batches exchanges inputs at all, it exchanges no fewer
//! than in the corner that has the fewest for it among those that use no other pairs, and no fewer than one.

/// The most devices: pairs of them are bits of a small number.
pub const MOST_DEVICES: usize = 3;
/// The most groups.
pub(super) const MOST_GROUPS: u32 = 8;

/// Groups of each device.
pub(super) type GroupDivision = [u32; MOST_DEVICES];

/// Inputs that a batch on one device hands to a batch on another, or keeps on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handed {
    pub(super) from: usize,
    pub(super) to: usize,
    /// At least so many groups; 0: at least one input.
    pub(super) groups: u32,
}

/// All sharings, and the moves between any two.
pub(super) struct Moves {
    pub(super) sharings: Vec<GroupDivision>,
    moves: Vec<Vec<Vec<Handed>>>,
}

impl Moves {
    pub(super) fn new(devices: usize, groups: u32) -> Moves {
        let mut sharings = Vec::new();
        for first in 0..=groups {
            for second in 0..=groups - first {
                let sharing = [first, second, groups - first - second];
                if sharing[devices..].iter().all(|&count| count == 0) {
                    sharings.push(sharing);
                }
            }
        }
        let pairs = sharings.iter().flat_map(|from| sharings.iter().map(move |to| (from, to)));
        let moves = pairs.map(|(from, to)| between(from, to)).collect();
        Moves { sharings, moves }
    }

    /// The moves from one sharing to another; those that are never better than another of them are left out.
    pub(super) fn between(&self, from: usize, to: usize) -> &[Vec<Handed>] {
        &self.moves[from * self.sharings.len() + to]
    }
}

/// Pairs of devices.
pub(super) const PAIRS: usize = MOST_DEVICES * MOST_DEVICES;

fn between(from: &GroupDivision, to: &GroupDivision) -> Vec<Vec<Handed>> {
    let mut whole = Vec::new();
    in_groups(from, *to, &mut Vec::new(), &mut whole);
    let used =
        |groups: &[u32; PAIRS]| (0..PAIRS).filter(|&pair| groups[pair] > 0).fold(0u32, |s, p| s | 1 << p);
    let mut supports: Vec<u32> = whole.iter().map(used).collect();
    // Whatever pairs a move uses, it is an average of corners that together use the same.
    let mut next = 0;
    while next < supports.len() {
        for other in 0..next {
            let united = supports[next] | supports[other];
            if !supports.contains(&united) {
                supports.push(united);
            }
        }
        next += 1;
    }
    supports.sort_by_key(|support| (support.count_ones(), *support));
    supports.dedup();
    let mut moves: Vec<Vec<Handed>> = Vec::new();
    for support in supports {
        let least = |pair: usize| {
            let within = whole.iter().filter(|groups| used(groups) & !support == 0);
            within.map(|groups| groups[pair]).min().unwrap_or(0)
        };
        let handed = |pair: usize| {
            let (from, to) = (pair / MOST_DEVICES, pair % MOST_DEVICES);
            // What stays where it is takes no time, however much it is.
            Handed { from, to, groups: if from == to { 0 } else { least(pair) } }
        };
        let new: Vec<Handed> = (0..PAIRS).filter(|&pair| support >> pair & 1 == 1).map(handed).collect();
        let is_better = |known: &Vec<Handed>| {
            known.iter().all(|k| new.iter().any(|n| (n.from, n.to) == (k.from, k.to) && k.groups <= n.groups))
        };
        if !moves.iter().any(is_better) {
            moves.push(new);
        }
    }
    moves
}

/// All moves of whole groups: for each pair of devices, how many.
fn in_groups(from: &GroupDivision, left: GroupDivision, chosen: &mut Vec<u32>, found: &mut Vec<[u32; PAIRS]>) {
    let Some(&has) = from.get(chosen.len() / MOST_DEVICES) else {
        if left.iter().all(|&count| count == 0)
            && let Ok(groups) = chosen.as_slice().try_into()
        {
            found.push(groups);
        }
        return;
    };
    let to = chosen.len() % MOST_DEVICES;
    let row = chosen.len() - to;
    let open = has - chosen[row..].iter().sum::<u32>();
    // The last device of a row takes what is left of it.
    let least = if to + 1 == MOST_DEVICES { open } else { 0 };
    for count in least..=open.min(left[to]) {
        let mut rest = left;
        rest[to] -= count;
        chosen.push(count);
        in_groups(from, rest, chosen, found);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(from: GroupDivision, to: GroupDivision) -> Vec<Vec<(usize, usize, u32)>> {
        let all = between(&from, &to);
        all.iter().map(|m| m.iter().map(|h| (h.from, h.to, h.groups)).collect()).collect()
    }

    #[test]
    fn what_one_device_has_is_handed_out_in_one_way() {
        assert_eq!(moves([4, 0, 0], [3, 1, 0]), [vec![(0, 0, 0), (0, 1, 1)]]);
        assert_eq!(moves([3, 1, 0], [0, 0, 4]), [vec![(0, 2, 3), (1, 2, 1)]]);
    }

    /// Everything stays, or changes places; a mixture of both is never better than staying.
    #[test]
    fn mixtures_that_wait_for_more_are_left_out() {
        assert_eq!(moves([2, 2, 0], [2, 2, 0]), [vec![(0, 1, 2), (1, 0, 2)], vec![(0, 0, 0), (1, 1, 0)]]);
    }

    /// A group can go directly, or partly by way of a device that hands on as much as it gets.
    #[test]
    fn inputs_of_a_group_can_part() {
        let all = moves([1, 2, 1], [2, 1, 1]);
        assert!(all.contains(&vec![(0, 0, 0), (1, 0, 1), (1, 1, 0), (2, 2, 0)]));
        assert!(all.contains(&vec![(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 2, 0), (2, 0, 0), (2, 2, 0)]));
    }
}
