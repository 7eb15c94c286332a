//! DiviML's encoding for search heuristics, for groups of inputs: a string of devices, one for each op and group.
//!
//! Groups of an op on one device are one batch; a string with a batch of a size that the device does not support, or one
//! that breaks a memory limit, is refused. Ops stand in breadth-first topological order, each device takes its batches
//! in that order, and the string's fitness is the finish of the schedule that follows. Ops that must stay together share
//! their genes.

use crate::budget::StopReason;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;
use smallvec::smallvec;

use crate::batch::list_scheduling::{Listing, Measure, breadth_first, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{Item, BatchSchedule};
use crate::batch::tables::{Division, DevicePart, BatchTables};
use crate::run::Run;

/// A gene, or some of one batch, and the device it changes to.
#[derive(Clone, Copy)]
pub(crate) struct GeneChange {
    pub(crate) unit: usize,
    pub(crate) groups: u64,
    pub(crate) device: u32,
}

/// A string and its schedule.
pub(crate) struct DivisionString<'a> {
    tables: &'a BatchTables,
    memory: BatchMemory,
    order: Vec<u32>,
    /// Where each unit's first batch stands among the ops.
    current: BatchSchedule,
    trial: BatchSchedule,
    /// The units with a choice.
    genes: Vec<u32>,
    changed: Vec<(usize, Division)>,
}

impl<'a> DivisionString<'a> {
    /// Every op whole on its fastest device, or as near to that as sizes and memory allow; none if no way was found.
    pub(crate) fn fastest(run: &Run<'_>, tables: &'a BatchTables, memory: &BatchMemory) -> Option<DivisionString<'a>> {
        let order = breadth_first(tables);
        let all = tables.all_groups();
        let whole = |unit: usize| {
            let able = tables.choices[unit].iter().filter(|c| c.counts.contains(&(tables.groups as u32)));
            let time = |device: u32| -> u64 {
                let members = tables.members[unit].iter();
                members.map(|&op| tables.time(op as usize, device as usize, tables.groups)).sum()
            };
            let device = able.map(|choice| choice.device).min_by_key(|&device| (time(device), device))?;
            Some(smallvec![DevicePart { device, groups: all }])
        };
        let wish: Option<Vec<Division>> = (0..tables.members.len()).map(whole).collect();
        let listing =
            Listing { order: &order, measure: Measure::Execution, inserts: false, sizes: None, early: None };
        let starts = [
            wish.map(|pieces| BatchSchedule::new(tables, pieces, &order)),
            schedule(tables, memory, &listing, run.budget),
        ];
        for start in starts.into_iter().flatten() {
            let mut memory = memory.clone();
            for (unit, pieces) in start.pieces.iter().enumerate() {
                memory.put(unit, pieces);
            }
            let start = BatchSchedule::new(tables, start.pieces, &order);
            if memory.all_hold() && start.value() < NEVER {
                let has_choice = |&unit: &u32| tables.choices[unit as usize].len() > 1;
                let genes = (0..tables.members.len() as u32).filter(has_choice).collect();
                let trial = start.clone();
                return Some(DivisionString {
                    tables,
                    memory,
                    order,
                    current: start,
                    trial,
                    genes,
                    changed: Vec::new(),
                });
            }
        }
        None
    }

    /// How many genes there are.
    pub(crate) fn len(&self) -> usize {
        self.genes.len() * self.tables.groups
    }

    /// The schedule.
    pub(crate) fn schedule(&self) -> &BatchSchedule {
        &self.current
    }

    /// A gene's change to another device, each of them as likely. Where that would leave batches of sizes that are not
    /// supported, some other genes of its batch change with it, if there is a number of them for which it does not.
    pub(crate) fn change(&self, gene: usize, rng: &mut Rng) -> GeneChange {
        let unit = self.genes[gene / self.tables.groups] as usize;
        let group = (gene % self.tables.groups) as u32;
        let choices = &self.tables.choices[unit];
        let pieces = &self.current.pieces[unit];
        let here = pieces.iter().find(|piece| piece.groups >> group & 1 == 1);
        let other = choices[rng.below(choices.len() - 1)].device;
        let is_here = here.is_some_and(|piece| piece.device == other);
        // The one left out of the draw stands in for the present one.
        let device = if is_here { choices[choices.len() - 1].device } else { other };
        let there = pieces.iter().find(|piece| piece.device == device).map_or(0, |piece| piece.count());
        let has = |device: u32, count: usize| {
            let choice = choices.iter().find(|choice| choice.device == device);
            choice.is_some_and(|choice| choice.counts.contains(&(count as u32)))
        };
        let mut groups = 1u64 << group;
        if let Some(here) = here {
            let fits = |&taken: &usize| {
                has(device, there + taken)
                    && (taken == here.count() || has(here.device, here.count() - taken))
            };
            let amounts: Vec<usize> =
                if fits(&1) { Vec::new() } else { (2..=here.count()).filter(fits).collect() };
            if !amounts.is_empty() {
                let amount = *rng.pick(&amounts);
                let others = (1..64).map(|ahead| 1u64 << ((group + ahead) % 64));
                let others = others.filter(|bit| here.groups & bit != 0);
                groups |= others.take(amount - 1).sum::<u64>();
            }
        }
        GeneChange { unit, groups, device }
    }

    /// Makes some changes if the fitness stays within `limit`; else nothing changes.
    pub(crate) fn try_changes(&mut self, changes: &[GeneChange], limit: u64) -> bool {
        for change in changes {
            if self.changed.iter().all(|(unit, _)| *unit != change.unit) {
                let before = self.trial.pieces[change.unit].clone();
                self.memory.take(change.unit, &before);
                self.changed.push((change.unit, before));
            }
            let pieces = &mut self.trial.pieces[change.unit];
            pieces.iter_mut().for_each(|piece| piece.groups &= !change.groups);
            pieces.retain(|piece| piece.groups != 0);
            match pieces.iter_mut().find(|piece| piece.device == change.device) {
                Some(piece) => piece.groups |= change.groups,
                None => pieces.push(DevicePart { device: change.device, groups: change.groups }),
            }
        }
        for (unit, _) in &self.changed {
            self.memory.put(*unit, &self.trial.pieces[*unit]);
        }
        let sound = |unit: usize| {
            let pieces = &self.trial.pieces[unit];
            self.tables.is_division(unit, pieces) && self.memory.all_hold()
        };
        let kept = self.changed.iter().all(|(unit, _)| sound(*unit)) && self.reschedule(limit);
        let changed = std::mem::take(&mut self.changed);
        for (unit, before) in changed {
            if kept {
                self.current.pieces[unit].clone_from(&self.trial.pieces[unit]);
            } else {
                self.memory.take(unit, &self.trial.pieces[unit]);
                self.memory.put(unit, &before);
                self.trial.pieces[unit] = before;
            }
        }
        if kept {
            self.current.copy_times(&self.trial);
        } else {
            self.trial.copy_times(&self.current);
        }
        kept
    }

    fn reschedule(&mut self, limit: u64) -> bool {
        let tables = self.tables;
        let is_changed =
            |op: u32| self.changed.iter().any(|(unit, _)| *unit == tables.unit_of[op as usize] as usize);
        let first = self.trial.list.iter().position(|item| is_changed(item.op)).unwrap_or(0);
        self.trial.list.clear();
        for &op in &self.order {
            let count = self.trial.pieces[tables.unit_of[op as usize] as usize].len() as u32;
            self.trial.list.extend((0..count).map(|piece| Item { op, piece }));
        }
        self.trial.evaluate(tables, first, limit)
    }
}

