//! Conflict-driven clause learning (Marques-Silva and Sakallah 1999) for a placement within a threshold T.
//!
//! Variables x_{u,d} say that unit u is on device d. The propagators ([`super::propagation`]) derive literals from the trail,
//! each with a reason that can be expanded to literals before it (lazy explanation). From a conflict the clause at the first
//! unique implication point is learnt and minimised, and the search backjumps to where it propagates. Decisions take the unit
//! with the highest activity and its saved phase, or else the device that finishes it first; restarts follow Luby's sequence.
//!
//! All reasons follow from T and the problem alone and stay valid for any smaller T, so lowering T keeps the learnt clauses. A
//! refutation of T is attested, and compared with brute force in the tests.

use divvy_core::rng::Rng;

use crate::stream::conflict_search::clauses::Clauses;
use crate::stream::conflict_search::literal::{Literal, negated};
use crate::stream::conflict_search::model::PlacementModel;
use crate::stream::conflict_search::relaxation::AreaRelaxation;
use crate::stream::tables::StreamTables;

/// Why a literal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A decision, or a fact at the root.
    None,
    /// All other literals of the clause are false.
    Clause(u32),
    /// The unit is on another device.
    Elsewhere,
    /// The unit is excluded from all other devices.
    LastDevice,
    /// The unit would exceed the threshold on the device.
    Time,
    /// The unit would exceed the memory of the device.
    Memory,
    /// The tensor, sent from or to the device of `because`, would exceed the capacity of the link.
    Link { link: u32, tensor: u32, because: u32 },
    /// An explanation computed when the literal was derived.
    Stored(u32),
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConflictResult {
    /// A device for each op, within the threshold.
    Placement(Vec<u8>),
    /// No placement is within the threshold.
    Refuted,
    /// The conflicts allowed are used up, or the search was stopped.
    Unknown,
}

/// Conflicts before the first restart; later intervals are this times Luby's sequence.
const RESTART: u64 = 128;
/// The growth of the activity increment at each conflict.
const GROWTH: f64 = 1.0 / 0.95;
/// The share of random decisions.
const RANDOM: f64 = 0.01;

/// A solver, with the clauses it has learnt.
pub(crate) struct ConflictSearch<'t> {
    pub(super) model: PlacementModel<'t>,
    pub(super) relaxation: Option<AreaRelaxation>,
    pub(super) clauses: Clauses,
    rng: Rng,
    /// By literal.
    pub(super) holds: Vec<bool>,
    /// By variable.
    reason: Vec<Reason>,
    /// By variable, the decision level at which it was assigned.
    level: Vec<u32>,
    /// By variable, its position on the trail.
    pub(super) position: Vec<u32>,
    /// The literals that hold, in the order of assignment.
    pub(super) trail: Vec<Literal>,
    /// The positions of the decisions on the trail.
    decisions: Vec<usize>,
    /// The length of the trail that has been propagated.
    pub(super) propagated: usize,
    /// Explanations, and the position on the trail of the literal of each.
    stored_reasons: Vec<Vec<Literal>>,
    stored_at: Vec<usize>,
    /// By unit.
    activity: Vec<f64>,
    increment: f64,
    /// By unit, the device that it is tried on first.
    phase: Vec<u8>,
    restarts: u64,
    is_refuted: bool,
    conflicts: u64,
}

