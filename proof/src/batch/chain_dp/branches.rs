//! Branches between two ops whose divisions are known, with work bounded for each pair of their batches.
//!
//! Let the earlier op's batch on device u have a of all n groups, and the later op's batch on v have b. A branch batch of at
//! least n − min(a, b) + 1 groups shares an input with both, so it runs between the end of the one and the start of the other.
//! A device runs all such batches one after the other; so the time between the two is at least any weighted mean of the
//! devices' work in such batches, if there are any (without one the two need not have an input in common). These works are
//! added up along every branch beside the starts, one sum for each threshold.
//!
//! The same walk gives tighter tails: a batch is followed as if all others of its op had ended long before.
//!
//! Idle times around single batches (`idle_time`) are added to the devices that work between two of them; each choice of
//! working devices is tried.

use crate::batch::chain_dp::divisions::{GroupDivision, MOST_DEVICES, PAIRS};
use crate::batch::chain_dp::earliest_starts::Heads;
use crate::batch::chain_dp::latest_tails::{TailEstimate, WorkBounds};
use crate::batch::chain_dp::op_times::{ChainDpInstance, MOST_TIME, NEVER, OpTimes, WorkWeights, used};
use crate::batch::chain_dp::pareto_front::{LAST_START, MEAN_WORK, StartLabel, insert, merge_labels};
use crate::batch::chain_dp::stage_links::{MOST_LISTS, StageLink};
use crate::batch::chain_dp::step::{ChainStep, Fronts};

/// The most thresholds: one for each pair of batches, of which some are equal, and 1.
const MOST_SIZES: usize = 6;
/// The components of a [`BranchState`].
const PLACES: usize = MOST_DEVICES + MOST_LISTS * MOST_SIZES + 1;
/// The place of the mean work under the weights of the whole chain.
const CHAIN_WORK: usize = PLACES - 1;

/// The first rise of the limit of a tail is this fraction of its range; every further one is larger.
const RISES_OF_ALL: u64 = 400;

/// Starts of the batches of a branch op, then the mean works for each list of weights and threshold, then [`CHAIN_WORK`].
type BranchState = [u64; PLACES];

/// One division of the later op, and the tails of the branches that lead to it.
pub(super) struct TargetDivision {
    division: usize,
    /// The tails of the later op with this division only.
    tail: TailEstimate,
    /// The tails of each op of each branch.
    inner: Vec<Vec<TailEstimate>>,
}

/// The label of the earlier op that branches are followed from.
struct BranchEntry<'a> {
    division: usize,
    ends: [u64; MOST_DEVICES],
    /// Its [`MEAN_WORK`].
    mean_work: u64,
    /// States that end at this or later are dropped.
    limit: u64,
    /// Whether `ends` are those of one label, so that means over inputs are valid.
    is_whole: bool,
    works: &'a WorkBounds,
}

/// A choice of the devices that run anything between two ops, and their idle times.
struct WorkingDevices {
    works: [bool; MOST_DEVICES],
    idle_times: [u64; MOST_DEVICES],
    /// Whether both ops are single batches, so that nothing but the branches runs in between.
    is_alone: bool,
}

impl WorkingDevices {
    /// A lower bound on the time that the working devices take for some work, given as its mean over all devices.
    fn time(&self, work: u64, weights: &WorkWeights) -> u64 {
        let (mut sum, mut all, mut of_working) = (0, 0, 0);
        for (device, &weight) in weights.iter().enumerate() {
            let weight = u128::from(weight);
            sum += weight * u128::from(self.idle_times[device]);
            all += weight;
            of_working += if self.works[device] || !self.is_alone { weight } else { 0 };
        }
        sum += all * u128::from(work);
        u64::try_from(sum / of_working.max(1)).map_or(NEVER, |time| time.min(NEVER))
    }
}

/// A walk from a label of one op to a division of the next.
struct BranchWalk<'a> {
    entry: &'a BranchEntry<'a>,
    link: &'a StageLink,
    target: &'a TargetDivision,
    working: &'a WorkingDevices,
    sizes: BatchThresholds,
}

