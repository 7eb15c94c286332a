//! Divisions of an op's inputs among devices, and the transitions from one division to another.
//!
//! A *division* says how many groups of inputs each device has. Inputs need not move in whole groups. What counts of a
//! transition is which pairs of batches exchange inputs, and at least how many. The ways to move inputs between two divisions
//! form a transportation polytope, whose vertices are transitions of whole groups. A transition that uses a set of pairs is a
//! convex combination of vertices whose pairs together are that set; so a pair exchanges at least as much as in the vertex
//! that has the least for it among those within the set, and at least one input.
//!
//! Complexity: constant for three devices and eight groups at most.

/// The most devices: pairs of them are bits of a small number.
pub const MOST_DEVICES: usize = 3;
/// The most groups.
pub(super) const MOST_GROUPS: u32 = 8;

/// The groups of each device.
pub(super) type GroupDivision = [u32; MOST_DEVICES];

/// Inputs that a batch on one device hands to a batch on another device or on the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shipment {
    pub(super) from: usize,
    pub(super) to: usize,
    /// At least this many groups; 0: at least one input.
    pub(super) groups: u32,
}

/// All divisions, and the transitions between any two of them.
pub(super) struct Transitions {
    pub(super) divisions: Vec<GroupDivision>,
    between: Vec<Vec<Vec<Shipment>>>,
}

impl Transitions {
    /// All divisions of `groups` groups among the first `devices` devices.
    pub(super) fn new(devices: usize, groups: u32) -> Transitions {
        let mut divisions = Vec::new();
        for first in 0..=groups {
            for second in 0..=groups - first {
                let division = [first, second, groups - first - second];
                if division[devices..].iter().all(|&count| count == 0) {
                    divisions.push(division);
                }
            }
        }
        let pairs = divisions.iter().flat_map(|from| divisions.iter().map(move |to| (from, to)));
        let between = pairs.map(|(from, to)| transitions(from, to)).collect();
        Transitions { divisions, between }
    }

    /// The transitions from one division to another, each a list of shipments; dominated ones are left out.
    pub(super) fn between(&self, from: usize, to: usize) -> &[Vec<Shipment>] {
        &self.between[from * self.divisions.len() + to]
    }
}

/// The number of ordered pairs of devices.
pub(super) const PAIRS: usize = MOST_DEVICES * MOST_DEVICES;

/// The undominated transitions: one for each set of pairs that some convex combination of vertices uses.
fn transitions(from: &GroupDivision, to: &GroupDivision) -> Vec<Vec<Shipment>> {
    let mut whole = Vec::new();
    list_vertices(from, *to, &mut Vec::new(), &mut whole);
    let used =
        |groups: &[u32; PAIRS]| (0..PAIRS).filter(|&pair| groups[pair] > 0).fold(0u32, |s, p| s | 1 << p);
    let mut supports: Vec<u32> = whole.iter().map(used).collect();
    // Every transition is a convex combination of vertices that together use the same pairs.
    let mut next = 0;
    while next < supports.len() {
        for other in 0..next {
            let union = supports[next] | supports[other];
            if !supports.contains(&union) {
                supports.push(union);
            }
        }
        next += 1;
    }
    supports.sort_by_key(|support| (support.count_ones(), *support));
    supports.dedup();
    let mut undominated: Vec<Vec<Shipment>> = Vec::new();
    for support in supports {
        let least = |pair: usize| {
            let within = whole.iter().filter(|groups| used(groups) & !support == 0);
            within.map(|groups| groups[pair]).min().unwrap_or(0)
        };
        let shipment = |pair: usize| {
            let (from, to) = (pair / MOST_DEVICES, pair % MOST_DEVICES);
            // Inputs that stay on a device take no time, however many they are.
            Shipment { from, to, groups: if from == to { 0 } else { least(pair) } }
        };
        let new: Vec<Shipment> = (0..PAIRS).filter(|&pair| support >> pair & 1 == 1).map(shipment).collect();
        let is_better = |known: &Vec<Shipment>| {
            known.iter().all(|k| new.iter().any(|n| (n.from, n.to) == (k.from, k.to) && k.groups <= n.groups))
        };
        if !undominated.iter().any(is_better) {
            undominated.push(new);
        }
    }
    undominated
}

/// All transitions of whole groups, as the number of groups for each pair of devices; among them are all vertices.
fn list_vertices(
    from: &GroupDivision,
    left: GroupDivision,
    chosen: &mut Vec<u32>,
    found: &mut Vec<[u32; PAIRS]>,
) {
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
        list_vertices(from, rest, chosen, found);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(from: GroupDivision, to: GroupDivision) -> Vec<Vec<(usize, usize, u32)>> {
        let all = transitions(&from, &to);
        all.iter().map(|m| m.iter().map(|h| (h.from, h.to, h.groups)).collect()).collect()
    }

    #[test]
    fn one_device_has_a_single_transition() {
        assert_eq!(listed([4, 0, 0], [3, 1, 0]), [vec![(0, 0, 0), (0, 1, 1)]]);
        assert_eq!(listed([3, 1, 0], [0, 0, 4]), [vec![(0, 2, 3), (1, 2, 1)]]);
    }

    /// Everything stays, or is swapped; a mixture of both is dominated by staying.
    #[test]
    fn dominated_mixtures_are_left_out() {
        assert_eq!(listed([2, 2, 0], [2, 2, 0]), [vec![(0, 1, 2), (1, 0, 2)], vec![(0, 0, 0), (1, 1, 0)]]);
    }

    /// A group can go directly, or in part through a device that hands on as much as it receives.
    #[test]
    fn a_group_can_be_divided() {
        let all = listed([1, 2, 1], [2, 1, 1]);
        assert!(all.contains(&vec![(0, 0, 0), (1, 0, 1), (1, 1, 0), (2, 2, 0)]));
        assert!(all.contains(&vec![(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 2, 0), (2, 0, 0), (2, 2, 0)]));
    }
}