impl<'t> ConflictSearch<'t> {
    /// A search at a threshold. `start` are the first phases, by op; `weights` are prices of device time for the area rule, and
    /// `longest` the largest load that each device can have.
    pub(crate) fn new(
        tables: &'t StreamTables,
        threshold: u64,
        start: &[u8],
        weights: &[u64],
        longest: &[u64],
        seed: u64,
    ) -> ConflictSearch<'t> {
        let model = PlacementModel::new(tables, threshold, weights, longest);
        let variables = model.units * model.devices;
        let mut phase = vec![0; model.units];
        for (op, &device) in start.iter().enumerate() {
            phase[model.unit_of[op]] = device;
        }
        let activity = model.relative_sizes();
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
            propagated: 0,
            stored_reasons: Vec::new(),
            stored_at: Vec::new(),
            activity,
            increment: 1.0,
            phase,
            restarts: 0,
            is_refuted: false,
            conflicts: 0,
            relaxation,
            model,
        };
        search.add_root_facts();
        search
    }

    /// Conflicts so far.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Facts at the root: where units must not run, and symmetry breaking between interchangeable devices.
    fn add_root_facts(&mut self) {
        for unit in 0..self.model.units {
            for device in 0..self.model.devices {
                if self.model.time(unit, device).is_none() {
                    let literal = negated(self.model.literal(unit, device));
                    self.assert_at_root(literal);
                }
            }
        }
        for device in 0..self.model.devices {
            let Some(&earlier) = self.model.tables.interchangeable_before[device].last() else { continue };
            // A unit is on the later of two interchangeable devices only if a unit before it is on the earlier one.
            let mut on_earlier: Vec<Literal> = Vec::new();
            for unit in 0..self.model.op_units {
                let not_later = negated(self.model.literal(unit, device));
                if on_earlier.is_empty() {
                    self.assert_at_root(not_later);
                } else {
                    let mut clause = vec![not_later];
                    clause.extend(&on_earlier);
                    self.clauses.add_lasting(clause);
                }
                on_earlier.push(self.model.literal(unit, earlier));
            }
        }
        self.is_refuted |= !self.propagate_at_root();
    }

    /// Asserts a literal at decision level 0.
    fn assert_at_root(&mut self, literal: Literal) {
        if self.holds[negated(literal)] {
            self.is_refuted = true;
        } else if !self.holds[literal] {
            self.enqueue(literal, Reason::None);
        }
    }

    /// Lowers the threshold; the learnt clauses stay valid.
    pub(crate) fn lower_threshold(&mut self, threshold: u64) {
        self.backjump(0);
        self.model.set_threshold(threshold);
        self.is_refuted |= !self.propagate_at_root();
    }

    /// Sets the phases, by op.
    pub(crate) fn set_phases(&mut self, placement: &[u8]) {
        for (op, &device) in placement.iter().enumerate() {
            self.phase[self.model.unit_of[op]] = device;
        }
    }

    fn propagate_at_root(&mut self) -> bool {
        self.model.mark_all_dirty();
        self.propagate().is_none()
    }

    /// Searches until there is a result, for that many conflicts, or until `is_over`.
    pub(crate) fn search(&mut self, most: u64, is_over: &mut dyn FnMut() -> bool) -> ConflictResult {
        let until = self.conflicts + most;
        let mut restart_at = self.conflicts + RESTART * luby(self.restarts);
        let mut steps = 0u64;
        loop {
            if self.is_refuted {
                return ConflictResult::Refuted;
            }
            steps += 1;
            if self.conflicts >= until || (steps.is_multiple_of(32) && is_over()) {
                self.backjump(0);
                return ConflictResult::Unknown;
            }
            if let Some(conflict) = self.propagate() {
                self.conflicts += 1;
                self.analyse(conflict);
                continue;
            }
            if self.conflicts >= restart_at {
                self.restarts += 1;
                restart_at = self.conflicts + RESTART * luby(self.restarts);
                self.backjump(0);
                self.clauses.forget();
                continue;
            }
            let Some(unit) = self.pick_unit() else {
                if let Some(conflict) = self.model.shared_weights_conflict() {
                    self.conflicts += 1;
                    self.analyse(conflict);
                    continue;
                }
                let placement = self.placement();
                self.backjump(0);
                return ConflictResult::Placement(placement);
            };
            let device = self.pick_device(unit);
            self.decisions.push(self.trail.len());
            self.enqueue(self.model.literal(unit, device), Reason::None);
        }
    }

    /// The open unit with the highest activity; now and then a random one.
    fn pick_unit(&mut self) -> Option<usize> {
        let open = |unit: &usize| self.model.device_of[*unit].is_none();
        if self.rng.chance(RANDOM) {
            let all: Vec<usize> = (0..self.model.units).filter(open).collect();
            return if all.is_empty() { None } else { Some(*self.rng.pick(&all)) };
        }
        (0..self.model.units).filter(open).max_by(|&a, &b| self.activity[a].total_cmp(&self.activity[b]))
    }

    /// The saved phase, or else the device whose load with the unit is least.
    fn pick_device(&self, unit: usize) -> usize {
        let may = |device: &usize| !self.holds[negated(self.model.literal(unit, *device))];
        let before = usize::from(self.phase[unit]);
        if before < self.model.devices && may(&before) {
            return before;
        }
        let load = |device: &usize| self.model.load_with(unit, *device);
        (0..self.model.devices).filter(may).min_by_key(load).unwrap_or(before)
    }

    fn placement(&self) -> Vec<u8> {
        let at = |op: usize| self.model.device_of[self.model.unit_of[op]].unwrap_or(0) as u8;
        (0..self.model.tables.ops).map(at).collect()
    }

    /// Assigns a literal and puts it on the trail.
    pub(super) fn enqueue(&mut self, literal: Literal, reason: Reason) {
        let variable = literal / 2;
        self.holds[literal] = true;
        self.reason[variable] = reason;
        self.level[variable] = self.decisions.len() as u32;
        self.position[variable] = self.trail.len() as u32;
        self.trail.push(literal);
    }

    /// Undoes all assignments after decision level `level`.
    fn backjump(&mut self, level: usize) {
        let Some(&length) = self.decisions.get(level) else { return };
        while self.trail.len() > length {
            let Some(literal) = self.trail.pop() else { break };
            if self.trail.len() < self.propagated {
                self.model.undo(literal, self.trail.len());
                if literal.is_multiple_of(2) {
                    let (unit, device) = self.model.unit_and_device(literal);
                    self.phase[unit] = device as u8;
                }
            }
            self.holds[literal] = false;
        }
        self.propagated = self.propagated.min(length);
        while self.stored_at.last().is_some_and(|&at| at >= length) {
            self.stored_at.pop();
            self.stored_reasons.pop();
        }
        self.decisions.truncate(level);
    }

    /// Stores an explanation for the literal that is enqueued next.
    pub(super) fn store_reason(&mut self, literals: Vec<Literal>) -> Reason {
        self.stored_reasons.push(literals);
        self.stored_at.push(self.trail.len());
        Reason::Stored(self.stored_reasons.len() as u32 - 1)
    }

    /// Conflict analysis: learns the clause at the first unique implication point from literals that hold but cannot all hold,
    /// backjumps, and asserts it.
    fn analyse(&mut self, conflict: Vec<Literal>) {
        let highest = conflict.iter().map(|&l| self.level[l / 2]).max().unwrap_or(0);
        if highest == 0 {
            self.is_refuted = true;
            return;
        }
        self.backjump(highest as usize);
        let mut seen = vec![false; self.level.len()];
        let mut learnt: Vec<Literal> = Vec::new();
        // Literals of the highest level that are not resolved yet.
        let mut open = 0;
        let mut reasons = conflict;
        let mut at = self.trail.len();
        let asserting = loop {
            for literal in reasons.drain(..) {
                let variable = literal / 2;
                if seen[variable] || self.level[variable] == 0 {
                    continue;
                }
                seen[variable] = true;
                self.activity[variable / self.model.devices] += self.increment;
                if self.level[variable] == highest {
                    open += 1;
                } else {
                    learnt.push(negated(literal));
                }
            }
            let literal = loop {
                at -= 1;
                if seen[self.trail[at] / 2] {
                    break self.trail[at];
                }
            };
            open -= 1;
            if open == 0 {
                break negated(literal);
            }
            reasons = self.explain(literal);
        };
        self.increment *= GROWTH;
        if self.increment > 1e100 {
            self.activity.iter_mut().for_each(|activity| *activity *= 1e-100);
            self.increment *= 1e-100;
        }
        self.minimise(&mut learnt, &seen);
        let back = learnt.iter().map(|&l| self.level[l / 2]).max().unwrap_or(0);
        if let Some(watched) = (0..learnt.len()).max_by_key(|&i| self.level[learnt[i] / 2]) {
            learnt.swap(0, watched);
        }
        let mut levels: Vec<u32> = learnt.iter().map(|&l| self.level[l / 2]).collect();
        self.backjump(back as usize);
        if learnt.is_empty() {
            self.enqueue(asserting, Reason::None);
            return;
        }
        levels.sort_unstable();
        levels.dedup();
        let mut clause = vec![asserting];
        clause.append(&mut learnt);
        let number = self.clauses.add_learnt(clause, levels.len() as u32);
        self.enqueue(asserting, Reason::Clause(number));
    }

    /// Removes literals whose reasons are implied by the other literals (local minimisation).
    fn minimise(&self, learnt: &mut Vec<Literal>, seen: &[bool]) {
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

    /// The literals that imply one, all before it on the trail.
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
                self.model.device_of[unit].map(|at| self.model.literal(unit, at)).into_iter().collect()
            }
            Reason::LastDevice => (0..self.model.devices)
                .filter(|&other| other != device)
                .map(|other| negated(self.model.literal(unit, other)))
                .collect(),
            Reason::Time => {
                let left = self.model.threshold.saturating_sub(self.model.time(unit, device).unwrap_or(0));
                self.model.explain_time(device, left, before, &self.position)
            }
            Reason::Memory => {
                let left = self.model.memory_without(unit, device);
                self.model.explain_memory(device, left, before, &self.position)
            }
            Reason::Link { link, tensor, because } => {
                let (link, tensor) = (link as usize, tensor as usize);
                let left = self.model.capacity_without(link, tensor, because as usize, literal);
                let mut reasons = self.model.explain_bytes(link, left, before);
                reasons.push(because as usize);
                reasons
            }
            Reason::Stored(number) => self.stored_reasons[number as usize].clone(),
        }
    }
}

/// Luby's sequence: 1, 1, 2, 1, 1, 2, 4, …
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