/// The sizes from which on a branch batch shares an input with both of two batches, for two divisions.
struct BatchThresholds {
    /// In groups; the first is 1.
    least: Vec<u32>,
    /// For each device of the earlier and of the later op, the place of their threshold.
    of: [[usize; MOST_DEVICES]; MOST_DEVICES],
}

impl BatchThresholds {
    fn new(earlier: &GroupDivision, later: &GroupDivision, all: u32) -> BatchThresholds {
        let mut sizes = BatchThresholds { least: vec![1], of: [[0; MOST_DEVICES]; MOST_DEVICES] };
        for (row, &from) in sizes.of.iter_mut().zip(earlier) {
            for (place, &to) in row.iter_mut().zip(later).filter(|(_, to)| from > 0 && **to > 0) {
                let least = all - from.min(to) + 1;
                *place = sizes.least.iter().position(|known| *known == least).unwrap_or(sizes.least.len());
                if *place == sizes.least.len() {
                    sizes.least.push(least);
                }
            }
        }
        sizes
    }
}

impl ChainDpInstance<'_> {
    /// The divisions of the later op with which a plan can end.
    pub(super) fn targets(&self, link: &StageLink, tail: &TailEstimate) -> Vec<TargetDivision> {
        let possible = (0..self.transitions.divisions.len()).filter(|&division| tail.sums[division] < NEVER);
        let target = |division: usize| {
            let mut only = TailEstimate { sums: vec![NEVER; tail.sums.len()], ..tail.clone() };
            only.sums[division] = tail.sums[division];
            let inner = link.branches.iter().map(|branch| self.branch_tails(branch, &only)).collect();
            TargetDivision { division, tail: only, inner }
        };
        possible.map(target).collect()
    }

    /// A lower bound on the finish of every plan with a label, by means over inputs too if these are valid.
    fn finish(&self, division: usize, label: &StartLabel, tail: &TailEstimate, is_whole: bool) -> u64 {
        if is_whole {
            return self.least_finish(division, label, tail);
        }
        if tail.sums[division] == NEVER {
            return NEVER;
        }
        let paths = &tail.paths[division];
        let each = used(&self.transitions.divisions[division]).map(|device| label[device] + paths[device]);
        let shortest =
            used(&self.transitions.divisions[division]).map(|device| paths[device]).min().unwrap_or(0);
        each.max().unwrap_or(0).max(label[LAST_START] + shortest)
    }
}

impl ChainStep<'_, '_> {
    /// The labels of the next op of the chain, with the work of branches bounded for each pair of batches.
    pub(super) fn extend_by_division(
        &mut self,
        node: &OpTimes,
        fronts: &Fronts,
        link: &StageLink,
        tail: &TailEstimate,
        targets: &[TargetDivision],
        works: &WorkBounds,
    ) -> Result<Fronts, String> {
        let mut next: Fronts = vec![Vec::new(); fronts.len()];
        for (division, front) in fronts.iter().enumerate() {
            let groups = self.dp.transitions.divisions[division];
            let Some(times) = node.times[division] else { continue };
            let shortest = used(&groups).map(|device| times[device]).min().unwrap_or(0);
            for label in front {
                let ends = std::array::from_fn(|d| if groups[d] > 0 { label[d] + times[d] } else { 0 });
                let mean_work = label[MEAN_WORK];
                let entry =
                    BranchEntry { division, ends, mean_work, limit: self.limit, is_whole: true, works };
                for target in targets {
                    for mut reached in self.stage_labels(&entry, link, target)? {
                        reached[LAST_START] = reached[LAST_START].max(label[LAST_START] + shortest);
                        self.keep(target.division, &link.node, reached, tail, &mut next);
                    }
                }
            }
        }
        next.iter_mut().for_each(|front| merge_labels(front, self.width));
        Ok(next)
    }

