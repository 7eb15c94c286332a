//! Branch and bound on the divisions of the ops of a region.
//!
//! A node restricts the numbers of inputs that classes run, and orders pairs of ops. Two kinds of rows hold only if
//! ops are *pinned*, that is, single batches on a known device by the branchings: the work between two pinned ops on
//! every class, for all inputs at once, and the order of two pinned ops on one device. They are separated and kept in
//! one program, switched on and off from node to node. The open node of least value is next; of a few candidates the
//! one with the largest product of gains is branched on (strong branching).

use std::time::Duration;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_proof::evidence::{CaseRegion, CaseTree, DevicePair, PricedEdge, WorkWindow};
use divvy_solver::{Column, Options, Solver, Status, Terms};

use crate::batch::bounds::division_cases::fixed_dual::FixedDual;
use crate::batch::bounds::division_cases::region_lp::RegionPrices;
use crate::budget::Budget;
use crate::division_lp::division_program::{DivisionProgram, merged_terms, rounded_dual};
use crate::division_lp::op_divisions::{BatchCounts, ClassWindow, OpDivisions, time_of};

mod separation;

/// What all regions share.
#[derive(Clone, Copy)]
pub(crate) struct CaseContext<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) divisions: &'a OpDivisions,
    /// For each pair of ops, whether a path leads from the first to the second.
    pub(crate) reach: &'a [Vec<bool>],
}

/// The least and the most inputs of an op that a class may run.
#[derive(Clone, Copy)]
struct InputRange {
    op: usize,
    class: usize,
    least: u32,
    most: u32,
}

/// A branching: the statement that holds in the first child, and not in the second.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseBranching {
    /// A class runs at least so many inputs of an op.
    Takes { op: usize, class: usize, least: u32 },
    /// Of two ops that are single batches on one device, the first runs first.
    IsFirst { first: usize, second: usize },
}

/// A row that holds in some nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConditionalRow {
    /// Between two ops that are single batches, all work of a class on the ops between them.
    Window(usize, usize, usize),
    /// The second op starts after the first one on their device.
    Order(usize, usize),
}

/// The branchings on the way to a node.
#[derive(Clone, Default)]
struct CaseBranchings {
    ranges: Vec<InputRange>,
    /// Ordered pairs of ops on one device.
    orders: Vec<(usize, usize)>,
}

impl CaseBranchings {
    /// These and one more.
    fn with(&self, split: CaseBranching, holds: bool, inputs: u32) -> CaseBranchings {
        let mut facts = self.clone();
        match split {
            CaseBranching::Takes { op, class, least } => {
                let same = |range: &InputRange| (range.op, range.class) == (op, class);
                let place = facts.ranges.iter().position(same).unwrap_or_else(|| {
                    facts.ranges.push(InputRange { op, class, least: 0, most: inputs });
                    facts.ranges.len() - 1
                });
                let range = &mut facts.ranges[place];
                (range.least, range.most) =
                    if holds { (least, range.most) } else { (range.least, least - 1) };
            }
            CaseBranching::IsFirst { first, second } => {
                facts.orders.push(if holds { (first, second) } else { (second, first) });
            }
        }
        facts
    }
}

/// The rounded dual of a node.
#[derive(Default)]
struct CaseRows {
    flows: Vec<PricedEdge>,
    windows: Vec<WorkWindow>,
    orders: Vec<DevicePair>,
}

/// A node of the tree.
struct CaseNode {
    facts: CaseBranchings,
    /// The optimum, in the program's unit; infinity if infeasible.
    value: f64,
    rows: CaseRows,
    /// Splits that may raise it.
    candidates: Vec<CaseBranching>,
    /// The split branched on, and the nodes where it holds and does not hold.
    split: Option<(CaseBranching, [usize; 2])>,
}

/// Branch and bound in a region.
pub(crate) struct CaseSearch {
    ops: Vec<usize>,
    built: DivisionProgram,
    solver: Solver,
    /// For each op of the region, its columns.
    divided: Vec<Vec<Column>>,
    /// For each op of the region and column, the number of inputs that each class runs.
    inputs_taken: Vec<Vec<Vec<u32>>>,
    /// For each op of the region and class, the device that it may use if there is only one.
    only_device: Vec<Vec<Option<DeviceId>>>,
    /// For each op of the region and class, the total time of its batches there.
    work: Vec<Vec<Terms>>,
    /// The columns that the present node allows.
    allowed: Vec<Vec<bool>>,
    /// The rows that hold in some nodes, and whether they are active.
    conditional: Vec<(ConditionalRow, bool)>,
    first_conditional: usize,
    nodes: Vec<CaseNode>,
}

