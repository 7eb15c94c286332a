//! `division-cases`: `division-lp`, with the divisions of ops told apart in parts of the network.
//!
//! A linear program may divide an op in two ways at once, half of each. Here the network is cut where few results pass. What the
//! dual of `division-lp` says of the work of devices and of results that pass between parts is kept. Each part is then a small
//! program of its own, whose values add up, and in each cases are told apart by branch and bound: whether a class of devices
//! takes at least so many inputs of an op, or fewer; and where two ops are single batches of one device and in each other's
//! way, which is the first. Of a few such questions the one is asked that raises the program's values most. A tree that is not
//! finished proves something as well: the least of its open ends. `core/src/makespan/relaxations/cases.rs` says why it holds.

pub(crate) mod outer_lp;

use std::time::Duration;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{CaseTree, Evidence, PricedEdge, CaseRegion, DevicePair, WorkWindow};
use divvy_solver::{Column, Options, Solver, Status};

use crate::batch::bounds::division_cases::outer_lp::Outer;
use crate::bound::{Bound, When};
use crate::division_lp::division_shapes::{AHEAD, Between, Shapes};
use crate::division_lp::{DivisionProgram, PARTS, prove_program, time_of, united, whole_times};
use crate::run::Run;

/// Ops of a part, at least and at most, where the network can be cut so.
const PART_OPS: [usize; 2] = [8, 20];
/// How many questions are tried before one is asked.
const QUESTIONS: usize = 2;
/// Shares below this are none.
const LEAST_SHARE: f64 = 1e-4;
/// Ops in each other's way for less than this, in thousandths of the network's work, are not.
const LEAST_LACK: f64 = 1e-5;
/// Where `division-lp` proves less than this part of what others did, cases will not make up for it.
const LEAST_PROMISE: f64 = 0.97;
/// Where a planner waits, it has the time once the second half of the time so far raised the bound by less than this part.
const LEAST_GAIN: f64 = 5e-4;
/// How often each part is branched in before what is proved is worked out in integers.
const BRANCHES_PER_LOOK: usize = 10;

pub(crate) struct DivisionCases;

impl Bound for DivisionCases {
    fn name(&self) -> &'static str {
        "division-cases"
    }

    fn about(&self) -> &'static str {
        "division-lp, with the divisions of ops told apart by branch and bound in parts of the network"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        Shapes::of_batches(problem).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn ahead(&self) -> Option<f64> {
        Some(AHEAD)
    }

    fn bound(&self, run: &mut Run<'_>) {
        let problem = run.problem;
        let Ok(shapes) = Shapes::new(problem) else { return run.exhaust() };
        if !shapes.has_windows() {
            return run.exhaust();
        }
        if !is_divided(run) {
            prove_program(run, self.name());
        }
        let Some((value, known)) = Always::new(run) else {
            // There was no time, or memory has a price.
            if is_divided(run) {
                run.exhaust();
            }
            return;
        };
        let proven = lower_bound(run);
        if (value.0 as f64) < proven * LEAST_PROMISE {
            return run.exhaust();
        }
        let mut effort = BranchingLimit { nodes: run.budget.nodes, branched: 0 };
        let reach = shapes.reach();
        let given = Given { problem, shapes: &shapes, reach: &reach };
        let mut forest = Forest { given, trees: Vec::new() };
        for ops in parts(&shapes) {
            let Some(tree) = Tree::new(run, given, &known, ops) else { return };
            forest.trees.push(tree);
        }
        run.prove(self.name(), known.evidence(&forest.trees));
        let mut is_worth_it = true;
        let mut proven = vec![(run.budget.start.elapsed(), lower_bound(run))];
        while !run.is_solved() && is_worth_it && forest.grow(run, &mut effort) {
            run.prove(self.name(), known.evidence(&forest.trees));
            proven.push((run.budget.start.elapsed(), lower_bound(run)));
            is_worth_it = !run.has_planner_waiting() || effort.nodes.is_some() || rises(&proven);
        }
        run.count(effort.branched);
        if is_worth_it && !effort.is_over(run) {
            run.exhaust();
        }
    }
}