    /// Raises the tails of an op by those of each of its batches alone.
    pub(super) fn tighten_tails(
        &mut self,
        tail: &mut TailEstimate,
        node: &OpTimes,
        heads: &Heads,
        link: &StageLink,
        targets: &[TargetDivision],
        works: &WorkBounds,
    ) -> Result<(), String> {
        let dp = self.dp;
        // A coarse front suffices for estimates, and there are many of them.
        let branch_width = std::mem::replace(&mut self.branch_width, 1);
        // So late that no path from another batch matters.
        let late = MOST_TIME / dp.inputs;
        for (division, groups) in dp.transitions.divisions.iter().enumerate() {
            let Some(times) = node.times[division].filter(|_| tail.sums[division] < NEVER) else { continue };
            // A small batch alone gives a weak estimate.
            let is_whole = used(groups).count() == 1;
            for device in used(groups).filter(|&device| 2 * groups[device] >= dp.groups) {
                let path = &mut tail.paths[division][device];
                let head = dp.head(heads, division, device);
                if head.saturating_add(*path) >= self.limit {
                    continue;
                }
                let most = self.limit - head - times[device];
                let mut ends = [0; MOST_DEVICES];
                ends[device] = late;
                // Iterative deepening: a low limit prunes most states, so it rises until some state survives.
                let mut known = *path - times[device];
                let mut rise = (most / RISES_OF_ALL).max(1);
                while known < most {
                    let limit = late + (known + rise).min(most);
                    let mean_work = if is_whole { late } else { 0 };
                    let entry = BranchEntry { division, ends, mean_work, limit, is_whole, works };
                    let mut least = limit;
                    for target in targets {
                        for label in self.stage_labels(&entry, link, target)? {
                            let label = dp.tightened(target.division, &link.node, label);
                            least = least.min(dp.finish(target.division, &label, &target.tail, is_whole));
                        }
                    }
                    known = known.max(least.saturating_sub(late));
                    if least < limit {
                        break;
                    }
                    rise += rise / 2;
                }
                *path = times[device] + known;
                // All inputs take the same path.
                let sum = path.checked_mul(dp.inputs).filter(|sum| is_whole && *sum < MOST_TIME);
                tail.sums[division] = tail.sums[division].max(sum.unwrap_or(0));
            }
        }
        self.branch_width = branch_width;
        Ok(())
    }

    /// The labels of a division of the later op: it waits for all branches, and for the work between each pair of batches.
    fn stage_labels(
        &mut self,
        entry: &BranchEntry<'_>,
        link: &StageLink,
        target: &TargetDivision,
    ) -> Result<Vec<StartLabel>, String> {
        let divisions = &self.dp.transitions.divisions;
        let single =
            |division: usize| divisions[division].iter().position(|&groups| groups == self.dp.groups);
        let (from, to) = (single(entry.division), single(target.division));
        let idle_time = |device: usize| {
            let behind = from.map_or(0, |single| link.idle_times.behind[single][device]);
            behind + to.map_or(0, |single| link.idle_times.before[single][device])
        };
        let all = WorkingDevices {
            works: [true; MOST_DEVICES],
            idle_times: std::array::from_fn(idle_time),
            is_alone: from.is_some() && to.is_some(),
        };
        let mut reached = Vec::new();
        // Each of those with an idle time may work or not.
        let waiting: Vec<usize> = (0..MOST_DEVICES).filter(|&device| all.idle_times[device] > 0).collect();
        for choice in 0..1u32 << waiting.len() {
            let mut working = WorkingDevices { ..all };
            for (place, &device) in waiting.iter().enumerate() {
                if choice >> place & 1 == 0 {
                    (working.works[device], working.idle_times[device]) = (false, 0);
                }
            }
            reached.extend(self.labels_with_workers(entry, link, target, &working)?);
        }
        Ok(reached)
    }

