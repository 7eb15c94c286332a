//! The MTPP paper's mixed-integer programs, solved by HiGHS: `bottleneck`, `bottleneck-guess` and `milp`.
//!
//! Blocks are numbered along the data. Columns: y(v, b) is 1 if unit v is in block b or before it; what a tensor costs in
//! a block is 1 if it enters or leaves the block. Rows, with x(v, b) = y(v, b) − y(v, b − 1), as in the paper's (6)–(12):
//! y rises with b and falls along edges; a tensor enters if its producer is before the block and a consumer in it, and
//! leaves if its producer is in the block and a consumer behind it; the bottleneck is at least the cost of each block.
//!
//! * `milp` has as many blocks as stages: it is the problem (on identical devices without overflow).
//! * `bottleneck` has three: a stage with at least an even share of the work (or the largest unit), all stages before
//!   and all behind it. The cost of the middle block is minimised.
//! * `bottleneck-guess` says which of the stages that is, for each in turn: then the first block is j − 1 stages and the
//!   last k − j, which together cost at most so many times the bottleneck. The least over all j is the bound.
//!
//! HiGHS works in floating point: see [`BlockProgram::safe`] for what is taken off its bounds, which are attested by it. Until it
//! has solved its first linear program, and if it never does, what every one of the programs implies stands: the simple
//! bound (lemma 3.3).

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use divvy_core::ids::OpId;
use divvy_core::plan::{Plan, Stage};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::units::DeviceKind;
use divvy_solver::{Column, Event, Options, Program, Status, solve_watched};

use crate::bound::{Bound, When};
use crate::pipeline::bounds::only_pipeline;
use crate::run::Run;

/// Programs with more factors than this are refused.
const MOST_FACTORS: usize = 4_000_000;
/// What a bound may be too high by, relative to itself.
const TOLERANCE: f64 = 1e-6;
/// How far HiGHS lets a reduced cost be on the wrong side of zero.
const DUAL_TOLERANCE: f64 = 1e-7;

pub(crate) struct Bottleneck;

impl Bound for Bottleneck {
    fn name(&self) -> &'static str {
        "bottleneck"
    }

    fn about(&self) -> &'static str {
        "the cheapest stage with an even share of the work, by the paper's program of three blocks"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem, 3)
    }

    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(relaxed) = PipelineRelaxation::new(run.problem) else { return };
        let blocks = BlockProgram::three(&relaxed);
        prove_simple(run, self.name());
        solve(&blocks.program, run, run.budget.start + run.budget.time, None, &mut |run, bound| {
            attest(run, self.name(), &relaxed, blocks.safe(bound));
            false
        });
    }
}

pub(crate) struct BottleneckGuess;

impl Bound for BottleneckGuess {
    fn name(&self) -> &'static str {
        "bottleneck-guess"
    }

    fn about(&self) -> &'static str {
        "the same for every place of that stage in the pipeline, with the stages around it on average"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem, 3)
    }

    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(relaxed) = PipelineRelaxation::new(run.problem) else { return };
        let stages = relaxed.stages();
        prove_simple(run, self.name());
        let end = run.budget.start + run.budget.time;
        // Wherever the stage is, it costs no less than one whose place is left open.
        let any = BlockProgram::three(&relaxed);
        let mut floor = 0.0f64;
        let quarter = Instant::now() + end.saturating_duration_since(Instant::now()) / 4;
        solve(&any.program, run, quarter, None, &mut |run, bound| {
            floor = floor.max(any.safe(bound));
            attest(run, self.name(), &relaxed, floor);
            false
        });
        // The guess with the least bound decides, so it is the one to go on with, each time for longer.
        let share = end.saturating_duration_since(Instant::now()) / stages;
        let mut guesses: Vec<Guess> =
            (1..=stages).map(|place| Guess { place, bound: floor, time: share, solved: false }).collect();
        while let Some(next) = guesses.iter_mut().min_by(|a, b| a.bound.total_cmp(&b.bound)) {
            if next.solved || run.budget.is_spent() || run.is_solved() {
                break;
            }
            next.go_on(&relaxed, run, end);
            let least = guesses.iter().map(|guess| guess.bound).fold(f64::INFINITY, f64::min);
            attest(run, self.name(), &relaxed, least);
        }
    }
}