/// Whether `division-lp`, or a program like it, was solved.
fn is_divided(run: &Run<'_>) -> bool {
    run.outcome().certificates.iter().any(|known| matches!(known.evidence, Evidence::DivisionLp { .. }))
}

/// How long branching goes on.
struct BranchingLimit {
    nodes: Option<u64>,
    branched: u64,
}

impl BranchingLimit {
    fn is_over(&self, run: &Run<'_>) -> bool {
        let spent = self.nodes.is_some_and(|nodes| self.branched >= nodes);
        spent || run.budget.is_spent()
    }
}

fn lower_bound(run: &Run<'_>) -> f64 {
    run.outcome().lower_bound().map_or(0.0, |bound| bound.0 as f64)
}

/// Whether what was proved at some moments, the first and the last among them, still rises.
fn rises(proven: &[(Duration, f64)]) -> bool {
    let [(began, _), .., (now, last)] = proven else { return true };
    let half = (*began + *now) / 2;
    let before = proven.iter().rfind(|(moment, _)| *moment <= half);
    before.is_none_or(|(_, before)| last - before >= last * LEAST_GAIN)
}

fn left(run: &Run<'_>) -> Duration {
    run.budget.time.saturating_sub(run.budget.start.elapsed())
}

/// What all parts have in common.
#[derive(Clone, Copy)]
struct Given<'a> {
    problem: &'a Problem,
    shapes: &'a Shapes,
    reach: &'a [Vec<bool>],
}

/// All parts.
struct Forest<'a> {
    given: Given<'a>,
    trees: Vec<Tree>,
}

impl Forest<'_> {
    /// Branches in each part some times; false if nothing is left to ask, or no time.
    fn grow(&mut self, run: &Run<'_>, effort: &mut BranchingLimit) -> bool {
        let before = effort.branched;
        for _ in 0..BRANCHES_PER_LOOK {
            for tree in &mut self.trees {
                if !effort.is_over(run) {
                    let branched = tree.branch(self.given, left(run));
                    effort.branched += u64::from(branched.is_some());
                }
            }
        }
        effort.branched > before
    }
}

/// What holds in all cases: the best dual of `division-lp`.
pub(crate) struct Always {
    weights: Vec<u64>,
    flows: Vec<PricedEdge>,
    windows: Vec<WorkWindow>,
}

impl Always {
    fn new(run: &Run<'_>) -> Option<(Time, Always)> {
        let known = run.outcome().certificates.iter().filter_map(|known| match &known.evidence {
            // Cases do not know of memory.
            Evidence::DivisionLp { weights, flows, windows, memory } if memory.is_empty() => Some((
                known.value_ps,
                Always { weights: weights.clone(), flows: flows.clone(), windows: windows.clone() },
            )),
            _ => None,
        });
        known.max_by_key(|known| known.0)
    }

    /// The weight of each class.
    fn class_weights(&self, problem: &Problem, shapes: &Shapes) -> Vec<f64> {
        let mut weights = vec![0.0; shapes.devices.len()];
        for (device, &weight) in problem.hardware.devices().zip(&self.weights) {
            weights[problem.hardware.class_of(device).index()] = weight as f64 / PARTS;
        }
        weights
    }

    /// What trees prove.
    fn evidence(&self, trees: &[Tree]) -> Evidence {
        let apart = |from: usize, to: usize| !trees.iter().any(|tree| tree.has(from) && tree.has(to));
        let flows = self.flows.iter().filter(|flow| apart(flow.from.index(), flow.to.index()));
        let windows = self.windows.iter().filter(|window| match (window.from, window.to) {
            (Some(from), Some(to)) => apart(from.index(), to.index()),
            _ => true,
        });
        Evidence::DivisionCases {
            weights: self.weights.clone(),
            flows: flows.cloned().collect(),
            windows: windows.cloned().collect(),
            parts: trees.iter().map(Tree::part).collect(),
        }
    }
}

