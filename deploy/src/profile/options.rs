//! What is measured, and how often.

use std::path::PathBuf;

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// Cores of devices, such as `cpu1=0,2-3`; the others have an equal share.
    pub cores: Vec<String>,
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
