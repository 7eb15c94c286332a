//! `batch` by passages: a batch waits for the slowest part of what it puts together.
//!
//! All inputs pass a chain of ops. A *sharing* of an op says how many groups of inputs each device has of it
//! (`moves`). The argument goes along the chain and keeps, for each sharing of the op at hand, the moments at which its
//! batches can start at the earliest: a batch starts when every batch that hands it inputs has ended and what it hands over has
//! arrived. Which device then runs which batch in which order is left out, and so are memory and colocation. Of two lists of
//! moments that differ in every place in the same direction the later one is dropped; if there are too many, some that are alike
//! become one, as early as the earliest of them in each place. So what comes out is the least finish of any plan, or less.
//!
//! Between two ops of the chain there may be several *branches*, chains of their own that begin behind the one op and end before
//! the other. Each is followed by itself from the same moments; the next op waits for all of them. Besides, from the first end
//! of the earlier op to the last start of the later one, a device runs its batches of all branches one after the other:
//! that time is at least any average of the work of devices, by [`ChainStage::shares`]. It tells when the last batch of
//! the later op starts, not which of them it is, so each of them is taken for the last one in turn.
//!
//! The same holds from the first end of any op of the chain to the last start of any later one. With [`ChainProof::shares`] the
//! average of all work since is carried along the chain, so that the branches of one op cannot gain by what those of the next
//! lose.
//!
//! With [`ChainStage::weights`] that work is counted for every two parts of the two ops by itself (`parts`), which tells of each batch
//! of the later op when it starts. There also counts how long devices stand still around an op that is a single batch (`waits`).
//!
//! What certainly ends no earlier than a limit is dropped on the way, so no more than the limit is proved. Two estimates, both
//! worked out backward, tell: the longest way of some input of each batch, and the mean over all inputs of their ways.
//! All in integers; every rounding is down.

mod branches;
mod divisions;
mod earliest_starts;
mod idle_time;
mod latest_tails;
mod pareto_front;
mod step;

use crate::batch::chain_dp::branches::Goal;
pub use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::divisions::{Handed, MOST_GROUPS, Moves, GroupDivision};
use crate::batch::chain_dp::idle_time::Around;
use crate::batch::chain_dp::latest_tails::{LeastWorks, TailEstimate};
use crate::batch::chain_dp::pareto_front::Moments;
use crate::batch::chain_dp::step::ChainStep;
use crate::division_lp::reached;
use crate::division_lp::units::divisor;
use crate::evidence::{ChainProof, ChainStage};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// Never, and more than any sum of times.
const NEVER: u64 = 1 << 62;
/// Times of all inputs along the whole chain add up to less.
const MOST_TIME: u64 = 1 << 60;
/// Shares are at most this.
const MOST_SHARE: u64 = 1 << 16;
/// The most lists of shares of a stage.
const MOST_LISTS: usize = 2;
/// The most that are kept for a sharing.
const MOST_WIDTH: u32 = 1 << 12;

/// The argument for a problem.
pub struct ChainDp<'a> {
    problem: &'a Problem,
    inputs: u64,
    groups: u32,
    /// Inputs of a group.
    grain: u32,
    moves: Moves,
}

