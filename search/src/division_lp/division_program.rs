//! The linear program over the divisions of all ops.
//!
//! Let L be the number of inputs. Columns: y_id ≥ 0, the share of division d of op i; s_i, the mean over inputs of
//! the start of their batch of i; C, the makespan. Let m_ic = Σ_d y_id · (mean over inputs of the time of their batch
//! of i, if it is on class c, else 0), and m_i = Σ_c m_ic. Minimise C subject to
//!
//! * Σ_d y_id = 1 for every op i.
//! * Loads: n_c · C ≥ Σ of the times of all batches on class c, which has n_c devices.
//! * Memory, for each class whose devices all have limits: Σ of the bytes that batches on c hold ≤ Σ of the limits.
//! * Paths: C ≥ s_i + m_i, and s_j ≥ s_i + m_i + δ_ij for every edge i → j.
//! * Delays: δ_ij = Σ_ab f_ab · delay_ab, where f_ab is the share of inputs that go from a batch of class and size a
//!   of i to one of b of j, with margins Σ_b f_ab and Σ_a f_ab given by y_i and y_j. Batches of a and b inputs on
//!   different devices exchange at least max(1, a + b − L) of them.
//! * Windows: s_j − s_i − m_i ≥ Σ m_kc / n_c over the ops k between i and j, for every class c; likewise from the
//!   beginning, and to C. These rows are separated.
//!
//! Large batches save work and take long, small ones the reverse: no division is good for both loads and paths. The
//! rows are satisfied by every plan, so the optimum is a lower bound; its dual, rounded to integers, is the evidence.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_proof::division_lp::class_routes::FastestRoutes;
use divvy_proof::evidence::{Evidence, PricedEdge, WorkWindow};
use divvy_solver::{Column, Program, Terms};

use crate::division_lp::op_divisions::{ClassWindow, OpDivisions, time_of};

/// The most windows added after a solve, for each op.
const WINDOWS_PER_OP: usize = 3;
/// The least violation of a row, as a share of the makespan.
const LEAST_VIOLATION: f64 = 1e-6;

/// Duals are rounded to multiples of 1 / this.
pub(crate) const DUAL_SCALE: f64 = (1u64 << 30) as f64;

/// Which rows the program has: each kind with those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum ProgramDetail {
    /// Loads and memory.
    Loads,
    /// Paths without delays, and windows.
    Paths,
    /// Paths with delays, and windows.
    Delays,
}

/// A program, and the meaning of its columns and rows.
pub(crate) struct DivisionProgram {
    pub(crate) program: Program,
    /// The unit of time, in picoseconds.
    pub(crate) unit: f64,
    /// The row of each class's load.
    pub(crate) loads: Vec<usize>,
    /// The row of each class's memory, if it has one.
    pub(crate) memory: Vec<Option<usize>>,
    /// For each edge with a row: its index, its row, and the first row of the producer's margins.
    pub(crate) edges: Vec<(usize, usize, Option<usize>)>,
    /// The makespan C.
    pub(crate) end: Column,
    /// The starts s.
    pub(crate) starts: Vec<Column>,
    /// For each op and class, −m.
    pub(crate) mean_times: Vec<Terms>,
    /// The windows whose rows were added.
    pub(crate) windows: Vec<ClassWindow>,
    /// The row of the first window.
    pub(crate) first_window: usize,
}