impl CaseSearch {
    /// The tree with its root solved; none if there was no time.
    pub(crate) fn new(
        budget: &Budget,
        context: CaseContext<'_>,
        fixed: &FixedDual,
        ops: Vec<usize>,
    ) -> Option<CaseSearch> {
        let CaseContext { problem, divisions, reach } = context;
        let prices = RegionPrices::new(problem, divisions, reach, fixed, &ops);
        let (mut built, divided) = prices.program(problem, divisions, &ops);
        let options = Options {
            time: budget.left(),
            threads: budget.threads,
            seed: budget.seed,
            absolute_gap: 0.0,
            nodes: None,
        };
        let mut solver = Solver::new(&std::mem::take(&mut built.program), &options).ok()?;
        let mut windows: Vec<ClassWindow> = Vec::new();
        for (&from, &to) in ops.iter().flat_map(|from| ops.iter().map(move |to| (from, to))) {
            if ops.iter().any(|&op| reach[from][op] && reach[op][to]) {
                windows.extend((0..divisions.devices.len()).map(|class| (Some(from), Some(to), class)));
            }
        }
        let rows: Vec<_> =
            windows.iter().map(|&window| built.window_terms(divisions, reach, window)).collect();
        solver.add_rows(rows.iter().map(|terms| (0.0, &terms[..], f64::INFINITY))).ok()?;
        built.windows = windows;
        let classes = divisions.devices.len();
        let work = |place: usize, class: usize| {
            work_on_class(problem, divisions, ops[place], class, &divided[place], built.unit)
        };
        let work =
            (0..ops.len()).map(|place| (0..classes).map(|class| work(place, class)).collect()).collect();
        let mut tree = CaseSearch {
            only_device: ops.iter().map(|&op| only_devices(problem, op, classes)).collect(),
            inputs_taken: ops.iter().map(|&op| inputs_taken(divisions, op)).collect(),
            work,
            allowed: divided.iter().map(|columns| vec![true; columns.len()]).collect(),
            first_conditional: built.first_window + built.windows.len(),
            ops,
            built,
            solver,
            divided,
            conditional: Vec::new(),
            nodes: Vec::new(),
        };
        let root = tree.solve(context, CaseBranchings::default(), budget.left())?;
        tree.nodes.push(root);
        Some(tree)
    }

    /// Whether an op is in the region.
    pub(crate) fn has(&self, op: usize) -> bool {
        self.ops.contains(&op)
    }

    /// The open node of least value.
    fn least(&self) -> Option<usize> {
        let open = (0..self.nodes.len()).filter(|&node| self.nodes[node].split.is_none());
        open.min_by(|&a, &b| self.nodes[a].value.total_cmp(&self.nodes[b].value))
    }

    /// The open node of least value, if it has a candidate.
    fn next(&self) -> Option<usize> {
        self.least().filter(|&least| !self.nodes[least].candidates.is_empty())
    }

    /// Branches at the open node of least value, on the candidate with the largest product of gains; none if there
    /// was no time.
    pub(crate) fn branch(&mut self, context: CaseContext<'_>, time: Duration) -> Option<()> {
        let at = self.next()?;
        let began = std::time::Instant::now();
        let before = self.nodes[at].value;
        let mut best: Option<(f64, CaseBranching, [CaseNode; 2])> = None;
        for split in self.nodes[at].candidates.clone() {
            let mut children = Vec::new();
            for holds in [true, false] {
                let left = time.saturating_sub(began.elapsed());
                let facts = self.nodes[at].facts.with(split, holds, context.divisions.inputs);
                children.push(self.solve(context, facts, left)?);
            }
            let gain = |child: &CaseNode| (child.value - before).max(1e-6 * before.abs()).min(before.abs());
            let score = gain(&children[0]) * gain(&children[1]);
            if best.as_ref().is_none_or(|known| score > known.0) {
                let children = <[CaseNode; 2]>::try_from(children).ok()?;
                best = Some((score, split, children));
            }
        }
        let (_, split, children) = best?;
        let first = self.nodes.len();
        self.nodes.extend(children);
        let node = &mut self.nodes[at];
        node.split = Some((split, [first, first + 1]));
        (node.rows, node.candidates) = Default::default();
        Some(())
    }