impl<'a> ChainDp<'a> {
    /// The argument; an error if it says nothing of the problem.
    pub fn new(problem: &'a Problem) -> Result<ChainDp<'a>, String> {
        let Objective::Batch { inputs } = problem.objective else {
            return Err(format!("passages are for `batch`, not for `{}`", problem.objective.name()));
        };
        let devices = problem.hardware.device_count();
        if devices > MOST_DEVICES {
            return Err(format!("{devices} devices are too many, {MOST_DEVICES} is the most"));
        }
        let grain = group(problem, inputs)?;
        let groups = inputs / grain;
        if groups > MOST_GROUPS {
            return Err(format!("sizes make {groups} groups of the inputs, {MOST_GROUPS} is the most"));
        }
        Ok(ChainDp { problem, inputs: u64::from(inputs), groups, grain, moves: Moves::new(devices, groups) })
    }

    /// What a course proves; an error if it is none, or `stop` ends it.
    pub fn proven(&self, course: &ChainProof, stop: &mut dyn FnMut() -> bool) -> Result<Time, String> {
        if course.width == 0 || course.width > MOST_WIDTH || course.limit_ps.0 > MOST_TIME {
            return Err(format!("a course has a limit, and a width from 1 to {MOST_WIDTH}"));
        }
        if !course.shares.is_empty() && !self.are_shares(&course.shares) {
            return Err(format!("a course needs one share up to {MOST_SHARE} for each device, or none"));
        }
        let shares = filled(&course.shares);
        let links = self.links(&course.stages, &shares)?;
        let Some(first) = course.stages.first() else { return Err("a course has no stages".to_owned()) };
        let first = self.node(first.op, &shares);
        // Backward: from each op of the chain, and of its branches, to the end.
        let last = links.last().map_or(&first, |link| &link.node);
        let mut tail = self.tail_of_last(last);
        let mut tails: Vec<TailEstimate> = Vec::new();
        let mut aheads: Vec<Ahead> = Vec::new();
        let limit = course.limit_ps.0;
        let mut search = ChainStep::new(self, limit, course.width as usize, stop);
        let heads = self.heads(&first, &links);
        for (number, link) in links.iter().enumerate().rev() {
            let before = if number == 0 { &first } else { &links[number - 1].node };
            let soonest = self.soonest(before, &heads[number]);
            let behind = (tail.rest + self.least_work(&link.node, &tail, soonest, limit)).min(NEVER);
            let branches: Vec<Vec<TailEstimate>> =
                link.branches.iter().map(|b| self.branch_tails(b, &tail)).collect();
            let works = LeastWorks {
                branches: (link.branches.iter().zip(&branches))
                    .map(|(branch, inner)| self.least_works(branch, inner, soonest, limit))
                    .collect(),
                behind,
            };
            let mut earlier: Option<TailEstimate> = None;
            for (branch, inner) in link.branches.iter().zip(&branches) {
                let next = inner.first().unwrap_or(&tail);
                let new = self.tail_before(before, &branch.delays[0], next);
                earlier = Some(earlier.map_or(new.clone(), |known| known.later(&new)));
            }
            let Some(mut earlier) = earlier else { return Err("a stage has no branches".to_owned()) };
            if link.branches.len() > 1 {
                for shares in &link.weights {
                    earlier = earlier.later(&self.tail_across(before, link, shares, &tail));
                }
            }
            earlier.rest = works.from(0);
            let ways = if link.is_by_parts {
                let goals = self.goals(link, &tail);
                search.lengthen(&mut earlier, before, &heads[number], link, &goals, &works)?;
                ArrivalsByPath::Goals(goals)
            } else {
                ArrivalsByPath::Branches(branches)
            };
            aheads.push(Ahead { ways, works });
            tails.push(std::mem::replace(&mut tail, earlier));
        }
        tails.reverse();
        aheads.reverse();
        let mut fronts: Vec<Vec<Moments>> = vec![Vec::new(); self.moves.sharings.len()];
        for (sharing, front) in fronts.iter_mut().enumerate() {
            if first.times[sharing].is_some() {
                front.push(self.settled(sharing, &first, Moments::default()));
            }
        }
        let mut node = &first;
        for ((link, tail), ahead) in links.iter().zip(&tails).zip(&aheads) {
            fronts = match &ahead.ways {
                ArrivalsByPath::Branches(inner) => search.pass(node, &fronts, link, tail, inner, &ahead.works)?,
                ArrivalsByPath::Goals(goals) => search.pass_by_parts(node, &fronts, link, tail, goals, &ahead.works)?,
            };
            node = &link.node;
        }
        let end = self.tail_of_last(node);
        let least = |(sharing, front): (usize, &Vec<Moments>)| {
            front.iter().map(|moments| self.least(sharing, moments, &end)).min()
        };
        let least = fronts.iter().enumerate().filter_map(least).min().unwrap_or(NEVER);
        Ok(Time(least.min(course.limit_ps.0)))
    }

    /// What the chain goes through, behind its first op.
    fn links(&self, stages: &[ChainStage], shares: &WorkWeights) -> Result<Vec<StageLink>, String> {
        let graph = &self.problem.graph;
        let mut used = vec![false; graph.op_count()];
        for &op in stages.iter().flat_map(|stage| stage.branches.iter().flatten().chain([&stage.op])) {
            if op.index() >= used.len() || std::mem::replace(&mut used[op.index()], true) {
                return Err(format!("op {} does not exist, or is there twice", op.0));
            }
        }
        if stages.first().is_some_and(|stage| !stage.branches.is_empty()) {
            return Err("nothing lies before the first stage".to_owned());
        }
        let links: Vec<StageLink> = stages
            .windows(2)
            .map(|pair| self.link(pair[0].op, &pair[1], shares))
            .collect::<Result<_, _>>()?;
        let nodes =
            links.iter().flat_map(|link| link.branches.iter().flat_map(|b| &b.nodes).chain([&link.node]));
        let longest =
            nodes.flat_map(|node| node.times.iter().flatten().flatten()).copied().max().unwrap_or(0);
        let delays = links.iter().flat_map(|link| link.branches.iter().flat_map(|branch| &branch.delays));
        let farthest = delays.flat_map(Delays::all).filter(|&delay| delay < NEVER).max().unwrap_or(0);
        let first = stages.first().map_or(0, |stage| self.node(stage.op, shares).longest());
        let each = longest.max(first).checked_add(farthest).ok_or_else(too_large)?;
        let all = each.checked_mul(used.len() as u64 + 1).and_then(|all| all.checked_mul(self.inputs));
        all.filter(|&all| all < MOST_TIME).ok_or_else(too_large)?;
        Ok(links)
    }

    fn link(&self, before: OpId, stage: &ChainStage, of_all: &WorkWeights) -> Result<StageLink, String> {
        let graph = &self.problem.graph;
        let devices = self.problem.hardware.device_count();
        let one_empty = [Vec::new()];
        let branches = if stage.branches.is_empty() { &one_empty[..] } else { &stage.branches };
        let has_ops = branches.iter().any(|branch| !branch.is_empty());
        if has_ops {
            let [behind, ahead] =
                [reached(self.problem, before, true), reached(self.problem, stage.op, false)];
            let is_between = |op: &OpId| behind[op.index()] && ahead[op.index()];
            if let Some(op) = branches.iter().flatten().find(|op| !is_between(op)) {
                return Err(format!("`{}` is not between the ops of two stages", graph.op_name(*op)));
            }
            if !stage.lists().iter().all(|list| self.are_shares(list)) || stage.lists().len() > MOST_LISTS {
                return Err(format!(
                    "branches need one share up to {MOST_SHARE} for each of {devices} devices, {MOST_LISTS} lists at most"
                ));
            }
        }
        let mut built = Vec::new();
        for branch in branches {
            let ops: Vec<OpId> = [before].iter().chain(branch).chain([&stage.op]).copied().collect();
            for (place, pair) in ops.windows(2).enumerate() {
                let inside = place > 0 && place < branch.len();
                if (inside || branch.is_empty()) && self.joining(pair[0], pair[1]).is_none() {
                    let [from, to] = [graph.op_name(pair[0]), graph.op_name(pair[1])];
                    return Err(format!("`{to}` reads nothing that `{from}` makes"));
                }
            }
            built.push(Branch {
                nodes: branch.iter().map(|&op| self.node(op, of_all)).collect(),
                delays: ops.windows(2).map(|pair| self.delays(pair[0], pair[1])).collect(),
            });
        }
        let weights: Vec<WorkWeights> = if has_ops {
            stage.lists().iter().map(|list| filled(list)).collect()
        } else {
            vec![[0; MOST_DEVICES]]
        };
        let is_by_parts = has_ops && !stage.weights.is_empty();
        let around = self.around(before, &branches.concat(), stage.op);
        Ok(StageLink {
            branches: built,
            weights,
            shares: *of_all,
            is_by_parts,
            around,
            node: self.node(stage.op, of_all),
        })
    }

    /// Whether there is one share for each device, and some that count.
    fn are_shares(&self, shares: &[u64]) -> bool {
        let is_share = |&share: &u64| share <= MOST_SHARE;
        let is_some = shares.iter().any(|&share| share > 0);
        shares.len() == self.problem.hardware.device_count() && shares.iter().all(is_share) && is_some
    }

    fn node(&self, op: OpId, shares: &WorkWeights) -> OpTimes {
        let time = |device: usize, groups: u32| {
            let device = DeviceId::new(device);
            if groups == 0 {
                return Some(0);
            }
            let cost = self.problem.cost(op, device, groups * self.grain);
            cost.filter(|_| self.problem.may_run(op, device)).map(|cost| cost.time.0)
        };
        let times = |sharing: &GroupDivision| {
            let mut times = [0; MOST_DEVICES];
            for (device, &groups) in sharing.iter().enumerate() {
                times[device] = time(device, groups)?;
            }
            Some(times)
        };
        let times: Vec<Option<[u64; MOST_DEVICES]>> = self.moves.sharings.iter().map(times).collect();
        let works = times.iter().map(|times| times.map_or(NEVER, |times| mean(&times, shares))).collect();
        OpTimes { times, works }
    }

    /// What the shortest batch of an op takes on each device.
    fn least_times(&self, op: OpId) -> [u64; MOST_DEVICES] {
        let node = self.node(op, &[0; MOST_DEVICES]);
        let mut least = [NEVER; MOST_DEVICES];
        for (sharing, times) in self.moves.sharings.iter().zip(&node.times) {
            let Some(times) = times else { continue };
            for device in (0..MOST_DEVICES).filter(|&device| sharing[device] > 0) {
                least[device] = least[device].min(times[device]);
            }
        }
        least
    }

    /// Bytes of the largest tensor that joins two ops.
    fn joining(&self, from: OpId, to: OpId) -> Option<u64> {
        let graph = &self.problem.graph;
        let tensors = graph.inputs(to).iter().filter(|&&tensor| graph.producer(tensor) == Some(from));
        tensors.map(|&tensor| graph.tensor_bytes(tensor)).max()
    }

    /// How long it takes to hand inputs from one op to another; no time where the one does not read from the other.
    fn delays(&self, from: OpId, to: OpId) -> Delays {
        let mut delays = Delays { amounts: self.groups as usize + 1, delays: Vec::new() };
        let bytes = self.joining(from, to);
        let devices = self.problem.hardware.device_count();
        for pair in 0..MOST_DEVICES * MOST_DEVICES {
            let [here, there] = [pair / MOST_DEVICES, pair % MOST_DEVICES];
            for groups in 0..=self.groups {
                let inputs = u64::from(groups * self.grain).max(1);
                let delay = match bytes {
                    Some(bytes) if here != there && here.max(there) < devices => {
                        let route = self.problem.hardware.route(DeviceId::new(here), DeviceId::new(there));
                        route.map_or(NEVER, |route| route.time(bytes * inputs).0)
                    }
                    _ => 0,
                };
                delays.delays.push(delay);
            }
        }
        delays
    }
}

/// The times of an op by sharing and device; none where it cannot be shared so.
struct OpTimes {
    times: Vec<Option<[u64; MOST_DEVICES]>>,
    /// Their means by the shares of the course.
    works: Vec<u64>,
}

impl OpTimes {
    fn longest(&self) -> u64 {
        self.times.iter().flatten().flatten().copied().max().unwrap_or(0)
    }
}

/// Delays by pair of devices and groups.
struct Delays {
    amounts: usize,
    delays: Vec<u64>,
}

impl Delays {
    fn of(&self, handed: &Handed) -> u64 {
        self.delays[(handed.from * MOST_DEVICES + handed.to) * self.amounts + handed.groups as usize]
    }

    fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.delays.iter().copied()
    }
}

struct Branch {
    nodes: Vec<OpTimes>,
    /// One more than nodes: the last to the op of the stage.
    delays: Vec<Delays>,
}

/// What lies between the op of a stage and the next one, and that one.
struct StageLink {
    branches: Vec<Branch>,
    /// At least one list.
    weights: Vec<WorkWeights>,
    /// Those of the course.
    shares: WorkWeights,
    /// Whether work is counted for every two parts by itself.
    is_by_parts: bool,
    around: Around,
    node: OpTimes,
}

/// How much the work of each device counts.
type WorkWeights = [u64; MOST_DEVICES];

fn filled(given: &[u64]) -> WorkWeights {
    let mut shares = [0; MOST_DEVICES];
    shares.iter_mut().zip(given).for_each(|(share, &given)| *share = given);
    shares
}

/// The mean of times, no longer than the longest of them; none if no device counts.
fn mean(times: &[u64; MOST_DEVICES], shares: &WorkWeights) -> u64 {
    let sum: u128 =
        times.iter().zip(shares).map(|(&time, &share)| u128::from(time) * u128::from(share)).sum();
    (sum / u128::from(shares.iter().sum::<u64>().max(1))) as u64
}

/// Estimates within what lies between two stages.
struct Ahead {
    ways: ArrivalsByPath,
    works: LeastWorks,
}