/// Cuts the network into parts: ops that follow each other, few results between them and the others.
fn parts(shapes: &Shapes) -> Vec<Vec<usize>> {
    let count = shapes.order.len();
    let mut place = vec![0; count];
    shapes.order.iter().enumerate().for_each(|(at, &op)| place[op] = at);
    // How many ops before a place have results that are read behind it.
    let mut passing = vec![0usize; count + 1];
    for op in 0..count {
        let last = shapes.edges.iter().filter(|edge| edge.0 == op).map(|edge| place[edge.1]).max();
        (place[op] + 1..=last.unwrap_or(place[op])).for_each(|at| passing[at] += 1);
    }
    let [least, most] = PART_OPS;
    // The fewest results in all up to a place, and where the last part begins.
    let mut best: Vec<Option<(usize, usize)>> = vec![None; count + 1];
    best[0] = Some((0, 0));
    for end in 1..=count {
        let shortest = if end == count { 1 } else { least };
        for begin in end.saturating_sub(most)..=end.saturating_sub(shortest) {
            let Some((sum, _)) = best[begin] else { continue };
            let sum = sum + passing[end];
            if best[end].is_none_or(|known| sum < known.0) {
                best[end] = Some((sum, begin));
            }
        }
    }
    let mut parts = Vec::new();
    let mut end = count;
    while let Some((_, begin)) = best[end].filter(|_| end > 0) {
        parts.push(shapes.order[begin..end].to_vec());
        end = begin;
    }
    parts.reverse();
    parts
}

/// How many inputs a class takes of an op, at least and at most.
#[derive(Clone, Copy)]
struct Range {
    op: usize,
    class: usize,
    least: u32,
    most: u32,
}

/// How two cases differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseSplit {
    /// Whether a class takes at least so many inputs of an op.
    Takes { op: usize, class: usize, least: u32 },
    /// Whether the first of two ops that are single batches of one device is before the second.
    IsFirst { first: usize, second: usize },
}

/// A row that holds in some cases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sometimes {
    /// All work of a class between two single batches.
    Between(usize, usize, usize),
    /// One op after another on their device.
    Turn(usize, usize),
}

/// What holds in a case.
#[derive(Clone, Default)]
struct CaseFacts {
    ranges: Vec<Range>,
    /// Ops that take turns, the first one first.
    turns: Vec<(usize, usize)>,
}

impl CaseFacts {
    fn with(&self, question: CaseSplit, holds: bool, inputs: u32) -> CaseFacts {
        let mut known = self.clone();
        match question {
            CaseSplit::Takes { op, class, least } => {
                let same = |range: &Range| (range.op, range.class) == (op, class);
                let place = known.ranges.iter().position(same).unwrap_or_else(|| {
                    known.ranges.push(Range { op, class, least: 0, most: inputs });
                    known.ranges.len() - 1
                });
                let range = &mut known.ranges[place];
                (range.least, range.most) =
                    if holds { (least, range.most) } else { (range.least, least - 1) };
            }
            CaseSplit::IsFirst { first, second } => {
                known.turns.push(if holds { (first, second) } else { (second, first) });
            }
        }
        known
    }
}

#[derive(Default)]
struct CaseRows {
    flows: Vec<PricedEdge>,
    windows: Vec<WorkWindow>,
    turns: Vec<DevicePair>,
}

struct CaseNode {
    known: CaseFacts,
    /// In the program's unit.
    value: f64,
    rows: CaseRows,
    /// Questions that may raise it.
    questions: Vec<CaseSplit>,
    /// The question that was asked, and the nodes where it holds and does not.
    split: Option<(CaseSplit, [usize; 2])>,
}

/// A part, its program, and its cases.
struct Tree {
    ops: Vec<usize>,
    built: DivisionProgram,
    solver: Solver,
    /// For each op of the part, its columns, and how many inputs each class takes in each.
    divided: Vec<Vec<Column>>,
    taken: Vec<Vec<Vec<u32>>>,
    /// For each op of the part and class, the device that it may use of it, if that is but one.
    only: Vec<Vec<Option<DeviceId>>>,
    /// For each op of the part and class, all its work there.
    work: Vec<Vec<Vec<(Column, f64)>>>,
    /// Which columns may be used now.
    allowed: Vec<Vec<bool>>,
    /// Rows beyond those that always hold, and whether they hold now.
    sometimes: Vec<(Sometimes, bool)>,
    first_sometimes: usize,
    nodes: Vec<CaseNode>,
}