impl DivisionProgram {
    /// The program without windows.
    pub(crate) fn new(problem: &Problem, divisions: &OpDivisions, detail: ProgramDetail) -> DivisionProgram {
        let ops = divisions.of_op.len();
        let unit = divisions.unit(problem);
        let mut program = Program::new();
        let end = program.column(0.0, f64::INFINITY, 1.0);
        let mut divided: Vec<Vec<Column>> = Vec::with_capacity(ops);
        for all in &divisions.of_op {
            divided.push(all.iter().map(|_| program.column(0.0, f64::INFINITY, 0.0)).collect());
            let terms: Terms = divided[divided.len() - 1].iter().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &terms, 1.0);
        }
        let mut loads = Vec::new();
        for (class, &devices) in divisions.devices.iter().enumerate() {
            let mut terms = vec![(end, devices as f64)];
            for (op, columns) in divided.iter().enumerate() {
                for (division, &column) in divisions.of_op[op].iter().zip(columns) {
                    let here =
                        division.iter().filter(|(size, _)| divisions.class_sizes[*size].class == class);
                    let load: f64 = here
                        .map(|&(size, n)| f64::from(n) * time_of(problem, op, divisions.class_sizes[size]))
                        .sum();
                    if load > 0.0 {
                        terms.push((column, -load / unit));
                    }
                }
            }
            loads.push(program.row_count());
            program.at_least(0.0, &terms);
        }
        let memory = divisions
            .memory
            .as_ref()
            .map_or_else(Vec::new, |memory| memory.add_rows(&mut program, divisions, &divided));
        let mut built = DivisionProgram {
            program,
            unit,
            loads,
            memory,
            edges: Vec::new(),
            end,
            starts: Vec::new(),
            mean_times: Vec::new(),
            windows: Vec::new(),
            first_window: 0,
        };
        if detail >= ProgramDetail::Paths {
            let starts: Vec<Column> =
                (0..ops).map(|_| built.program.column(0.0, f64::INFINITY, 0.0)).collect();
            let classes = divisions.devices.len();
            let mean = |place: usize| {
                let (op, class) = (place / classes, place % classes);
                divisions.mean_times(problem, unit, op, class, &divided[op])
            };
            built.mean_times = (0..ops * classes).map(mean).collect();
            built.starts.clone_from(&starts);
            let mean_times = built.mean_times.clone();
            let mean = |op: usize| merged_terms(&mean_times[op * classes..][..classes]);
            for (op, &start) in starts.iter().enumerate() {
                let mut terms = mean(op);
                terms.extend([(end, 1.0), (start, -1.0)]);
                built.program.at_least(0.0, &terms);
            }
            let routes = FastestRoutes::new(problem);
            for (edge, &(from, to, bytes)) in divisions.edges.iter().enumerate() {
                let mut terms = mean(from);
                terms.extend([(starts[to], 1.0), (starts[from], -1.0)]);
                let margins = (detail == ProgramDetail::Delays).then(|| {
                    built.add_transfers(divisions, &routes, [from, to], bytes, &divided, &mut terms)
                });
                built.edges.push((edge, built.program.row_count(), margins));
                built.program.at_least(0.0, &terms);
            }
        }
        built.first_window = built.program.row_count();
        built
    }

    /// The windows that a solution violates most.
    pub(crate) fn violated_windows(
        &self,
        divisions: &OpDivisions,
        reach: &[Vec<bool>],
        values: &[f64],
    ) -> Vec<ClassWindow> {
        let (ops, classes) = (divisions.of_op.len(), divisions.devices.len());
        let value = |column: Column| values[column.index()];
        let mean = |place: usize| -> f64 {
            self.mean_times[place].iter().map(|&(column, factor)| -factor * value(column)).sum()
        };
        let mean_times: Vec<f64> = (0..ops * classes).map(mean).collect();
        let start = |op: usize| value(self.starts[op]);
        let ended = |op: usize| start(op) + mean_times[op * classes..][..classes].iter().sum::<f64>();
        let least = value(self.end) * LEAST_VIOLATION;
        let mut found: Vec<(f64, ClassWindow)> = Vec::new();
        let mut loads = vec![0.0; ops * classes];
        for from in std::iter::once(None).chain((0..ops).map(Some)) {
            let follows: Vec<usize> = (divisions.order.iter().copied())
                .filter(|&op| from.is_none_or(|from: usize| reach[from][op]))
                .collect();
            // For each op, the work of its ancestors on each class; and all work.
            loads.fill(0.0);
            let mut all = vec![0.0; classes];
            for &op in &follows {
                let own = &mean_times[op * classes..][..classes];
                all.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                for &to in follows.iter().filter(|&&to| reach[op][to]) {
                    loads[to * classes..][..classes].iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                }
            }
            let begin = from.map_or(0.0, ended);
            for class in 0..classes {
                let devices = divisions.devices[class].max(1) as f64;
                let mut check = |to: Option<usize>, load: f64, available: f64| {
                    if load / devices - available > least {
                        found.push((load / devices - available, (from, to, class)));
                    }
                };
                check(None, all[class], value(self.end) - begin);
                follows
                    .iter()
                    .for_each(|&to| check(Some(to), loads[to * classes + class], start(to) - begin));
            }
        }
        found.retain(|(_, window)| !self.windows.contains(window));
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.truncate(WINDOWS_PER_OP * ops.max(30));
        found.into_iter().map(|(_, window)| window).collect()
    }

    /// The row of a window.
    pub(crate) fn window_terms(
        &self,
        divisions: &OpDivisions,
        reach: &[Vec<bool>],
        window: ClassWindow,
    ) -> Terms {
        let (from, to, class) = window;
        let classes = divisions.devices.len();
        let devices = divisions.devices[class].max(1) as f64;
        let mut terms = vec![(to.map_or(self.end, |to| self.starts[to]), 1.0)];
        if let Some(from) = from {
            terms.push((self.starts[from], -1.0));
            terms.extend(merged_terms(&self.mean_times[from * classes..][..classes]));
        }
        for (op, leads) in reach.iter().enumerate() {
            let follows = from.is_none_or(|from| reach[from][op]);
            if follows && to.is_none_or(|to| leads[to]) {
                let work = self.mean_times[op * classes + class].iter();
                terms.extend(work.map(|&(column, factor)| (column, factor / devices)));
            }
        }
        terms
    }

    /// Adds the columns f of an edge and their margin rows, and −δ to the edge's row; returns the first of the
    /// producer's margin rows.
    pub(crate) fn add_transfers(
        &mut self,
        divisions: &OpDivisions,
        routes: &FastestRoutes<'_>,
        [from, to]: [usize; 2],
        bytes: u64,
        divided: &[Vec<Column>],
        terms: &mut Terms,
    ) -> usize {
        let count = divisions.class_sizes.len();
        let margin = |op: usize, size: usize| -> Terms {
            let share = f64::from(divisions.class_sizes[size].size) / f64::from(divisions.inputs);
            let each = divisions.of_op[op].iter().zip(&divided[op]);
            let with = each.filter_map(|(division, &column)| {
                let n = division.iter().find(|(s, _)| *s == size)?.1;
                Some((column, -share * f64::from(n)))
            });
            with.collect()
        };
        let mut sent: Vec<Terms> = (0..count).map(|size| margin(from, size)).collect();
        let mut received: Vec<Terms> = (0..count).map(|size| margin(to, size)).collect();
        let used = |rows: &[Terms]| -> Vec<bool> { rows.iter().map(|row| !row.is_empty()).collect() };
        let (sends, receives) = (used(&sent), used(&received));
        for here in (0..count).filter(|&size| sends[size]) {
            for there in (0..count).filter(|&size| receives[size]) {
                let [a, b] = [divisions.class_sizes[here], divisions.class_sizes[there]];
                let moved = (a.size + b.size).saturating_sub(divisions.inputs).max(1);
                let Some(delay) = routes.delay(a.class, b.class, bytes * u64::from(moved)) else { continue };
                let column = self.program.column(0.0, f64::INFINITY, 0.0);
                sent[here].push((column, 1.0));
                received[there].push((column, 1.0));
                if delay > 0 {
                    terms.push((column, -(delay as f64) / self.unit));
                }
            }
        }
        let first = self.program.row_count();
        sent.iter().chain(&received).for_each(|row| self.program.row(0.0, row, 0.0));
        first
    }

    /// The rounded dual as evidence.
    pub(crate) fn evidence(&self, problem: &Problem, divisions: &OpDivisions, duals: &[f64]) -> Evidence {
        let weight = |device| rounded_dual(duals[self.loads[problem.hardware.class_of(device).index()]]);
        let weights = problem.hardware.devices().map(weight).collect();
        let (flows, windows) = self.priced_rows(problem, divisions, duals);
        let memory = self.memory_prices(problem, divisions, duals);
        Evidence::DivisionLp { weights, flows, windows, memory }
    }

    /// The rounded duals of memory; nothing if all are 0.
    fn memory_prices(&self, problem: &Problem, divisions: &OpDivisions, duals: &[f64]) -> Vec<u64> {
        let price = |device: DeviceId| {
            let class = problem.hardware.class_of(device).index();
            let (row, memory) = self.memory.get(class).copied().flatten().zip(divisions.memory.as_ref())?;
            let price = duals[row].max(0.0) * self.unit / memory.unit(class) * f64::from(divisions.inputs);
            Some((price * DUAL_SCALE).round() as u64)
        };
        let prices: Vec<u64> = problem.hardware.devices().map(|device| price(device).unwrap_or(0)).collect();
        if prices.iter().all(|&price| price == 0) { Vec::new() } else { prices }
    }

    /// The rounded duals of edges and windows.
    pub(crate) fn priced_rows(
        &self,
        problem: &Problem,
        divisions: &OpDivisions,
        duals: &[f64],
    ) -> (Vec<PricedEdge>, Vec<WorkWindow>) {
        let mut flows = Vec::new();
        for &(edge, row, margins) in &self.edges {
            let (from, to, _) = divisions.edges[edge];
            let times = rounded_dual(duals[row]);
            if times == 0 {
                continue;
            }
            // The price for one input and one unit of the edge's dual. A size in no division must not set the
            // consumers' prices.
            let price = |first: usize, size: usize| {
                let is_used = divisions.of_op[from].iter().flatten().any(|&(used, _)| used == size);
                let price = duals[first + size] / duals[row] * self.unit;
                if is_used { price.round().clamp(-1e17, 1e17) as i64 } else { -(1 << 60) }
            };
            let prices = match margins {
                Some(first) => (0..divisions.class_sizes.len()).map(|size| price(first, size)).collect(),
                None => Vec::new(),
            };
            flows.push(PricedEdge { from: OpId::new(from), to: OpId::new(to), times, prices });
        }
        let mut windows = Vec::new();
        for (&(from, to, class), &dual) in self.windows.iter().zip(&duals[self.first_window..]) {
            let times = rounded_dual(dual / divisions.devices[class].max(1) as f64);
            let of_class = |&device: &DeviceId| problem.hardware.class_of(device).index() == class;
            for device in problem.hardware.devices().filter(of_class).filter(|_| times > 0) {
                windows.push(WorkWindow { from: from.map(OpId::new), to: to.map(OpId::new), device, times });
            }
        }
        (flows, windows)
    }
}

/// A dual as a multiple of 1 / [`DUAL_SCALE`], at least 0.
pub(crate) fn rounded_dual(dual: f64) -> u64 {
    (dual.max(0.0) * DUAL_SCALE).round() as u64
}

/// The sum of the terms of an op over classes, with every column once.
pub(crate) fn merged_terms(mean_times: &[Terms]) -> Terms {
    let mut terms: Terms = mean_times.iter().flatten().copied().collect();
    terms.sort_by_key(|(column, _)| column.index());
    terms.dedup_by(|next, kept| {
        let same = next.0.index() == kept.0.index();
        if same {
            kept.1 += next.1;
        }
        same
    });
    terms
}
