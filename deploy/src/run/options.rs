//! What a run is asked to do.

use std::path::PathBuf;
use std::time::Duration;

/// What a run is asked to do.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The model's file, if it is no longer where the plan was made from.
    pub model: Option<String>,
    /// Cores of devices, such as `cpu1=0,2-3`; the others have an equal share.
    pub cores: Vec<String>,
    /// What devices are here, such as `gpu1=cuda:0`; the others are cores if they are CPUs, and CUDA cards in order if GPUs.
    pub devices: Vec<String>,
    /// Bytes of a card's memory that may be used; none: as many as are free.
    pub card_memory: Option<u64>,
    /// Files with inputs, `.npz` or `.npy`; without any, inputs are random.
    pub inputs: Vec<PathBuf>,
    /// How many items run; none: as many as `duration` allows, else until the median is certain.
    pub items: Option<u64>,
    /// No item is fed after this time.
    pub duration: Option<Duration>,
    /// With neither `items` nor `duration`: the median need not be certain after this time, turns of the whole model and of
    /// plain ONNX Runtime included.
    pub at_most: Duration,
    /// Whether the run takes turns with plain ONNX Runtime on the same cores, about as long as the plan's own.
    pub compare: bool,
    /// Items before those that count.
    pub warm_up: u64,
    /// Most items under way at once; none: 1 for latency, else two for each stage.
    pub in_flight: Option<u32>,
    /// Whether undisturbed times are of the machine as fast as it is now. Else, where the plan's profile is still there, the
    /// run takes turns with the whole model, and they are brought to the speed that the profile was measured at.
    pub as_is: bool,
    /// Whether every item's results are compared with those of the whole model.
    pub verify: bool,
    /// The largest difference that `verify` lets pass, over the largest value.
    pub tolerance: f64,
    /// Seed of random inputs, and of weights that are missing.
    pub seed: u64,
    /// Random whole numbers are below this.
    pub int_below: u64,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            model: None,
            cores: Vec::new(),
            devices: Vec::new(),
            card_memory: None,
            inputs: Vec::new(),
            items: None,
            duration: None,
            at_most: Duration::from_secs(20),
            compare: true,
            warm_up: 5,
            in_flight: None,
            as_is: false,
            verify: false,
            tolerance: 1e-4,
            seed: 1,
            int_below: 2,
        }
    }
}
