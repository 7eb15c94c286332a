//! What is measured, and how often.

use std::path::PathBuf;

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Cores of devices, such as `cpu1=0,2-3`; the others have an equal share.
    pub cores: Vec<String>,
    /// What devices are here, such as `gpu1=cuda:0`; the others are cores if they are CPUs, and CUDA cards in order if GPUs.
    pub devices: Vec<String>,
    /// Whether it is for cold starts: cards are fed weights, and what their bus does is measured.
    pub cold_start: bool,
    /// How many inputs run at once; each is a batch size of the profile.
    pub batch_sizes: Vec<u32>,
    /// Runs that count, once plain and once with every kernel timed.
    pub repeat: u64,
    /// Runs before those.
    pub warm_up: u64,
    /// Seed of inputs, and of weights that are missing.
    pub seed: u64,
    /// Random whole numbers are below this.
    pub int_below: u64,
    /// What is done is kept in this file until all is.
    pub checkpoint: PathBuf,
}