/// By ways.
enum ArrivalsByPath {
    /// For each branch.
    Branches(Vec<Vec<TailEstimate>>),
    /// For each sharing of the later op.
    Goals(Vec<Goal>),
}

/// Inputs of a group: what all sizes that are part of a division are multiples of.
fn group(problem: &Problem, inputs: u32) -> Result<u32, String> {
    const MOST_INPUTS: u32 = 1 << 12;
    if inputs > MOST_INPUTS {
        return Err(format!("{inputs} inputs are too many, {MOST_INPUTS} is the most"));
    }
    let total = inputs as usize;
    let sizes: Vec<&[u32]> = problem.hardware.devices().map(|device| problem.batch_sizes(device)).collect();
    // For each device, what the others can take together.
    let reach = |left_out: usize| {
        let mut reached: Vec<bool> = (0..=total).map(|sum| sum == 0).collect();
        for (_, sizes) in sizes.iter().enumerate().filter(|(device, _)| *device != left_out) {
            let before = reached.clone();
            for &size in sizes.iter().filter(|&&size| size <= inputs) {
                (size as usize..=total).for_each(|sum| reached[sum] |= before[sum - size as usize]);
            }
        }
        reached
    };
    let mut grain = 0;
    for (device, sizes) in sizes.iter().enumerate() {
        let others = reach(device);
        let used = sizes.iter().filter(|&&size| size <= inputs && others[(inputs - size) as usize]);
        grain = used.fold(grain, |grain, &size| divisor(grain, size));
    }
    if grain == 0 { Err(format!("no sizes divide {inputs} inputs")) } else { Ok(divisor(grain, inputs)) }
}

fn too_large() -> String {
    "its figures add up to more than can be counted".to_owned()
}

/// What a course proves of a problem.
pub(crate) fn proven(problem: &Problem, course: &ChainProof) -> Result<Time, String> {
    ChainDp::new(problem)?.proven(course, &mut || false)
}
