//! `bottleneck`, `bottleneck-guess` and `milp`: the mixed-integer programs of the MTPP paper, on HiGHS.
//!
//! Blocks are numbered along the data flow. Binary y(v, b) says that unit v is in block b or an earlier one; x(v, b) = y(v, b)
//! − y(v, b − 1). Each tensor has a column for each block, 1 if it enters or leaves the block. Rows, as in the paper's
//! (6)–(12): y does not fall with b, nor rise along edges; a tensor enters block b if its producer is before b and a consumer
//! is in b, and leaves if its producer is in b and a consumer behind b; the objective is at least the cost of each block.
//!
//! * `milp`: as many blocks as stages; exact on identical devices without overflow.
//! * `bottleneck`: three blocks: a stage with at least an even share of the work (or the largest unit), all stages before it,
//!   and all behind it. Minimises the cost of the middle block.
//! * `bottleneck-guess`: as `bottleneck` for each position j of that stage: the first block stands for j − 1 stages and the
//!   last for k − j, and costs at most so many times the objective. The least over all j is the bound.
//!
//! HiGHS works in floating point; [`BlockProgram::safe`] is what is subtracted from its bounds, which are attested. Until it
//! has solved its first linear program, the bound is what each of the programs implies: the simple bound (lemma 3.3).

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use divvy_core::ids::OpId;
use divvy_core::plan::{Plan, Stage};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::relaxation_types::KindCosts;
use divvy_solver::{Column, Event, Options, Program, Status, solve_watched};

use crate::bound::{Bound, When};
use crate::pipeline::bounds::unreplicated_pipeline;
use crate::run::Run;

/// The most non-zero coefficients of a program.
const MOST_FACTORS: usize = 4_000_000;
/// The relative error of a bound by rounding.
const TOLERANCE: f64 = 1e-6;
/// The dual feasibility tolerance of HiGHS.
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
        // The program without a position is a relaxation of all of them.
        let any = BlockProgram::three(&relaxed);
        let mut floor = 0.0f64;
        let quarter = Instant::now() + end.saturating_duration_since(Instant::now()) / 4;
        solve(&any.program, run, quarter, None, &mut |run, bound| {
            floor = floor.max(any.safe(bound));
            attest(run, self.name(), &relaxed, floor);
            false
        });
        // The least bound decides, so its program is solved next, for twice as long each time.
        let share = end.saturating_duration_since(Instant::now()) / stages;
        let mut guesses: Vec<PositionGuess> = (1..=stages)
            .map(|position| PositionGuess { position, bound: floor, time: share, solved: false })
            .collect();
        while let Some(next) = guesses.iter_mut().min_by(|a, b| a.bound.total_cmp(&b.bound)) {
            if next.solved || run.budget.is_spent() || run.is_solved() {
                break;
            }
            next.solve_longer(&relaxed, run, end);
            let least = guesses.iter().map(|guess| guess.bound).fold(f64::INFINITY, f64::min);
            attest(run, self.name(), &relaxed, least);
        }
    }
}

/// The program in which the stage with an even share of the work is at a given position.
struct PositionGuess {
    position: u32,
    bound: f64,
    /// The time limit of the next attempt.
    time: Duration,
    solved: bool,
}

