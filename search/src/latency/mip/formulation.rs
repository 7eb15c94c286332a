//! DiviML's program for one input, constraints (1)–(3), (6) and (7), with a tight relaxation.
//!
//! Columns: x_iu ∈ {0, 1}, op i runs on device u; s_i ≥ 0, the start of i (with one input an op starts once, so there
//! is no start per device); C, the makespan. Minimise C subject to
//!
//! * (1) Σ_u x_iu = 1 over the allowed devices of i.
//! * (2) C ≥ s_i + Σ_u (t_iu + tail_iu) x_iu, with tail_iu the longest path behind i on u. Likewise s_i ≥ Σ_u head_iu
//!   x_iu.
//! * (3) s_j ≥ s_i + Σ_u t_iu x_iu + d_ij for every edge i → j. If the delay is the same constant d between any two
//!   distinct devices, d_ij = d Σ_u w_u with w_u ≥ x_iu − x_ju. Otherwise d_ij = Σ_uv delay_uv z_uv, where the
//!   margins of z are x_i and x_j; pairs without a route have no z. Both forms describe the convex hull of the two
//!   ops' choices.
//! * (6) For each device with a limit, Σ bytes_i x_iu + Σ_p bytes_p y_pu ≤ limit, where y_pu ≥ x_iu for each reader i
//!   of the shared parameter p.
//! * (7) For ops i, j on no common path that may share a device: a_ij, a_ji ∈ {0, 1} with a_ij + a_ji ≥ x_iu + x_ju −
//!   1 for each device, and s_j ≥ s_i + Σ_u t_iu x_iu − M (1 − a_ij). M is the latest end of i minus the earliest
//!   start of j over schedules no longer than the horizon: the least M that keeps all of those.
//! * Colocation: x_iu = x_ju. Symmetry: of interchangeable devices, the next is used only after the one before it, in
//!   canonical order of the first ops.
//!
//! Devices on which an op is in no schedule within the horizon are left out.

use divvy_proof::latency_tables::NEVER;
use divvy_solver::{Column, Program, Terms};

use crate::latency::mip::scale::Scale;
use crate::latency::subproblem::{Subproblem, SubproblemSchedule};

/// The number of ops, from the first on, with rows against symmetry.
const ORDERED_OPS: usize = 12;

/// The program, and the meaning of its columns.
pub(crate) struct MipFormulation {
    pub(crate) program: Program,
    /// For each op, its devices and their columns.
    pub(crate) x: Vec<Vec<(u32, Column)>>,
    pub(crate) start: Vec<Column>,
    pub(crate) end: Column,
    head: Vec<Vec<u64>>,
    tail: Vec<Vec<u64>>,
    transfers: Vec<EdgeColumns>,
    /// Whether a device holds a shared parameter: column, device, number of the parameter.
    reads: Vec<(Column, u32, usize)>,
    orders: Vec<OrderColumns>,
    symmetric: Vec<Vec<u32>>,
}

/// The columns of an edge: w or z.
struct EdgeColumns {
    from: usize,
    to: usize,
    /// Column, device of the producer, and for z the device of the consumer.
    columns: Vec<(Column, u32, Option<u32>)>,
}

/// The columns a_ij and a_ji of two ops; none where that order is impossible.
struct OrderColumns {
    ops: [usize; 2],
    first: [Option<Column>; 2],
}