    /// The same for one choice of working devices.
    fn labels_with_workers(
        &mut self,
        entry: &BranchEntry<'_>,
        link: &StageLink,
        target: &TargetDivision,
        working: &WorkingDevices,
    ) -> Result<Vec<StartLabel>, String> {
        let dp = self.dp;
        let divisions = &dp.transitions.divisions;
        let sizes = BatchThresholds::new(&divisions[entry.division], &divisions[target.division], dp.groups);
        let walk = BranchWalk { entry, link, target, working, sizes };
        let mut fronts: Vec<Vec<BranchState>> = Vec::with_capacity(link.branches.len());
        // A lower bound on the work of the branches so far.
        let mut done: BranchState = [0; PLACES];
        for number in 0..link.branches.len() {
            let front = self.extend_branch_to(&walk, number, &done)?;
            if front.is_empty() {
                return Ok(Vec::new());
            }
            for (work, done) in done.iter_mut().enumerate().skip(MOST_DEVICES) {
                *done += front.iter().map(|state| state[work]).min().unwrap_or(0);
            }
            fronts.push(front);
        }
        // A lower bound on the work of the branches from each one on.
        let mut rest = vec![[0u64; PLACES]; fronts.len() + 1];
        for (place, front) in fronts.iter().enumerate().rev() {
            for work in MOST_DEVICES..PLACES {
                let least = front.iter().map(|state| state[work]).min().unwrap_or(0);
                rest[place][work] = rest[place + 1][work] + least;
            }
        }
        let mut all: Vec<BranchState> = vec![[0; PLACES]];
        for (front, rest) in fronts.iter().zip(&rest[1..]) {
            let mut combined: Vec<BranchState> = Vec::new();
            for (a, b) in all.iter().flat_map(|a| front.iter().map(move |b| (a, b))) {
                self.count()?;
                let both: BranchState =
                    std::array::from_fn(|p| if p < MOST_DEVICES { a[p].max(b[p]) } else { a[p] + b[p] });
                let with_rest: BranchState = std::array::from_fn(|place| both[place] + rest[place]);
                let label = self.arrived(&walk, &with_rest);
                let label = dp.tightened(target.division, &link.node, label);
                if dp.finish(target.division, &label, &target.tail, entry.is_whole) < entry.limit {
                    combined.push(both);
                }
            }
            merge_labels(&mut combined, self.branch_width);
            all = combined;
        }
        Ok(all.iter().map(|state| self.arrived(&walk, state)).collect())
    }

    /// The label of the later op, from the state after all branches.
    fn arrived(&self, walk: &BranchWalk<'_>, state: &BranchState) -> StartLabel {
        let BranchWalk { entry, link, target, working, sizes } = walk;
        let [from, to] = [entry.division, target.division].map(|s| &self.dp.transitions.divisions[s]);
        let mut label = StartLabel::default();
        label[..MOST_DEVICES].copy_from_slice(&state[..MOST_DEVICES]);
        let first_end = used(from).map(|device| entry.ends[device]).min().unwrap_or(0);
        let lists = state[MOST_DEVICES..CHAIN_WORK].chunks_exact(MOST_SIZES);
        for (works, weights) in lists.zip(&link.weights) {
            for there in used(to) {
                for here in used(from) {
                    // Without such a batch the one need not wait for the other.
                    let work = works[sizes.of[here][there]];
                    let passed = if work > 0 { entry.ends[here] + work } else { 0 };
                    label[there] = label[there].max(passed);
                }
            }
            label[LAST_START] = label[LAST_START].max(first_end + working.time(works[0], weights));
        }
        label[MEAN_WORK] = entry.mean_work + working.time(state[CHAIN_WORK], &link.chain_weights);
        label
    }