/// The stage of at least an even share of the work is at this place of the pipeline.
struct Guess {
    place: u32,
    bound: f64,
    /// How long the next attempt may take.
    time: Duration,
    solved: bool,
}

impl Guess {
    /// Solves the guess's program from the start, for longer than the time before.
    fn go_on(&mut self, relaxed: &PipelineRelaxation, run: &mut Run<'_>, end: Instant) {
        let mut blocks = BlockProgram::new(relaxed, 3);
        blocks.demand_work(1);
        for (block, count) in [(0, self.place - 1), (1, 1), (2, relaxed.stages() - self.place)] {
            let cost = blocks.cost_of(block);
            if count == 0 {
                blocks.leave_empty(block);
            } else {
                blocks.bottleneck_covers(&cost, f64::from(count));
            }
        }
        let until = end.min(Instant::now() + self.time);
        let status = solve(&blocks.program, run, until, None, &mut |_, bound| {
            self.bound = self.bound.max(blocks.safe(bound));
            false
        });
        self.solved = status == Some(Status::Optimal);
        self.time *= 2;
    }
}

pub(crate) struct Milp;

impl Bound for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn about(&self) -> &'static str {
        "the bound of the paper's exact mixed-integer program when HiGHS stops; attested by it"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports_exact(problem)
    }

    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        prove_simple(run, self.name());
        exact(run, &mut attest_exact, &mut |_, _| {});
    }
}

/// Claims, under the name of a bound, what its program implies before it is solved: an even share, or the largest op.
fn prove_simple(run: &mut Run<'_>, name: &str) {
    if let Some(op) = run.problem.graph.ops().max_by_key(|&op| run.problem.shortest_time(op)) {
        run.prove(name, Evidence::Op { op });
    }
    run.prove(name, Evidence::Area { weights: vec![1; run.problem.hardware.device_count()] });
}

/// Why the exact program is not for a problem.
pub(crate) fn supports_exact(problem: &Problem) -> Result<(), String> {
    let stages = match problem.objective {
        Objective::Pipeline { stages } => stages,
        _ => 0,
    };
    supports(problem, stages as usize)
}

/// Claims a bound of the exact program.
pub(crate) fn attest_exact(run: &mut Run<'_>, relaxed: &PipelineRelaxation, bound: f64) {
    attest(run, "milp", relaxed, bound);
}

/// Is told the block of each op in a solution.
type Seen<'a> = dyn FnMut(&mut Run<'_>, &dyn Fn(OpId) -> usize) + 'a;