/// A search over schedules: counts evaluations, keeps the best, offers it now and then, and says when to stop.
pub(crate) struct StringSearch<'w, 'a, 't> {
    pub(crate) run: &'w mut Run<'a>,
    tables: &'t BatchTables,
    best: BatchSchedule,
    offered: u64,
    evaluations: u64,
    /// Evaluations between two looks at the clock.
    look_every: u64,
    progress: f64,
    began: f64,
    until: f64,
}

impl<'w, 'a, 't> StringSearch<'w, 'a, 't> {
    /// Begins at a schedule, which is offered.
    pub(crate) fn new(run: &'w mut Run<'a>, tables: &'t BatchTables, start: &BatchSchedule) -> StringSearch<'w, 'a, 't> {
        let began = run.budget.start.elapsed().as_secs_f64();
        let until = run.budget.time.as_secs_f64();
        let mut walk = StringSearch {
            run,
            tables,
            best: start.clone(),
            offered: u64::MAX,
            evaluations: 0,
            look_every: 1 + 20_000 / (1 + start.list.len() as u64),
            progress: 0.0,
            began,
            until,
        };
        walk.offer();
        walk
    }

    /// The best so far.
    pub(crate) fn best(&self) -> &BatchSchedule {
        &self.best
    }

    /// Counts an evaluation; false if the budget is spent or no better schedule can exist.
    pub(crate) fn goes_on(&mut self) -> bool {
        let budget = self.run.budget;
        if budget.nodes.is_some_and(|nodes| self.evaluations >= nodes) {
            return false;
        }
        if self.evaluations.is_multiple_of(self.look_every) {
            if budget.is_spent() {
                return false;
            }
            let elapsed = budget.start.elapsed().as_secs_f64();
            // Where the run must not depend on the clock, progress does not.
            self.progress = match budget.nodes {
                Some(nodes) => self.evaluations as f64 / nodes as f64,
                None => (elapsed - self.began) / (self.until - self.began).max(f64::MIN_POSITIVE),
            };
            let proven = self.run.outcome().lower_bound().map(|bound| bound.0);
            if self.evaluations.is_multiple_of(64 * self.look_every) || proven >= Some(self.best.value()) {
                self.offer();
                if self.run.is_solved() {
                    return false;
                }
            }
        }
        self.evaluations += 1;
        true
    }

    /// The share of the budget that is used up.
    pub(crate) fn progress(&self) -> f64 {
        self.progress
    }

    /// Keeps a schedule if it is the best so far.
    pub(crate) fn note(&mut self, schedule: &BatchSchedule) -> bool {
        let is_best = schedule.value() < self.best.value();
        if is_best {
            self.best.pieces.clone_from(&schedule.pieces);
            self.best.copy_times(schedule);
        }
        is_best
    }

    fn offer(&mut self) {
        if self.best.value() < self.offered.min(NEVER) {
            self.offered = self.best.value();
            let plan = self.best.to_plan(self.run.problem, self.tables);
            let offered = self.run.offer(plan);
            debug_assert!(offered.is_ok(), "{offered:?}");
            debug_assert!(
                self.run.outcome().value().is_none_or(|value| value.0 <= self.offered),
                "the check agrees with the schedule"
            );
        }
    }

    /// Offers the best, and says why the search ended.
    pub(crate) fn end(mut self) -> StopReason {
        self.offer();
        match () {
            () if self.run.budget.is_cancelled() => StopReason::Cancelled,
            () if self.run.is_solved() => StopReason::Finished,
            () => StopReason::OutOfBudget,
        }
    }
}
