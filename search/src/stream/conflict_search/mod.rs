//! Conflict-driven search (Marques-Silva and Sakallah 1999) for a placement within a threshold.
//!
//! *Units* are ops that must share a device. There is a variable for each unit and device; a unit is on exactly one. Four
//! rules follow from the threshold T, each with its reasons in terms of those variables:
//! * the times of a device's units add up to at most T, and their bytes to at most its memory;
//! * the bytes over a link add up to at most what it carries within T; where every way passes one medium (Wi-Fi), a tensor
//!   whose producer and reader can no longer share a device counts as soon as that is known;
//! * the work that is left fits what the devices may still take, with weights as in the area bound and with the prices of
//!   the linear relaxation at each decision (a linear program explained by clauses, as in CP-SAT);
//! * equal devices are opened in their order.
//!
//! From each contradiction a clause is learnt (first unique implication point), and the search goes on where that clause
//! first says something. Units that took part in contradictions are decided first, and go where they were before.
//! Lowering T keeps every clause valid. What is refuted is attested, and compared with brute force in the tests.

pub(crate) mod clauses;
pub(crate) mod propagation;
pub(crate) mod relaxation;
pub(crate) mod trail;

use divvy_core::rng::Rng;

use crate::stream::conflict_search::clauses::Clauses;
use crate::stream::conflict_search::relaxation::AreaRelaxation;
use crate::stream::conflict_search::trail::Model;
use crate::stream::tables::StreamTables;

/// A variable that is true (even) or false (odd).
type Literal = usize;

const fn negated(literal: Literal) -> Literal {
    literal ^ 1
}

/// Why a literal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It was decided, or holds from the start.
    None,
    /// All other literals of a clause are false.
    Clause(u32),
    /// The unit is elsewhere.
    Elsewhere,
    /// The unit has nowhere else to be.
    Nowhere,
    /// The device has no more room in time.
    Device,
    /// Nor in memory.
    Memory,
    /// A tensor has no more room on a link; the literal that would send it.
    Link { link: u32, tensor: u32, because: u32 },
    /// Literals that were written down.
    Stored(u32),
}

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConflictResult {
    /// A device for each op, within the threshold.
    Placement(Vec<u8>),
    /// There is no placement within the threshold.
    Nothing,
    /// The conflicts that were allowed are used up, or it was told to stop.
    Unknown,
}

/// Conflicts before the first restart; later ones follow Luby's sequence.
const RESTART: u64 = 128;
/// How much less earlier conflicts count.
const DECAY: f64 = 1.0 / 0.95;
/// Share of decisions that are made at random.
const RANDOM: f64 = 0.01;

/// A search, with all it has learnt.
pub(crate) struct ConflictSearch<'t> {
    model: Model<'t>,
    relaxation: Option<AreaRelaxation>,
    clauses: Clauses,
    rng: Rng,
    /// By literal: whether it holds.
    holds: Vec<bool>,
    reason: Vec<Reason>,
    level: Vec<u32>,
    /// By variable, its place on the trail.
    position: Vec<u32>,
    trail: Vec<Literal>,
    /// Where each decision is on the trail.
    decisions: Vec<usize>,
    /// How much of the trail was followed up.
    followed: usize,
    /// Reasons written down, and where on the trail each was.
    stored: Vec<Vec<Literal>>,
    stored_at: Vec<usize>,
    activity: Vec<f64>,
    bump: f64,
    phase: Vec<u8>,
    restarts: u64,
    is_refuted: bool,
    conflicts: u64,
}

