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
