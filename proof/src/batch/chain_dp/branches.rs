//! Branches between two ops whose sharings are known: what devices run between a part of the one and a part of the other.
//!
//! A batch of so many groups that not all of them fit beside a part of the earlier op has an input of that part, so it starts
//! after the part has ended. In the same way it ends before a part of the later op starts. A device runs all such batches
//! one after the other, and so a mean of the work of devices passes between the two parts, if there is any such batch: the
//! parts may have no input in common. Such works are added up along every branch, beside the moments, one for each size from
//! which on batches count.
//!
//! From the same walk come longer estimates of what follows a part: it is followed as if all others had ended long ago.

use crate::batch::chain_dp::divisions::{MOST_DEVICES, PAIRS, GroupDivision};
use crate::batch::chain_dp::earliest_starts::Heads;
use crate::batch::chain_dp::latest_tails::{LeastWorks, TailEstimate};
use crate::batch::chain_dp::pareto_front::{LATEST, Moments, SPENT, put, thin};
use crate::batch::chain_dp::step::{Fronts, ChainStep};
use crate::batch::chain_dp::{StageLink, MOST_LISTS, MOST_TIME, NEVER, OpTimes, ChainDp, WorkWeights};

/// Sizes from which on batches count: those of all pairs of parts, of which some are the same, and any size.
const MOST_SIZES: usize = 6;
const PLACES: usize = MOST_DEVICES + MOST_LISTS * MOST_SIZES + 1;
/// The place of the work by the shares of the course.
const WORK: usize = PLACES - 1;

/// The limit of a part rises by one such part of all that is left, then by more each time.
const RISES_OF_ALL: u64 = 400;

/// Moments as in [`Moments`], then works.
type BranchState = [u64; PLACES];

/// One sharing of the later op, and the estimates that lead to it.
pub(super) struct Goal {
    sharing: usize,
    /// As if there were no other sharing.
    tail: TailEstimate,
    /// For each op of each branch.
    inner: Vec<Vec<TailEstimate>>,
}

/// Where a walk through branches begins.
struct Entry<'a> {
    sharing: usize,
    ends: [u64; MOST_DEVICES],
    /// A moment before which devices, on the average, have no time for what follows.
    spent: u64,
    /// What ends no earlier is dropped.
    limit: u64,
    /// Whether all ends are what they say, so that means over inputs tell something.
    is_whole: bool,
    /// What devices have to do at least.
    least: &'a LeastWorks,
}

/// The devices that run anything between two ops, and how long they stand still meanwhile.
struct Crew {
    has: [bool; MOST_DEVICES],
    waits: [u64; MOST_DEVICES],
    /// Whether both ops are single batches, so that nothing else is run in between.
    is_alone: bool,
}

impl Crew {
    /// At least how long the crew takes for some work, of which the mean over all devices is given.
    fn time(&self, work: u64, shares: &WorkWeights) -> u64 {
        let (mut sum, mut all, mut of_crew) = (0, 0, 0);
        for (device, &share) in shares.iter().enumerate() {
            let share = u128::from(share);
            sum += share * u128::from(self.waits[device]);
            all += share;
            of_crew += if self.has[device] || !self.is_alone { share } else { 0 };
        }
        sum += all * u128::from(work);
        u64::try_from(sum / of_crew.max(1)).map_or(NEVER, |time| time.min(NEVER))
    }
}

/// A walk from an op to a sharing of the next one.
struct BranchWalk<'a> {
    entry: &'a Entry<'a>,
    link: &'a StageLink,
    goal: &'a Goal,
    crew: &'a Crew,
    sizes: BatchThresholds,
}

/// From which sizes on batches count, for two sharings.
struct BatchThresholds {
    /// In groups. The first one is 1.
    least: Vec<u32>,
    /// For each part of the earlier and of the later op, which of them.
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

fn used(sharing: &GroupDivision) -> impl Iterator<Item = usize> + '_ {
    (0..MOST_DEVICES).filter(|&device| sharing[device] > 0)
}