impl<'t> ConflictSearch<'t> {
    /// A search of placements within a threshold; `start` is where units go if nothing speaks against it,
    /// `weights` are those of the area bound, and no device can be busy for longer than `longest`.
    pub(crate) fn new(
        tables: &'t StreamTables,
        threshold: u64,
        start: &[u8],
        weights: &[u64],
        longest: &[u64],
        seed: u64,
    ) -> ConflictSearch<'t> {
        let model = Model::new(tables, threshold, weights, longest);
        let variables = model.units * model.devices;
        let mut phase = vec![0; model.units];
        for (op, &device) in start.iter().enumerate() {
            phase[model.unit_of[op]] = device;
        }
        let activity = model.sizes();
        let relaxation = AreaRelaxation::new(&model);
        let mut search = ConflictSearch {
            clauses: Clauses::new(2 * variables),
            rng: Rng::new(seed),
            holds: vec![false; 2 * variables],
            reason: vec![Reason::None; variables],
            level: vec![0; variables],
            position: vec![0; variables],
            trail: Vec::with_capacity(variables),
            decisions: Vec::new(),
            followed: 0,
            stored: Vec::new(),
            stored_at: Vec::new(),
            activity,
            bump: 1.0,
            phase,
            restarts: 0,
            is_refuted: false,
            conflicts: 0,
            relaxation,
            model,
        };
        search.begin();
        search
    }

    /// Contradictions so far.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// What holds from the start: where units must not be, and the order of equal devices.
    fn begin(&mut self) {
        for unit in 0..self.model.units {
            for device in 0..self.model.devices {
                if self.model.time(unit, device).is_none() {
                    let literal = negated(self.model.literal(unit, device));
                    self.assume(literal);
                }
            }
        }
        for device in 0..self.model.devices {
            let Some(&twin) = self.model.tables.twins_before[device].last() else { continue };
            // A unit is on the later of two equal devices only if one before it is on the earlier.
            let mut clause: Vec<Literal> = Vec::new();
            for unit in 0..self.model.real {
                let later = negated(self.model.literal(unit, device));
                if clause.is_empty() {
                    self.assume(later);
                } else {
                    let mut whole = vec![later];
                    whole.extend(&clause);
                    self.clauses.add_lasting(whole);
                }
                clause.push(self.model.literal(unit, twin));
            }
        }
        self.is_refuted |= !self.follow_from_start();
    }

    /// Makes a literal hold before any decision.
    fn assume(&mut self, literal: Literal) {
        if self.holds[negated(literal)] {
            self.is_refuted = true;
        } else if !self.holds[literal] {
            self.set(literal, Reason::None);
        }
    }

    /// Allows less than before.
    pub(crate) fn lower(&mut self, threshold: u64) {
        self.back_to(0);
        self.model.set_threshold(threshold);
        self.is_refuted |= !self.follow_from_start();
    }

    /// Sets where units go if nothing speaks against it.
    pub(crate) fn prefer(&mut self, placement: &[u8]) {
        for (op, &device) in placement.iter().enumerate() {
            self.phase[self.model.unit_of[op]] = device;
        }
    }

    fn follow_from_start(&mut self) -> bool {
        self.model.mark_all();
        self.follow().is_none()
    }

    /// Searches until something is known, that many contradictions are met, or `is_over`.
    pub(crate) fn search(&mut self, most: u64, is_over: &mut dyn FnMut() -> bool) -> ConflictResult {
        let until = self.conflicts + most;
        let mut restart_at = self.conflicts + RESTART * luby(self.restarts);
        let mut steps = 0u64;
        loop {
            if self.is_refuted {
                return ConflictResult::Nothing;
            }
            steps += 1;
            if self.conflicts >= until || (steps.is_multiple_of(32) && is_over()) {
                self.back_to(0);
                return ConflictResult::Unknown;
            }
            if let Some(conflict) = self.follow() {
                self.conflicts += 1;
                self.learn(conflict);
                continue;
            }
            if self.conflicts >= restart_at {
                self.restarts += 1;
                restart_at = self.conflicts + RESTART * luby(self.restarts);
                self.back_to(0);
                self.clauses.forget();
                continue;
            }
            let Some(unit) = self.next_unit() else {
                if let Some(conflict) = self.model.shared_weights_too_large() {
                    self.conflicts += 1;
                    self.learn(conflict);
                    continue;
                }
                let placement = self.placement();
                self.back_to(0);
                return ConflictResult::Placement(placement);
            };
            let device = self.next_device(unit);
            self.decisions.push(self.trail.len());
            self.set(self.model.literal(unit, device), Reason::None);
        }
    }

    /// The unit without a device that took part in most contradictions of late.
    fn next_unit(&mut self) -> Option<usize> {
        let open = |unit: &usize| self.model.at[*unit].is_none();
        if self.rng.chance(RANDOM) {
            let all: Vec<usize> = (0..self.model.units).filter(open).collect();
            return if all.is_empty() { None } else { Some(*self.rng.pick(&all)) };
        }
        (0..self.model.units).filter(open).max_by(|&a, &b| self.activity[a].total_cmp(&self.activity[b]))
    }

    /// Where it was last, or else where it is done first.
    fn next_device(&self, unit: usize) -> usize {
        let may = |device: &usize| !self.holds[negated(self.model.literal(unit, *device))];
        let before = usize::from(self.phase[unit]);
        if before < self.model.devices && may(&before) {
            return before;
        }
        let done = |device: &usize| self.model.done_at(unit, *device);
        (0..self.model.devices).filter(may).min_by_key(done).unwrap_or(before)
    }

    fn placement(&self) -> Vec<u8> {
        let at = |op: usize| self.model.at[self.model.unit_of[op]].unwrap_or(0) as u8;
        (0..self.model.tables.ops).map(at).collect()
    }

    /// Makes a literal hold.
    fn set(&mut self, literal: Literal, reason: Reason) {
        let variable = literal / 2;
        self.holds[literal] = true;
        self.reason[variable] = reason;
        self.level[variable] = self.decisions.len() as u32;
        self.position[variable] = self.trail.len() as u32;
        self.trail.push(literal);
    }

    /// Takes back all decisions after the first `level`.
    fn back_to(&mut self, level: usize) {
        let Some(&length) = self.decisions.get(level) else { return };
        while self.trail.len() > length {
            let Some(literal) = self.trail.pop() else { break };
            if self.trail.len() < self.followed {
                self.model.undo(literal, self.trail.len());
                if literal.is_multiple_of(2) {
                    let (unit, device) = self.model.unit_and_device(literal);
                    self.phase[unit] = device as u8;
                }
            }
            self.holds[literal] = false;
        }
        self.followed = self.followed.min(length);
        while self.stored_at.last().is_some_and(|&at| at >= length) {
            self.stored_at.pop();
            self.stored.pop();
        }
        self.decisions.truncate(level);
    }

    /// Writes reasons down.
    fn store(&mut self, literals: Vec<Literal>) -> Reason {
        self.stored.push(literals);
        self.stored_at.push(self.trail.len());
        Reason::Stored(self.stored.len() as u32 - 1)
    }

    /// Learns from literals that cannot all hold, and goes back to where that says something.
    fn learn(&mut self, conflict: Vec<Literal>) {
        let highest = conflict.iter().map(|&l| self.level[l / 2]).max().unwrap_or(0);
        if highest == 0 {
            self.is_refuted = true;
            return;
        }
        self.back_to(highest as usize);
        let mut seen = vec![false; self.level.len()];
        let mut learnt: Vec<Literal> = Vec::new();
        let mut open = 0;
        let mut reasons = conflict;
        let mut place = self.trail.len();
        let asserting = loop {
            for literal in reasons.drain(..) {
                let variable = literal / 2;
                if seen[variable] || self.level[variable] == 0 {
                    continue;
                }
                seen[variable] = true;
                self.activity[variable / self.model.devices] += self.bump;
                if self.level[variable] == highest {
                    open += 1;
                } else {
                    learnt.push(negated(literal));
                }
            }
            let literal = loop {
                place -= 1;
                if seen[self.trail[place] / 2] {
                    break self.trail[place];
                }
            };
            open -= 1;
            if open == 0 {
                break negated(literal);
            }
            reasons = self.explain(literal);
        };
        self.bump *= DECAY;
        if self.bump > 1e100 {
            self.activity.iter_mut().for_each(|activity| *activity *= 1e-100);
            self.bump *= 1e-100;
        }
        self.shorten(&mut learnt, &seen);
        let back = learnt.iter().map(|&l| self.level[l / 2]).max().unwrap_or(0);
        if let Some(watched) = (0..learnt.len()).max_by_key(|&i| self.level[learnt[i] / 2]) {
            learnt.swap(0, watched);
        }
        let mut levels: Vec<u32> = learnt.iter().map(|&l| self.level[l / 2]).collect();
        self.back_to(back as usize);
        if learnt.is_empty() {
            self.set(asserting, Reason::None);
            return;
        }
        levels.sort_unstable();
        levels.dedup();
        let mut clause = vec![asserting];
        clause.append(&mut learnt);
        let number = self.clauses.add_learnt(clause, levels.len() as u32);
        self.set(asserting, Reason::Clause(number));
    }

    /// Leaves out literals that the others imply.
    fn shorten(&self, learnt: &mut Vec<Literal>, seen: &[bool]) {
        let implied = |&literal: &Literal| {
            let variable = literal / 2;
            if matches!(self.reason[variable], Reason::None) {
                return false;
            }
            let reasons = self.explain(negated(literal));
            reasons.iter().all(|&l| self.level[l / 2] == 0 || seen[l / 2])
        };
        let kept: Vec<Literal> = learnt.iter().copied().filter(|literal| !implied(literal)).collect();
        *learnt = kept;
    }

    /// The literals that make one hold, all before it on the trail.
    fn explain(&self, literal: Literal) -> Vec<Literal> {
        let variable = literal / 2;
        let (unit, device) = self.model.unit_and_device(literal);
        let before = self.position[variable];
        match self.reason[variable] {
            Reason::None => Vec::new(),
            Reason::Clause(number) => {
                self.clauses.literals(number).iter().filter(|&&l| l != literal).map(|&l| negated(l)).collect()
            }
            Reason::Elsewhere => {
                self.model.at[unit].map(|at| self.model.literal(unit, at)).into_iter().collect()
            }
            Reason::Nowhere => (0..self.model.devices)
                .filter(|&other| other != device)
                .map(|other| negated(self.model.literal(unit, other)))
                .collect(),
            Reason::Device => {
                let room = self.model.threshold.saturating_sub(self.model.time(unit, device).unwrap_or(0));
                self.model.too_long(device, room, before, &self.position)
            }
            Reason::Memory => {
                let room = self.model.memory_room(unit, device);
                self.model.too_large(device, room, before, &self.position)
            }
            Reason::Link { link, tensor, because } => {
                let room = self.model.link_room(link as usize, tensor as usize, because as usize, literal);
                let mut reasons = self.model.too_many_bytes(link as usize, room, before);
                reasons.push(because as usize);
                reasons
            }
            Reason::Stored(number) => self.stored[number as usize].clone(),
        }
    }
}

/// 1, 1, 2, 1, 1, 2, 4, …
fn luby(mut index: u64) -> u64 {
    loop {
        let (mut size, mut power) = (1u64, 1u64);
        while size < index + 1 {
            size = 2 * size + 1;
            power *= 2;
        }
        if size == index + 1 {
            return power;
        }
        index -= size / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lubys_sequence_begins_as_published() {
        assert_eq!((0..15).map(luby).collect::<Vec<_>>(), [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]);
    }
}
