//! DiviML's encoding for metaheuristics with batches: a string of devices, one for each op and group of inputs.
//!
//! The groups of an op on one device are one batch. A string with a batch size that a device does not support, or
//! that exceeds a memory limit, is refused. Ops stand in breadth-first topological order, each device runs its
//! batches in that order, and the fitness is the makespan of the schedule that results. A colocation group shares its
//! genes.

use crate::budget::StopReason;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;
use smallvec::smallvec;

use crate::batch::list_scheduling::{ListSettings, Measure, breadth_first, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{BatchId, BatchSchedule};
use crate::batch::tables::{BatchTables, DevicePart, Division};
use crate::run::Run;

/// A change of a gene, or of several genes of one batch, to another device.
#[derive(Clone, Copy)]
pub(crate) struct GroupMove {
    pub(crate) unit: usize,
    pub(crate) groups: u64,
    pub(crate) device: u32,
}

/// A string of devices and its schedule.
pub(crate) struct DivisionString<'a> {
    tables: &'a BatchTables,
    memory: BatchMemory,
    order: Vec<u32>,
    current: BatchSchedule,
    trial: BatchSchedule,
    /// The units that have more than one device to choose from.
    genes: Vec<u32>,
    changed: Vec<(usize, Division)>,
}

impl<'a> DivisionString<'a> {
    /// All inputs of every op on its fastest device; where sizes or memory forbid that, a list schedule; none if
    /// neither is valid.
    pub(crate) fn fastest(
        run: &Run<'_>,
        tables: &'a BatchTables,
        memory: &BatchMemory,
    ) -> Option<DivisionString<'a>> {
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
        let fastest: Option<Vec<Division>> = (0..tables.members.len()).map(whole).collect();
        let settings = ListSettings {
            order: &order,
            measure: Measure::Execution,
            inserts: false,
            sizes: None,
            early: None,
        };
        let starts = [
            fastest.map(|divisions| BatchSchedule::new(tables, divisions, &order)),
            schedule(tables, memory, &settings, run.budget),
        ];
        for start in starts.into_iter().flatten() {
            let mut memory = memory.clone();
            for (unit, division) in start.divisions.iter().enumerate() {
                memory.put(unit, division);
            }
            let start = BatchSchedule::new(tables, start.divisions, &order);
            if memory.is_within_limits() && start.value() < NEVER {
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

    /// The number of genes.
    pub(crate) fn len(&self) -> usize {
        self.genes.len() * self.tables.groups
    }

    /// The schedule of the string.
    pub(crate) fn schedule(&self) -> &BatchSchedule {
        &self.current
    }

    /// A change of a gene to another device, uniformly at random. If that leaves batch sizes that are not supported,
    /// other genes of its batch change with it, if with some number of them all sizes are supported.
    pub(crate) fn change(&self, gene: usize, rng: &mut Rng) -> GroupMove {
        let unit = self.genes[gene / self.tables.groups] as usize;
        let group = (gene % self.tables.groups) as u32;
        let choices = &self.tables.choices[unit];
        let division = &self.current.divisions[unit];
        let here = division.iter().find(|part| part.groups >> group & 1 == 1);
        let other = choices[rng.below(choices.len() - 1)].device;
        let is_here = here.is_some_and(|part| part.device == other);
        // The last choice is left out of the draw and stands in for the present device.
        let device = if is_here { choices[choices.len() - 1].device } else { other };
        let there = division.iter().find(|part| part.device == device).map_or(0, |part| part.count());
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
        GroupMove { unit, groups, device }
    }

    /// Applies changes if the string is valid and the fitness stays within `limit`; else nothing changes.
    pub(crate) fn try_changes(&mut self, changes: &[GroupMove], limit: u64) -> bool {
        for change in changes {
            if self.changed.iter().all(|(unit, _)| *unit != change.unit) {
                let before = self.trial.divisions[change.unit].clone();
                self.memory.take(change.unit, &before);
                self.changed.push((change.unit, before));
            }
            let division = &mut self.trial.divisions[change.unit];
            division.iter_mut().for_each(|part| part.groups &= !change.groups);
            division.retain(|part| part.groups != 0);
            match division.iter_mut().find(|part| part.device == change.device) {
                Some(part) => part.groups |= change.groups,
                None => division.push(DevicePart { device: change.device, groups: change.groups }),
            }
        }
        for (unit, _) in &self.changed {
            self.memory.put(*unit, &self.trial.divisions[*unit]);
        }
        let is_valid = |unit: usize| {
            let division = &self.trial.divisions[unit];
            self.tables.is_division(unit, division) && self.memory.is_within_limits()
        };
        let kept = self.changed.iter().all(|(unit, _)| is_valid(*unit)) && self.reschedule(limit);
        let changed = std::mem::take(&mut self.changed);
        for (unit, before) in changed {
            if kept {
                self.current.divisions[unit].clone_from(&self.trial.divisions[unit]);
            } else {
                self.memory.take(unit, &self.trial.divisions[unit]);
                self.memory.put(unit, &before);
                self.trial.divisions[unit] = before;
            }
        }
        if kept {
            self.current.copy_times(&self.trial);
        } else {
            self.trial.copy_times(&self.current);
        }
        kept
    }

    /// Evaluates the trial from the first changed op on; false if the limit is exceeded.
    fn reschedule(&mut self, limit: u64) -> bool {
        let tables = self.tables;
        let is_changed =
            |op: u32| self.changed.iter().any(|(unit, _)| *unit == tables.unit_of[op as usize] as usize);
        let first = self.trial.list.iter().position(|batch| is_changed(batch.op)).unwrap_or(0);
        self.trial.list.clear();
        for &op in &self.order {
            let count = self.trial.divisions[tables.unit_of[op as usize] as usize].len() as u32;
            self.trial.list.extend((0..count).map(|part| BatchId { op, part }));
        }
        self.trial.evaluate(tables, first, limit)
    }
}

/// The bookkeeping of a search over divisions: it counts evaluations, keeps the best schedule, offers it now and
/// then, and tells when the search is to end.
pub(crate) struct DivisionSearch<'w, 'a, 't> {
    pub(crate) run: &'w mut Run<'a>,
    tables: &'t BatchTables,
    best: BatchSchedule,
    offered: u64,
    evaluations: u64,
    /// The number of evaluations between two reads of the clock.
    clock_interval: u64,
    progress: f64,
    began: f64,
    until: f64,
}

impl<'w, 'a, 't> DivisionSearch<'w, 'a, 't> {
    /// Offers the first schedule.
    pub(crate) fn new(
        run: &'w mut Run<'a>,
        tables: &'t BatchTables,
        start: &BatchSchedule,
    ) -> DivisionSearch<'w, 'a, 't> {
        let began = run.budget.start.elapsed().as_secs_f64();
        let until = run.budget.time.as_secs_f64();
        let mut search = DivisionSearch {
            run,
            tables,
            best: start.clone(),
            offered: u64::MAX,
            evaluations: 0,
            clock_interval: 1 + 20_000 / (1 + start.list.len() as u64),
            progress: 0.0,
            began,
            until,
        };
        search.offer();
        search
    }