impl Tree {
    fn new(run: &Run<'_>, given: Given<'_>, always: &Always, ops: Vec<usize>) -> Option<Tree> {
        let Given { problem, shapes, reach } = given;
        let outer = Outer::new(problem, shapes, reach, always, &ops);
        let (mut built, divided) = outer.program(problem, shapes, &ops);
        let options = Options {
            time: left(run),
            threads: run.budget.threads,
            seed: run.budget.seed,
            absolute_gap: 0.0,
            nodes: None,
        };
        let mut solver = Solver::new(&std::mem::take(&mut built.program), &options).ok()?;
        let mut windows: Vec<Between> = Vec::new();
        for (&from, &to) in ops.iter().flat_map(|from| ops.iter().map(move |to| (from, to))) {
            if ops.iter().any(|&op| reach[from][op] && reach[op][to]) {
                windows.extend((0..shapes.devices.len()).map(|class| (Some(from), Some(to), class)));
            }
        }
        let rows: Vec<_> = windows.iter().map(|&window| built.terms(shapes, reach, window)).collect();
        solver.add_rows(rows.iter().map(|terms| (0.0, &terms[..], f64::INFINITY))).ok()?;
        built.windows = windows;
        let classes = shapes.devices.len();
        let taken_in = |division: &Vec<(usize, u32)>| {
            let mut taken = vec![0; classes];
            division
                .iter()
                .for_each(|&(slot, n)| taken[shapes.slots[slot].class] += n * shapes.slots[slot].size);
            taken
        };
        let taken = ops.iter().map(|&op| shapes.divisions[op].iter().map(taken_in).collect()).collect();
        let only_of = |&op: &usize| -> Vec<Option<DeviceId>> {
            let of_class = |class: usize| {
                let mut all = problem
                    .devices_for(OpId::new(op))
                    .filter(|&d| problem.hardware.class_of(d).index() == class);
                all.next().filter(|_| all.next().is_none())
            };
            (0..classes).map(of_class).collect()
        };
        let work_of = |place: usize, class: usize| -> Vec<(Column, f64)> {
            let each = shapes.divisions[ops[place]].iter().zip(&divided[place]).map(|(division, &column)| {
                let here = division.iter().filter(|(slot, _)| shapes.slots[*slot].class == class);
                let times =
                    here.map(|&(slot, n)| f64::from(n) * time_of(problem, ops[place], shapes.slots[slot]));
                (column, times.sum::<f64>() / built.unit)
            });
            each.filter(|(_, time)| *time > 0.0).collect()
        };
        let work =
            (0..ops.len()).map(|place| (0..classes).map(|class| work_of(place, class)).collect()).collect();
        let mut tree = Tree {
            only: ops.iter().map(only_of).collect(),
            work,
            allowed: divided.iter().map(|columns| vec![true; columns.len()]).collect(),
            first_sometimes: built.first_window + built.windows.len(),
            ops,
            built,
            solver,
            divided,
            taken,
            sometimes: Vec::new(),
            nodes: Vec::new(),
        };
        let root = tree.solve(given, CaseFacts::default(), left(run))?;
        tree.nodes.push(root);
        Some(tree)
    }

    fn has(&self, op: usize) -> bool {
        self.ops.contains(&op)
    }

    /// The open end of the least value.
    fn least(&self) -> Option<usize> {
        let open = (0..self.nodes.len()).filter(|&node| self.nodes[node].split.is_none());
        open.min_by(|&a, &b| self.nodes[a].value.total_cmp(&self.nodes[b].value))
    }

    /// The open end of the least value, if there is a question left for it.
    fn next(&self) -> Option<usize> {
        self.least().filter(|&least| !self.nodes[least].questions.is_empty())
    }