impl MipFormulation {
    /// The program without (7). None if some op has no device within the horizon.
    pub(crate) fn new(part: &Subproblem<'_>, scale: &Scale, horizon: u64) -> Option<MipFormulation> {
        let (head, tail) = part.heads_and_tails();
        let mut program = Program::new();
        let end = program.column(0.0, scale.units(horizon), 1.0);
        let mut x: Vec<Vec<(u32, Column)>> = Vec::with_capacity(part.op_count());
        let mut start = Vec::with_capacity(part.op_count());
        for op in 0..part.op_count() {
            let whole = |d: u32| head[op][d as usize] + part.time(op, d) + tail[op][d as usize];
            let devices = part.allowed[op].iter().copied().filter(|&d| whole(d) <= horizon);
            let columns: Vec<(u32, Column)> = devices.map(|d| (d, program.binary())).collect();
            let earliest = columns.iter().map(|&(d, _)| head[op][d as usize]).min()?;
            let latest =
                columns.iter().map(|&(d, _)| horizon - part.time(op, d) - tail[op][d as usize]).max()?;
            start.push(program.column(scale.units(earliest), scale.units(latest), 0.0));
            x.push(columns);
        }
        let mut new = MipFormulation {
            program,
            x,
            start,
            end,
            head,
            tail,
            transfers: Vec::new(),
            reads: Vec::new(),
            orders: Vec::new(),
            symmetric: part.symmetric.clone(),
        };
        new.assign_devices(part, scale);
        new.add_transfers(part, scale);
        new.colocate(part);
        new.limit_memory(part);
        new.break_symmetry();
        Some(new)
    }

    /// Rows (1) and (2), and heads.
    fn assign_devices(&mut self, part: &Subproblem<'_>, scale: &Scale) {
        for op in 0..part.op_count() {
            let each = |factor: &dyn Fn(u32) -> f64| -> Terms {
                self.x[op].iter().map(|&(d, column)| (column, factor(d))).collect()
            };
            let one = each(&|_| 1.0);
            let mut after = each(&|d| -scale.units(part.time(op, d) + self.tail[op][d as usize]));
            after.extend([(self.end, 1.0), (self.start[op], -1.0)]);
            let mut before = each(&|d| -scale.units(self.head[op][d as usize]));
            before.push((self.start[op], 1.0));
            self.program.row(1.0, &one, 1.0);
            self.program.at_least(0.0, &after);
            self.program.at_least(0.0, &before);
        }
    }

    /// The terms of an op's end, times a factor.
    pub(crate) fn end_of(&self, part: &Subproblem<'_>, scale: &Scale, op: usize, factor: f64) -> Terms {
        let times = self.x[op].iter().map(|&(d, x)| (x, factor * scale.units(part.time(op, d))));
        times.chain([(self.start[op], factor)]).collect()
    }

    /// Rows (3).
    fn add_transfers(&mut self, part: &Subproblem<'_>, scale: &Scale) {
        for to in 0..part.op_count() {
            for edge in &part.inputs[to] {
                let from = edge.op as usize;
                let mut row = self.end_of(part, scale, from, -1.0);
                row.push((self.start[to], 1.0));
                let delay = |u: u32, v: u32| part.delay(edge.size, u, v);
                let are_colocated =
                    part.colocated.iter().any(|group| group.contains(&from) && group.contains(&to));
                if !are_colocated {
                    match self.uniform_delay(from, to, &delay) {
                        Some(0) => {}
                        Some(delay) => self.add_uniform_delay(from, to, scale.units(delay), &mut row),
                        None => self.add_delays(
                            from,
                            to,
                            &|u, v| {
                                let delay = delay(u, v);
                                (delay < NEVER).then(|| scale.units(delay))
                            },
                            &mut row,
                        ),
                    }
                }
                self.program.at_least(0.0, &row);
            }
        }
    }

    /// The delay between distinct devices of an edge's ends if it is the same for all of them.
    fn uniform_delay(&self, from: usize, to: usize, delay: &dyn Fn(u32, u32) -> u64) -> Option<u64> {
        let mut found = None;
        for &(u, _) in &self.x[from] {
            for &(v, _) in &self.x[to] {
                let delay = delay(u, v);
                if u == v {
                    continue;
                }
                if delay >= NEVER || found.is_some_and(|found| found != delay) {
                    return None;
                }
                found = Some(delay);
            }
        }
        Some(found.unwrap_or(0))
    }