impl ChainDp<'_> {
    /// The sharings of the later op, one by one.
    pub(super) fn goals(&self, link: &StageLink, tail: &TailEstimate) -> Vec<Goal> {
        let possible = (0..self.moves.sharings.len()).filter(|&sharing| tail.sums[sharing] < NEVER);
        let goal = |sharing: usize| {
            let mut only = TailEstimate { sums: vec![NEVER; tail.sums.len()], ..tail.clone() };
            only.sums[sharing] = tail.sums[sharing];
            let inner = link.branches.iter().map(|branch| self.branch_tails(branch, &only)).collect();
            Goal { sharing, tail: only, inner }
        };
        possible.map(goal).collect()
    }

    /// The least finish behind some moments, by means over inputs too if these tell something.
    fn finish(&self, sharing: usize, moments: &Moments, tail: &TailEstimate, is_whole: bool) -> u64 {
        if is_whole {
            return self.least(sharing, moments, tail);
        }
        if tail.sums[sharing] == NEVER {
            return NEVER;
        }
        let ways = &tail.ways[sharing];
        let each = used(&self.moves.sharings[sharing]).map(|device| moments[device] + ways[device]);
        let shortest = used(&self.moves.sharings[sharing]).map(|device| ways[device]).min().unwrap_or(0);
        each.max().unwrap_or(0).max(moments[LATEST] + shortest)
    }
}

impl ChainStep<'_, '_> {
    /// From the moments of an op to those of the next one of the chain, through branches whose work is counted by parts.
    pub(super) fn pass_by_parts(
        &mut self,
        node: &OpTimes,
        fronts: &Fronts,
        link: &StageLink,
        tail: &TailEstimate,
        goals: &[Goal],
        works: &LeastWorks,
    ) -> Result<Fronts, String> {
        let mut next: Fronts = vec![Vec::new(); fronts.len()];
        for (sharing, front) in fronts.iter().enumerate() {
            let groups = self.passages.moves.sharings[sharing];
            let Some(times) = node.times[sharing] else { continue };
            let shortest = used(&groups).map(|device| times[device]).min().unwrap_or(0);
            for moments in front {
                let ends = std::array::from_fn(|d| if groups[d] > 0 { moments[d] + times[d] } else { 0 });
                let spent = moments[SPENT];
                let entry = Entry { sharing, ends, spent, limit: self.limit, is_whole: true, least: works };
                for goal in goals {
                    for mut reached in self.cross(&entry, link, goal)? {
                        reached[LATEST] = reached[LATEST].max(moments[LATEST] + shortest);
                        self.keep(goal.sharing, &link.node, reached, tail, &mut next);
                    }
                }
            }
        }
        next.iter_mut().for_each(|front| thin(front, self.width));
        Ok(next)
    }

    /// Makes the estimates of an op longer by those of each of its parts alone.
    pub(super) fn lengthen(
        &mut self,
        tail: &mut TailEstimate,
        node: &OpTimes,
        heads: &Heads,
        link: &StageLink,
        goals: &[Goal],
        works: &LeastWorks,
    ) -> Result<(), String> {
        let passages = self.passages;
        // Estimates need not be as long as they could be, and there are many of them.
        let branch_width = std::mem::replace(&mut self.branch_width, 1);
        // So late that nothing which begins with other parts comes near.
        let late = MOST_TIME / passages.inputs;
        for (sharing, groups) in passages.moves.sharings.iter().enumerate() {
            let Some(times) = node.times[sharing].filter(|_| tail.sums[sharing] < NEVER) else { continue };
            // A small part alone tells little.
            let is_whole = used(groups).count() == 1;
            for device in used(groups).filter(|&device| 2 * groups[device] >= passages.groups) {
                let way = &mut tail.ways[sharing][device];
                let head = passages.head(heads, sharing, device);
                if head.saturating_add(*way) >= self.limit {
                    continue;
                }
                let most = self.limit - head - times[device];
                let mut ends = [0; MOST_DEVICES];
                ends[device] = late;
                // Below a low limit little is left to look at, so it rises until something is.
                let mut known = *way - times[device];
                let mut rise = (most / RISES_OF_ALL).max(1);
                while known < most {
                    let limit = late + (known + rise).min(most);
                    let spent = if is_whole { late } else { 0 };
                    let entry = Entry { sharing, ends, spent, limit, is_whole, least: works };
                    let mut least = limit;
                    for goal in goals {
                        for moments in self.cross(&entry, link, goal)? {
                            let moments = passages.settled(goal.sharing, &link.node, moments);
                            least = least.min(passages.finish(goal.sharing, &moments, &goal.tail, is_whole));
                        }
                    }
                    known = known.max(least.saturating_sub(late));
                    if least < limit {
                        break;
                    }
                    rise += rise / 2;
                }
                *way = times[device] + known;
                // All inputs are on the same way.
                let sum = way.checked_mul(passages.inputs).filter(|sum| is_whole && *sum < MOST_TIME);
                tail.sums[sharing] = tail.sums[sharing].max(sum.unwrap_or(0));
            }
        }
        self.branch_width = branch_width;
        Ok(())
    }