    /// Asks a question at the least open end; none if there was no time.
    fn branch(&mut self, given: Given<'_>, time: Duration) -> Option<()> {
        let at = self.next()?;
        let began = std::time::Instant::now();
        let before = self.nodes[at].value;
        let mut best: Option<(f64, CaseSplit, [CaseNode; 2])> = None;
        for question in self.nodes[at].questions.clone() {
            let mut children = Vec::new();
            for holds in [true, false] {
                let left = time.saturating_sub(began.elapsed());
                let known = self.nodes[at].known.with(question, holds, given.shapes.inputs);
                children.push(self.solve(given, known, left)?);
            }
            let gain = |child: &CaseNode| (child.value - before).max(1e-6 * before.abs()).min(before.abs());
            let score = gain(&children[0]) * gain(&children[1]);
            if best.as_ref().is_none_or(|known| score > known.0) {
                let children = <[CaseNode; 2]>::try_from(children).ok()?;
                best = Some((score, question, children));
            }
        }
        let (_, question, children) = best?;
        let first = self.nodes.len();
        self.nodes.extend(children);
        let node = &mut self.nodes[at];
        node.split = Some((question, [first, first + 1]));
        (node.rows, node.questions) = Default::default();
        Some(())
    }

    /// The device that takes all inputs of an op, if that is known.
    fn whole_on(&self, known: &CaseFacts, inputs: u32, place: usize) -> Option<DeviceId> {
        let own = known.ranges.iter().filter(|range| range.op == self.ops[place]);
        own.filter(|range| range.least >= inputs).find_map(|range| self.only[place][range.class])
    }

    /// Solves the program where something is known; none if there was no time.
    fn solve(&mut self, given: Given<'_>, known: CaseFacts, left: Duration) -> Option<CaseNode> {
        let Given { problem, shapes, reach } = given;
        let mut occurs = true;
        for (place, &op) in self.ops.iter().enumerate() {
            let mut any = false;
            for (column, taken) in self.taken[place].iter().enumerate() {
                let mut own = known.ranges.iter().filter(|range| range.op == op);
                let fits = own.all(|range| (range.least..=range.most).contains(&taken[range.class]));
                any |= fits;
                if std::mem::replace(&mut self.allowed[place][column], fits) != fits {
                    let most = if fits { f64::INFINITY } else { 0.0 };
                    self.solver.set_range(self.divided[place][column], 0.0, most).ok()?;
                }
            }
            occurs &= any;
        }
        let mut node =
            CaseNode { known, value: f64::INFINITY, rows: CaseRows::default(), questions: Vec::new(), split: None };
        if !occurs {
            return Some(node);
        }
        let whole: Vec<Option<DeviceId>> =
            (0..self.ops.len()).map(|place| self.whole_on(&node.known, shapes.inputs, place)).collect();
        let is_whole =
            |op: usize| self.ops.iter().position(|&o| o == op).is_some_and(|place| whole[place].is_some());
        for (number, (row, holds)) in self.sometimes.iter_mut().enumerate() {
            let now = match *row {
                Sometimes::Between(from, to, _) => is_whole(from) && is_whole(to),
                Sometimes::Turn(first, second) => node.known.turns.contains(&(first, second)),
            };
            if std::mem::replace(holds, now) != now {
                let least = if now { 0.0 } else { f64::NEG_INFINITY };
                self.solver.set_row_range(self.first_sometimes + number, least, f64::INFINITY).ok()?;
            }
        }
        for &(first, second) in &node.known.turns {
            let row = Sometimes::Turn(first, second);
            if !self.sometimes.iter().any(|(known, _)| *known == row) {
                let terms = self.sometimes_terms(shapes, reach, row);
                self.solver.add_rows([(0.0, &terms[..], f64::INFINITY)]).ok()?;
                self.sometimes.push((row, true));
            }
        }
        let began = std::time::Instant::now();
        loop {
            let left = left.saturating_sub(began.elapsed());
            self.solver.set_time(left.max(Duration::from_millis(1))).ok()?;
            let solution = self.solver.solve().ok()?;
            if solution.status != Status::Optimal {
                return None;
            }
            let (value, values) = solution.best.as_ref()?;
            let look = self.look(shapes, reach, &node.known, &whole, values);
            if look.violated.is_empty() {
                node.value = *value;
                let (flows, windows) = self.built.links(problem, shapes, &solution.row_duals);
                node.rows = CaseRows { flows, windows, turns: Vec::new() };
                self.add_sometimes(problem, shapes, &solution.row_duals, &mut node.rows);
                node.questions = look.questions;
                return Some(node);
            }
            for row in look.violated {
                let terms = self.sometimes_terms(shapes, reach, row);
                self.solver.add_rows([(0.0, &terms[..], f64::INFINITY)]).ok()?;
                self.sometimes.push((row, true));
            }
        }
    }

