//! Clauses, each watched by two of its literals (Moskewicz et al. 2001), and which of those learnt are kept.

use crate::stream::conflict_search::{Literal, negated};

/// Clauses that are kept at least before any are forgotten, and how many more each time.
const ROOM: usize = 4000;
const MORE_ROOM: usize = 500;

struct Clause {
    literals: Vec<Literal>,
    /// In how many levels its literals were when it was learnt: the fewer, the more useful. 0: it lasts.
    levels: u32,
}

/// All clauses.
pub(crate) struct Clauses {
    all: Vec<Clause>,
    /// By literal, the clauses that look at it.
    watching: Vec<Vec<u32>>,
    room: usize,
    lasting: usize,
}

impl Clauses {
    pub(crate) fn new(literals: usize) -> Clauses {
        Clauses { all: Vec::new(), watching: vec![Vec::new(); literals], room: ROOM, lasting: 0 }
    }

    pub(crate) fn literals(&self, number: u32) -> &[Literal] {
        &self.all[number as usize].literals
    }

    /// Adds a clause of at least two literals that is never forgotten.
    pub(crate) fn add_lasting(&mut self, literals: Vec<Literal>) {
        self.lasting += 1;
        self.add(Clause { literals, levels: 0 });
    }

    /// Adds a clause of at least two literals whose first follows from it, and whose second was false last.
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

    /// What follows once a literal is false: literals with the clauses that say so. Literals of a clause that is broken, if
    /// one is.
    pub(crate) fn follow(
        &mut self,
        falsified: Literal,
        holds: &[bool],
        follows: &mut Vec<(Literal, u32)>,
    ) -> Option<u32> {
        let mut watching = std::mem::take(&mut self.watching[falsified]);
        let mut kept = 0;
        let mut broken = None;
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
                broken = Some(number);
                break;
            }
            follows.push((first, number));
        }
        while i < watching.len() {
            watching[kept] = watching[i];
            kept += 1;
            i += 1;
        }
        watching.truncate(kept);
        self.watching[falsified] = watching;
        broken
    }

    /// Forgets half of the clauses learnt, those of most levels, once there are many. Nothing but what holds before any
    /// decision may be on the trail; its reasons no longer matter.
    pub(crate) fn forget(&mut self) {
        if self.all.len() - self.lasting < self.room {
            return;
        }
        self.room += MORE_ROOM;
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