    /// The moments of a sharing of the later op, which waits for all branches and for the work between parts.
    fn cross(&mut self, entry: &Entry<'_>, link: &StageLink, goal: &Goal) -> Result<Vec<Moments>, String> {
        let sharings = &self.passages.moves.sharings;
        let single =
            |sharing: usize| sharings[sharing].iter().position(|&groups| groups == self.passages.groups);
        let (from, to) = (single(entry.sharing), single(goal.sharing));
        let wait = |device: usize| {
            let behind = from.map_or(0, |single| link.around.behind[single][device]);
            behind + to.map_or(0, |single| link.around.before[single][device])
        };
        let all = Crew {
            has: [true; MOST_DEVICES],
            waits: std::array::from_fn(wait),
            is_alone: from.is_some() && to.is_some(),
        };
        let mut reached = Vec::new();
        // Each choice of those that wait.
        let waiting: Vec<usize> = (0..MOST_DEVICES).filter(|&device| all.waits[device] > 0).collect();
        for choice in 0..1u32 << waiting.len() {
            let mut crew = Crew { ..all };
            for (place, &device) in waiting.iter().enumerate() {
                if choice >> place & 1 == 0 {
                    (crew.has[device], crew.waits[device]) = (false, 0);
                }
            }
            reached.extend(self.cross_with(entry, link, goal, &crew)?);
        }
        Ok(reached)
    }

    fn cross_with(
        &mut self,
        entry: &Entry<'_>,
        link: &StageLink,
        goal: &Goal,
        crew: &Crew,
    ) -> Result<Vec<Moments>, String> {
        let passages = self.passages;
        let sharings = &passages.moves.sharings;
        let sizes = BatchThresholds::new(&sharings[entry.sharing], &sharings[goal.sharing], passages.groups);
        let crossing = BranchWalk { entry, link, goal, crew, sizes };
        let mut fronts: Vec<Vec<BranchState>> = Vec::with_capacity(link.branches.len());
        // What the branches so far add to works at least.
        let mut done: BranchState = [0; PLACES];
        for number in 0..link.branches.len() {
            let front = self.follow_to(&crossing, number, &done)?;
            if front.is_empty() {
                return Ok(Vec::new());
            }
            for (work, done) in done.iter_mut().enumerate().skip(MOST_DEVICES) {
                *done += front.iter().map(|state| state[work]).min().unwrap_or(0);
            }
            fronts.push(front);
        }
        // What branches add to works at least, from each one on.
        let mut rest = vec![[0u64; PLACES]; fronts.len() + 1];
        for (place, front) in fronts.iter().enumerate().rev() {
            for work in MOST_DEVICES..PLACES {
                let least = front.iter().map(|state| state[work]).min().unwrap_or(0);
                rest[place][work] = rest[place + 1][work] + least;
            }
        }
        let mut all: Vec<BranchState> = vec![[0; PLACES]];
        for (front, rest) in fronts.iter().zip(&rest[1..]) {
            let mut united: Vec<BranchState> = Vec::new();
            for (a, b) in all.iter().flat_map(|a| front.iter().map(move |b| (a, b))) {
                self.count()?;
                let both: BranchState =
                    std::array::from_fn(|p| if p < MOST_DEVICES { a[p].max(b[p]) } else { a[p] + b[p] });
                let with_rest: BranchState = std::array::from_fn(|place| both[place] + rest[place]);
                let moments = self.arrived(&crossing, &with_rest);
                let moments = passages.settled(goal.sharing, &link.node, moments);
                if passages.finish(goal.sharing, &moments, &goal.tail, entry.is_whole) < entry.limit {
                    united.push(both);
                }
            }
            thin(&mut united, self.branch_width);
            all = united;
        }
        Ok(all.iter().map(|state| self.arrived(&crossing, state)).collect())
    }

