//! Op times of a class of devices at a batch size.

/// What was measured of a class of devices at a batch size, in microseconds.
#[derive(Clone, Debug)]
pub struct ClassTimes {
    /// The class.
    pub class: String,
    /// How many inputs ran at once.
    pub batch: u32,
    /// For each op of the problem.
    pub ops: Vec<f64>,
    /// The whole model.
    pub whole: f64,
    /// The distance of the whole model's quarters over its median.
    pub spread: f64,
    /// Ops that the runtime runs as one, by their positions.
    pub fused: Vec<Vec<usize>>,
}

/// At least this share of the whole model's time is put down to its ops.
const LEAST_SHARE: f64 = 0.1;

impl ClassTimes {
    /// Gives ops, by their positions, at least the times that they were seen to take by themselves. All of them together take what
    /// they took: the others have what is left. Of a card the runtime tells how long the host took to start a kernel, which is less
    /// than a large one runs.
    pub(super) fn at_least(&mut self, known: &[(usize, f64)]) {
        let before: f64 = self.ops.iter().sum();
        let mut is_known = vec![false; self.ops.len()];
        for &(op, time) in known {
            if time > self.ops[op] {
                (self.ops[op], is_known[op]) = (time, true);
            }
        }
        let sum = |wanted: bool| {
            let ops = self.ops.iter().zip(&is_known).filter(|(_, known)| **known == wanted);
            ops.map(|(time, _)| time).sum::<f64>()
        };
        let (fixed, others) = (sum(true), sum(false));
        let left = (before - fixed).max(LEAST_SHARE * others);
        for (time, _) in self.ops.iter_mut().zip(&is_known).filter(|(_, known)| !**known) {
            *time *= if others > 0.0 { left / others } else { 1.0 };
        }
        let after: f64 = self.ops.iter().sum();
        if after > 0.0 {
            self.ops.iter_mut().for_each(|time| *time *= before / after);
        }
    }

    /// Takes what the one piece of the whole model costs out of its ops' times: hardware has it.
    pub(super) fn leave_out(&mut self, piece: f64) {
        let sum: f64 = self.ops.iter().sum();
        if sum > 0.0 {
            let share = (1.0 - piece / sum).max(LEAST_SHARE);
            self.ops.iter_mut().for_each(|time| *time *= share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ops: &[f64]) -> ClassTimes {
        let (class, fused) = ("card".to_owned(), Vec::new());
        ClassTimes { class, batch: 1, ops: ops.to_vec(), whole: ops.iter().sum(), spread: 0.0, fused }
    }

    #[test]
    fn large_ops_have_their_own_time_and_others_what_is_left() {
        let mut some = times(&[10.0, 10.0, 10.0, 10.0]);
        some.at_least(&[(3, 25.0), (0, 4.0)]);
        assert_eq!(some.ops, [5.0, 5.0, 5.0, 25.0], "less than it took is no news");
        let mut all = times(&[10.0, 10.0]);
        all.at_least(&[(0, 40.0), (1, 40.0)]);
        assert_eq!(all.ops, [10.0, 10.0]);
        let mut most = times(&[10.0, 10.0]);
        most.at_least(&[(0, 30.0)]);
        assert!((most.ops.iter().sum::<f64>() - 20.0).abs() < 1e-9 && most.ops[0] > 15.0, "{:?}", most.ops);
    }
}