/// Solves the exact program from the best plan known; `hear` is told of bounds, `see` of the block of each unit.
pub(crate) fn exact(
    run: &mut Run<'_>,
    hear: &mut dyn FnMut(&mut Run<'_>, &PipelineRelaxation, f64),
    see: &mut Seen<'_>,
) -> Option<Status> {
    let relaxed = PipelineRelaxation::new(run.problem).ok()?;
    let stages = relaxed.stages() as usize;
    let mut blocks = BlockProgram::new(&relaxed, stages);
    for block in 0..stages {
        let cost = blocks.cost_of(block);
        blocks.bottleneck_covers(&cost, 1.0);
    }
    let start = match &run.outcome().best {
        Some((Plan::Pipeline(plan), _)) => order_of_stages(run.problem, &plan.stages).map(|order| {
            let mut block_of = vec![0; relaxed.units()];
            for (block, &stage) in order.iter().enumerate() {
                plan.stages[stage].ops.iter().for_each(|&op| block_of[relaxed.unit_of(op)] = block);
            }
            blocks.values(&block_of)
        }),
        _ => None,
    };
    let end = run.budget.start + run.budget.time;
    let blocks = &blocks;
    let relaxed = &relaxed;
    solve_seen(
        &blocks.program,
        run,
        end,
        start.as_deref(),
        &mut |run, bound| {
            hear(run, relaxed, blocks.safe(bound));
            false
        },
        &mut |run, values| {
            let block_of = blocks.block_of(values);
            see(run, &|op| block_of[relaxed.unit_of(op)]);
        },
    )
}

/// The stages of a plan so that data flow forward.
fn order_of_stages(problem: &Problem, stages: &[Stage]) -> Option<Vec<usize>> {
    let mut stage_of = vec![0; problem.graph.op_count()];
    for (i, stage) in stages.iter().enumerate() {
        stage.ops.iter().for_each(|op| stage_of[op.index()] = i);
    }
    let mut order: Vec<usize> = Vec::new();
    while order.len() < stages.len() {
        let ready = |stage: &usize| {
            let inputs = stages[*stage].ops.iter().flat_map(|&op| problem.graph.predecessors(op));
            let mut before = inputs.map(|op| stage_of[op.index()]);
            !order.contains(stage) && before.all(|other| other == *stage || order.contains(&other))
        };
        let next = (0..stages.len()).find(ready)?;
        order.push(next);
    }
    Some(order)
}

fn supports(problem: &Problem, blocks: usize) -> Result<(), String> {
    only_pipeline(problem)?;
    let graph = &problem.graph;
    let ends: usize = graph.tensors().map(|tensor| graph.consumers(tensor).len()).sum();
    let factors = blocks.saturating_mul(12 * ends + 4 * graph.op_count());
    if factors > MOST_FACTORS {
        return Err(format!("the program has {factors} factors, {MOST_FACTORS} is the most"));
    }
    Ok(())
}

/// Claims a bound in the relaxation's unit.
fn attest(run: &mut Run<'_>, name: &str, relaxed: &PipelineRelaxation, bound: f64) {
    if bound.is_finite() && bound > 0.0 {
        let value = Time(relaxed.picoseconds(bound as u64));
        run.attest(name, value, format!("HiGHS {}", divvy_solver::version()));
    }
}

fn solve(
    program: &Program,
    run: &mut Run<'_>,
    until: Instant,
    start: Option<&[f64]>,
    hear: &mut dyn FnMut(&mut Run<'_>, f64) -> bool,
) -> Option<Status> {
    solve_seen(program, run, until, start, hear, &mut |_, _| {})
}

/// Runs HiGHS; `hear` is told of bounds and ends it by true, `see` of solutions.
fn solve_seen(
    program: &Program,
    run: &mut Run<'_>,
    until: Instant,
    start: Option<&[f64]>,
    hear: &mut dyn FnMut(&mut Run<'_>, f64) -> bool,
    see: &mut dyn FnMut(&mut Run<'_>, &[f64]),
) -> Option<Status> {
    let time = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
    let options = Options {
        time,
        threads: run.budget.threads,
        seed: run.budget.seed,
        absolute_gap: 1e-9,
        nodes: run.budget.nodes,
    };
    let solved = solve_watched(program, &options, start, &mut |event| {
        let stop = match event {
            Event::Bound(bound) => hear(run, bound),
            Event::Solution(_, values) => {
                see(run, &values);
                false
            }
            Event::Waiting => false,
        };
        if stop || run.budget.is_cancelled() || run.is_solved() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let solved = solved.ok()?;
    if solved.bound.is_finite() {
        hear(run, solved.bound);
    }
    if let Some((_, values)) = &solved.best {
        see(run, values);
    }
    Some(solved.status)
}

/// A program of some blocks.
struct BlockProgram<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a DeviceKind,
    program: Program,
    bottleneck: Column,
    /// y of each unit for every block but the last, where it is 1.
    done: Vec<Vec<Column>>,
    /// For each block, the tensors that it may pay for and their columns; the second of a tensor is for entering.
    cut: Vec<Vec<(usize, Column)>>,
    scale: f64,
}

/// A sum of columns and a number.
#[derive(Clone, Default)]
struct Sum {
    terms: Vec<(Column, f64)>,
    constant: f64,
}

impl Sum {
    fn add(&mut self, other: &Sum, factor: f64) {
        self.terms.extend(other.terms.iter().map(|&(column, f)| (column, f * factor)));
        self.constant += factor * other.constant;
    }
}

impl<'a> BlockProgram<'a> {
    fn new(relaxed: &'a PipelineRelaxation, count: usize) -> BlockProgram<'a> {
        let kind = relaxed.least();
        let mut program = Program::new();
        let work: u64 = kind.work.iter().flatten().sum();
        let bottleneck = program.column(0.0, f64::INFINITY, 1.0);
        let done: Vec<Vec<Column>> =
            (0..relaxed.units()).map(|_| (1..count).map(|_| program.binary()).collect()).collect();
        for columns in &done {
            for pair in columns.windows(2) {
                program.at_least(0.0, &[(pair[1], 1.0), (pair[0], -1.0)]);
            }
        }
        for tensor in relaxed.tensors() {
            for &consumer in &tensor.consumers {
                for (&before, &after) in done[tensor.producer as usize].iter().zip(&done[consumer as usize]) {
                    program.at_least(0.0, &[(before, 1.0), (after, -1.0)]);
                }
            }
        }
        // Costs are of the order of a hundred, where HiGHS's tolerances are at their best.
        let scale = (work.max(1) as f64 / relaxed.stages().max(1) as f64 / 100.0).max(1e-9);
        let cut = vec![Vec::new(); count];
        BlockProgram { relaxed, kind, program, bottleneck, done, cut, scale }
    }

    /// A stage of at least an even share of the work, all before and all behind it; its cost is the bottleneck.
    fn three(relaxed: &'a PipelineRelaxation) -> BlockProgram<'a> {
        let mut blocks = BlockProgram::new(relaxed, 3);
        blocks.demand_work(1);
        let middle = blocks.cost_of(1);
        blocks.bottleneck_covers(&middle, 1.0);
        blocks
    }

    /// A bound of HiGHS in the relaxation's unit, on the safe side.
    ///
    /// Every true solution satisfies the rows but for rounding, so a bound can be too high only where the duals behind it
    /// are a little infeasible: by at most their tolerance times the range of each column. All columns but the bottleneck
    /// range over [0, 1] in a best solution; the bottleneck's share, and the rounding of sums, are relative to the bound.
    fn safe(&self, bound: f64) -> f64 {
        let columns = self.program.column_count() as f64;
        (bound - bound.abs() * TOLERANCE - columns * DUAL_TOLERANCE) * self.scale - 1.0
    }

    /// y of a unit.
    fn by(&self, unit: usize, block: usize) -> Sum {
        match self.done[unit].get(block) {
            Some(&column) => Sum { terms: vec![(column, 1.0)], constant: 0.0 },
            None => Sum { terms: Vec::new(), constant: 1.0 },
        }
    }

    /// y of the block before.
    fn earlier(&self, unit: usize, block: usize) -> Sum {
        if block == 0 { Sum::default() } else { self.by(unit, block - 1) }
    }

    /// x of a unit.
    fn here(&self, unit: usize, block: usize) -> Sum {
        let mut sum = self.by(unit, block);
        sum.add(&self.earlier(unit, block), -1.0);
        sum
    }

    fn at_least(&mut self, lower: f64, sum: &Sum) {
        self.program.at_least(lower - sum.constant, &sum.terms);
    }

    /// The cost of a block; adds the columns and rows for its tensors.
    fn cost_of(&mut self, block: usize) -> Sum {
        let mut cost = Sum::default();
        for unit in 0..self.relaxed.units() {
            let work = self.kind.work[unit].unwrap_or(0) as f64 / self.scale;
            cost.add(&self.here(unit, block), work);
        }
        for (t, tensor) in self.relaxed.tensors().iter().enumerate() {
            let (out, into) = (self.kind.out[t], self.kind.into[t]);
            let producer = tensor.producer as usize;
            let leaving = self.program.column(0.0, f64::INFINITY, 0.0);
            cost.terms.push((leaving, out as f64 / self.scale));
            self.cut[block].push((t, leaving));
            // One column for both ways where they cost the same, as in the paper.
            let entering = if out == into {
                leaving
            } else {
                let other = self.program.column(0.0, f64::INFINITY, 0.0);
                cost.terms.push((other, into as f64 / self.scale));
                self.cut[block].push((t, other));
                other
            };
            for &consumer in &tensor.consumers {
                // entering − y(u, b − 1) − x(v, b) ≥ −1
                let mut row = Sum { terms: vec![(entering, 1.0)], constant: 0.0 };
                row.add(&self.earlier(producer, block), -1.0);
                row.add(&self.here(consumer as usize, block), -1.0);
                self.at_least(-1.0, &row);
                // leaving − x(u, b) + y(v, b) ≥ 0
                let mut row = Sum { terms: vec![(leaving, 1.0)], constant: 0.0 };
                row.add(&self.here(producer, block), -1.0);
                row.add(&self.by(consumer as usize, block), 1.0);
                self.at_least(0.0, &row);
            }
        }
        cost
    }

    /// The bottleneck, so many times, is at least a cost.
    fn bottleneck_covers(&mut self, cost: &Sum, times: f64) {
        let mut row = Sum { terms: vec![(self.bottleneck, times)], constant: 0.0 };
        row.add(cost, -1.0);
        self.at_least(0.0, &row);
    }

    /// The block has an even share of the work, or the largest unit's.
    fn demand_work(&mut self, block: usize) {
        let times = || self.kind.work.iter().flatten().copied();
        let even = times().sum::<u64>() as f64 / f64::from(self.relaxed.stages());
        let least = even.max(times().max().unwrap_or(0) as f64);
        let mut row = Sum::default();
        for unit in 0..self.relaxed.units() {
            let work = self.kind.work[unit].unwrap_or(0) as f64 / self.scale;
            row.add(&self.here(unit, block), work);
        }
        self.at_least(least / self.scale, &row);
    }

    /// Nothing is in the first, or the last, block.
    fn leave_empty(&mut self, block: usize) {
        for unit in 0..self.relaxed.units() {
            let columns = &self.done[unit];
            let (column, value) =
                if block == 0 { (columns[0], 0.0) } else { (columns[columns.len() - 1], 1.0) };
            self.program.fix(column, value);
        }
    }

    /// The columns' values for units in blocks.
    fn values(&self, block_of: &[usize]) -> Vec<f64> {
        let mut values = vec![0.0; self.program.column_count()];
        for (unit, columns) in self.done.iter().enumerate() {
            for (block, column) in columns.iter().enumerate() {
                values[column.index()] = f64::from(u8::from(block_of[unit] <= block));
            }
        }
        let mut costs = vec![0.0f64; self.cut.len()];
        for (unit, &block) in block_of.iter().enumerate() {
            costs[block] += self.kind.work[unit].unwrap_or(0) as f64 / self.scale;
        }
        for (block, cut) in self.cut.iter().enumerate() {
            let mut seen = None;
            for &(t, column) in cut {
                // The second column of a tensor is for entering.
                let is_second = seen == Some(t);
                let both = self.kind.out[t] == self.kind.into[t];
                seen = Some(t);
                let tensor = &self.relaxed.tensors()[t];
                let made = block_of[tensor.producer as usize];
                let read = |test: &dyn Fn(usize) -> bool| {
                    tensor.consumers.iter().any(|&c| test(block_of[c as usize]))
                };
                let leaves = made == block && read(&|b| b > block);
                let enters = made < block && read(&|b| b == block);
                let paid = if both {
                    leaves || enters
                } else if is_second {
                    enters
                } else {
                    leaves
                };
                if paid {
                    values[column.index()] = 1.0;
                    let time = if leaves { self.kind.out[t] } else { self.kind.into[t] };
                    costs[block] += time as f64 / self.scale;
                }
            }
        }
        values[self.bottleneck.index()] = costs.into_iter().fold(0.0, f64::max);
        values
    }

    /// The block of each unit in a solution.
    fn block_of(&self, values: &[f64]) -> Vec<usize> {
        let before = |columns: &Vec<Column>| columns.iter().filter(|c| values[c.index()] < 0.5).count();
        self.done.iter().map(before).collect()
    }
}