    /// The states at the end of one branch, if other branches add at least `done` to works.
    fn extend_branch_to(
        &mut self,
        walk: &BranchWalk<'_>,
        number: usize,
        done: &BranchState,
    ) -> Result<Vec<BranchState>, String> {
        let BranchWalk { entry, link, target, sizes, .. } = walk;
        let (branch, inner) = (&link.branches[number], &target.inner[number]);
        let dp = self.dp;
        let count = dp.transitions.divisions.len();
        let mut fronts: Vec<Vec<BranchState>> = vec![Vec::new(); count];
        let mut begin: BranchState = [0; PLACES];
        begin[..MOST_DEVICES].copy_from_slice(&entry.ends);
        fronts[entry.division].push(begin);
        for (place, delays) in branch.delays.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &branch.nodes[before]);
            let tail = inner.get(place).unwrap_or(&target.tail);
            let open = self.open_divisions(walk, tail, place == branch.nodes.len());
            let rest = entry.works.branches[number][place] + entry.works.from(number + 1);
            let mut next: Vec<Vec<BranchState>> = vec![Vec::new(); count];
            for (here, front) in fronts.iter().enumerate().filter(|(_, front)| !front.is_empty()) {
                let added = before.map_or(Some([0; PLACES]), |node| self.added_by(node, here, link, sizes));
                let Some(added) = added else { continue };
                let is_in_time = |ended: &BranchState| {
                    let works: BranchState = std::array::from_fn(|place| match place {
                        0..MOST_DEVICES => 0,
                        _ => ended[place] + done[place],
                    });
                    if entry.mean_work + works[CHAIN_WORK] + rest >= entry.limit {
                        return false;
                    }
                    let label = self.arrived(walk, &works);
                    let label = dp.tightened(target.division, &link.node, label);
                    dp.finish(target.division, &label, &target.tail, entry.is_whole) < entry.limit
                };
                let ended = |state: &BranchState| -> BranchState {
                    std::array::from_fn(|place| state[place] + added[place])
                };
                let front: Vec<BranchState> = front.iter().map(ended).filter(is_in_time).collect();
                // Every batch of the next op has inputs of one of these batches, so none starts before the first of them ends.
                let ends =
                    front.iter().flat_map(|ended| used(&dp.transitions.divisions[here]).map(|d| ended[d]));
                let Some(first_end) = ends.min() else { continue };
                let is_near = |(rest, _): &&(u64, usize)| first_end + rest < entry.limit;
                for &(_, there) in open.iter().take_while(is_near) {
                    for shipments in dp.transitions.between(here, there) {
                        let mut arrivals = [(0, 0, 0); PAIRS];
                        for (arrival, shipment) in arrivals.iter_mut().zip(shipments) {
                            *arrival = (shipment.from, shipment.to, delays.of(shipment));
                        }
                        let arrivals = &arrivals[..shipments.len()];
                        if arrivals.iter().any(|arrival| arrival.2 == NEVER) {
                            continue;
                        }
                        for ended in &front {
                            self.count()?;
                            let mut label = StartLabel::default();
                            for &(from, to, delay) in arrivals {
                                label[to] = label[to].max(ended[from] + delay);
                            }
                            if dp.finish(there, &label, tail, entry.is_whole) < entry.limit {
                                let mut new = *ended;
                                new[..MOST_DEVICES].copy_from_slice(&label[..MOST_DEVICES]);
                                insert(&mut next[there], new, self.branch_width);
                            }
                        }
                    }
                }
            }
            next.iter_mut().for_each(|front| merge_labels(front, self.branch_width));
            fronts = next;
        }
        Ok(std::mem::take(&mut fronts[target.division]))
    }

    /// The divisions of the next op of a branch that a state may lead to, each with a lower bound from its start to the end;
    /// ascending by that bound.
    fn open_divisions(&self, walk: &BranchWalk<'_>, tail: &TailEstimate, is_last: bool) -> Vec<(u64, usize)> {
        let divisions = &self.dp.transitions.divisions;
        let is_open = |there: &usize| {
            let groups = &divisions[*there];
            tail.sums[*there] < NEVER && (is_last || used(groups).all(|device| walk.working.works[device]))
        };
        let mut open: Vec<(u64, usize)> = (0..divisions.len())
            .filter(is_open)
            .map(|there| {
                let paths = used(&divisions[there]).map(|device| tail.paths[there][device]);
                let mean = if walk.entry.is_whole { tail.sums[there] / self.dp.inputs } else { 0 };
                (paths.max().unwrap_or(0).max(mean), there)
            })
            .collect();
        open.sort_unstable();
        open
    }

    /// What the batches of an op add to a state: times, then works; none for a division that its sizes do not allow.
    fn added_by(
        &self,
        node: &OpTimes,
        division: usize,
        link: &StageLink,
        sizes: &BatchThresholds,
    ) -> Option<BranchState> {
        let times = node.times[division]?;
        let groups = &self.dp.transitions.divisions[division];
        let mut added: BranchState = [0; PLACES];
        added[..MOST_DEVICES].copy_from_slice(&times);
        added[CHAIN_WORK] = node.works[division];
        for (works, weights) in
            added[MOST_DEVICES..CHAIN_WORK].chunks_exact_mut(MOST_SIZES).zip(&link.weights)
        {
            let all = u128::from(weights.iter().sum::<u64>().max(1));
            for (work, &least) in works.iter_mut().zip(&sizes.least) {
                let counted = (0..MOST_DEVICES).filter(|&device| groups[device] >= least);
                let sum: u128 = counted.map(|d| u128::from(times[d]) * u128::from(weights[d])).sum();
                // A mean of times is no larger than the largest of them.
                *work = (sum / all) as u64;
            }
        }
        Some(added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{ChainProof, ChainStage};
    use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
    use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
    use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
    use divvy_core::ids::OpId;
    use divvy_core::problem::{ConstraintsSpec, Objective, Problem};
    use divvy_core::units::Time;

    #[test]
    fn thresholds_are_the_sizes_that_share_inputs_with_both_batches() {
        let sizes = BatchThresholds::new(&[0, 0, 4], &[0, 1, 3], 4);
        assert_eq!(sizes.least, [1, 4, 2]);
        assert_eq!([sizes.of[2][1], sizes.of[2][2]], [1, 2]);
        // Between two batches of one group each, only batches of all groups.
        let sizes = BatchThresholds::new(&[1, 0, 3], &[0, 1, 3], 4);
        assert_eq!(sizes.least[sizes.of[0][1]], 4);
        assert_eq!(sizes.least[sizes.of[2][2]], 2);
    }

    /// Two inputs through a → b → c, each on a device of its own: one is early at c and slow there, the other late and fast.
    #[test]
    fn inputs_that_are_never_together_do_not_wait_for_each_other() {
        let tensor = |maker: u32| TensorSpec {
            name: format!("t{maker}"),
            bytes: 1,
            producer: Some(maker),
            consumers: (maker + 1..=2).take(1).collect(),
            output: maker == 2,
        };
        let graph = GraphSpec {
            name: "chain".into(),
            ops: ["a", "b", "c"].map(|name| OpSpec { name: name.into(), ..OpSpec::default() }).into(),
            tensors: (0..3).map(tensor).collect(),
            ..GraphSpec::default()
        };
        let names = ["one", "other"].map(String::from);
        let costs = |(name, times): (&String, [u64; 3])| {
            let cost = |time: u64| Some(Cost { time: Time(time), origin: Origin::Measured });
            ClassCosts { class: name.clone(), batch_sizes: vec![1], costs: vec![times.map(cost).into()] }
        };
        let classes = names.iter().zip([[1, 1, 10], [10, 1, 1]]).map(costs).collect();
        let profile = Profile { classes, ..Profile::default() };
        let hardware = HardwareSpec {
            name: "two devices".into(),
            classes: names.iter().map(|n| ClassSpec { name: n.clone(), ..ClassSpec::default() }).collect(),
            devices: names
                .iter()
                .map(|name| DeviceSpec { name: name.clone(), class: name.clone(), ..DeviceSpec::default() })
                .collect(),
            links: vec![LinkSpec { between: names.clone(), bandwidth: 1 << 40, ..LinkSpec::default() }],
            ..HardwareSpec::default()
        };
        let objective = Objective::Batch { inputs: 2 };
        let graph = Graph::new(graph).unwrap();
        let constraints = ConstraintsSpec::default();
        let problem = Problem::new(graph, &profile, hardware, &[], objective, &constraints).unwrap();
        let stage = |op: u32, branches: Vec<Vec<OpId>>, weights: Vec<Vec<u64>>| ChainStage {
            op: OpId(op),
            branches,
            shares: Vec::new(),
            weights,
        };
        let stages = vec![stage(0, Vec::new(), Vec::new()), stage(2, vec![vec![OpId(1)]], vec![vec![1, 1]])];
        let proof = ChainProof { stages, limit_ps: Time(1000), width: 16, shares: Vec::new() };
        let proven = ChainDpInstance::new(&problem).unwrap().proven(&proof, &mut || false);
        assert_eq!(proven, Ok(Time(12)));
    }

    /// A state has a place for the works of all thresholds.
    #[test]
    fn there_are_few_thresholds() {
        for groups in 1..=crate::batch::chain_dp::divisions::MOST_GROUPS {
            let transitions = crate::batch::chain_dp::divisions::Transitions::new(MOST_DEVICES, groups);
            let pairs =
                transitions.divisions.iter().flat_map(|a| transitions.divisions.iter().map(move |b| (a, b)));
            let most = pairs.map(|(a, b)| BatchThresholds::new(a, b, groups).least.len()).max();
            assert!(most.is_some_and(|most| most <= MOST_SIZES));
        }
    }
}