impl PositionGuess {
    /// Solves the program from scratch within the time limit, and doubles that.
    fn solve_longer(&mut self, relaxed: &PipelineRelaxation, run: &mut Run<'_>, end: Instant) {
        let mut blocks = BlockProgram::new(relaxed, 3);
        blocks.demand_work(1);
        for (block, count) in [(0, self.position - 1), (1, 1), (2, relaxed.stages() - self.position)] {
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

/// Proves the simple bound under the name of a bound whose program implies it.
fn prove_simple(run: &mut Run<'_>, name: &str) {
    if let Some(op) = run.problem.graph.ops().max_by_key(|&op| run.problem.shortest_time(op)) {
        run.prove(name, Evidence::Op { op });
    }
    run.prove(name, Evidence::Area { weights: vec![1; run.problem.hardware.device_count()] });
}

/// Whether the exact program is small enough; else why not.
pub(crate) fn supports_exact(problem: &Problem) -> Result<(), String> {
    let stages = match problem.objective {
        Objective::Pipeline { stages } => stages,
        _ => 0,
    };
    supports(problem, stages as usize)
}

/// Attests a bound of the exact program.
pub(crate) fn attest_exact(run: &mut Run<'_>, relaxed: &PipelineRelaxation, bound: f64) {
    attest(run, "milp", relaxed, bound);
}

/// A callback for solutions, with the block of each op.
type SolutionObserver<'a> = dyn FnMut(&mut Run<'_>, &dyn Fn(OpId) -> usize) + 'a;

/// Solves the exact program, starting from the best plan known.
pub(crate) fn exact(
    run: &mut Run<'_>,
    on_bound: &mut dyn FnMut(&mut Run<'_>, &PipelineRelaxation, f64),
    on_solution: &mut SolutionObserver<'_>,
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
            on_bound(run, relaxed, blocks.safe(bound));
            false
        },
        &mut |run, values| {
            let block_of = blocks.block_of(values);
            on_solution(run, &|op| block_of[relaxed.unit_of(op)]);
        },
    )
}

/// The stages of a plan in a topological order; none if their graph is cyclic.
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
    unreplicated_pipeline(problem)?;
    let graph = &problem.graph;
    let ends: usize = graph.tensors().map(|tensor| graph.consumers(tensor).len()).sum();
    let factors = blocks.saturating_mul(12 * ends + 4 * graph.op_count());
    if factors > MOST_FACTORS {
        return Err(format!("the program has {factors} factors, {MOST_FACTORS} is the most"));
    }
    Ok(())
}

/// Attests a bound, given in the relaxation's unit.
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
    on_bound: &mut dyn FnMut(&mut Run<'_>, f64) -> bool,
) -> Option<Status> {
    solve_seen(program, run, until, start, on_bound, &mut |_, _| {})
}