    /// Adds d Σ w to a row (3).
    fn add_uniform_delay(&mut self, from: usize, to: usize, delay: f64, row: &mut Terms) {
        let mut columns = Vec::new();
        for (u, x_from) in self.x[from].clone() {
            let there = self.x[to].iter().find(|&&(v, _)| v == u).map(|&(_, x_to)| x_to);
            let Some(x_to) = there else {
                // The consumer is never there.
                row.push((x_from, -delay));
                continue;
            };
            let moved = self.program.column(0.0, 1.0, 0.0);
            self.program.at_least(0.0, &[(moved, 1.0), (x_from, -1.0), (x_to, 1.0)]);
            row.push((moved, -delay));
            columns.push((moved, u, None));
        }
        self.transfers.push(EdgeColumns { from, to, columns });
    }

    /// Adds Σ delay z to a row (3).
    fn add_delays(
        &mut self,
        from: usize,
        to: usize,
        delay: &dyn Fn(u32, u32) -> Option<f64>,
        row: &mut Terms,
    ) {
        let mut columns = Vec::new();
        let mut margins_to: Vec<Terms> = self.x[to].iter().map(|&(_, x)| vec![(x, -1.0)]).collect();
        for (u, x_from) in self.x[from].clone() {
            let mut margin: Terms = vec![(x_from, -1.0)];
            for (k, (v, _)) in self.x[to].clone().into_iter().enumerate() {
                let Some(delay) = delay(u, v) else { continue };
                let both = self.program.column(0.0, 1.0, 0.0);
                margin.push((both, 1.0));
                margins_to[k].push((both, 1.0));
                row.push((both, -delay));
                columns.push((both, u, Some(v)));
            }
            self.program.row(0.0, &margin, 0.0);
        }
        for margin in margins_to {
            self.program.row(0.0, &margin, 0.0);
        }
        self.transfers.push(EdgeColumns { from, to, columns });
    }

    /// Rows of colocation groups.
    fn colocate(&mut self, part: &Subproblem<'_>) {
        for pair in part.colocated.iter().flat_map(|group| group.windows(2)) {
            let column = |op: usize, d: u32| self.x[op].iter().find(|x| x.0 == d).map(|x| x.1);
            for d in 0..part.device_count() as u32 {
                let terms: Terms = [(pair[0], 1.0), (pair[1], -1.0)]
                    .into_iter()
                    .filter_map(|(op, sign)| Some((column(op, d)?, sign)))
                    .collect();
                if !terms.is_empty() {
                    self.program.row(0.0, &terms, 0.0);
                }
            }
        }
    }

    /// Rows (6).
    fn limit_memory(&mut self, part: &Subproblem<'_>) {
        for (d, limit) in part.memory.limits.iter().enumerate() {
            let Some(limit) = *limit else { continue };
            let d = d as u32;
            // Small limits stay in bytes and hence exact.
            let unit = (limit as f64 / 1e6).max(1.0);
            let mut row: Terms = Vec::new();
            for op in 0..part.op_count() {
                let column = self.x[op].iter().find(|x| x.0 == d);
                row.extend(column.map(|x| (x.1, part.memory.held[op] as f64 / unit)));
            }
            for (number, (bytes, readers)) in part.memory.shared.iter().enumerate() {
                let there: Vec<Column> = (readers.iter())
                    .filter_map(|&op| self.x[op].iter().find(|x| x.0 == d).map(|x| x.1))
                    .collect();
                if there.is_empty() {
                    continue;
                }
                let read = self.program.column(0.0, 1.0, 0.0);
                for x in there {
                    self.program.at_least(0.0, &[(read, 1.0), (x, -1.0)]);
                }
                row.push((read, *bytes as f64 / unit));
                self.reads.push((read, d, number));
            }
            self.program.at_most(&row, limit as f64 / unit);
        }
    }