    /// The device that runs all inputs of an op by the branchings of a node, if there is one.
    fn pinned_device(&self, facts: &CaseBranchings, inputs: u32, place: usize) -> Option<DeviceId> {
        let own = facts.ranges.iter().filter(|range| range.op == self.ops[place]);
        own.filter(|range| range.least >= inputs).find_map(|range| self.only_device[place][range.class])
    }

    /// Solves a node; none if there was no time.
    fn solve(&mut self, context: CaseContext<'_>, facts: CaseBranchings, left: Duration) -> Option<CaseNode> {
        let CaseContext { problem, divisions, reach } = context;
        let mut occurs = true;
        for (place, &op) in self.ops.iter().enumerate() {
            let mut any = false;
            for (column, taken) in self.inputs_taken[place].iter().enumerate() {
                let mut own = facts.ranges.iter().filter(|range| range.op == op);
                let fits = own.all(|range| (range.least..=range.most).contains(&taken[range.class]));
                any |= fits;
                if std::mem::replace(&mut self.allowed[place][column], fits) != fits {
                    let most = if fits { f64::INFINITY } else { 0.0 };
                    self.solver.set_range(self.divided[place][column], 0.0, most).ok()?;
                }
            }
            occurs &= any;
        }
        let mut node = CaseNode {
            facts,
            value: f64::INFINITY,
            rows: CaseRows::default(),
            candidates: Vec::new(),
            split: None,
        };
        if !occurs {
            return Some(node);
        }
        let pinned: Vec<Option<DeviceId>> = (0..self.ops.len())
            .map(|place| self.pinned_device(&node.facts, divisions.inputs, place))
            .collect();
        let is_pinned =
            |op: usize| self.ops.iter().position(|&o| o == op).is_some_and(|place| pinned[place].is_some());
        for (number, (row, holds)) in self.conditional.iter_mut().enumerate() {
            let now = match *row {
                ConditionalRow::Window(from, to, _) => is_pinned(from) && is_pinned(to),
                ConditionalRow::Order(first, second) => node.facts.orders.contains(&(first, second)),
            };
            if std::mem::replace(holds, now) != now {
                let least = if now { 0.0 } else { f64::NEG_INFINITY };
                self.solver.set_row_range(self.first_conditional + number, least, f64::INFINITY).ok()?;
            }
        }
        for &(first, second) in &node.facts.orders {
            let row = ConditionalRow::Order(first, second);
            if !self.conditional.iter().any(|(known, _)| *known == row) {
                let terms = self.conditional_terms(divisions, reach, row);
                self.solver.add_rows([(0.0, &terms[..], f64::INFINITY)]).ok()?;
                self.conditional.push((row, true));
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
            let separation = self.separate(context, &node.facts, &pinned, values);
            if separation.violated.is_empty() {
                node.value = *value;
                let (flows, windows) = self.built.priced_rows(problem, divisions, &solution.row_duals);
                node.rows = CaseRows { flows, windows, orders: Vec::new() };
                self.add_conditional_duals(problem, divisions, &solution.row_duals, &mut node.rows);
                node.candidates = separation.candidates;
                return Some(node);
            }
            for row in separation.violated {
                let terms = self.conditional_terms(divisions, reach, row);
                self.solver.add_rows([(0.0, &terms[..], f64::INFINITY)]).ok()?;
                self.conditional.push((row, true));
            }
        }
    }

    /// The terms of a conditional row.
    fn conditional_terms(&self, divisions: &OpDivisions, reach: &[Vec<bool>], row: ConditionalRow) -> Terms {
        let classes = divisions.devices.len();
        let (ConditionalRow::Window(from, to, _) | ConditionalRow::Order(from, to)) = row;
        let mut terms = merged_terms(&self.built.mean_times[from * classes..][..classes]);
        terms.extend([(self.built.starts[to], 1.0), (self.built.starts[from], -1.0)]);
        if let ConditionalRow::Window(_, _, class) = row {
            let devices = divisions.devices[class].max(1) as f64;
            for (place, _) in
                self.ops.iter().enumerate().filter(|(_, op)| reach[from][**op] && reach[**op][to])
            {
                terms.extend(self.work[place][class].iter().map(|&(column, time)| (column, -time / devices)));
            }
        }
        terms
    }

    /// Adds the rounded duals of conditional rows.
    fn add_conditional_duals(
        &self,
        problem: &Problem,
        divisions: &OpDivisions,
        duals: &[f64],
        rows: &mut CaseRows,
    ) {
        for (&(row, holds), &dual) in self.conditional.iter().zip(&duals[self.first_conditional..]) {
            match row {
                _ if !holds => {}
                ConditionalRow::Order(first, second) => {
                    let times = rounded_dual(dual);
                    let (from, to) = (OpId::new(first), OpId::new(second));
                    rows.orders.extend((times > 0).then_some(DevicePair { from, to, times }));
                }
                ConditionalRow::Window(from, to, class) => {
                    let times = rounded_dual(dual / divisions.devices[class].max(1) as f64);
                    let of_class = |&device: &DeviceId| problem.hardware.class_of(device).index() == class;
                    for device in problem.hardware.devices().filter(of_class).filter(|_| times > 0) {
                        let (from, to) = (Some(OpId::new(from)), Some(OpId::new(to)));
                        rows.windows.push(WorkWindow { from, to, device, times });
                    }
                }
            }
        }
    }

    /// The tree in preorder, as evidence.
    pub(crate) fn region(&self) -> CaseRegion {
        let mut walk = Vec::new();
        let mut open = vec![0];
        while let Some(node) = open.pop().map(|node| &self.nodes[node]) {
            match node.split {
                Some((split, [holds, fails])) => {
                    walk.push(match split {
                        CaseBranching::Takes { op, class, least } => {
                            CaseTree::Split { op: OpId::new(op), class, least }
                        }
                        CaseBranching::IsFirst { first, second } => {
                            CaseTree::Order { first: OpId::new(first), second: OpId::new(second) }
                        }
                    });
                    open.extend([fails, holds]);
                }
                None => {
                    let CaseRows { flows, windows, orders } = &node.rows;
                    let (flows, windows, turns) = (flows.clone(), windows.clone(), orders.clone());
                    walk.push(CaseTree::Priced { flows, windows, turns });
                }
            }
        }
        CaseRegion { ops: self.ops.iter().map(|&op| OpId::new(op)).collect(), walk }
    }
}

/// For each division of an op, the number of inputs that each class runs.
fn inputs_taken(divisions: &OpDivisions, op: usize) -> Vec<Vec<u32>> {
    let by_class = |division: &BatchCounts| {
        let mut taken = vec![0; divisions.devices.len()];
        division.iter().for_each(|&(size, batches)| {
            taken[divisions.class_sizes[size].class] += batches * divisions.class_sizes[size].size;
        });
        taken
    };
    divisions.of_op[op].iter().map(by_class).collect()
}

/// For each class, the device that an op may use if it may use only one of the class.
fn only_devices(problem: &Problem, op: usize, classes: usize) -> Vec<Option<DeviceId>> {
    let of_class = |class: usize| {
        let mut all =
            problem.devices_for(OpId::new(op)).filter(|&d| problem.hardware.class_of(d).index() == class);
        all.next().filter(|_| all.next().is_none())
    };
    (0..classes).map(of_class).collect()
}

/// The total time of an op's batches on a class, in the program's unit.
fn work_on_class(
    problem: &Problem,
    divisions: &OpDivisions,
    op: usize,
    class: usize,
    columns: &[Column],
    unit: f64,
) -> Terms {
    let each = divisions.of_op[op].iter().zip(columns).map(|(division, &column)| {
        let here = division.iter().filter(|(size, _)| divisions.class_sizes[*size].class == class);
        let times = here
            .map(|&(size, batches)| f64::from(batches) * time_of(problem, op, divisions.class_sizes[size]));
        (column, times.sum::<f64>() / unit)
    });
    each.filter(|(_, time)| *time > 0.0).collect()
}