/// Runs HiGHS until `until`; `on_bound` may end it by returning true.
fn solve_seen(
    program: &Program,
    run: &mut Run<'_>,
    until: Instant,
    start: Option<&[f64]>,
    on_bound: &mut dyn FnMut(&mut Run<'_>, f64) -> bool,
    on_solution: &mut dyn FnMut(&mut Run<'_>, &[f64]),
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
            Event::Bound(bound) => on_bound(run, bound),
            Event::Solution(_, values) => {
                on_solution(run, &values);
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
        on_bound(run, solved.bound);
    }
    if let Some((_, values)) = &solved.best {
        on_solution(run, values);
    }
    Some(solved.status)
}

/// A program of some number of blocks.
struct BlockProgram<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a KindCosts,
    program: Program,
    bottleneck: Column,
    /// By unit: y for every block but the last, where it is 1.
    done: Vec<Vec<Column>>,
    /// By block: the tensors with their columns; if a tensor has two, the second is for entering.
    cut: Vec<Vec<(usize, Column)>>,
    /// The relaxation's time units for each unit of cost in the program.
    scale: f64,
}

/// An affine expression in columns.
#[derive(Clone, Default)]
struct LinearExpression {
    terms: Vec<(Column, f64)>,
    constant: f64,
}

impl LinearExpression {
    fn add(&mut self, other: &LinearExpression, factor: f64) {
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
        // Costs of the order of a hundred suit HiGHS's absolute tolerances.
        let scale = (work.max(1) as f64 / relaxed.stages().max(1) as f64 / 100.0).max(1e-9);
        let cut = vec![Vec::new(); count];
        BlockProgram { relaxed, kind, program, bottleneck, done, cut, scale }
    }

    /// The program `bottleneck`.
    fn three(relaxed: &'a PipelineRelaxation) -> BlockProgram<'a> {
        let mut blocks = BlockProgram::new(relaxed, 3);
        blocks.demand_work(1);
        let middle = blocks.cost_of(1);
        blocks.bottleneck_covers(&middle, 1.0);
        blocks
    }

    /// A bound of HiGHS in the relaxation's unit, less what it may be too high by.
    ///
    /// Exact solutions satisfy the rows but for rounding, so a bound is too high only if the duals behind it are slightly
    /// infeasible: by at most the tolerance times the range of each column. All columns but the bottleneck range over [0, 1]
    /// in an optimal solution; the error from the bottleneck, and the rounding of sums, are relative to the bound.
    fn safe(&self, bound: f64) -> f64 {
        let columns = self.program.column_count() as f64;
        (bound - bound.abs() * TOLERANCE - columns * DUAL_TOLERANCE) * self.scale - 1.0
    }

    /// y(v, b).
    fn by(&self, unit: usize, block: usize) -> LinearExpression {
        match self.done[unit].get(block) {
            Some(&column) => LinearExpression { terms: vec![(column, 1.0)], constant: 0.0 },
            None => LinearExpression { terms: Vec::new(), constant: 1.0 },
        }
    }

    /// y(v, b − 1).
    fn earlier(&self, unit: usize, block: usize) -> LinearExpression {
        if block == 0 { LinearExpression::default() } else { self.by(unit, block - 1) }
    }

    /// x(v, b).
    fn here(&self, unit: usize, block: usize) -> LinearExpression {
        let mut sum = self.by(unit, block);
        sum.add(&self.earlier(unit, block), -1.0);
        sum
    }

    fn at_least(&mut self, lower: f64, sum: &LinearExpression) {
        self.program.at_least(lower - sum.constant, &sum.terms);
    }

    /// The cost of a block; adds the columns and rows of its tensors.
    fn cost_of(&mut self, block: usize) -> LinearExpression {
        let mut cost = LinearExpression::default();
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
            // One column for both directions if they cost the same, as in the paper.
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
                let mut row = LinearExpression { terms: vec![(entering, 1.0)], constant: 0.0 };
                row.add(&self.earlier(producer, block), -1.0);
                row.add(&self.here(consumer as usize, block), -1.0);
                self.at_least(-1.0, &row);
                // leaving − x(u, b) + y(v, b) ≥ 0
                let mut row = LinearExpression { terms: vec![(leaving, 1.0)], constant: 0.0 };
                row.add(&self.here(producer, block), -1.0);
                row.add(&self.by(consumer as usize, block), 1.0);
                self.at_least(0.0, &row);
            }
        }
        cost
    }

    /// `times` · bottleneck ≥ cost.
    fn bottleneck_covers(&mut self, cost: &LinearExpression, times: f64) {
        let mut row = LinearExpression { terms: vec![(self.bottleneck, times)], constant: 0.0 };
        row.add(cost, -1.0);
        self.at_least(0.0, &row);
    }

    /// The work of a block is at least an even share, and at least the largest unit's.
    fn demand_work(&mut self, block: usize) {
        let times = || self.kind.work.iter().flatten().copied();
        let even = times().sum::<u64>() as f64 / f64::from(self.relaxed.stages());
        let least = even.max(times().max().unwrap_or(0) as f64);
        let mut row = LinearExpression::default();
        for unit in 0..self.relaxed.units() {
            let work = self.kind.work[unit].unwrap_or(0) as f64 / self.scale;
            row.add(&self.here(unit, block), work);
        }
        self.at_least(least / self.scale, &row);
    }

    /// No unit is in the first, or in the last, block.
    fn leave_empty(&mut self, block: usize) {
        for unit in 0..self.relaxed.units() {
            let columns = &self.done[unit];
            let (column, value) =
                if block == 0 { (columns[0], 0.0) } else { (columns[columns.len() - 1], 1.0) };
            self.program.fix(column, value);
        }
    }

    /// The values of all columns for a given block of each unit.
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