    /// Of interchangeable devices, a later one runs an op only if the one before it runs an earlier op.
    fn break_symmetry(&mut self) {
        for group in self.symmetric.clone() {
            for pair in group.windows(2) {
                let mut earlier: Terms = Vec::new();
                for op in 0..self.x.len().min(ORDERED_OPS) {
                    let column = |d: u32| self.x[op].iter().find(|x| x.0 == d).map(|x| x.1);
                    let (before, after) = (column(pair[0]), column(pair[1]));
                    if let Some(after) = after {
                        let row: Terms = earlier.iter().copied().chain([(after, -1.0)]).collect();
                        self.program.at_least(0.0, &row);
                    }
                    earlier.extend(before.map(|column| (column, 1.0)));
                }
            }
        }
    }

    /// Rows (7).
    pub(crate) fn forbid_overlap(&mut self, part: &Subproblem<'_>, scale: &Scale, horizon: u64) {
        for (i, after) in descendants(part).iter().enumerate() {
            for j in i + 1..part.op_count() {
                if !after.has(j) {
                    self.order_pair(part, scale, horizon, [i, j]);
                }
            }
        }
    }

    /// Rows (7) of two ops, unless the horizon decides their order or they share no device.
    fn order_pair(&mut self, part: &Subproblem<'_>, scale: &Scale, horizon: u64, ops: [usize; 2]) {
        let shared: Vec<[Column; 2]> = (self.x[ops[0]].iter())
            .filter_map(|&(d, a)| Some([a, self.x[ops[1]].iter().find(|x| x.0 == d)?.1]))
            .collect();
        let devices = |op: usize| self.x[op].iter().map(|x| x.0);
        let earliest = |op: usize| devices(op).map(|d| self.head[op][d as usize]).min().unwrap_or(0);
        let latest_end =
            |op: usize| horizon - devices(op).map(|d| self.tail[op][d as usize]).min().unwrap_or(0);
        let earliest_end =
            |op: usize| devices(op).map(|d| self.head[op][d as usize] + part.time(op, d)).min().unwrap_or(0);
        let latest_start = |op: usize| {
            let rest = devices(op).map(|d| part.time(op, d) + self.tail[op][d as usize]).min();
            horizon - rest.unwrap_or(0)
        };
        let [i, j] = ops;
        let apart = |a: usize, b: usize| latest_end(a) <= earliest(b);
        if shared.is_empty() || apart(i, j) || apart(j, i) {
            return;
        }
        let mut first = [None, None];
        for (side, [a, b]) in [[i, j], [j, i]].into_iter().enumerate() {
            if earliest_end(a) > latest_start(b) {
                continue;
            }
            let big = scale.units(latest_end(a) - earliest(b));
            let before = self.program.binary();
            let mut row = self.end_of(part, scale, a, -1.0);
            row.extend([(self.start[b], 1.0), (before, -big)]);
            self.program.at_least(-big, &row);
            first[side] = Some(before);
        }
        let firsts: Terms = first.into_iter().flatten().map(|column| (column, 1.0)).collect();
        for [a, b] in shared {
            let row: Terms = firsts.iter().copied().chain([(a, -1.0), (b, -1.0)]).collect();
            self.program.at_least(-1.0, &row);
        }
        if firsts.len() == 2 {
            self.program.at_most(&firsts, 1.0);
        }
        self.orders.push(OrderColumns { ops, first });
    }

    /// The solution that a schedule corresponds to.
    pub(crate) fn values(
        &self,
        part: &Subproblem<'_>,
        scale: &Scale,
        schedule: &SubproblemSchedule,
    ) -> Vec<f64> {
        let device = self.relabelled(part, schedule);
        let mut values = vec![0.0; self.program.column_count()];
        values[self.end.index()] = scale.units(schedule.value);
        let end = |op: usize| schedule.start[op] + part.time(op, schedule.device[op]);
        for op in 0..part.op_count() {
            values[self.start[op].index()] = scale.units(schedule.start[op]);
            for &(d, column) in &self.x[op] {
                values[column.index()] = f64::from(u8::from(device[op] == d));
            }
        }
        for transfer in &self.transfers {
            for &(column, u, v) in &transfer.columns {
                let is_used = match v {
                    Some(v) => device[transfer.from] == u && device[transfer.to] == v,
                    None => device[transfer.from] == u && device[transfer.to] != u,
                };
                values[column.index()] = f64::from(u8::from(is_used));
            }
        }
        for &(column, d, number) in &self.reads {
            let reads = part.memory.shared[number].1.iter().any(|&op| device[op] == d);
            values[column.index()] = f64::from(u8::from(reads));
        }
        for order in &self.orders {
            let [i, j] = order.ops;
            let goes_first = end(i) <= schedule.start[j];
            let side = if goes_first { 0 } else { 1 };
            let holds = goes_first || end(j) <= schedule.start[i];
            if let Some(column) = order.first[side].filter(|_| holds) {
                values[column.index()] = 1.0;
            }
        }
        values
    }

