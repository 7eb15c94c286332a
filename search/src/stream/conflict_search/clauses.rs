//! The clause database: two watched literals for each clause (Moskewicz et al. 2001), and deletion by the number of decision
//! levels (literal block distance, Audemard and Simon 2009).

use crate::stream::conflict_search::literal::{Literal, negated};

/// The number of learnt clauses from which half of them are deleted, and its growth after each deletion.
const FIRST_LIMIT: usize = 4000;
const LIMIT_GROWTH: usize = 500;

struct Clause {
    literals: Vec<Literal>,
    /// The number of decision levels among its literals when it was learnt; 0 if it is never deleted.
    levels: u32,
}

/// The clauses.
pub(crate) struct Clauses {
    all: Vec<Clause>,
    /// By literal, the clauses that watch it.
    watching: Vec<Vec<u32>>,
    /// The number of learnt clauses from which some are deleted.
    limit: usize,
    /// The number of clauses that are never deleted.
    lasting: usize,
}

impl Clauses {
    pub(crate) fn new(literals: usize) -> Clauses {
        Clauses { all: Vec::new(), watching: vec![Vec::new(); literals], limit: FIRST_LIMIT, lasting: 0 }
    }

    pub(crate) fn literals(&self, number: u32) -> &[Literal] {
        &self.all[number as usize].literals
    }

    /// Adds a clause of at least two literals that is never deleted.
    pub(crate) fn add_lasting(&mut self, literals: Vec<Literal>) {
        self.lasting += 1;
        self.add(Clause { literals, levels: 0 });
    }

    /// Adds a learnt clause of at least two literals: the first is asserted by it, the second is the one falsified last.
    pub(crate) fn add_learnt(&mut self, literals: Vec<Literal>, levels: u32) -> u32 {
        self.add(Clause { literals, levels: levels.max(1) })
    }

    fn add(&mut self, clause: Clause) -> u32 {
        let number = self.all.len() as u32;
        for &literal in &clause.literals[..2] {
            self.watching[literal].push(number);
        }
        self.all.push(clause);
        number
    }

    /// Unit propagation once a literal is false: adds the implied literals, with their clauses. A falsified clause, if there is
    /// one.
    pub(crate) fn propagate(
        &mut self,
        falsified: Literal,
        holds: &[bool],
        implied: &mut Vec<(Literal, u32)>,
    ) -> Option<u32> {
        let mut watching = std::mem::take(&mut self.watching[falsified]);
        let mut kept = 0;
        let mut conflict = None;
        let mut i = 0;
        while i < watching.len() {
            let number = watching[i];
            i += 1;
            let literals = &mut self.all[number as usize].literals;
            if literals[0] == falsified {
                literals.swap(0, 1);
            }
            let first = literals[0];
            if holds[first] {
                watching[kept] = number;
                kept += 1;
                continue;
            }
            if let Some(other) = (2..literals.len()).find(|&j| !holds[negated(literals[j])]) {
                literals.swap(1, other);
                let now = literals[1];
                self.watching[now].push(number);
                continue;
            }
            watching[kept] = number;
            kept += 1;
            if holds[negated(first)] {
                conflict = Some(number);
                break;
            }
            implied.push((first, number));
        }
        while i < watching.len() {
            watching[kept] = watching[i];
            kept += 1;
            i += 1;
        }
        watching.truncate(kept);
        self.watching[falsified] = watching;
        conflict
    }

    /// Deletes the half of the learnt clauses with most levels, if there are many. Only literals of decision level 0 may be on
    /// the trail: their reasons are not needed any more.
    pub(crate) fn forget(&mut self) {
        if self.all.len() - self.lasting < self.limit {
            return;
        }
        self.limit += LIMIT_GROWTH;
        let mut levels: Vec<u32> = self.all.iter().map(|clause| clause.levels).filter(|&l| l > 0).collect();
        levels.sort_unstable();
        let most = levels[levels.len() / 2].max(2);
        self.watching.iter_mut().for_each(Vec::clear);
        self.all.retain(|clause| clause.levels <= most);
        for (number, clause) in self.all.iter().enumerate() {
            for &literal in &clause.literals[..2] {
                self.watching[literal].push(number as u32);
            }
        }
    }
}