    /// The best schedule so far.
    pub(crate) fn best(&self) -> &BatchSchedule {
        &self.best
    }

    /// Counts an evaluation; false if the budget is spent or the best value equals a proven bound.
    pub(crate) fn begin_evaluation(&mut self) -> bool {
        let budget = self.run.budget;
        if budget.nodes.is_some_and(|nodes| self.evaluations >= nodes) {
            return false;
        }
        if self.evaluations.is_multiple_of(self.clock_interval) {
            if budget.is_spent() {
                return false;
            }
            let elapsed = budget.start.elapsed().as_secs_f64();
            // With a node budget the run must not depend on the clock.
            self.progress = match budget.nodes {
                Some(nodes) => self.evaluations as f64 / nodes as f64,
                None => (elapsed - self.began) / (self.until - self.began).max(f64::MIN_POSITIVE),
            };
            let proven = self.run.outcome().lower_bound().map(|bound| bound.0);
            if self.evaluations.is_multiple_of(64 * self.clock_interval) || proven >= Some(self.best.value())
            {
                self.offer();
                if self.run.is_solved() {
                    return false;
                }
            }
        }
        self.evaluations += 1;
        true
    }

    /// The share of the budget that is used.
    pub(crate) fn progress(&self) -> f64 {
        self.progress
    }

    /// Keeps a schedule if it is better than the best so far.
    pub(crate) fn note(&mut self, schedule: &BatchSchedule) -> bool {
        let is_best = schedule.value() < self.best.value();
        if is_best {
            self.best.divisions.clone_from(&schedule.divisions);
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
                self.run.real().has_piece_costs()
                    || self.run.outcome().value().is_none_or(|value| value.0 <= self.offered),
                "the check agrees with the schedule"
            );
        }
    }

    /// Offers the best schedule, and tells why the search ended.
    pub(crate) fn end(mut self) -> StopReason {
        self.offer();
        match () {
            () if self.run.budget.is_cancelled() => StopReason::Cancelled,
            () if self.run.is_solved() => StopReason::Finished,
            () => StopReason::OutOfBudget,
        }
    }
}

/// Runs a search over strings of devices that starts with every op on its fastest device.
pub(crate) fn search_strings(
    run: &mut Run<'_>,
    heuristic: fn(&mut DivisionString<'_>, &mut DivisionSearch<'_, '_, '_>, &mut Rng),
) -> StopReason {
    let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
    let memory = BatchMemory::new(run.problem, &tables);
    let Some(mut string) = DivisionString::fastest(run, &tables, &memory) else {
        return StopReason::Finished;
    };
    let mut rng = Rng::new(run.budget.seed);
    let mut search = DivisionSearch::new(run, &tables, string.schedule());
    if string.len() == 0 {
        search.end();
        return StopReason::Finished;
    }
    heuristic(&mut string, &mut search, &mut rng);
    search.end()
}