    /// A schedule's devices, with interchangeable ones renumbered in the order of use.
    fn relabelled(&self, part: &Subproblem<'_>, schedule: &SubproblemSchedule) -> Vec<u32> {
        let mut name: Vec<Option<u32>> = vec![None; part.device_count()];
        for group in &self.symmetric {
            let mut free = group.iter().copied();
            for &d in &schedule.device {
                if group.contains(&d) && name[d as usize].is_none() {
                    name[d as usize] = free.next();
                }
            }
        }
        schedule.device.iter().map(|&d| name[d as usize].unwrap_or(d)).collect()
    }

    /// The device and the start of each op in a solution of the program.
    pub(crate) fn read(&self, values: &[f64]) -> (Vec<u32>, Vec<f64>) {
        let most = |columns: &Vec<(u32, Column)>| {
            let chosen = columns.iter().max_by(|a, b| values[a.1.index()].total_cmp(&values[b.1.index()]));
            chosen.map_or(0, |x| x.0)
        };
        let start = self.start.iter().map(|column| values[column.index()]).collect();
        (self.x.iter().map(most).collect(), start)
    }
}

/// A set of ops of a subproblem.
#[derive(Clone)]
pub(crate) struct OpSet(Vec<u64>);

impl OpSet {
    fn empty(ops: usize) -> OpSet {
        OpSet(vec![0; ops.div_ceil(64)])
    }

    pub(crate) fn has(&self, op: usize) -> bool {
        self.0[op / 64] >> (op % 64) & 1 == 1
    }

    fn add(&mut self, op: usize) {
        self.0[op / 64] |= 1 << (op % 64);
    }

    fn add_all(&mut self, other: &OpSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// The descendants of each op.
pub(crate) fn descendants(part: &Subproblem<'_>) -> Vec<OpSet> {
    let mut after = vec![OpSet::empty(part.op_count()); part.op_count()];
    for op in (0..part.op_count()).rev() {
        for edge in &part.outputs[op] {
            let next = after[edge.op as usize].clone();
            after[op].add(edge.op as usize);
            after[op].add_all(&next);
        }
    }
    after
}

/// An estimate of the number of non-zero coefficients of the program.
pub(crate) fn factor_count(part: &Subproblem<'_>) -> usize {
    let ops = part.op_count();
    let comparable: usize = descendants(part).iter().map(OpSet::len).sum();
    let devices = part.allowed.iter().map(Vec::len).max().unwrap_or(0);
    let pairs = (ops * ops.saturating_sub(1) / 2).saturating_sub(comparable);
    let edges: usize = part.inputs.iter().map(Vec::len).sum();
    let is_uniform = part.inputs.iter().flatten().all(|edge| {
        let mut pairs = (0..devices as u32).flat_map(|u| (0..devices as u32).map(move |v| (u, v)));
        let first = part.delay(edge.size, 0, devices.saturating_sub(1) as u32);
        pairs.all(|(u, v)| u == v || part.delay(edge.size, u, v) == first)
    });
    let per_edge = devices + 2 + if is_uniform { 4 * devices } else { 3 * devices * devices };
    pairs * (2 * (devices + 3) + 4 * devices + 2) + edges * per_edge + ops * (3 * devices + 4)
}
