//! Maximal runs of units in one place. A unit is an op, or some inputs of one; a place is a device, or a device and which
//! inputs go together there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use super::Cutting;

/// The most pieces of a model. Who runs them loads every one; and each keeps a list of those it needs.
const MOST_PIECES: usize = 2048;

/// What is put into pieces.
pub(super) struct Units<P> {
    /// Where each is.
    pub(super) place: Vec<P>,
    /// For each, the units that it needs.
    pub(super) before: Vec<Vec<usize>>,
}

/// Units in pieces.
pub(super) struct Runs<P> {
    pub(super) piece_of: Vec<usize>,
    pub(super) places: Vec<P>,
}

impl<P: Copy + Eq + Hash> Units<P> {
    /// An order that data and the lists of what each device runs allow.
    pub(super) fn order(&self, lists: &[Vec<usize>]) -> Vec<usize> {
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); self.before.len()];
        for (unit, before) in self.before.iter().enumerate() {
            before.iter().for_each(|&earlier| after[earlier].push(unit));
        }
        // Round after round each device runs what its list and the data allow; a checked plan never stalls.
        let mut next = vec![0usize; lists.len()];
        let mut waiting: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut order = Vec::with_capacity(self.before.len());
        loop {
            let before = order.len();
            for (device, list) in lists.iter().enumerate() {
                while let Some(&unit) = list.get(next[device]).filter(|&&unit| waiting[unit] == 0) {
                    next[device] += 1;
                    order.push(unit);
                    after[unit].iter().for_each(|&later| waiting[later] -= 1);
                }
            }
            if order.len() == before {
                return order;
            }
        }
    }

    /// Puts units into pieces, keeping for every piece the set of pieces that it needs, directly or through others.
    pub(super) fn runs(&self, order: &[usize], cutting: Cutting) -> Result<Runs<P>, String> {
        let elsewhere = |a: usize, b: usize| self.place[a] != self.place[b];
        let mut leaves = vec![false; self.place.len()];
        for (unit, before) in self.before.iter().enumerate() {
            before
                .iter()
                .filter(|&&earlier| elsewhere(earlier, unit))
                .for_each(|&earlier| leaves[earlier] = true);
        }
        let mut runs = Runs { piece_of: vec![0; self.place.len()], places: Vec::new() };
        let mut needs: Vec<BTreeSet<usize>> = Vec::new();
        let mut open: HashMap<P, usize> = HashMap::new();
        for &unit in order {
            let place = self.place[unit];
            let mut wanted = BTreeSet::new();
            for &earlier in &self.before[unit] {
                let piece = runs.piece_of[earlier];
                wanted.insert(piece);
                wanted.extend(&needs[piece]);
            }
            if cutting == Cutting::Prompt && self.before[unit].iter().any(|&earlier| elsewhere(earlier, unit))
            {
                open.remove(&place);
            }
            // Joining is wrong if something outside the piece, that the unit needs, needs the piece itself.
            let fits =
                |piece: &usize| !wanted.iter().any(|other| other != piece && needs[*other].contains(piece));
            let piece = open.get(&place).copied().filter(fits).unwrap_or_else(|| {
                runs.places.push(place);
                needs.push(BTreeSet::new());
                open.insert(place, needs.len() - 1);
                needs.len() - 1
            });
            if runs.places.len() > MOST_PIECES {
                return Err(format!(
                    "it changes devices so often that there would be more than {MOST_PIECES} pieces"
                ));
            }
            runs.piece_of[unit] = piece;
            if cutting == Cutting::Prompt && leaves[unit] {
                open.remove(&place);
            }
            wanted.remove(&piece);
            if !wanted.is_subset(&needs[piece]) {
                // What needs this piece now needs more.
                for (other, set) in needs.iter_mut().enumerate() {
                    if other == piece || set.contains(&piece) {
                        set.extend(&wanted);
                    }
                }
            }
        }
        Ok(runs)
    }
}

impl<P: Copy> Runs<P> {
    /// The same pieces, numbered in an order in which they can run.
    pub(super) fn in_running_order(&self, before: &[Vec<usize>]) -> Result<Runs<P>, String> {
        let count = self.places.len();
        let mut needs: Vec<HashSet<usize>> = vec![HashSet::new(); count];
        for (unit, earlier) in before.iter().enumerate() {
            let here = self.piece_of[unit];
            let pieces = earlier.iter().map(|&earlier| self.piece_of[earlier]);
            needs[here].extend(pieces.filter(|&piece| piece != here));
        }
        let mut rank: Vec<Option<usize>> = vec![None; count];
        let mut places = Vec::with_capacity(count);
        while places.len() < count {
            let ready =
                |piece: &usize| rank[*piece].is_none() && needs[*piece].iter().all(|&p| rank[p].is_some());
            let next = (0..count).find(ready).ok_or("the pieces would wait for each other")?;
            rank[next] = Some(places.len());
            places.push(self.places[next]);
        }
        let piece_of = self.piece_of.iter().map(|&piece| rank[piece].unwrap_or(0)).collect();
        Ok(Runs { piece_of, places })
    }
}
