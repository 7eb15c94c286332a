//! Slicing as published (Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference", Algorithms 1, 4
//! and 5): a table of all segment costs, then a dynamic program over it. Identical devices, no overflow, one output
//! per op. It shares nothing with the slicer but the tables it reads the problem from.

use divvy_search::pipeline::PipelineTables;

/// The value of the best slices into at most `stages` stages: O(n²k) on a table of costs by row (`first`, `last`).
pub(crate) fn dynamic_program(costs: &[Vec<u64>], stages: usize) -> u64 {
    let count = costs.len();
    // best[r]: the first r ops in the stages so far.
    let mut best: Vec<u64> = (0..=count).map(|r| if r == 0 { 0 } else { costs[0][r - 1] }).collect();
    for _ in 1..stages {
        let mut next = best.clone();
        for (r, value) in next.iter_mut().enumerate().skip(1) {
            for l in 0..r {
                *value = (*value).min(best[l].max(costs[l][r - 1]));
            }
        }
        best = next;
    }
    best[count]
}

/// Work of each place and, for each op with consumers, its transfer time and the places of it and its consumers.
struct Sequence {
    work: Vec<u64>,
    tensors: Vec<(u64, Vec<usize>)>,
}

fn sequence(tables: &PipelineTables, order: &[u32]) -> Sequence {
    let mut place = vec![0; order.len()];
    for (i, &op) in order.iter().enumerate() {
        place[op as usize] = i;
    }
    let tensor = |t: usize| {
        let mut places: Vec<usize> = tables.consumers(t).iter().map(|&op| place[op as usize]).collect();
        places.push(place[tables.producer(t) as usize]);
        places.sort_unstable();
        (tables.leave(t, 0), places)
    };
    let read = |&t: &usize| !tables.consumers(t).is_empty();
    Sequence {
        work: order.iter().map(|&op| tables.work(op as usize, 0)).collect(),
        tensors: (0..tables.tensor_count()).filter(read).map(tensor).collect(),
    }
}

/// All segment costs, each from the one that is shorter by an op: O(n² + nm).
pub(crate) fn costs_by_segments(tables: &PipelineTables, order: &[u32]) -> Vec<Vec<u64>> {
    let sequence = sequence(tables, order);
    let count = order.len();
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (t, (_, places)) in sequence.tensors.iter().enumerate() {
        places.iter().for_each(|&place| at[place].push(t));
    }
    let mut costs = vec![vec![0; count]; count];
    let mut hit = vec![0usize; sequence.tensors.len()];
    for (first, costs) in costs.iter_mut().enumerate() {
        hit.fill(0);
        let mut cost = 0;
        for last in first..count {
            cost += sequence.work[last];
            for &t in &at[last] {
                let (time, places) = &sequence.tensors[t];
                hit[t] += 1;
                // A tensor is paid for while the segment has some of its ops and not all.
                if hit[t] == 1 {
                    cost += time;
                }
                if hit[t] == places.len() {
                    cost -= time;
                }
            }
            costs[last] = cost;
        }
    }
    costs
}

/// All segment costs by rectangle updates of a two-dimensional Fenwick tree: O(n² log² n + m log² n).
pub(crate) fn costs_by_fenwick(tables: &PipelineTables, order: &[u32]) -> Vec<Vec<u64>> {
    let sequence = sequence(tables, order);
    let count = order.len();
    let mut tree = Fenwick::new(count);
    for (time, places) in &sequence.tensors {
        let time = *time as i64;
        tree.add((0, 0), (count - 1, count - 1), time);
        // Segments that lie between two neighbours, before the first or after the last have none of its ops.
        let mut from = 0;
        for &place in places {
            if place > from {
                tree.add((from, from), (place - 1, place - 1), -time);
            }
            from = place + 1;
        }
        if from < count {
            tree.add((from, from), (count - 1, count - 1), -time);
        }
        // Segments from before the first to after the last have all.
        tree.add((0, places[places.len() - 1]), (places[0], count - 1), -time);
    }
    let mut costs = vec![vec![0; count]; count];
    for (first, costs) in costs.iter_mut().enumerate() {
        let mut work = 0;
        for (last, cost) in costs.iter_mut().enumerate().skip(first) {
            work += sequence.work[last];
            *cost = work + u64::try_from(tree.get(first, last)).expect("costs are not negative");
        }
    }
    costs
}

/// Adds to rectangles and reads points, both in O(log² n) (Mishra 2013).
struct Fenwick {
    width: usize,
    sums: Vec<i64>,
}

impl Fenwick {
    fn new(count: usize) -> Fenwick {
        let width = count + 2;
        Fenwick { width, sums: vec![0; width * width] }
    }

    fn add(&mut self, (i1, j1): (usize, usize), (i2, j2): (usize, usize), by: i64) {
        for (i, j, by) in [(i1, j1, by), (i2 + 1, j1, -by), (i1, j2 + 1, -by), (i2 + 1, j2 + 1, by)] {
            let mut i = i + 1;
            while i < self.width {
                let mut j = j + 1;
                while j < self.width {
                    self.sums[i * self.width + j] += by;
                    j += j & j.wrapping_neg();
                }
                i += i & i.wrapping_neg();
            }
        }
    }

    fn get(&self, i: usize, j: usize) -> i64 {
        let mut sum = 0;
        let mut i = i + 1;
        while i > 0 {
            let mut j = j + 1;
            while j > 0 {
                sum += self.sums[i * self.width + j];
                j &= j - 1;
            }
            i &= i - 1;
        }
        sum
    }
}