    /// The moments of the later op after all branches.
    fn arrived(&self, crossing: &BranchWalk<'_>, state: &BranchState) -> Moments {
        let BranchWalk { entry, link, goal, crew, sizes } = crossing;
        let [from, to] = [entry.sharing, goal.sharing].map(|s| &self.passages.moves.sharings[s]);
        let mut moments = Moments::default();
        moments[..MOST_DEVICES].copy_from_slice(&state[..MOST_DEVICES]);
        let first_end = used(from).map(|device| entry.ends[device]).min().unwrap_or(0);
        let lists = state[MOST_DEVICES..WORK].chunks_exact(MOST_SIZES);
        for (works, shares) in lists.zip(&link.weights) {
            for there in used(to) {
                for here in used(from) {
                    // Without such a batch the one part need not wait for the other.
                    let work = works[sizes.of[here][there]];
                    let passed = if work > 0 { entry.ends[here] + work } else { 0 };
                    moments[there] = moments[there].max(passed);
                }
            }
            moments[LATEST] = moments[LATEST].max(first_end + crew.time(works[0], shares));
        }
        moments[SPENT] = entry.spent + crew.time(state[WORK], &link.shares);
        moments
    }

    /// One branch, behind others that add so much to works.
    fn follow_to(
        &mut self,
        crossing: &BranchWalk<'_>,
        number: usize,
        done: &BranchState,
    ) -> Result<Vec<BranchState>, String> {
        let BranchWalk { entry, link, goal, crew, sizes } = crossing;
        let (branch, inner) = (&link.branches[number], &goal.inner[number]);
        let passages = self.passages;
        let count = passages.moves.sharings.len();
        let mut fronts: Vec<Vec<BranchState>> = vec![Vec::new(); count];
        let mut begin: BranchState = [0; PLACES];
        begin[..MOST_DEVICES].copy_from_slice(&entry.ends);
        fronts[entry.sharing].push(begin);
        for (place, delays) in branch.delays.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &branch.nodes[before]);
            let tail = inner.get(place).unwrap_or(&goal.tail);
            let is_last = place == branch.nodes.len();
            let is_open = |there: &usize| {
                let groups = &passages.moves.sharings[*there];
                tail.sums[*there] < NEVER && (is_last || used(groups).all(|device| crew.has[device]))
            };
            // With what follows each at least, the shortest first.
            let mut open: Vec<(u64, usize)> = (0..count)
                .filter(is_open)
                .map(|there| {
                    let ways = used(&passages.moves.sharings[there]).map(|device| tail.ways[there][device]);
                    let mean = if entry.is_whole { tail.sums[there] / passages.inputs } else { 0 };
                    (ways.max().unwrap_or(0).max(mean), there)
                })
                .collect();
            open.sort_unstable();
            let rest = entry.least.branches[number][place] + entry.least.from(number + 1);
            let mut next: Vec<Vec<BranchState>> = vec![Vec::new(); count];
            for (here, front) in fronts.iter().enumerate().filter(|(_, front)| !front.is_empty()) {
                let spent = before.map_or(Some([0; PLACES]), |node| self.spent(node, here, link, sizes));
                let Some(spent) = spent else { continue };
                let is_in_time = |ended: &BranchState| {
                    let works: BranchState = std::array::from_fn(|place| match place {
                        0..MOST_DEVICES => 0,
                        _ => ended[place] + done[place],
                    });
                    if entry.spent + works[WORK] + rest >= entry.limit {
                        return false;
                    }
                    let moments = self.arrived(crossing, &works);
                    let moments = passages.settled(goal.sharing, &link.node, moments);
                    passages.finish(goal.sharing, &moments, &goal.tail, entry.is_whole) < entry.limit
                };
                let ended =
                    |state: &BranchState| -> BranchState { std::array::from_fn(|place| state[place] + spent[place]) };
                let front: Vec<BranchState> = front.iter().map(ended).filter(is_in_time).collect();
                // Every batch of the next op has inputs of one of these, so none starts before the first of them ends.
                let ends =
                    front.iter().flat_map(|ended| used(&passages.moves.sharings[here]).map(|d| ended[d]));
                let Some(first_end) = ends.min() else { continue };
                let is_near = |(rest, _): &&(u64, usize)| first_end + rest < entry.limit;
                for &(_, there) in open.iter().take_while(is_near) {
                    for handed in passages.moves.between(here, there) {
                        let mut ways = [(0, 0, 0); PAIRS];
                        for (way, part) in ways.iter_mut().zip(handed) {
                            *way = (part.from, part.to, delays.of(part));
                        }
                        let ways = &ways[..handed.len()];
                        if ways.iter().any(|way| way.2 == NEVER) {
                            continue;
                        }
                        for ended in &front {
                            self.count()?;
                            let mut moments = Moments::default();
                            for &(from, to, delay) in ways {
                                moments[to] = moments[to].max(ended[from] + delay);
                            }
                            if passages.finish(there, &moments, tail, entry.is_whole) < entry.limit {
                                let mut new = *ended;
                                new[..MOST_DEVICES].copy_from_slice(&moments[..MOST_DEVICES]);
                                put(&mut next[there], new, self.branch_width);
                            }
                        }
                    }
                }
            }
            next.iter_mut().for_each(|front| thin(front, self.branch_width));
            fronts = next;
        }
        Ok(std::mem::take(&mut fronts[goal.sharing]))
    }

    /// The times of an op's batches, then the works that they add; none if it cannot be shared so.
    fn spent(&self, node: &OpTimes, sharing: usize, link: &StageLink, sizes: &BatchThresholds) -> Option<BranchState> {
        let times = node.times[sharing]?;
        let groups = &self.passages.moves.sharings[sharing];
        let mut spent: BranchState = [0; PLACES];
        spent[..MOST_DEVICES].copy_from_slice(&times);
        spent[WORK] = node.works[sharing];
        for (works, shares) in spent[MOST_DEVICES..WORK].chunks_exact_mut(MOST_SIZES).zip(&link.weights) {
            let all = u128::from(shares.iter().sum::<u64>().max(1));
            for (work, &least) in works.iter_mut().zip(&sizes.least) {
                let counted = (0..MOST_DEVICES).filter(|&device| groups[device] >= least);
                let sum: u128 = counted.map(|d| u128::from(times[d]) * u128::from(shares[d])).sum();
                // A mean of times is no longer than the longest of them.
                *work = (sum / all) as u64;
            }
        }
        Some(spent)
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
    fn a_batch_counts_where_it_cannot_but_share_inputs_with_both_parts() {
        let sizes = BatchThresholds::new(&[0, 0, 4], &[0, 1, 3], 4);
        assert_eq!(sizes.least, [1, 4, 2]);
        assert_eq!([sizes.of[2][1], sizes.of[2][2]], [1, 2]);
        // Between two parts with one group each, only what has all groups.
        let sizes = BatchThresholds::new(&[1, 0, 3], &[0, 1, 3], 4);
        assert_eq!(sizes.least[sizes.of[0][1]], 4);
        assert_eq!(sizes.least[sizes.of[2][2]], 2);
    }

    /// Two inputs through a → b → c, each on a device of its own: one is soon at c and long there, the other the other way round.
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
        let profile = Profile { classes, whole_model: Vec::new() };
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
        let course = ChainProof { stages, limit_ps: Time(1000), width: 16, shares: Vec::new() };
        let proven = ChainDp::new(&problem).unwrap().proven(&course, &mut || false);
        assert_eq!(proven, Ok(Time(12)));
    }

    /// There is room for the works of all sizes.
    #[test]
    fn sizes_are_few() {
        for groups in 1..=crate::batch::chain_dp::divisions::MOST_GROUPS {
            let moves = crate::batch::chain_dp::divisions::Moves::new(MOST_DEVICES, groups);
            let pairs = moves.sharings.iter().flat_map(|a| moves.sharings.iter().map(move |b| (a, b)));
            let most = pairs.map(|(a, b)| BatchThresholds::new(a, b, groups).least.len()).max();
            assert!(most.is_some_and(|most| most <= MOST_SIZES));
        }
    }
}