    fn sometimes_terms(&self, shapes: &Shapes, reach: &[Vec<bool>], row: Sometimes) -> Vec<(Column, f64)> {
        let classes = shapes.devices.len();
        let (Sometimes::Between(from, to, _) | Sometimes::Turn(from, to)) = row;
        let mut terms = united(&self.built.means[from * classes..][..classes]);
        terms.extend([(self.built.starts[to], 1.0), (self.built.starts[from], -1.0)]);
        if let Sometimes::Between(_, _, class) = row {
            let devices = shapes.devices[class].max(1) as f64;
            for (place, _) in
                self.ops.iter().enumerate().filter(|(_, op)| reach[from][**op] && reach[**op][to])
            {
                terms.extend(self.work[place][class].iter().map(|&(column, time)| (column, -time / devices)));
            }
        }
        terms
    }

    /// The duals of rows that hold sometimes.
    fn add_sometimes(&self, problem: &Problem, shapes: &Shapes, duals: &[f64], rows: &mut CaseRows) {
        for (&(row, holds), &dual) in self.sometimes.iter().zip(&duals[self.first_sometimes..]) {
            match row {
                _ if !holds => {}
                Sometimes::Turn(first, second) => {
                    let times = whole_times(dual);
                    let (from, to) = (OpId::new(first), OpId::new(second));
                    rows.turns.extend((times > 0).then_some(DevicePair { from, to, times }));
                }
                Sometimes::Between(from, to, class) => {
                    let times = whole_times(dual / shapes.devices[class].max(1) as f64);
                    let of_class = |&device: &DeviceId| problem.hardware.class_of(device).index() == class;
                    for device in problem.hardware.devices().filter(of_class).filter(|_| times > 0) {
                        let (from, to) = (Some(OpId::new(from)), Some(OpId::new(to)));
                        rows.windows.push(WorkWindow { from, to, device, times });
                    }
                }
            }
        }
    }

