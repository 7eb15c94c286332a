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
    /// Takes what the one piece of the whole model costs out of its ops' times: hardware has it.
    pub(super) fn leave_out(&mut self, piece: f64) {
        let sum: f64 = self.ops.iter().sum();
        if sum > 0.0 {
            let share = (1.0 - piece / sum).max(LEAST_SHARE);
            self.ops.iter_mut().for_each(|time| *time *= share);
        }
    }
}
