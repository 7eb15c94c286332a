//! Units in pieces. A unit is an op, or some inputs of one; a place is a device, or a device and which inputs go together there.

use std::collections::HashSet;

/// The most pieces of a model. Who runs them loads every one; and each keeps a list of those it needs.
const MOST_PIECES: usize = 2048;

/// Units in pieces.
pub(super) struct Runs<P> {
    pub(super) piece_of: Vec<usize>,
    pub(super) places: Vec<P>,
}

impl<P: Copy> Runs<P> {
    /// The same pieces, numbered in an order in which they can run: each behind those that its units, whose needs are `before`,
    /// read from, and behind the one before it where `follows` says so.
    pub(super) fn in_running_order(
        &self,
        before: &[Vec<usize>],
        follows: &[Option<usize>],
    ) -> Result<Runs<P>, String> {
        let count = self.places.len();
        if count > MOST_PIECES {
            return Err(format!(
                "it changes devices so often that there would be more than {MOST_PIECES} pieces"
            ));
        }
        let mut needs: Vec<HashSet<usize>> = vec![HashSet::new(); count];
        for (unit, earlier) in before.iter().enumerate() {
            let here = self.piece_of[unit];
            let pieces = earlier.iter().map(|&earlier| self.piece_of[earlier]);
            needs[here].extend(pieces.filter(|&piece| piece != here));
        }
        needs.iter_mut().zip(follows).for_each(|(needs, before)| needs.extend(before));
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