    /// Looks at a solution: the rows that hold and are not there, and what may be asked. First come the questions that part the
    /// divisions of an op most evenly, those of the longest ops first; then those about ops that are whole and in each other's way.
    fn look(
        &self,
        shapes: &Shapes,
        reach: &[Vec<bool>],
        known: &CaseFacts,
        whole: &[Option<DeviceId>],
        values: &[f64],
    ) -> Look {
        let classes = shapes.devices.len();
        let mut parted: Vec<(f64, CaseSplit)> = Vec::new();
        // For each op that is whole in the solution its place, class, device, start and end.
        let mut single: Vec<(usize, usize, DeviceId, f64, f64)> = Vec::new();
        for (place, &op) in self.ops.iter().enumerate() {
            let shares = self.divided[place].iter().map(|column| values[column.index()]);
            let means = self.built.means[op * classes..][..classes].iter().flatten();
            let time: f64 = means.map(|(column, factor)| -factor * values[column.index()]).sum();
            let used: Vec<(f64, &Vec<u32>)> =
                shares.zip(&self.taken[place]).filter(|(share, _)| *share > LEAST_SHARE).collect();
            let mut best: Option<(f64, CaseSplit)> = None;
            for class in 0..classes {
                for &(_, taken) in &used {
                    let least = taken[class];
                    let above: f64 =
                        used.iter().filter(|(_, t)| t[class] >= least).map(|(share, _)| share).sum();
                    let even = above.min(1.0 - above);
                    if even > LEAST_SHARE && best.is_none_or(|known| even > known.0) {
                        best = Some((even, CaseSplit::Takes { op, class, least }));
                    }
                }
            }
            if let (None, [(_, taken)]) = (best, &used[..])
                && let Some(class) = taken.iter().position(|&taken| taken == shapes.inputs)
                && let Some(device) = self.only[place][class]
            {
                let start = values[self.built.starts[op].index()];
                single.push((place, class, device, start, start + time));
            }
            parted.extend(best.map(|(even, question)| (even * time, question)));
        }
        let mut violated = Vec::new();
        let mut blocked: Vec<(f64, CaseSplit)> = Vec::new();
        let pin = |&(place, class, ..): &(usize, usize, DeviceId, f64, f64)| CaseSplit::Takes {
            op: self.ops[place],
            class,
            least: shapes.inputs,
        };
        for a in &single {
            for b in &single {
                let (from, to) = (self.ops[a.0], self.ops[b.0]);
                let unpinned = [a, b].into_iter().filter(|end| whole[end.0].is_none());
                if reach[from][to] {
                    for class in 0..classes {
                        let between = self
                            .ops
                            .iter()
                            .enumerate()
                            .filter(|(_, op)| reach[from][**op] && reach[**op][to]);
                        let work = between.flat_map(|(place, _)| &self.work[place][class]);
                        let work: f64 = work.map(|&(column, time)| time * values[column.index()]).sum();
                        let lacking = work / shapes.devices[class].max(1) as f64 - (b.3 - a.4);
                        if lacking > LEAST_LACK {
                            if whole[a.0].is_some() && whole[b.0].is_some() {
                                let row = Sometimes::Between(from, to, class);
                                violated.extend((!self.sometimes.contains(&(row, true))).then_some(row));
                            }
                            blocked.extend(unpinned.clone().map(|end| (lacking, pin(end))));
                        }
                    }
                } else if a.0 < b.0 && a.2 == b.2 && !reach[to][from] {
                    let overlap = a.4.min(b.4) - a.3.max(b.3);
                    let has_turns = known.turns.contains(&(from, to)) || known.turns.contains(&(to, from));
                    if overlap > LEAST_LACK && !has_turns {
                        if whole[a.0].is_some() && whole[b.0].is_some() {
                            blocked.push((overlap, CaseSplit::IsFirst { first: from, second: to }));
                        }
                        blocked.extend(unpinned.map(|end| (overlap, pin(end))));
                    }
                }
            }
        }
        parted.sort_by(|a, b| b.0.total_cmp(&a.0));
        blocked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut questions: Vec<CaseSplit> = Vec::new();
        for (_, question) in parted.into_iter().chain(blocked) {
            if !questions.contains(&question) && questions.len() < QUESTIONS {
                questions.push(question);
            }
        }
        Look { violated, questions }
    }

    /// The cases in the order of a walk.
    fn part(&self) -> CaseRegion {
        let mut walk = Vec::new();
        let mut open = vec![0];
        while let Some(node) = open.pop().map(|node| &self.nodes[node]) {
            match node.split {
                Some((question, [holds, fails])) => {
                    walk.push(match question {
                        CaseSplit::Takes { op, class, least } => {
                            CaseTree::Split { op: OpId::new(op), class, least }
                        }
                        CaseSplit::IsFirst { first, second } => {
                            CaseTree::Order { first: OpId::new(first), second: OpId::new(second) }
                        }
                    });
                    open.extend([fails, holds]);
                }
                None => {
                    let CaseRows { flows, windows, turns } = &node.rows;
                    let (flows, windows, turns) = (flows.clone(), windows.clone(), turns.clone());
                    walk.push(CaseTree::Priced { flows, windows, turns });
                }
            }
        }
        CaseRegion { ops: self.ops.iter().map(|&op| OpId::new(op)).collect(), walk }
    }
}

/// What a solution leads to.
struct Look {
    violated: Vec<Sometimes>,
    questions: Vec<CaseSplit>,
}
